"""Commit the store's answer to a push, and find out what became of our text and of others' there.

``WriteCommit`` stores the answer in the index and drops the journal entry in one transaction, which also
records what has to be sent after it: a conflict copy, or the repair of a note. It sends nothing: ``write_attempt`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mcp_notarium.domain.conflict_copy import (
    Repair,
    StoredAs,
    compare_stored,
    copy_content,
    copy_write_id,
    differences,
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
from mcp_notarium.stores.contract import Acknowledgement, PushStatus, Store, WriteGuard
from mcp_notarium.sync.head_reader import is_rewritten
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_fetch import get_newest
from mcp_notarium.sync.write_decisions import WriteOutcome, WriteResult
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

    async def commit(
        self, write: PendingWrite, base: Content, answer: Acknowledgement, *, repeated: bool
    ) -> Committed:
        """Commit the answer to a CREATE or UPDATE of ``base``. Raises ``OutcomeUnknown`` if it cannot be stored."""
        if self._overwrites:
            return await self._accept_over_others(write, base, answer, repeated=repeated)
        if self._store.traits.write_guard is WriteGuard.CAS:
            answer = replace(answer, alone=True)  # a later writer has seen it
        earlier = await self._read_earlier(write, answer.first, required=False)
        alone = answer.alone and not (repeated and answer.status is PushStatus.REPEATED)
        # defence: rewritten-text-not-resent -alone
        # defence: added-version-not-fought -_is_own
        if alone or self._is_own(write, earlier):
            return await self._accept_alone(write, answer, own=alone)
        return await self._accept_merged(write, base, answer, earlier)

    def keep_as_copy(self, write: PendingWrite, *, instead: Revision | Tombstone) -> Committed:
        """Keep the text in a conflict copy and store ``instead`` for the note it was meant for."""
        copy = self._copy_of(write)
        if not self.finish(write, instead, [copy], stored=False):
            return _AGAIN
        return Committed(WriteResult(WriteOutcome.STORED, write.note_id, merged=True), copy=copy)

    def put_back(self, write: PendingWrite, head: Revision, wanted: Content) -> Committed:
        """Finish an entry that had arrived, with the repair of what it has cost the note."""
        result = WriteResult(WriteOutcome.STORED, head.id, merged=True)
        return self._store_answer(write, head, Repair(wanted), result=result) or _AGAIN

    def finish_arrived(
        self, write: PendingWrite, head: Revision | Tombstone | None, *, overtaken: bool
    ) -> WriteResult:
        """Finish an entry that had arrived, or for which nothing is left to do. ``overtaken``: the store never took it."""
        head = head or Tombstone(write.note_id)
        if overtaken:
            self._journal.finish(write, storing=head, stored=False)
            return WriteResult(WriteOutcome.STORED, head.id, merged=True)
        own = isinstance(head, Revision) and self._is_made_by(write, head)
        self._journal.finish(write, storing=head, own=own)
        if isinstance(head, Tombstone) or write.kind is WriteKind.DELETE:
            stays = isinstance(head, Revision)  # somebody has changed it
            return WriteResult(WriteOutcome.STORED, head.id, merged=stays)
        sent = self._store.revision_of(write.note_id, write.body)
        differs = differences(sent=sent.content, stored=head.content)
        if write.kind is WriteKind.CREATE:  # what differs under our own date is the store's doing
            same = self._has_our_date(sent, head) or not differs
        else:
            same = (
                own
                or head.content == write.content
                or is_rewritten(self._store, self._journal, head, write.content)
            )
        differs = differs if same and head.content != write.content else ""
        return WriteResult(
            WriteOutcome.STORED, head.id, merged=not same, differs=differs, content=head.content
        )

    def _is_made_by(self, write: PendingWrite, head: Revision) -> bool:
        """Tell whether the note is the revision that the write made: the answer is lost, so what the write has sent must tell.

        That is its date where the store keeps the dates it is given, and all its content elsewhere; both where the store
        merges, as an edit before ours may be in it.
        """
        follows = write.after and head.etag == write.base_etag  # links that stay as they were
        if follows or write.kind is WriteKind.DELETE:
            return False
        sent = self._store.revision_of(write.note_id, write.body)
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
                follow_ups = [*follow_ups, self._links_again(write, storing)]
            ours = self._journal.finish(write, storing=storing, follow_ups=follow_ups, **how)
        except CacheError as error:
            # The store has it and the index has not: only the journal entry says so, and it remains.
            raise unknown_outcome(
                "the write is stored, but could not be recorded here", write
            ) from error
        self._on_step("committed")
        return ours

    def _links_again(self, write: PendingWrite, stored: Revision) -> PendingWrite:
        """Make the entry that lets links follow another renaming, which came while they were written: it waits for the next cycle."""
        return self._journal.make(
            note_id=stored.id,
            kind=WriteKind.UPDATE,
            content=stored.content,
            over=stored,
            copied=True,
            after=write.after,
        )

    async def _accept_over_others(
        self, write: PendingWrite, base: Content, answer: Acknowledgement, *, repeated: bool
    ) -> Committed:
        """Commit the answer of a store that keeps the last write, with what that has overwritten.

        The note is read again: another write may have come over ours, too.
        """
        sent = self._sent(write)
        displaced = answer.displaced
        if write.kind is WriteKind.CREATE:
            base = sent  # who has changed a new note has seen our text
        held = await self._read_again(answer.revision, write if displaced is None else None)
        if displaced is not None and self._journal.is_taken(replace(displaced, id=write.note_id)):
            return self._give_back(write, displaced, held, repeated=repeated)
        new = displaced and displaced.content.wording not in (base.wording, sent.wording)
        unseen = [self._copy_of(write, of=displaced)] if new else []
        if isinstance(held, Tombstone):  # who removed the note has not seen what we displaced
            if not self.finish(write, held, unseen):
                return self._leave_to_others(unseen)
            return Committed(WriteResult(WriteOutcome.STORED, held.id), others=unseen)
        if displaced is None and (ours := await self._accept_as_ours(write, base, answer, held)):
            return ours
        plan = settle(
            base=base,
            sent=sent,
            displaced=displaced.content if displaced else None,
            held=held.content,
            repair=write.repair,
        )
        others = [other for other in (displaced, held) if other is not None]
        hidden = next((o for o in others if not self._journal.sees_revision(o)), None)
        if hidden is not None:  # hidden by the policy a moment before: it stays so
            plan = plan.with_tags(hidden.content.tags)
        lost = held.content != sent
        mended = self._store_answer(
            write,
            held,
            plan,
            result=WriteResult(WriteOutcome.STORED, held.id, merged=lost, content=held.content),
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
        copy = self._copy_of(write) if copies and not write.copied else None
        others = others if plan.copies_theirs or unrepaired else []
        if repair is not None and copy is not None and not self._overwrites:
            repair = replace(repair, copied=True)  # what else it says is a revision of the store
        kept = Tombstone(held.id) if hidden and repair is not None else held
        follow_ups = [entry for entry in (copy, *others, repair) if entry is not None]
        if not self.finish(write, kept, follow_ups, differs=bool(result.differs), own=own):
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
                raise unknown_outcome(
                    "the write was taken, and could not be read", proving
                ) from error
        if isinstance(held, Tombstone):
            return stored if self._store.traits.ids.named else held
        return stored if self._journal.is_taken(held) else held

    async def _accept_as_ours(
        self, write: PendingWrite, base: Content, answer: Acknowledgement, held: Revision
    ) -> Committed | None:
        """Commit what the store holds if nobody else's change is in it, as far as anyone can tell; else None."""
        sent = self._sent(write)
        if held.etag == answer.revision.etag and (answer.alone or held.content == sent):
            return await self._accept_alone(write, answer, own=True)
        same = same_but_blanks(sent, held.content)
        if not write.repair and not same:
            return None
        # Taken for the store's rewriting of ours. A repair ends here, whatever the store made of it: repaired again it would never
        # end. Somebody else has written since if the store has taken it as it was sent.
        as_sent = answer.alone and answer.revision.content == sent
        lost = not same and (
            compare_stored(base=base, sent=sent, stored=held.content) is StoredAs.TEXT_LOST
        )
        result = WriteResult(
            WriteOutcome.STORED,
            held.id,
            merged=as_sent,
            differs="" if as_sent else differences(sent=sent, stored=held.content),
            content=held.content,
        )
        own = held.etag == answer.revision.etag and answer.status is PushStatus.STORED
        stored = self._store_answer(
            write, held, Repair(held.content, lost), result=result, lost=lost, own=own
        )
        return stored or _AGAIN

    def _give_back(
        self,
        write: PendingWrite,
        displaced: Revision,
        held: Revision | Tombstone,
        *,
        repeated: bool,
    ) -> Committed:
        """Put back another note that had got the id of ours right before the push; merge nothing.

        The note that is put back is hidden under any id if the policy hides it, and ours is gone to its caller.
        """
        sent = self._sent(write)
        hidden = not self._journal.sees_revision(displaced)
        back = None
        if isinstance(held, Revision) and held.content == sent:
            with suppress(StoreRejected):
                back = self._repair_of(held, displaced.content)
        back = back or self._copy_of(write, of=displaced)
        if hidden:
            self._journal.follow(displaced, back.note_id)
        keeps_ours = not write.copied and (repeated or not hidden)
        copy = self._copy_of(write) if keeps_ours else None
        kept = Tombstone(write.note_id) if hidden else held
        if not self.finish(write, kept, [back] if copy is None else [copy, back]):
            return self._leave_to_others([back] if back.kind is WriteKind.CREATE else [])
        result = WriteResult(WriteOutcome.STORED, write.note_id, merged=True)
        return Committed(result, copy, [back], held=held if isinstance(held, Revision) else None)

    def _leave_to_others(self, unseen: Sequence[PendingWrite]) -> Committed:
        """Leave the entry to the process that has taken it over; keep what only this one has seen."""
        added = []
        for copy in unseen:
            with suppress(CacheError):
                added += [copy] if self._journal.add_copy(copy) else []
        return replace(_AGAIN, others=added)

    async def _accept_alone(
        self, write: PendingWrite, answer: Acknowledgement, *, own: bool
    ) -> Committed:
        """Commit an answer with nobody else's change between it and ours: make no copy, whatever it says.

        A store that changes a text would change a copy as well, and every further write. ``own``: nor has
        anybody written since.
        """
        sent = self._sent(write)
        stored = answer.revision
        if stored.content != sent:  # the text in an answer may differ from the stored one
            held = await self._read_again(stored)
            stored = held if isinstance(held, Revision) and held.etag == stored.etag else stored
        differs = "" if stored.content == sent else differences(sent=sent, stored=stored.content)
        own = own and answer.status is not PushStatus.UNCHANGED
        result = WriteResult(
            WriteOutcome.STORED, stored.id, differs=differs, content=stored.content
        )
        kept = self._store_answer(write, stored, Repair(stored.content), result=result, own=own)
        return kept or Committed(result)

    async def _accept_merged(
        self,
        write: PendingWrite,
        base: Content,
        answer: Acknowledgement,
        earlier: Revision | None,
    ) -> Committed:
        """Commit the answer of a store that has merged our write with others, and mend what that has cost."""
        stored = answer.revision
        sent = self._sent(write)
        stored_as = compare_stored(base=base, sent=sent, stored=stored.content)
        lost = stored_as in (StoredAs.TEXT_LOST, StoredAs.TAGS_LOST)
        if lost and answer.status is PushStatus.UNCHANGED:
            return _AGAIN
        plan, hidden = Repair(stored.content, stored_as is StoredAs.TEXT_LOST), False
        change = self._tag_changes.pop(write.write_id, (base.tags, sent.tags))
        between = answer.before if answer.before != write.base_etag else None
        if write.repair and between is not None:  # of a repair only tags are put back: it ends
            earlier = await self._read_earlier(write, between)
            if earlier is not None and self._journal.sees(stored.id, earlier.content):
                tags = merge_tags(base.tags, sent.tags, earlier.content.tags)
                tags = merge_tags(*change, tags)  # what lacks our tags was made without them
                lacking = not set(tags) <= set(stored.content.tags)
                plan = plan.with_tags(tags) if lacking else plan
        elif not (write.copied or write.repair) and (between or answer.status is PushStatus.STORED):
            if earlier is None or between != answer.first:
                earlier = await self._read_earlier(write, between)
            if earlier is not None:
                theirs = earlier.content
                mended = plan_repair(base=base, sent=sent, theirs=theirs, stored=stored.content)
                plan = mended or Repair(stored.content)
                hidden = not self._journal.sees(stored.id, theirs)
                # Hidden by the policy a moment before: so it stays, whatever the store made of both.
                plan = plan.with_tags(theirs.tags) if hidden else plan
            elif stored_as is StoredAs.TAGS_LOST:
                plan = Repair(with_lost_tags(base=base, sent=sent, stored=stored.content))
        committed = self._store_answer(
            write,
            stored,
            plan,
            result=WriteResult(
                WriteOutcome.STORED,
                stored.id,
                merged=stored_as is not StoredAs.AS_SENT,
                content=stored.content,
            ),
            hidden=hidden,
            lost=lost,
            # Of a repeated write the store does not tell what it made: its number and its content do.
            own=answer.alone and stored.content == sent,
        )
        if committed is not None and committed.repair is not None:
            self._tag_changes[committed.repair.write_id] = change
        return committed or _AGAIN

    def _is_own(self, write: PendingWrite, first: Revision | None) -> bool:
        """Tell whether the first revision after our base is this write.

        Of a copy or repair the content is enough, so that a store which sets the dates is not fought. A note that
        the policy hides is never ours: no write here hides a note.
        """
        if first is None or not self._journal.sees(write.note_id, first.content):
            return False
        sent = self._store.revision_of(write.note_id, write.body)
        mends = first.content == sent.content and (write.copied or write.repair)
        return mends or self._has_our_date(sent, first)

    async def _read_earlier(
        self, write: PendingWrite, etag: str | None, *, required: bool = True
    ) -> Revision | None:
        """Read an earlier revision of a note that is written already; None if the store does not know it any more.

        Raises ``OutcomeUnknown`` if it cannot be read now: the next attempt looks what the note lacks. None if it is not ``required``.
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

    def _sent(self, write: PendingWrite) -> Content:
        return self._store.revision_of(write.note_id, write.body).content

    def _copy_of(self, write: PendingWrite, *, of: Revision | None = None) -> PendingWrite:
        """Make the entry of a conflict copy: of the write's own text, or of what it has overwritten."""
        traits = self._store.traits
        # As the note would have it: a draft may have lines above the front matter of the note.
        ours = replace(write.content, text=self._sent(write).text)
        content = copy_content(
            of.content if of else ours,
            shares_by_tag=traits.shares_by_tag,
            folder=write.note_id.rpartition("/")[0] if traits.ids.paths else None,
        )
        write_id = copy_write_id(write.write_id, **({"of": of.etag} if of else {}))
        return self._journal.make(
            write_id=write_id,
            note_id=self._journal.make_id(content, seed=write_id, attempt=0),
            kind=WriteKind.CREATE,
            content=content,
            copied=True,
        )

    def _repair_of(self, stored: Revision, wanted: Content) -> PendingWrite:
        return self._journal.make(
            note_id=stored.id, kind=WriteKind.UPDATE, content=wanted, over=stored, repair=True
        )
