"""Read rows from the store itself for native tools, and show only what the policy shows.

The index may be older than the app's file. So each row that was just read is judged by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store
from mcp_notarium.stores.live_rows import LiveRow, LiveRows
from mcp_notarium.sync.live_refresh import refresh

_ID_SHOWN = 80


class JudgedRows:
    """Read the notes of one account; ``asked`` is what the store offers beyond the contract."""

    def __init__(self, cache: Cache, store: Store, asked: LiveRows) -> None:
        self._cache = cache
        self._store = store
        self._asked = asked

    async def find(self, text: str, *, archived: bool, arranged: bool = False) -> list[LiveRow]:
        """Find notes; see ``LiveRows.find``."""
        found = await self._asked.find(text, archived=archived, arranged=arranged)
        return [one for one in found if self._sees(one)]

    async def read(self, note_ids: Sequence[str]) -> list[LiveRow]:
        """Read notes with all values; see ``LiveRows.read``."""
        return [one for one in await self._asked.read(note_ids) if self._sees(one)]

    async def find_one(self, note_id: str) -> LiveRow:
        """Read one note. Raises ``NoteNotFound``, in the same words for a hidden one."""
        found = await self.read([note_id])
        if not found:
            raise missing_error(note_id)
        return found[0]

    async def refresh(self, note_id: str) -> Note:
        """Return a note as the store has it now. Raises ``NoteNotFound``, or what the store raises."""
        note = await refresh(self._cache, self._store, note_id)
        if note is None:
            raise missing_error(note_id)
        return note

    def given(self, note: Note | None, values: Mapping[str, Any]) -> Content:
        """Return the content that these values make of a note (None: of a new one)."""
        base = None if note is None else self._cache.notes.base(note.id)
        if note is not None and base is None:
            raise missing_error(note.id)
        return self._asked.given(values, base=base)

    def beside(self, note: Note) -> Mapping[str, Any]:
        """Return what the index knows of a note beside its content; see ``LiveRows.beside``."""
        base = self._cache.notes.base(note.id)
        return {} if base is None else self._asked.beside(base)

    def _sees(self, row: LiveRow) -> bool:
        visibility = self._cache.notes.visibility
        return visibility.find_rule_for(row.id, row.tags, clear=row.tags_understood) is None


def missing_error(note_id: str) -> NoteNotFound:
    """Make the error for a note that is not there, or hidden."""
    return NoteNotFound(
        "Note not found",
        details={"id": note_id[:_ID_SHOWN]},
        resolution_hint="List or search the notes; each has its id.",
    )
