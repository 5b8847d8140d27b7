"""Remember what each file of a vault was when it was read, also for the next start. For any thread."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

Place = tuple[str, bool]
"""A note's path, and whether it lies in the trash."""
State = tuple[int, int, int, int]
"""Inode, size, and times of the last change of content and of anything, in nanoseconds.

Not the device: some systems number it anew at each start.
"""
_SECOND = 10**9
_RECENT, _COARSE = 0.1, 2.0
"""Seconds in which a file may change again without another date; the second where dates are whole seconds."""


@dataclass(frozen=True, slots=True)
class Known:
    """Hold what was read of a file in one state; ``digest`` "": it is no note.

    ``evicted``: its content was at iCloud only by then, and what was read of it is older.
    """

    state: State
    digest: str
    identity: str | None
    evicted: bool = False


class KnownFiles:
    """Hold the last known state of each file. ``unsaved``: how many have changed since the last text of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[Place, Known] = {}
        self.unsaved = 0

    def find(self, place: Place, state: State) -> Known | None:
        """Return what was read of a file, if it has not changed since."""
        with self._lock:
            held = self._files.get(place)
        return held if held is not None and held.state == state else None

    def last(self, place: Place) -> Known | None:
        """Return what was read of a file, whatever has become of it since."""
        with self._lock:
            return self._files.get(place)

    def is_unreadable(self, place: Place) -> bool:
        """Tell whether the file was no note when it was last read, or could not be read."""
        with self._lock:
            held = self._files.get(place)
        return held is not None and (not held.digest or held.evicted)

    def remember(self, place: Place, known: Known) -> None:
        """Remember a file, unless it may change again without another date."""
        if is_settled(max(known.state[-2:])):
            with self._lock:
                self._files[place] = known
                self.unsaved += 1

    def forget(self, place: Place) -> None:
        """Forget a file."""
        with self._lock:
            self._files.pop(place, None)
            self.unsaved += 1

    def keep_only(self, places: Collection[Place]) -> dict[Place, Known]:
        """Forget all other files; return them."""
        with self._lock:
            gone = {place: one for place, one in self._files.items() if place not in places}
            self._files = {place: one for place, one in self._files.items() if place in places}
            self.unsaved += len(gone)
        return gone

    def digests(self) -> list[str]:
        """Return the hashes of all known files."""
        with self._lock:
            return [one.digest for one in self._files.values()]

    def unknown(self, places: Iterable[Place]) -> list[Place]:
        """Return those places of which nothing is known."""
        with self._lock:
            return [place for place in places if place not in self._files]

    def to_text(self) -> str:
        """Return all that is known, for :meth:`load`."""
        with self._lock:
            rows = [
                (*place, *one.state, one.digest, one.identity, one.evicted)
                for place, one in self._files.items()
            ]
            self.unsaved = 0
        return base64.b64encode(zlib.compress(json.dumps(rows).encode(), 1)).decode()

    def load(self, text: str) -> None:
        """Know what another process knew. A text of another form is ignored: the files are read again."""
        try:
            rows = json.loads(zlib.decompress(base64.b64decode(text)))
            found = {
                (path, trash): Known((inode, size, modified, changed), digest, identity, evicted)
                for path, trash, inode, size, modified, changed, digest, identity, evicted in rows
            }
        except (ValueError, TypeError, zlib.error):
            return
        with self._lock:
            self._files = found | self._files


def is_settled(newest: int) -> bool:
    """Tell whether what last changed at this time (nanoseconds) would get another date from the next change."""
    recent = _RECENT if newest % _SECOND else _COARSE
    return abs(time.time() - newest / _SECOND) > recent


def state_of(found: os.stat_result) -> State:
    """Return the state of a file."""
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
