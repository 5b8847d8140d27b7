"""Rewrite links in other notes after the note that they mean was renamed.

Their journal entries are recorded with that of the renaming, and follow it: so a process that ends anywhere leaves
either a note that keeps its name, or one whose links the next cycle finishes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from mcp_notarium.domain.link_rewriting import Changes, rewrite_links
from mcp_notarium.domain.note import PendingWrite, WriteKind
from mcp_notarium.errors import StoreRejected
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.push import Pusher


class LinkWriter:
    """Make and send such writes, one for each note."""

    def __init__(
        self,
        cache: Cache,
        store: Store,
        *,
        journal: Journal,
        pusher: Pusher,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._store = store
        self._journal = journal
        self._pusher = pusher
        self._clock = clock

    def make(self, renaming: PendingWrite, links: Mapping[str, Changes]) -> list[PendingWrite]:
        """Make the entries. A note is left out that has an unanswered write, or that cannot hold the new links."""
        return [
            entry for one, changes in links.items() if (entry := self._make(renaming, one, changes))
        ]

    def _make(self, renaming: PendingWrite, note_id: str, changes: Changes) -> PendingWrite | None:
        base = self._cache.notes.base(note_id)
        if base is None or self._journal.in_flight(note_id):
            return None
        content = replace(base.content, text=rewrite_links(base.content.text, changes))
        with suppress(StoreRejected):
            body = self._store.compose(base, content, now=self._clock())
            stored = self._store.revision_of(note_id, body).content
            if stored != base.content and self._journal.sees(note_id, stored):
                return self._journal.make(
                    note_id=note_id,
                    kind=WriteKind.UPDATE,
                    base_etag=base.etag,
                    content=content,
                    body=body,
                    copied=True,  # a link is not worth a conflict copy
                    after=renaming.write_id,
                )
        return None

    async def send(self, entries: Iterable[PendingWrite]) -> tuple[str, ...]:
        """Send entries whose renaming is stored; return the ids of the changed notes. The rest is finished later."""
        done = []
        for entry in entries:
            base = self._cache.notes.base(entry.note_id)
            if base is not None:
                sent = await self._pusher.send_follow_up(entry, base.content)
                done += [entry.note_id] if sent.stored else []
        return tuple(done)
