"""Read a Trilium server for native tools: by its own search syntax, and texts as it has them; show what the policy shows.

Protected notes are no notes here either. The server may know more than the index, so each note that was just read is
judged by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.note import LONGEST_PATH, Content, Note, Revision
from mcp_notarium.errors import (
    InvalidRequest,
    NoteNotFound,
    StoreProtocolError,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.search.folding import fold
from mcp_notarium.stores.extensions import NoteIndex, ParentNote, TreePlace
from mcp_notarium.stores.http import each
from mcp_notarium.stores.trilium import note_codec, placing
from mcp_notarium.stores.trilium.moves import Moves
from mcp_notarium.stores.trilium.note_codec import ROOT, TreeNote, is_possible_id
from mcp_notarium.stores.trilium.note_reader import NoteReader, missing_error
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
_MOST_SHOWN = 1000
_BETWEEN = " > "
"""Stands between titles of a path, as between headings."""
_ID_SHOWN = 80
_WORD = re.compile(r"\w+")


class NativeTrilium:
    """Read the notes of one server. Every method raises what the store raises; nothing is written."""

    beyond_index = True

    def __init__(self, reader: NoteReader, urls: Urls, index: NoteIndex, moves: Moves) -> None:
        self._reader = reader
        self._moves = moves
        self._urls = urls
        self._index = index
        self._placing = placing.Placing(reader, moves, self._sees)
        self._shown: dict[str, str] = {}
        """Note -> the version of it that a tool has shown last."""

    async def note(self, note_id: str) -> TreeNote:
        """Read a note, also the one above all. Raises ``NoteNotFound``. What names a hidden note is left out of it."""
        note = await self._find(note_id)
        if not self._index.rules.has_rules:
            return note
        seen = {ROOT, *(one.id for one in await self._read_all() if self._sees(one))}
        return replace(
            note,
            parents=tuple(one for one in note.parents if one in seen),
            children=tuple(one for one in note.children if one in seen),
            attributes=tuple(
                attribute if attribute["noteId"] in seen else {**attribute, "noteId": None}
                for attribute in note.attributes
                if attribute["type"] != "relation" or attribute["value"] in seen
            ),
        )

    async def text(self, note_id: str) -> tuple[TreeNote, str | None]:
        """Read a note with its text as the server has it; None if it has none that can be shown.

        Raises ``NoteNotFound``, and ``StoreProtocolError`` for a text that is not UTF-8.
        """
        try:
            found, content = await self._reader.content(await self._reader.note(note_id))
            note = await self._read(note_id)
        except NoteNotFound:
            raise _no_note_error(note_id) from None
        if not self._sees(note):
            raise _no_note_error(note_id)
        if note.version != found.blob_id:
            raise StoreProtocolError("the note keeps changing while it is read")
        try:
            text = None if content is None else content.decode()
        except UnicodeDecodeError:
            raise StoreProtocolError("the content of this note is not text") from None
        self._shown.pop(note_id, None)
        self._shown[note_id] = note.version
        if len(self._shown) > _MOST_SHOWN:
            del self._shown[next(iter(self._shown))]
        return note, text

    async def children(self, note_id: str) -> list[TreeNote]:
        """Read the notes right below another, in their order. Raises ``NoteNotFound``.

        What a search does not find, or cannot, is read by itself.
        """
        note = await self._find(note_id)
        if not note.children:
            return []
        url = self._urls.search(f'note.parents.noteId = "{note.id}"', archived=True)
        try:
            rows = await self._reader.found(url)
        except StoreUnavailable:
            rows = []
        found = {one.id: one for one in await run_in_thread(partial(_readable, rows))}
        missing = [one for one in note.children if one not in found and is_possible_id(one)]
        read = await each(missing[:MOST_READ_ALONE], self._read_if_any)
        found |= {one.id: one for one in read}
        below = (found[child] for child in note.children if child in found)
        return [one for one in below if self._sees(one)]

    async def list_parents(self) -> list[ParentNote]:
        """See ``TreeReads.list_parents``."""
        rows = await self._reader.objects()
        root = next(row for row in rows if row.get("noteId") == ROOT)
        top = [one for one in root.get("childNoteIds") or () if isinstance(one, str)]

        def count() -> list[ParentNote]:
            return _list_parents(shown, top)

        notes = await run_in_thread(partial(_readable, rows))
        shown = {one.id: one for one in notes if self._sees(one)}
        return await run_in_thread(count)

    async def find_place(self, name: str) -> placing.Place:
        """See ``TreeReads.find_place``."""
        with suppress(NoteNotFound):
            return await self._placing.place(await self._find_named(name.strip()))
        raise _no_place_error("No note has this id, and none with others below it this path.")

    async def _find_named(self, name: str) -> TreeNote:
        """Return the note that has this id or path. Raises ``InvalidRequest``, and ``NoteNotFound`` if it goes at this moment."""
        name = ROOT if name in ("", "/") else name
        if name == ROOT or is_possible_id(name):
            with suppress(NoteNotFound):
                return await self._find(name)
        named = [
            one.id
            for one in await self.list_parents()
            if name in (one.path, shorten(one.path, LONGEST_PATH))
        ]
        if len(named) > 1:
            raise _no_place_error("Several notes stand at this path.")
        return await self._find(named[0] if named else "")

    async def moved(
        self, note: Note, content: Content, place: TreePlace, *, strict: bool
    ) -> Content | None:
        """See ``TreeReads.moved``."""
        row, base = await self._find_placed(note.id)
        there = cast("placing.Place", place)  # one that ``find_place`` gave
        move = await self._placing.find_move(row, there, strict=strict)
        return None if move is None else placing.moved_content(base, content, move)

    async def moved_back(self, note: Note, content: Content, move: str, *, strict: bool) -> Content:
        """See ``TreeReads.moved_back``."""
        row, base = await self._find_placed(note.id)
        kept = placing.read_move(move)
        there = await self._placing.find_move(
            row, await self.find_place(kept["new"]), strict=strict
        )
        return content if there is None else placing.content_back(base, content, kept, there)

    async def _find_placed(self, note_id: str) -> tuple[TreeNote, Revision]:
        """Return a note, and what the index has of the same version of it. Raises ``VersionConflict``."""
        row = await self._find(note_id)
        base = self._index.base(note_id)
        if base is None or base.etag != row.etag:  # defence: moved-as-it-was-shown
            await self.refresh(note_id)
            raise VersionConflict("The note has changed or has got another place meanwhile.")
        return row, base

    async def search(self, query: str) -> list[TreeNote]:
        """Search in the server's own syntax, best match first. A hidden note is not among the hits, nor told by them.

        A query that Trilium cannot read finds everything or nothing there. Raises ``InvalidRequest`` for one that asks of a
        note what another one says, where notes are hidden.
        """
        rules, words = self._index.rules.has_rules, _DROPPED.sub("", query)
        # defence: search-asks-no-hidden
        if rules and _EXPRESSION.search(words) and _OTHER_NOTES.search(words):
            raise InvalidRequest(
                "Some notes are hidden here, so a search cannot ask for parents, children, relations, order "
                "or limit.",
                subcategory="query",
                resolution_hint="Search for words, labels and properties of the note itself.",
            )
        rows = await self._reader.found(self._urls.search(query, archived=False))
        found = await run_in_thread(partial(_readable, rows))
        if not rules or not found:
            return [one for one in found if self._sees(one)]
        notes = {one.id: one for one in await self._read_all()}
        hidden = {one.id for one in notes.values() if not self._sees(one)}
        return [
            one
            for one in found
            if self._sees(one)
            and (hidden.isdisjoint(_above(one, notes)) or self._has_words(one, query))
        ]

    async def refresh(self, note_id: str) -> Note:
        """Return a note as the server has it now. Raises ``NoteNotFound``."""
        note = await self._index.refresh(note_id)
        if note is None:
            raise _no_note_error(note_id)
        return note

    async def given_below(
        self, parent: TreeNote, text: str, *, kind: str, title: str | None
    ) -> Content:
        """Make the content of a new note below another. Raises ``InvalidRequest`` for an unknown kind."""
        public = await self._moves.is_public(parent.id)
        return note_codec.given_below(parent, text, kind=kind, title=title, public=public)

    def require_shown(self, note: TreeNote) -> None:
        """Raise ``VersionConflict`` if the note's text has changed since a tool has shown it."""
        if self._shown.get(note.id, note.version) != note.version:
            raise VersionConflict(
                "The note has changed since it was read; nothing was saved.",
                subcategory="version_changed",
                details={"id": note.id},
                resolution_hint="Read it again and make the change in that.",
            )

    def forget_shown(self, note_id: str) -> None:
        """Forget which version was shown: the note was written since."""
        self._shown.pop(note_id, None)

    def _sees(self, note: TreeNote) -> bool:
        return self._index.sees(
            note.id,
            Content("", note.tags, properties=note.values),
            clear=note.tags_understood,
        )

    async def _find(self, note_id: str) -> TreeNote:
        """Read a note. Raises ``NoteNotFound``, in the same words for a hidden one.

        The one above all is never hidden: it has a place for everybody.
        """
        try:
            note = await self._read(note_id)
        except NoteNotFound:
            raise _no_note_error(note_id) from None
        if not self._sees(note) and note.id != ROOT:
            raise _no_note_error(note_id)
        return note

    async def _read(self, note_id: str) -> TreeNote:
        if note_id != ROOT and not is_possible_id(note_id):
            raise missing_error(note_id)
        row = await self._reader.object(note_id)
        if row.get("isProtected") is not False:
            raise missing_error(note_id)
        return note_codec.tree_note(row)

    async def _read_if_any(self, note_id: str) -> TreeNote | None:
        try:
            return await self._read(note_id)
        except NoteNotFound:
            return None

    async def _read_all(self) -> list[TreeNote]:
        return await run_in_thread(partial(_readable, await self._reader.objects()))

    def _has_words(self, found: TreeNote, query: str) -> bool:
        """Tell whether a note below a hidden one has each word of the query itself.

        The server may find a note by the words of those above it.
        """
        note = self._index.get(found.id)
        texts = [found.id, found.kind, found.title, note.text if note else ""]
        texts += [f"{one['name']} {one['value']}" for one in found.attributes]
        own = fold(" ".join(texts))
        return all(word in own for word in _WORD.findall(fold(query)))


def _readable(rows: Iterable[Any]) -> list[TreeNote]:
    """Return the notes that can be read and shown: neither protected ones nor Trilium's own."""
    notes = []
    for row in rows:
        try:
            if row["isProtected"] is False and is_possible_id(row["noteId"]):
                notes.append(note_codec.tree_note(row))
        except (StoreProtocolError, KeyError, TypeError):
            continue
    return notes


def _above(note: TreeNote, notes: Mapping[str, TreeNote]) -> set[str]:
    """Return the ids of all notes above another."""
    above: set[str] = set()
    level = set(note.parents)
    while level:
        above |= level
        parents = (notes[one].parents for one in level if one in notes)
        level = {parent for ones in parents for parent in ones} - above
    return above


def _no_place_error(why: str) -> InvalidRequest:
    return InvalidRequest(
        why,
        subcategory="folder",
        resolution_hint="`list_folders` shows the notes that have others below them: give the `folder` of one, which is its id. "
        "The id of any other note will do as well, and `/` is the top.",
    )


def _no_note_error(note_id: str) -> NoteNotFound:
    return NoteNotFound(
        "There is no note with this id.",
        details={"id": note_id[:_ID_SHOWN]},
        resolution_hint="Search for the note, or list the notes below another.",
    )


def _list_parents(notes: Mapping[str, TreeNote], top: Sequence[str]) -> list[ParentNote]:
    """Return the notes with others below them, in the order of the tree; one of several places at the first of them.

    ``notes``: those that are shown, by their ids; no other one counts. ``top``: the notes right below the root. What
    stands below others alone comes last, as if it were at the top.
    """
    children = {ROOT: [one for one in dict.fromkeys(top) if one in notes]}
    for note in notes.values():
        children[note.id] = [one for one in dict.fromkeys(note.children) if one in notes]
    found: dict[str, str] = {}
    loose = sorted(notes, key=lambda one: (any(up in notes for up in notes[one].parents), one))
    for start in (ROOT, *loose):
        if start not in found:
            found |= _paths(start, notes, children, found)
    return [
        ParentNote(one, path, len(children[one]), len(_below(one, children)))
        for one, path in found.items()
        if children[one] or one == ROOT
    ]


def _paths(
    start: str,
    notes: Mapping[str, TreeNote],
    children: Mapping[str, Sequence[str]],
    known: Mapping[str, str],
) -> dict[str, str]:
    """Return the titles that lead to a note and to all below it that are not known, each once."""
    paths: dict[str, str] = {}
    waiting = [(start, "")]
    while waiting:
        one, above = waiting.pop()
        if one in paths or one in known:
            continue
        title = "" if one == ROOT else notes[one].title
        paths[one] = path = f"{above}{_BETWEEN}{title}" if above else title
        waiting += [(child, path) for child in reversed(children[one])]
    return paths


def _below(start: str, children: Mapping[str, Sequence[str]]) -> set[str]:
    """Return all notes below another, each once, also in a circle."""
    return {*_walk(start, children)} - {start}


def _walk(start: str, children: Mapping[str, Sequence[str]]) -> Iterator[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for child in children[waiting.pop()]:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child
