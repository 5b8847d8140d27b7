"""Decides, and stores what was decided, in one transaction of one connection. It never waits.

Every plan is made inside the write transaction that carries it out, because another task, thread or
process may have saved a moment before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.domain.pending_write import PendingWrite, WriteState
from mcp_notarium.errors import CacheDamaged, CacheError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Entry
from mcp_notarium.sync.batch import Batch
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
    Upsert,
    plan,
)
from mcp_notarium.sync.progress import Ledger


class Superseded(Exception):
    """The cache was emptied while this batch was on its way; the batch was not stored."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What one transaction did, in notes; ``deferred`` could not be decided yet.

    ``news``: so many were new, changed or gone, those included that are not kept because rules hide them.
    """

    stored: int = 0
    removed: int = 0
    deferred: int = 0
    news: int = 0


class Storing:
    """The way into the note table through one connection."""

    def __init__(self, cache: Cache, ledger: Ledger) -> None:
        self._cache = cache
        self._ledger = ledger

    def another(self) -> Storing:
        """The same through a connection of its own, for another thread; the caller closes it."""
        cache = self._cache.another()
        return Storing(cache, self._ledger.over(cache))

    def close(self) -> None:
        """Close the connection."""
        self._cache.close()

    def condemn(self, damage: CacheDamaged) -> None:
        """Another connection has met damage in the file: use this one no more either."""
        self._cache.database.condemn(damage.message)

    def hand_over(self, to: Storing) -> bool:
        """Let the other connection move the WAL into the main file, if that is the task of this one.

        Never both: SQLite before 3.51.3 can lose a transaction when two do it at once.
        """
        if not self._cache.database.checkpointer:
            return False
        self._cache.database.set_checkpointer(False)
        to._cache.database.set_checkpointer(True)
        return True

    def take_back(self) -> None:
        """The other connection is gone, and its task is the task of this one again."""
        with suppress(CacheError):
            self._cache.database.set_checkpointer(True)

    def commit(self, batch: Batch) -> Stored:
        """Store it in one transaction. Raises ``Superseded``."""
        with self._cache.transaction():
            if self._ledger.epoch != batch.epoch:
                raise Superseded
            actions = self.plan(batch.remotes)
            applied = self._cache.notes.apply(_changes(actions), prepared=batch.prepared)
            deferred = self._note_doubts(zip(batch.remotes, actions, strict=True))
            if batch.bookmark is not None:
                batch.bookmark(self._ledger)  # INVARIANT 1 (docs/sync.md)
        news = sum(isinstance(action, Upsert | Forget) for action in actions)
        return Stored(applied.stored, applied.removed, deferred, news)

    def plan(self, remotes: Sequence[Remote]) -> list[Action]:
        """What to do about each, as things stand now."""
        ids = [remote.id for remote in remotes]
        etags, withheld = self._cache.notes.etags(ids), self._cache.notes.gate.of(ids)
        pending = self.pending()
        actions = []
        for remote in remotes:
            write = pending.get(remote.id)
            if known := withheld.get(remote.id):
                local = Local(Known(known.etag, known.server_version), write)
            else:
                local = self._local(remote, etags.get(remote.id), write)
            actions.append(plan(local, remote))
        return actions

    def pending(self) -> dict[str, PendingWrite]:
        """The unfinished write of each note that has one."""
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


def _changes(actions: Iterable[Action]) -> list[Revision | Tombstone]:
    changes: list[Revision | Tombstone] = []
    for action in actions:
        match action:
            case Upsert(revision=revision):
                changes.append(revision)
            case Replace(revision=revision):
                changes += [Tombstone(revision.id), revision]
            case Forget(id=note_id):
                changes.append(Tombstone(note_id))
            case Nothing() | Fetch() | Resolve():
                continue
    return changes
