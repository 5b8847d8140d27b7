"""``Writer``: every change of a note goes through here, to the store first and then to the cache.

A change made from an old view is merged or refused, never written over somebody else's; success is
reported only after the store has answered; what was sent and not answered stays as an intent and is
finished by :meth:`Writer.replay`. It does not read the change feed (``driver`` does).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_notarium.backends.base import Backend
from mcp_notarium.cache.store import Cache
from mcp_notarium.errors import (
    BackendRejected,
    BackendUnavailable,
    CacheBusy,
    CacheError,
    InvalidRequest,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    VersionConflict,
)
from mcp_notarium.notes.clean import replace_surrogates
from mcp_notarium.notes.merge import merge_content
from mcp_notarium.notes.note import Content, Note, Revision, Tombstone
from mcp_notarium.notes.pending import PendingWrite, WriteKind
from mcp_notarium.sync.delivery import NOT_STORED, NOTHING, Delivered, Delivery, Taken
from mcp_notarium.sync.intents import Hook, Intents
from mcp_notarium.sync.owner import owner_gone
from mcp_notarium.sync.planner import Known, Said, said
from mcp_notarium.sync.replay import ROUNDS, Replay
from mcp_notarium.sync.turns import Turn, Turns

PATIENCE = 50
"""How often to look whether another process has finished with the note."""
PATIENCE_PAUSE = 0.1

_EVERYBODY = (BackendUnavailable, LoginRequired, RateLimited)
"""Refusals that would meet every other intent as well."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The note as it is in the cache now.

    ``merged``: somebody else's change is in it too. ``copy_id``: the store mixed up a line of ours
    with somebody else's, so our text is also kept in that note.
    """

    note: Note
    merged: bool = False
    copy_id: str | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the unfinished intents. ``waiting`` are still in doubt or in other hands."""

    finished: int = 0
    copies: int = 0
    rejected: int = 0
    waiting: int = 0


class Writer:
    """The one way to change notes.

    ``before_intent`` is called before an intent is recorded, inside its transaction;
    ``after_last_intent`` when none is left. ``reached`` is told each step of a delivery, so that a
    test can stop there.
    """

    def __init__(
        self,
        cache: Cache,
        backend: Backend,
        *,
        clock: Callable[[], float],
        owner: str,
        lease: float,
        before_intent: Hook | None = None,
        after_last_intent: Hook | None = None,
        gone: Callable[[str], bool] = owner_gone,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        reached: Callable[[str], None] = lambda _step: None,
    ) -> None:
        self._cache = cache
        self._backend = backend
        self._clock = clock
        self._new_id = new_id
        self._sleep = sleep
        self._turns = Turns()
        self._intents = Intents(
            cache,
            clock=clock,
            owner=owner,
            lease=lease,
            gone=gone,
            before_intent=before_intent,
            after_last_intent=after_last_intent,
        )
        self._delivery = Delivery(backend, self._intents, clock=clock, reached=reached)
        self._replay = Replay(
            cache, backend, intents=self._intents, delivery=self._delivery, clock=clock
        )

    async def save(self, *, note: Note | None, content: Content) -> Saved:
        """Create a note, or change ``note`` (as the caller read it) into ``content``.

        Raises ``VersionConflict`` if somebody else changed the same lines, ``NoteNotFound`` if the
        note is gone, ``OutcomeUnknown`` if the store did not answer (the write is finished later),
        or what kept the store from taking it; except for ``OutcomeUnknown`` nothing was saved.
        """
        wanted = _clean(content)
        if note is None:
            return await self._create(wanted)
        async with self._turns.of(note.id) as turn:
            await self._settle(note.id, turn)
            return await self._update(note, wanted, turn)

    async def remove(self, note: Note) -> None:
        """Remove a note for good, as the caller read it. A note already gone is success.

        Raises ``InvalidRequest`` if it is not in the trash where the store wants that,
        ``VersionConflict`` if it has changed, otherwise as :meth:`save`.
        """
        async with self._turns.of(note.id) as turn:
            await self._settle(note.id, turn)
            etag = self._removable(note)
            if etag is None:
                return
            write = self._intents.make(
                write_id=self._new_id(),
                note_id=note.id,
                kind=WriteKind.DELETE,
                base_etag=etag,
                content=note.content,
                body="",
            )
            await turn.unbroken(self._send_removal(write, etag))

    async def replay(self) -> Replayed:
        """Finish every intent nobody is busy with. One that fails does not hold up the others.

        Raises ``BackendUnavailable``, ``LoginRequired`` or ``RateLimited`` as soon as the store
        refuses everything.
        """
        counts = dict.fromkeys(Taken, 0)
        waiting = 0
        for write in self._intents.all_in_flight():
            if self._turns.taken(write.note_id):
                waiting += 1
                continue
            async with self._turns.of(write.note_id) as turn:
                taken = await self._replay_one(write, turn)
            if taken is None:
                waiting += 1
            else:
                counts[taken] += 1
        return Replayed(
            finished=counts[Taken.STORED],
            copies=counts[Taken.COPIED],
            rejected=counts[Taken.REFUSED],
            waiting=waiting,
        )

    def has_work(self) -> bool:
        """Whether :meth:`replay` would find something to do now."""
        return any(
            self._intents.claimable(write) and not self._turns.taken(write.note_id)
            for write in self._intents.all_in_flight()
        )

    async def drain(self) -> None:
        """Wait for writes whose caller has gone away."""
        await self._turns.drain()

    async def _replay_one(self, write: PendingWrite, turn: Turn) -> Taken | None:
        claimed = self._intents.claim(write)
        if claimed is None:
            return None
        try:
            return (await turn.unbroken(self._replay.finish(claimed))).taken
        except (*_EVERYBODY, CacheError):
            raise
        except NotariumError:
            return None

    # Creating.

    async def _create(self, content: Content) -> Saved:
        resumed = await self._resume_creation(content)
        if resumed is not None:
            return resumed
        note_id = self._new_id()
        async with self._turns.of(note_id) as turn:
            write = self._intents.make(
                write_id=self._new_id(),
                note_id=note_id,
                kind=WriteKind.CREATE,
                base_etag=None,
                content=content,
                body=self._backend.compose(None, content, now=self._clock()),
            )
            delivered = await turn.unbroken(self._send_creation(write))
            return self._saved(note_id, delivered)

    async def _resume_creation(self, content: Content) -> Saved | None:
        """Finish an unanswered creation of the same content instead of making a second note."""
        same = (
            write
            for write in self._intents.all_in_flight()
            if write.kind is WriteKind.CREATE and write.content == content
        )
        write = next(filter(self._intents.claimable, same), None)
        if write is None:
            return None
        async with self._turns.of(write.note_id) as turn:
            await self._settle(write.note_id, turn)
            note = self._cache.notes.get(write.note_id)
            return Saved(note, merged=note.content != content) if note is not None else None

    async def _send_creation(self, write: PendingWrite) -> Delivered:
        self._demand_size(write)
        self._intents.record(write)
        return await self._send(write, NOTHING)

    # Changing.

    async def _update(self, note: Note, content: Content, turn: Turn) -> Saved:
        for _ in range(ROUNDS):
            seen = self._cache.notes.etag(note.id)
            head = await self._head(note.id, seen)
            wanted = merge_content(note.content, content, head.content)
            if wanted is None or wanted == head.content:
                self._intents.adopt(head, seen=seen)
                if wanted is None:
                    raise self._conflict(note.id)
                return self._saved(note.id, Delivered(Taken.STORED, merged=wanted != content))
            write = self._intents.make(
                write_id=self._new_id(),
                note_id=note.id,
                kind=WriteKind.UPDATE,
                base_etag=head.etag,
                content=wanted,
                body=self._backend.compose(head, wanted, now=self._clock()),
            )
            delivered = await turn.unbroken(self._send_update(write, head, seen))
            if delivered.taken is not Taken.AGAIN:
                return self._saved(note.id, delivered, merged=head.content != note.content)
        raise self._conflict(note.id)

    async def _head(self, note_id: str, seen: str | None) -> Revision:
        try:
            head = await self._backend.get(note_id)
            if said(self._known(note_id), head) is Said.OLDER:
                # Either the note was made again, or this answer lags. Only the second look tells.
                head = await self._backend.get(note_id)
        except NoteNotFound:
            self._intents.adopt(Tombstone(note_id), seen=seen)
            raise
        return head

    def _known(self, note_id: str) -> Known | None:
        base = self._cache.notes.base(note_id)
        return Known(base.etag, base.server_version) if base else None

    async def _send_update(
        self, write: PendingWrite, head: Revision, seen: str | None
    ) -> Delivered:
        self._demand_size(write)
        if not self._intents.record(write, base=head, seen=seen):
            return Delivered(Taken.AGAIN)
        try:
            delivered = await self._send(write, head.content)
        except VersionConflict:
            return Delivered(Taken.AGAIN)
        except NoteNotFound:
            self._intents.adopt(Tombstone(write.note_id), seen=head.etag)
            raise
        if delivered.taken is Taken.AGAIN:
            self._intents.finish(write)
        return delivered

    async def _send(self, write: PendingWrite, base: Content) -> Delivered:
        try:
            return await self._delivery.send(write, base=base)
        except NOT_STORED as error:
            self._intents.finish(write)
            raise _nothing_saved(error) from None

    # Removing.

    def _removable(self, note: Note) -> str | None:
        """The etag to remove; None if the note is gone already."""
        current = self._cache.notes.get(note.id)
        if current is None:
            return None
        if current.local_version != note.local_version:
            raise self._conflict(note.id)
        if self._backend.capabilities.trash_before_delete and not current.trash:
            raise InvalidRequest(
                "only a note in the trash can be deleted for good",
                details={"id": note.id},
                resolution_hint="Move the note to the trash first, then delete it.",
            )
        return self._cache.notes.etag(note.id)

    async def _send_removal(self, write: PendingWrite, etag: str) -> None:
        if not self._intents.record(write, seen=etag):
            raise self._conflict(write.note_id)
        try:
            await self._delivery.remove(write)
        except NOT_STORED as error:
            self._intents.finish(write)
            if isinstance(error, VersionConflict | BackendRejected):
                await self._look_again(write.note_id)
            if isinstance(error, VersionConflict):
                raise self._conflict(write.note_id) from None
            raise _nothing_saved(error) from None

    async def _look_again(self, note_id: str) -> None:
        """Let the caller's next ``get`` show what stood in the way."""
        seen = self._cache.notes.etag(note_id)
        try:
            self._intents.adopt(await self._backend.get(note_id), seen=seen)
        except NoteNotFound:
            self._intents.adopt(Tombstone(note_id), seen=seen)
        except NotariumError:
            return

    # What all of them need.

    async def _settle(self, note_id: str, turn: Turn) -> None:
        """Finish the note's unanswered write first."""
        for _ in range(PATIENCE):
            write = self._intents.in_flight(note_id)
            if write is None:
                return
            claimed = self._intents.claim(write)
            if claimed is None:
                await self._sleep(PATIENCE_PAUSE)
                continue
            try:
                await turn.unbroken(self._replay.finish(claimed))
            except OutcomeUnknown as error:
                raise BackendUnavailable(
                    "an earlier write of this note is still unanswered; nothing was saved",
                    details=error.details,
                ) from error
        raise CacheBusy("another process is saving this note")

    def _demand_size(self, write: PendingWrite) -> None:
        largest = self._backend.capabilities.max_note_bytes
        size = len(write.body.encode(errors="replace"))
        if largest is not None and size > largest:
            raise BackendRejected(
                "the note is larger than the note service takes; nothing was saved",
                details={"bytes": size, "most": largest},
                http_status_code=413,
            )

    def _saved(self, note_id: str, delivered: Delivered, *, merged: bool = False) -> Saved:
        note = self._cache.notes.get(note_id)
        if note is None:
            raise NoteNotFound(
                "the note was removed right after it was saved", details={"id": note_id}
            )
        return Saved(note, merged=merged or delivered.merged, copy_id=delivered.copy_id)

    def _conflict(self, note_id: str) -> VersionConflict:
        note = self._cache.notes.get(note_id)
        return VersionConflict(
            "the note was changed elsewhere in the same place; nothing was saved",
            details={"id": note_id}
            | ({"current_local_version": note.local_version} if note else {}),
        )


def _clean(content: Content) -> Content:
    """The content as any store and the cache can hold it."""
    return Content(
        text=replace_surrogates(content.text),
        tags=tuple(replace_surrogates(tag) for tag in content.tags),
        trash=content.trash,
    )


def _nothing_saved(error: NotariumError) -> NotariumError:
    if "nothing was saved" not in error.user_message:
        error.user_message = f"{error.user_message}; nothing was saved"
    return error
