"""Run the contract with the local notebook, over a database that two processes have open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from contract.bench import nothing_known
from contract.store_contract import AttachmentsContract, Bench, KeepingContract, StoreContract
from mcp_notarium.domain.note import Tombstone
from mcp_notarium.errors import CursorLost
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.local import store as local
from mcp_notarium.stores.local.store import LocalStore
from support.local_notebook import OtherProcess
from support.sync_rig import open_cache, quick_folder


class LocalBench:
    """Another process has the same database open."""

    secrets = ()

    def __init__(self, one: Cache, other: Cache) -> None:
        self.database = one.database
        self.store = LocalStore(one.database)
        self.other = OtherProcess(other)

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        self.other.put(note_id, text, tags=tags, trash=trash)

    async def remove(self, note_id) -> None:
        self.other.remove(note_id)

    async def text(self, note_id) -> str:
        return self.other.contents()[note_id].text

    def forget_cursors(self) -> None:
        self.other.forget_cursors()

    def forget_versions(self, note_id) -> None: ...

    def refuse_login(self) -> None: ...

    def answer(self, body) -> None: ...

    def unreachable(self) -> None: ...

    def lose_answers(self, times) -> None: ...

    def lose_requests(self, times) -> None: ...

    def hang(self) -> None: ...

    def begin(self) -> None:
        self._open = self.database.transaction(durable=True)
        self._open.__enter__()

    def roll_back(self) -> None:
        with suppress(InterruptedError):
            self._open.__exit__(InterruptedError, InterruptedError(), None)


class TestLocal(StoreContract, AttachmentsContract, KeepingContract):
    over_network = False

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with quick_folder() as folder:
            one, other = open_cache(folder), open_cache(folder)
            yield LocalBench(one, other)
            one.close()
            other.close()

    async def test_no_number_is_given_twice(self, bench: LocalBench) -> None:
        first = await self.create(bench, "n1", "x", trash=True)
        await bench.store.delete("n1", etag=first.etag, write_id="0d")
        second = await self.create(bench, "n2", "y", write_id="c2")
        assert first.etag == "1"
        assert second.etag == "3"
        # It counts the changes of every note, so a caller who sees some of them is not told it.
        assert second.server_version is None

    async def test_a_cursor_is_lost_with_the_removals_after_it(
        self, bench: LocalBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(local, "MOST_REMOVED", 2)
        cursor, _ = await self.whole_listing(bench.store, limit=9)
        for number in range(3):
            made = await self.create(bench, f"n{number}", "x", write_id=f"c{number}", trash=True)
            await bench.store.delete(made.id, etag=made.etag, write_id="0d")
        with pytest.raises(CursorLost):
            await bench.store.changes(cursor, wait=False, base_of=nothing_known)
        page = await bench.store.changes("2", wait=False, base_of=nothing_known)
        assert page.changes == (Tombstone("n1"), Tombstone("n2"))
        for foreign in ("7", "-1", "9" * 40, "²"):
            with pytest.raises(CursorLost):
                await bench.store.changes(foreign, wait=False, base_of=nothing_known)

    async def test_changes_come_in_pages(
        self, bench: LocalBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(local, "MOST_LISTED", 2)
        for number in range(3):
            await bench.put(f"n{number}", "x")
        first = await bench.store.changes("0", wait=False, base_of=nothing_known)
        second = await bench.store.changes(first.cursor, wait=False, base_of=nothing_known)
        assert [one.id for one in (*first.changes, *second.changes)] == ["n0", "n1", "n2"]
        assert second.cursor == "3"

    async def test_a_removed_note_leaves_no_text(self, bench: LocalBench) -> None:
        made = await self.create(bench, "n1", "canary", trash=True)
        await bench.store.delete("n1", etag=made.etag, write_id="0d")
        tables = ("notebook", "notebook_notes", "notebook_removed")
        left = [bench.database.rows(f"SELECT * FROM {table}") for table in tables]
        assert left == [[(1, 2, 0)], [], [("n1", 2)]]
