"""The local notebook in tests: its settings, and another process that writes to the same database."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress

from mcp_notarium.domain.note import Content, Properties, Revision
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import run_at_once
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.local.kind import KIND, NOTEBOOK
from mcp_notarium.stores.local.store import LocalStore
from support.journal_entries import make_write

_numbers = itertools.count(1)


def local(name: str = "notebook") -> dict[str, object]:
    """Return the two fields of a configuration for the local notebook."""
    texts = {one.name: one.default for one in KIND.variables} | {NOTEBOOK: name}
    return {"store": KIND, "store_settings": StoreSettings(texts)}


class OtherProcess:
    """Writes notes through a connection of its own; the index is not told."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.store = LocalStore(cache.database)
        self._dates = itertools.count(1)

    def get(self, note_id: str) -> Revision:
        return run_at_once(self.store.get(note_id))

    def put(
        self,
        note_id: str,
        text: str,
        *,
        tags: tuple[str, ...] = (),
        trash: bool = False,
        title: str | None = None,
        properties: Properties | None = None,
    ) -> None:
        number = next(_numbers)
        base: Revision | None = None
        with suppress(NoteNotFound):
            base = self.get(note_id)
        content = Content(text, tuple(tags), trash, title, properties or Properties())
        write = make_write(
            self.store,
            note_id,
            content,
            base,
            write_id=f"other-{number}",
            now=1.6e9 + next(self._dates),
        )
        run_at_once(self.store.push(write))

    def edit(self, note_id: str, change: Callable[[str], str]) -> None:
        held = self.get(note_id).content
        kept = {"tags": held.tags, "trash": held.trash, "properties": held.properties}
        self.put(note_id, change(held.text), **kept)

    def remove(self, note_id: str) -> None:
        held = self.get(note_id)
        if not held.content.trash:
            self.put(note_id, held.content.text, tags=held.content.tags, trash=True)
            held = self.get(note_id)
        run_at_once(self.store.delete(note_id, etag=held.etag, write_id="other"))

    def contents(self) -> dict[str, Content]:
        ids = self.cache.database.rows("SELECT id FROM notebook_notes")
        return {note_id: self.get(note_id).content for (note_id,) in ids}

    def forget_cursors(self) -> None:
        self.cache.database.run("UPDATE notebook SET forgotten = change")
