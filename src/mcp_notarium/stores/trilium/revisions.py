"""Read the revisions that Trilium keeps of a note, with links to the note's own attachments.

They hold title and content, and no labels. Older servers keep them without a way to list them: there a note has
none.

A revision has copies of the note's attachments, and its HTML names these. Stored in the note as it is, that
would leave the note's own without a link, and Trilium erases such an attachment after 30 days.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import NoteNotFound, StoreProtocolError
from mcp_notarium.stores.contract import VersionPage
from mcp_notarium.stores.http import Reply, Request, each
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.note_codec import HTML, NoteObject, blob_id, is_possible_id
from mcp_notarium.stores.trilium.note_reader import NoteReader, foreign_content_error, read_content
from mcp_notarium.stores.trilium.session import TriliumSession, value_of
from mcp_notarium.stores.trilium.urls import Urls

_NAMED = re.compile(r"\battachments/(\w+)|\battachmentId=(\w+)")
_DOWNLOAD = re.compile(r'(?<=href=")api/attachments/(\w+)/download(?=")')


@dataclass(frozen=True, slots=True)
class Attachment:
    """Hold what tells an attachment from others of its note."""

    id: str
    owner: str
    role: str
    title: str
    blob_id: str
    mime: str = ""
    length: int | None = None
    """Of its content, as SQLite counts: bytes, but characters of what the server keeps as text."""


def attachment(value: Any) -> Attachment:
    """Read an attachment object. Raises ``StoreProtocolError``."""
    names = ("attachmentId", "ownerId", "role", "title", "blobId", "mime")
    found = [value.get(name) if isinstance(value, dict) else None for name in names]
    if not all(isinstance(one, str) for one in found):
        raise StoreProtocolError("Trilium answered an attachment in an unknown form")
    file_id, owner, role, title, blob, mime = map(str, found)
    length = value.get("contentLength")
    known = length if isinstance(length, int) and length >= 0 else None
    return Attachment(file_id, owner, role, title, blob, mime, known)


def attachments(reply: Reply) -> list[Attachment]:
    """Read an answer that lists attachments. Raises ``StoreProtocolError``."""
    rows = value_of(reply)
    if not isinstance(rows, list):
        raise StoreProtocolError("Trilium answered no list of attachments")
    return [attachment(row) for row in rows]


def named_in(html: str) -> set[str]:
    """Return the ids of the attachments that the HTML names."""
    return {one or other for one, other in _NAMED.findall(html)}


def twin_of(copy: Attachment, own: Collection[Attachment]) -> str:
    """Return the id of the note's own attachment of the same content; that of the copy if there is none.

    The server makes an attachment of the note of that copy when it is stored.
    """
    same = [one for one in own if (one.role, one.blob_id) == (copy.role, copy.blob_id)]
    same.sort(key=lambda one: one.title != copy.title)
    return same[0].id if same else copy.id


def with_own(html: str, note_id: str, twins: Mapping[str, str]) -> str:
    """Return the HTML with the links that the note had: copies by the note's own, downloads as links to them.

    Trilium counts the latter form as a use of the attachment, and not the download address.
    """

    def own(found: re.Match[str]) -> str:
        copy = found[1] or found[2]
        return found[0].replace(copy, twins.get(copy, copy))

    def link(found: re.Match[str]) -> str:
        if found[1] not in twins:
            return found[0]
        target = twins[found[1]]
        return f"#root/{note_id}?viewMode=attachments&amp;attachmentId={target}"

    return _NAMED.sub(own, _DOWNLOAD.sub(link, html))


_NOT_FOUND = 404
_SAME_DATE = 0.0005
_MOST_READ = 20
"""Revisions that are looked at for the form of an older text: each costs a request."""
_MOST_COPIES = 1000
"""Copies of attachments that are remembered: they never change."""
Named = tuple[str, NoteObject]
"""The id of a revision, and what the note was."""


class Revisions:
    """Read the revisions of the notes of one server. ``listed`` False: it cannot list them."""

    def __init__(self, session: TriliumSession, urls: Urls, reader: NoteReader) -> None:
        self._session = session
        self._urls = urls
        self._reader = reader
        self._copies: dict[str, Attachment] = {}

    async def list_page(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """See ``VersionedStore.list_versions``."""
        if not is_possible_id(note_id):
            return VersionPage((), None)
        found = await self.named(note_id)
        names = [name for name, _ in found]
        begin = names.index(before) + 1 if before in names else 0
        page = found[begin : begin + max(1, limit)]
        more = page[-1][0] if begin + len(page) < len(found) else None
        return VersionPage(tuple(await each(page, self._read_if_any)), more)

    async def find(
        self, note_id: str, content: Content, *, at: float, now: Content
    ) -> Revision | None:
        """See ``ListingStore.find_version``: the list has the dates, so few contents are read."""
        named = await self.named(note_id) if is_possible_id(note_id) else []
        titled = [one for one in named if one[1].title == content.title]
        dated = [one for one in titled if abs(one[1].modified - at) < _SAME_DATE]
        alike = dict[str, Named]()
        for one in titled if content.text != now.text else ():
            alike.setdefault(one[1].blob_id, one)
        candidates = dict.fromkeys([*dated, *alike.values()])
        for one in islice(candidates, _MOST_READ):
            found = await self._read_if_any(one)
            if found is not None and found.content.wording == content.wording:
                return found
        return None

    async def _read_if_any(self, one: Named) -> Revision | None:
        try:
            return await self._read(one)
        except (NoteNotFound, StoreProtocolError):
            return None

    async def named(self, note_id: str) -> list[Named]:
        """Return the revisions of a note, newest first, without their contents; none if there is no such note."""
        url = self._urls.api("notes", note_id, "revisions")
        reply = await self._session.send(Request("GET", url))
        if reply.status == _NOT_FOUND:
            return []
        return note_codec.revision_objects(value_of(reply))

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

    async def _read(self, one: Named) -> Revision:
        name, note = one
        content = await self._reader.content_at(self._urls.api("revisions", name, "content"))
        if content is not None and blob_id(content) != note.blob_id:
            raise foreign_content_error()
        if content is not None and note.kind == HTML:
            content = await self._with_own_links(note.id, content)
        return replace(await read_content(note, content), etag=name)

    async def _with_own_links(self, note_id: str, content: bytes) -> bytes:
        text = content.decode("utf-8", "surrogateescape")
        if not (copies := named_in(text)):
            return content
        url = self._urls.api("notes", note_id, "attachments")
        reply = await self._session.send(Request("GET", url))
        own = [] if reply.status == _NOT_FOUND else attachments(reply)
        copies -= {one.id for one in own}
        twins = {copy: twin_of(found, own) for copy, found in (await self._facts(copies)).items()}
        mapped = with_own(text, html.escape(note_id), twins)
        return mapped.encode("utf-8", "surrogateescape")

    async def _facts(self, ids: Iterable[str]) -> dict[str, Attachment]:

        async def read(one: str) -> Attachment | None:
            if one not in self._copies:
                reply = await self._session.send(Request("GET", self._urls.api("attachments", one)))
                if reply.status == _NOT_FOUND:
                    return None
                if len(self._copies) >= _MOST_COPIES:
                    self._copies.clear()
                self._copies[one] = attachment(value_of(reply))
            return self._copies[one]

        found = await each(sorted(ids), read)
        return {one.id: one for one in found}


def _missing_error(note_id: str) -> NoteNotFound:
    return NoteNotFound("Trilium has no such revision of the note", details={"id": note_id})
