"""``Desk``: what every kind of write works with, and what all of them do first.

It decides nothing about the content of a write; ``saving`` and ``removal`` do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.errors import (
    BackendUnavailable,
    CacheBusy,
    NotariumError,
    OutcomeUnknown,
    VersionConflict,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.journal import Intents
from mcp_notarium.sync.journal_replay import Replay
from mcp_notarium.sync.note_locks import Turn, Turns
from mcp_notarium.sync.push import Delivery

PATIENCE = 50
"""How often to look whether another process has finished with the note."""
PATIENCE_PAUSE = 0.1
NOT_SAVED = "nothing was saved"
NOT_REMOVED = "nothing was deleted"
LOOK_AGAIN = (
    "Look at the note again with `get`; delete it with its new `local_version` only if it is still "
    "to go."
)


@dataclass(frozen=True, slots=True)
class Desk:
    """The parts of one writer."""

    cache: Cache
    store: Store
    turns: Turns
    intents: Intents
    delivery: Delivery
    replay: Replay
    clock: Callable[[], float]
    new_id: Callable[[], str]
    sleep: Callable[[float], Awaitable[None]]

    async def settle(self, note_id: str, turn: Turn) -> None:
        """Finish the note's unanswered write, ours or one that another process has left.

        Raises ``BackendUnavailable`` if it stays unanswered and ``CacheBusy`` if another process
        does not let go of the note.
        """
        for _ in range(PATIENCE):
            write = self.intents.in_flight(note_id)
            if write is None:
                return
            claimed = self.intents.claim(write)
            if claimed is None:
                await self.sleep(PATIENCE_PAUSE)
                continue
            try:
                await turn.unbroken(self.replay.finish(claimed))
            except OutcomeUnknown as error:
                raise BackendUnavailable(
                    "an earlier write of this note is still unanswered; nothing was saved",
                    details=error.details,
                ) from error
        raise CacheBusy("another process is saving this note")

    def intent(
        self, note_id: str, kind: WriteKind, content: Content, *, base_etag: str | None, body: str
    ) -> PendingWrite:
        """A new intent under a new write_id; not recorded yet."""
        return self.intents.make(
            write_id=self.new_id(),
            note_id=note_id,
            kind=kind,
            base_etag=base_etag,
            content=content,
            body=body,
        )

    def conflict(self, note_id: str, *, removing: bool = False) -> VersionConflict:
        """The error that tells a caller which version to look at."""
        note = self.cache.notes.get(note_id)
        now = {"current_local_version": note.local_version} if note else {}
        return VersionConflict(
            f"the note was changed elsewhere in the meantime; {NOT_REMOVED if removing else NOT_SAVED}",
            details={"id": note_id} | now,
            resolution_hint=LOOK_AGAIN if removing else None,
        )


def nothing_saved(error: NotariumError) -> NotariumError:
    """The same error, saying so."""
    return _saying(error, NOT_SAVED)


def nothing_removed(error: NotariumError) -> NotariumError:
    """The same error, saying so."""
    return _saying(error, NOT_REMOVED)


def _saying(error: NotariumError, what: str) -> NotariumError:
    if what not in error.user_message:
        error.user_message = f"{error.user_message.removesuffix('.')}; {what}"
    return error
