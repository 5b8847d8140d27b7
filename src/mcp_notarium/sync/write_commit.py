"""Commit the store's answer to a push, and mend what it has cost our text or others'.

``WriteCommit`` names what the answer shows, ``write_decisions`` decides. It stores the answer in the index and drops the journal
entry in one transaction, which also records what has to be sent after it: a conflict copy, or the repair of a note. It sends
nothing: ``write_attempt`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

from mcp_notarium.domain.conflict_copy import (
    Repair,
    StoredAs,
    compare_stored,
    differences,
    is_ours_rewritten,
    plan_repair,
    same_but_blanks,
    settle,
    with_lost_tags,
)
from mcp_notarium.domain.merge import merge_tags
from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import (
    CacheError,
    NotariumError,
    NoteNotFound,
    NoteUnreadable,
    StoreRejected,
)
from mcp_notarium.stores.contract import Acknowledgement, PushStatus, Retry, Store, WriteGuard
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_fetch import get_newest
from mcp_notarium.sync.write_decisions import (
    Attempt,
    Case,
    Held,
    Step,
    View,
    WriteOutcome,
    WriteResult,
    decide,
)
from mcp_notarium.sync.write_errors import unknown_outcome


@dataclass(frozen=True, slots=True)
class Committed:
    """Hold how a push ended, and the recorded entries that are to be sent after it."""

    result: WriteResult
    copy: PendingWrite | None = None
    """Keeps our text."""
    others: Sequence[PendingWrite] = ()
    """Keep what somebody else wrote."""
    repair: PendingWrite | None = None
    """Mends the note."""
    held: Revision | None = None
    """The note now; None: nothing."""
    lost: bool = True
    """The note lacks some of our change without these entries."""


_AGAIN = Committed(WriteResult(WriteOutcome.AGAIN))


@dataclass(frozen=True, slots=True)
class _Pushed:
    """Hold a write that the store has taken, and what is known of the note since."""

    write: PendingWrite
    base: Content
    sent: Content
    answer: Acknowledgement
    repeated: bool
    own: bool = False
    """The answer is the very revision that the write made."""
    earlier: Revision | None = None
    """The first revision after the base of the write, if it was read."""
    now: Revision | Tombstone | None = None
    """State read after the answer; None: nothing was read."""


class WriteCommit:
    """Commit the answers to single journal entries. ``on_difference``: see ``Writer``."""

    def __init__(
        self,
        store: Store,
        journal: Journal,
        *,
        on_step: Callable[[str], None],
        on_difference: Callable[[str], None],
    ) -> None:
        self._store = store
        self._overwrites = store.traits.write_guard is WriteGuard.LAST_WRITER
        self._journal = journal
        self._on_step = on_step
        self._on_difference = on_difference
        self._tag_changes: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        """Id of a repair to the tags before and after the save that it mends."""
        self.unstored: dict[str, tuple[Content, Acknowledgement]] = {}
        """Id of a write to its base, and to an answer that is not stored yet: nothing else tells what the write has displaced."""

    async def commit(
        self, write: PendingWrite, base: Content, answer: Acknowledgement, *, repeated: bool
    ) -> Committed:
        """Commit the answer to a CREATE or UPDATE of ``base``. Raises ``OutcomeUnknown`` if it cannot be stored."""
        if answer.displaced is not None:
            self.unstored[write.write_id] = base, answer
        pushed = _Pushed(write, base, self._journal.sent(write).content, answer, repeated)
        if self._overwrites:
            held, pushed = await self._look_over_others(pushed)
        else:
            held, pushed = await self._look_between(pushed)
        match step := decide(Case.of(write, Attempt.ANSWERED, held)):
            case Step.LOOK:
                return _AGAIN
            case Step.GIVE_BACK:
                return self._give_back(pushed)
            case Step.MEND | Step.PUT_BACK:
                once = step is Step.PUT_BACK
                if self._overwrites:
                    return self._settle(pushed, once=once or repeated)
                return await self._repair_merge(pushed, once=once)
        if isinstance(pushed.now, Tombstone):
            unseen = self._copy_displaced(pushed)  # who removed it has not seen that
            gone = Committed(WriteResult(WriteOutcome.STORED, pushed.now.id), others=unseen)
            ours = self.finish(write, pushed.now, unseen)
            return gone if ours else self._leave_to_others(unseen)
        return await self._accept(pushed, pushed.now, copies=step is Step.COPY)

    def commit_removal(self, write: PendingWrite) -> Committed:
        """Commit that the store has no such note any more, by this DELETE or by another removal."""
        if decide(Case.of(write, Attempt.ANSWERED, Held.NOTHING)) is Step.DONE:
            self.finish(write, Tombstone(write.note_id))
        return Committed(WriteResult(WriteOutcome.STORED, write.note_id))

    async def _look_between(self, pushed: _Pushed) -> tuple[Held, _Pushed]:
        """Name what an answer shows of a store that compares or merges, and what came after our base."""
        write, answer = pushed.write, pushed.answer
        if self._store.traits.write_guard is WriteGuard.CAS:
            answer = replace(answer, alone=True)  # a later writer has seen it
        earlier = await self._read_earlier(write, answer.first, required=False)
        again = pushed.repeated and answer.status is PushStatus.REPEATED
        alone = answer.alone and not again
        pushed = replace(pushed, answer=answer, earlier=earlier, own=alone)
        # defence: rewritten-text-not-resent -alone
        # defence: added-version-not-fought -_is_own
        if alone or self._is_own(write, earlier):
            return Held.OURS, pushed
        stored = compare_stored(base=pushed.base, sent=pushed.sent, stored=answer.revision.content)
        lost = stored in (StoredAs.TEXT_LOST, StoredAs.TAGS_LOST)
        return Held.SINCE if lost and answer.status is PushStatus.UNCHANGED else Held.MET, pushed

    async def _look_over_others(self, pushed: _Pushed) -> tuple[Held, _Pushed]:
        """Name what a store that keeps the last write holds now: another may have come over ours."""
        write, base, sent, answer = pushed.write, pushed.base, pushed.sent, pushed.answer
        displaced = answer.displaced
        now = await self._read_again(answer.revision, write if displaced is None else None)
        # Who has changed a new note has seen our text.
        pushed = replace(pushed, now=now, base=sent if write.kind is WriteKind.CREATE else base)
        if displaced is not None and self._journal.is_taken(replace(displaced, id=write.note_id)):
            return Held.TAKEN, pushed
        if isinstance(now, Tombstone):
            return Held.NOTHING, pushed
        own = now.etag == answer.revision.etag and (answer.alone or now.content == sent)
        pushed = replace(pushed, own=own)
        if displaced is None and (
            own or is_ours_rewritten(base=base, sent=sent, stored=now.content)
        ):
            return Held.OURS, pushed
        if displaced is not None or not write.repair:
            return Held.MET, pushed
        stored = compare_stored(base=pushed.base, sent=sent, stored=now.content)
        return Held.CLASHING if stored is StoredAs.TEXT_LOST else Held.OURS, pushed

    def keep_as_copy(self, view: View) -> Committed:
        """Keep the text in a conflict copy, and the note as the store has it."""
        write, head = view.write, cast("Revision | Tombstone", view.head)
        copy = self._journal.copy_of(write)
        if not self.finish(write, head, [copy], stored=False):
            return _AGAIN
        return Committed(WriteResult(WriteOutcome.STORED, write.note_id, merged=True), copy=copy)

    def put_back(self, view: View) -> Committed:
        """Finish an entry that had arrived, with the repair of what it has cost the note."""
        head, wanted = cast("Revision", view.head), cast("Content", view.lacking)
        result = WriteResult(WriteOutcome.STORED, head.id, merged=True)
        hidden, plan = not self._journal.sees(head.id, wanted), Repair(wanted)
        return self._store_answer(view.write, head, plan, result=result, hidden=hidden) or _AGAIN

    def drop(self, view: View) -> WriteResult:
        """Drop an entry of which the store holds nothing, or is to; the note stays as it is, if that is known."""
        self._tag_changes.pop(view.write.write_id, None)
        self._journal.finish(view.write, storing=view.head, stored=False)
        outcome = WriteOutcome.REFUSED if view.case.held is Held.REFUSING else WriteOutcome.STORED
        return WriteResult(outcome, view.write.note_id, merged=True)

    def finish_arrived(self, view: View) -> WriteResult:
        """Finish an entry that had arrived."""
        write, head = view.write, cast("Revision | Tombstone", view.head)
        self._tag_changes.pop(write.write_id, None)
        own = isinstance(head, Revision) and self._is_made_by(write, head)
        self._journal.finish(write, storing=head, own=own)
        if isinstance(head, Tombstone):
            return WriteResult(WriteOutcome.STORED, head.id)
        sent = self._journal.sent(write)
        differs = differences(sent=sent.content, stored=head.content)
        if write.kind is WriteKind.CREATE:  # what differs under our own date is the store's doing
            same = self._has_our_date(sent, head) or not differs
        else:
            same = own or head.content == write.content
            asks = self._store.traits.retry is Retry.ASK
            same = same or (asks and same_but_blanks(write.content, head.content))
        differs = differs if same and head.content != write.content else ""
        return WriteResult(
            WriteOutcome.STORED, head.id, merged=not same, differs=differs, content=head.content
        )

    def _is_made_by(self, write: PendingWrite, head: Revision) -> bool:
        """Tell by its date, where there is one, or its content whether an unanswered write made it; by both where the store merges."""
        if write.after and head.etag == write.base_etag:  # links that stay as they were
            return False
        sent = self._journal.sent(write, head)
        traits, same = self._store.traits, head.content == sent.content
        if traits.dates:
            merges = traits.write_guard is WriteGuard.SERVER_MERGE
            same = self._has_our_date(sent, head) and (same or not merges)
        return same and head.id == sent.id

    def _has_our_date(self, sent: Revision, head: Revision) -> bool:
        """Tell whether a revision has the date that a write gave it. Two devices make no edit in the same microsecond."""
        return self._store.traits.dates and head.modified_at == sent.modified_at

    def finish(
        self,
        write: PendingWrite,
        storing: Revision | Tombstone,
        follow_ups: Sequence[PendingWrite] = (),
        **how: bool,
    ) -> bool:
        """Store the answer and drop the entry; see :meth:`Journal.finish`. Raises ``OutcomeUnknown``."""
        copies = [entry.note_id for entry in follow_ups if entry.kind is WriteKind.CREATE]
        try:
            if copies:
                self._journal.hide_copies(write.note_id, copies)
            if isinstance(storing, Revision) and self._journal.lags(write, storing.id):
                again = self._repair_of(storing, storing.content)  # links follow a renaming
                again = replace(again, repair=False, copied=True, after=write.after)
                follow_ups = [*follow_ups, again]
            ours = self._journal.finish(write, storing=storing, follow_ups=follow_ups, **how)
        except CacheError as error:
            raise unknown_outcome("the write is stored, but not recorded here", write) from error
        self.unstored.pop(write.write_id, None)
        self._on_step("committed")
        return ours

    def _copy_displaced(self, pushed: _Pushed) -> list[PendingWrite]:
        """Make the copy of what the write has overwritten; none if we have seen that."""
        displaced, known = pushed.answer.displaced, (pushed.base.wording, pushed.sent.wording)
        if displaced is None or displaced.content.wording in known:
            return []
        return [self._journal.copy_of(pushed.write, of=displaced)]

    def _settle(self, pushed: _Pushed, *, once: bool) -> Committed:
        """Commit what the store holds, and bring it together with what was overwritten."""
        write, sent, now = pushed.write, pushed.sent, cast("Revision", pushed.now)
        displaced, unseen = pushed.answer.displaced, self._copy_displaced(pushed)
        plan = settle(
            base=pushed.base,
            sent=sent,
            displaced=displaced.content if displaced else None,
            held=now.content,
            once=once,
        )
        others = [other for other in (displaced, now) if other is not None]
        hidden = next((o for o in others if not self._journal.sees_revision(o)), None)
        if hidden is not None:  # hidden by the policy a moment before: it stays so
            tagged = plan.with_tags(merge_tags(sent.tags, now.content.tags, hidden.content.tags))
            shown = self._journal.sees(now.id, tagged.content)
            plan = plan.with_tags(hidden.content.tags) if shown else tagged
        lost = now.content != sent
        mended = self._store_answer(
            write,
            now,
            plan,
            result=WriteResult(WriteOutcome.STORED, now.id, merged=lost, content=now.content),
            others=unseen,
            hidden=hidden is not None,
            lost=lost,
        )
        return mended or self._leave_to_others(unseen)

    def _store_answer(
        self,
        write: PendingWrite,
        held: Revision,
        plan: Repair,
        *,
        result: WriteResult,
        hidden: bool = False,
        lost: bool = False,
        others: Sequence[PendingWrite] = (),
        own: bool = False,
    ) -> Committed | None:
        """Commit what the store holds, with the entries that carry out the plan.

        ``others`` keep what was overwritten, if it has no place in the note. ``hidden``: the policy hides what that is made of.
        ``lost``: the note lacks some of our change now. ``own``: see :meth:`KeptVersions.keep_replaced`.
        None: another process has the entry.
        """
        repair, mends = None, plan.content != held.content
        with suppress(StoreRejected):  # the store cannot hold both edits in one note
            repair = self._repair_of(held, plan.content) if mends else None
        unrepaired = mends and repair is None
        copies = plan.copies or (unrepaired and lost)
        copy = self._journal.copy_of(write) if copies and not write.copied else None
        others = others if plan.copies_theirs or unrepaired else []
        if repair is not None and copy is not None and not self._overwrites:
            repair = replace(repair, copied=True)  # what else it says is a revision of the store
        keeps = repair is None or not self._journal.sees_revision(held)  # what hides it is known
        kept = Tombstone(held.id, hidden=True) if hidden and not keeps else held
        follow_ups = [entry for entry in (copy, *others, repair) if entry is not None]
        differs = bool(result.differs)
        if not self.finish(write, kept, follow_ups, differs=differs, own=own, others=lost):
            return None
        if result.differs:
            self._on_difference(held.id)
        return Committed(result, copy, others, repair, held, lost)

    async def _read_again(
        self, stored: Revision, proving: PendingWrite | None = None
    ) -> Revision | Tombstone:
        """Read a note that was just stored; it is taken to be as answered if it cannot be read.

        So is one that is not under its name, or has another note there: it may have been renamed, and the next listing tells.
        Raises ``OutcomeUnknown`` for a write that only this read proves: another one may have come over it.
        """
        held: Revision | Tombstone = stored
        if self._store.traits.compares:
            return held  # it was read back already
        try:
            held = await get_newest(self._store, stored.id)
        except NotariumError as error:
            if proving is not None and not isinstance(error, NoteUnreadable):
                self._journal.release(proving)
                raise unknown_outcome("the write was taken, but cannot be read", proving) from error
        if isinstance(held, Tombstone):
            return stored if self._store.traits.ids.named else held
        return stored if any(map(self._journal.is_taken, (held, stored))) else held

    def _give_back(self, pushed: _Pushed) -> Committed:
        """Put back another note that had got the id of ours right before the push; merge nothing.

        The note that is put back is hidden under any id if the policy hides it, and ours is gone to its caller.
        """
        write, now, displaced = pushed.write, pushed.now, cast("Revision", pushed.answer.displaced)
        hides = not self._journal.sees_revision(displaced)
        back = None
        if isinstance(now, Revision) and now.content == pushed.sent:
            with suppress(StoreRejected):
                back = self._repair_of(now, displaced.content)
        back = back or self._journal.copy_of(write, of=displaced)
        if hides:
            self._journal.follow(displaced, back.note_id)
        keeps_ours = not write.copied and (pushed.repeated or not hides)
        copy = self._journal.copy_of(write) if keeps_ours else None
        kept = Tombstone(write.note_id, hidden=True) if hides else cast("Revision | Tombstone", now)
        if not self.finish(write, kept, [back] if copy is None else [copy, back]):
            return self._leave_to_others([back] if back.kind is WriteKind.CREATE else [])
        result = WriteResult(WriteOutcome.STORED, write.note_id, merged=True)
        return Committed(result, copy, [back], held=now if isinstance(now, Revision) else None)

    def _leave_to_others(self, unseen: Sequence[PendingWrite]) -> Committed:
        """Leave the entry to the process that has taken it over; keep what only this one has seen."""
        added = []
        for copy in unseen:
            with suppress(CacheError):
                added += [copy] if self._journal.add_copy(copy) else []
        return replace(_AGAIN, others=added)

    async def _accept(
        self, pushed: _Pushed, now: Revision | None, *, copies: bool = False
    ) -> Committed:
        """Commit an answer with nobody else's change between it and ours: make no repair, whatever it says.

        What differs is the store's rewriting of ours: a copy would be rewritten as well, a repair would never end. ``now`` that is
        not our very revision is taken for that, too, unless the store has taken ours as it was sent.
        """
        write, sent, answer = pushed.write, pushed.sent, pushed.answer
        self._tag_changes.pop(write.write_id, None)
        rewritten, stored = now is not None and not pushed.own, now or answer.revision
        # The text in an answer may differ from the stored one.
        if now is None and stored.content != sent:
            held = await self._read_again(stored)
            stored = held if isinstance(held, Revision) and held.etag == stored.etag else stored
        merged = rewritten and answer.alone and answer.revision.content == sent
        result = WriteResult(
            WriteOutcome.STORED,
            stored.id,
            merged=merged,
            differs="" if merged else differences(sent=sent, stored=stored.content),
            content=stored.content,
        )
        own = pushed.own and answer.status is not PushStatus.UNCHANGED
        if rewritten:
            own = stored.etag == answer.revision.etag and answer.status is PushStatus.STORED
        plan = Repair(stored.content, copies)
        kept = self._store_answer(write, stored, plan, result=result, lost=copies, own=own)
        return kept or (_AGAIN if rewritten else Committed(result))

    async def _repair_merge(self, pushed: _Pushed, *, once: bool) -> Committed:
        """Commit the answer of a store that has merged our write with others, and mend what that has cost: ``once`` by tags and copies only."""
        write, base, sent, answer = pushed.write, pushed.base, pushed.sent, pushed.answer
        stored, earlier = answer.revision, pushed.earlier
        stored_as = compare_stored(base=base, sent=sent, stored=stored.content)
        plan, hidden = Repair(stored.content, stored_as is StoredAs.TEXT_LOST), False
        change = self._tag_changes.pop(write.write_id, (base.tags, sent.tags))
        between = answer.before if answer.before != write.base_etag else None
        if once and between is not None:
            earlier = await self._read_earlier(write, between)
            if earlier is not None:
                hidden = not self._journal.sees(stored.id, earlier.content)
                tags = merge_tags(base.tags, sent.tags, earlier.content.tags)
                tags = merge_tags(*change, tags)  # what lacks our tags was made without them
                plan = plan if set(tags) <= set(stored.content.tags) else plan.with_tags(tags)
                kept_as = compare_stored(base=base, sent=earlier.content, stored=stored.content)
                plan = replace(plan, copies_theirs=kept_as is StoredAs.TEXT_LOST)
        elif not (write.copied or once) and (between or answer.status is PushStatus.STORED):
            if earlier is None or between != answer.first:
                earlier = await self._read_earlier(write, between)
            if earlier is not None:
                theirs = earlier.content
                mended = plan_repair(base=base, sent=sent, theirs=theirs, stored=stored.content)
                plan = mended or Repair(stored.content)
                hidden = not self._journal.sees(stored.id, theirs)
            elif stored_as is StoredAs.TAGS_LOST:
                plan = Repair(with_lost_tags(base=base, sent=sent, stored=stored.content))
        if hidden and earlier and self._journal.sees(stored.id, plan.content):
            plan = plan.with_tags(earlier.content.tags)  # hidden a moment before: so it stays
        merged = stored_as is not StoredAs.AS_SENT
        committed = self._store_answer(
            write,
            stored,
            plan,
            result=WriteResult(
                WriteOutcome.STORED, stored.id, merged=merged, content=stored.content
            ),
            hidden=hidden,
            others=[self._journal.copy_of(write, of=earlier)]
            if earlier and plan.copies_theirs
            else [],
            lost=stored_as in (StoredAs.TEXT_LOST, StoredAs.TAGS_LOST),
            # Of a repeated write the store does not tell what it made: its number and its content do.
            own=answer.alone and stored.content == sent,
        )
        if committed is not None and committed.repair is not None:
            self._tag_changes[committed.repair.write_id] = change
        return committed or _AGAIN

    def _is_own(self, write: PendingWrite, first: Revision | None) -> bool:
        """Tell whether the first revision after our base is this write; none here hides a note.

        Of a copy or repair the content is enough, so that a store which sets the dates is not fought.
        """
        if first is None or not self._journal.sees(write.note_id, first.content):
            return False
        sent = self._journal.sent(write)
        mends = first.content == sent.content and (write.copied or write.repair)
        return mends or self._has_our_date(sent, first)

    async def _read_earlier(
        self, write: PendingWrite, etag: str | None, *, required: bool = True
    ) -> Revision | None:
        """Read an earlier revision of a note that is written already; None if the store does not know it any more.

        Raises ``OutcomeUnknown`` if it cannot be read now, and is ``required``: the next attempt looks what the note lacks.
        """
        if etag is None:
            return None
        try:
            return await self._store.get(write.note_id, etag=etag)
        except NoteNotFound:
            return None
        except NotariumError as error:
            if not required:
                return None
            self._journal.release(write)
            raise unknown_outcome(
                "the write is stored, and what was written just before it could not be read", write
            ) from error

    def _repair_of(self, stored: Revision, wanted: Content) -> PendingWrite:
        return self._journal.make(
            note_id=stored.id, kind=WriteKind.UPDATE, content=wanted, over=stored, repair=True
        )
