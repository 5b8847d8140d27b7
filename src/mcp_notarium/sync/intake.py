"""Brings one batch of what the store says into the cache: plan, fetch what is missing, commit.

It decides nothing (``planner`` does) and does not know where a batch comes from (``sources`` does).
Every plan is made twice: before fetching, to know what to fetch, and again inside the write
transaction, because another task or process may have saved in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from mcp_notarium.backends.base import Backend, Entry
from mcp_notarium.cache.store import Cache
from mcp_notarium.errors import BackendProtocolError, BackendRejected, NoteNotFound
from mcp_notarium.notes.note import Revision, Tombstone
from mcp_notarium.notes.pending import PendingWrite, WriteState
from mcp_notarium.sync.batch import Batch
from mcp_notarium.sync.ledger import Ledger
from mcp_notarium.sync.planner import (
    Action,
    Confirmed,
    Fetch,
    Forget,
    Known,
    Local,
    Nothing,
    Remote,
    Replace,
    Resolve,
    Store,
    lags_behind,
    one_each,
    plan,
)

CHUNK = 250
"""Notes per transaction: small enough that a tool call never waits long for the write lock, and the
size in which the note table writes best."""
FETCHES = 8
"""Notes asked for at the same time."""


class Superseded(Exception):
    """The cache was emptied while this batch was on its way; the batch was not stored."""


@dataclass(slots=True)
class Tally:
    """What one cycle did, in notes and writes."""

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    requests: int = 0
    refused: list[str] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """Rows that are different now."""
        return self.stored + self.removed


class Intake:
    """The one way into the note table for what comes from the store."""

    def __init__(self, cache: Cache, backend: Backend, ledger: Ledger) -> None:
        self._cache = cache
        self._backend = backend
        self._ledger = ledger

    async def fetch(self, batch: Batch, tally: Tally) -> Batch:
        """The same batch with an answer from the store for every note that must be asked for.

        A note whose answer makes no sense stays unanswered and does not hold up the others.
        Whatever concerns all notes (no connection, no login) is raised.
        """
        remotes = one_each(batch.remotes)
        actions = self._plan(remotes)
        wanted = [action.id for action in actions if isinstance(action, Fetch)]
        answers = await self._ask_all(wanted, tally)
        return batch.answered(tuple(_with_answer(remote, answers) for remote in remotes))

    async def commit(self, batch: Batch, tally: Tally) -> None:
        """Store it in small transactions; other tasks run between them.

        Raises ``Superseded``. If it fails or is cancelled, some notes are newer and the cursor is
        where it was.
        """
        chunks = [batch.remotes[at : at + CHUNK] for at in range(0, len(batch.remotes), CHUNK)]
        for chunk in chunks[:-1]:
            self._commit_chunk(chunk, batch, tally, bookmark=None)
            await asyncio.sleep(0)
        self._commit_chunk(chunks[-1] if chunks else (), batch, tally, bookmark=batch.bookmark)

    def open_doubts(self) -> tuple[str, ...]:
        """Notes to look at again that no write stands in the way of any more."""
        doubts = self._ledger.doubts()
        busy = self._pending() if doubts else {}
        return tuple(note_id for note_id in doubts if note_id not in busy)

    def _commit_chunk(
        self,
        remotes: Sequence[Remote],
        batch: Batch,
        tally: Tally,
        *,
        bookmark: Callable[[], None] | None,
    ) -> None:
        with self._cache.transaction():
            if self._ledger.epoch != batch.epoch:
                raise Superseded
            actions = self._plan(remotes)
            applied = self._cache.notes.apply(_changes(actions))
            deferred = self._note_doubts(zip(remotes, actions, strict=True))
            if bookmark is not None:
                bookmark()  # INVARIANT 1 (docs/sync.md)
        tally.stored += applied.stored
        tally.removed += applied.removed
        tally.deferred += deferred

    def _plan(self, remotes: Sequence[Remote]) -> list[Action]:
        etags = self._cache.notes.etags([remote.id for remote in remotes])
        pending = self._pending()
        return [
            plan(self._local(remote, etags.get(remote.id), pending.get(remote.id)), remote)
            for remote in remotes
        ]

    def _pending(self) -> dict[str, PendingWrite]:
        return {
            write.note_id: write
            for write in self._cache.pending.all()
            if write.state is WriteState.IN_FLIGHT
        }

    def _local(self, remote: Remote, etag: str | None, write: PendingWrite | None) -> Local:
        if etag is None:
            return Local(None, write)
        version = content = None
        if not (isinstance(remote, Revision | Entry) and remote.etag == etag):
            note = self._cache.notes.get(remote.id)
            version = note.server_version if note else None
            content = note.content if note else None
        return Local(Known(etag, version, content), write)

    def _note_doubts(self, decided: Iterable[tuple[Remote, Action]]) -> int:
        """What could not be decided now is written down with the rest and looked at again.

        Only a direct answer ends a doubt: a listing may lag behind what raised it.
        """
        before = self._ledger.doubts()
        after = dict.fromkeys(before)
        for remote, action in decided:
            if isinstance(action, Fetch | Resolve):
                after[action.id] = None
            elif isinstance(remote, Confirmed):
                after.pop(action.id, None)
        if tuple(after) != before:
            self._ledger.mark_doubts(after)
        return len(after.keys() - set(before))

    async def _ask_all(self, note_ids: list[str], tally: Tally) -> dict[str, Confirmed]:
        places = asyncio.Semaphore(FETCHES)
        answers: dict[str, Confirmed] = {}

        async def ask(note_id: str) -> None:
            async with places:
                tally.requests += 1
                answer = await self._ask(note_id, tally)
            if answer is not None:
                answers[note_id] = answer

        try:
            async with asyncio.TaskGroup() as group:
                for note_id in note_ids:
                    group.create_task(ask(note_id))
        except BaseExceptionGroup as failures:
            raise _first(failures) from None
        return answers

    async def _ask(self, note_id: str, tally: Tally) -> Confirmed | None:
        seen = self._cache.notes.etag(note_id)
        try:
            return Confirmed(await self._backend.get(note_id), seen)
        except NoteNotFound:
            return Confirmed(Tombstone(note_id), seen)
        except (BackendProtocolError, BackendRejected) as error:
            tally.refused.append(type(error).__name__)
            return None


def _with_answer(remote: Remote, answers: dict[str, Confirmed]) -> Remote:
    answer = answers.get(remote.id)
    return remote if answer is None or lags_behind(answer.answer, remote) else answer


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = failures
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _changes(actions: Iterable[Action]) -> list[Revision | Tombstone]:
    changes: list[Revision | Tombstone] = []
    for action in actions:
        match action:
            case Store(revision=revision):
                changes.append(revision)
            case Replace(revision=revision):
                changes += [Tombstone(revision.id), revision]
            case Forget(id=note_id):
                changes.append(Tombstone(note_id))
            case Nothing() | Fetch() | Resolve():
                continue
    return changes
