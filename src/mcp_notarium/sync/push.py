"""Push one recorded journal entry and commit the store's answer.

``Pusher`` does not decide what to send; ``writer`` and ``journal_replay`` do. It leaves the entry
in the journal whenever the outcome of the write is not certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum

from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import (
    CacheError,
    DateRefused,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import WITHDRAWN, Acknowledgement, PushStatus, Store
from mcp_notarium.sync.conflict_copy import (
    StoredAs,
    compare_stored,
    copy_content,
    copy_id,
    copy_write_id,
    differences,
    plan_repair,
    with_lost_tags,
)
from mcp_notarium.sync.journal import Journal

NOT_STORED = (
    StoreRejected,
    StoreUnavailable,
    LoginRequired,
    NoteNotFound,
    RateLimited,
    VersionConflict,
)
"""Errors after which the store has certainly not taken the write. After any other it may have."""

NOTHING = Content(text="")


class PushOutcome(Enum):
    """Name how a push ended."""

    STORED = "stored"
    COPIED = "copied"
    """Stored, but some of our text was not in it: that is kept in a conflict copy."""
    REFUSED = "refused"
    """The store will never take it; the text stays as a rejected entry."""
    AGAIN = "again"
    """Not stored, because the note has changed: decide again."""


@dataclass(frozen=True, slots=True)
class PushResult:
    """Hold how a push ended, and whether somebody else's change is in it.

    ``differs``: where the store by itself holds something else than was sent; "" if nowhere.
    """

    outcome: PushOutcome
    merged: bool = False
    copy_id: str | None = None
    differs: str = ""

    def with_repair(self, repair: PushResult | None) -> PushResult:
        """Add what the repair of this push has led to: a copy, or a difference that the store made."""
        if repair is None:
            return self
        copied = self.copy_id or repair.copy_id
        return replace(
            self,
            outcome=self.outcome if copied is None else PushOutcome.COPIED,
            copy_id=copied,
            differs=self.differs or repair.differs,
        )


class Pusher:
    """Push and commit single journal entries."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        *,
        clock: Callable[[], float],
        on_step: Callable[[str], None],
        on_difference: Callable[[str], None],
    ) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._on_step = on_step
        self._on_difference = on_difference

    async def send(
        self, write: PendingWrite, *, base: Content, repair: bool = True, replayed: bool = False
    ) -> PushResult:
        """Push a CREATE or UPDATE and commit the answer.

        ``replayed``: it may have arrived before, over another base than the one it has now.
        Raises what the store raised: one of ``NOT_STORED`` with the entry untouched, or
        ``OutcomeUnknown`` with the entry released for any process.
        """
        with self._sending(write):
            answer = await self._store.push(write)
            # Follow-ups of a stored write are sent even if the caller has left.
            WITHDRAWN.set(lambda: False)
        known = replayed and answer.status is PushStatus.REPEATED
        repair = repair and not write.copied
        earlier = await self._read_revision(write.note_id, answer.first)
        if (answer.alone and not known) or self._is_own(write, earlier, repaired=not repair):
            return await self._accept_alone(write, answer)
        return await self._accept(write, base, answer, earlier, repair=repair)

    async def remove(self, write: PendingWrite) -> None:
        """Push a DELETE and commit it. Raises as :meth:`send` does."""
        with self._sending(write), suppress(NoteNotFound):
            await self._store.delete(
                write.note_id, etag=write.base_etag or "", write_id=write.write_id
            )
        self._finish(write, Tombstone(write.note_id))

    async def keep_as_copy(
        self, write: PendingWrite, *, instead: Revision | Tombstone
    ) -> PushResult:
        """Keep the text in a conflict copy and store ``instead`` for the note it was meant for."""
        copy = self._copy_of(write)
        if self._finish(write, instead, [copy]):
            await self._send_follow_up(copy, base=NOTHING)
        return PushResult(PushOutcome.COPIED, merged=True, copy_id=copy.note_id)

    def drop(self, write: PendingWrite) -> None:
        """Drop the entry of a write that the store has not taken.

        Raises ``OutcomeUnknown`` if that cannot be recorded: then it will be finished after all.
        """
        try:
            self._journal.finish(write)
        except CacheError as error:
            raise unknown_outcome(
                "the write is not stored yet, and could not be taken back here", write
            ) from error

    @contextmanager
    def _sending(self, write: PendingWrite) -> Iterator[None]:
        """Turn an error after which the store may have the write into ``OutcomeUnknown``.

        A cancellation passes: the process may be going down, and the journal entry is all that is needed.
        """
        self._on_step("recorded")
        try:
            yield
        except NOT_STORED:
            raise
        except Exception as error:
            self._journal.release(write)
            raise unknown_outcome("the note store did not answer the write", write) from error
        self._on_step("pushed")

    async def _accept_alone(self, write: PendingWrite, answer: Acknowledgement) -> PushResult:
        """Commit an answer with nobody else's change between it and ours: make no copy, whatever it says.

        A store that changes what it is given would change a copy as well, and every further write.
        """
        sent = self._store.revision_of(write.note_id, write.body).content
        stored = answer.revision
        if stored.content != sent:
            stored = await self._read_held(stored)
        differs = differences(sent=sent, stored=stored.content)
        self._finish(write, stored, differs=bool(differs))
        if differs:
            self._on_difference(write.note_id)
        return PushResult(PushOutcome.STORED, differs=differs)

    async def _read_held(self, stored: Revision) -> Revision:
        """Read the same revision again: the text in an answer may differ from the stored one."""
        with suppress(NotariumError):
            held = await self._store.get(stored.id)
            stored = held if held.etag == stored.etag else stored
        return stored

    async def _accept(
        self,
        write: PendingWrite,
        base: Content,
        answer: Acknowledgement,
        earlier: Revision | None,
        *,
        repair: bool,
    ) -> PushResult:
        stored = answer.revision
        sent = self._store.revision_of(write.note_id, write.body).content
        stored_as = compare_stored(base=base, sent=sent, stored=stored.content)
        lost = stored_as in (StoredAs.TEXT_LOST, StoredAs.TAGS_LOST)
        if lost and answer.status is PushStatus.UNCHANGED:
            return PushResult(PushOutcome.AGAIN)
        wanted, copies = None, stored_as is StoredAs.TEXT_LOST
        kept: Revision | Tombstone = stored
        if repair and answer.status is PushStatus.STORED:
            before = answer.before if answer.before != write.base_etag else None
            if earlier is None or before != answer.first:
                earlier = await self._read_revision(write.note_id, before)
            if earlier is not None:
                theirs = earlier.content
                planned = plan_repair(base=base, sent=sent, theirs=theirs, stored=stored.content)
                wanted = planned.content if planned else None
                copies = planned is not None and planned.copies
                if not self._journal.sees(stored.id, theirs):
                    # Hidden by the policy a moment before: it stays so, whatever the store made of both.
                    hidden = replace(wanted or stored.content, tags=theirs.tags)
                    wanted = None if hidden == stored.content else hidden
                    kept = stored if wanted is None else Tombstone(stored.id)
            elif stored_as is StoredAs.TAGS_LOST:
                wanted = with_lost_tags(base=base, sent=sent, stored=stored.content)
        copies = copies and not write.copied
        follow_ups = [self._copy_of(write)] if copies else []
        if wanted is not None:
            follow_ups.append(self._repair_of(stored, wanted, copied=copies))
        merged = stored_as is not StoredAs.AS_SENT or wanted is not None
        result = PushResult(PushOutcome.STORED, merged=merged)
        if copies:
            result = replace(result, outcome=PushOutcome.COPIED, copy_id=copy_id(write.write_id))
        ours = self._finish(write, kept, follow_ups)
        for follow_up in follow_ups if ours else ():
            created = follow_up.kind is WriteKind.CREATE
            sent_too = await self._send_follow_up(
                follow_up, base=NOTHING if created else stored.content
            )
            result = result if created else result.with_repair(sent_too)
        return result

    def _is_own(self, write: PendingWrite, first: Revision | None, *, repaired: bool) -> bool:
        """Tell whether the first revision after our base is this write.

        Two devices make the same edit, but not in the same microsecond. Of a follow-up (``repaired``)
        the content is enough, so that a store which sets the dates is not fought. What the policy
        hides is never ours: no write here hides a note.
        """
        if first is None or not self._journal.sees(write.note_id, first.content):
            return False
        sent = self._store.revision_of(write.note_id, write.body)
        same = repaired and first.content == sent.content
        return same or first.modified_at == sent.modified_at

    async def _read_revision(self, note_id: str, etag: str | None) -> Revision | None:
        """Read an earlier revision of a note; None if it is not known.

        Our write is stored already, so a failure here is not an error.
        """
        if etag is None:
            return None
        with suppress(NotariumError):
            return await self._store.get(note_id, etag=etag)
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
            ours = self._journal.finish(
                write, storing=[storing], follow_ups=follow_ups, differs=differs
            )
        except CacheError as error:
            # The store has it and the index has not: only the journal entry says so, and it remains.
            raise unknown_outcome(
                "the write is stored, but could not be recorded here", write
            ) from error
        self._on_step("committed")
        return ours

    async def _send_follow_up(self, write: PendingWrite, *, base: Content) -> PushResult | None:
        """Send a follow-up of another write; it stays in the journal if that fails now: None."""
        result = None
        try:
            result = await self.send(write, base=base, repair=False)
        except NotariumError as error:
            if isinstance(error, StoreRejected) and not isinstance(error, DateRefused):
                with suppress(CacheError):
                    self._journal.reject(write, error.message)
            else:
                self._journal.release(write)
        else:
            if result.outcome is PushOutcome.AGAIN:
                self._journal.release(write)
        return result

    def _copy_of(self, write: PendingWrite) -> PendingWrite:
        shares = self._store.traits.shares_by_tag
        content = copy_content(write.content, shares_by_tag=shares)
        return self._journal.make(
            write_id=copy_write_id(write.write_id),
            note_id=copy_id(write.write_id),
            kind=WriteKind.CREATE,
            base_etag=None,
            content=content,
            body=self._store.compose(None, content, now=self._clock()),
            copied=True,
        )

    def _repair_of(self, stored: Revision, wanted: Content, *, copied: bool) -> PendingWrite:
        return self._journal.make(
            note_id=stored.id,
            kind=WriteKind.UPDATE,
            base_etag=stored.etag,
            content=wanted,
            body=self._store.compose(stored, wanted, now=self._clock()),
            copied=copied,
        )


def unknown_outcome(message: str, write: PendingWrite) -> OutcomeUnknown:
    """Return the error for a write that stays in the journal."""
    return OutcomeUnknown(message, details={"id": write.note_id, "write_id": write.write_id})
