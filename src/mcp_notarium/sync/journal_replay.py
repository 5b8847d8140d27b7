"""``Replay``: finishes an intent whose outcome nobody knows, under the write_id it was recorded with.

It asks the store what became of the note first and merges here, never there. Text that cannot be
merged becomes a conflict copy; text the store refuses stays as a rejected intent. The caller holds
the lease and sees to it that nobody else writes the note meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.errors import (
    BackendRejected,
    DateRefused,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    VersionConflict,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.journal import Intents
from mcp_notarium.sync.push import NOTHING, Delivered, Delivery, Taken

ROUNDS = 4
"""How often a note may change under us before the write is left for later."""


class Replay:
    """Finishes claimed intents."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        intents: Intents,
        delivery: Delivery,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._store = store
        self._intents = intents
        self._delivery = delivery
        self._clock = clock

    async def finish(self, write: PendingWrite) -> Delivered:
        """Finish it. If it raises, the intent is still there and free for the next attempt."""
        try:
            for _ in range(ROUNDS):
                delivered = await self._attempt(write)
                if delivered.taken is not Taken.AGAIN:
                    return delivered
                kept = self._cache.pending.get(write.write_id)
                if kept is None:  # another process has finished it
                    return Delivered(Taken.STORED, merged=True)
                write = kept
        except NotariumError as error:
            if isinstance(error, BackendRejected) and not isinstance(error, DateRefused):
                self._intents.reject(write, error.message)
                return Delivered(Taken.REFUSED)
            self._intents.release(write)
            raise
        self._intents.release(write)
        raise OutcomeUnknown(
            "the note keeps changing at the note service",
            details={"id": write.note_id, "write_id": write.write_id},
        )

    async def _attempt(self, write: PendingWrite) -> Delivered:
        try:
            head = await self._store.get(write.note_id)
        except NoteNotFound:
            return await self._without_note(write)
        match write.kind:
            case WriteKind.CREATE:
                return self._settled(write, head)
            case WriteKind.UPDATE:
                return await self._update(write, head)
            case WriteKind.DELETE:
                return await self._remove(write, head)

    def _settled(self, write: PendingWrite, head: Revision) -> Delivered:
        """The write had arrived, or nothing is left to do for it."""
        self._intents.finish(write, storing=[head])
        return Delivered(Taken.STORED, merged=head.content != write.content)

    async def _without_note(self, write: PendingWrite) -> Delivered:
        match write.kind:
            case WriteKind.CREATE:
                return await self._create(write)
            case WriteKind.UPDATE if self._has_text_to_keep(write) and not write.copied:
                return await self._delivery.keep_as_copy(write, instead=Tombstone(write.note_id))
            case WriteKind.UPDATE | WriteKind.DELETE:
                self._intents.finish(write, storing=[Tombstone(write.note_id)])
                return Delivered(Taken.STORED)

    async def _create(self, write: PendingWrite) -> Delivered:
        try:
            return await self._dated(write, None)
        except NoteNotFound:
            # The store remembers the write but has no such note: it was removed after it arrived.
            self._intents.finish(write, storing=[Tombstone(write.note_id)])
            return Delivered(Taken.STORED)
        except VersionConflict:
            return Delivered(Taken.AGAIN)

    def _has_text_to_keep(self, write: PendingWrite) -> bool:
        """Whether the write carries words that are nowhere else."""
        base = self._base_of(write)
        return base is None or base.text != write.content.text

    async def _update(self, write: PendingWrite, head: Revision) -> Delivered:
        sent = self._store.revision_of(write.note_id, write.body).content
        if head.content == sent:
            return self._settled(write, head)
        if head.etag == write.base_etag:
            return await self._send(write, head)
        base = self._base_of(write) or await self._older(write)
        merged = None if base is None else merge_content(base, write.content, head.content)
        if merged is None and write.copied:
            return self._settled(write, head)
        if merged is None:
            return await self._delivery.keep_as_copy(write, instead=head)
        if not self._intents.sees_revision(head):
            merged = replace(merged, tags=head.content.tags)  # hidden since: it stays so
        if merged == head.content:
            return self._settled(write, head)
        body = self._store.compose(head, merged, now=self._clock())
        rebased = self._intents.rebase(write, base=head, content=merged, body=body)
        return await self._send(rebased, head) if rebased else Delivered(Taken.AGAIN)

    async def _send(self, write: PendingWrite, head: Revision) -> Delivered:
        try:
            return await self._dated(write, head)
        except (NoteNotFound, VersionConflict):
            return Delivered(Taken.AGAIN)

    async def _dated(self, write: PendingWrite, head: Revision | None) -> Delivered:
        """Send it over ``head``; once more with the time of now if the clock was wrong back then."""
        base = head.content if head else NOTHING
        try:
            return await self._delivery.send(write, base=base, replayed=True)
        except DateRefused:
            body = self._store.compose(head, write.content, now=self._clock())
            anew = self._intents.rebase(write, base=head, content=write.content, body=body)
            if anew is None:
                return Delivered(Taken.AGAIN)
            return await self._delivery.send(anew, base=base, replayed=True)

    async def _remove(self, write: PendingWrite, head: Revision) -> Delivered:
        if head.etag != write.base_etag:
            # Somebody changed it since: what they wrote stays.
            return self._settled(write, head)
        try:
            await self._delivery.remove(write)
        except (VersionConflict, BackendRejected):
            return Delivered(Taken.AGAIN) if await self._moved(head) else self._settled(write, head)
        return Delivered(Taken.STORED)

    async def _moved(self, head: Revision) -> bool:
        try:
            return (await self._store.get(head.id)).etag != head.etag
        except NoteNotFound:
            return True

    def _base_of(self, write: PendingWrite) -> Content | None:
        base = self._cache.notes.base(write.note_id)
        return base.content if base and base.etag == write.base_etag else None

    async def _older(self, write: PendingWrite) -> Content | None:
        """The base from the store's history, if the cache has lost it."""
        if not self._store.capabilities.has_versions or write.base_etag is None:
            return None
        try:
            return (await self._store.get(write.note_id, etag=write.base_etag)).content
        except NoteNotFound:
            return None
