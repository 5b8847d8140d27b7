"""Run the contract with Simplenote, against an embedded Simperium over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from contract.store_contract import Bench, StoreContract
from notarium_devtools.simperium import Simulator
from support.simplenote_client import open_store


class SimplenoteBench:
    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.store = open_store(sim)
        self.secrets = (sim.password, sim.token)

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        self.sim.put(note_id, content=text, tags=list(tags), deleted=trash)

    async def remove(self, note_id) -> None:
        self.sim.delete(note_id)

    async def text(self, note_id) -> str:
        return self.sim.note(note_id)["content"]

    def forget_cursors(self) -> None:
        self.sim.bucket().forget_changes()

    def forget_versions(self, note_id) -> None:
        entity = self.sim.bucket()._find(note_id)
        entity.versions = {entity.version: entity.head}

    def refuse_login(self) -> None:
        self.sim.faults.clear()
        self.sim.change_password("another password")

    def answer(self, body) -> None:
        self.sim.faults.clear()
        self.sim.faults.status(200, body=body, times=99)

    def unreachable(self) -> None:
        self.sim.stop_listening()

    def lose_answers(self, times) -> None:
        self.sim.faults.clear()
        if times:
            self.sim.faults.cut_after(path="*/note/*", times=times)

    def lose_requests(self, times) -> None:
        self.sim.faults.clear()
        if times:
            self.sim.faults.cut_before(path="*/note/*", times=times)

    def hang(self) -> None:
        self.sim.faults.delay(30, after=True, method="POST", path="*/note/i/*")


class TestSimplenote(StoreContract):
    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        async with Simulator().serving() as sim:
            bench = SimplenoteBench(sim)
            yield bench
            await bench.store.close()
