"""Reach Jotter over HTTP: the methods of ``Store``. It keeps nothing between two calls but connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlencode

from mcp_notarium.domain.note import Content, PendingWrite, Revision, Tombstone
from mcp_notarium.errors import (
    CursorLost,
    IdTaken,
    LoginRequired,
    NoteNotFound,
    OutcomeUnknown,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.secret import Secret
from mcp_notarium.stores.contract import (
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    Entry,
    ListingPage,
    PushStatus,
    Retry,
    Traits,
    WriteGuard,
    random_id,
)
from mcp_notarium.stores.extensions import NoteIndex, Replaced
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.http_rules import RetryPolicy
from mcp_notarium.stores.json_answers import parse_json, to_json
from mcp_notarium.stores.kind import traits_of
from notarium_devtools.jotter import codec
from notarium_devtools.jotter.kind import KIND
from notarium_devtools.jotter.notebooks import Notebooks

POLL_SECONDS = 2.0
WAIT_SECONDS = 60.0
_LARGEST_PAGE = 100
_UPDATED, _REMOVED = 2, 3


class Jotter:
    """Reach the notes of one server. ``poll_seconds``: how often its feed is asked while it is quiet."""

    traits = Traits(
        Changes.FEED,
        WriteGuard.LAST_WRITER,
        Retry.ASK,
        **traits_of(KIND),
        compares=True,
        long_poll=True,
        tags=False,
        is_markdown=True,
        keeps_dates=True,
        beside=codec.describe,
    )
    codec_version = codec.CODEC_VERSION
    compose = staticmethod(codec.compose)
    revision_of = staticmethod(codec.revision_of)

    def __init__(
        self,
        url: str,
        token: Callable[[], Secret | None],
        *,
        timeout: float,
        retry_policy: RetryPolicy | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._url = url
        self._token = token
        self._poll_seconds = poll_seconds
        self.http = HttpSession(bases=[url], timeout=timeout, retry_policy=retry_policy)

    async def list_page(
        self,
        *,
        since: str | None,  # noqa: ARG002 - every listing is of everything
        mark: str | None,
        limit: int,
        with_content: bool,
    ) -> ListingPage:
        """List one page, by its number. The mark has its size: a later page may be asked for with another limit."""
        if mark is None:
            cursor, number, size = await self._newest_cursor(), 1, min(limit, _LARGEST_PAGE)
        else:
            cursor, number, size = _read_mark(mark)
            await self._require_no_removal(cursor)
        query = {"page": number, "limit": size, "include_deleted": 1}
        page = _checked_page(await self._read("notes", query))
        notebooks = await self._notebooks()
        entries: list[Revision | Entry] = []
        for note in page["items"]:
            try:
                revision = codec.decode(note, notebooks)
            except StoreProtocolError:
                continue
            entries.append(revision if with_content else Entry(revision.id, revision.etag))
        more = f"{cursor} {number + 1} {size}" if page["has_more"] else None
        left_out = len(page["items"]) - len(entries)
        return ListingPage(tuple(entries), cursor, more, left_out=left_out)

    async def _require_no_removal(self, cursor: str) -> None:
        """Raise ``CursorLost`` if a note was removed since: the next page then begins one note too late."""
        more = True
        while more:
            page = await self._events(cursor)
            if any(event["type"] == _REMOVED for event in page["items"]):
                raise CursorLost("notes of Jotter were removed while they were listed")
            cursor, more = page["cursor"], page["has_more"]

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:  # noqa: ARG002
        """Name the notes of the next events. Raises ``CursorLost`` if a notebook has another name or place."""
        ends = time.monotonic() + WAIT_SECONDS
        while True:
            page = await self._events(cursor)
            if any(one["item_type"] != "note" and one["type"] == _UPDATED for one in page["items"]):
                raise CursorLost("notes of Jotter lie in a notebook that has changed")
            last: dict[str, Any] = {}
            for one in page["items"]:
                if one["item_type"] == "note":
                    last.pop(one["item_id"], None)  # the oldest comes first
                    last[one["item_id"]] = one
            if last or not (page["has_more"] or (wait and time.monotonic() < ends)):
                break
            cursor = page["cursor"]
            if not page["has_more"]:
                await asyncio.sleep(self._poll_seconds)
        changes = [
            Tombstone(note_id) if event["type"] == _REMOVED else Entry(note_id, "")
            for note_id, event in last.items()
        ]
        return ChangePage(tuple(changes), page["cursor"])

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:  # noqa: ARG002
        """Fetch a note; there are no older revisions."""
        if not codec.is_id(note_id):
            raise NoteNotFound("Jotter has no such note")
        return codec.decode(await self._read(f"notes/{note_id}"), await self._notebooks())

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:  # noqa: ARG002
        """Make an id that nobody else makes."""
        return random_id(seed)

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """Compare the base and send the fields that change. The answer is the note as it was stored."""
        fields = codec.fields_to_send(write.body)
        # Read before: a read that fails afterwards would say that nothing was stored.
        notebooks = await self._notebooks()
        if write.base_etag is None:
            reply = await self._change("POST", "notes", {"id": write.note_id} | fields)
        else:
            held = codec.decode(await self._read(f"notes/{write.note_id}"), notebooks)
            if not fields:
                return Acknowledgement(held, PushStatus.UNCHANGED)
            if held.etag != write.base_etag:
                raise VersionConflict("the note has changed in Jotter")
            reply = await self._change("PUT", f"notes/{write.note_id}", fields)
        stored = codec.decode(parse_json(reply.body), notebooks)
        return Acknowledgement(stored, PushStatus.STORED)

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:  # noqa: ARG002
        """Remove a note that lies in the trash."""
        try:
            if not (await self.get(note_id)).content.trash:
                raise StoreRejected("the note is not in Jotter's trash")
            await self._change("DELETE", f"notes/{note_id}", {})
        except NoteNotFound:
            return

    async def close(self) -> None:
        """Close the connections."""
        await self.http.close()

    # Notebooks

    def native(self, index: NoteIndex) -> Notebooks:
        """Return what reads the notebooks for ``list_folders``."""
        return Notebooks(self, index)

    async def find_replaced(self, note_id: str, body: bytes) -> Replaced | None:
        """Return the notebook that a body takes the note from; see ``ReplacingStore``."""
        if (move := codec.read_move(body)) is None:
            return None
        held = codec.notebook_of(await self.get(note_id))
        if held == move["new"]:
            return Replaced()
        if held != move["old"]:
            raise VersionConflict("the note has got into another notebook of Jotter")
        return Replaced(
            codec.move_to(move["new"], held), ("notebook",), codec.move_to(held, move["new"])
        )

    def name_parts(self, native: bytes) -> tuple[str, ...]:
        """See ``ReplacingStore.name_parts``."""
        return ("notebook",) if codec.read_move(native) else ()

    def shown_form(self, native: bytes) -> dict[str, str]:
        """See ``ReplacingStore.shown_form``."""
        move = codec.read_move(native)
        return {"notebook": move["new"]} if move else {}

    def move_of(self, body: bytes) -> str:
        """See ``MovingStore.move_of``."""
        move = codec.read_move(body)
        return codec.move_to(**move).decode() if move else ""

    async def find_inside(
        self, note_id: str, body: bytes | None, tops: Collection[str]
    ) -> Collection[str]:
        """See ``MovingStore.find_inside``."""
        move = codec.read_move(body) if body is not None else None
        if not note_id:  # Jotter puts a new note into the notebook for these
            return ()
        notebook = move["new"] if move else codec.notebook_of(await self.get(note_id))
        above = codec.notebooks_above(await self.read_notebooks())
        return {*tops} & {*above.get(notebook, ()), *(() if move else (note_id,))}

    async def read_notebooks(self) -> list[Any]:
        """Return the notebooks, as Jotter has them."""
        return await self._read_all("notebooks")

    async def read_notes(self) -> list[Any]:
        """Return the notes outside the trash, as Jotter has them."""
        return await self._read_all("notes")

    # Requests

    async def _newest_cursor(self) -> str:
        cursor = _checked_page(await self._read("events"))["cursor"]
        return _checked_cursor(cursor)

    async def _events(self, cursor: str) -> dict[str, Any]:
        page = _checked_page(await self._read("events", {"cursor": cursor}))
        _checked_cursor(page.get("cursor"))
        for event in page["items"]:
            if not isinstance(event, dict) or not event.keys() >= {"item_type", "item_id", "type"}:
                raise StoreProtocolError("Jotter answered something that is no event")
        return page

    async def _notebooks(self) -> dict[str, str]:
        return codec.notebook_paths(await self.read_notebooks())

    async def _read_all(self, path: str) -> list[Any]:
        found: list[Any] = []
        number, more = 1, True
        while more:
            query = {"page": number, "limit": _LARGEST_PAGE}
            page = _checked_page(await self._read(path, query))
            found += page["items"]
            number, more = number + 1, page["has_more"]
        return found

    async def _read(self, path: str, query: dict[str, Any] | None = None) -> Any:
        reply = await self._send("GET", f"{path}?{urlencode(query)}" if query else path)
        return parse_json(reply.body)

    async def _change(self, method: str, path: str, fields: dict[str, Any]) -> Reply:
        return await self._send(method, path, to_json(fields), write=True, withdrawable=True)

    async def _send(
        self, method: str, path: str, body: bytes | None = None, **options: Any
    ) -> Reply:
        token = self._token()  # a login may have changed it
        if token is None:
            raise LoginRequired("there is no token for Jotter")
        headers = {"authorization": f"Bearer {token.reveal_text()}"}
        url = f"{self._url}/{path}"
        return _checked(await self.http.send(Request(method, url, headers, body, **options)))


def _checked(reply: Reply) -> Reply:
    """Return an answer that is none of an error. A refusal after a lost answer proves nothing."""
    if reply.ok:
        return reply
    if reply.in_doubt:
        raise OutcomeUnknown("Jotter may have carried out an earlier try of the write")
    match reply.status:
        case 401 | 403:
            raise LoginRequired("Jotter does not accept the token")
        case 404:
            raise NoteNotFound("Jotter has no such note")
        case 409:
            raise IdTaken("Jotter has a note of this id")
        case 410:
            raise CursorLost("Jotter does not know this place in its events")
    raise StoreRejected(f"Jotter refused the request (status {reply.status})")


def _checked_page(value: Any) -> dict[str, Any]:
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("items"), list)
        or not isinstance(value.get("has_more"), bool)
    ):
        raise StoreProtocolError("Jotter answered something that is no page")
    return value


def _checked_cursor(cursor: object) -> str:
    if not isinstance(cursor, str) or not cursor or " " in cursor:
        raise StoreProtocolError("Jotter's events have no cursor")
    return cursor


def _read_mark(mark: str) -> tuple[str, int, int]:
    cursor, number, size = mark.split(" ")
    return cursor, int(number), int(size)
