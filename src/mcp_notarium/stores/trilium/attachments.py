"""Find the files that a Trilium note shows: its attachments, and notes that are pictures or files.

The HTML of a note may name the attachment of any other one. So an id names note and attachment, and the server is asked whose
the attachment is before its bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from urllib.parse import unquote

from mcp_notarium.domain.file_names import UNKNOWN, kind_of_name, split_ending
from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import NoteNotFound, StoreProtocolError
from mcp_notarium.stores.extensions import Attachment
from mcp_notarium.stores.http import LARGEST_ANSWER, Reply, Request, each
from mcp_notarium.stores.json_answers import AnswerTooLarge
from mcp_notarium.stores.trilium.note_reader import NoteReader, missing_error
from mcp_notarium.stores.trilium.revisions import Attachment as Held
from mcp_notarium.stores.trilium.revisions import attachment, attachments, named_in
from mcp_notarium.stores.trilium.session import TriliumSession, value_of
from mcp_notarium.stores.trilium.urls import Urls

CONTENT = "content"
"""Stands for an attachment where the note itself is the picture or file."""
_FILES = ("image", "file")
"""Types of notes that are a picture or file themselves."""
_DRAWN = {
    "canvas": "canvas-export.svg",
    "mermaid": "mermaid-export.svg",
    "mindMap": "mindmap-export.svg",
    "spreadsheet": "spreadsheet-export.png",
}
"""Types of notes of which the app keeps a picture -> the title of that attachment."""
_ROLES = frozenset({"file", "image"})
"""Roles of what a person attaches, and of the picture that the app makes of a canvas or a diagram; others are settings of the app."""
_TEXTS = frozenset({"application/javascript", "application/x-javascript", "application/json", "application/x-sql", "image/svg+xml"})  # fmt: skip
_SHOWN = re.compile(
    r"api/attachments/(?P<own>\w+)/(?:image|download)(?:/(?P<name>[^\s\"'()<>?]*))?"
    r"|attachmentId=(?P<linked>\w+)|api/images/(?P<note>\w+)(?:/(?P<title>[^\s\"'()<>?]*))?"
)
_NAMED = re.compile(
    r"\[(?P<shown>[^\[\]\n]{1,300})\]\([^()\s]{0,300}attachmentId=(?P<id>\w{1,64})"
    r"|attachmentId=(?P<same>\w{1,64}+)[^<>]{0,300}+>(?P<words>[^<>\n]{1,300})<"
)
"""A link to an attachment, whose words are its name as Trilium writes it."""
_TAKEN = re.compile(r"(?:api/attachments/|attachmentId=)(\w+)")
_ADDRESS = re.compile(r'(?=(?:src|href)="([^"]*))')
"""Text that the server takes for an address when it looks for attachments, one within another too."""
_MIME = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)
_GONE = 404


def list_attachments(revision: Revision) -> Sequence[Attachment]:
    """See ``AttachmentStore.list_attachments``. Pure."""
    held = json.loads(revision.raw)
    found: dict[str, Attachment] = {}
    if held["type"] in _FILES:
        mime = held.get("mime")
        title = revision.content.title or ""
        kind = str(mime) if mime else kind_of_name(title)
        found[CONTENT] = Attachment(f"{revision.id}/{CONTENT}", kind, name=title)
    text = held.get("html") or revision.content.text
    named = {
        one["id"] or one["same"]: one["shown"] or one["words"] for one in _NAMED.finditer(text)
    }
    for one in _SHOWN.finditer(text):
        name = named.get(one["linked"], unquote(one["name"] or one["title"] or ""))
        name = " ".join(unescape(name).split()) if "html" in held else name
        shown = _id_of(revision.id, one)
        kind = kind_of_name(name)
        if (known := found.get(shown)) is None or known.kind == UNKNOWN:
            found[shown] = Attachment(shown, kind, name=name or (known.name if known else ""))
    return [*found.values()]


def is_file(revision: Revision) -> bool:
    """See ``AskingStore.is_file``."""
    # A note that has it may be long, and is a text.
    return b'"html":' not in revision.raw and json.loads(revision.raw)["type"] in (*_FILES, *_DRAWN)


def is_kept_as_text(kind: str) -> bool:
    """Tell whether the server keeps characters of this kind: bytes that are no UTF-8 would be replaced, and it counts no bytes."""
    return kind.startswith("text/") or kind in _TEXTS


def with_held(revision: Revision, held: Sequence[Held]) -> Sequence[Attachment]:
    """Return the files that a note shows, then its other ones, as the server has them. Pure.

    What is the note's and the server has not is left out. The picture of a drawing has the id under which other notes show it.
    """
    drawn = _DRAWN.get(json.loads(revision.raw)["type"])
    own = (one for one in held if one.owner == revision.id)
    there = {f"{revision.id}/{CONTENT if one.title == drawn else one.id}": one for one in own}
    shown: list[Attachment] = []
    for one in list_attachments(revision):
        if (facts := there.pop(one.id, None)) is not None:
            shown.append(_known(one.id, facts))
        elif one.id.endswith(f"/{CONTENT}"):
            shown.append(one)
    beside = [_known(each, one) for each, one in there.items() if one.role in _ROLES]
    drawing = f"{revision.id}/{CONTENT}" if drawn else ""
    return [*shown, *(replace(one, drawn=one.id == drawing) for one in beside)]


def _known(file_id: str, held: Held) -> Attachment:
    size = None if is_kept_as_text(held.mime) else held.length
    return replace(_facts(file_id, held.title, held.mime), size=size)


def _facts(file_id: str, title: str, mime: str) -> Attachment:
    """Return what the server says of a file; its name says the kind where the server says none."""
    known = mime != UNKNOWN and _MIME.fullmatch(mime)
    return Attachment(file_id, mime if known else kind_of_name(title), name=" ".join(title.split()))


def id_of_link(note_id: str, target: str) -> str:
    """See ``AttachmentStore.id_of_link``. Pure."""
    found = _SHOWN.search(target)
    return "" if found is None else _id_of(note_id, found)


def _id_of(note_id: str, shown: re.Match[str]) -> str:
    if shown["note"]:
        return f"{shown['note']}/{CONTENT}"
    return f"{note_id}/{shown['own'] or shown['linked']}"


class AttachmentReader:
    """Read the bytes of attachments from one server."""

    def __init__(self, session: TriliumSession, urls: Urls, notes: NoteReader) -> None:
        self._session = session
        self._urls = urls
        self._notes = notes

    async def ask(self, revision: Revision, *, seconds: float, tries: int) -> Sequence[Attachment]:
        """See ``AskingStore.ask_attachments``."""
        url = self._urls.api("notes", revision.id, "attachments")
        reply = await self._session.send(Request("GET", url, tries=tries, deadline=seconds))
        if reply.status == _GONE:
            raise missing_error(revision.id)
        return with_held(revision, attachments(reply))

    async def find_owners(self, before: str, html: str) -> set[str]:
        """Return whose the attachments are that the HTML names and the one before did not; see ``AskingStore.find_owners``."""
        named = {one for text in _ADDRESS.findall(html) for one in _TAKEN.findall(text)}
        return {*await each(sorted(named - named_in(before)), self._find_owner)}

    async def _find_owner(self, name: str) -> str:
        try:
            row = value_of(await self._get(self._urls.api("attachments", name)))
        except NoteNotFound:
            return ""
        return attachment(row).owner

    async def read(self, file_id: str, *, largest: int) -> tuple[Attachment, bytes | None]:
        """See ``AttachmentStore.read_attachment``."""
        note_id, _, name = file_id.partition("/")
        if name == CONTENT:
            return await self._read_note(file_id, note_id, largest)
        held = await self._find(note_id, name)
        data = await self._bytes(self._urls.api("attachments", name, CONTENT), largest)
        return _facts(file_id, held.title, held.mime), data

    async def _read_note(
        self, file_id: str, note_id: str, largest: int
    ) -> tuple[Attachment, bytes | None]:
        """Read what the app shows where a text shows a note as a picture: of a drawing the picture that the app has made of it."""
        note = await self._notes.note(note_id)
        if note.protected:
            raise _missing()
        if note.kind in _FILES:
            facts = _facts(file_id, note.title, note.mime)
            return facts, await self._bytes(self._urls.api("notes", note_id, CONTENT), largest)
        title = _DRAWN.get(note.kind, "")
        held = attachments(await self._get(self._urls.api("notes", note_id, "attachments")))
        drawn = next((one for one in held if (one.owner, one.title) == (note_id, title)), None)
        if drawn is None:
            raise NoteNotFound("Trilium has no picture of this note")
        ending = split_ending(title)[1]
        facts = _facts(file_id, note.title.removesuffix(ending) + ending, drawn.mime)
        return facts, await self._bytes(self._urls.api("attachments", drawn.id, CONTENT), largest)

    async def _find(self, note_id: str, name: str) -> Held:
        found = attachment(value_of(await self._get(self._urls.api("attachments", name))))
        if found.owner != note_id:  # defence: attachment-of-another-note =False
            raise _missing()
        return found

    async def _bytes(self, url: str, largest: int) -> bytes | None:
        try:
            return (await self._get(url, largest=largest)).body
        except AnswerTooLarge:
            return None

    async def _get(self, url: str, *, largest: int = LARGEST_ANSWER) -> Reply:
        reply = await self._session.send(Request("GET", url, largest=largest))
        if reply.status == _GONE:
            raise _missing()
        if not reply.ok:
            raise StoreProtocolError(f"Trilium answered with status {reply.status}")
        return reply


def _missing() -> NoteNotFound:
    return NoteNotFound("Trilium has no such attachment of the note")
