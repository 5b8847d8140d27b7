"""Store the progress of sync between cycles.

Every ``mark_*`` method runs inside the transaction that stores what it stands for. Other processes
read the same rows, so any of them can tell how far the leader is and request a cycle from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mcp_notarium.errors import NotariumError
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.sync_state import LEFT_OUT, LoadProgress, SyncState
from mcp_notarium.storage.version_table import VersionTable

SWEEP_PERIOD = 24 * 3600.0
"""Seconds between full listings where the change feed reports removals."""
SWEEP_PERIOD_BLIND = 3600.0
"""The same where nothing reports removals."""

_INDEX_VERSION = "sync.index_version"
_UNRESOLVED = "sync.unresolved"
_SWEPT_AT = "sync.swept_at"
_POLLED = "sync.polled"
_LOAD_BEGAN_EMPTY = "sync.load_began_empty"
_CODEC_VERSION = "sync.codec_version"
_ASKED = "sync.asked"
_ANSWERED = "sync.answered"
_ANSWERED_WELL = "sync.answered_well"


class SyncProgress:
    """Read and write the sync cycle's rows of ``sync_metadata``."""

    def __init__(self, database: Database, versions: VersionTable) -> None:
        self._database = database
        self._versions = versions
        self._state = SyncState(database)
        self._tried = 0

    @property
    def index_version(self) -> int:
        """Count how often the index was emptied on purpose; it tells old batches from new ones."""
        return self._number(_INDEX_VERSION)

    @property
    def polled(self) -> str | None:
        """Return the cursor up to which listings have told what is new and changed; at least the cursor."""
        return self._state.get(_POLLED) or self._state.cursor()

    def mark_cursor(self, cursor: str, *, left_out: int = 0) -> None:
        """Record that everything up to ``cursor`` is here. ``left_out`` entries may be among those known already."""
        self._state.set_cursor(cursor)
        self.mark_polled("", left_out=left_out)

    def mark_polled(self, cursor: str, *, left_out: int = 0) -> None:
        """Record that everything up to ``cursor`` is here but removals, which the change feed still has to tell."""
        self._state.set(_POLLED, cursor)
        self.mark_left_out(max(left_out, self.left_out))

    def mark_page(
        self,
        *,
        anchor: str,
        mark: str | None,
        total: int | None,
        left_out: int,
        began_empty: bool | None,
        codec_version: int,
    ) -> None:
        """Record that the first load has come as far as ``mark``; None: every page of it is here.

        ``anchor`` is the cursor of the *first* page: notes changed meanwhile moved in front of it unseen. ``began_empty``: whether the
        index was empty before the first page, which this is, and ``codec_version`` has filled; None: it is a later one.
        """
        self.mark_left_out(left_out)
        if began_empty is not None:
            self._state.set(_CODEC_VERSION, str(codec_version))
            self._state.set(_LOAD_BEGAN_EMPTY, "1" if began_empty else "")
        self._state.set_progress(
            LoadProgress(anchor_cursor=anchor, mark=mark, total=total, complete=mark is None)
        )
        if mark is not None:
            return
        self.mark_cursor(anchor)
        self._state.record_load(at=self._versions.clock())
        if self._state.get(_LOAD_BEGAN_EMPTY):
            # A load into an empty index leaves nothing there that this listing did not list.
            self._state.set(_SWEPT_AT, repr(self._versions.clock()))

    def mark_swept(self, cursor: str | None, *, left_out: int = 0) -> None:
        """Record a finished sweep; ``cursor`` replaces one that was lost."""
        self.mark_left_out(left_out)
        if cursor is not None:
            self.mark_cursor(cursor)
        self._state.set(_SWEPT_AT, repr(self._versions.clock()))
        self._versions.remove_orphans(spared=self.unresolved())

    @property
    def left_out(self) -> int:
        """Count the notes without a usable id or readable text, as far as the account has been listed."""
        return self._number(LEFT_OUT)

    def mark_left_out(self, count: int) -> None:
        """Record how many notes a full listing has left out so far."""
        if count != self.left_out:
            self._state.set(LEFT_OUT, str(count))

    def mark_emptied(self) -> None:
        """Record that every note was removed on purpose: batches read before are void."""
        self._state.set(_INDEX_VERSION, str(self.index_version + 1))
        self._state.set_cursor(None)
        self._state.set_progress(LoadProgress())
        for key in (_SWEPT_AT, _POLLED, _UNRESOLVED, _LOAD_BEGAN_EMPTY, LEFT_OUT):
            self._state.set(key, "")

    @property
    def codec_version(self) -> int | None:
        """Return the version of the store's codec that has filled the index; None: nothing has."""
        return self._number(_CODEC_VERSION) or None

    def sweep_due(self, *, feed: bool) -> bool:
        """Tell whether a full listing is due; ``feed``: the change feed reports removals."""
        if not self._state.progress().complete:
            return False
        age = self._versions.clock() - float(self._state.get(_SWEPT_AT) or 0)
        return age < 0 or age >= (SWEEP_PERIOD if feed else SWEEP_PERIOD_BLIND)

    def unresolved(self) -> dict[str, int]:
        """Return the notes about which the store said something that could not be decided yet, each with the version it told last."""
        return dict(json.loads(self._state.get(_UNRESOLVED) or "{}"))

    def mark_unresolved(self, told: Mapping[str, int]) -> None:
        """Record that exactly these notes are unresolved."""
        self._state.set(_UNRESOLVED, json.dumps(told))

    def record_cycle(
        self, *, serving: int, duration_ms: int, status: str, error: NotariumError | None
    ) -> None:
        """Record how a cycle ended that began after request ``serving``; ``error`` None: it succeeded."""
        self._tried = max(serving, self._tried)
        with self._database.transaction():
            self._versions.expire(self._versions.clock())
            self._state.record_cycle(
                at=self._versions.clock(),
                duration_ms=duration_ms,
                status=status,
                error=error.message if error else None,
                kind=error.kind if error else None,
            )
            self._answer(serving, well=error is None)

    def request_cycle(self) -> int:
        """Request a cycle from the leader; return the number for :meth:`request_result`."""
        with self._database.transaction():
            number = self._number(_ASKED) + 1
            self._state.set(_ASKED, str(number))
        return number

    @property
    def last_request(self) -> int:
        """Return the number of the newest request."""
        return self._number(_ASKED)

    @property
    def has_open_request(self) -> bool:
        """Tell whether a requested cycle has not been tried yet."""
        return self._number(_ASKED) > max(self._tried, self._number(_ANSWERED))

    def request_result(self, number: int) -> bool | None:
        """Tell whether a cycle after request ``number`` succeeded; None while there is none."""
        if self._number(_ANSWERED_WELL) >= number:
            return True
        return False if self._number(_ANSWERED) >= number else None

    def _answer(self, number: int, *, well: bool) -> None:
        if number > self._number(_ANSWERED):
            self._state.set(_ANSWERED, str(number))
        if well and number > self._number(_ANSWERED_WELL):
            self._state.set(_ANSWERED_WELL, str(number))

    def _number(self, key: str) -> int:
        return int(self._state.get(key) or 0)
