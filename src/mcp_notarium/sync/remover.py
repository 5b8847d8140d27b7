"""Remove notes for good, in the store first and then in the index.

A removal is guarded by the revision that the caller saw. One that was not answered stays in the journal;
``entry_replay`` finds out what became of it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from mcp_notarium.domain.note import Note, PendingWrite, Tombstone, WriteKind
from mcp_notarium.errors import (
    InvalidRequest,
    NotariumError,
    NoteNotFound,
    StoreError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Ids, Store
from mcp_notarium.stores.reviving import RevivingStore
from mcp_notarium.sync.direct_write import DirectWriter
from mcp_notarium.sync.entry_replay import EntryReplay
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_fetch import get_proven
from mcp_notarium.sync.note_locks import NoteLocks
from mcp_notarium.sync.push import NOT_STORED, Pusher
from mcp_notarium.sync.write_errors import NOT_REMOVED, add_outcome, changed_error, gone_error


class Remover:
    """Remove single notes."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        pusher: Pusher,
        direct: DirectWriter | None,
        entries: EntryReplay,
        locks: NoteLocks,
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._pusher = pusher
        self._direct = direct
        self._entries = entries
        self._locks = locks

    async def remove(self, note: Note, act: Act | None, *, keeps: bool) -> None:
        """See :meth:`Writer.remove`."""
        async with self._locks.lock(note.id) as lock:
            await self._entries.finish_earlier(note.id, lock)
            etag = self._etag_to_remove(note)
            keepsake = b"" if etag is None else await self._keepsake(note.id)
            if keepsake is None:  # another program was faster: what was written from here is kept
                self._journal.adopt(Tombstone(note.id), seen=etag)
            elif etag is not None:
                write = self._journal.make(
                    note_id=note.id,
                    kind=WriteKind.DELETE,
                    base_etag=etag,
                    content=note.content,
                    body=keepsake,
                    keeps=keeps,
                )
                await lock.run_cancellable(self._send(write, etag, act))

    async def _keepsake(self, note_id: str) -> bytes | None:
        """Return what the store needs to make the note again; the journal has it before the note goes. None: it is gone."""
        if not self._store.traits.revives:
            return b""
        store = cast("RevivingStore", self._store)  # its trait says so
        try:
            return await store.keepsake(note_id)
        except NoteNotFound:
            return None
        except StoreError as error:
            raise add_outcome(error, NOT_REMOVED) from None

    def _etag_to_remove(self, note: Note) -> str | None:
        """Return the etag to remove; None if the note is gone already."""
        current = self._cache.notes.get(note.id)
        if current is None:
            return None
        if (current.id, current.local_version) != (note.id, note.local_version):
            raise changed_error(note.id, current, removing=True)
        if self._store.traits.trash and not current.trash:
            raise InvalidRequest(
                "only a note in the trash can be deleted for good",
                details={"id": note.id},
                resolution_hint="Move the note to the trash first, then delete it.",
            )
        return self._cache.notes.etag(note.id)

    async def _send(self, write: PendingWrite, etag: str, act: Act | None) -> None:
        if self._direct is None and not await self._pusher.record(write, act=act, seen=etag):
            raise self._changed_error(write.note_id)
        try:
            if self._direct is not None:
                self._direct.remove(write, act)
            else:
                await self._pusher.remove(write)
        except NOT_STORED as error:
            if self._direct is None:
                self._pusher.drop(write)
            if isinstance(error, VersionConflict | StoreRejected) and await self._is_gone(
                write.note_id
            ):
                if self._store.traits.ids is not Ids.NAMED:
                    return
                error = gone_error(write.note_id)
            if isinstance(error, VersionConflict):
                raise self._changed_error(write.note_id) from None
            raise add_outcome(error, NOT_REMOVED) from None

    async def _is_gone(self, note_id: str) -> bool:
        """Tell whether the note was removed elsewhere, or the policy hides it by now.

        Otherwise store the newest revision, so that the caller's next ``get`` shows the conflict. Where ids are
        names, what is gone is left to the next listing: it may have been renamed.
        """
        seen = self._cache.notes.etag(note_id)
        with suppress(NotariumError):
            newest = await get_proven(self._cache, self._store, note_id)
            gone = isinstance(newest, Tombstone) or not self._journal.sees_revision(newest)
            if gone and self._store.traits.ids is Ids.NAMED:
                return True
            self._journal.adopt(newest, seen=seen)
        return self._cache.notes.etag(note_id) is None

    def _changed_error(self, note_id: str) -> VersionConflict:
        return changed_error(note_id, self._cache.notes.get(note_id), removing=True)
