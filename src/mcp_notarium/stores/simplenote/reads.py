"""Read notes from Simplenote: listing, change feed and single revisions.

Versions come from the version header only. A page is complete or the call raises.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import CursorLost, NoteNotFound, StoreProtocolError, StoreTimeout
from mcp_notarium.stores.contract import BaseLookup, ChangePage, ListingPage
from mcp_notarium.stores.http import Reply, Request
from mcp_notarium.stores.http_rules import ConnectionDropped
from mcp_notarium.stores.json_answers import DEEPEST, AnswerTooLarge, parse_json
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote.change_feed import changes_from
from mcp_notarium.stores.simplenote.listing import page_from
from mcp_notarium.stores.simplenote.session import AccountSession
from mcp_notarium.stores.simplenote.urls import NOTES, Urls, is_possible_id
from mcp_notarium.threads import run_in_thread

LARGEST_PAGE = 1000
SMALLEST_PAGE = 10
QUICK_SECONDS = 2.0
"""A page that arrives within this time may be twice as large the next time."""
POLL_SECONDS = 70.0
SHORTEST_POLL_SECONDS = 1.0
"""A long poll that breaks off sooner is a failure; an empty answer sooner is delayed."""
THREAD_BYTES = 256 * 1024
"""Bytes from which an answer is decoded in a thread: fewer take less than ten milliseconds."""
_VERSION_HEADER = "x-simperium-version"
_BAD_REQUEST = 400
_NOT_FOUND = 404
_UNKNOWN = frozenset({_BAD_REQUEST, _NOT_FOUND})
_ID = re.compile(r"[A-Za-z0-9_.%@-]{1,256}")


class NoteReads:
    """Read notes for the store. ``stopwatch`` gives seconds from any start."""

    def __init__(
        self,
        *,
        account: AccountSession,
        urls: Urls,
        stopwatch: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._account = account
        self._urls = urls
        self._stopwatch = stopwatch
        self._sleep = sleep
        self._page_limit = LARGEST_PAGE

    async def list_page(
        self, *, since: str | None, mark: str | None, limit: int, with_content: bool
    ) -> ListingPage:
        """See ``Store.list_page``. A page that is too large is requested again in halves."""
        size = max(1, min(limit, self._page_limit if with_content else LARGEST_PAGE))
        while with_content:
            begun = self._stopwatch()
            try:
                page = await self._page(since, mark, size, with_content=True)
            except AnswerTooLarge:
                # A single note that is too large comes without content, so that it hides no other.
                with_content, size = size > 1, max(1, size // 2)
            except StoreTimeout:
                # On a slow line a smaller page may come through the next time.
                self._page_limit = max(SMALLEST_PAGE, size // 2)
                raise
            else:
                if size == self._page_limit and self._stopwatch() - begun < QUICK_SECONDS:
                    self._page_limit = min(LARGEST_PAGE, 2 * size)
                return page
        return await self._page(since, mark, size, with_content=False)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:
        """See ``Store.changes``. A feed too large to read counts as a lost cursor."""
        if not wait:
            return await self._changes(cursor, base_of, query={"wait": "0"}, patient=False)
        begun = self._stopwatch()
        try:
            page = await self._changes(cursor, base_of, query={}, patient=True)
        except (StoreTimeout, ConnectionDropped):
            if self._stopwatch() - begun < SHORTEST_POLL_SECONDS:
                raise
            return ChangePage((), cursor)
        # Empty pages that come at once would make the caller poll in a hot loop.
        early = SHORTEST_POLL_SECONDS - (self._stopwatch() - begun)
        if early > 0 and not page.changes and page.cursor == cursor:
            await self._sleep(early)
        return page

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """See ``Store.get``."""
        version = None if etag is None else note_codec.version_of(etag)
        if not is_possible_id(note_id) or (etag is not None and version is None):
            raise _missing(note_id)
        url = self._urls.item(NOTES, note_id, version=version, query={})
        reply = await self._get(url)
        if reply.status == _NOT_FOUND and version is None:
            reply = await self._get(url)  # the note is forgotten here for one: better ask twice
        if reply.status == _NOT_FOUND or (reply.status == _BAD_REQUEST and not _plain(note_id)):
            raise _missing(note_id)
        fields = note_codec.fields_from(_value(reply))
        found = version_in(reply)
        if found is None:
            raise StoreProtocolError("Simplenote answered a note without a version")
        return note_codec.revision_from(note_id, fields, version=found)

    async def _page(
        self, since: str | None, mark: str | None, size: int, *, with_content: bool
    ) -> ListingPage:
        query = {"limit": str(size)}
        query |= {"data": "1"} if with_content else {}
        query |= {"since": since} if since is not None else {}
        query |= {"mark": mark} if mark is not None else {}
        reply = await self._get(self._urls.bucket(NOTES, "index", query))
        if since is not None and reply.status in _UNKNOWN:
            raise _lost()
        if len(reply.body) < THREAD_BYTES:
            return _read(reply, mark, with_content=with_content)
        return await run_in_thread(
            partial(_read, reply, mark, with_content=with_content), too_late=lambda _page: None
        )

    async def _changes(
        self, cursor: str, base_of: BaseLookup, *, query: dict[str, str], patient: bool
    ) -> ChangePage:
        url = self._urls.bucket(NOTES, "changes", {"cv": cursor} | query)
        try:
            reply = await (self._account.send(_long_poll(url)) if patient else self._get(url))
            if reply.status in _UNKNOWN:
                raise _lost()
            answer = _value(reply, deepest=None)
        except AnswerTooLarge as error:
            raise CursorLost("the list of changes cannot be read") from error
        return changes_from(answer, cursor=cursor, base_of=base_of)

    async def _get(self, url: str) -> Reply:
        return await self._account.send(Request("GET", url))


def _plain(note_id: str) -> bool:
    """Tell whether the id has only characters of the service's ids; it refuses others as bad."""
    return _ID.fullmatch(note_id) is not None


def version_in(reply: Reply) -> int | None:
    """Return the version the answer names; None if it names none."""
    return note_codec.version_of(reply.headers.get(_VERSION_HEADER, "").strip())


def _long_poll(url: str) -> Request:
    return Request("GET", url, tries=1, try_seconds=POLL_SECONDS, deadline=POLL_SECONDS + 5)


def _value(reply: Reply, *, deepest: int | None = DEEPEST) -> Any:
    """Parse the JSON of a good answer. Raises ``StoreProtocolError``."""
    if not reply.ok:
        raise StoreProtocolError(f"Simplenote answered with status {reply.status}")
    return parse_json(reply.body, deepest=deepest)


def _read(reply: Reply, mark: str | None, *, with_content: bool) -> ListingPage:
    return page_from(_value(reply, deepest=None), mark=mark, with_content=with_content)


def _missing(note_id: str) -> NoteNotFound:
    return NoteNotFound("Simplenote has no such note", details={"id": note_id})


def _lost() -> CursorLost:
    return CursorLost("Simplenote does not know this place in its changes any more")
