"""``Delivery``: sends one recorded intent and stores what the store made of it.

It does not decide what to send (``writer`` and ``replay`` do) and leaves the intent in the cache
whenever it is not certain how the write ended.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteKind
from mcp_notarium.errors import (
    BackendRejected,
    BackendUnavailable,
    CacheError,
    DateRefused,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    VersionConflict,
)
from mcp_notarium.stores.contract import Acknowledgement, Answer, Store
from mcp_notarium.stores.withdrawal import WITHDRAWN
from mcp_notarium.sync.conflict_copy import (
    Echo,
    copy_content,
    copy_id,
    copy_write_id,
    differences,
    judge_echo,
    mend,
    with_lost_tags,
)
from mcp_notarium.sync.journal import Intents

NOT_STORED = (
    BackendRejected,
    BackendUnavailable,
    LoginRequired,
    NoteNotFound,
    RateLimited,
    VersionConflict,
)
"""With these the store has certainly not taken the write. After anything else it may have."""

NOTHING = Content(text="")


class Taken(Enum):
    """How a delivery ended."""

    STORED = "stored"
    COPIED = "copied"
    """Stored, but some of our text was not in it: that is kept in a conflict copy."""
    REFUSED = "refused"
    """The store will never take it; the text stays as a rejected intent."""
    AGAIN = "again"
    """Not stored, because the note is another one by now: decide anew."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """How a delivery ended, and whether somebody else's change is in it.

    ``differs``: where the store by itself holds something else than was sent; "" if nowhere.
    """

    taken: Taken
    merged: bool = False
    copy_id: str | None = None
    differs: str = ""


class Delivery:
    """Push and commit of single intents."""

    def __init__(
        self,
        store: Store,
        intents: Intents,
        *,
        clock: Callable[[], float],
        reached: Callable[[str], None],
        differed: Callable[[str], None],
    ) -> None:
        self._store = store
        self._intents = intents
        self._clock = clock
        self._reached = reached
        self._differed = differed

    async def send(
        self, write: PendingWrite, *, base: Content, repair: bool = True, replayed: bool = False
    ) -> Delivered:
        """Push a CREATE or UPDATE and commit the answer.

        ``replayed``: it may have arrived before, over another base than the one it has now.
        Raises what the store raised: one of ``NOT_STORED`` with the intent untouched, or
        ``OutcomeUnknown`` with the intent released for whoever comes first.
        """
        self._reached("recorded")
        try:
            answer = await self._store.push(write)
        except NOT_STORED:
            raise
        except Exception as error:
            raise self._in_doubt(write) from error
        WITHDRAWN.set(lambda: False)  # what follows from a stored write is sent, whoever has left
        self._reached("pushed")
        known = replayed and answer.answer is Answer.REPEATED
        if answer.alone and not known:
            return await self._accept_alone(write, answer)
        return await self._accept(write, base, answer, repair=repair and not write.copied)

    async def remove(self, write: PendingWrite) -> None:
        """Carry out a DELETE and commit it. Raises as :meth:`send` does."""
        self._reached("recorded")
        try:
            await self._store.delete(
                write.note_id, etag=write.base_etag or "", write_id=write.write_id
            )
        except NoteNotFound:
            pass
        except NOT_STORED:
            raise
        except Exception as error:
            raise self._in_doubt(write) from error
        self._reached("pushed")
        self._finish(write, Tombstone(write.note_id))

    async def keep_as_copy(
        self, write: PendingWrite, *, instead: Revision | Tombstone
    ) -> Delivered:
        """Give the text a note of its own and let ``instead`` stand for the note it was for."""
        copy = self._copy_of(write)
        if self._finish(write, instead, [copy]):
            await self._follow(copy, base=NOTHING)
        return Delivered(Taken.COPIED, merged=True, copy_id=copy.note_id)

    def give_up(self, write: PendingWrite) -> None:
        """Drop the intent of a write that the store has not taken.

        Raises ``OutcomeUnknown`` if that cannot be recorded: it will be finished after all.
        """
        try:
            self._intents.finish(write)
        except CacheError as error:
            raise OutcomeUnknown(
                "the write is not stored yet, and could not be taken back here",
                details={"id": write.note_id, "write_id": write.write_id},
            ) from error

    def _in_doubt(self, write: PendingWrite) -> NotariumError:
        # Being cancelled does not come here: then the process may be going down, and the intent
        # in the cache says all there is to say.
        self._intents.release(write)
        return OutcomeUnknown(
            "the note service did not answer the write",
            details={"id": write.note_id, "write_id": write.write_id},
        )

    async def _accept_alone(self, write: PendingWrite, answer: Acknowledgement) -> Delivered:
        """Commit an answer in which there is nothing of anybody else: no copy, whatever it says.

        A store that changes what it is given would change a copy as well, and every further write.
        """
        sent = self._store.revision_of(write.note_id, write.body).content
        stored = answer.revision
        if stored.content != sent:
            stored = await self._as_held(stored)
        differs = differences(sent=sent, stored=stored.content)
        self._finish(write, stored, differs=bool(differs))
        if differs:
            self._differed(write.note_id)
        return Delivered(Taken.STORED, differs=differs)

    async def _as_held(self, stored: Revision) -> Revision:
        """The same revision as the store gives it to whoever asks; what it echoes may be another text."""
        with suppress(NotariumError):
            held = await self._store.get(stored.id)
            return held if held.etag == stored.etag else stored
        return stored

    async def _accept(
        self, write: PendingWrite, base: Content, answer: Acknowledgement, *, repair: bool
    ) -> Delivered:
        stored = answer.revision
        sent = self._store.revision_of(write.note_id, write.body).content
        echo = judge_echo(base=base, sent=sent, stored=stored.content)
        lost = echo in (Echo.TEXT_LOST, Echo.TAGS_LOST)
        if lost and answer.answer is Answer.UNCHANGED:
            return Delivered(Taken.AGAIN)
        wanted, copies = None, echo is Echo.TEXT_LOST
        kept: Revision | Tombstone = stored
        if repair and answer.answer is Answer.STORED:
            theirs = await self._overwritten(write, answer)
            if theirs is not None:
                mending = mend(base=base, sent=sent, theirs=theirs, stored=stored.content)
                wanted = mending.content if mending else None
                copies = mending is not None and mending.copies
                if not self._intents.sees(stored.id, theirs):
                    # Hidden a moment before: it stays so, whatever the store made of both.
                    hidden = replace(wanted or stored.content, tags=theirs.tags)
                    wanted = None if hidden == stored.content else hidden
                    kept = stored if wanted is None else Tombstone(stored.id)
            elif echo is Echo.TAGS_LOST:
                wanted = with_lost_tags(base=base, sent=sent, stored=stored.content)
        copies = copies and not write.copied
        follow_ups = [self._copy_of(write)] if copies else []
        if wanted is not None:
            follow_ups.append(self._repair_of(stored, wanted, copied=copies))
        if self._finish(write, kept, follow_ups):
            for follow_up in follow_ups:
                created = follow_up.kind is WriteKind.CREATE
                await self._follow(follow_up, base=NOTHING if created else stored.content)
        merged = echo is not Echo.AS_SENT or wanted is not None
        if copies:
            return Delivered(Taken.COPIED, merged=merged, copy_id=copy_id(write.write_id))
        return Delivered(Taken.STORED, merged=merged)

    async def _overwritten(self, write: PendingWrite, answer: Acknowledgement) -> Content | None:
        """Somebody else's revision that our write was stored on top of; None if that is not known.

        What we wrote is stored already: if it cannot be had, that is no failure.
        """
        if answer.before is None or answer.before == write.base_etag:
            return None
        with suppress(NotariumError):
            return (await self._store.get(write.note_id, etag=answer.before)).content
        return None

    def _finish(
        self,
        write: PendingWrite,
        storing: Revision | Tombstone,
        follow_ups: Sequence[PendingWrite] = (),
        *,
        differs: bool = False,
    ) -> bool:
        try:
            ours = self._intents.finish(
                write, storing=[storing], follow_ups=follow_ups, differs=differs
            )
        except CacheError as error:
            # The store has it and the cache has not: only the intent tells, and it is still there.
            raise OutcomeUnknown(
                "the write is stored, but could not be recorded here",
                details={"id": write.note_id, "write_id": write.write_id},
            ) from error
        self._reached("committed")
        return ours

    async def _follow(self, write: PendingWrite, *, base: Content) -> None:
        """Send what followed from another write; it stays an intent if that fails now."""
        try:
            delivered = await self.send(write, base=base, repair=False)
        except NotariumError as error:
            if isinstance(error, BackendRejected) and not isinstance(error, DateRefused):
                with suppress(CacheError):
                    self._intents.reject(write, error.message)
            else:
                self._intents.release(write)
        else:
            if delivered.taken is Taken.AGAIN:
                self._intents.release(write)

    def _copy_of(self, write: PendingWrite) -> PendingWrite:
        shares = self._store.capabilities.shares_by_tag
        content = copy_content(write.content, shares_by_tag=shares)
        return self._intents.make(
            write_id=copy_write_id(write.write_id),
            note_id=copy_id(write.write_id),
            kind=WriteKind.CREATE,
            base_etag=None,
            content=content,
            body=self._store.compose(None, content, now=self._clock()),
            copied=True,
        )

    def _repair_of(self, stored: Revision, wanted: Content, *, copied: bool) -> PendingWrite:
        return self._intents.make(
            write_id=uuid.uuid4().hex,
            note_id=stored.id,
            kind=WriteKind.UPDATE,
            base_etag=stored.etag,
            content=wanted,
            body=self._store.compose(stored, wanted, now=self._clock()),
            copied=copied,
        )
