"""Read a Trilium server for native tools: by its own search syntax, and texts as it has them.

Protected notes are no notes here either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import InvalidRequest, NoteNotFound, StoreProtocolError, StoreUnavailable
from mcp_notarium.stores.live_notes import LiveNote
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.note_codec import ROOT, is_possible_id
from mcp_notarium.stores.trilium.note_reader import NoteReader, each, missing_error
from mcp_notarium.stores.trilium.urls import Urls
from mcp_notarium.threads import run_in_thread

MOST_READ_ALONE = 1000
"""Children that are read one by one, if a search does not find them."""
_DROPPED = re.compile(r"[\\,]")
"""Trilium drops these within a word."""
_EXPRESSION = re.compile(r"[#~]|note\s*\.", re.IGNORECASE)
_OTHER_NOTES = re.compile(
    r"parent|child|ancestor|relation|~\s*!?[\w:]+\s*\.|\blimit\b|\borderby\b", re.IGNORECASE
)


class LiveTrilium:
    """Read one server; see ``LiveNotes``."""

    root = ROOT

    def __init__(self, reader: NoteReader, urls: Urls) -> None:
        self._reader = reader
        self._urls = urls

    async def note(self, note_id: str) -> LiveNote:
        """See ``LiveNotes.note``. A protected note is none."""
        if note_id != ROOT and not is_possible_id(note_id):
            raise missing_error(note_id)
        row = await self._reader.object(note_id)
        if row.get("isProtected") is not False:
            raise missing_error(note_id)
        return note_codec.live_note(row)

    async def text(self, note_id: str) -> tuple[LiveNote, str | None]:
        """See ``LiveNotes.text``. Raises ``StoreProtocolError`` for a text that is not UTF-8."""
        note = await self._reader.note(note_id)
        note, content = await self._reader.content(note)
        live = await self.note(note_id)
        if live.version != note.blob_id:
            raise StoreProtocolError("the note keeps changing while it is read")
        try:
            return live, None if content is None else content.decode()
        except UnicodeDecodeError:
            raise StoreProtocolError("the content of this note is not text") from None

    async def children(self, note: LiveNote) -> list[LiveNote]:
        """See ``LiveNotes.children``. What a search does not find, or cannot, is read by itself."""
        if not note.children:
            return []
        url = self._urls.search(f'note.parents.noteId = "{note.id}"', archived=True)
        try:
            rows = await self._reader.found(url)
        except StoreUnavailable:
            rows = []
        found = {one.id: one for one in await run_in_thread(partial(_read, rows))}
        missing = [one for one in note.children if one not in found and is_possible_id(one)]
        read = await each(missing[:MOST_READ_ALONE], self._note_if_any)
        found |= {one.id: one for one in read}
        return [found[child] for child in note.children if child in found]

    async def _note_if_any(self, note_id: str) -> LiveNote | None:
        try:
            return await self.note(note_id)
        except NoteNotFound:
            return None

    async def search(self, query: str, *, each_alone: bool) -> list[LiveNote]:
        """See ``LiveNotes.search``. A query that Trilium cannot read finds everything or nothing there."""
        words = _DROPPED.sub("", query)
        if each_alone and _EXPRESSION.search(words) and _OTHER_NOTES.search(words):
            raise InvalidRequest(
                "Some notes are hidden here, so a search cannot ask for parents, children, relations, order "
                "or limit.",
                subcategory="query",
                resolution_hint="Search for words, labels and properties of the note itself.",
            )
        rows = await self._reader.found(self._urls.search(query, archived=False))
        return await run_in_thread(partial(_read, rows))

    async def everything(self) -> list[LiveNote]:
        """See ``LiveNotes.everything``."""
        return await run_in_thread(partial(_read, await self._reader.objects()))

    def given(self, text: str, *, base: Revision | None) -> Content:
        """See ``LiveNotes.given``: HTML stays as it is."""
        return note_codec.given(text, base)

    def as_it_was(self, revision: Revision) -> str:
        """See ``LiveNotes.as_it_was``."""
        return note_codec.as_it_was(revision)

    def given_below(self, parent: LiveNote, text: str, *, kind: str, title: str | None) -> Content:
        """See ``LiveNotes.given_below``."""
        return note_codec.given_below(parent, text, kind=kind, title=title)


def _read(rows: Iterable[Any]) -> list[LiveNote]:
    """Return the notes that can be read and shown: neither protected ones nor Trilium's own."""
    notes = []
    for row in rows:
        try:
            if row["isProtected"] is False and is_possible_id(row["noteId"]):
                notes.append(note_codec.live_note(row))
        except (StoreProtocolError, KeyError, TypeError):
            continue
    return notes
