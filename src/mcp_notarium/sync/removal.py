"""``Removal``: removing a note for good, guarded by the revision the caller saw.

Trashing is an ordinary change (``saving``); this is what comes after it.
"""

from __future__ import annotations

from mcp_notarium.domain.note import Note, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.errors import (
    BackendRejected,
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    VersionConflict,
)
from mcp_notarium.sync.push import NOT_STORED
from mcp_notarium.sync.write_context import Desk, nothing_removed


class Removal:
    """Removes notes for good."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def remove(self, note: Note) -> None:
        """Remove ``note`` as the caller read it; one already gone is success."""
        desk = self._desk
        async with desk.turns.of(note.id) as turn:
            await desk.settle(note.id, turn)
            etag = self._removable(note)
            if etag is not None:
                write = desk.intent(
                    note.id, WriteKind.DELETE, note.content, base_etag=etag, body=""
                )
                await turn.send(self._send(write, etag))

    def _removable(self, note: Note) -> str | None:
        """The etag to remove; None if the note is gone already."""
        current = self._desk.cache.notes.get(note.id)
        if current is None:
            return None
        if current.local_version != note.local_version:
            raise self._desk.conflict(note.id, removing=True)
        if self._desk.store.capabilities.trash_before_delete and not current.trash:
            raise InvalidRequest(
                "only a note in the trash can be deleted for good",
                details={"id": note.id},
                resolution_hint="Move the note to the trash first, then delete it.",
            )
        return self._desk.cache.notes.etag(note.id)

    async def _send(self, write: PendingWrite, etag: str) -> None:
        desk = self._desk
        if not desk.intents.record(write, seen=etag):
            raise desk.conflict(write.note_id, removing=True)
        try:
            await desk.delivery.remove(write)
        except NOT_STORED as error:
            desk.delivery.give_up(write)
            if isinstance(error, VersionConflict | BackendRejected):
                await self._look_again(write.note_id)
                if desk.cache.notes.etag(write.note_id) is None:
                    return  # somebody else has removed it, or it is hidden from here by now
            if isinstance(error, VersionConflict):
                raise desk.conflict(write.note_id, removing=True) from None
            raise nothing_removed(error) from None

    async def _look_again(self, note_id: str) -> None:
        """Let the caller's next ``get`` show what stood in the way."""
        desk = self._desk
        seen = desk.cache.notes.etag(note_id)
        try:
            desk.intents.adopt(await desk.store.get(note_id), seen=seen)
        except NoteNotFound:
            desk.intents.adopt(Tombstone(note_id), seen=seen)
        except NotariumError:
            return
