"""Push one recorded journal entry to the store.

``Pusher`` does not decide what to send; ``writer`` and ``entry_replay`` do, and ``push_answers`` commits
what the store answers. The entry stays in the journal whenever the outcome of the write is not certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import (
    CacheError,
    DateRefused,
    IdTaken,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    NoteUnreadable,
    RateLimited,
    StoreError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.storage.audit_log import Act, not_recorded_error
from mcp_notarium.stores.contract import WITHDRAWN, Retry, Store, WriteGuard
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.listing_pages import require_usable
from mcp_notarium.sync.note_fetch import get_newest
from mcp_notarium.sync.push_answers import NOTHING, AnswerCommitter
from mcp_notarium.sync.push_decisions import PushOutcome, PushResult
from mcp_notarium.sync.write_errors import (
    gone_error,
    names_taken_error,
    taken_over_error,
    unknown_outcome,
)

NOT_STORED = (
    StoreRejected,
    StoreUnavailable,
    LoginRequired,
    NoteNotFound,
    RateLimited,
    VersionConflict,
)
"""Errors after which the store has certainly not taken the write. After any other it may have."""

_LOOK_WHETHER_IT_IS_GONE = (
    "The next sync shows whether the note is gone; it does not delete it again. Look with `get` in a "
    "while, and delete the note again if it is there and still to go."
)
MOST_IDS = 20
"""Ids that are tried for one new note, where others may have taken them."""


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
        self._on_step = on_step
        self._guarded_by_us = store.traits.write_guard is WriteGuard.LAST_WRITER
        self._compared_by_us = self._guarded_by_us and not store.traits.compares
        self._answers = AnswerCommitter(
            store,
            journal,
            clock=clock,
            on_step=on_step,
            on_difference=on_difference,
            send_follow_up=self.send_follow_up,
        )

    async def record(self, write: PendingWrite, *, act: Act | None, **options: Any) -> bool:
        """Put a new entry on the disk, with its audit record, before anything is sent; see :meth:`Journal.record`.

        Raises ``NotRecorded`` if the disk does not take it.
        """
        if not self._journal.record(write, act=act, **options):
            return False
        try:
            await self._journal.flush()  # defence: write-flushed-before-sent
        except CacheError as error:
            self.drop(write)
            raise not_recorded_error(error) from error
        return True

    async def send(
        self, write: PendingWrite, *, base: Content, repair: bool = True, replayed: bool = False
    ) -> PushResult:
        """Push a CREATE or UPDATE and commit the answer.

        ``replayed``: it may have arrived before, over another base than the one it has now.
        Raises what the store raised: one of ``NOT_STORED`` with the entry untouched, or
        ``OutcomeUnknown`` with the entry released for any process.
        """
        with self._sending(write):
            if self._compared_by_us:
                await self._require_base(write)
            answer = await self._store.push(write)
            require_usable(answer.revision.id)
            # Follow-ups of a stored write are sent even if the caller has left.
            WITHDRAWN.set(lambda: False)
        return await self._answers.commit(write, base, answer, repair=repair, replayed=replayed)

    async def create(
        self, write: PendingWrite, *, replayed: bool = False, was_free: bool = False
    ) -> PushResult:
        """Push a CREATE, under another id where its own is taken. Raises as :meth:`send` does.

        ``was_free``: nothing had its id a moment ago, so what has it now may be this very write: AGAIN.
        """
        for attempt in range(1, MOST_IDS):
            with suppress(IdTaken):
                return await self.send(write, base=NOTHING, replayed=replayed)
            if was_free:
                return PushResult(PushOutcome.AGAIN)
            renamed = self._journal.rebase(
                write,
                base=None,
                content=write.content,
                body=write.body,
                note_id=self._journal.make_id(
                    self._store, write.content, seed=write.write_id, attempt=attempt
                ),
            )
            if renamed is None:
                return PushResult(PushOutcome.AGAIN)
            write = renamed
        raise names_taken_error()

    async def remove(self, write: PendingWrite) -> None:
        """Push a DELETE and commit it. Raises as :meth:`send` does."""
        gone = () if self._store.traits.ids.named else (NoteNotFound,)
        with self._sending(write), suppress(*gone):  # a note that was renamed is not gone
            if self._guarded_by_us:
                await self._require_base(write)
            await self._store.delete(
                write.note_id, etag=write.base_etag or "", write_id=write.write_id
            )
        self._answers.finish(write, Tombstone(write.note_id))

    async def keep_as_copy(
        self, write: PendingWrite, *, instead: Revision | Tombstone
    ) -> PushResult:
        """Keep the text in a conflict copy and store ``instead`` for the note it was meant for."""
        return await self._answers.keep_as_copy(write, instead=instead)

    def drop(self, write: PendingWrite) -> None:
        """Drop the entry of a write that the store has not taken.

        Raises ``OutcomeUnknown`` if that cannot be recorded, or if another process has taken the entry over:
        then it will be finished after all, or is finished already.
        """
        try:
            ours = self._journal.finish(write)
        except CacheError as error:
            raise unknown_outcome(
                "the write is not stored yet, and could not be taken back here", write
            ) from error
        if not ours:
            raise taken_over_error(write)

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
            never_repeated = (
                write.kind is WriteKind.DELETE and self._store.traits.retry is Retry.ASK
            )
            raise unknown_outcome(
                "the note store did not answer the write",
                write,
                resolution_hint=_LOOK_WHETHER_IT_IS_GONE if never_repeated else None,
            ) from error
        self._on_step("pushed")

    async def _require_base(self, write: PendingWrite) -> None:
        """Raise ``VersionConflict`` if the store no longer holds the base of the write.

        For a store that overwrites whatever it has: what comes between this answer and the push can only
        be noticed afterwards. Raises ``IdTaken`` for a new note and ``NoteNotFound`` for one that is gone.
        """
        about = {"id": write.note_id}
        try:
            head = await get_newest(self._store, write.note_id)
        except (StoreError, LoginRequired) as error:
            if isinstance(error, NOT_STORED):
                raise
            if isinstance(error, NoteUnreadable):
                if write.base_etag is None:
                    raise IdTaken("something else has this name", details=about) from None
                raise StoreUnavailable(
                    error.message, resolution_hint=error.resolution_hint
                ) from None
            raise StoreUnavailable("the note store did not answer before the write") from error
        if isinstance(head, Tombstone):
            if write.base_etag is not None:
                raise gone_error(write.note_id)
        elif write.base_etag is None and self._store.traits.ids.named:
            raise IdTaken("the note store has a note of this id", details=about)
        elif head.etag != write.base_etag:
            raise VersionConflict("the note has changed at the note store", details=about)

    async def send_follow_up(self, write: PendingWrite, base: Content) -> PushResult:
        """Send a follow-up of another write. WAITING: it stays in the journal for the next cycle."""
        try:
            if write.kind is WriteKind.CREATE:
                result = await self.create(write)
            else:
                result = await self.send(write, base=base, repair=False)
            if result.outcome is not PushOutcome.AGAIN:
                return result
        except NotariumError as error:
            if is_final(error):
                with suppress(CacheError):
                    self._journal.reject(write, error.message)
                    return PushResult(PushOutcome.REFUSED)
        self._journal.release(write)
        return PushResult(PushOutcome.WAITING)


def is_final(error: NotariumError) -> bool:
    """Tell whether the store will never take the write, whatever time passes."""
    return isinstance(error, StoreRejected) and not isinstance(error, DateRefused)
