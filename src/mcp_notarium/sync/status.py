"""Report how sync stands, here or in the process that leads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mcp_notarium.errors import ErrorKind, NotariumError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.sync.cycle_states import WORKING, State


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Hold how sync stands. Under rules that hide notes nothing tells of those."""

    state: State
    loaded: int
    """Notes that are here."""
    total: int | None
    """All notes; None: the store did not say, or rules hide notes and the load goes on."""
    complete: bool
    """The first load is over, and whatever changed rules show since has been fetched."""
    last_sync_at: float | None
    """Epoch seconds."""
    last_error: str | None
    """Error of the last cycle; None: it succeeded, or this process leads and its first cycle has not ended."""
    leader: bool
    """This process syncs, otherwise another one does."""
    left_out: int = 0
    """Notes without a usable id or a readable text."""
    error_kind: ErrorKind | None = None
    """The rest of the last error."""

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
    cache: Cache, *, leading: State | None = None, failure: NotariumError | None = None
) -> SyncStatus:
    """Read the status; ``leading`` and ``failure`` are those of this process if it leads."""
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
    recorded = facts.metrics.status  # '': nothing recorded yet
    elsewhere = State(recorded) if recorded in {*State} else State.IDLE
    elsewhere = State.INDEXING if elsewhere is State.IDLE and not complete else elsewhere
    if leading:
        last_error, kind = (failure.message, failure.kind) if failure else (None, None)
    return SyncStatus(
        state=leading or elsewhere,
        loaded=facts.notes,
        total=total,
        complete=complete,
        last_sync_at=facts.metrics.last_sync_at,
        last_error=last_error,
        error_kind=kind,
        leader=leading is not None,
        left_out=left_out,
    )
