"""Read the revisions that Trilium keeps of a note.

They hold title and content, and no labels. Older servers keep them without a way to list them: there a note has
none.
"""

from __future__ import annotations

from dataclasses import replace

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import NoteNotFound, StoreProtocolError
from mcp_notarium.stores.contract import VersionPage
from mcp_notarium.stores.http import Request
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.note_codec import NoteObject, is_possible_id
from mcp_notarium.stores.trilium.note_reader import NoteReader, each, read_content
from mcp_notarium.stores.trilium.session import TriliumSession, value_of
from mcp_notarium.stores.trilium.urls import Urls

_NOT_FOUND = 404


class Revisions:
    """Read the revisions of the notes of one server."""

    def __init__(self, session: TriliumSession, urls: Urls, reader: NoteReader) -> None:
        self._session = session
        self._urls = urls
        self._reader = reader

    async def list_page(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """See ``VersionedStore.list_versions``."""
        if not is_possible_id(note_id):
            return VersionPage((), None)
        url = self._urls.api("notes", note_id, "revisions")
        reply = await self._session.send(Request("GET", url))
        if reply.status == _NOT_FOUND:  # no such note, or a server that cannot list them
            return VersionPage((), None)
        found = note_codec.revision_objects(value_of(reply))
        names = [name for name, _ in found]
        begin = names.index(before) + 1 if before in names else 0
        page = found[begin : begin + max(1, limit)]
        more = page[-1][0] if begin + len(page) < len(found) else None
        return VersionPage(tuple(await each(page, self._read_if_any)), more)

    async def get(self, note_id: str, name: str) -> Revision:
        """Return a revision of the note. Raises ``NoteNotFound``."""
        if not is_possible_id(note_id) or not is_possible_id(name):
            raise _missing_error(note_id)
        reply = await self._session.send(Request("GET", self._urls.api("revisions", name)))
        if reply.status == _NOT_FOUND:
            raise _missing_error(note_id)
        for found in note_codec.revision_objects([value_of(reply)]):
            if (found[0], found[1].id) == (name, note_id):
                return await self._read(found)
        raise _missing_error(note_id)

    async def _read_if_any(self, one: tuple[str, NoteObject]) -> Revision | None:
        try:
            return await self._read(one)
        except (NoteNotFound, StoreProtocolError):
            return None

    async def _read(self, one: tuple[str, NoteObject]) -> Revision:
        name, note = one
        content = await self._reader.content_at(self._urls.api("revisions", name, "content"))
        return replace(await read_content(note, content), etag=name)


def _missing_error(note_id: str) -> NoteNotFound:
    return NoteNotFound("Trilium has no such revision of the note", details={"id": note_id})
