"""Serve the notes of a Trilium server as a note store.

The server overwrites whatever it is sent and knows no condition. So each write compares the note first, keeps
a revision there, and reads the note back. A write of an id that exists would replace that note without a
trace: a new note's id is random, and asked for before it is used. No calendar address is ever asked for:
reading one makes notes.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import (
    CursorLost,
    LoginRequired,
    NoteNotFound,
    OutcomeUnknown,
    StoreError,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import TokenStore
from mcp_notarium.stores.contract import (
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Entry,
    Ids,
    ListingPage,
    PushStatus,
    Retry,
    Traits,
    WriteGuard,
    random_id,
)
from mcp_notarium.stores.http import MIB, HttpSession, Reply, Request
from mcp_notarium.stores.json_answers import AnswerTooLarge, parse_json, to_json
from mcp_notarium.stores.trilium import note_codec
from mcp_notarium.stores.trilium.note_codec import HTML, NoteObject, blob_id, is_possible_id
from mcp_notarium.stores.trilium.session import TriliumSession, is_missing, refusal_of, value_of
from mcp_notarium.stores.trilium.urls import Urls
from mcp_notarium.threads import run_in_thread

ROOT = "root"
LARGEST_CONTENT = 4 * MIB
LARGEST_LISTING = 64 * MIB
"""About 100,000 notes."""
MOST_LISTED_VALUES = 4_000_000
LISTING_SECONDS = 60.0
_LARGEST_STATUS = 64 * 1024
AT_ONCE = 4
THREAD_BYTES = 32 * 1024
_ROUNDS = 3
_NO_CURSOR = "unknown"
_COUNTER = "trilium-max-entity-change-id"
_PROBE_SECONDS = 5.0
_JSON = {"content-type": "application/json"}
_TEXT = {"content-type": "text/plain; charset=utf-8"}
"""The one type that every version stores as it is. Others, and none at all, make older servers replace the
note by ``[object Object]``."""


class TriliumStore:
    """Reach the notes of one server. ``session`` is for tests."""

    traits = Traits(
        Changes.SNAPSHOT,
        WriteGuard.LAST_WRITER,
        Ids.RANDOM,
        Retry.ASK,
        probe=True,
        titles=True,
        dates=False,
        max_note_bytes=MIB,
    )
    codec_version = note_codec.VERSION

    def __init__(
        self,
        *,
        urls: Urls,
        token: Secret | None,
        tokens: TokenStore,
        timeout: float,
        session: HttpSession | None = None,
    ) -> None:
        session = session or HttpSession(
            bases=[urls.base], timeout=timeout, plain_http=urls.plain_http
        )
        self._http = session
        self._session = TriliumSession(session, token=token, tokens=tokens)
        self._urls = urls
        self._listed: dict[str, tuple[tuple[NoteObject, ...], int]] = {}
        """Mark -> the listing it belongs to, and its place there. One listing is kept."""

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
        left_out, cursor = 0, _NO_CURSOR
        if mark is None:
            cursor = (
                await self._count_changes() or _NO_CURSOR
            )  # before the listing, which may have more
            notes, left_out = await self._list_everything()
            place = 0
        elif mark in self._listed:
            notes, place = self._listed[mark]
        else:
            raise CursorLost("the place in the listing is not known")
        page = notes[place : place + max(1, limit)]
        end = place + len(page)
        self._listed = {} if end >= len(notes) else {random_id(f"{id(notes)}/{end}"): (notes, end)}
        entries = await self._entries(page, with_content=with_content)
        return ListingPage(entries, cursor, next(iter(self._listed), None), len(notes), left_out)

    async def _list_everything(self) -> tuple[tuple[NoteObject, ...], int]:
        """Return all notes, newest change first, and the number of those that are none for us.

        Raises ``StoreProtocolError`` for a listing without the root: a search that has failed finds
        nothing, with status 200.
        """
        request = Request(
            "GET", self._urls.everything(), largest=LARGEST_LISTING, deadline=LISTING_SECONDS
        )
        reply = await self._session.send(request)
        return await run_in_thread(partial(_read_listing, reply), too_late=lambda _listing: None)

    async def _entries(
        self, notes: tuple[NoteObject, ...], *, with_content: bool
    ) -> tuple[Revision | Entry, ...]:
        if not with_content:
            return tuple(Entry(note.id, note.etag) for note in notes)
        turn = asyncio.Semaphore(AT_ONCE)

        async def read(note: NoteObject) -> Revision | Entry | None:
            async with turn:
                try:
                    return await self._revision(note)
                except NoteNotFound:
                    return None
                except StoreProtocolError:
                    return Entry(note.id, note.etag)  # this note is asked for by itself, later

        tasks = [asyncio.ensure_future(read(note)) for note in notes]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return tuple(one for one in found if one is not None)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002
        """See ``Store.changes``: a counter tells whether anything has changed, and never what."""
        if cursor != _NO_CURSOR and await self._count_changes() == cursor:
            return ChangePage((), cursor)
        raise CursorLost("something may have changed at Trilium")

    async def _count_changes(self) -> str | None:
        """Return the server's count of changes; None if it does not tell, as behind a proxy for ETAPI alone."""
        request = Request(
            "GET", self._urls.status(), tries=1, deadline=_PROBE_SECONDS, largest=_LARGEST_STATUS
        )
        try:
            reply = await self._http.send(request)
        except StoreError:
            return None
        count = reply.headers.get(_COUNTER, "")
        return count if reply.ok and count.isdecimal() and len(count) < len(str(2**64)) else None

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:  # noqa: ARG002
        """See ``Store.get``. A protected note is none here: what the index holds of it goes."""
        return await self._revision(await self._note(note_id))

    async def _note(self, note_id: str) -> NoteObject:
        """Return the note object. Raises ``NoteNotFound``."""
        if not is_possible_id(note_id):
            raise _missing_error(note_id)
        reply = await self._session.send(Request("GET", self._urls.api("notes", note_id)))
        if is_missing(reply):
            raise _missing_error(note_id)
        note = note_codec.note_object(value_of(reply))
        if note.id != note_id:
            raise StoreProtocolError("Trilium answered another note than the one asked for")
        return note

    async def _revision(self, note: NoteObject) -> Revision:
        """Return the note with its content, of one moment. Raises ``NoteNotFound`` for a protected one."""
        for _ in range(_ROUNDS):
            if note.protected:
                raise _missing_error(note.id)
            content = await self._content(note) if note.has_text else None
            if content is None or blob_id(content) == note.blob_id:
                return await _in_thread_if_large(note, content)
            read_again = await self._note(note.id)
            if read_again == note:  # its hash is one that is not known here
                return await _in_thread_if_large(note, content)
            note = read_again
        raise StoreProtocolError("the note keeps changing while it is read")

    async def _content(self, note: NoteObject) -> bytes | None:
        """Return the content; None if it is too large."""
        url = self._urls.api("notes", note.id, "content")
        try:
            reply = await self._session.send(Request("GET", url, largest=LARGEST_CONTENT))
        except AnswerTooLarge:
            return None
        if is_missing(reply):
            raise _missing_error(note.id)
        if not reply.ok:
            raise StoreProtocolError(f"Trilium answered with status {reply.status}")
        return reply.body

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
        body = json.loads(write.body)
        if not is_possible_id(write.note_id):
            raise StoreRejected("Trilium takes no note of this id")
        if write.base_etag is None:
            return await self._create(write, body)
        note = await self._note(write.note_id)
        if note.protected:
            raise StoreRejected("the note is protected in Trilium and cannot be changed from here")
        if note.etag != write.base_etag:
            raise VersionConflict("the note has changed at Trilium", details={"id": note.id})
        steps = self._steps(note, body, write.write_id)
        if not steps:
            return Acknowledgement(await self.get(note.id), PushStatus.UNCHANGED)
        return await self._carry_out(note.id, body, steps)

    async def _create(self, write: PendingWrite, body: dict[str, Any]) -> Acknowledgement:
        """Create a note, unless it is there: then an earlier try has made it."""
        try:
            return Acknowledgement(await self.get(write.note_id), PushStatus.REPEATED)
        except NoteNotFound:
            pass
        value = {
            "parentNoteId": ROOT,
            "noteId": write.note_id,
            "title": body["title"],
            "type": body["type"],
            "mime": body["mime"],
            "content": body["content"] or "",
        }
        # Sent once: repeated, it would overwrite what somebody has made of the note meanwhile.
        create = _change("POST", self._urls.api("create-note"), to_json(value), _JSON, tries=1)
        labels = [
            self._label_request(write.note_id, name, number, write.write_id)
            for number, name in enumerate(body["labels"])
        ]
        return await self._carry_out(write.note_id, body, [create, *labels])

    def _steps(self, note: NoteObject, body: dict[str, Any], write_id: str) -> list[Request]:
        """Return the requests that make the note what the body says, none if it is that already."""
        steps = []
        url = self._urls.api("notes", note.id)
        content = None if body["content"] is None else body["content"].encode()
        if content is not None and blob_id(content) != note.blob_id:
            steps.append(_change("PUT", f"{url}/content", content, _TEXT))
        if body["title"] != note.title:
            steps.append(_change("PATCH", url, to_json({"title": body["title"]}), _JSON))
        if steps:
            # Older servers keep no revision by themselves. It changes nothing that anybody reads.
            steps.insert(0, Request("POST", f"{url}/revision", headers=_JSON, withdrawable=True))
        wanted = body["labels"]
        steps += [
            _change("DELETE", self._urls.api("attributes", label.id), None, {})
            for label in note.labels
            if label.name not in wanted
        ]
        held = {label.name for label in note.labels}
        last = max((label.position for label in note.labels), default=0) // 10
        missing = [name for name in wanted if name not in held]
        steps += [
            self._label_request(note.id, name, last + number, write_id)
            for number, name in enumerate(missing)
        ]
        return steps

    def _label_request(self, note_id: str, name: str, number: int, write_id: str) -> Request:
        value = {
            "attributeId": random_id(f"{write_id}/{name}"),  # a repetition makes no second label
            "noteId": note_id,
            "type": "label",
            "name": name,
            "value": "",
            "position": 10 * (number + 1),
        }
        return _change("POST", self._urls.api("attributes"), to_json(value), _JSON)

    async def _carry_out(
        self, note_id: str, body: dict[str, Any], steps: list[Request]
    ) -> Acknowledgement:
        """Send the requests of a write one after the other, and read the note back.

        From the first change on no error promises any more that nothing was written.
        """
        begun = False
        try:
            for step in steps:
                reply = await self._session.send(replace(step, withdrawable=not begun))
                if not reply.ok:
                    raise refusal_of(reply)
                begun = begun or step.write
            stored = await self.get(note_id)
        except (StoreError, LoginRequired, NoteNotFound) as error:
            if not begun or isinstance(error, OutcomeUnknown):
                raise
            raise OutcomeUnknown(
                "a part of the write was carried out, and then it failed"
            ) from error
        # The server replaces embedded images by attachments of its own.
        rewritten = body["type"] == HTML and "data:image/" in (body["content"] or "")
        return Acknowledgement(stored, PushStatus.STORED, alone=rewritten)

    async def find_created(self, write: PendingWrite) -> Revision | None:  # noqa: ARG002
        """See ``Store.find_created``: never asked, for we make the ids."""
        raise OutcomeUnknown("Trilium takes the ids of new notes from us")

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """See ``Store.delete``. A note with others below it is refused: they would go with it.

        Trilium lists it under its recent changes for a week; this API shows no way back.
        """
        try:
            note = await self._note(note_id)
        except NoteNotFound:
            return
        if note.children:
            raise StoreRejected(
                "the note has other notes below it, which Trilium would delete as well; nothing was deleted",
                subcategory="has_children",
                resolution_hint="Ask the user to move or delete them in Trilium first.",
            )
        if note.protected or note.etag != etag:
            raise VersionConflict("the note has changed at Trilium", details={"id": note_id})
        reply = await self._session.send(
            _change("DELETE", self._urls.api("notes", note_id), None, {})
        )
        if not reply.ok:
            raise refusal_of(reply)

    async def version(self) -> str:
        """Return the version that the server says it has."""
        answer = value_of(await self._session.send(Request("GET", self._urls.api("app-info"))))
        found = answer.get("appVersion") if isinstance(answer, dict) else None
        return found[:40] if isinstance(found, str) and found.isprintable() else "unknown"

    async def close(self) -> None:
        """See ``Store.close``."""
        self._listed = {}
        await self._session.close()


def _change(
    method: str, url: str, body: bytes | None, headers: dict[str, str], *, tries: int | None = None
) -> Request:
    return Request(
        method, url, headers=headers, body=body, write=True, withdrawable=True, tries=tries
    )


async def _in_thread_if_large(note: NoteObject, content: bytes | None) -> Revision:
    """Return the revision; HTML of some size is converted in a thread."""
    if content is None or len(content) < THREAD_BYTES:
        return note_codec.revision(note, content)
    return await run_in_thread(
        partial(note_codec.revision, note, content), too_late=lambda _revision: None
    )


def _read_listing(reply: Reply) -> tuple[tuple[NoteObject, ...], int]:
    if not reply.ok:
        raise StoreProtocolError(f"Trilium answered with status {reply.status}")
    answer = parse_json(reply.body, most=MOST_LISTED_VALUES)
    rows = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(rows, list):
        raise StoreProtocolError("Trilium answered no list of notes")
    notes: dict[str, NoteObject] = {}
    left_out, has_root = 0, False
    for row in rows:
        note_id = row.get("noteId") if isinstance(row, dict) else None
        has_root = has_root or note_id == ROOT
        if note_id == ROOT or (isinstance(note_id, str) and note_id.startswith("_")):
            continue
        try:
            note = note_codec.note_object(row)
        except StoreProtocolError:
            left_out += 1
            continue
        if note.protected or not is_possible_id(note.id):
            left_out += 1
        else:
            notes[note.id] = note
    if not has_root:
        raise StoreProtocolError("Trilium's list of notes lacks the root: its search has failed")
    ordered = sorted(notes.values(), key=lambda note: (-note.modified, note.id))
    return tuple(ordered), left_out


def _missing_error(note_id: str) -> NoteNotFound:
    return NoteNotFound("Trilium has no such note", details={"id": note_id})
