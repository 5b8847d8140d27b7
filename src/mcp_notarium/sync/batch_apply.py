"""Brings one batch of what the store says into the cache: plan, fetch what is missing, commit.

It decides nothing (``planner`` does) and does not know where a batch comes from (``sources`` does).
Every plan is made twice: before fetching, to know what to fetch, and again when it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.note_changes import A_LOAD, BATCH
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.batch import Batch
from mcp_notarium.sync.batch_commit import Stored, Storing
from mcp_notarium.sync.bulk_writer import Bulk
from mcp_notarium.sync.note_fetch import Asking
from mcp_notarium.sync.planner import Confirmed, Fetch, Missing, Remote, lags_behind, one_each
from mcp_notarium.sync.progress import Ledger


@dataclass(slots=True)
class Tally:
    """What one cycle did, in notes; ``fetched`` were asked for one by one."""

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    fetched: int = 0
    news: int = 0

    @property
    def changed(self) -> int:
        """Rows that are different now."""
        return self.stored + self.removed

    def add(self, done: Stored) -> None:
        """One transaction more."""
        self.stored += done.stored
        self.removed += done.removed
        self.deferred += done.deferred
        self.news += done.news


class Intake:
    """The one way into the note table for what comes from the store. ``news``: so much so far."""

    def __init__(
        self, cache: Cache, store: Store, ledger: Ledger, *, stopwatch: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._asking = Asking(cache, store, stopwatch=stopwatch)
        self._storing = Storing(cache, ledger)
        self._bulk = Bulk(self._storing)
        self.news = 0

    async def fetch(self, batch: Batch, tally: Tally) -> Batch:
        """The same batch with an answer from the store for every note that must be asked for.

        A note that the store does not give, while it serves others, stays unanswered and does not
        hold them up. Whatever concerns all notes (no connection, no login) is raised.
        """
        remotes = one_each(batch.remotes)
        self._asking.there_is_news_of(one.id for one in remotes if not isinstance(one, Missing))
        actions = self._storing.plan(remotes)
        wanted = [action.id for action in actions if isinstance(action, Fetch)]
        tally.fetched += len(wanted)
        answers = await self._asking.answers(wanted)
        return batch.answered(tuple(_with_answer(remote, answers) for remote in remotes))

    async def commit(self, batch: Batch, tally: Tally) -> None:
        """Store it, a few in one transaction, many beside the event loop in several.

        Raises ``Superseded``. If it fails or is cancelled, some notes are newer and the cursor is
        where it was.
        """
        if len(batch.remotes) <= A_LOAD:
            self._count(self._storing.commit(batch), tally)
            return
        for chunk in _chunks(batch):
            self._count(await self._bulk.commit(chunk), tally)

    def _count(self, done: Stored, tally: Tally) -> None:
        tally.add(done)
        self.news += done.news

    async def rest(self) -> None:
        """Nothing more comes for a while: let go of what only many notes at once need."""
        await self._bulk.close()

    async def close(self) -> None:
        """Let go of everything, and break off requests that are still on their way."""
        await self.rest()
        await self._asking.close()

    def open_doubts(self) -> tuple[str, ...]:
        """Notes to look at again now: no write stands in the way, and they do not rest."""
        doubts = self._ledger.doubts()
        busy = self._storing.pending() if doubts else {}
        return tuple(
            note_id for note_id in doubts if note_id not in busy and not self._asking.rests(note_id)
        )


def _with_answer(remote: Remote, answers: dict[str, Confirmed]) -> Remote:
    answer = answers.get(remote.id)
    return remote if answer is None or lags_behind(answer.answer, remote) else answer


def _chunks(batch: Batch) -> Iterator[Batch]:
    """Parts of a size to be stored at once; only the last one carries the bookmark."""
    remotes = batch.remotes
    for at in range(0, len(remotes), BATCH):
        last = at + BATCH >= len(remotes)
        bookmark = batch.bookmark if last else None
        yield replace(batch, remotes=remotes[at : at + BATCH], bookmark=bookmark)
