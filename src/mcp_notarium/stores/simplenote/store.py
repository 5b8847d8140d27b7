"""Define Simplenote as a ``Store``: read notes, and wire one account's login, writes and tag list.

Versions come from the version header only. A page is complete or the call raises. It merges nothing.
Simperium merges a push over an old base silently, so the caller pushes against the newest revision and
compares the answer with what it sent.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import CursorLost, NoteNotFound, StoreProtocolError, StoreTimeout
from mcp_notarium.secret import Secret
from mcp_notarium.stores.context import AccountRecord, TokenStore
from mcp_notarium.stores.contract import (
    Acknowledgement,
    BaseLookup,
    ChangePage,
    Changes,
    ListingPage,
    PushStatus,
    Retry,
    Traits,
    VersionPage,
    Versions,
    WriteGuard,
    random_id,
)
from mcp_notarium.stores.http import HttpSession, Reply, Request, each
from mcp_notarium.stores.http_rules import ConnectionDropped
from mcp_notarium.stores.json_answers import DEEPEST, AnswerTooLarge, parse_json, to_json
from mcp_notarium.stores.kind import traits_of
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote.change_feed_codec import changes_from
from mcp_notarium.stores.simplenote.kind import KIND, NOTES, Urls, is_possible_id
from mcp_notarium.stores.simplenote.login import Authenticator
from mcp_notarium.stores.simplenote.session import AccountSession, TokenOwner, Tokens
from mcp_notarium.stores.simplenote.writes import NoteWrites, TagList, version_in
from mcp_notarium.threads import run_in_thread

LARGEST_PAGE = 1000
SMALLEST_PAGE = 10
QUICK_SECONDS = 2.0
"""A page that arrives within this time may be twice as large the next time."""
POLL_SECONDS = 70.0
SHORTEST_POLL_SECONDS = 1.0
"""A long poll that breaks off sooner is a failure; an empty answer sooner is delayed."""
MISSING_VERSIONS = 30
"""Versions in a row without one that is kept: there is none before them. Of old ones each tenth is kept."""
THREAD_BYTES = 256 * 1024
"""Bytes from which an answer is decoded in a thread: fewer take less than ten milliseconds."""
_BAD_REQUEST = 400
_NOT_FOUND = 404
_UNKNOWN = frozenset({_BAD_REQUEST, _NOT_FOUND})
_ID = re.compile(r"[A-Za-z0-9_.%@-]{1,256}")


class SimplenoteStore:
    """Reach one Simplenote account. ``timeout``: seconds for one request with its retries.

    ``client_id`` names program and device and is stamped on every change. ``clock`` gives seconds
    that nobody sets. ``session`` is for tests; by default the store has connections of its own.
    """

    traits = Traits(
        changes=Changes.FEED | Changes.DELTA,
        write_guard=WriteGuard.SERVER_MERGE,
        retry=Retry.IDEMPOTENT,
        **traits_of(KIND),
        long_poll=True,
        versions=Versions.BY_ETAG,
        keeps_dates=True,
        fixed_creation=True,
        shares_by_tag=True,
        max_note_bytes=1_000_000,  # unpublished: people report refusals from about there
    )
    codec_version = note_codec.VERSION

    def __init__(
        self,
        *,
        urls: Urls,
        username: str,
        password: Secret | None,
        token: Secret | None,
        tokens: TokenStore,
        record: AccountRecord,
        api_key: Secret,
        client_id: str,
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
        session: HttpSession | None = None,
    ) -> None:
        session = session or HttpSession(bases=urls.all(), timeout=timeout)
        self.http: HttpSession = session
        logins = Tokens(
            authenticator=Authenticator(session=session, urls=urls, api_key=api_key),
            username=username,
            password=password,
            token=token,
            store=tokens,
            owner=TokenOwner(session=session, urls=urls, record=record),
            clock=clock,
        )
        self._account = AccountSession(session=session, tokens=logins)
        self._urls = urls
        self._clock = clock
        self._page_limit = LARGEST_PAGE
        self._writes = NoteWrites(
            account=self._account, urls=urls, client_id=client_id, get=self.get
        )
        self._tags = TagList(account=self._account, urls=urls, client_id=client_id)

    async def list_page(
        self, *, since: str | None, mark: str | None, limit: int, with_content: bool
    ) -> ListingPage:
        """See ``Store.list_page``. A page that is too large is requested again in halves."""
        size = max(1, min(limit, self._page_limit if with_content else LARGEST_PAGE))
        while with_content:
            begun = self._clock()
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
                if size == self._page_limit and self._clock() - begun < QUICK_SECONDS:
                    self._page_limit = min(LARGEST_PAGE, 2 * size)
                return page
        return await self._page(since, mark, size, with_content=False)

    async def changes(self, cursor: str, *, wait: bool, base_of: BaseLookup) -> ChangePage:
        """See ``Store.changes``. A feed too large to read counts as a lost cursor."""
        if not wait:
            return await self._changes(cursor, base_of, query={"wait": "0"}, patient=False)
        begun = self._clock()
        try:
            page = await self._changes(cursor, base_of, query={}, patient=True)
        except (StoreTimeout, ConnectionDropped):
            if self._clock() - begun < SHORTEST_POLL_SECONDS:
                raise
            return ChangePage((), cursor)
        # Empty pages that come at once would make the caller poll in a hot loop.
        early = SHORTEST_POLL_SECONDS - (self._clock() - begun)
        if early > 0 and not page.changes and page.cursor == cursor:
            await asyncio.sleep(early)
        return page

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        """See ``Store.get``."""
        version = None if etag is None else note_codec.version_of(etag)
        if not is_possible_id(note_id) or (etag is not None and version is None):
            raise _missing_error(note_id)
        url = self._urls.item(NOTES, note_id, version=version, query={})
        reply = await self._get(url)
        if reply.status == _NOT_FOUND and version is None:
            reply = await self._get(url)  # the note is forgotten here for one: better ask twice
            if reply.status != _NOT_FOUND:  # or this is a copy from before it was removed
                reply = await self._get(url)
        if reply.status == _NOT_FOUND or (reply.status == _BAD_REQUEST and not _plain(note_id)):
            raise _missing_error(note_id)
        fields = note_codec.fields_from(_value(reply))
        found = version_in(reply)
        if found is None or version not in (None, found):
            raise StoreProtocolError("Simplenote answered a note without its version number")
        return note_codec.revision_from(note_id, fields, version=found)

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:
        """See ``Store.compose``. Content equal to the base's gives the base's own body."""
        fields = note_codec.fields_of(base) if base is not None else None
        return to_json(note_codec.compose_fields(fields, content, now=now))

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        """See ``Store.revision_of``."""
        return note_codec.revision_from(
            note_id, note_codec.fields_from(parse_json(body)), version=None
        )

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        """See ``Store.new_id``."""
        del content, attempt
        return random_id(seed)

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``. New tags are put on Simplenote's tag list in the background."""
        acknowledged = await self._writes.push(write)
        if acknowledged.status is PushStatus.STORED:
            self._list_tags(write)
        return acknowledged

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        """See ``Store.delete``."""
        await self._writes.delete(note_id, etag=etag, write_id=write_id)

    async def list_versions(self, note_id: str, *, before: str, limit: int) -> VersionPage:
        """See ``VersionedStore.list_versions``. Nothing lists them: each number is asked for."""
        place = note_codec.version_of(before) or 0
        found: list[Revision] = []
        missing = 0
        while place > 1 and not found and missing < MISSING_VERSIONS:
            asked = range(place - 1, max(0, place - 1 - limit), -1)
            place = asked[-1]
            found = await self._read_versions(note_id, asked)
            missing += len(asked)
        return VersionPage(tuple(found), str(place) if found and place > 1 else None)

    async def _read_versions(self, note_id: str, numbers: Iterable[int]) -> list[Revision]:
        async def read(number: int) -> Revision | None:
            try:
                return await self.get(note_id, etag=note_codec.etag_of(number))
            except NoteNotFound:
                return None

        return await each(numbers, read)

    async def close(self) -> None:
        """See ``Store.close``."""
        try:
            await self._tags.close()
        finally:
            await self._account.close()

    def _list_tags(self, write: PendingWrite) -> None:
        async def earlier() -> Iterable[str]:
            if write.base_etag is None:
                return ()
            return (await self.get(write.note_id, etag=write.base_etag)).content.tags

        self._tags.list_tags(write.content.tags, earlier=earlier)

    async def _page(
        self, since: str | None, mark: str | None, size: int, *, with_content: bool
    ) -> ListingPage:
        query = {"limit": str(size)}
        query |= {"data": "1"} if with_content else {}
        query |= {"since": since} if since is not None else {}
        query |= {"mark": mark} if mark is not None else {}
        reply = await self._get(self._urls.bucket(NOTES, "index", query))
        if since is not None and reply.status in _UNKNOWN:
            raise _cursor_lost_error()
        if len(reply.body) < THREAD_BYTES:
            return _read(reply, mark, with_content=with_content)
        return await run_in_thread(partial(_read, reply, mark, with_content=with_content))

    async def _changes(
        self, cursor: str, base_of: BaseLookup, *, query: dict[str, str], patient: bool
    ) -> ChangePage:
        url = self._urls.bucket(NOTES, "changes", {"cv": cursor} | query)
        try:
            reply = await (self._account.send(_long_poll(url)) if patient else self._get(url))
            if reply.status in _UNKNOWN:
                raise _cursor_lost_error()
            answer = _value(reply, deepest=None)
        except AnswerTooLarge as error:
            raise CursorLost("the list of changes cannot be read") from error
        return changes_from(answer, cursor=cursor, base_of=base_of)

    async def _get(self, url: str) -> Reply:
        return await self._account.send(Request("GET", url))


def _plain(note_id: str) -> bool:
    """Tell whether the id has only characters of the service's ids; it refuses others as bad."""
    return _ID.fullmatch(note_id) is not None


def _long_poll(url: str) -> Request:
    return Request("GET", url, tries=1, try_seconds=POLL_SECONDS, deadline=POLL_SECONDS + 5)


def _value(reply: Reply, *, deepest: int | None = DEEPEST) -> Any:
    if not reply.ok:
        raise StoreProtocolError(f"Simplenote answered with status {reply.status}")
    return parse_json(reply.body, deepest=deepest)


def _read(reply: Reply, mark: str | None, *, with_content: bool) -> ListingPage:
    return note_codec.page_from(_value(reply, deepest=None), mark=mark, with_content=with_content)


def _missing_error(note_id: str) -> NoteNotFound:
    return NoteNotFound("Simplenote has no such note", details={"id": note_id})


def _cursor_lost_error() -> CursorLost:
    return CursorLost("Simplenote does not know this place in its changes any more")
