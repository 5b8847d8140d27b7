"""Serve the notes of a Trilium server as a note store.

How a note is written is in ``writes``. Reading an address of the calendar makes notes: only ``make_day`` does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from html import escape

from mcp_notarium.domain.note import Content, PendingWrite, Published, Revision
from mcp_notarium.errors import CursorLost, NoteNotFound, StoreProtocolError, StoreRejected
from mcp_notarium.markup import html_codec
from mcp_notarium.markup.templates import TAG, Filling
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import TokenStore
from mcp_notarium.stores.contract import (
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Days,
    Entry,
    ListingPage,
    Retry,
    Traits,
    VersionPage,
    Versions,
    WriteGuard,
    random_id,
)
from mcp_notarium.stores.extensions import Attachment, KeptFile, NoteIndex, Replaced, Restored, Room
from mcp_notarium.stores.http import MIB, HttpSession, Request, each
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.kind import traits_of
from mcp_notarium.stores.trilium import note_codec, write_steps
from mcp_notarium.stores.trilium.attachment_writer import LARGEST, AttachmentWriter
from mcp_notarium.stores.trilium.attachments import (
    AttachmentReader,
    id_of_link,
    is_file,
    list_attachments,
)
from mcp_notarium.stores.trilium.change_probe import ChangeProbe
from mcp_notarium.stores.trilium.kind import KIND
from mcp_notarium.stores.trilium.moves import NAME, Moves
from mcp_notarium.stores.trilium.native import NativeTrilium
from mcp_notarium.stores.trilium.note_codec import HTML, MIMES, NoteObject, pairs_of, values_of
from mcp_notarium.stores.trilium.note_reader import NoteReader
from mcp_notarium.stores.trilium.revisions import Revisions
from mcp_notarium.stores.trilium.session import TriliumSession, date_of, value_of
from mcp_notarium.stores.trilium.urls import Urls
from mcp_notarium.stores.trilium.writes import NoteWrites

_NOT_LINKED = (
    "Notes lie below the template: Trilium would copy these too, so the note is without them, and without a relation to "
    "the template."
)
_NOT_INHERITED = {TAG, "workspacetemplate"}


class TriliumStore:
    """Reach the notes of one server. ``session`` and ``sleep`` are for tests."""

    traits = Traits(
        Changes.SNAPSHOT,
        WriteGuard.LAST_WRITER,
        Retry.ASK,
        **traits_of(KIND),
        probe=True,
        names_are_tags=True,
        is_markdown=note_codec.is_markdown,
        dates=False,
        versions=Versions.LISTED,
        days=Days.MADE,
        copies=True,
        attachments=True,
        asks_attachments=True,
        publishes=True,
        given=note_codec.given,
        own_form=note_codec.as_it_was,
        form_losses=note_codec.form_losses,
        forms=note_codec.forms,
        made_of=write_steps.is_made_of_body,
        compares=True,
        max_note_bytes=MIB,
    )
    codec_version = note_codec.VERSION
    day_tag = note_codec.DAY
    largest_file = LARGEST
    is_file = staticmethod(is_file)
    id_of_link = staticmethod(id_of_link)
    day_of = staticmethod(note_codec.day_of)

    def __init__(
        self,
        *,
        urls: Urls,
        token: Secret | None,
        tokens: TokenStore,
        timeout: float,
        session: HttpSession | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        session = session or HttpSession(
            bases=[urls.base], timeout=timeout, plain_http=urls.plain_http
        )
        self.http: HttpSession = session
        self._session = TriliumSession(session, token=token, tokens=tokens)
        self._urls = urls
        self._reader = NoteReader(self._session, urls)
        self._probe = ChangeProbe(session, self._session, urls, self._reader)
        self._moves = Moves(self._session, urls, self._reader)
        self._writes = NoteWrites(self._session, urls, self._reader, self._moves, sleep)
        self._attachments = AttachmentReader(self._session, urls, self._reader)
        self._files = AttachmentWriter(self._session, urls, self._reader, self._attachments)
        self._revisions = Revisions(self._session, urls, self._reader)
        self._listed: dict[str, tuple[tuple[NoteObject, ...], int]] = {}
        """Mark -> the listing it belongs to, and its place there. One listing is kept."""

    def native(self, index: NoteIndex) -> NativeTrilium:
        """Return what the native tools read."""
        return NativeTrilium(self._reader, self._urls, index, self._moves)

    # Reading

    async def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """See ``Store.list_page``. One request lists all notes; its later pages come from memory."""
        left_out, cursor = 0, ""
        if mark is None:
            before = await self._probe.before_listing()
            notes, left_out = await self._reader.everything()
            place, newest = 0, notes[0].modified if notes else 0.0
            cursor = replace(before, newest=newest).cursor()
        elif mark in self._listed:
            notes, place = self._listed[mark]
        else:
            raise CursorLost("the place in the listing is not known")
        page = notes[place : place + max(1, limit)]
        end = place + len(page)
        self._listed = {} if end >= len(notes) else {random_id(f"{id(notes)}/{end}"): (notes, end)}
        entries = await self._entries(page, with_content=with_content)
        return ListingPage(entries, cursor, next(iter(self._listed), None), len(notes), left_out)

    async def _entries(
        self, notes: tuple[NoteObject, ...], *, with_content: bool
    ) -> tuple[Revision | Entry, ...]:
        if not with_content:
            return tuple(Entry(note.id, note.etag) for note in notes)

        async def read(note: NoteObject) -> Revision | Entry | None:
            try:
                return await self._reader.revision(note)
            except NoteNotFound:
                return None
            except StoreProtocolError:
                return Entry(note.id, note.etag)  # this note is asked for by itself, later

        return tuple(await each(notes, read))

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002 - there is nothing to wait for
        """See ``Store.changes``. What is not certain shows in the next listing: see ``change_probe``."""
        notes, moved = await self._probe.since(cursor, base_of)
        return ChangePage(tuple(Entry(note.id, note.etag) for note in notes), moved)

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """See ``Store.get``. A protected note is none here: what the index holds of it goes.

        An older revision has an id of its own as its etag.
        """
        if etag is not None:
            return await self._revisions.get(note_id, etag)
        return await self._reader.revision(await self._reader.note_or_gone(note_id))

    async def list_versions(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """See ``VersionedStore.list_versions``."""
        return await self._revisions.list_page(note_id, before=before, limit=limit)

    async def find_version(
        self, note_id: str, content: Content, *, at: float, now: Content
    ) -> Revision | None:
        """See ``ListingStore.find_version``."""
        return await self._revisions.find(note_id, content, at=at, now=now)

    async def list_attachments(self, revision: Revision) -> Sequence[Attachment]:
        """See ``AttachmentStore.list_attachments``."""
        return list_attachments(revision)

    async def ask_attachments(
        self, revision: Revision, *, seconds: float, tries: int = 1
    ) -> Sequence[Attachment]:
        """See ``AskingStore.ask_attachments``."""
        return await self._attachments.ask(revision, seconds=seconds, tries=tries)

    async def find_owners(self, base: Revision | None, content: Content) -> Collection[str]:
        """See ``AskingStore.find_owners``."""
        try:
            body = note_codec.compose(base, content.cleaned())
        except StoreRejected:  # the save says that better
            return set()
        before = "" if base is None else json.loads(base.raw).get("html") or ""
        is_new = body["type"] == note_codec.HTML and body["edited"]
        return await self._attachments.find_owners(before, body["content"] if is_new else "")

    async def read_attachment(
        self, attachment: Attachment, *, largest: int
    ) -> tuple[Attachment, bytes | None]:
        """See ``AttachmentStore.read_attachment``."""
        return await self._attachments.read(attachment.id, largest=largest)

    async def keep_file(self, revision: Revision, name: str, kind: str, data: bytes) -> KeptFile:
        """See ``KeepingStore.keep_file``: as an attachment of the note."""
        if len(data) > self.largest_file:
            raise StoreRejected(
                f"a file of {len(data)} bytes is too large: {self.largest_file} are kept in Trilium from here",
                subcategory="too_large",
                resolution_hint="Give a smaller file, or ask the user to put it into Trilium.",
            )
        return await self._files.keep(revision.id, name, kind, data)

    async def find_room(self) -> Room:
        """See ``KeepingStore.find_room``: the server's."""
        return Room()

    def marks_of(self, file_id: str) -> tuple[str, ...]:
        """See ``KeepingStore.marks_of``: the id of the attachment, which no other one has."""
        return (file_id.partition("/")[2],)

    async def discard_file(self, file_id: str, digest: str) -> bool:
        """See ``KeepingStore.discard_file``."""
        note_id, _, name = file_id.partition("/")
        return await self._files.discard(note_id, name, digest)

    async def restore_file(self, file_id: str, digest: str) -> Restored:
        """See ``KeepingStore.restore_file``: the link has brought it back, if it is still there. Nobody else makes one of its id."""
        note_id, _, name = file_id.partition("/")
        there = await self._files.has(note_id, name, digest)
        return Restored.BACK if there else Restored.LOST

    # The calendar

    async def find_day(self, day: str) -> str | None:
        """See ``DayMakingStore.find_day``."""
        rows = await self._reader.found(
            self._urls.search(f'#{note_codec.DAY} = "{day}"', archived=True)
        )
        notes = (note for note in self._reader.notes_of(rows) if note_codec.is_of_day(note, day))
        return next((note.id for note in notes), None)

    async def make_day(self, day: str) -> str:
        """See ``DayMakingStore.make_day``."""
        return await self._writes.make_day(day)

    # Templates

    async def copy(self, template: Revision, filling: Filling) -> tuple[Content | None, str]:
        """See ``CopyingStore.copy``. The server would copy what lies below the template, also what is hidden here."""
        note = await self._reader.note(template.id)
        linked = not note.children  # defence: template-copies-no-hidden =True
        content = _copy(template, filling, linked=linked)
        return content, _NOT_LINKED if note.children else ""

    # Moves

    async def find_replaced(self, note_id: str, body: bytes) -> Replaced | None:
        """See ``ReplacingStore.find_replaced``."""
        return await self._moves.find_replaced(note_id, body)

    def name_parts(self, native: bytes) -> tuple[str, ...]:
        """See ``ReplacingStore.name_parts``."""
        return (NAME,) if self.move_of(native) else ()

    def shown_form(self, native: bytes) -> dict[str, str]:
        """See ``ReplacingStore.shown_form``."""
        move = json.loads(native).get("move") if native else None
        return {"parent": move["new"]} if move else {}

    def move_of(self, body: bytes) -> str:
        """See ``MovingStore.move_of``."""
        said = json.loads(body) if body else {}
        return to_json({"move": said["move"]}).decode() if "move" in said else ""

    async def find_inside(
        self, note_id: str, body: bytes | None, tops: Collection[str]
    ) -> set[str]:
        """See ``MovingStore.find_inside``."""
        return await self._moves.find_inside(note_id, body, tops)

    # Sharing

    async def find_published(self, base: Revision | None, content: Content) -> Published | None:
        """See ``PublishingStore.find_published``."""
        return await self._moves.find_published(base, content)

    async def find_public_day(self, day: str) -> str:
        """See ``PublishingStore.find_public_day``."""
        return await self._moves.find_public_day(day)

    # Composing

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:  # noqa: ARG002
        """See ``Store.compose``. Raises ``StoreRejected`` for an edit that would lose something."""
        return to_json(note_codec.compose(base, content.cleaned()))

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        return Revision(note_id, "", note_codec.content_of(json.loads(body)), 0.0, 0.0, b"")

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """See ``Store.new_id``."""
        del content, attempt
        return random_id(seed)

    # Writing

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. Raises ``VersionConflict`` if the note is not the base any more."""
        return await self._writes.push(write)

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``. A note with others below it is refused: they would go with it."""
        await self._writes.delete(note_id, etag=etag)

    async def describe(self, *, now: float) -> str:
        """Return the version that the server says it has, and by how much its clock differs from ``now``."""
        reply = await self._session.send(Request("GET", self._urls.api("app-info")))
        facts = note_codec.server_facts(value_of(reply), date=date_of(reply), now=now)
        return f"Trilium {facts}"

    async def close(self) -> None:
        """See ``Store.close``."""
        self._listed = {}
        await self._session.close()


def _copy(template: Revision, filling: Filling, *, linked: bool) -> Content | None:
    """Return what a note begins with; None if the template is no text.

    ``linked``: it inherits the labels of the template, as a note that Trilium makes. Else they are its own.
    """
    held = json.loads(template.raw)
    if held.get("unread") or held["type"] not in MIMES:
        return None
    labels = [one for one in pairs_of(held) if one[0].lower() not in _NOT_INHERITED]
    said = {"type": held["type"], "mime": held["mime"]}
    if linked:
        said |= {"template": template.id, "inherited": labels}
    text = template.content.text
    if held["type"] == HTML:
        # defence: title-is-no-markup escape()
        title = filling.title and escape(filling.title)
        said["begins"] = replace(filling, title=title).fill(held["html"])
        text = html_codec.to_markdown(said["begins"])
    else:
        text = filling.fill(text)
    return Content(
        text,
        tuple(dict.fromkeys(name for name, _ in labels)),
        properties=values_of(labels),
        native=to_json(said).decode(),
    )
