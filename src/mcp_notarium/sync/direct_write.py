"""Store a write in one transaction, where the notes of the store are in the database of the index.

The transaction holds the note, what the index has of it, the version that it replaces, and the record that
the call begins. Nothing is sent, so nothing can be in doubt: no journal entry is made.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from mcp_notarium.domain.note import PendingWrite, Revision, Tombstone
from mcp_notarium.errors import IdTaken, NotariumError, StoreRejected
from mcp_notarium.storage.audit_log import Act
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import PushStatus, Store
from mcp_notarium.sync.journal import Journal

_Result = TypeVar("_Result")


class DirectWriter:
    """Store and remove notes directly. Every error means that nothing was changed."""

    def __init__(
        self, cache: Cache, store: Store, journal: Journal, *, on_step: Callable[[str], None]
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._on_step = on_step

    def push(self, write: PendingWrite, act: Act | None, *, base: Revision | None) -> Revision:
        """Store a CREATE, or an UPDATE of ``base``, and keep what it replaces as a version.

        Return what the store holds now. Raises what ``Store.push`` and :meth:`Journal.require_room` raise.
        """
        with self._transaction(act):
            self._journal.require_room(write)
            answer = run_at_once(self._store.push(write))
            stored, own = answer.revision, answer.status is not PushStatus.UNCHANGED
            self._cache.notes.apply([base] if base is not None else [])
            entry = replace(write, client=act.client) if act is not None else write
            self._journal.keep_replaced(entry, [stored], own=own)
            self._cache.notes.apply([stored])
        return stored

    def create_all(self, writes: Sequence[PendingWrite]) -> list[NotariumError | None]:
        """Store CREATEs in one transaction; return for each why the store did not take it, None if it did.

        Every other error is raised, and nothing was stored.
        """
        refused: list[NotariumError | None] = []
        stored: list[Revision] = []
        with self._transaction(None):
            for write in writes:
                try:
                    stored.append(run_at_once(self._store.push(write)).revision)
                    refused.append(None)
                except (IdTaken, StoreRejected) as error:
                    refused.append(error)
            self._cache.notes.apply(stored)
        return refused

    def remove(self, write: PendingWrite, act: Act | None) -> None:
        """Remove a note. Raises what ``Store.delete`` raises."""
        with self._transaction(act):
            run_at_once(
                self._store.delete(
                    write.note_id, etag=write.base_etag or "", write_id=write.write_id
                )
            )
            self._cache.notes.apply([Tombstone(write.note_id)])

    @contextmanager
    def _transaction(self, act: Act | None) -> Iterator[None]:
        self._on_step("recorded")
        with self._cache.transaction(durable=True) if act is None else act.transaction():
            yield
            self._on_step("pushed")
        self._on_step("committed")


def run_at_once(call: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that never waits. Raises ``RuntimeError`` if it does: a transaction must not wait."""
    try:
        call.send(None)
    except StopIteration as done:
        result: _Result = done.value
        return result
    call.close()
    raise RuntimeError("a store in the database must not wait")
