"""``WriteContext``: what every kind of write uses, and the steps they share.

It decides nothing about the content of a write; ``note_edits`` does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.errors import (
    CacheBusy,
    NotariumError,
    OutcomeUnknown,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.journal_replay import JournalReplay
from mcp_notarium.sync.note_locks import NoteLock, NoteLocks
from mcp_notarium.sync.push import Pusher

LOCK_TRIES = 50
"""How often to look whether another process has finished with the note."""
LOCK_PAUSE = 0.1
NOT_SAVED = "nothing was saved"
NOT_REMOVED = "nothing was deleted"
LOOK_AGAIN = (
    "Look at the note again with `get`; delete it with its new `local_version` only if it is still "
    "to go."
)


@dataclass(frozen=True, slots=True)
class WriteContext:
    """Hold the parts of one writer."""

    cache: Cache
    store: Store
    locks: NoteLocks
    journal: Journal
    pusher: Pusher
    replay: JournalReplay
    clock: Callable[[], float]
    new_id: Callable[[], str]
    sleep: Callable[[float], Awaitable[None]]

    async def finish_earlier_write(self, note_id: str, lock: NoteLock) -> None:
        """Finish the note's unanswered write, made by this process or left by another one.

        Raises ``StoreUnavailable`` if it stays unanswered and ``CacheBusy`` if another process
        keeps the note.
        """
        for _ in range(LOCK_TRIES):
            write = self.journal.in_flight(note_id)
            if write is None:
                return
            claimed = self.journal.claim(write)
            if claimed is None:
                await self.sleep(LOCK_PAUSE)
                continue
            try:
                await lock.run_to_end(self.replay.finish(claimed))
            except OutcomeUnknown as error:
                raise StoreUnavailable(
                    "an earlier write of this note is still unanswered; nothing was saved",
                    details=error.details,
                ) from error
        raise CacheBusy("another process is saving this note")

    def new_entry(
        self, note_id: str, kind: WriteKind, content: Content, *, base_etag: str | None, body: str
    ) -> PendingWrite:
        """Make a journal entry under a new write_id; it is not recorded yet."""
        return self.journal.make(
            write_id=self.new_id(),
            note_id=note_id,
            kind=kind,
            base_etag=base_etag,
            content=content,
            body=body,
        )

    def conflict(self, note_id: str, *, removing: bool = False) -> VersionConflict:
        """Make the error that tells a caller which version to look at."""
        note = self.cache.notes.get(note_id)
        now = {"current_local_version": note.local_version} if note else {}
        return VersionConflict(
            f"the note was changed elsewhere in the meantime; {NOT_REMOVED if removing else NOT_SAVED}",
            details={"id": note_id} | now,
            resolution_hint=LOOK_AGAIN if removing else None,
        )


def say_nothing_saved(error: NotariumError) -> NotariumError:
    """Add to an error's message that nothing was saved."""
    return _add(error, NOT_SAVED)


def say_nothing_removed(error: NotariumError) -> NotariumError:
    """Add to an error's message that nothing was deleted."""
    return _add(error, NOT_REMOVED)


def _add(error: NotariumError, what: str) -> NotariumError:
    if what not in error.user_message:
        error.user_message = f"{error.user_message.removesuffix('.')}; {what}"
    return error
