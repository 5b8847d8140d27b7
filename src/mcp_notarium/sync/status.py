"""``SyncStatus``: report how sync stands, from the database, in any process. Decides nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_state import Metrics, SyncState
from mcp_notarium.sync.cycle import WORKING, State


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Hold how sync stands.

    ``loaded`` of ``total`` notes are here (``total`` None: the store did not say) and ``complete``
    tells whether the first load is over, and whatever changed rules show since has been fetched.
    Under rules that hide notes nothing tells of those: ``total`` is known at the end only.
    ``last_sync_at`` is in epoch seconds. ``leader``: this process syncs, otherwise another one does.
    ``feed``: changes elsewhere show within seconds.
    ``left_out`` notes have an id that cannot be asked for and are not here.
    ``at_least``: so many there are in all, while ``total`` is not known and they are being counted.
    ``tried``: how the last cycle ended is known; False until the first one of this process has.
    """

    state: State
    loaded: int
    total: int | None
    complete: bool
    last_sync_at: float | None
    last_error: str | None
    needs_login: bool
    leader: bool
    feed: bool
    left_out: int = 0
    at_least: int | None = None
    tried: bool = True

    @property
    def failure(self) -> str | None:
        """Why the last cycle failed; None if it succeeded, or is the first of this process."""
        return self.last_error if self.tried else None


def read_status(
    cache: Cache,
    *,
    metrics: Metrics,
    leading: State | None,
    feed: bool,
    counted: int | None = None,
    at_least: int = 0,
    left_out: int = 0,
    tried: bool = True,
) -> SyncStatus:
    """Read the status from the database and the ``metrics`` of the last cycles.

    ``leading`` is the state of this process if it leads. ``counted``: the total, if this process
    knows it and the database does not yet.
    """
    progress = cache.sync_state.progress()
    loaded = cache.notes.counts().total
    complete = progress.complete and cache.sync_state.cursor() is not None
    total = counted if progress.total is None else progress.total
    if cache.notes.gate.rules.hides:
        # What the store counts and works on may be notes that the policy hides.
        total, at_least, left_out = None, 0, 0
        leading = State.IDLE if complete and leading in WORKING else leading
    if complete or (total is not None and total < loaded):
        total = loaded
    state = leading or _state_elsewhere(metrics.status, complete=complete)
    return SyncStatus(
        state=state,
        loaded=loaded,
        total=total,
        complete=complete,
        last_sync_at=metrics.last_sync_at,
        last_error=metrics.last_error,
        needs_login=state is State.NEEDS_AUTH,
        leader=leading is not None,
        feed=feed,
        left_out=left_out,
        at_least=at_least if total is None and at_least > loaded else None,
        tried=tried,
    )


def describe_differences(kept: SyncState) -> str | None:
    """Describe for the person how often writes were stored differently; None if never."""
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
