"""``WatchedTime``: how long servers have been watching a chain, whatever any wall clock says.

Days of retention are counted here and nowhere else. Time passes only by the monotonic clock of a process
that has the cache open; what passes while none has is not counted, because nobody can tell how long
that was. So a record is never held for older than it is, and may be held for younger.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

from mcp_notarium.storage.connection import Database

WATCHED: Final = "audit_watched"
"""Row of ``sync_metadata``: milliseconds watched, and marks: what had been watched at which record."""
_DAY_MS: Final = 86_400_000

Mark = tuple[int, int]
"""Milliseconds watched by then, and the number of the newest record then."""


class WatchedTime:
    """One process's part in it. ``stopwatch`` gives seconds of a clock that nobody sets.

    Every process adds what it saw pass since it last read the row. Several may do so at once: the row
    is only ever raised to what one of them has seen. A mark that another process made meanwhile may
    carry a time that was behind, so it becomes as young as if it were made now.
    """

    def __init__(self, database: Database, *, stopwatch: Callable[[], float]) -> None:
        self._db = database
        self._stopwatch = stopwatch
        self._known: int | None = None
        self._since = 0.0

    def begin(self) -> None:
        """Time counts from now on. Raises ``CacheError``; then the first :meth:`count` does it."""
        self._set(self._read()[0], self._stopwatch())

    def count(self, newest: Callable[[], int]) -> None:
        """Add what has passed; once a watched day, mark ``newest()``, the number of the last record.

        One transaction of its own; raises ``CacheError`` with nothing added.
        """
        with self._db.transaction():
            watched, marks = self._read()
            now = (
                self._stopwatch()
            )  # behind the lock: nobody records anything between this and a mark
            if self._known is not None:
                seen = self._known + int((now - self._since) * 1000)
                if seen > watched:
                    marks = [(at if at <= self._known else seen, last) for at, last in marks]
                    watched = seen
                    if not marks or watched - marks[-1][0] >= _DAY_MS:
                        marks.append((watched, newest()))
                    self._write(watched, marks)
        self._set(watched, now)

    def last_older_than(self, days: int) -> int:
        """The number of the last record that is surely so old; 0 if there is none."""
        watched, marks = self._read()
        return max((last for at, last in marks if watched - at >= days * _DAY_MS), default=0)

    def forget_up_to(self, number: int) -> None:
        """The records up to this one are gone, and so are their marks."""
        with self._db.joined():
            watched, marks = self._read()
            self._write(watched, [mark for mark in marks if mark[1] > number])

    def _set(self, known: int, since: float) -> None:
        self._known, self._since = known, since

    def _read(self) -> tuple[int, list[Mark]]:
        row = self._db.row("SELECT value FROM sync_metadata WHERE key = ?", (WATCHED,))
        watched, marks = (0, []) if row is None else json.loads(row[0])
        return watched, [(at, last) for at, last in marks]

    def _write(self, watched: int, marks: list[Mark]) -> None:
        value = json.dumps([watched, sorted(dict(marks).items())])  # of marks of one time, the last
        self._db.run("INSERT OR REPLACE INTO sync_metadata VALUES (?, ?)", (WATCHED, value))
