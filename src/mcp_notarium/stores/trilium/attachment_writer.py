"""Put files into the attachments of a Trilium note, and remove them.

ETAPI makes an attachment under an id of the server's, and takes its bytes in another request. So the first request promises them: the
attachment's content is a line with their digest. A later call that finds it after a cut or a lost answer goes on there, and makes no second one.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.file_names import UNKNOWN, numbered
from mcp_notarium.errors import NoteNotFound, StoreProtocolError, StoreRejected
from mcp_notarium.stores.extensions import KeptFile
from mcp_notarium.stores.http import MIB, Reply, Request
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.trilium.attachments import AttachmentReader, is_kept_as_text
from mcp_notarium.stores.trilium.note_codec import HTML, blob_id
from mcp_notarium.stores.trilium.note_reader import NoteReader, fresh
from mcp_notarium.stores.trilium.revisions import Attachment, attachment, attachments
from mcp_notarium.stores.trilium.session import (
    TriliumSession,
    protected_error,
    refusal_of,
    value_of,
)
from mcp_notarium.stores.trilium.urls import Urls

LARGEST = 20 * MIB
_MOST_NAMES = 1000
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"})
"""Types that Trilium's own upload makes an image; anything else is a file."""
_TOO_LARGE = 413


class _Promised(Exception):
    """Report that an earlier try has made the attachment."""

    def __init__(self, made: Attachment) -> None:
        self.made = made


@dataclass(frozen=True, slots=True)
class _File:
    role: str
    kind: str
    data: bytes

    @property
    def promise(self) -> str:
        """Return the content that an attachment has until the bytes are there."""
        return f"MCP Notarium is about to put a file here: {hashlib.sha256(self.data).hexdigest()}"

    def is_in(self, held: Attachment) -> bool:
        """Tell whether an attachment has the bytes, or waits for them."""
        kept = (blob_id(self.data), blob_id(self.promise.encode()))
        return held.role == self.role and held.blob_id in kept


class AttachmentWriter:
    """Write attachments of one server."""

    def __init__(
        self, session: TriliumSession, urls: Urls, notes: NoteReader, reader: AttachmentReader
    ) -> None:
        self._session = session
        self._urls = urls
        self._notes = notes
        self._reader = reader
        self._one_at_a_time = asyncio.Lock()

    async def keep(self, note_id: str, name: str, kind: str, data: bytes) -> KeptFile:
        """See ``KeepingStore.keep_file``. A note that is no text shows no files."""
        note = await self._notes.note_or_gone(note_id, cached=False)
        if note.protected:
            raise protected_error()
        if note.kind != HTML:
            raise StoreRejected(
                "only a text note of Trilium shows files, and this one is of another type",
                resolution_hint="Add the file to a text note.",
            )
        file = _File("image" if kind in _IMAGES else "file", _mime(kind, data), data)
        async with self._one_at_a_time:
            held = await self._list(note_id)
            free = _find_name(name, file, held)
            found = next((one for one in held if one.title == free and file.is_in(one)), None)
            found = found or await self._make(note_id, free, file)
            made = found.blob_id != blob_id(data)
            if made:
                await self._put(note_id, found, data)
        return KeptFile(f"{note_id}/{found.id}", _link(note_id, found), made)

    async def _list(self, note_id: str) -> Sequence[Attachment]:
        url = fresh(self._urls.api("notes", note_id, "attachments"))
        return attachments(await self._session.send(Request("GET", url)))

    async def _make(self, note_id: str, title: str, file: _File) -> Attachment:
        """Make the attachment with its promise. Of a lost answer it is asked before the request is sent again."""
        fields = {
            "ownerId": note_id,
            "role": file.role,
            "mime": file.kind,
            "title": title,
            "content": file.promise,
        }

        async def look(_in_doubt: bool) -> None:  # noqa: FBT001 - the session's form
            for one in await self._list(note_id):
                # defence: promised-file-found =False
                if one.title == title and file.is_in(one):
                    raise _Promised(one)

        request = _change(
            "POST", self._urls.api("attachments"), to_json(fields), "application/json"
        )
        try:
            reply = await self._session.send(replace(request, before_again=look))
        except _Promised as found:
            return found.made
        return attachment(value_of(_require_taken(reply)))

    async def _put(self, note_id: str, held: Attachment, data: bytes) -> None:
        """Send the bytes, and read back what the server says to have. A repeated request sends the same bytes."""
        url = self._urls.api("attachments", held.id)
        _require_taken(
            await self._session.send(_change("PUT", f"{url}/content", data, UNKNOWN)),
        )
        stored = attachment(value_of(await self._session.send(Request("GET", fresh(url)))))
        # defence: kept-attachment-read-back =False
        if (stored.owner, stored.blob_id) != (note_id, blob_id(data)):
            raise StoreProtocolError("Trilium has kept something else than the file that was sent")

    async def discard(self, note_id: str, attachment_id: str, digest: str) -> bool:
        """See ``KeepingStore.discard_file``. One that a text has shown is with Trilium's unused ones already, which a link brings back."""
        if await self._find_digest(note_id, attachment_id) != digest:
            return False
        url = self._urls.api("attachments", attachment_id)
        held = value_of(await self._session.send(Request("GET", fresh(url))))
        # defence: unused-file-can-come-back =True
        if not held.get("utcDateScheduledForErasureSince"):
            _require_taken(await self._session.send(_change("DELETE", url, None, "")))
        return True

    async def has(self, note_id: str, attachment_id: str, digest: str) -> bool:
        """Tell whether this attachment of the note has bytes of this SHA-256."""
        try:
            return await self._find_digest(note_id, attachment_id) == digest
        except NoteNotFound:
            return False

    async def _find_digest(self, note_id: str, attachment_id: str) -> str:
        """Return the SHA-256 of the bytes; '' if there are more than are kept. Raises ``NoteNotFound``."""
        _, data = await self._reader.read(f"{note_id}/{attachment_id}", largest=LARGEST)
        return "" if data is None else hashlib.sha256(data).hexdigest()


def _find_name(name: str, file: _File, held: Sequence[Attachment]) -> str:
    """Return the first name that no other attachment has."""
    titles = {tag_key(one.title) for one in held}
    ours = {one.title for one in held if file.is_in(one)}
    for number in range(1, _MOST_NAMES):
        free = numbered(name, number)
        if free in ours or tag_key(free) not in titles:
            return free
    raise StoreRejected(
        "there are too many files of this name", resolution_hint="Give the file another name."
    )


def _mime(kind: str, data: bytes) -> str:
    if is_kept_as_text(kind):
        try:
            data.decode()
        except UnicodeDecodeError:
            return UNKNOWN  # defence: bytes-kept-as-bytes
    return kind


def _link(note_id: str, held: Attachment) -> str:
    """Return what our Markdown says for what Trilium's editor writes."""
    if held.role == "image":
        return f"![{held.title}](api/attachments/{held.id}/image/{quote(held.title, safe='')})"
    return f"[{held.title}](#root/{note_id}?viewMode=attachments&attachmentId={held.id})"


def _change(method: str, url: str, body: bytes | None, kind: str) -> Request:
    headers = {"content-type": kind} if kind else {}
    return Request(method, url, headers=headers, body=body, write=True, withdrawable=True)


def _require_taken(reply: Reply) -> Reply:
    if reply.status == _TOO_LARGE:
        raise StoreRejected(
            "what stands between here and Trilium takes no file of this size",
            subcategory="too_large",
            resolution_hint="Give a smaller file, or ask the user to let the proxy take larger requests.",
        )
    if not reply.ok:
        raise refusal_of(reply)
    return reply
