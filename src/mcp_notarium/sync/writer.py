"""Make every change of a note, in the store first and then in the index.

``write_attempt`` makes each attempt, and ``write_decisions.DECISIONS`` says what becomes of it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

from mcp_notarium.domain.note import Content, Note, PendingWrite, WriteKind
from mcp_notarium.domain.write_scope import ANYTHING, WriteScope
from mcp_notarium.errors import NotariumError, NoteNotFound
from mcp_notarium.files.locks import process_ended
from mcp_notarium.markup.obsidian_links import Changes
from mcp_notarium.storage.audit_log import Act, Step
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store, require_supported
from mcp_notarium.sync.head_reader import HeadReader
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.link_writes import CardMoves
from mcp_notarium.sync.note_locks import NoteLocks
from mcp_notarium.sync.replay import LOCK_PAUSE, LOCK_TRIES, Replay
from mcp_notarium.sync.write_attempt import MOST_IDS, ROUNDS, WriteAttempt
from mcp_notarium.sync.write_decisions import Asked, Fact, WriteOutcome, WriteResult
from mcp_notarium.sync.write_errors import (
    NOT_SAVED,
    add_outcome,
    changed_error,
    collision_error,
    names_taken_error,
    out_of_sight_error,
)

_AT_ONCE = 5
"""Calls that write at the same time. Of eight connections to a store this leaves those for news and late writes."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Hold how a save has ended for its caller."""

    note: Note
    """As it is in the index now."""
    merged: bool = False
    """Somebody else's change is in it too."""
    copy_id: str | None = None
    """The note that keeps our text, because the same lines were changed elsewhere at the same moment."""
    differs: str = ""
    """See ``WriteResult``."""
    relinked: tuple[str, ...] = ()
    """The notes in which links were rewritten."""
    waiting: tuple[str, ...] = ()
    """Those in which links are to be rewritten."""
    canvases: tuple[str, ...] = ()
    """Those whose cards follow the note."""
    canvases_waiting: tuple[str, ...] = ()
    """Those whose cards are to follow it."""


class Writer:
    """Create, change and remove notes; nothing else does.

    ``owner`` names this process in journal entries and ``lease`` (seconds) is how long others leave them alone;
    ``owner_ended`` tells whether the process of such a name has ended. ``on_step`` is told each step of a push, so that a
    test can stop there; ``on_difference`` the id of each note that the store by itself holds differently from what was sent.
    """

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        owner: str,
        lease: float,
        stopwatch: Callable[[], float] = time.monotonic,
        owner_ended: Callable[[str], bool] = process_ended,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_step: Callable[[str], None] = lambda _step: None,
        on_difference: Callable[[str], None] = lambda _note_id: None,
        scope: WriteScope = ANYTHING,
    ) -> None:
        self._cache = cache
        self.scope = scope
        self._store = store
        self._sleep = sleep
        # Where ids are names, a write may take the name that another one asks for, and change notes that link to it.
        self.locks = NoteLocks(at_once=1 if store.traits.ids.named else _AT_ONCE)
        self._journal = Journal(cache, store, owner=owner, lease=lease, owner_ended=owner_ended)
        self.cards = CardMoves(cache, store, journal=self._journal, on_step=on_step)
        self.heads = HeadReader(cache, store, journal=self._journal, scope=scope)
        self._attempt = WriteAttempt(
            cache,
            store,
            journal=self._journal,
            heads=self.heads,
            on_step=on_step,
            on_difference=on_difference,
        )
        self.replay = Replay(
            cache,
            store,
            journal=self._journal,
            attempt=self._attempt,
            locks=self.locks,
            stopwatch=stopwatch,
            sleep=sleep,
        )

    async def save(
        self,
        *,
        note: Note | None,
        content: Content,
        act: Act | None = None,
        exact: bool = False,
        keeps: bool = False,
        links: Mapping[str, Changes] = MappingProxyType({}),
        change_id: str = "",
    ) -> Saved:
        """Create a note, or change ``note`` (as the caller read it) into ``content``.

        ``act`` is recorded before anything is sent. ``exact``: a change elsewhere that is not known here is a
        conflict, also in other lines and in what no content shows. ``keeps``: see ``PendingWrite``. ``links``: what links in
        other notes become after that, by their ids. ``change_id``: of the change of many notes that this belongs to.
        Raises ``VersionConflict`` if somebody else changed the same lines, ``NoteNotFound`` if the note is gone,
        ``OutcomeUnknown`` if the store did not answer (the write is finished later) or the note went out of sight
        meanwhile, or what kept the store from taking it. Nothing was saved then, but for ``OutcomeUnknown``.
        """
        wanted = content.cleaned()
        require_supported(self._store.traits, wanted, note.content if note else None)
        if note is None:
            return self._answer(await self._create(wanted, act), wanted, created=True)
        self._require_links(links)
        facts = frozenset({Fact.EXACT} if exact else ())
        asked = Asked(note=note, act=act, facts=facts, links=links)
        write = self._journal.make(
            note_id=note.id, kind=WriteKind.UPDATE, content=wanted, keeps=keeps, change_id=change_id
        )
        return self._answer(await self._change(write, asked), wanted)

    async def foresee(self, note: Note, content: Content | None) -> None:
        """Raise what :meth:`save`, exactly, or :meth:`remove` (None) would raise as the note is now, before a person is asked."""
        kind = WriteKind.DELETE if content is None else WriteKind.UPDATE
        wanted = (content or note.content).cleaned()
        write = self._journal.make(note_id=note.id, kind=kind, content=wanted)
        async with self.locks.lock(note.id) as lock:
            await self.replay.finish_earlier(note.id, lock)
            await self._attempt.foresee(write, Asked(note=note, facts=frozenset({Fact.EXACT})))

    async def revive(self, note_id: str, content: Content, *, act: Act | None = None) -> Saved:
        """Make a note under this id again. Raises as :meth:`save`, and ``VersionConflict`` if one has it."""
        write = self._make_creation(note_id, content)
        result = await self._change(write, Asked(act=act, facts=frozenset({Fact.FIXED})))
        return self._answer(result, content, created=True)

    async def remove(self, note: Note, *, act: Act | None = None, keeps: bool = False) -> None:
        """Remove a note for good, as the caller read it. A note already gone is success. ``keeps``: see ``PendingWrite``.

        Raises as :meth:`save`, and ``InvalidRequest`` if it is not in the trash where the store wants that.
        """
        write = self._journal.make(
            note_id=note.id, kind=WriteKind.DELETE, content=note.content, keeps=keeps
        )
        await self._change(write, Asked(note=note, act=act))

    def create_all(self, notes: Sequence[tuple[str, Content]]) -> list[NotariumError | None]:
        """Make notes under these ids in one transaction, where the store is in the database.

        Return for each the error that :meth:`revive` raises, None if it is made and visible. Raises if none can be made.
        """
        writes = [self._make_creation(note_id, content) for note_id, content in notes]
        errors = self._attempt.create_all(writes)
        hidden = (self._cache.notes.etag(write.note_id) is None for write in writes)
        return [
            error or (out_of_sight_error(write.note_id, stored=True) if gone else None)
            for write, error, gone in zip(writes, errors, hidden, strict=True)
        ]

    def _make_creation(self, note_id: str, content: Content) -> PendingWrite:
        wanted = content.cleaned()
        require_supported(self._store.traits, wanted, None)
        return self._journal.make(note_id=note_id, kind=WriteKind.CREATE, content=wanted)

    async def finish_links(self) -> None:
        """Finish earlier renamings, and what links and cards are to follow of them, as far as that goes now."""
        for write in self._cache.journal.in_flight():
            if write.after or self._journal.may_take_from(write.owner):
                with suppress(NotariumError):
                    async with self.locks.lock(write.note_id) as lock:
                        await self.replay.finish_of(write.note_id, lock)
        with suppress(NotariumError):
            await self.cards.finish()
        for _ in range(LOCK_TRIES):
            if not self.cards.are_busy():
                return
            await self._sleep(LOCK_PAUSE)

    def _require_links(self, links: Iterable[str]) -> None:
        """Raise ``NotPermitted`` if links are to be rewritten in a note that may only be read."""
        bases = filter(None, map(self._cache.notes.base, links if self.scope.has_rules else ()))
        closed = [
            base.id
            for base in bases
            if not self.scope.permits(base.id, base.content.tags, clear=base.tags_understood)
        ]
        if closed:
            raise self.scope.refusal("Links would change in notes that may only be read here.")

    async def _create(self, content: Content, act: Act | None) -> WriteResult:
        """Create a note, or finish a creation with the same content that was in doubt."""
        if not self._store.traits.in_database:
            resumed = await self.replay.resume_creation(content, act)
            if resumed is not None:
                if act is not None:
                    act.steps.see_stored(resumed, self._cache.notes.etag(resumed.note_id))
                return resumed
        write_id = uuid.uuid4().hex
        for number in range(MOST_IDS):
            note_id = self._journal.make_id(content, seed=write_id, attempt=number)
            write = self._journal.make(
                note_id=note_id, kind=WriteKind.CREATE, content=content, write_id=write_id
            )
            async with self.locks.lock(note_id) as lock:
                result = await self._attempt.first(write, Asked(act=act), lock)
            if result.outcome is not WriteOutcome.AGAIN:
                return result
        raise add_outcome(names_taken_error(), NOT_SAVED)

    async def _change(self, write: PendingWrite, asked: Asked) -> WriteResult:
        """Attempt a write of a known note until the note stays as it is for so long."""
        async with self.locks.lock(write.note_id) as lock:
            for number in range(ROUNDS):
                if not self._store.traits.in_database:
                    # Another process may have begun a write since: wait for it, do not refuse.
                    await self.replay.finish_earlier(write.note_id, lock)
                result = await self._attempt.first(write, replace(asked, round=number), lock)
                if result.outcome is not WriteOutcome.AGAIN:
                    return result
        raise changed_error(write.note_id, self._cache.shown(write.note_id))

    def find_saved(self, step: Step) -> Saved | None:
        """Return what a step of an earlier call has saved, if the note still is what that made of it, or is the new one; else None.

        A new one that was put into the trash since is none.
        """
        new, result = step.draft.note is None, step.result
        if result is None:
            return None
        unchanged = self._cache.notes.etag(result.note_id) == step.etag
        note = self._cache.shown(result.note_id)
        trashed = new and not unchanged and note is not None and note.trash
        stands = self.replay.can_answer(result) and not trashed if new else unchanged
        return self._answer(result, step.draft.content, created=new) if stands else None

    def _answer(self, result: WriteResult, content: Content, *, created: bool = False) -> Saved:
        """Answer a caller who has asked for ``content``. Raises if the store does not hold or show it."""
        note_id = result.note_id
        note = self._cache.shown(note_id)
        has_rules = self._cache.seen.notes.visibility.rules.has_rules
        if note is None and has_rules:
            raise out_of_sight_error(note_id, stored=created and result.stored)
        if not result.stored:
            raise collision_error(note_id, refused=result.outcome is WriteOutcome.REFUSED)
        if note is None:
            raise NoteNotFound(
                "the note was removed right after it was saved", details={"id": note_id}
            )
        copy_id = result.copy_id
        if copy_id is not None and has_rules:
            copy_id = copy_id if self._cache.shown(copy_id) else None
        gone_on = result.content is not None and note.content != result.content
        return Saved(
            note,
            merged=(result.merged or gone_on) and note.content != content,
            copy_id=copy_id,
            differs=result.differs,
            relinked=result.relinked,
            waiting=result.waiting,
        )
