"""``Saving``: creating a note, or changing one from the view the caller had of it.

The caller's view is the base of the merge, the store's newest revision is what is written over. It
does not remove notes (``removal``) and does not finish old writes (``replay``).
"""

from __future__ import annotations

from dataclasses import dataclass

from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Note, Revision, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.errors import (
    BackendError,
    BackendProtocolError,
    BackendRejected,
    LoginRequired,
    NoteNotFound,
    VersionConflict,
)
from mcp_notarium.sync.conflict_copy import differences
from mcp_notarium.sync.journal_replay import ROUNDS
from mcp_notarium.sync.note_locks import Turn
from mcp_notarium.sync.planner import Known, Said, said
from mcp_notarium.sync.push import NOT_STORED, NOTHING, Delivered, Taken
from mcp_notarium.sync.write_context import Desk, nothing_saved


@dataclass(frozen=True, slots=True)
class Saved:
    """The note as it is in the cache now.

    ``merged``: somebody else's change is in it too. ``copy_id``: the store mixed up a line of ours
    with somebody else's, so our text is also kept in that note. ``differs``: as in ``Delivered``.
    """

    note: Note
    merged: bool = False
    copy_id: str | None = None
    differs: str = ""


class Saving:
    """Creates and changes notes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create(self, content: Content) -> Saved:
        """A new note; or the one whose creation with the same content was never answered."""
        resumed = await self._resume_creation(content)
        if resumed is not None:
            return resumed
        desk = self._desk
        note_id = desk.new_id()
        async with desk.turns.of(note_id) as turn:
            body = desk.store.compose(None, content, now=desk.clock())
            write = desk.intent(note_id, WriteKind.CREATE, content, base_etag=None, body=body)
            delivered = await turn.send(self._send_creation(write))
            return self._saved(note_id, delivered)

    async def update(self, note: Note, content: Content) -> Saved:
        """``note``, as the caller read it, becomes ``content``."""
        async with self._desk.turns.of(note.id) as turn:
            for _ in range(ROUNDS):
                # Another process may have begun a write since: it is waited for, not refused.
                await self._desk.settle(note.id, turn)
                saved = await self._attempt(note, content, turn)
                if saved is not None:
                    return saved
        raise self._desk.conflict(note.id)

    async def _resume_creation(self, content: Content) -> Saved | None:
        desk = self._desk
        same = (
            write
            for write in desk.intents.all_in_flight()
            if write.kind is WriteKind.CREATE and write.content == content
        )
        write = next(filter(desk.intents.claimable, same), None)
        if write is None:
            return None
        async with desk.turns.of(write.note_id) as turn:
            await desk.settle(write.note_id, turn)
            note = desk.cache.notes.get(write.note_id)
            if note is None:
                return None
            if note.server_version == 1:  # as it was made: nobody else has written it
                return Saved(note, differs=differences(sent=content, stored=note.content))
            return Saved(note, merged=note.content != content)

    async def _send_creation(self, write: PendingWrite) -> Delivered:
        self._demand_size(write)
        self._desk.intents.record(write)
        try:
            return await self._send(write, NOTHING)
        except NoteNotFound:
            raise BackendProtocolError(
                "the note service says that it has the new note, and then that it has not; "
                "nothing was saved"
            ) from None

    async def _attempt(self, note: Note, content: Content, turn: Turn) -> Saved | None:
        """Merge with the newest revision and send; None if the note moved on meanwhile."""
        desk = self._desk
        seen = desk.cache.notes.etag(note.id)
        try:
            head = await self._head(note.id, seen)
        except (BackendError, LoginRequired) as error:
            raise nothing_saved(error) from None
        wanted = merge_content(note.content, content, head.content)
        if wanted is not None and not desk.intents.sees(note.id, wanted):
            wanted = None  # each side left a tag that it is seen by; together none is left
        if wanted is None or wanted == head.content:
            desk.intents.adopt(head, seen=seen)
            if wanted is None:
                raise desk.conflict(note.id)
            return self._saved(note.id, Delivered(Taken.STORED, merged=wanted != content))
        body = desk.store.compose(head, wanted, now=desk.clock())
        write = desk.intent(note.id, WriteKind.UPDATE, wanted, base_etag=head.etag, body=body)
        delivered = await turn.send(self._send_update(write, head, seen))
        if delivered.taken is Taken.AGAIN:
            return None
        return self._saved(note.id, delivered, merged=head.content != note.content)

    async def _head(self, note_id: str, seen: str | None) -> Revision:
        try:
            head = await self._desk.store.get(note_id)
            if said(self._known(note_id), head) is Said.OLDER:
                # Either the note was made again, or this answer lags. Only the second look tells.
                head = await self._desk.store.get(note_id)
        except NoteNotFound:
            self._desk.intents.adopt(Tombstone(note_id), seen=seen)
            raise _removed(note_id) from None
        if not self._desk.intents.sees_revision(head):
            # Hidden elsewhere: for whoever asks here it is gone.
            self._desk.intents.adopt(head, seen=seen)
            raise _removed(note_id)
        return head

    def _known(self, note_id: str) -> Known | None:
        base = self._desk.cache.notes.base(note_id)
        return Known(base.etag, base.server_version) if base else None

    async def _send_update(
        self, write: PendingWrite, head: Revision, seen: str | None
    ) -> Delivered:
        self._demand_size(write)
        intents = self._desk.intents
        if not intents.record(write, base=head, seen=seen):
            return Delivered(Taken.AGAIN)
        try:
            delivered = await self._send(write, head.content)
        except VersionConflict:
            return Delivered(Taken.AGAIN)
        except NoteNotFound:
            intents.adopt(Tombstone(write.note_id), seen=head.etag)
            raise _removed(write.note_id) from None
        if delivered.taken is Taken.AGAIN:
            self._desk.delivery.give_up(write)
        return delivered

    async def _send(self, write: PendingWrite, base: Content) -> Delivered:
        try:
            return await self._desk.delivery.send(write, base=base)
        except NOT_STORED as error:
            self._desk.delivery.give_up(write)
            raise nothing_saved(error) from None

    def _demand_size(self, write: PendingWrite) -> None:
        largest = self._desk.store.capabilities.max_note_bytes
        size = len(write.body.encode(errors="replace"))
        if largest is not None and size > largest:
            raise BackendRejected(
                "the note is larger than the note service takes; nothing was saved",
                details={"bytes": size, "most": largest},
                http_status_code=413,
            )

    def _saved(self, note_id: str, delivered: Delivered, *, merged: bool = False) -> Saved:
        note = self._desk.cache.notes.get(note_id)
        if note is None and self._desk.cache.notes.gate.rules.hides:
            raise _removed(note_id)  # or hidden at that moment; nothing may tell which
        if note is None:
            raise NoteNotFound(
                "the note was removed right after it was saved", details={"id": note_id}
            )
        copy_id = delivered.copy_id
        if copy_id is not None and self._desk.cache.notes.gate.rules.hides:
            copy_id = copy_id if self._desk.cache.notes.get(copy_id) else None
        merged = merged or delivered.merged
        return Saved(note, merged=merged, copy_id=copy_id, differs=delivered.differs)


def _removed(note_id: str) -> NoteNotFound:
    return NoteNotFound(
        "the note was removed elsewhere in the meantime; nothing was saved",
        details={"id": note_id},
        resolution_hint="If the text is still wanted, `save` it as a new note: `text` without `id`.",
    )
