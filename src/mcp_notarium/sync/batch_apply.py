"""Apply one batch to the index: plan, fetch what is missing, commit.

It decides nothing (``planner`` does) and does not know where a batch comes from (``batch_sources``
does). Every plan is made twice: before fetching, to know what to fetch, and again when it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.note_rows import BATCH, BULK_SIZE
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.batch import Batch
from mcp_notarium.sync.batch_commit import BatchCommitter, BulkCommitter, CommitResult
from mcp_notarium.sync.note_fetch import NoteFetcher
from mcp_notarium.sync.planner import Confirmed, Fetch, Missing, Remote, lags_behind, one_each
from mcp_notarium.sync.progress import SyncProgress


@dataclass(slots=True)
class Tally:
    """Count the notes of one cycle; ``fetched`` were asked for one by one."""

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    fetched: int = 0
    news: int = 0

    @property
    def changed(self) -> int:
        """Rows that changed."""
        return self.stored + self.removed

    def add(self, result: CommitResult) -> None:
        """Add the counts of one transaction."""
        self.stored += result.stored
        self.removed += result.removed
        self.deferred += result.deferred
        self.news += result.news


class BatchApplier:
    """Write what comes from the store into the note table; nothing else does.

    ``news`` counts the new, changed and removed notes so far.
    """

    def __init__(
        self, cache: Cache, store: Store, progress: SyncProgress, *, stopwatch: Callable[[], float]
    ) -> None:
        self._progress = progress
        self._fetcher = NoteFetcher(cache, store, stopwatch=stopwatch)
        self._committer = BatchCommitter(cache, progress)
        self._bulk = BulkCommitter(self._committer)
        self.news = 0

    async def fetch(self, batch: Batch, tally: Tally) -> Batch:
        """Return the batch with an answer for every note that must be asked for.

        A note that the store does not give, while it serves others, stays unanswered and does not
        delay them. An error that concerns all notes (no connection, no login) is raised.
        """
        remotes = one_each(batch.remotes)
        self._fetcher.discard_late(one.id for one in remotes if not isinstance(one, Missing))
        actions = self._committer.plan(remotes)
        wanted = [action.id for action in actions if isinstance(action, Fetch)]
        tally.fetched += len(wanted)
        answers = await self._fetcher.fetch(wanted)
        return batch.with_remotes(tuple(_with_answer(remote, answers) for remote in remotes))

    async def commit(self, batch: Batch, tally: Tally) -> None:
        """Store the batch: a few notes in one transaction, many in several, beside the event loop.

        Raises ``Superseded``. If it fails or is cancelled, some notes are newer and the cursor has
        not moved.
        """
        if len(batch.remotes) <= BULK_SIZE:
            self._count(self._committer.commit(batch), tally)
            return
        for chunk in _chunks(batch):
            self._count(await self._bulk.commit(chunk), tally)

    def _count(self, result: CommitResult, tally: Tally) -> None:
        tally.add(result)
        self.news += result.news

    async def release(self) -> None:
        """Release what only a bulk load needs, until the next one."""
        await self._bulk.close()

    async def close(self) -> None:
        """Release everything, and cancel requests that are still running."""
        await self.release()
        await self._fetcher.close()

    def due_doubts(self) -> tuple[str, ...]:
        """Return the notes in doubt to fetch now: without a pending write, and not backed off from."""
        doubts = self._progress.doubts()
        busy = self._committer.pending() if doubts else {}
        return tuple(
            note_id
            for note_id in doubts
            if note_id not in busy and not self._fetcher.blocks(note_id)
        )


def _with_answer(remote: Remote, answers: dict[str, Confirmed]) -> Remote:
    answer = answers.get(remote.id)
    return remote if answer is None or lags_behind(answer.answer, remote) else answer


def _chunks(batch: Batch) -> Iterator[Batch]:
    """Split a batch into transactions; only the last one carries the bookmark."""
    remotes = batch.remotes
    for at in range(0, len(remotes), BATCH):
        last = at + BATCH >= len(remotes)
        bookmark = batch.bookmark if last else None
        yield replace(batch, remotes=remotes[at : at + BATCH], bookmark=bookmark)
