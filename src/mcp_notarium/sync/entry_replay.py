"""Finish one journal entry whose outcome is unknown, under the write_id it was recorded with.

``EntryReplay`` asks the store first what became of the note and merges here, never there. Text that
cannot be merged becomes a conflict copy; text the store refuses stays as a rejected entry. Where ids are
names, a note that is not under its name may have been renamed: a full listing tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import assert_never

from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import (
    CacheBusy,
    DateRefused,
    IdTaken,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Retry, Store, Versions
from mcp_notarium.stores.extensions import find_native
from mcp_notarium.sync.conflict_copy import differences, same_but_blanks
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.note_fetch import get_newest, get_proven
from mcp_notarium.sync.note_locks import NoteLock
from mcp_notarium.sync.push import Pusher, is_final
from mcp_notarium.sync.push_decisions import (
    Attempt,
    PushOutcome,
    PushResult,
    Step,
    decide,
    held_for_creation,
    held_for_deletion,
    held_for_update,
)
from mcp_notarium.sync.write_errors import unknown_outcome

LOCK_TRIES = 50
"""Number of checks whether another process has finished with the note."""
LOCK_PAUSE = 0.1
ROUNDS = 4
"""Times that a note may change during a write before the write is left for later."""


class PerhapsRenamed(OutcomeUnknown):
    """Report an entry that must wait until a full listing has been compared, or another one is finished."""


class EntryReplay:
    """Finish single entries that the caller has claimed, or those of one note."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        pusher: Pusher,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._pusher = pusher
        self._clock = clock
        self._sleep = sleep
        self._created: dict[str, tuple[Content, PushResult, str | None]] = {}
        """Maps write_id to content, outcome and etag, for a caller who sends the same again."""

    async def finish_earlier(self, note_id: str, lock: NoteLock) -> None:
        """Finish the note's unanswered write before another one is made.

        Raises ``StoreUnavailable`` if it stays unanswered, otherwise as :meth:`finish_of`.
        """
        try:
            await self.finish_of(note_id, lock)
        except OutcomeUnknown as error:
            raise StoreUnavailable(
                "an earlier write of this note is still unanswered; nothing was saved",
                details=error.details,
            ) from error

    async def finish_of(self, note_id: str, lock: NoteLock) -> PushResult | None:
        """Finish the note's unanswered write, made by this process or left by another one.

        Return how that ended; None if there was none. Raises ``OutcomeUnknown`` if it stays unanswered,
        and ``CacheBusy`` if another process keeps the note.
        """
        result = None
        for _ in range(LOCK_TRIES):
            write = self._journal.in_flight(note_id)
            if write is None:
                return result
            claimed = self._journal.claim(write)
            if claimed is None:
                await self._sleep(LOCK_PAUSE)
            else:
                result = await lock.run_to_end(self.finish(claimed))
        raise CacheBusy("another process is saving this note")

    def take_result(self, write_id: str) -> PushResult | None:
        """Return, once, how a creation ended that this process has finished; None: it has not."""
        created = self._created.pop(write_id, None)
        return created[1] if created else None

    def take_created(self, content: Content) -> PushResult | None:
        """Return, once, how a creation of ``content`` was stored that was in doubt; None: there is none.

        None as well if the note has changed since.
        """
        for write_id, (asked, result, etag) in self._created.items():
            if asked == content and result.stored:
                unchanged = self._cache.notes.etag(result.note_id) == etag
                del self._created[write_id]
                return result if unchanged else None
        return None

    async def finish(self, write: PendingWrite, *, listed: bool = False) -> PushResult:
        """Finish the entry. If this raises, the entry remains and is free for the next attempt.

        ``listed``: a full listing was compared since the note was not found under its name. Raises
        ``PerhapsRenamed`` if one is needed.
        """
        try:
            if self._journal.waits(write):  # defence: links-wait-for-renaming
                raise PerhapsRenamed(
                    "a note that this one links to is being renamed",
                    details={"id": write.note_id, "write_id": write.write_id},
                )
            for _ in range(ROUNDS):
                result = await self._attempt(write, listed=listed)
                if result.outcome is not PushOutcome.AGAIN:
                    if write.kind is WriteKind.CREATE and not write.copied:
                        etag = self._cache.notes.etag(result.note_id)
                        self._created[write.write_id] = write.content, result, etag
                    return result
                kept = self._cache.journal.get(write.write_id)
                if kept is None:  # another process has finished it
                    return PushResult(PushOutcome.STORED, write.note_id, merged=True)
                write = kept
        except NotariumError as error:
            if is_final(error):
                self._journal.reject(write, error.message)
                return PushResult(PushOutcome.REFUSED)
            self._journal.release(write)
            raise
        self._journal.release(write)
        raise unknown_outcome("the note keeps changing at the note store", write)

    async def _attempt(self, write: PendingWrite, *, listed: bool) -> PushResult:
        write, head = await self._find(write)
        if not listed and self._may_be_renamed(write, head):
            raise PerhapsRenamed(
                "the note is not under its name: a listing must tell whether it was renamed",
                details={"id": write.note_id, "write_id": write.write_id},
            )
        match write.kind:
            case WriteKind.CREATE:
                return await self._create(write, head)
            case WriteKind.UPDATE:
                return await self._update(write, head)
            case WriteKind.DELETE:
                return await self._remove(write, head)
            case _:
                assert_never(write.kind)

    async def _find(self, write: PendingWrite) -> tuple[PendingWrite, Revision | Tombstone]:
        """Return what the store holds in place of the note; the entry has its new id if the write has renamed it."""
        head = await get_proven(self._cache, self._store, write.note_id, fed=False)
        # defence: renaming-looked-for
        if isinstance(head, Tombstone) and (moved := await self._find_under_new_name(write)):
            return self._journal.rename(write, moved.id), moved
        return write, head

    async def _find_under_new_name(self, write: PendingWrite) -> Revision | None:
        """Find the note that a write was to rename, if it is there; None: it is not, or that is another note."""
        if write.kind is not WriteKind.UPDATE:
            return None
        sent = self._store.revision_of(write.note_id, write.body)
        if sent.id == write.note_id:
            return None
        found, base = await get_newest(self._store, sent.id), self._cache.notes.base(write.note_id)
        if isinstance(found, Tombstone):
            return None
        if found.content == sent.content:
            return found
        unchanged = base and replace(base.content, title=sent.content.title) == found.content
        same = base is not None and found.identity is not None and found.identity == base.identity
        return found if unchanged or same else None

    def _may_be_renamed(self, write: PendingWrite, head: Revision | Tombstone) -> bool:
        """Tell whether the note that the write has made or changed may have another name by now."""
        if not self._store.traits.ids.named:
            return False
        if isinstance(head, Tombstone) or write.kind is not WriteKind.CREATE:
            return isinstance(head, Tombstone)
        return head.content != self._store.revision_of(write.note_id, write.body).content

    def _finish_with(self, write: PendingWrite, head: Revision | Tombstone) -> PushResult:
        """Finish an entry that had arrived, or for which nothing is left to do."""
        own = isinstance(head, Revision) and self._is_made_by(write, head)
        self._journal.finish(write, storing=[head], own=own)
        if isinstance(head, Tombstone) or head.content == write.content:
            return PushResult(PushOutcome.STORED, head.id)
        if write.kind is WriteKind.DELETE:  # somebody has changed it: it stays
            return PushResult(PushOutcome.STORED, head.id, merged=True)
        sent = self._store.revision_of(write.note_id, write.body).content
        same = own or self._rewrote(head, write.content)
        differs = differences(sent=sent, stored=head.content) if same else ""
        return PushResult(PushOutcome.STORED, head.id, merged=not same, differs=differs)

    def _is_made_by(self, write: PendingWrite, head: Revision) -> bool:
        """Tell whether the note is what the write made: the answer is lost, so its content or its date must tell."""
        if write.kind is WriteKind.DELETE:
            return False
        sent = self._store.revision_of(write.note_id, write.body)
        dated = self._store.traits.dates and head.modified_at == sent.modified_at
        return head.id == sent.id and (dated or head.content == sent.content)

    async def _create(self, write: PendingWrite, head: Revision | Tombstone) -> PushResult:
        traits = self._store.traits
        sent = self._store.revision_of(write.note_id, write.body)
        named = traits.ids.named
        in_parts = traits.retry is Retry.ASK and not named
        held = held_for_creation(head, sent.content, named=named, in_parts=in_parts)
        step = decide(write.kind, Attempt.REPEATED, held)
        if isinstance(head, Revision) and step is Step.DONE:
            return self._finish_created(write, head, sent)
        if isinstance(head, Revision) and step is Step.MERGE:
            # A tag may have come since, or from a note above.
            tags = tuple(dict.fromkeys((*write.content.tags, *head.content.tags)))
            return await self._send_rebased(write, head, replace(write.content, tags=tags))
        renamed = await self._find_renamed(write, sent) if named else None
        if renamed is not None:
            return self._finish_created(write, renamed, sent)
        try:
            return await self._send_dated(write, None, was_free=isinstance(head, Tombstone))
        except NoteNotFound:
            # The store remembers the write but has no such note: it was removed after it arrived.
            return self._finish_with(write, Tombstone(write.note_id))
        except VersionConflict:
            return PushResult(PushOutcome.AGAIN)

    async def _find_renamed(self, write: PendingWrite, sent: Revision) -> Revision | None:
        """Find the note that an unanswered creation has made and that has another name by now.

        It says exactly what was sent and is not older than the write.
        """
        for note_id in self._cache.notes.ids_with_text(sent.content.text):
            found = await get_newest(self._store, note_id)
            if isinstance(found, Tombstone) or found.content != sent.content:
                continue
            if found.modified_at >= int(write.created_at):
                return found
        return None

    def _finish_created(self, write: PendingWrite, head: Revision, sent: Revision) -> PushResult:
        """Finish a creation that has arrived. What differs under our own date is the store's doing."""
        ours = self._store.traits.dates and head.modified_at == sent.modified_at
        differs = differences(sent=sent.content, stored=head.content)
        result = self._finish_with(write, head)
        return replace(result, merged=bool(differs) and not ours, differs=differs if ours else "")

    def _has_text_to_keep(self, write: PendingWrite) -> bool:
        """Tell whether the write carries text that exists nowhere else."""
        base = self._base_of(write)
        if base is not None and self._store.traits.ids.paths:  # the title is where the note lies
            return base.text != write.content.text
        return base is None or base.wording != write.content.wording

    async def _update(self, write: PendingWrite, head: Revision | Tombstone) -> PushResult:
        sent, content = self._wanted(write, head)
        base = None
        if isinstance(head, Revision) and head.etag != write.base_etag and head.content != sent:
            base = self._base_of(write) or await self._read_base(write)
        held, wanted = held_for_update(
            head,
            base=base,
            base_etag=write.base_etag,
            sent=sent,
            wanted=content,
            taken=isinstance(head, Revision) and self._journal.is_taken(head),
            repeated=True,
        )
        step = decide(write.kind, Attempt.REPEATED, held)
        if base is not None and isinstance(head, Revision) and self._rewrote(head, sent):
            step = Step.DONE
        if isinstance(head, Tombstone):
            if write.copied or not self._has_text_to_keep(write):
                return self._finish_with(write, head)
            return await self._pusher.keep_as_copy(write, instead=head)
        if step is Step.COPY and not write.copied:
            return await self._pusher.keep_as_copy(write, instead=head)
        if step is Step.PUSH or (step is Step.DONE and write.replaced is not None):
            return await self._push_update(write, head)
        if not self._journal.sees_revision(head):
            wanted = replace(wanted, tags=head.content.tags)  # the policy hides it now: keep it so
        if step is not Step.MERGE or wanted == head.content:
            return self._finish_with(write, head)
        return await self._send_rebased(write, head, wanted)

    async def _push_update(self, write: PendingWrite, head: Revision) -> PushResult:
        """Send a change. Where the content of a note does not show all of it, only the store tells whether it has arrived."""
        if write.replaced is None:
            return await self._send(write, head)
        try:
            replaced = await find_native(self._store, head.id, write.body)
        except VersionConflict:  # it takes back a change that another one has followed
            self._journal.finish(write, storing=[head], stored=False)
            return PushResult(PushOutcome.STORED, head.id, merged=True)
        if not replaced or head.etag != write.base_etag:
            return self._finish_with(write, head)
        rebased = self._journal.rebase(
            write, base=head, content=write.content, body=write.body, replaced=replaced
        )
        return await self._send(rebased, head) if rebased else PushResult(PushOutcome.AGAIN)

    def _wanted(self, write: PendingWrite, head: Revision | Tombstone) -> tuple[Content, Content]:
        """Return what the store holds if the write has arrived, and what the note is to become.

        A note that has its old name yet is not what was sent, whatever it says.
        """
        stored, content = self._store.revision_of(write.note_id, write.body), write.content
        sent = stored.content if stored.id == head.id else content
        if isinstance(head, Revision) and head.content.text == stored.content.text:
            # The text has arrived, and reads as the store writes it: nobody else has changed it.
            content = replace(content, text=stored.content.text)
        return sent, replace(content, title=sent.title)

    async def _send_rebased(
        self, write: PendingWrite, head: Revision, wanted: Content
    ) -> PushResult:
        body = self._store.compose(head, wanted, now=self._clock())
        replaced = await find_native(self._store, head.id, body)
        rebased = self._journal.rebase(
            write, base=head, content=wanted, body=body, replaced=replaced
        )
        return await self._send(rebased, head) if rebased else PushResult(PushOutcome.AGAIN)

    def _rewrote(self, head: Revision, sent: Content) -> bool:
        """Tell whether the note is what was sent, up to blanks, in a store that knows no write_id."""
        asks = self._store.traits.retry is Retry.ASK
        return asks and same_but_blanks(sent, head.content) and not self._journal.is_taken(head)

    async def _send(self, write: PendingWrite, head: Revision) -> PushResult:
        try:
            return await self._send_dated(write, head)
        except IdTaken:  # its new name has been taken: it keeps the old one, and gets the text
            self._journal.drop_following(write)
            named = replace(write.content, title=head.content.title)
            if named == head.content:
                return self._finish_with(write, head)
            return await self._send_rebased(write, head, named)
        except (NoteNotFound, VersionConflict):
            return PushResult(PushOutcome.AGAIN)

    async def _send_dated(
        self, write: PendingWrite, head: Revision | None, *, was_free: bool = False
    ) -> PushResult:
        """Send over ``head``; once more with the present time if the clock was wrong before."""
        try:
            return await self._send_over(write, head, was_free=was_free)
        except DateRefused:
            body = self._store.compose(head, write.content, now=self._clock())
            dated = self._journal.rebase(write, base=head, content=write.content, body=body)
            if dated is None:
                return PushResult(PushOutcome.AGAIN)
            return await self._send_over(dated, head, was_free=was_free)

    async def _send_over(
        self, write: PendingWrite, head: Revision | None, *, was_free: bool
    ) -> PushResult:
        if head is None:
            return await self._pusher.create(write, replayed=True, was_free=was_free)
        return await self._pusher.send(write, base=head.content, replayed=True)

    async def _remove(self, write: PendingWrite, head: Revision | Tombstone) -> PushResult:
        recognised = self._store.traits.retry is Retry.IDEMPOTENT
        held = held_for_deletion(head, write.base_etag, recognised=recognised)
        if decide(write.kind, Attempt.REPEATED, held) is Step.DONE:
            return self._finish_with(write, head)
        try:
            await self._pusher.remove(write)
        except (VersionConflict, StoreRejected):
            newest = await get_newest(self._store, head.id)
            if isinstance(newest, Tombstone) or newest.etag != write.base_etag:
                return PushResult(PushOutcome.AGAIN)
            return self._finish_with(write, newest)
        return PushResult(PushOutcome.STORED, write.note_id)

    def _base_of(self, write: PendingWrite) -> Content | None:
        base = self._cache.notes.base(write.note_id)
        return base.content if base and base.etag == write.base_etag else None

    async def _read_base(self, write: PendingWrite) -> Content | None:
        """Read the base from the store's history, if the index has lost it."""
        if self._store.traits.versions is not Versions.BY_ETAG or write.base_etag is None:
            return None
        try:
            return (await self._store.get(write.note_id, etag=write.base_etag)).content
        except NoteNotFound:
            return None
