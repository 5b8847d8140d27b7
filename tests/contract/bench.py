"""Define the bench of a contract test: the store under test, and another device."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.stores.contract import Entry, Store
from support.journal_entries import make_write


class Bench(Protocol):
    """One store under test."""

    store: Store
    secrets: Sequence[str]
    """What lets the client in."""

    async def put(
        self, note_id: str, text: str, *, tags: tuple[str, ...] = (), trash: bool = False
    ) -> None:
        """Another device creates or overwrites a note."""

    async def remove(self, note_id: str) -> None:
        """Another device deletes a note for good."""

    async def rename(self, old: str, new: str) -> None:
        """Another device gives a note another id. Never called where notes have no identity."""

    async def put_folder(self, folder_id: str, title: str, above: str) -> None:
        """Another device makes a folder in another one; '' is the top. Called with the trait ``tree``, as the next three."""

    async def place(self, note_id: str, folder_id: str) -> None:
        """Another device moves a note to a folder."""

    def folders_of(self, note_id: str) -> set[str]:
        """The folders that a note is in."""

    async def publish(self, folder_id: str) -> None:
        """Another device lets everybody read what is in a folder."""

    async def put_file(self, path: str, data: bytes) -> None:
        """Another program writes a file that is no note. Called where ids are paths, as the next."""

    def file(self, path: str) -> bytes | None:
        """The bytes of a file; None: nothing is there."""

    async def text(self, note_id: str) -> str:
        """The text the store holds. ``KeyError`` if the note is gone."""

    def forget_cursors(self) -> None:
        """The store no longer knows any cursor given out so far."""

    def forget_versions(self, note_id: str) -> None:
        """The store no longer knows any version of a note but the newest."""

    def refuse_login(self) -> None:
        """No login works from now on."""

    def answer(self, body: bytes) -> None:
        """Whatever is asked from now on is answered with this."""

    def unreachable(self) -> None:
        """Nothing sent from now on arrives."""

    def lose_answers(self, times: int) -> None:
        """The next ``times`` requests that write are carried out and not answered."""

    def lose_requests(self, times: int) -> None:
        """The next ``times`` requests that write arrive and are cut off before anything is done."""

    def hang(self) -> None:
        """The next write is not answered for a long while."""

    def begin(self) -> None:
        """Begin a durable transaction of the database, for a store that has its notes there."""

    def roll_back(self) -> None:
        """Undo the transaction."""


def nothing_known(_note_id: str) -> Revision | None:
    return None


class OnABench:
    """What the parts of the contract share; it has no tests."""

    pytestmark = pytest.mark.anyio
    over_network = True
    """False for files: there is no login to refuse, and no request that gets lost on its way."""

    def open_bench(self) -> AbstractAsyncContextManager[Bench]:
        """A fresh store with a client; what it opens it closes."""
        raise AssertionError("a contract needs a bench")

    @pytest.fixture
    async def bench(self, anyio_backend: str) -> AsyncIterator[Bench]:
        async with self.open_bench() as bench:
            yield bench

    def as_stored(self, content: Content) -> Content:
        """What the store makes of a content: itself, unless it keeps texts in another form."""
        return content

    write = staticmethod(make_write)

    @classmethod
    async def create(
        cls, bench: Bench, note_id: str, text: str, *, write_id: str = "c1", trash: bool = False
    ) -> Revision:
        content = Content(text, trash=trash)
        write = cls.write(bench.store, note_id, content, write_id=write_id)
        return (await bench.store.push(write)).revision

    @staticmethod
    async def whole_listing(
        store: Store, *, limit: int, since: str | None = None, with_content: bool = True
    ) -> tuple[str, list[Revision | Entry]]:
        entries: list[Revision | Entry] = []
        first = page = await store.list_page(
            since=since, mark=None, limit=limit, with_content=with_content
        )
        for _ in range(100):
            entries += page.entries
            if page.next_mark is None:
                return first.cursor, entries
            page = await store.list_page(
                since=since, mark=page.next_mark, limit=limit, with_content=with_content
            )
        raise AssertionError("the listing never ends")
