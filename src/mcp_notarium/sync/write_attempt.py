"""Attempt a write: the one way by which a note is made, changed or removed, first or after whatever cut it off.

Read the head of the note > compare it with the write > decide by ``write_decisions.DECISIONS`` > record, flushed, with the
audit record > push > commit. The caller has locked the note. A crash, a lost answer, a restart and another server
begin at the top as ``Attempt.REPEATED``; ``replay`` finds what is to be repeated, which is all that is not certain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import cast

from mcp_notarium.audit.chain import FINISHED, UNKNOWN
from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import (
    CacheError,
    DateRefused,
    IdTaken,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    NoteUnreadable,
    OutcomeUnknown,
    OutOfSight,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.storage.audit_log import Act, not_recorded_error
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import (
    NOT_STORED,
    WITHDRAWN,
    PushStatus,
    Retry,
    Store,
    WriteGuard,
    require_usable,
    run_at_once,
)
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.link_writes import make_link_writes
from mcp_notarium.sync.note_fetch import get_newest
from mcp_notarium.sync.note_locks import NoteLock
from mcp_notarium.sync.write_commit import Committed, WriteCommit
from mcp_notarium.sync.write_decisions import (
    Asked,
    Attempt,
    Case,
    Fact,
    Held,
    Step,
    View,
    WriteOutcome,
    WriteResult,
    decide,
)
from mcp_notarium.sync.write_errors import (
    HIDDEN_SINCE,
    NOT_REMOVED,
    NOT_SAVED,
    add_outcome,
    changed_error,
    gone_error,
    name_taken_error,
    names_taken_error,
    out_of_sight_error,
    removed_error,
    unknown_outcome,
)

_LOOK_WHETHER_IT_IS_GONE = (
    "The next sync shows whether the note is gone; it does not delete it again. Look with `get` in a "
    "while, and delete the note again if it is there and still to go."
)
ROUNDS = 4
"""Times that a note may change during a write before the write is refused, or left for later."""
MOST_IDS = 20
"""Ids that are tried for one new note, where others may have taken them."""
_AGAIN = WriteResult(WriteOutcome.AGAIN)


class WriteAttempt:
    """Make attempts at single writes of notes that the caller has locked."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        heads: HeadReader,
        on_step: Callable[[str], None],
        on_difference: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._heads = heads
        self._commit = WriteCommit(store, journal, on_step=on_step, on_difference=on_difference)
        self.unstored = self._commit.unstored
        self._on_step = on_step
        self._guarded_by_us = store.traits.write_guard is WriteGuard.LAST_WRITER

    async def first(self, write: PendingWrite, asked: Asked, lock: NoteLock) -> WriteResult:
        """Attempt what a caller waits for; AGAIN: nothing is stored. Raises what ``Writer`` raises."""
        work = self._carry_out_act(await self._look(write, asked), asked)
        if self._store.traits.in_database:
            return await work
        try:
            return await lock.run_cancellable(work, asked.act)
        except asyncio.CancelledError:
            self._journal.leave(write)
            raise

    async def foresee(self, write: PendingWrite, asked: Asked) -> None:
        """Raise what :meth:`first` would raise now, or if others have done it. Nothing is recorded, but in the index what the store holds."""
        view = await self._look(write, asked, foresees=True)
        step, head, note = decide(view.case), view.base, cast("Note", asked.note)
        if step is Step.REFUSE or (step is Step.DONE and head and head.content != note.content):
            raise self._refuse(view, asked)

    async def _look(self, write: PendingWrite, asked: Asked, *, foresees: bool = False) -> View:
        """Read the head for a first attempt, and compare; ``foresees``: also where that is left to the push."""
        view = View(write, Case.of(write, Attempt.FIRST, Held.NOTHING, *asked.facts), asked)
        if write.kind is WriteKind.CREATE and not self._heads.scoped:
            return view
        try:
            left = write.kind is WriteKind.DELETE or self._store.traits.compares
            if foresees and left and await self._heads.refresh(write.note_id):
                return view.but(Fact.NAMED)
            return await self._heads.look_first(view, asked)
        except (StoreError, LoginRequired) as error:
            raise add_outcome(error, _nothing_done(write)) from None

    async def following(self, write: PendingWrite, head: Revision | None = None) -> WriteResult:
        """Send what was recorded with another write, over ``head``. WAITING: it stays in the journal for the next cycle."""
        held = Held.NOTHING if write.kind is WriteKind.CREATE else Held.BASE
        view = View(write, Case.of(write, Attempt.FOLLOWING, held), head=head)
        with suppress(NotariumError):
            try:
                result = await self._carry_out(view)
            except StoreRejected as error:
                result = await self._carry_out(_refused(view, error))
            if result.outcome is not WriteOutcome.AGAIN:
                return result
        self._journal.release(write)
        return WriteResult(WriteOutcome.WAITING)

    async def repeated(self, write: PendingWrite, *, listed: bool) -> WriteResult:
        """Attempt an entry that may have arrived; AGAIN: it is kept. Raises what the store raises.

        Raises ``PerhapsRenamed`` unless ``listed``: a full listing was compared since the note was not found under its name.
        """
        if unstored := self.unstored.get(write.write_id):  # defence: displaced-text-kept
            with suppress(StoreRejected):
                return await self._follow(
                    await self._commit.commit(write, *unstored, repeated=True)
                )
            del self.unstored[write.write_id]  # it makes no copy
        view = View(write, Case.of(write, Attempt.REPEATED, Held.NOTHING))
        try:
            return await self._carry_out(await self._heads.look_again(view, listed=listed))
        except StoreRejected as error:
            return await self._carry_out(_refused(view, error))

    # What the table says is done.

    async def _carry_out_act(self, view: View, asked: Asked) -> WriteResult:
        """Do what the table says, and let the act of a caller who may have left know what becomes of it."""
        if (act := asked.act) is None:
            return await self._carry_out(view)
        before, act.outcome = act.outcome, UNKNOWN
        try:
            result = await self._carry_out(view)
        except NotariumError as error:
            if isinstance(error, OutOfSight) or not isinstance(error, OutcomeUnknown):
                act.outcome = before
            raise
        if result.stored:
            etag = result.etag or self._cache.notes.etag(result.note_id)
            act.steps.see_stored(result, etag)
            act.outcome = UNKNOWN if before == UNKNOWN else FINISHED
        elif result.outcome is WriteOutcome.AGAIN:
            act.outcome = before
        return result

    async def _carry_out(self, view: View) -> WriteResult:
        """Do what the table says."""
        match step := decide(view.case):
            case Step.PUSH:
                return await self._send(view)
            case Step.NEW_ID:
                return await self._take_new_id(view)
            case Step.KEEP_NAME:
                return await self._keep_name(view)
            case Step.COPY:
                return await self._follow(self._commit.keep_as_copy(view))
            case Step.PUT_BACK:
                return await self._follow(self._commit.put_back(view))
        return self._end(view, step)

    def _end(self, view: View, step: Step) -> WriteResult:
        """End a write of which nothing is sent, or not again."""
        write, head = view.write, view.head
        if step is Step.REFUSE:
            raise self._refuse(view, cast("Asked", view.asked))
        if step is Step.LOOK:
            return _AGAIN
        if step is Step.REJECT:
            self._journal.reject(write, view.error.message if view.error else HIDDEN_SINCE)
            return WriteResult(WriteOutcome.REFUSED)
        if step is Step.DROP:
            return self._commit.drop(view)
        if view.asked is None:
            return self._commit.finish_arrived(view)
        if head is not None:
            self._journal.adopt(head, seen=view.seen)
        return WriteResult(WriteOutcome.STORED, write.note_id, merged=isinstance(head, Revision))

    async def _send(self, view: View) -> WriteResult:
        """Record what the journal does not say yet, push it, commit the answer, and send what follows."""
        over, asked = view.base.content if view.base else Content(""), view.asked
        if asked and self._store.traits.in_database:
            return await self._store_with_us(view, asked)
        following: Sequence[PendingWrite] = ()
        if asked and asked.links:
            given = self._cache, self._store, self._journal, view.write
            following = make_link_writes(*given, asked.links)
        recorded = await self._record(view, following)
        if recorded is None:
            met = IdTaken if view.write.kind is WriteKind.CREATE else VersionConflict
            changed = met("the note has changed in the index")
            return await self._meet_refusal(view, changed) if asked else _AGAIN
        view = replace(view, write=recorded)
        try:
            committed = await self._push_dated(view, over)
        except NOT_STORED as error:
            stored = self._drop(view) if asked else None
            return stored or await self._meet_refusal(view, error)
        result = await self._follow(committed)
        if asked is None:
            return result
        if result.outcome is WriteOutcome.AGAIN:
            return self._drop(view) or result
        return await self._send_links(following, _told(result, asked, view.base))

    async def _meet_refusal(self, view: View, error: NotariumError) -> WriteResult:
        """Decide again about a write that the store has certainly not taken."""
        return await self._carry_out(await self._heads.look_after_refusal(view, error))

    async def _take_new_id(self, view: View) -> WriteResult:
        """Let a new note have the next id; its caller takes it, who has a lock on the id."""
        write = view.write
        if view.asked is not None:
            return _AGAIN
        ids = [
            self._journal.make_id(write.content, seed=write.write_id, attempt=number)
            for number in range(MOST_IDS)
        ]
        left = ids[ids.index(write.note_id) + 1 :] if write.note_id in ids else ids[1:]
        if not left:
            raise names_taken_error()
        self._journal.hide_copies(write.note_id, left[:1])
        view = replace(view, write=replace(write, note_id=left[0], base_etag=None), head=None)
        return await self._carry_out(replace(view, changed=True).holding(Held.NOTHING))

    async def _keep_name(self, view: View) -> WriteResult:
        """Let the note have the text, where something else has taken its new name."""
        write, head = view.write, cast("Revision", view.head)
        with self._cache.transaction():
            self._cache.journal.drop_following(write.write_id)
        named = replace(write.content, title=head.content.title)
        if named == head.content:
            return await self._carry_out(view.holding(Held.OURS))
        view = await self._heads.redraft(view, head, named)
        return await self._carry_out(self._heads.judge(view.holding(Held.BASE)))

    def _refuse(self, view: View, asked: Asked) -> NotariumError:
        """Make the error that tells the caller; the index gets what the store holds."""
        write, held, head = view.write, view.case.held, view.head
        named = self._store.traits.ids.named
        if held is Held.REFUSING:
            return add_outcome(cast("NotariumError", view.error), _nothing_done(write))
        if held is Held.TAKEN and write.kind is WriteKind.UPDATE:
            return name_taken_error(write.note_id)
        if held is Held.NOTHING and write.kind is WriteKind.DELETE:
            return add_outcome(gone_error(write.note_id), NOT_REMOVED)
        if held is Held.NOTHING:
            # Where ids are names the next listing takes it out of the index: it may have been renamed.
            if head is not None and not named:
                self._journal.adopt(head, seen=view.seen)
            began = asked.round or view.error is not None
            if began and self._cache.seen.notes.visibility.rules.has_rules:
                return out_of_sight_error(write.note_id, stored=None)
            return removed_error(write.note_id, renamed=named)
        if head is not None and held is not Held.OVERTAKEN:
            self._journal.adopt(head, seen=view.seen)
        removing = write.kind is WriteKind.DELETE
        note = self._cache.shown(write.note_id)
        return changed_error(write.note_id, note, removing=removing)

    # Recording and sending.

    async def _record(self, view: View, following: Sequence[PendingWrite]) -> PendingWrite | None:
        """Put an entry on the disk before it is sent, a new one with its audit record; return it as it is there.

        None: see :meth:`Journal.record` and :meth:`Journal.rebase`. Raises ``NotRecorded`` if the disk does not take a new one.
        """
        write, base, asked = view.write, view.base, view.asked
        if asked is None:
            if not view.changed:
                return write
            return self._journal.rebase(write, base=base, in_part=view.in_part)
        if (recorded := self._journal.record(view, asked.act, following)) is None:
            return None
        try:
            await self._cache.flush()  # defence: write-flushed-before-sent
        except CacheError as error:
            if self._drop(view):
                raise unknown_outcome("another process has stored the write", write) from error
            raise not_recorded_error(error) from error
        return recorded

    async def _push_dated(self, view: View, base: Content) -> Committed:
        """Push an entry; a repeated one whose date is refused once more with the present time."""
        write, repeated = view.write, view.case.attempt is Attempt.REPEATED
        try:
            return await self._push(write, base, repeated=repeated)
        except DateRefused:
            if not repeated:
                raise
            body = self._journal.compose(view.base, write.content)
            dated = self._journal.rebase(replace(write, body=body), base=view.base)
            return await self._push(dated, base, repeated=True) if dated else Committed(_AGAIN)

    async def _push(self, write: PendingWrite, base: Content, *, repeated: bool) -> Committed:
        """Push one recorded entry and commit the answer. Raises ``NOT_STORED`` with it untouched, ``OutcomeUnknown`` with it released."""
        if write.kind is WriteKind.DELETE:
            gone = () if self._store.traits.ids.named else (NoteNotFound,)
            with self._sending(write), suppress(*gone):  # a note that was renamed is not gone
                if self._guarded_by_us:
                    await self._require_base(write)
                await self._store.delete(
                    write.note_id, etag=write.base_etag or "", write_id=write.write_id
                )
            return self._commit.commit_removal(write)
        with self._sending(write):
            if self._guarded_by_us and not self._store.traits.compares:
                await self._require_base(write)
            answer = await self._store.push(write)
            require_usable(answer.revision.id)
        # What follows a stored write is sent even if the caller has left.
        WITHDRAWN.set(lambda: False)
        earlier = answer.status is PushStatus.REPEATED and not (repeated or answer.alone)
        try:
            if earlier and write.kind is WriteKind.UPDATE:  # others have written since it arrived
                return Committed(await self.repeated(write, listed=True))
            return await self._commit.commit(write, base, answer, repeated=repeated)
        except NotariumError as error:
            if repeated or isinstance(error, OutcomeUnknown):
                raise  # then the text stays as a rejected write
            self._journal.release(write)
            raise unknown_outcome("the write is stored, but not what follows", write) from error

    @contextmanager
    def _sending(self, write: PendingWrite) -> Iterator[None]:
        """Turn an error after which the store may have the write, but a cancellation, into ``OutcomeUnknown``."""
        self._on_step("recorded")
        withdrawn = WITHDRAWN.get()
        # After its lease another process may have finished it, and somebody may have taken it back.
        before = WITHDRAWN.set(lambda: withdrawn() or not self._journal.is_leased(write))
        try:
            yield
        except NOT_STORED:
            raise
        except Exception as error:
            self._journal.release(write)
            said = "the note store did not answer the write"
            once = self._store.traits.retry is Retry.ASK and write.kind is WriteKind.DELETE
            hint = _LOOK_WHETHER_IT_IS_GONE if once else None
            raise unknown_outcome(said, write, resolution_hint=hint) from error
        finally:
            WITHDRAWN.reset(before)
        self._on_step("pushed")

    async def _require_base(self, write: PendingWrite) -> None:
        """Raise ``VersionConflict``, ``IdTaken`` or ``NoteNotFound`` if the base is not there any more."""
        about = {"id": write.note_id}
        try:
            head = await get_newest(self._store, write.note_id)
        except NoteUnreadable as error:
            if write.base_etag is None:
                raise IdTaken("something else has this name", details=about) from None
            raise StoreUnavailable(error.message, resolution_hint=error.resolution_hint) from None
        except NOT_STORED:
            raise
        except StoreError as error:
            raise StoreUnavailable("the note store did not answer before the write") from error
        if isinstance(head, Tombstone):
            if write.base_etag is not None:
                raise gone_error(write.note_id)
        elif write.base_etag is None and self._store.traits.ids.named:
            raise IdTaken("the note store has a note of this id", details=about)
        elif head.etag != write.base_etag:
            raise VersionConflict("the note has changed at the note store", details=about)

    async def _follow(self, committed: Committed) -> WriteResult:
        """Send what was recorded with an answer."""
        copy, repair = committed.copy, committed.repair
        copied = await self.following(copy) if copy else None
        for entry in (one for one in committed.others if not one.reason):
            await self.following(entry, committed.held)
        repaired = await self.following(repair, committed.held) if repair else None
        return committed.result.followed_by(copied, repaired, lost=committed.lost)

    async def _send_links(
        self, entries: Sequence[PendingWrite], result: WriteResult
    ) -> WriteResult:
        """Send entries whose renaming is stored, and add how that ended. The rest is finished later."""
        ended = {}
        for entry in entries if result.stored else ():
            base = self._cache.notes.base(entry.note_id)
            if base is not None:
                ended[entry.note_id] = await self.following(entry, base)
        sent = tuple(one for one, how in ended.items() if how.stored)
        refused = (one for one, how in ended.items() if how.outcome is WriteOutcome.REFUSED)
        waiting = tuple({entry.note_id for entry in entries} - {*sent, *refused})
        return replace(result, relinked=sent, waiting=waiting)

    def create_all(self, writes: Sequence[PendingWrite]) -> list[NotariumError | None]:
        """Make notes of these very ids in one transaction; return for each why the table refuses it, None if it is made."""
        errors: list[NotariumError | None] = []
        with self._transaction(None):  # defence: import-whole-transactions
            for write in writes:
                case = Case.of(write, Attempt.FIRST, Held.NOTHING, Fact.FIXED)
                try:
                    self._store_in_transaction(write, "", None)
                    errors.append(None)
                except (IdTaken, StoreRejected) as refusal:
                    try:
                        run_at_once(self._meet_refusal(View(write, case, Asked()), refusal))
                    except NotariumError as error:
                        errors.append(error)
        return errors

    async def _store_with_us(self, view: View, asked: Asked) -> WriteResult:
        """Store, record and commit in one transaction, where the store is in the database: nothing can be in doubt."""
        write, act, base = view.write, asked.act, view.base
        try:
            with self._transaction(act):
                stored = self._store_in_transaction(write, act.client if act else "", base)
        except NOT_STORED as error:
            return await self._meet_refusal(view, error)
        result = WriteResult(WriteOutcome.STORED, stored.id)
        if isinstance(stored, Revision):
            result = replace(result, content=stored.content, etag=stored.etag)
        return _told(result, asked, base)

    def _store_in_transaction(
        self, write: PendingWrite, client: str, base: Revision | None
    ) -> Revision | Tombstone:
        notes = self._cache.notes
        if write.kind is WriteKind.DELETE:
            etag, write_id = write.base_etag or "", write.write_id
            run_at_once(self._store.delete(write.note_id, etag=etag, write_id=write_id))
            notes.apply([Tombstone(write.note_id)])
            return Tombstone(write.note_id)
        self._journal.versions.require_room(write, base=base)
        answer = run_at_once(self._store.push(write))
        if base is not None and notes.etag(base.id) != base.etag:
            notes.apply([base])
        kept = self._journal.versions.keep_replaced(
            replace(write, client=client),
            answer.revision,
            own=answer.status is not PushStatus.UNCHANGED,
        )
        notes.apply([answer.revision], kept=kept)
        return answer.revision

    @contextmanager
    def _transaction(self, act: Act | None) -> Iterator[None]:
        self._on_step("recorded")
        # defence: local-save-one-transaction
        with self._cache.transaction(durable=True) if act is None else act.transaction():
            yield
            self._on_step("pushed")
        self._on_step("committed")

    def _drop(self, view: View) -> WriteResult | None:
        """Drop a first attempt's entry that the store has not taken; return how another process has ended it.

        Raises ``OutcomeUnknown`` if that cannot be recorded, or is not known yet.
        """
        try:
            ours = self._journal.finish(view.write)
        except CacheError as error:
            raise unknown_outcome(
                "the write is not stored yet, and could not be taken back here", view.write
            ) from error
        if not ours and not self._heads.has_answer(view.write):
            raise unknown_outcome("another process has taken the write over", view.write)
        ended = WriteResult(WriteOutcome.STORED, view.write.note_id)
        return None if ours else _told(ended, cast("Asked", view.asked), view.base)


def _refused(view: View, error: StoreRejected) -> View:
    """Return what was seen of a store that will never take the write. Raises ``DateRefused``."""
    if isinstance(error, DateRefused):
        raise error
    return replace(view, error=error, head=None).holding(Held.REFUSING)


def _nothing_done(write: PendingWrite) -> str:
    return NOT_REMOVED if write.kind is WriteKind.DELETE else NOT_SAVED


def _told(result: WriteResult, asked: Asked, head: Revision | None) -> WriteResult:
    """Add whether the caller gets something in the note that it has not read."""
    new = head is not None and asked.note is not None and head.content != asked.note.content
    return replace(result, merged=result.merged or new)
