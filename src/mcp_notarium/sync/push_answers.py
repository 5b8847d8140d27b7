"""Commit the store's answer to a push, and find out what became of our text and of others' there.

``AnswerCommitter`` stores the answer in the index and drops the journal entry in one transaction, which also
records what has to be sent after it: a conflict copy, or the repair of a note. ``push`` sends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import CacheError, NotariumError, StoreRejected
from mcp_notarium.stores.contract import Acknowledgement, PushStatus, Store, WriteGuard
from mcp_notarium.sync.conflict_copy import (
    StoredAs,
    compare_stored,
    copy_content,
    copy_write_id,
    differences,
    plan_repair,
    same_but_blanks,
    with_lost_tags,
)
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_fetch import get_newest
from mcp_notarium.sync.push_decisions import PushOutcome, PushResult, settle
from mcp_notarium.sync.write_errors import unknown_outcome

FollowUp = Callable[[PendingWrite, Content], Awaitable["PushResult"]]
"""Sends a recorded entry over a content."""
NOTHING = Content(text="")


class AnswerCommitter:
    """Commit the answers to single journal entries; ``send_follow_up`` sends what follows from them."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        *,
        clock: Callable[[], float],
        on_step: Callable[[str], None],
        on_difference: Callable[[str], None],
        send_follow_up: FollowUp,
    ) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._on_step = on_step
        self._on_difference = on_difference
        self._send_follow_up = send_follow_up

    async def commit(
        self,
        write: PendingWrite,
        base: Content,
        answer: Acknowledgement,
        *,
        repair: bool,
        replayed: bool,
    ) -> PushResult:
        """Commit the answer to a CREATE or UPDATE. Raises ``OutcomeUnknown`` if it cannot be stored."""
        if self._store.traits.write_guard is WriteGuard.LAST_WRITER:
            return await self._accept_over_others(write, base, answer, replayed=replayed)
        if self._store.traits.write_guard is WriteGuard.CAS:
            answer = replace(answer, alone=True)  # whoever writes after ours has seen it
        known = replayed and answer.status is PushStatus.REPEATED
        repair = repair and not (write.copied or write.repair)
        earlier = await self._read_revision(write.note_id, answer.first)
        alone = answer.alone and not known
        # defence: rewritten-text-not-resent -alone
        # defence: added-version-not-fought -_is_own
        if alone or self._is_own(write, earlier, repaired=not repair):
            return await self._accept_alone(write, answer, own=alone)
        return await self._accept(write, base, answer, earlier, repair=repair)

    async def keep_as_copy(
        self, write: PendingWrite, *, instead: Revision | Tombstone
    ) -> PushResult:
        """Keep the text in a conflict copy and store ``instead`` for the note it was meant for."""
        copy = self._copy_of(write)
        if not self.finish(write, instead, [copy], stored=False):
            return PushResult(PushOutcome.AGAIN)
        copied = await self._send_follow_up(copy, NOTHING)
        result = PushResult(PushOutcome.STORED, write.note_id, merged=True)
        return result.followed_by(copied, lost=True)

    def finish(
        self,
        write: PendingWrite,
        storing: Revision | Tombstone,
        follow_ups: Sequence[PendingWrite] = (),
        **how: bool,
    ) -> bool:
        """Store the answer and drop the entry; see :meth:`Journal.finish`. Raises ``OutcomeUnknown``."""
        try:
            ours = self._journal.finish(write, storing=[storing], follow_ups=follow_ups, **how)
        except CacheError as error:
            # The store has it and the index has not: only the journal entry says so, and it remains.
            raise unknown_outcome(
                "the write is stored, but could not be recorded here", write
            ) from error
        self._on_step("committed")
        return ours

    async def _accept_over_others(
        self, write: PendingWrite, base: Content, answer: Acknowledgement, *, replayed: bool
    ) -> PushResult:
        """Commit the answer of a store that keeps the last write, with what that has overwritten.

        The note is read again: another write may have come over ours, too.
        """
        sent = self._store.revision_of(write.note_id, write.body).content
        displaced = answer.displaced
        if write.kind is WriteKind.CREATE:
            base = sent  # whoever has changed a new note has seen our text
        held = await self._read_again(answer.revision)
        if displaced is not None and self._journal.is_taken(replace(displaced, id=write.note_id)):
            return await self._give_back(write, displaced, held, replayed=replayed)
        unseen = self._copy_unseen(write, displaced, known=(base.wording, sent.wording))
        if isinstance(held, Tombstone):  # whoever removed the note has not seen what we displaced
            if not self.finish(write, held, unseen):
                return await self._leave_to_others(unseen)
            for entry in unseen:
                await self._send_follow_up(entry, NOTHING)
            return PushResult(PushOutcome.STORED, held.id)
        if displaced is None and (ours := await self._accept_as_ours(write, base, answer, held)):
            return ours
        texts = settle(
            base=base,
            sent=sent,
            displaced=displaced.content if displaced else None,
            held=held.content,
        )
        others = [other for other in (displaced, held) if other is not None]
        hidden = next((o for o in others if not self._journal.sees_revision(o)), None)
        wanted = texts.content
        if hidden is not None:  # hidden by the policy a moment before: it stays so
            wanted = replace(wanted, tags=hidden.content.tags)
        repair = self._try_repair(held, wanted)
        unrepaired = repair is None and wanted != held.content
        lost = texts.ours is not None or (unrepaired and held.content != sent)
        copy = self._copy_of(write) if lost and not write.copied else None
        kept = held if repair is None or hidden is None else Tombstone(held.id)
        theirs = unseen if texts.theirs is not None or unrepaired else []
        follow_ups = [entry for entry in (copy, *theirs, repair) if entry is not None]
        if not self.finish(write, kept, follow_ups):
            return await self._leave_to_others(unseen)
        copied = await self._send_follow_up(copy, NOTHING) if copy else None
        for entry in theirs:
            await self._send_follow_up(entry, NOTHING)
        repaired = await self._send_follow_up(repair, held.content) if repair else None
        lost = held.content != sent
        result = PushResult(PushOutcome.STORED, held.id, merged=lost)
        return result.followed_by(copied, repaired, lost=lost)

    async def _read_again(self, stored: Revision) -> Revision | Tombstone:
        """Read a note that was just stored; it is taken to be as answered if it cannot be read.

        So is one that is not under its name: it may have been renamed, and the next listing tells.
        """
        held: Revision | Tombstone = stored
        if self._store.traits.compares:
            return held  # it was read back already
        with suppress(NotariumError):
            held = await get_newest(self._store, stored.id)
        named = self._store.traits.ids.named
        return stored if named and isinstance(held, Tombstone) else held

    async def _accept_as_ours(
        self, write: PendingWrite, base: Content, answer: Acknowledgement, held: Revision
    ) -> PushResult | None:
        """Commit what the store holds if nobody else's change is in it, as far as anyone can tell; else None."""
        sent = self._store.revision_of(write.note_id, write.body).content
        if held.etag == answer.revision.etag and (answer.alone or held.content == sent):
            return await self._accept_alone(write, answer, own=True)
        if write.repair or same_but_blanks(sent, held.content):
            as_sent = answer.alone and answer.revision.content == sent
            own = held.etag == answer.revision.etag and answer.status is PushStatus.STORED
            return await self._accept_rewritten(write, base, held, by_store=not as_sent, own=own)
        return None

    async def _accept_rewritten(
        self, write: PendingWrite, base: Content, held: Revision, *, by_store: bool, own: bool
    ) -> PushResult:
        """Commit what is taken for the store's rewriting of ours. Send nothing but a copy of lost lines.

        A repair ends here, whatever the store made of it: repaired again it would never end. ``by_store``
        False: the store has taken it as it was sent, so somebody else has written since.
        """
        sent = self._store.revision_of(write.note_id, write.body).content
        same = same_but_blanks(sent, held.content)
        stored_as = compare_stored(base=base, sent=sent, stored=held.content)
        lost = not same and stored_as is StoredAs.TEXT_LOST
        copy = self._copy_of(write) if lost and not write.copied else None
        differs = differences(sent=sent, stored=held.content) if by_store else ""
        kept = held if self._journal.sees_revision(held) else Tombstone(held.id)
        follow_ups = [] if copy is None else [copy]
        if not self.finish(write, kept, follow_ups, differs=bool(differs), own=own):
            return PushResult(PushOutcome.AGAIN)
        if differs:
            self._on_difference(held.id)
        copied = await self._send_follow_up(copy, NOTHING) if copy else None
        result = PushResult(PushOutcome.STORED, held.id, merged=not by_store, differs=differs)
        return result.followed_by(copied, lost=lost)

    def _copy_unseen(
        self,
        write: PendingWrite,
        displaced: Revision | None,
        *,
        known: Collection[tuple[str | None, str]],
    ) -> list[PendingWrite]:
        """Make the copy of what the write has overwritten, if it says something that is not ``known``."""
        if displaced is None or displaced.content.wording in known:
            return []
        return [self._copy_of(write, of=displaced)]

    async def _give_back(
        self,
        write: PendingWrite,
        displaced: Revision,
        held: Revision | Tombstone,
        *,
        replayed: bool,
    ) -> PushResult:
        """Put back another note that had got the id of ours right before the push; merge nothing.

        If the policy hides it, what is put back is hidden under whatever id, and ours is gone to its caller.
        """
        sent = self._store.revision_of(write.note_id, write.body).content
        hidden = not self._journal.sees_revision(displaced)
        back = None
        if isinstance(held, Revision) and held.content == sent:
            with suppress(StoreRejected):
                back = self._repair_of(held, displaced.content)
        back = back or self._copy_of(write, of=displaced)
        if hidden:
            self._journal.follow(displaced, back.note_id)
        keeps_ours = not write.copied and (replayed or not hidden)
        copy = self._copy_of(write) if keeps_ours else None
        kept = Tombstone(write.note_id) if hidden else held
        if not self.finish(write, kept, [back] if copy is None else [copy, back]):
            return await self._leave_to_others([back] if back.kind is WriteKind.CREATE else [])
        copied = await self._send_follow_up(copy, NOTHING) if copy else None
        await self._send_follow_up(back, sent if back.kind is WriteKind.UPDATE else NOTHING)
        result = PushResult(PushOutcome.STORED, write.note_id, merged=True)
        return result.followed_by(copied, None, lost=True)

    async def _leave_to_others(self, unseen: Sequence[PendingWrite]) -> PushResult:
        """Leave the entry to the process that has taken it over; keep what only this one has seen."""
        for copy in unseen:
            with suppress(CacheError):
                if self._journal.add_copy(copy):
                    await self._send_follow_up(copy, NOTHING)
        return PushResult(PushOutcome.AGAIN)

    async def _accept_alone(
        self, write: PendingWrite, answer: Acknowledgement, *, own: bool
    ) -> PushResult:
        """Commit an answer with nobody else's change between it and ours: make no copy, whatever it says.

        A store that changes what it is given would change a copy as well, and every further write. ``own``: nor has
        anybody written since.
        """
        sent = self._store.revision_of(write.note_id, write.body).content
        stored = answer.revision
        if stored.content != sent:
            stored = await self._read_held(stored)
        differs = differences(sent=sent, stored=stored.content)
        own = own and answer.status is not PushStatus.UNCHANGED
        self.finish(write, stored, differs=bool(differs), own=own)
        if differs:
            self._on_difference(stored.id)
        return PushResult(PushOutcome.STORED, stored.id, differs=differs)

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
        copy = self._copy_of(write) if copies and not write.copied else None
        mended = None
        if wanted is not None:
            mended = self._repair_of(stored, wanted, copied=copy is not None)
        follow_ups = [entry for entry in (copy, mended) if entry is not None]
        # Of a repeated write the store does not tell what it made: its number and its content do.
        own = answer.alone and stored.content == sent
        if not self.finish(write, kept, follow_ups, own=own):
            return PushResult(PushOutcome.AGAIN)
        copied = await self._send_follow_up(copy, NOTHING) if copy else None
        repaired = await self._send_follow_up(mended, stored.content) if mended else None
        merged = stored_as is not StoredAs.AS_SENT
        result = PushResult(PushOutcome.STORED, stored.id, merged=merged)
        return result.followed_by(copied, repaired, lost=lost)

    def _is_own(self, write: PendingWrite, first: Revision | None, *, repaired: bool) -> bool:
        """Tell whether the first revision after our base is this write.

        Two devices make the same edit, but not in the same microsecond. Of a follow-up (``repaired``)
        the content is enough, so that a store which sets the dates is not fought. What the policy
        hides is never ours: no write here hides a note.
        """
        if first is None or not self._journal.sees(write.note_id, first.content):
            return False
        sent = self._store.revision_of(write.note_id, write.body)
        if first.content == sent.content and repaired:
            return True
        return self._store.traits.dates and first.modified_at == sent.modified_at

    async def _read_revision(self, note_id: str, etag: str | None) -> Revision | None:
        """Read an earlier revision of a note; None if it is not known.

        Our write is stored already, so a failure here is not an error.
        """
        if etag is None:
            return None
        with suppress(NotariumError):
            return await self._store.get(note_id, etag=etag)
        return None

    def _copy_of(self, write: PendingWrite, *, of: Revision | None = None) -> PendingWrite:
        """Make the entry of a conflict copy: of the write's own text, or of what it has overwritten."""
        traits = self._store.traits
        content = copy_content(
            of.content if of else write.content,
            shares_by_tag=traits.shares_by_tag,
            folder=write.note_id.rpartition("/")[0] if traits.ids.paths else "",
        )
        write_id = copy_write_id(write.write_id, **({"of": of.etag} if of else {}))
        return self._journal.make(
            write_id=write_id,
            note_id=self._journal.make_id(self._store, content, seed=write_id, attempt=0),
            kind=WriteKind.CREATE,
            base_etag=None,
            content=content,
            body=self._store.compose(None, content, now=self._clock()),
            copied=True,
        )

    def _try_repair(self, stored: Revision, wanted: Content) -> PendingWrite | None:
        """Make the entry of a repair; None if there is none, or the store cannot hold both edits in one note."""
        with suppress(StoreRejected):
            if wanted != stored.content:
                return self._repair_of(stored, wanted)
        return None

    def _repair_of(
        self, stored: Revision, wanted: Content, *, copied: bool = False
    ) -> PendingWrite:
        return self._journal.make(
            note_id=stored.id,
            kind=WriteKind.UPDATE,
            base_etag=stored.etag,
            content=wanted,
            body=self._store.compose(stored, wanted, now=self._clock()),
            copied=copied,
            repair=True,
        )
