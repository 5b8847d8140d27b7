"""Change notes and remove them for good, in the store first and then in the index.

The caller's view of a note is the base of the merge; the store's newest revision is written over. A
change made from an old view is merged or refused; it never overwrites somebody else's.

A removal is guarded by the revision that the caller saw. One that was not answered stays in the journal;
``entry_replay`` finds out what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, Tombstone, WriteKind
from mcp_notarium.errors import (
    IdTaken,
    InvalidRequest,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    StoreError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.markup.obsidian_links import Changes
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.stores.extensions import RevivingStore, find_native
from mcp_notarium.sync.entry_replay import ROUNDS, EntryReplay
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.link_writes import LinkWriter
from mcp_notarium.sync.note_fetch import get_proven
from mcp_notarium.sync.note_locks import NoteLock, NoteLocks
from mcp_notarium.sync.push import NOT_STORED, Pusher
from mcp_notarium.sync.push_decisions import (
    Attempt,
    PushOutcome,
    PushResult,
    Step,
    decide,
    held_for_update,
)
from mcp_notarium.sync.write_errors import (
    NOT_REMOVED,
    NOT_SAVED,
    add_outcome,
    changed_error,
    gone_error,
    name_taken_error,
    out_of_sight_error,
    removed_error,
)
from mcp_notarium.sync.write_sender import DirectWriter, Saved, WriteSender


class Updater:
    """Change single notes."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        pusher: Pusher,
        sender: WriteSender,
        entries: EntryReplay,
        locks: NoteLocks,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._pusher = pusher
        self._sender = sender
        self._entries = entries
        self._locks = locks
        self._clock = clock
        self._links = LinkWriter(cache, store, journal=journal, pusher=pusher, clock=clock)

    async def update(
        self,
        note: Note,
        content: Content,
        act: Act | None,
        *,
        exact: bool,
        keeps: bool,
        links: Mapping[str, Changes],
    ) -> Saved:
        """See :meth:`Writer.save`."""
        async with self._locks.lock(note.id) as lock:
            for attempt in range(ROUNDS):
                # Another process may have begun a write since: wait for it, do not refuse.
                await self._entries.finish_earlier(note.id, lock)
                saved = await self._attempt(
                    note,
                    content,
                    lock,
                    act,
                    first=attempt == 0,
                    exact=exact,
                    keeps=keeps,
                    links=links,
                )
                if saved is not None:
                    return saved
        raise changed_error(note.id, self._cache.notes.get(note.id))

    async def _attempt(
        self,
        note: Note,
        content: Content,
        lock: NoteLock,
        act: Act | None,
        *,
        first: bool,
        exact: bool,
        keeps: bool,
        links: Mapping[str, Changes],
    ) -> Saved | None:
        """Merge with the newest revision and send; None if the note changed meanwhile."""
        seen = self._cache.notes.etag(note.id)
        held_here = (
            self._cache.notes.base(note.id) if first and self._store.traits.compares else None
        )
        if held_here is not None and held_here.raw and held_here.content != content:
            newest = held_here  # the store compares it before it writes
        else:
            try:
                newest = await self._fetch_newest(note.id, seen, first=first)
            except (StoreError, LoginRequired) as error:
                raise add_outcome(error, NOT_SAVED) from None
        # defence: undo-of-known-revision-only =False
        moved = exact and (newest.etag != seen or self._has_moved(note))
        unchanged = newest.etag if newest.content == note.content and not moved else None
        held, wanted = held_for_update(
            newest,
            base=note.content,
            base_etag=unchanged,
            sent=content,
            wanted=content,
            taken=self._journal.is_taken(newest),
        )
        step = decide(WriteKind.UPDATE, Attempt.FIRST, held)
        # defence: restore-without-other-edit -exact
        if step is Step.MERGE and (exact or not self._journal.sees(note.id, wanted)):
            step = (
                Step.REFUSE
            )  # if hidden: each side kept a tag that shows it; the merge keeps none
        if step in (Step.REFUSE, Step.DONE):
            self._journal.adopt(newest, seen=seen)
            if step is Step.REFUSE:
                raise changed_error(note.id, self._cache.notes.get(note.id))
            return self._sender.make_saved(
                PushResult(PushOutcome.STORED, note.id, merged=True), content
            )
        body = self._store.compose(newest, wanted, now=self._clock())
        replaced = await self._find_replaced(note.id, body)
        if replaced == b"":  # it is so already
            self._journal.adopt(newest, seen=seen)
            return self._sender.make_saved(PushResult(PushOutcome.STORED, note.id), content)
        write = self._journal.make(
            note_id=note.id,
            kind=WriteKind.UPDATE,
            base_etag=newest.etag,
            content=wanted,
            body=body,
            replaced=replaced,
            keeps=keeps,
        )
        self._require_free_name(write)
        following = self._links.make(write, links)

        async def send() -> tuple[PushResult, tuple[str, ...]]:
            result = await self._send_update(write, newest, seen, act, following)
            return result, await self._links.send(following if result.stored else ())

        result, relinked = await lock.run_cancellable(send())
        if result.outcome is PushOutcome.AGAIN:
            return None
        saved = self._sender.make_saved(result, content, merged=newest.content != note.content)
        waiting = {entry.note_id for entry in following} - {*relinked}
        return replace(saved, relinked=relinked, waiting=tuple(waiting))

    def _has_moved(self, note: Note) -> bool:
        """Tell whether the index has another revision by now than the one that the caller has read."""
        held = self._cache.notes.get(note.id)
        return held is None or held.local_version != note.local_version

    async def _find_replaced(self, note_id: str, body: bytes) -> bytes | None:
        try:
            return await find_native(self._store, note_id, body)
        except VersionConflict:
            raise changed_error(note_id, self._cache.notes.get(note_id)) from None
        except (StoreError, LoginRequired) as error:
            raise add_outcome(error, NOT_SAVED) from None

    def _require_free_name(self, write: PendingWrite) -> None:
        """Raise ``InvalidRequest`` if the write gives the note an id that another one has, or that rules hide."""
        new_id = self._store.revision_of(write.note_id, write.body).id
        if new_id == write.note_id:
            return
        known = self._cache.notes.etag(new_id) is not None or self._journal.in_flight(new_id)
        # defence: hidden-id-not-taken -sees
        if known or not self._journal.sees(new_id, write.content):
            raise name_taken_error(write.note_id)

    async def _fetch_newest(self, note_id: str, seen: str | None, *, first: bool) -> Revision:
        newest = await get_proven(self._cache, self._store, note_id)
        if isinstance(newest, Tombstone) or not self._journal.sees_revision(newest):
            # A note that was hidden elsewhere is gone to the caller here.
            self._forget(newest, seen=seen)
            raise self._make_removed_error(note_id) if first else self._make_gone_error(note_id)
        return newest

    def _forget(self, gone: Revision | Tombstone, *, seen: str | None) -> None:
        """Take a note that is gone or hidden out of the index.

        Where ids are names the next listing does: the note may have been renamed.
        """
        if not self._store.traits.ids.named:
            self._journal.adopt(gone, seen=seen)

    def _make_removed_error(self, note_id: str) -> NotariumError:
        return removed_error(note_id, renamed=self._store.traits.ids.named)

    def _make_gone_error(self, note_id: str) -> NotariumError:
        """Make the error for a note that is gone after its change was sent.

        If rules hide notes, it is the one for a change that was stored into a note that is hidden now.
        """
        hides = self._cache.notes.visibility.rules.has_rules
        return (
            out_of_sight_error(note_id, stored=False)
            if hides
            else self._make_removed_error(note_id)
        )

    async def _send_update(
        self,
        write: PendingWrite,
        newest: Revision,
        seen: str | None,
        act: Act | None,
        following: Sequence[PendingWrite],
    ) -> PushResult:
        try:
            result = await self._sender.record_and_send(
                write, act, base=newest, seen=seen, following=following
            )
        except IdTaken:
            raise name_taken_error(write.note_id) from None
        except VersionConflict:
            result = None
        except NoteNotFound:
            self._forget(Tombstone(write.note_id), seen=newest.etag)
            raise self._make_gone_error(write.note_id) from None
        if result is None:
            return PushResult(PushOutcome.AGAIN)
        if result.outcome is PushOutcome.AGAIN:
            self._pusher.drop(write)
        return result


class Remover:
    """Remove single notes."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        pusher: Pusher,
        direct: DirectWriter | None,
        entries: EntryReplay,
        locks: NoteLocks,
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._pusher = pusher
        self._direct = direct
        self._entries = entries
        self._locks = locks

    async def remove(self, note: Note, act: Act | None, *, keeps: bool) -> None:
        """See :meth:`Writer.remove`."""
        async with self._locks.lock(note.id) as lock:
            await self._entries.finish_earlier(note.id, lock)
            etag = self._etag_to_remove(note)
            keepsake = b"" if etag is None else await self._keepsake(note.id)
            if keepsake is None:  # another program was faster: what was written from here is kept
                self._journal.adopt(Tombstone(note.id), seen=etag)
            elif etag is not None:
                write = self._journal.make(
                    note_id=note.id,
                    kind=WriteKind.DELETE,
                    base_etag=etag,
                    content=note.content,
                    body=keepsake,
                    keeps=keeps,
                )
                await lock.run_cancellable(self._send(write, etag, act))

    async def _keepsake(self, note_id: str) -> bytes | None:
        """Return what the store needs to make the note again; the journal has it before the note goes. None: it is gone."""
        if not self._store.traits.revives:
            return b""
        store = cast("RevivingStore", self._store)  # its trait says so
        try:
            return await store.keepsake(note_id)
        except NoteNotFound:
            return None
        except StoreError as error:
            raise add_outcome(error, NOT_REMOVED) from None

    def _etag_to_remove(self, note: Note) -> str | None:
        """Return the etag to remove; None if the note is gone already."""
        current = self._cache.notes.get(note.id)
        if current is None:
            return None
        if (current.id, current.local_version) != (note.id, note.local_version):
            raise changed_error(note.id, current, removing=True)
        if self._store.traits.trash and not current.trash:
            raise InvalidRequest(
                "only a note in the trash can be deleted for good",
                details={"id": note.id},
                resolution_hint="Move the note to the trash first, then delete it.",
            )
        return self._cache.notes.etag(note.id)

    async def _send(self, write: PendingWrite, etag: str, act: Act | None) -> None:
        if self._direct is None and not await self._pusher.record(write, act=act, seen=etag):
            raise self._changed_error(write.note_id)
        try:
            if self._direct is not None:
                self._direct.remove(write, act)
            else:
                await self._pusher.remove(write)
        except NOT_STORED as error:
            if self._direct is None:
                self._pusher.drop(write)
            if isinstance(error, VersionConflict | StoreRejected) and await self._is_gone(
                write.note_id
            ):
                if not self._store.traits.ids.named:
                    return
                error = gone_error(write.note_id)
            if isinstance(error, VersionConflict):
                raise self._changed_error(write.note_id) from None
            raise add_outcome(error, NOT_REMOVED) from None

    async def _is_gone(self, note_id: str) -> bool:
        """Tell whether the note was removed elsewhere, or the policy hides it by now.

        Otherwise store the newest revision, so that the caller's next ``get`` shows the conflict. Where ids are
        names, what is gone is left to the next listing: it may have been renamed.
        """
        seen = self._cache.notes.etag(note_id)
        with suppress(NotariumError):
            newest = await get_proven(self._cache, self._store, note_id)
            gone = isinstance(newest, Tombstone) or not self._journal.sees_revision(newest)
            if gone and self._store.traits.ids.named:
                return True
            self._journal.adopt(newest, seen=seen)
        return self._cache.notes.etag(note_id) is None

    def _changed_error(self, note_id: str) -> VersionConflict:
        return changed_error(note_id, self._cache.notes.get(note_id), removing=True)
