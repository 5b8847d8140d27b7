"""Brings one batch of what the store says into the cache: plan, fetch what is missing, commit.

It decides nothing (``planner`` does) and does not know where a batch comes from (``sources`` does).
Every plan is made twice: before fetching, to know what to fetch, and again when it is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mcp_notarium.backends.base import Backend
from mcp_notarium.cache.store import Cache
from mcp_notarium.errors import BackendProtocolError, BackendRejected, NoteNotFound
from mcp_notarium.notes.note import Tombstone
from mcp_notarium.sync.batch import Batch, Bookmark
from mcp_notarium.sync.bulk import Bulk
from mcp_notarium.sync.ledger import Ledger
from mcp_notarium.sync.planner import Confirmed, Fetch, Remote, lags_behind, one_each
from mcp_notarium.sync.storing import Stored, Storing

FEW = 250
"""Up to so many notes are stored in the event loop: they hold it up no longer than they would the
write lock."""
MANY = 1000
"""Notes per transaction beside it: the search index takes them in a quarter faster than as 250, and
a save waits for one transaction at most."""
FETCHES = 8
"""Notes asked for at the same time."""


@dataclass(slots=True)
class Tally:
    """What one cycle did, in notes; ``fetched`` were asked for one by one."""

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    fetched: int = 0
    refused: list[str] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """Rows that are different now."""
        return self.stored + self.removed

    def add(self, done: Stored) -> None:
        """One transaction more."""
        self.stored += done.stored
        self.removed += done.removed
        self.deferred += done.deferred


class Intake:
    """The one way into the note table for what comes from the store."""

    def __init__(self, cache: Cache, backend: Backend, ledger: Ledger) -> None:
        self._cache = cache
        self._backend = backend
        self._ledger = ledger
        self._storing = Storing(cache, ledger)
        self._bulk = Bulk(self._storing)

    async def fetch(self, batch: Batch, tally: Tally) -> Batch:
        """The same batch with an answer from the store for every note that must be asked for.

        A note whose answer makes no sense stays unanswered and does not hold up the others.
        Whatever concerns all notes (no connection, no login) is raised.
        """
        remotes = one_each(batch.remotes)
        actions = self._storing.plan(remotes)
        wanted = [action.id for action in actions if isinstance(action, Fetch)]
        answers = await self._ask_all(wanted, tally)
        return batch.answered(tuple(_with_answer(remote, answers) for remote in remotes))

    async def commit(self, batch: Batch, tally: Tally) -> None:
        """Store it, a few in one transaction, many beside the event loop in several.

        Raises ``Superseded``. If it fails or is cancelled, some notes are newer and the cursor is
        where it was.
        """
        epoch = batch.epoch
        if len(batch.remotes) <= FEW:
            tally.add(self._storing.commit(batch.remotes, epoch=epoch, bookmark=batch.bookmark))
            return
        for chunk, bookmark in _chunks(batch):
            tally.add(await self._bulk.commit(chunk, epoch=epoch, bookmark=bookmark))

    async def rest(self) -> None:
        """Nothing more comes for a while: let go of what only many notes at once need."""
        await self._bulk.close()

    def open_doubts(self) -> tuple[str, ...]:
        """Notes to look at again that no write stands in the way of any more."""
        doubts = self._ledger.doubts()
        busy = self._storing.pending() if doubts else {}
        return tuple(note_id for note_id in doubts if note_id not in busy)

    async def _ask_all(self, note_ids: list[str], tally: Tally) -> dict[str, Confirmed]:
        places = asyncio.Semaphore(FETCHES)
        answers: dict[str, Confirmed] = {}

        async def ask(note_id: str) -> None:
            async with places:
                tally.fetched += 1
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
        seen = self._cache.notes.last_seen(note_id)
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


def _chunks(batch: Batch) -> Iterator[tuple[Sequence[Remote], Bookmark | None]]:
    """Parts of a size to be stored at once; only the last one carries the bookmark."""
    remotes = batch.remotes
    for at in range(0, len(remotes), MANY):
        last = at + MANY >= len(remotes)
        yield remotes[at : at + MANY], batch.bookmark if last else None
