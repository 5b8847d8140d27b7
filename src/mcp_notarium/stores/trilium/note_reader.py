"""Read notes of a Trilium server: a single one, its content, or all of them."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import NoteNotFound, StoreProtocolError, StoreUnavailable
from mcp_notarium.stores.http import MIB, Reply, Request, each
from mcp_notarium.stores.json_answers import AnswerTooLarge, parse_json
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.note_codec import ROOT, NoteObject, blob_id, is_possible_id
from mcp_notarium.stores.trilium.session import TriliumSession, is_missing, value_of
from mcp_notarium.stores.trilium.urls import Urls
from mcp_notarium.threads import run_in_thread

LARGEST_CONTENT = 4 * MIB
LARGEST_LISTING = 64 * MIB
"""About 100,000 notes."""
MOST_NOTES = 100_000
MOST_LISTED_VALUES = 4_000_000
LISTING_SECONDS = 60.0
THREAD_BYTES = 32 * 1024
_ROUNDS = 3
_SEARCHES = 2
"""A search that overflows the server's stack does so again."""


class NoteReader:
    """Read from one server. Nothing here asks for a calendar address: reading one makes notes."""

    def __init__(self, session: TriliumSession, urls: Urls) -> None:
        self._session = session
        self._urls = urls

    async def note(self, note_id: str, *, cached: bool = True) -> NoteObject:
        """Return the note object. Raises ``NoteNotFound``.

        ``cached`` False: whatever it is told, no proxy answers. See :func:`fresh`.
        """
        if not is_possible_id(note_id):
            raise missing_error(note_id)
        return note_codec.note_object(await self.object(note_id, cached=cached))

    async def note_or_gone(self, note_id: str, *, cached: bool = True) -> NoteObject:
        """Return a note, read twice before it counts as gone: the first answer may be a copy from before it was made.

        The second is none, also not from before it was removed.
        """
        with suppress(NoteNotFound):
            return await self.note(note_id, cached=cached)
        return await self.note(note_id, cached=False)

    async def object(self, note_id: str, *, cached: bool = True) -> dict[str, Any]:
        """Return the note object as it came, also the root's. See :meth:`note`. Raises ``NoteNotFound``."""
        url = self._urls.api("notes", note_id)
        reply = await self._session.send(Request("GET", url if cached else fresh(url)))
        if is_missing(reply):
            raise missing_error(note_id)
        return require_note(value_of(reply), note_id)

    async def revision(self, note: NoteObject, *, known: bytes | None = None) -> Revision:
        """Return the note with its content, of one moment. See :meth:`content`."""
        note, content = await self.content(note, known=known)
        return await read_content(note, content)

    async def content(
        self, note: NoteObject, *, known: bytes | None = None
    ) -> tuple[NoteObject, bytes | None]:
        """Return a note and its content, of one moment; None: it has no text, or too much.

        ``known`` is not asked for if it is the content. Raises ``NoteNotFound`` for a protected note, and
        ``StoreProtocolError`` for a content that is not the note's: every version names one by its hash.
        """
        for _ in range(_ROUNDS):
            if note.protected:  # defence: protected-notes-not-read
                raise missing_error(note.id)
            if not note.has_text:
                return note, None
            if known is None or blob_id(known) != note.blob_id:
                known = await self.content_at(self._urls.api("notes", note.id, "content"))
            # defence: foreign-content-is-no-note =True
            if known is None or blob_id(known) == note.blob_id:
                return note, known
            read_again = await self.note(note.id)
            if read_again.blob_id == note.blob_id:
                raise foreign_content_error()
            note = read_again
        raise StoreProtocolError("the note keeps changing while it is read")

    async def content_at(self, url: str) -> bytes | None:
        """Return what stands at this address; None if it is too large. Raises ``NoteNotFound``."""
        try:
            reply = await self._session.send(Request("GET", url, largest=LARGEST_CONTENT))
        except AnswerTooLarge:
            return None
        if is_missing(reply):
            raise NoteNotFound("Trilium has no such content")
        if not reply.ok:
            raise StoreProtocolError(f"Trilium answered with status {reply.status}")
        return reply.body

    async def everything(self) -> tuple[tuple[NoteObject, ...], int]:
        """Return all notes, newest change first, and the number of those that are none for us."""
        return await run_in_thread(partial(_read_rows, await self.objects()))

    async def objects(self) -> list[Any]:
        """Return all note objects as they came.

        Raises ``StoreProtocolError`` for a listing without the root: a search that has failed finds
        nothing, with status 200. One cycle cut off from the root makes every search fail: then the tree is
        walked.
        """
        try:
            rows = await self.found(self._urls.everything())
        except StoreUnavailable:
            rows = await self._walk()
        # defence: listing-needs-the-root
        if not any(isinstance(row, dict) and row.get("noteId") == ROOT for row in rows):
            raise StoreProtocolError(
                "Trilium's list of notes lacks the root: its search has failed"
            )
        return rows

    async def found(self, url: str) -> list[Any]:
        """Return the note objects that a search finds, as they came."""
        request = Request(
            "GET", url, largest=LARGEST_LISTING, deadline=LISTING_SECONDS, tries=_SEARCHES
        )
        return await run_in_thread(partial(_results, await self._session.send(request)))

    @staticmethod
    def notes_of(rows: list[Any]) -> tuple[NoteObject, ...]:
        """Return the notes among note objects: neither the root, nor Trilium's own, nor protected ones."""
        return _read_rows(rows)[0]

    async def _walk(self) -> list[Any]:
        """Read every note below the root by itself. One that is met again is not read again."""
        level, rows = [ROOT], list[Any]()
        seen = set(level)
        while level and len(seen) <= MOST_NOTES:
            found = await each(level, self._object_if_any)
            rows += found
            below = (child for row in found for child in row.get("childNoteIds") or ())
            level = [one for one in dict.fromkeys(below) if is_possible_id(one) and one not in seen]
            seen.update(level)
        return rows

    async def _object_if_any(self, note_id: str) -> dict[str, Any] | None:
        try:
            return await self.object(note_id)
        except NoteNotFound:
            return None


async def read_content(note: NoteObject, content: bytes | None) -> Revision:
    """Return the revision; HTML of some size is converted in a thread."""
    make = partial(note_codec.revision, note, content)
    return make() if content is None or len(content) < THREAD_BYTES else await run_in_thread(make)


def fresh(url: str) -> str:
    """Return another address of the same, of which no proxy has kept an answer. Trilium reads no such parameter."""
    return f"{url}?fresh={os.urandom(8).hex()}"


def require_note(row: Any, note_id: str) -> dict[str, Any]:
    """Return an answer that is this note's object. Raises ``StoreProtocolError``."""
    if not isinstance(row, dict) or row.get("noteId") != note_id:
        raise StoreProtocolError("Trilium answered another note than the one asked for")
    return row


def _results(reply: Reply) -> list[Any]:
    if not reply.ok:
        raise StoreProtocolError(f"Trilium answered with status {reply.status}")
    answer = parse_json(reply.body, most=MOST_LISTED_VALUES)
    rows = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise StoreProtocolError("Trilium answered no list of notes")
    return rows


def _read_rows(rows: list[Any]) -> tuple[tuple[NoteObject, ...], int]:
    notes, left_out = dict[str, NoteObject](), 0
    for row in rows:
        if _is_system(row):
            continue
        try:
            note = note_codec.note_object(row)
        except StoreProtocolError:
            left_out += 1
            continue
        if is_possible_id(note.id) and not note.protected:
            notes[note.id] = note
        else:
            left_out += 1
    ordered = sorted(notes.values(), key=lambda note: (-note.modified, note.id))
    return tuple(ordered), left_out


def _is_system(row: Any) -> bool:
    note_id = row.get("noteId") if isinstance(row, dict) else None
    return note_id == ROOT or (isinstance(note_id, str) and note_id.startswith("_"))


def foreign_content_error() -> StoreProtocolError:
    """Return the error for a content that is not the one that its note names."""
    return StoreProtocolError(
        "what came in place of the note's content is something else; nothing was read or written",
        resolution_hint="Look whether a proxy stands between here and Trilium, and what it answers.",
    )


def missing_error(note_id: str) -> NoteNotFound:
    """Return the error for a note that does not exist, or is to be taken for such."""
    return NoteNotFound("Trilium has no such note", details={"id": note_id})
