"""Act as a person on a running Trilium server, and give the contract's notes ids that it accepts.

``NOTARIUM_TEST_TRILIUM_URL`` and ``NOTARIUM_TEST_TRILIUM_TOKEN`` name a server of this machine whose notes may
all be deleted.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import httpx
import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.markup import html_codec
from mcp_notarium.secret import Secret
from mcp_notarium.stores.contract import ChangePage, ListingPage, VersionPage
from mcp_notarium.stores.extensions import Attachment, KeptFile
from mcp_notarium.stores.http import HttpSession, Reply, Request
from mcp_notarium.stores.http_rules import is_loopback
from mcp_notarium.stores.trilium.store import TriliumStore
from mcp_notarium.stores.trilium.urls import Urls
from support.simplenote_client import MemoryTokens

URL = os.environ.get("NOTARIUM_TEST_TRILIUM_URL", "")
TOKEN = os.environ.get("NOTARIUM_TEST_TRILIUM_TOKEN", "")
_TEXT = {"content-type": "text/plain; charset=utf-8"}


class Person:
    """Writes through the API, as an app of its own."""

    def __init__(self) -> None:
        if not is_loopback(httpx.URL(URL).host):
            raise RuntimeError("only a server of this machine is emptied")
        self.http = httpx.AsyncClient(
            base_url=f"{URL.rstrip('/')}/etapi", headers={"authorization": TOKEN}, timeout=30
        )

    async def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        reply = await self.http.request(method, path, **options)
        if reply.status_code == 404:
            raise KeyError(path)
        reply.raise_for_status()
        return reply

    async def erase(self) -> None:
        """Delete every note below the root."""
        for child in (await self.ask("GET", "/notes/root")).json()["childNoteIds"]:
            if not child.startswith("_"):
                await self.ask("DELETE", f"/notes/{child}")

    async def write(self, note_id: str, title: str, content: str, parent: str = "root") -> None:
        try:
            await self.ask("GET", f"/notes/{note_id}")
        except KeyError:
            value = {"parentNoteId": parent, "noteId": note_id, "title": title, "type": "text"}
            await self.ask("POST", "/create-note", json={**value, "content": content})
            return
        await self.ask("PATCH", f"/notes/{note_id}", json={"title": title})
        await self.ask("PUT", f"/notes/{note_id}/content", content=content, headers=_TEXT)

    async def read(self, note_id: str) -> str:
        return (await self.ask("GET", f"/notes/{note_id}/content")).text

    async def label(self, note_id: str, *names: str) -> None:
        """Give a note exactly these labels."""
        for one in (await self.ask("GET", f"/notes/{note_id}")).json()["attributes"]:
            if one["noteId"] == note_id:
                await self.ask("DELETE", f"/attributes/{one['attributeId']}")
        for place, name in enumerate(names, 1):
            value = {"noteId": note_id, "type": "label", "name": name, "value": ""}
            await self.ask("POST", "/attributes", json={**value, "position": 10 * place})


def open_store(session: HttpSession | None = None) -> TriliumStore:
    return TriliumStore(
        urls=Urls.from_settings(URL, plain_http=False),
        token=Secret(TOKEN),
        tokens=MemoryTokens(),
        timeout=30.0,
        session=session,
    )


@dataclass(frozen=True, slots=True)
class Span:
    """When something was on its way, by one stopwatch."""

    begin: float
    end: float

    def meets(self, other: Span) -> bool:
        return self.begin <= other.end and other.begin <= self.end


class TimedSession(HttpSession):
    """Remember when each request for a note was on its way."""

    def __init__(self) -> None:
        super().__init__(bases=[URL], timeout=30.0)
        self._sent: list[tuple[str, str, Span]] = []

    async def send(self, request: Request) -> Reply:
        begin = time.monotonic()
        try:
            return await super().send(request)
        finally:
            path = httpx.URL(request.url).path
            self._sent.append((request.method, path, Span(begin, time.monotonic())))

    def windows(self, note_id: str, *, lists_revisions: bool) -> list[Span]:
        """Return the times in which an edit by somebody else may be lost (docs/trilium.md).

        Each ends with a write of the note's text. It begins with the last look before that: with the revision, whose text
        can be read, or with the comparison after it, where nobody can read that.
        """
        note = f"/etapi/notes/{note_id}"
        found, looked = list[Span](), None
        for method, path, span in self._sent:
            match method, path.removeprefix(note):
                case "POST", "/revision":
                    looked = span.begin if lists_revisions else None
                case "GET", "" if not lists_revisions:
                    looked = span.begin
                case "PUT", "/content":
                    found.append(Span(span.begin if looked is None else looked, span.end))
                    looked = None
        return found


class Renaming:
    """The store, with longer ids at the server: Trilium refuses the contract's ``n1``."""

    def __init__(self, store: TriliumStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def list_page(self, **options: object) -> ListingPage:
        page = await self._store.list_page(**options)
        return replace(page, entries=tuple(replace(one, id=_near(one.id)) for one in page.entries))

    async def changes(self, cursor: str, **options: object) -> ChangePage:
        page = await self._store.changes(cursor, **options)
        return replace(page, changes=tuple(replace(one, id=_near(one.id)) for one in page.changes))

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        return _renamed(await self._store.get(_far(note_id), etag=etag))

    async def push(self, write):
        answer = await self._store.push(replace(write, note_id=_far(write.note_id)))
        return replace(answer, revision=_renamed(answer.revision))

    @property
    def largest_file(self) -> int:
        return self._store.largest_file

    @largest_file.setter
    def largest_file(self, value: int) -> None:
        self._store.largest_file = value

    async def keep_file(self, revision: Revision, name: str, kind: str, data: bytes) -> KeptFile:
        return await self._store.keep_file(_moved_away(revision), name, kind, data)

    async def list_attachments(self, revision: Revision) -> Sequence[Attachment]:
        return await self._store.list_attachments(_moved_away(revision))

    async def ask_attachments(self, revision: Revision, **options: float) -> Sequence[Attachment]:
        return await self._store.ask_attachments(_moved_away(revision), **options)

    async def find_owners(self, base: Revision | None, content: Content) -> set[str]:
        found = await self._store.find_owners(base and _moved_away(base), content)
        return {_near(one) for one in found}

    def id_of_link(self, note_id: str, target: str) -> str:
        return self._store.id_of_link(_far(note_id), target)

    async def find_version(self, note_id: str, content: Content, **options) -> Revision | None:
        found = await self._store.find_version(_far(note_id), content, **options)
        return found and _renamed(found)

    async def make_day(self, day: str) -> str:
        note_id = await self._store.make_day(day)
        _PREFIX.days.add(note_id)
        return note_id

    async def list_versions(self, note_id: str, **options: object) -> VersionPage:
        page = await self._store.list_versions(_far(note_id), **options)
        return replace(page, revisions=tuple(map(_renamed, page.revisions)))

    async def delete(self, note_id: str, **options: object) -> None:
        await self._store.delete(_far(note_id), **options)


class _Prefix:
    """What ids begin with: of each bench otherwise, for a note under the id of a deleted one gets its revisions."""

    def __init__(self) -> None:
        self.now = ""
        self.days = set[str]()
        """Ids that the server has given; they stay as they are."""

    def renew(self) -> None:
        self.now = f"contract_{secrets.token_hex(3)}_"


_PREFIX = _Prefix()


def _far(note_id: str) -> str:
    return note_id if note_id in _PREFIX.days else _PREFIX.now + note_id


def _near(note_id: str) -> str:
    return note_id.removeprefix(_PREFIX.now)


def _moved_away(revision: Revision) -> Revision:
    return replace(revision, id=_far(revision.id))


def _renamed(revision: Revision) -> Revision:
    return replace(revision, id=_near(revision.id))


class RealBench:
    """A store on an emptied server. What needs a broken network is skipped."""

    def __init__(self, person: Person) -> None:
        self.person = person
        _PREFIX.renew()
        self.store = Renaming(open_store())

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        await self.person.write(_far(note_id), "", html_codec.to_html(text))
        await self.person.label(_far(note_id), *tags)

    async def remove(self, note_id) -> None:
        await self.person.ask("DELETE", f"/notes/{_far(note_id)}")

    async def text(self, note_id) -> str:
        return html_codec.to_markdown(await self.person.read(_far(note_id)))

    def forget_cursors(self) -> None:
        """There are none."""

    def forget_versions(self, note_id) -> None:
        """The server keeps them."""

    def __getattr__(self, name: str) -> object:
        pytest.skip(f"a real server cannot be told to {name.replace('_', ' ')}")


@asynccontextmanager
async def real_bench() -> AsyncIterator[RealBench]:
    person = Person()
    await person.erase()
    bench = RealBench(person)
    try:
        yield bench
    finally:
        await bench.store.close()
        await person.http.aclose()
