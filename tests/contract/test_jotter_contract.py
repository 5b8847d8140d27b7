"""Run the contract with the worked example of ``docs/new-store.md``, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from contract.store_contract import Bench, StoreContract, TreeContract
from mcp_notarium.errors import CursorLost, IdTaken, StoreProtocolError
from notarium_devtools.jotter.simulator import JotterSimulator
from support.jotter_client import open_jotter

WRITES = ("POST", "PUT", "DELETE")


class JotterBench:
    def __init__(self, sim: JotterSimulator) -> None:
        self.sim = sim
        self.store = open_jotter(sim)
        self.secrets = (sim.token,)

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        self.sim.write(note_id, body=text, deleted_time=int(trash))

    async def remove(self, note_id) -> None:
        self.sim.remove(note_id)

    async def put_folder(self, folder_id, title, above) -> None:
        self.sim.write_notebook(folder_id, title, above)

    async def place(self, note_id, folder_id) -> None:
        self.sim.write(note_id, parent_id=folder_id)

    def folders_of(self, note_id) -> set[str]:
        return {self.sim.notes[note_id]["parent_id"]}

    async def text(self, note_id) -> str:
        return self.sim.notes[note_id]["body"]

    def forget_cursors(self) -> None:
        self.sim.forget_events()

    def forget_versions(self, note_id) -> None:
        """There are none."""

    def refuse_login(self) -> None:
        self.sim.faults.clear()
        self.sim.token = "another"

    def answer(self, body) -> None:
        self.sim.faults.clear()
        self.sim.faults.status(200, body=body, times=99)

    def unreachable(self) -> None:
        self.sim.stop_listening()

    def lose_answers(self, times) -> None:
        self.sim.faults.clear()
        for method in WRITES if times else ():
            self.sim.faults.cut_after(method=method, times=times)

    def lose_requests(self, times) -> None:
        self.sim.faults.clear()
        for method in WRITES if times else ():
            self.sim.faults.cut_before(method=method, times=times)

    def hang(self) -> None:
        self.sim.faults.delay(30, after=True, method="PUT")


class TestJotter(StoreContract, TreeContract):
    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        async with JotterSimulator().serving() as sim:
            bench = JotterBench(sim)
            yield bench
            await bench.store.close()

    async def test_update_keeps_unknown_fields_and_the_creation_date(self, bench) -> None:
        """A write sends nothing but the fields that change."""
        before = dict(bench.sim.write("n1", body="one\n", latitude=1.5, is_todo=1))
        base = await bench.store.get("n1")
        content = replace(base.content, text="two\n")
        write = self.write(bench.store, "n1", content, base=base, write_id="0b", now=1_700_000_500)
        answer = await bench.store.push(write)
        assert answer.revision.modified_at == 1_700_000_500
        after = bench.sim.notes["n1"]
        changed = {name for name in after if after[name] != before[name]}
        assert changed == {"body", "user_updated_time", "updated_time"}

    async def test_a_removal_during_a_listing_by_page_numbers_begins_it_again(self, bench) -> None:
        for number in range(6):
            await bench.put(f"n{number}", "x")
        page = await bench.store.list_page(since=None, mark=None, limit=2, with_content=True)
        await bench.remove("n5")
        with pytest.raises(CursorLost):
            await bench.store.list_page(since=None, mark=page.next_mark, limit=2, with_content=True)

    async def test_another_place_of_a_notebook_is_another_etag_of_its_notes(self, bench) -> None:
        bench.sim.write_notebook("work", "Work")
        bench.sim.write_notebook("plans", "Plans")
        bench.sim.write("n1", body="x", parent_id="plans", is_todo=1)
        cursor, (before,) = await self.whole_listing(bench.store, limit=9)
        bench.sim.write_notebook("plans", "Plans", "work")
        with pytest.raises(CursorLost):
            await self.feed(bench, cursor)
        _, (after,) = await self.whole_listing(bench.store, limit=9)
        beside = bench.store.traits.beside
        assert beside(before) == {"notebook": "Plans"}
        assert beside(after) == {"notebook": "Work/Plans"}
        assert after.etag != before.etag

    async def test_a_new_note_never_overwrites_one_with_its_id(self, bench) -> None:
        await bench.put("n1", "of somebody else\n")
        with pytest.raises(IdTaken):
            await self.create(bench, "n1", "mine\n")
        assert await bench.text("n1") == "of somebody else\n"

    @pytest.mark.parametrize(
        "spoiled", [{"body": None}, {"title": 7}, {"is_todo": True}, {"user_created_time": 1e300}]
    )
    async def test_a_note_that_cannot_be_read_is_left_out_and_its_save_refused(
        self, bench, spoiled
    ) -> None:
        await bench.put("n1", "x")
        await bench.put("n2", "x")
        bench.sim.notes["n1"] |= spoiled
        page = await bench.store.list_page(since=None, mark=None, limit=9, with_content=True)
        assert ([entry.id for entry in page.entries], page.left_out) == (["n2"], 1)
        with pytest.raises(StoreProtocolError):
            await bench.store.get("n1")
