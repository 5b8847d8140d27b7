"""Read notes from the store itself for native tools, and show only what the policy shows.

The index may be older than an answer of the store. So each answer is judged by itself: a note that was hidden a
moment ago is hidden here, and nothing that names it is shown.

Read long notes in pages from the store itself for native tools, and show only what the policy shows.

The index may be older than the file. So what has just been read is judged by itself, by its path, its
tags and its identity.

Read rows from the store itself for native tools, and show only what the policy shows.

The index may be older than the app's file. So each row that was just read is judged by itself.

Bring one note of the index up to what the store holds now, before a native tool changes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from mcp_notarium.domain.note import Content, Note, Revision, Tombstone
from mcp_notarium.errors import NoteNotFound, StoreProtocolError, VersionConflict
from mcp_notarium.search.folding import fold
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Store, Versions
from mcp_notarium.stores.listing import ListingStore
from mcp_notarium.stores.live_notes import LiveNote, LiveNotes
from mcp_notarium.stores.live_pages import LivePage, LivePages
from mcp_notarium.stores.live_rows import LiveRow, LiveRows
from mcp_notarium.sync import lost_notes
from mcp_notarium.sync.history import Version


async def refresh(cache: Cache, store: Store, note_id: str) -> Note | None:
    """Return the note as the store has it now; None if it is gone, or hidden. Raises what the store raises.

    That the store lacks a note that the index lacks is no news: what is left of one that was deleted from here stays.
    """
    seen = cache.notes.etag(note_id)
    try:
        newest: Revision | Tombstone = await store.get(note_id)
    except NoteNotFound:
        if seen is None:
            return None
        newest = Tombstone(note_id)
    with cache.transaction():
        unwritten = all(one.note_id != note_id for one in cache.journal.in_flight())
        if cache.notes.etag(note_id) == seen and unwritten:
            if isinstance(newest, Tombstone) and store.traits.versions is Versions.NONE:
                lost_notes.forget(cache, note_id)
            else:
                cache.notes.apply([newest])
    return None if isinstance(newest, Tombstone) else cache.notes.get(note_id)


_MOST_SHOWN = 1000
_ID_SHOWN = 80
_WORD = re.compile(r"\w+")


class JudgedNotes:
    """Read the notes of one account; ``asked`` is what the store offers beyond the contract."""

    def __init__(self, cache: Cache, store: Store, asked: LiveNotes) -> None:
        self._cache = cache
        self._store = store
        self._asked = asked
        self._shown: dict[str, str] = {}
        """Note -> the version of it that a tool has shown last."""

    async def note(self, note_id: str) -> LiveNote:
        """Read a note from the store, also the one above all. Raises ``NoteNotFound``.

        What names a hidden note is left out of it.
        """
        note = await self._find(note_id)
        if not self._cache.notes.visibility.rules.has_rules:
            return note
        seen = await self._seen_ids()
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

    async def text(self, note_id: str) -> tuple[LiveNote, str | None]:
        """Read a note and its text as the store has it; None if that cannot be shown."""
        try:
            note, text = await self._asked.text(note_id)
        except NoteNotFound:
            raise _no_note_error(note_id) from None
        if not self._sees(note):
            raise _no_note_error(note_id)
        self._shown.pop(note_id, None)
        self._shown[note_id] = note.version
        if len(self._shown) > _MOST_SHOWN:
            del self._shown[next(iter(self._shown))]
        return note, text

    async def children(self, note_id: str) -> list[LiveNote]:
        """Read the notes right below another, also below the one above all. Raises ``NoteNotFound``."""
        note = await self._find(note_id)
        return [one for one in await self._asked.children(note) if self._sees(one)]

    async def search(self, query: str) -> list[LiveNote]:
        """Search in the store's own syntax. A hidden note is not among the hits, nor told by them."""
        rules = self._cache.notes.visibility.rules.has_rules
        found = await self._asked.search(query, each_alone=rules)
        if not rules or not found:
            return [one for one in found if self._sees(one)]
        notes = {one.id: one for one in await self._asked.everything()}
        hidden = {one.id for one in notes.values() if not self._sees(one)}
        return [
            one
            for one in found
            if self._sees(one)
            and (hidden.isdisjoint(_above(one, notes)) or self._has_words(one, query))
        ]

    def given(self, note: Note | None, text: str) -> Content | None:
        """Return the content of a text in the store's own form or in ours; None if the index lacks the note."""
        base = self._cache.notes.base(note.id) if note is not None else None
        return None if base is None and note is not None else self._asked.given(text, base=base)

    async def as_it_was(self, note: Note, old: Version) -> str | None:
        """Return the ``native`` that stores an older version as the store has kept it; None if it has not.

        '' if the note is stored so now. Raises what the store raises.
        """
        if self._store.traits.versions is not Versions.LISTED:
            return ""
        revision = await self._find_revision(note, old)
        if revision is None:
            return None
        native, base = self._asked.as_it_was(revision), self._cache.notes.base(note.id)
        return "" if base is not None and native == self._asked.as_it_was(base) else native

    async def _find_revision(self, note: Note, old: Version) -> Revision | None:
        """Find the revision of a version: the one of its name or date, else the newest of the same new text."""
        if old.name == old.etag:
            return await self._store.get(note.id, etag=old.etag)
        store = cast("ListingStore", self._store)  # its trait says so
        return await store.find_version(note.id, old.content, at=old.modified_at, now=note.content)

    def given_below(self, parent: LiveNote, text: str, *, kind: str, title: str | None) -> Content:
        """Return the content of a new note below another. Raises ``InvalidRequest``."""
        return self._asked.given_below(parent, text, kind=kind, title=title)

    def require_shown(self, note: LiveNote) -> None:
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

    def _sees(self, note: LiveNote) -> bool:
        visibility = self._cache.notes.visibility
        rule = visibility.find_rule_for(note.id, note.tags, clear=note.tags_understood)
        return rule is None

    async def _find(self, note_id: str) -> LiveNote:
        """Read a note. Raises ``NoteNotFound``, in the same words for a hidden one.

        The one above all is never hidden: it has a place for everybody.
        """
        try:
            note = await self._asked.note(note_id)
        except NoteNotFound:
            raise _no_note_error(note_id) from None
        if not self._sees(note) and note.id != self._asked.root:
            raise _no_note_error(note_id)
        return note

    async def _seen_ids(self) -> set[str]:
        notes = await self._asked.everything()
        return {self._asked.root, *(one.id for one in notes if self._sees(one))}

    def _has_words(self, found: LiveNote, query: str) -> bool:
        """Tell whether a note below a hidden one has each word of the query itself.

        A service may find a note by the words of those above it.
        """
        note = self._cache.notes.get(found.id)
        texts = [found.id, found.kind, found.title, note.text if note else ""]
        texts += [f"{one['name']} {one['value']}" for one in found.attributes]
        own = fold(" ".join(texts))
        return all(word in own for word in _WORD.findall(fold(query)))

    async def refresh(self, note_id: str) -> Note:
        """Return a note as the store has it now. Raises ``NoteNotFound``, or what the store raises."""
        note = await refresh(self._cache, self._store, note_id)
        if note is None:
            raise _no_note_error(note_id)
        return note


def _above(note: LiveNote, notes: Mapping[str, LiveNote]) -> set[str]:
    """Return the ids of all notes above another."""
    above: set[str] = set()
    level = set(note.parents)
    while level:
        above |= level
        parents = (notes[one].parents for one in level if one in notes)
        level = {parent for ones in parents for parent in ones} - above
    return above


def _no_note_error(note_id: str) -> NoteNotFound:
    return NoteNotFound(
        "There is no note with this id.",
        details={"id": note_id[:_ID_SHOWN]},
        resolution_hint="Search for the note, or list the notes below another.",
    )


_PATH_SHOWN = 80


class JudgedPages:
    """Read the notes of one account; ``asked`` is what the store offers beyond the contract."""

    def __init__(self, cache: Cache, asked: LivePages) -> None:
        self._visibility = cache.notes.visibility
        self._names = cache.notes.names
        self._asked = asked

    async def page(self, path: str, *, start: int, most: int) -> LivePage:
        """Read a part of a note, also by a path that it had before.

        Raises ``NoteNotFound``, in the same words for a hidden one.
        """
        try:
            return await self._page(path, start=start, most=most)
        except NoteNotFound:
            renamed = self._names.current(path)
            if renamed is None:
                raise
            return await self._page(renamed, start=start, most=most)

    async def find_files(self, paths: Iterable[str]) -> set[str]:
        """Return at which of these paths there are files that are no notes, such as images."""
        rules = self._visibility.rules
        return await self._asked.find_files(path for path in paths if not rules.closes(path))

    async def find_cards(self, path: str) -> dict[str, int | None]:
        """Return how many cards of each canvas that no rule hides show the note; see ``LivePages.find_cards``."""
        rules, found = self._visibility.rules, await self._asked.find_cards(path)
        return {one: count for one, count in found.items() if rules.sees(one, ())}

    async def _page(self, path: str, *, start: int, most: int) -> LivePage:
        rules = self._visibility.rules
        hidden = rules.hidden_by_name(path) or self._visibility.names.find_rule(path, None)
        try:
            if hidden is not None:
                raise _no_note_at(path)
            needed = rules.tags_matter or not rules.untagged
            page = await self._asked.page(path, start=start, most=most, tags=needed)
        except NoteNotFound:
            raise _no_note_at(path) from None
        except StoreProtocolError:  # nobody can tell which tags it has
            if rules.has_rules:
                raise _no_note_at(path) from None
            raise
        if not self._sees(page):
            raise _no_note_at(path)
        return page

    def _sees(self, page: LivePage) -> bool:
        rule = self._visibility.find_rule_for(
            page.path, page.tags, clear=page.tags_understood, identity=page.identity
        )
        return rule is None


def _no_note_at(path: str) -> NoteNotFound:
    return NoteNotFound(
        "There is no note at this path.",
        details={"path": path[:_PATH_SHOWN]},
        resolution_hint="Write the path from the top of the notes, with `/` between folders and the ending "
        "of the file, spelled as it is there.",
    )


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
