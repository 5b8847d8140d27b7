"""Complete Simplenote's list of tags: a tag put on a note here also becomes a tag object.

Without one the tag would not show in Simplenote's own tag list. This happens after the note itself is
stored, in the background. It never raises and gives up on any failure.
"""

from __future__ import annotations

import asyncio
import logging
import re
import unicodedata
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import quote

from mcp_notarium.errors import NotariumError
from mcp_notarium.stores.http import Request
from mcp_notarium.stores.json_answers import parse_json, to_json
from mcp_notarium.stores.simplenote.session import AccountSession
from mcp_notarium.stores.simplenote.urls import LONGEST_ID, Urls

_LOG = logging.getLogger(__name__)
_BUCKET = "tag"
_PAGE = "1000"
_MOST_PAGES = 20
_MOST_WAITING = 32
_CLOSING_SECONDS = 0.5
_E_MAIL = re.compile(r"[^@\s]+@[^@\s]+")
_UNUSABLE = re.compile(r"[\s,]")


def tag_id(name: str) -> str:
    """Derive the id of a tag's object: NFC, lower case, percent-encoded. Equal ids are equal tags."""
    return quote(unicodedata.normalize("NFC", name).lower(), safe="", errors="replace")


def is_listed(name: str) -> bool:
    """Tell whether a tag gets an object: e-mail addresses share a note and never do."""
    if not name or _E_MAIL.fullmatch(name) or _UNUSABLE.search(name):
        return False
    return len(tag_id(name)) <= LONGEST_ID


class TagList:
    """Create the tag objects of one account. One task runs at a time; ``close`` waits for it briefly."""

    def __init__(self, *, account: AccountSession, urls: Urls, client_id: str) -> None:
        self._account = account
        self._urls = urls
        self._client_id = client_id
        self._known: set[str] | None = None
        self._seen: set[str] = set()
        self._waiting: list[tuple[tuple[str, ...], Callable[[], Awaitable[Iterable[str]]]]] = []
        self._task: asyncio.Task[None] | None = None

    def list_tags(
        self, tags: Iterable[str], *, earlier: Callable[[], Awaitable[Iterable[str]]]
    ) -> None:
        """List the tags of a stored note; ``earlier`` fetches the tags it had before.

        Returns at once. Tags that the note had before are not ours to list.
        """
        unseen = tuple(tag for tag in tags if is_listed(tag) and tag_id(tag) not in self._seen)
        if not unseen or len(self._waiting) >= _MOST_WAITING:
            return
        self._waiting.append((unseen, earlier))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Wait a moment for the task, then cancel it."""
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait([task], timeout=_CLOSING_SECONDS)
        finally:
            task.cancel()
        await asyncio.wait([task])

    async def _work(self) -> None:
        while self._waiting:
            tags, earlier = self._waiting.pop(0)
            try:
                await self._complete(tags, earlier)
            except NotariumError as error:
                _LOG.debug("tag object not made: %s", type(error).__name__)

    async def _complete(
        self, tags: tuple[str, ...], earlier: Callable[[], Awaitable[Iterable[str]]]
    ) -> None:
        before = {tag_id(tag) for tag in await earlier()}
        self._seen |= before
        for tag in tags:
            if tag_id(tag) not in before and tag_id(tag) not in await self._listed_ids():
                await self._create(tag)
            self._seen.add(tag_id(tag))

    async def _create(self, tag: str) -> None:
        query = {"clientid": self._client_id, "ccid": uuid.uuid4().hex}
        request = Request(
            "POST",
            self._urls.item(_BUCKET, tag_id(tag), version=None, query=query),
            headers={"content-type": "application/json"},
            body=to_json({"name": tag}),
            write=True,
        )
        reply = await self._account.send(request)
        if reply.ok and self._known is not None:
            self._known.add(tag_id(tag))

    async def _listed_ids(self) -> set[str]:
        if self._known is None:
            self._known = await self._read_list()
        return self._known

    async def _read_list(self) -> set[str]:
        known: set[str] = set()
        mark = ""
        for _ in range(_MOST_PAGES):
            query = {"limit": _PAGE, "data": "1"} | ({"mark": mark} if mark else {})
            reply = await self._account.send(
                Request("GET", self._urls.bucket(_BUCKET, "index", query))
            )
            answer: Any = parse_json(reply.body) if reply.ok else {}
            known |= _names(answer)
            following = answer.get("mark") if isinstance(answer, dict) else None
            if not isinstance(following, str) or following in ("", mark):
                break
            mark = following
        return known


def _names(answer: Any) -> set[str]:
    """Return the ids derived from the names in a listing: its own ids follow several rules."""
    entries = answer.get("index") if isinstance(answer, dict) else None
    listed = entries if isinstance(entries, list) else ()
    objects = [item.get("d") for item in listed if isinstance(item, dict)]
    names = [found.get("name") for found in objects if isinstance(found, dict)]
    return {tag_id(name) for name in names if isinstance(name, str)}
