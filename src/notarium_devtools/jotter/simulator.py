"""Simulate Jotter: notes and to-dos in notebooks, and a feed of events. The last writer wins.

Each request carries a token. An answer with many objects is a page: ``items`` and ``has_more``. ``/events``
tells which note or notebook changed since a cursor, but not how.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any

from notarium_devtools.http_faults import Faults
from notarium_devtools.http_server import Logged, Request, Response, Server

INBOX = "inbox"
CREATED, UPDATED, REMOVED = 1, 2, 3
_LONGEST_PAGE = 100
_NEW = {
    "title": "",
    "body": "",
    "parent_id": INBOX,
    "is_todo": 0,
    "todo_completed": 0,
    "deleted_time": 0,
}


class Refused(Exception):
    """Answer with an error status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class JotterSimulator:
    """Serve one person's notes, and act as that person on another device."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.token = secrets.token_hex(16)
        self.faults = Faults()
        self.notes: dict[str, dict[str, Any]] = {}
        self.notebooks = {INBOX: {"id": INBOX, "title": "Inbox", "parent_id": ""}}
        self._clock = clock
        self._last = 0
        self._events: list[dict[str, Any]] = []
        self._first_known = 0
        self._server = Server(self, self.faults)

    # As a person

    def write(self, note_id: str, **fields: Any) -> dict[str, Any]:
        """Create a note or set these fields of one."""
        now = self._now()
        note = self.notes.get(note_id)
        kind = UPDATED if note else CREATED
        if note is None:
            note = self.notes[note_id] = {"id": note_id, **_NEW}
            note |= {"created_time": now, "user_created_time": now}
        note |= {"user_updated_time": now, **fields, "updated_time": now}
        self._tell("note", note_id, kind)
        return note

    def remove(self, note_id: str) -> None:
        """Remove a note for good."""
        if self.notes.pop(note_id, None) is not None:
            self._tell("note", note_id, REMOVED)

    def write_notebook(self, notebook_id: str, title: str, parent_id: str = "") -> None:
        """Create a notebook, or give one another title or place."""
        kind = UPDATED if notebook_id in self.notebooks else CREATED
        self.notebooks[notebook_id] = {"id": notebook_id, "title": title, "parent_id": parent_id}
        self._tell("notebook", notebook_id, kind)

    def forget_events(self) -> None:
        """Drop all events so far: no cursor from before is known any more."""
        self._tell("nothing", "", UPDATED)
        self._first_known = len(self._events)

    # On the wire

    @property
    def url(self) -> str:
        """Return ``http://127.0.0.1:PORT``. Valid once it serves."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def requests(self) -> list[Logged]:
        """Return every request so far."""
        return list(self._server.log)

    def stop_listening(self) -> None:
        """Simulate a lost network."""
        self._server.refuse()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[JotterSimulator]:
        """Serve from the running event loop while the block lasts."""
        self._server.hold_port()
        await self._server.listen()
        try:
            yield self
        finally:
            await self._server.stop()

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        try:
            status, answer = 200, self._answer(request)
        except Refused as refusal:
            status, answer = refusal.status, {"error": refusal.status}
        date = ("Date", formatdate(self._clock(), usegmt=True))
        return Response(status, json.dumps(answer).encode(), "application/json", (date,))

    def _answer(self, request: Request) -> Any:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise Refused(401)
        match request.method, request.segments:
            case "GET", ("notes",):
                trash = request.query.get("include_deleted") == "1"
                notes = [note for note in self.notes.values() if trash or not note["deleted_time"]]
                notes.sort(key=lambda note: note["updated_time"], reverse=True)
                return _page(notes, request.query)
            case "GET", ("notebooks",):
                return _page([*self.notebooks.values()], request.query)
            case "GET", ("events",):
                return self._feed(request.query)
            case "POST", ("notes",):
                return self._create(self._fields(request.body))
            case method, ("notes", note_id) if note_id in self.notes:
                return self._one_note(method, note_id, request.body)
            case _:
                raise Refused(404)

    def _create(self, fields: dict[str, Any]) -> dict[str, Any]:
        if (note_id := fields.pop("id")) in self.notes:
            raise Refused(409)
        return self.write(note_id, **fields)

    def _one_note(self, method: str, note_id: str, body: bytes) -> dict[str, Any]:
        if method == "PUT":
            return self.write(note_id, **self._fields(body))
        note = self.notes[note_id]
        if method == "DELETE":
            self.remove(note_id)
        return note

    def _fields(self, body: bytes) -> dict[str, Any]:
        fields = _object(body)
        if fields.get("parent_id", INBOX) not in self.notebooks:
            raise Refused(400)
        return fields

    def _feed(self, query: dict[str, str]) -> dict[str, Any]:
        end = len(self._events)
        if "cursor" not in query:
            return {"items": [], "has_more": False, "cursor": str(end)}
        if not (query["cursor"].isdecimal() and self._first_known <= int(query["cursor"]) <= end):
            raise Refused(410)
        start = int(query["cursor"])
        last = min(end, start + _LONGEST_PAGE)
        items = self._events[start:last]
        return {"items": items, "has_more": last < end, "cursor": str(last)}

    def _tell(self, item_type: str, item_id: str, kind: int) -> None:
        self._events.append({"item_type": item_type, "item_id": item_id, "type": kind})

    def _now(self) -> int:
        self._last = max(self._last + 1, int(self._clock() * 1000))
        return self._last


def _page(items: list[dict[str, Any]], query: dict[str, str]) -> dict[str, Any]:
    number = int(query.get("page", "1"))
    limit = min(int(query.get("limit", "10")), _LONGEST_PAGE)
    return {
        "items": items[(number - 1) * limit : number * limit],
        "has_more": len(items) > number * limit,
    }


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        raise Refused(400) from None
    if not isinstance(value, dict):
        raise Refused(400)
    return value
