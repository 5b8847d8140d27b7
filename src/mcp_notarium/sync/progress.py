"""Store the progress of sync between cycles, and report how sync stands here or in the process that leads.

Every ``mark_*`` method runs inside the transaction that stores what it stands for. Other processes
read the same rows, so any of them can tell how far the leader is and request a cycle from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mcp_notarium.errors import ErrorKind, NotariumError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_state import LEFT_OUT, LoadProgress, SyncState
from mcp_notarium.sync.cycle_states import WORKING, State

SWEEP_PERIOD = 24 * 3600.0
"""Seconds between full listings where the change feed reports removals."""
SWEEP_PERIOD_BLIND = 3600.0
"""The same where nothing reports removals."""

_INDEX_VERSION = "sync.index_version"
_UNRESOLVED = "sync.unresolved"
_SWEPT_AT = "sync.swept_at"
_UNSEEN_REMOVALS = "sync.unseen_removals"
_LOAD_BEGAN_EMPTY = "sync.load_began_empty"
_CODEC_VERSION = "sync.codec_version"
_ASKED = "sync.asked"
_ANSWERED = "sync.answered"
_ANSWERED_WELL = "sync.answered_well"


class SyncProgress:
    """Read and write the cycle runner's rows of ``sync_metadata``."""

    def __init__(self, cache: Cache, *, clock: Callable[[], float]) -> None:
        self._cache = cache
        self._state = cache.sync_state
        self.clock = clock
        self._tried = 0

    def with_cache(self, cache: Cache) -> SyncProgress:
        """Return the same through another connection."""
        return SyncProgress(cache, clock=self.clock)

    @property
    def index_version(self) -> int:
        """Count how often the index was emptied on purpose; it tells old batches from new ones."""
        return self._number(_INDEX_VERSION)

    @property
    def loaded(self) -> bool:
        """Tell whether the first load is complete."""
        return self._state.progress().complete

    @property
    def cursor(self) -> str | None:
        """Return the cursor up to which everything is here."""
        return self._state.cursor()

    def mark_cursor(self, cursor: str, *, feed_missed: bool = False, left_out: int = 0) -> None:
        """Record that everything up to ``cursor`` is here; ``feed_missed``: except removals.

        A listing does not show those, and the change feed will not report them any more. ``left_out``
        entries may be among those known already.
        """
        self._state.set_cursor(cursor)
        self.mark_left_out(max(left_out, self.left_out))
        if feed_missed:
            self._state.set(_UNSEEN_REMOVALS, "1")

    def mark_loading(self, *, anchor: str, mark: str, total: int | None) -> None:
        """Record that the first load has come as far as ``mark``."""
        self._state.set_progress(
            LoadProgress(anchor_cursor=anchor, mark=mark, total=total, complete=False)
        )

    def mark_loaded(self, *, anchor: str, total: int | None) -> None:
        """Record that every page of the first load is here.

        The cursor is that of the *first* page: notes changed meanwhile moved in front of it unseen.
        """
        self._state.set_progress(
            LoadProgress(anchor_cursor=anchor, mark=None, total=total, complete=True)
        )
        self._state.set_cursor(anchor)
        self._state.record_load(at=self.clock())
        if self._state.get(_LOAD_BEGAN_EMPTY):
            # A load into an empty index leaves nothing there that this listing did not list.
            self._state.set(_SWEPT_AT, repr(self.clock()))

    def mark_load_began(self, *, empty: bool, codec_version: int) -> None:
        """Record that the first page of a first load is here.

        ``empty``: the index was empty before. ``codec_version``: that of the store's codec, which fills it.
        """
        self._state.set(_CODEC_VERSION, str(codec_version))
        self._state.set(_LOAD_BEGAN_EMPTY, "1" if empty else "")

    def mark_swept(self, cursor: str | None, *, left_out: int = 0) -> None:
        """Record a finished sweep; ``cursor`` replaces one that was lost."""
        self.mark_left_out(left_out)
        if cursor is not None:
            self._state.set_cursor(cursor)
        self._state.set(_SWEPT_AT, repr(self.clock()))
        self._state.set(_UNSEEN_REMOVALS, "")
        self._cache.versions.remove_orphans(spared=self.unresolved())

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
        for key in (_SWEPT_AT, _UNSEEN_REMOVALS, _UNRESOLVED, _LOAD_BEGAN_EMPTY, LEFT_OUT):
            self._state.set(key, "")

    @property
    def codec_version(self) -> int | None:
        """Return the version of the store's codec that has filled the index; None: nothing has."""
        return self._number(_CODEC_VERSION) or None

    def sweep_due(self, *, feed: bool) -> bool:
        """Tell whether a full listing is due; ``feed``: the change feed reports removals."""
        if not self.loaded:
            return False
        if feed and self._state.get(_UNSEEN_REMOVALS):
            return True
        age = self.clock() - float(self._state.get(_SWEPT_AT) or 0)
        return age < 0 or age >= (SWEEP_PERIOD if feed else SWEEP_PERIOD_BLIND)

    def unresolved(self) -> tuple[str, ...]:
        """Return the notes about which the store said something that could not be decided yet."""
        return tuple(json.loads(self._state.get(_UNRESOLVED) or "[]"))

    def mark_unresolved(self, note_ids: Iterable[str]) -> None:
        """Record that exactly these notes are unresolved."""
        self._state.set(_UNRESOLVED, json.dumps(list(note_ids)))

    def record_cycle(
        self, *, serving: int, duration_ms: int, status: str, error: NotariumError | None
    ) -> None:
        """Record how a cycle ended that began after request ``serving``; ``error`` None: it succeeded."""
        self._tried = max(serving, self._tried)
        with self._cache.transaction():
            self._cache.versions.expire(self.clock())
            self._state.record_cycle(
                at=self.clock(),
                duration_ms=duration_ms,
                status=status,
                error=error.message if error else None,
                kind=error.kind if error else None,
            )
            self._answer(serving, well=error is None)

    def request_cycle(self) -> int:
        """Request a cycle from the leader; return the number for :meth:`request_result`."""
        with self._cache.transaction():
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


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Hold how sync stands.

    ``loaded`` of ``total`` notes are here (``total`` None: the store did not say) and ``complete``
    tells whether the first load is over, and whatever changed rules show since has been fetched.
    Under rules that hide notes nothing tells of those: ``total`` is known at the end only.
    ``last_sync_at`` is in epoch seconds. ``last_error`` is why the last cycle failed; None: it succeeded,
    or this process leads and its first cycle has not ended. ``error_kind`` is the rest of that error.
    ``leader``: this process syncs, otherwise another one does. ``left_out`` notes have no usable id or
    readable text.
    """

    state: State
    loaded: int
    total: int | None
    complete: bool
    last_sync_at: float | None
    last_error: str | None
    leader: bool
    left_out: int = 0
    error_kind: ErrorKind | None = None

    @property
    def needs_login(self) -> bool:
        """Tell whether the store accepts no login."""
        return self.state is State.NEEDS_AUTH

    @property
    def way_out(self) -> str | None:
        """Return what has to be done before sync can succeed again; None: it may succeed by itself."""
        if self.error_kind is None or self.error_kind.retryable:
            return None
        return self.error_kind.agent_hint or self.error_kind.resolution_hint


def read_status(
    cache: Cache,
    *,
    leading: State | None = None,
    failure: NotariumError | None = None,
) -> SyncStatus:
    """Read the status from the database.

    ``leading`` and ``failure`` are the state and the last error of this process if it leads; otherwise
    those that the leader stored count.
    """
    facts = cache.sync_state.facts()
    complete = facts.progress.complete and facts.cursor is not None
    total, left_out = facts.progress.total, facts.left_out
    if cache.seen is not cache:
        facts = replace(facts, notes=cache.seen.notes.counts().total)
    if cache.seen.notes.visibility.rules.has_rules:
        # What the store counts and works on may be notes that the policy hides.
        total, left_out = None, 0
        leading = State.IDLE if complete and leading in WORKING else leading
    if complete or (total is not None and total < facts.notes):
        total = facts.notes
    last_error, kind = facts.metrics.last_error, facts.metrics.error_kind
    if leading:
        last_error, kind = (failure.message, failure.kind) if failure else (None, None)
    return SyncStatus(
        state=leading or _state_elsewhere(facts.metrics.status, complete=complete),
        loaded=facts.notes,
        total=total,
        complete=complete,
        last_sync_at=facts.metrics.last_sync_at,
        last_error=last_error,
        error_kind=kind,
        leader=leading is not None,
        left_out=left_out,
    )


def describe_differences(kept: SyncState) -> str | None:
    """Describe for the user how often writes were stored differently; None if never."""
    seen = kept.differences()
    if not seen.count:
        return None
    last = datetime.fromtimestamp(seen.last_at, UTC)
    return (
        f"The note store has stored {seen.count} writes differently from what was sent, the last on "
        f"{last:%Y-%m-%d %H:%M} UTC. Something between here and there changes texts."
    )


def _state_elsewhere(recorded: str, *, complete: bool) -> State:
    state = State.IDLE
    with suppress(ValueError):  # nothing recorded yet
        state = State(recorded)
    return State.INDEXING if state is State.IDLE and not complete else state
