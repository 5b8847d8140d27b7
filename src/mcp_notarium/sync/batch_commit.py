"""Commit a batch: decide about each note and store the decisions in one transaction.

A ``Batch`` holds statements of the store and the progress that storing them allows. A decision is made
inside the write transaction that carries it out, because another task, thread or process may have saved
a moment before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.hidden_names import Named
from mcp_notarium.stores.contract import Entry
from mcp_notarium.sync.lost_notes import find_lost
from mcp_notarium.sync.progress import SyncProgress
from mcp_notarium.sync.pull_decisions import Action, Confirmed, Known, Local, Move, Remote, plan

Bookmark = Callable[[SyncProgress], None]
"""Records how far the index is, through the connection that stores the batch."""
SPLIT = 100
"""Notes fetched and stored together where content is missing; progress is kept between batches."""


class Superseded(Exception):
    """Report that the index was emptied after this batch was read; the batch was not stored."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Hold some statements of the store about notes.

    ``index_version`` is that of the index it was read for. ``bookmark`` runs in the transaction that stores
    the last of the batch and moves the cursor or the mark. ``renamed``: old id to new id of notes that get
    another id before the statements are stored, ``hidden_renamed`` the same of hidden notes, ``identities``:
    id to identity of notes that have a new one. ``seen``: ids with identities that rules on ids follow.
    """

    remotes: tuple[Remote, ...]
    index_version: int
    bookmark: Bookmark | None = None
    seen: Sequence[Named] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    hidden_renamed: Mapping[str, str] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)


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
    """Count notes. ``deferred`` could not be decided yet; ``fetched`` were asked for one by one.

    ``news`` were new, changed or gone, including those that are not kept because the policy hides them.
    """

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    fetched: int = 0
    news: int = 0

    @property
    def changed(self) -> int:
        """Count the rows that changed."""
        return self.stored + self.removed

    def add(self, other: Tally) -> None:
        """Add the counts of one transaction."""
        self.stored += other.stored
        self.removed += other.removed
        self.deferred += other.deferred
        self.news += other.news


class BatchCommitter:
    """Commit batches through one connection.

    ``keeps_lost``: a note that goes elsewhere with what was written from here is kept, for its store keeps nothing.
    """

    def __init__(self, cache: Cache, progress: SyncProgress, *, keeps_lost: bool) -> None:
        self._cache = cache
        self._progress = progress
        self._keeps_lost = keeps_lost

    def commit(self, batch: Batch) -> Tally:
        """Store the batch in one transaction. Raises ``Superseded``."""
        with self._cache.transaction():
            if self._progress.index_version != batch.index_version:
                raise Superseded
            self._rename(batch)
            actions = self.plan(batch.remotes)
            self._cache.notes.names.set_identities(batch.identities)
            self._keep_versions_apart(actions)
            gone = [action.id for action in actions if action.move is Move.FORGET]
            lost = find_lost(self._cache, gone) if self._keeps_lost else []
            applied = self._cache.notes.apply(_changes(actions))
            for number, base in lost:
                self._cache.versions.keep_lost(base, number=number, at=self._progress.clock())
            deferred = self._record_unresolved(zip(batch.remotes, actions, strict=True))
            if batch.bookmark is not None:
                batch.bookmark(self._progress)  # INVARIANT 1 (docs/sync.md)
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
        etags, hidden_notes = (
            self._cache.notes.etags(ids),
            self._cache.notes.visibility.hidden_notes(ids),
        )
        pending = self.pending()
        actions = []
        for remote in remotes:
            if hidden := hidden_notes.get(remote.id):
                known: Known | None = Known(hidden.etag, hidden.server_version)
            else:
                known = self._read_known(remote, etags.get(remote.id))
            actions.append(plan(Local(known, remote.id in pending), remote))
        return actions

    def pending(self) -> set[str]:
        """Return the notes that have an unfinished write."""
        return {write.note_id for write in self._cache.journal.in_flight()}

    def _read_known(self, remote: Remote, etag: str | None) -> Known | None:
        if etag is None:
            return None
        version = content = None
        if not (isinstance(remote, Revision | Entry) and remote.etag == etag):
            note = self._cache.notes.get(remote.id)
            version = note.server_version if note else None
            content = note.content if note else None
        return Known(etag, version, content)

    def _record_unresolved(self, decided: Iterable[tuple[Remote, Action]]) -> int:
        """Record the notes that could not be decided; they are asked for again. Return how many are new.

        Only a direct answer resolves a note: a listing may lag behind what left it open.
        """
        before = self._progress.unresolved()
        after = dict.fromkeys(before)
        for remote, action in decided:
            if action.move in (Move.FETCH, Move.RESOLVE):
                after[action.id] = None
            elif isinstance(remote, Confirmed):
                after.pop(action.id, None)
        if tuple(after) != before:
            self._progress.mark_unresolved(after)
        return len(after.keys() - set(before))


def _changes(actions: Iterable[Action]) -> list[Revision | Tombstone]:
    changes: list[Revision | Tombstone] = []
    for action in actions:
        if action.move in (Move.FORGET, Move.REPLACE):
            changes.append(Tombstone(action.id))
        if action.revision is not None:
            changes.append(action.revision)
    return changes
