"""Create, change and remove single notes.

The caller's view of a note is the base of the merge; the store's newest revision is the one that is
written over. A removal is guarded by the revision the caller saw. Moving a note to the trash is an
ordinary change. This module does not finish old writes; ``journal_replay`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Note, Revision, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.errors import (
    InvalidRequest,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    StoreError,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.sync.conflict_copy import differences
from mcp_notarium.sync.journal_replay import ROUNDS
from mcp_notarium.sync.note_locks import NoteLock
from mcp_notarium.sync.planner import Known, RemoteState, remote_state
from mcp_notarium.sync.push import NOT_STORED, NOTHING, PushOutcome, PushResult
from mcp_notarium.sync.write_context import WriteContext, say_nothing_removed, say_nothing_saved


@dataclass(frozen=True, slots=True)
class Saved:
    """Hold the note as it is in the index now.

    ``merged``: somebody else's change is in it too. ``copy_id``: the store mixed up a line of ours
    with somebody else's, so our text is also kept in that note. ``differs``: as in ``PushResult``.
    """

    note: Note
    merged: bool = False
    copy_id: str | None = None
    differs: str = ""


class NoteEdits:
    """Create, change and remove notes."""

    def __init__(self, context: WriteContext) -> None:
        self._context = context

    async def create(self, content: Content) -> Saved:
        """Create a note, or finish a creation with the same content that was never answered."""
        resumed = await self._resume_creation(content)
        if resumed is not None:
            return resumed
        context = self._context
        note_id = context.new_id()
        async with context.locks.lock(note_id) as lock:
            body = context.store.compose(None, content, now=context.clock())
            write = context.new_entry(note_id, WriteKind.CREATE, content, base_etag=None, body=body)
            result = await lock.run_withdrawable(self._send_creation(write))
            return self._saved(note_id, result)

    async def update(self, note: Note, content: Content) -> Saved:
        """Change ``note``, as the caller read it, into ``content``."""
        async with self._context.locks.lock(note.id) as lock:
            for _ in range(ROUNDS):
                # Another process may have begun a write since: wait for it, do not refuse.
                await self._context.finish_earlier_write(note.id, lock)
                saved = await self._attempt(note, content, lock)
                if saved is not None:
                    return saved
        raise self._context.conflict(note.id)

    async def remove(self, note: Note) -> None:
        """Remove ``note``, as the caller read it, for good. A note already gone is success."""
        context = self._context
        async with context.locks.lock(note.id) as lock:
            await context.finish_earlier_write(note.id, lock)
            etag = self._removable(note)
            if etag is not None:
                write = context.new_entry(
                    note.id, WriteKind.DELETE, note.content, base_etag=etag, body=""
                )
                await lock.run_withdrawable(self._send_removal(write, etag))

    async def _resume_creation(self, content: Content) -> Saved | None:
        context = self._context
        same = (
            write
            for write in context.journal.all_in_flight()
            if write.kind is WriteKind.CREATE and write.content == content
        )
        write = next(filter(context.journal.claimable, same), None)
        if write is None:
            return None
        async with context.locks.lock(write.note_id) as lock:
            await context.finish_earlier_write(write.note_id, lock)
            note = context.cache.notes.get(write.note_id)
            if note is None:
                return None
            if note.server_version == 1:  # as it was made: nobody else has written it
                return Saved(note, differs=differences(sent=content, stored=note.content))
            return Saved(note, merged=note.content != content)

    async def _send_creation(self, write: PendingWrite) -> PushResult:
        self._check_size(write)
        self._context.journal.record(write)
        try:
            return await self._send(write, NOTHING)
        except NoteNotFound:
            raise StoreProtocolError(
                "the note store confirmed the new note and then reported that it does not exist; "
                "nothing was saved"
            ) from None

    async def _attempt(self, note: Note, content: Content, lock: NoteLock) -> Saved | None:
        """Merge with the newest revision and send; None if the note changed meanwhile."""
        context = self._context
        seen = context.cache.notes.etag(note.id)
        try:
            head = await self._head(note.id, seen)
        except (StoreError, LoginRequired) as error:
            raise say_nothing_saved(error) from None
        wanted = merge_content(note.content, content, head.content)
        if wanted is not None and not context.journal.sees(note.id, wanted):
            wanted = None  # each side kept a tag that shows the note; the merge keeps none
        if wanted is None or wanted == head.content:
            context.journal.adopt(head, seen=seen)
            if wanted is None:
                raise context.conflict(note.id)
            return self._saved(note.id, PushResult(PushOutcome.STORED, merged=wanted != content))
        body = context.store.compose(head, wanted, now=context.clock())
        write = context.new_entry(note.id, WriteKind.UPDATE, wanted, base_etag=head.etag, body=body)
        result = await lock.run_withdrawable(self._send_update(write, head, seen))
        if result.outcome is PushOutcome.AGAIN:
            return None
        return self._saved(note.id, result, merged=head.content != note.content)

    async def _head(self, note_id: str, seen: str | None) -> Revision:
        try:
            head = await self._context.store.get(note_id)
            if remote_state(self._known(note_id), head) is RemoteState.OLDER:
                # Either the note was made again, or this answer is stale. Only a second request tells.
                head = await self._context.store.get(note_id)
        except NoteNotFound:
            self._context.journal.adopt(Tombstone(note_id), seen=seen)
            raise _removed(note_id) from None
        if not self._context.journal.sees_revision(head):
            # Hidden elsewhere: to the caller here it is gone.
            self._context.journal.adopt(head, seen=seen)
            raise _removed(note_id)
        return head

    def _known(self, note_id: str) -> Known | None:
        base = self._context.cache.notes.base(note_id)
        return Known(base.etag, base.server_version) if base else None

    async def _send_update(
        self, write: PendingWrite, head: Revision, seen: str | None
    ) -> PushResult:
        self._check_size(write)
        journal = self._context.journal
        if not journal.record(write, base=head, seen=seen):
            return PushResult(PushOutcome.AGAIN)
        try:
            result = await self._send(write, head.content)
        except VersionConflict:
            return PushResult(PushOutcome.AGAIN)
        except NoteNotFound:
            journal.adopt(Tombstone(write.note_id), seen=head.etag)
            raise _removed(write.note_id) from None
        if result.outcome is PushOutcome.AGAIN:
            self._context.pusher.drop(write)
        return result

    async def _send(self, write: PendingWrite, base: Content) -> PushResult:
        try:
            return await self._context.pusher.send(write, base=base)
        except NOT_STORED as error:
            self._context.pusher.drop(write)
            raise say_nothing_saved(error) from None

    def _check_size(self, write: PendingWrite) -> None:
        largest = self._context.store.capabilities.max_note_bytes
        size = len(write.body.encode(errors="replace"))
        if largest is not None and size > largest:
            raise StoreRejected(
                "the note is larger than the note store takes; nothing was saved",
                details={"bytes": size, "most": largest},
                http_status_code=413,
            )

    def _saved(self, note_id: str, result: PushResult, *, merged: bool = False) -> Saved:
        note = self._context.cache.notes.get(note_id)
        if note is None and self._context.cache.notes.gate.rules.hides:
            raise _removed(note_id)  # or hidden just now; the error must not tell which
        if note is None:
            raise NoteNotFound(
                "the note was removed right after it was saved", details={"id": note_id}
            )
        copy_id = result.copy_id
        if copy_id is not None and self._context.cache.notes.gate.rules.hides:
            copy_id = copy_id if self._context.cache.notes.get(copy_id) else None
        merged = merged or result.merged
        return Saved(note, merged=merged, copy_id=copy_id, differs=result.differs)

    def _removable(self, note: Note) -> str | None:
        """Return the etag to remove; None if the note is gone already."""
        current = self._context.cache.notes.get(note.id)
        if current is None:
            return None
        if current.local_version != note.local_version:
            raise self._context.conflict(note.id, removing=True)
        if self._context.store.capabilities.trash_before_delete and not current.trash:
            raise InvalidRequest(
                "only a note in the trash can be deleted for good",
                details={"id": note.id},
                resolution_hint="Move the note to the trash first, then delete it.",
            )
        return self._context.cache.notes.etag(note.id)

    async def _send_removal(self, write: PendingWrite, etag: str) -> None:
        context = self._context
        if not context.journal.record(write, seen=etag):
            raise context.conflict(write.note_id, removing=True)
        try:
            await context.pusher.remove(write)
        except NOT_STORED as error:
            context.pusher.drop(write)
            if isinstance(error, VersionConflict | StoreRejected):
                await self._refresh(write.note_id)
                if context.cache.notes.etag(write.note_id) is None:
                    return  # somebody else removed it, or the policy hides it by now
            if isinstance(error, VersionConflict):
                raise context.conflict(write.note_id, removing=True) from None
            raise say_nothing_removed(error) from None

    async def _refresh(self, note_id: str) -> None:
        """Store the newest revision, so that the caller's next ``get`` shows the conflict."""
        context = self._context
        seen = context.cache.notes.etag(note_id)
        try:
            context.journal.adopt(await context.store.get(note_id), seen=seen)
        except NoteNotFound:
            context.journal.adopt(Tombstone(note_id), seen=seen)
        except NotariumError:
            return


def _removed(note_id: str) -> NoteNotFound:
    return NoteNotFound(
        "the note was removed elsewhere in the meantime; nothing was saved",
        details={"id": note_id},
        resolution_hint="If the text is still wanted, `save` it as a new note: `text` without `id`.",
    )
