"""Make every change of a note, in the store first and then in the index.

Success is reported only after the store has answered. A write that was sent and not answered stays in the
journal; ``entry_replay`` finishes it. ``updater`` changes and removes notes.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, WriteKind
from mcp_notarium.errors import (
    LoginRequired,
    NotariumError,
    NoteNotFound,
    StoreError,
    StoreProtocolError,
)
from mcp_notarium.markup.obsidian_links import Changes
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store, Versions, require_supported
from mcp_notarium.stores.extensions import name_parts
from mcp_notarium.sync.entry_replay import EntryReplay
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.journal_replay import JournalReplay
from mcp_notarium.sync.link_writes import CardMoves
from mcp_notarium.sync.note_fetch import get_newest
from mcp_notarium.sync.note_locks import NoteLocks, process_ended
from mcp_notarium.sync.push import MOST_IDS, Pusher
from mcp_notarium.sync.push_decisions import PushOutcome, PushResult
from mcp_notarium.sync.updater import Remover, Updater
from mcp_notarium.sync.write_errors import (
    NOT_SAVED,
    add_outcome,
    changed_error,
    names_taken_error,
    out_of_sight_error,
    taken_over_error,
    unknown_outcome,
)
from mcp_notarium.sync.write_sender import DirectWriter, Saved, WriteSender

_AT_ONCE = 5
"""Calls that write at the same time. Of eight connections to a store this leaves those for news and late writes."""


class Writer:
    """Create, change and remove notes; nothing else does.

    ``owner`` names this process in journal entries and ``lease`` (seconds) is how long others leave
    them alone; ``owner_ended`` tells whether the process of such a name has ended. ``stopwatch``
    gives seconds of a clock that nobody sets.

    ``on_step`` is told each step of a push, so that a test can stop there; ``on_difference`` the id of
    each note that the store by itself holds differently from what was sent. ``replay`` finishes what was
    not answered, and ``cards`` what is to be done in canvases after it.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        clock: Callable[[], float],
        owner: str,
        lease: float,
        stopwatch: Callable[[], float] = time.monotonic,
        owner_ended: Callable[[str], bool] = process_ended,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_step: Callable[[str], None] = lambda _step: None,
        on_difference: Callable[[str], None] = lambda _note_id: None,
    ) -> None:
        self._cache = cache
        self._store = store
        self._clock = clock
        # Where ids are names, a write may take the name that another one asks for, and change notes that link to it.
        self._locks = NoteLocks(at_once=1 if store.traits.ids.named else _AT_ONCE)
        self._journal = Journal(
            cache,
            clock=clock,
            owner=owner,
            lease=lease,
            owner_ended=owner_ended,
            store_has_versions=store.traits.versions is Versions.BY_ETAG,
            keeps_ours=store.traits.versions is not Versions.BY_ETAG
            and not store.traits.in_database,
            keeps_lost=store.traits.versions is Versions.NONE,
            own_form=store.traits.own_form,
            name_parts=partial(name_parts, store),
        )
        self._pusher = Pusher(
            store, self._journal, clock=clock, on_step=on_step, on_difference=on_difference
        )
        self.cards = CardMoves(cache, store, owner=owner, owner_ended=owner_ended, on_step=on_step)
        self._direct = (
            DirectWriter(cache, store, self._journal, on_step=on_step)
            if store.traits.in_database
            else None
        )
        self._sender = WriteSender(
            cache, journal=self._journal, pusher=self._pusher, direct=self._direct
        )
        self._entries = EntryReplay(
            cache, store, journal=self._journal, pusher=self._pusher, clock=clock, sleep=sleep
        )
        self.replay = JournalReplay(
            cache,
            store,
            journal=self._journal,
            entries=self._entries,
            locks=self._locks,
            stopwatch=stopwatch,
        )
        self._updater = Updater(
            cache,
            store,
            journal=self._journal,
            pusher=self._pusher,
            sender=self._sender,
            entries=self._entries,
            locks=self._locks,
            clock=clock,
        )
        self._remover = Remover(
            cache,
            store,
            journal=self._journal,
            pusher=self._pusher,
            direct=self._direct,
            entries=self._entries,
            locks=self._locks,
        )

    def call(self, key: str) -> AbstractAsyncContextManager[None]:
        """Serve a writing call; drafting belongs inside. Calls of the same ``key`` go one by one, as they came.

        The key is the id of the note, or the text of a new one. A cancelled call keeps its place until the
        request that it has sent is answered.
        """
        return self._locks.call(key)

    async def save(
        self,
        *,
        note: Note | None,
        content: Content,
        act: Act | None = None,
        exact: bool = False,
        keeps: bool = False,
        links: Mapping[str, Changes] = MappingProxyType({}),
    ) -> Saved:
        """Create a note, or change ``note`` (as the caller read it) into ``content``.

        ``act`` is recorded before anything is sent. ``exact``: a change elsewhere that is not known here is a
        conflict, also in other lines and in what no content shows. ``keeps``: see ``PendingWrite``. ``links``: what links in
        other notes become after that, by their ids.
        Raises ``VersionConflict`` if somebody else changed the same lines, ``NoteNotFound`` if the note is gone,
        ``OutcomeUnknown`` if the store did not answer (the write is finished later) or the note went out of sight
        meanwhile, or what kept the store from taking it. Nothing was saved then, but for ``OutcomeUnknown``.
        """
        wanted = content.cleaned()
        require_supported(self._store.traits, wanted, note.content if note else None)
        if note is None:
            return await self._create(wanted, act)
        return await self._updater.update(note, wanted, act, exact=exact, keeps=keeps, links=links)

    async def revive(self, note_id: str, content: Content, *, act: Act | None = None) -> Saved:
        """Make a note under this id: one that was removed (``content`` has its keepsake), or comes from an export.

        Raises as :meth:`save`, and ``VersionConflict`` if a note has the id.
        """
        wanted = content.cleaned()
        require_supported(self._store.traits, wanted, None)
        async with self._locks.lock(note_id) as lock:
            await self._entries.finish_earlier(note_id, lock)
            await self._require_gone(note_id)
            write = self._journal.make(
                note_id=note_id,
                kind=WriteKind.CREATE,
                base_etag=None,
                content=wanted,
                body=self._store.compose(None, wanted, now=self._clock()),
            )
            result = await lock.run_cancellable(self._send_creation(write, act))
            if result is None:
                raise changed_error(note_id, self._cache.notes.get(note_id))
            return self._sender.make_saved(result, content, created=True)

    def create_all(self, notes: Sequence[tuple[str, Content]]) -> list[NotariumError | None]:
        """Make notes under these ids in one transaction, where the store is in the database.

        Return for each the error that :meth:`revive` raises of this note alone, None if it is made and visible.
        Every other error is raised, and no note is made.
        """
        if self._direct is None:
            raise RuntimeError("notes of this store are made one by one")
        writes = []
        for note_id, content in notes:
            wanted = content.cleaned()
            require_supported(self._store.traits, wanted, None)
            writes.append(
                self._journal.make(
                    note_id=note_id,
                    kind=WriteKind.CREATE,
                    base_etag=None,
                    content=wanted,
                    body=self._store.compose(None, wanted, now=self._clock()),
                )
            )
        errors = self._direct.create_all(writes)
        hidden = (self._cache.notes.etag(write.note_id) is None for write in writes)
        return [
            add_outcome(error, NOT_SAVED)
            if error
            else (out_of_sight_error(write.note_id, stored=True) if gone else None)
            for write, error, gone in zip(writes, errors, hidden, strict=True)
        ]

    async def _require_gone(self, note_id: str) -> None:
        """Raise ``VersionConflict`` if another program has made the note again, which nothing here knows yet."""
        if not self._store.traits.revives:
            return
        try:
            newest = await get_newest(self._store, note_id)
        except (StoreError, LoginRequired) as error:
            raise add_outcome(error, NOT_SAVED) from None
        if isinstance(newest, Revision):
            raise changed_error(note_id, self._cache.notes.get(note_id))

    async def remove(self, note: Note, *, act: Act | None = None, keeps: bool = False) -> None:
        """Remove a note for good, as the caller read it. A note already gone is success. ``keeps``: see ``PendingWrite``.

        Raises ``InvalidRequest`` if it is not in the trash where the store wants that,
        ``VersionConflict`` if it has changed, otherwise as :meth:`save`.
        """
        await self._remover.remove(note, act, keeps=keeps)

    async def await_calls(self) -> None:
        """Wait until the writing calls that came so far have ended."""
        await self._locks.await_calls()

    async def drain(self) -> None:
        """Wait for writes whose caller has left. Call it before the database is closed."""
        await self._locks.drain()

    async def _create(self, content: Content, act: Act | None) -> Saved:
        """Create a note, or finish a creation with the same content that was in doubt."""
        resumed = await self._resume_creation(content, act)
        if resumed is not None:
            return resumed
        write_id = uuid.uuid4().hex
        for attempt in range(MOST_IDS):
            note_id = self._journal.make_id(self._store, content, seed=write_id, attempt=attempt)
            async with self._locks.lock(note_id) as lock:
                write = self._journal.make(
                    write_id=write_id,
                    note_id=note_id,
                    kind=WriteKind.CREATE,
                    base_etag=None,
                    content=content,
                    body=self._store.compose(None, content, now=self._clock()),
                )
                result = await lock.run_cancellable(self._send_creation(write, act))
                if result is not None:
                    return self._sender.make_saved(result, content, created=True)
        raise add_outcome(names_taken_error(), NOT_SAVED)

    async def _resume_creation(self, content: Content, act: Act | None) -> Saved | None:
        asked = replace(content, native="")
        body = self._store.compose(None, content, now=self._clock()) if content.native else None
        same = (
            write
            for write in self._cache.journal.in_flight()
            if write.kind is WriteKind.CREATE
            and write.content == asked
            and body in (None, write.body)
        )
        write = next(filter(self._journal.can_claim, same), None)
        if write is None:
            finished = self._entries.take_created(content)
            if finished is None or not self._can_answer(finished):
                return None
            if act is not None:
                act.begin()
            return self._sender.make_saved(finished, content, created=True)
        if act is not None:
            act.begin()
        async with self._locks.lock(write.note_id) as lock:
            try:
                result = await self._entries.finish_of(write.note_id, lock)
            except StoreError as error:
                raise unknown_outcome(
                    "an earlier save of this note is unanswered", write
                ) from error
        result = self._entries.take_result(write.write_id) or result
        if result is None:  # another process has finished it
            note = self._cache.notes.get(write.note_id)
            if note is None:
                return None
            sent = self._store.revision_of(note.id, write.body).content
            result = PushResult(PushOutcome.STORED, note.id, merged=note.content != sent)
        if not self._can_answer(result):
            return None
        return self._sender.make_saved(result, content, created=True)

    def _can_answer(self, result: PushResult) -> bool:
        """Tell whether the caller gets the note of an earlier creation, or must not make it again."""
        notes = self._cache.notes
        hides = result.stored and notes.visibility.rules.has_rules
        return hides or notes.get(result.note_id) is not None

    async def _send_creation(self, write: PendingWrite, act: Act | None) -> PushResult | None:
        """Record and send; None if a note of this id is in the index or in the journal."""
        try:
            result = await self._sender.record_and_send(write, act)
        except NoteNotFound:
            raise StoreProtocolError(
                "the note store confirmed the new note and then reported that it does not exist; "
                "nothing was saved"
            ) from None
        if result is not None and result.outcome is PushOutcome.AGAIN:
            raise taken_over_error(write)
        return result
