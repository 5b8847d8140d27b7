"""Plan one batch of news, fetch what is missing, and commit it to the index in one transaction.

``pull_decisions`` decides. Every plan is made twice: before fetching, and again inside the write transaction that carries
it out, because another task, thread or process may have saved a moment before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.storage.cache import Cache, ThreadConnection
from mcp_notarium.storage.note_ids import Named
from mcp_notarium.storage.note_rows import BULK_SIZE
from mcp_notarium.storage.note_table import Counts
from mcp_notarium.storage.sync_progress import SyncProgress
from mcp_notarium.stores.contract import Entry, Store, Versions
from mcp_notarium.sync.note_fetch import NoteFetcher
from mcp_notarium.sync.pull_decisions import (
    Action,
    Confirmed,
    Known,
    Missing,
    Move,
    Remote,
    deduplicate,
    plan,
    told_version,
)

Bookmark = Callable[[SyncProgress], None]
"""Records how far the index is, through the connection that stores the batch."""
SPLIT = 100
"""Notes fetched and stored together where content is missing; progress is kept between batches."""


class Superseded(Exception):
    """Report that the index was emptied after this batch was read; the batch was not stored."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold some statements of the store about notes."""

    remotes: tuple[Remote, ...]
    index_version: int
    """That of the index it was read for."""
    bookmark: Bookmark | None = None
    """Runs in the transaction that stores the last of the batch, and moves the cursor or the mark."""
    seen: Sequence[Named] = ()
    """Ids with identities that rules on ids follow."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old id to new id of notes that get another id before the statements are stored."""
    hidden_renamed: Mapping[str, str] = field(default_factory=dict)
    """The same of hidden notes."""
    identities: Mapping[str, str] = field(default_factory=dict)
    """Id to identity of notes that have a new one."""
    is_news: bool = False
    """It changes notes, whose new versions must not be given again after a loss of power."""


def split(
    remotes: Iterable[Remote], *, index_version: int, bookmark: Bookmark | None = None
) -> tuple[Batch, ...]:
    """Split statements into batches small enough to fetch for. Only the final one carries the bookmark."""
    everything = tuple(remotes)
    if not everything and bookmark is None:
        return ()
    cuts = range(0, len(everything), SPLIT) or range(1)
    *before, final = (everything[at : at + SPLIT] for at in cuts)
    return (*(Batch(part, index_version) for part in before), Batch(final, index_version, bookmark))


@dataclass(slots=True)
class Tally:
    """Count notes."""

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    """Those that could not be decided yet."""
    fetched: int = 0
    """Those that were asked for one by one."""
    news: int = 0
    """Those that were new, changed or gone, also if the policy hides them, so that they are not kept."""

    def add(self, other: Tally) -> None:
        """Add the counts of one transaction."""
        self.stored += other.stored
        self.removed += other.removed
        self.deferred += other.deferred
        self.news += other.news


class BatchCommitter:
    """Commit batches through one connection; ``keeps_lost``: keep our notes that go elsewhere."""

    def __init__(self, cache: Cache, *, keeps_lost: bool) -> None:
        self._cache = cache
        self._keeps_lost = keeps_lost

    def commit(self, batch: Batch) -> Tally:
        """Store the batch in one transaction. Raises ``Superseded``."""
        # defence: shown-version-flushed -is_news
        with self._cache.transaction(durable=batch.is_news):
            if self._cache.progress.index_version != batch.index_version:
                raise Superseded
            self._rename(batch)
            actions = self.plan(batch.remotes)
            self._cache.notes.names.set_identities(batch.identities)
            self._keep_versions_apart(actions)
            gone = [action.id for action in actions if action.move is Move.FORGET]
            # defence: moved-own-note-kept =False
            lost = self._cache.find_lost(gone) if self._keeps_lost else []
            applied = self._cache.notes.apply(_changes(actions))
            self._cache.keep_lost(lost)
            deferred = self._record_unresolved(zip(batch.remotes, actions, strict=True))
            if batch.bookmark is not None:
                batch.bookmark(self._cache.progress)  # INVARIANT 1 (docs/sync.md)
        news = sum(action.move in (Move.STORE, Move.FORGET) for action in actions)
        return Tally(applied.stored, applied.removed, deferred, news=news)

    def follow(self, seen: Sequence[Named]) -> None:
        """Let the rules on ids follow their notes. Nothing is written if that is no news."""
        if self._cache.notes.visibility.names.has_news(seen):
            with self._cache.transaction():
                self._cache.notes.follow(seen)

    def _rename(self, batch: Batch) -> None:
        hidden = self._cache.notes.visibility.move(batch.hidden_renamed)
        for old, new in batch.renamed.items():
            self._cache.notes.rename(old, new)
        self._cache.notes.hide(hidden)  # what was visible there has just gone elsewhere, or is gone

    def _keep_versions_apart(self, actions: Iterable[Action]) -> None:
        """Give no version again to a note that was made again elsewhere, whatever its number is there."""
        for action in actions:
            if action.move is Move.REPLACE and (note := self._cache.notes.get(action.id)):
                self._cache.notes.raise_version_floor(least=note.local_version)

    def plan(self, remotes: Sequence[Remote]) -> list[Action]:
        """Decide about each note from the present state of the database."""
        ids = [remote.id for remote in remotes]
        notes = self._cache.notes
        etags, hidden_notes = notes.etags(ids), notes.visibility.hidden_notes(ids)
        pending = self.pending()
        actions = []
        for remote in remotes:
            if hidden := hidden_notes.get(remote.id):
                known: Known | None = Known(hidden.etag, hidden.server_version)
            else:
                known = self._read_known(remote, etags.get(remote.id))
            actions.append(plan(known, remote, pending=remote.id in pending))
        return actions

    def pending(self) -> set[str]:
        """Return the notes that have an unfinished write."""
        return {write.note_id for write in self._cache.journal.in_flight()}

    def _read_known(self, remote: Remote, etag: str | None) -> Known | None:
        if etag is None:
            return None
        same = isinstance(remote, Revision | Entry) and remote.etag == etag
        note = None if same else self._cache.notes.get(remote.id)
        return Known(etag, note.server_version, note.content) if note else Known(etag, None)

    def _record_unresolved(self, decided: Iterable[tuple[Remote, Action]]) -> int:
        """Record what only a direct answer can decide; return how many notes of them are new."""
        before = self._cache.progress.unresolved()
        after = before.copy()
        for remote, action in decided:
            open_ = action.move in (Move.FETCH, Move.RESOLVE)
            if isinstance(remote, Confirmed) and not open_:
                after.pop(action.id, None)
            elif open_ or action.id in after:
                after[action.id] = told_version(remote)
        if after != before:
            self._cache.progress.mark_unresolved(after)
        return len(after.keys() - before)


def _changes(actions: Iterable[Action]) -> list[Revision | Tombstone]:
    changes: list[Revision | Tombstone] = []
    for action in actions:
        if action.move in (Move.FORGET, Move.REPLACE):
            changes.append(Tombstone(action.id))
        if action.revision is not None:
            changes.append(action.revision)
    return changes


_Result = TypeVar("_Result")
_REST_SECONDS = 1.0
"""Time without a written note after which the full-text index is merged: each slice holds up who writes."""


class BatchApplier:
    """Write what comes from the store into the note table; nothing else does."""

    def __init__(self, cache: Cache, store: Store, *, stopwatch: Callable[[], float]) -> None:
        self._fetcher = NoteFetcher(cache, store, stopwatch=stopwatch)
        self._keeps_lost = store.traits.versions is Versions.NONE
        self._committer = BatchCommitter(cache, keeps_lost=self._keeps_lost)
        self._cache = cache
        self._thread: ThreadConnection | None = None
        self._stopwatch = stopwatch
        self._written: tuple[int, Counts] | None = None
        self._written_at = 0.0
        self.news = 0
        """The new, changed and removed notes so far."""

    async def fetch(self, batch: Batch, tally: Tally) -> Batch:
        """Return the batch with an answer for every note that must be asked for.

        News waits for a note that the store does not give ``ITEM_SECONDS`` at most, and not at all while it is backed off
        from: it stays unanswered. Raises an error that concerns all notes (no connection, no login).
        """
        entries = (one for one in batch.remotes if isinstance(one, Entry))
        # Before asking for a note: the answer may have another identity already.
        self._committer.follow([*batch.seen, *((one.id, one.identity) for one in entries)])
        remotes = deduplicate(batch.remotes)
        actions = self._committer.plan(remotes)
        decided = zip(remotes, actions, strict=True)
        unknown = self._fetcher.select(
            remote for remote, action in decided if action.move is Move.FETCH
        )
        tally.fetched += len(unknown)
        answers = await self._fetcher.fetch(unknown)
        return replace(
            batch,
            remotes=tuple(answers.get(remote.id, remote) for remote in remotes),
            is_news=bool(batch.renamed)
            or any(action.move not in (Move.NOTHING, Move.RESOLVE) for action in actions),
        )

    async def ask(self, note_ids: Iterable[str]) -> dict[str, Confirmed]:
        """Ask for notes that a listing lacks, but for those backed off from; store nothing."""
        allowed = [Missing(one) for one in note_ids if not self._fetcher.backoff.blocks(one)]
        return await self._fetcher.fetch(allowed)

    async def commit(self, batch: Batch, tally: Tally) -> None:
        """Store the batch in one transaction; many notes in a thread. Raises ``Superseded``."""
        if len(batch.remotes) > BULK_SIZE:
            result = await self._in_thread(
                lambda cache: BatchCommitter(cache, keeps_lost=self._keeps_lost).commit(batch)
            )
        else:
            result = self._committer.commit(batch)
        tally.add(result)
        self.news += result.news

    async def tidy(self) -> bool:
        """Merge a slice of the full-text index in the thread; True if the next may follow at once."""
        if not self._cache.notes.index.tidy_due:
            return False
        resting = self._nobody_writes()  # defence: merge-holds-up-nobody =True
        more = resting and await self._in_thread(lambda cache: cache.notes.index.tidy())
        if not more:
            await self.close()  # or nobody would move the log meanwhile
        return more

    def _nobody_writes(self) -> bool:
        written = self._cache.notes.index.changes(), self._cache.notes.counts()
        if written != self._written:
            self._written, self._written_at = written, self._stopwatch()
        return self._stopwatch() - self._written_at >= _REST_SECONDS

    async def close(self) -> None:
        """Close the thread's connection, until it is needed again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await thread.close()

    async def _in_thread(self, work: Callable[[Cache], _Result]) -> _Result:
        """Return what ``work`` returns, which many notes or words take time for."""
        self._thread = self._thread or ThreadConnection(self._cache)
        return await self._thread.call(work)

    def due_unresolved(self) -> dict[str, Missing]:
        """Return the unresolved notes to fetch now: without a pending write, and not backed off from."""
        unresolved = self._cache.progress.unresolved()
        busy = self._committer.pending() if unresolved else set()
        return {
            note_id: Missing(note_id, told)
            for note_id, told in unresolved.items()
            if note_id not in busy and not self._fetcher.backoff.blocks(note_id)
        }
