"""Run the contract with the in-memory store, which merges silently or refuses an old base."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from contract.store_contract import Bench, StoreContract
from mcp_notarium.stores.contract import Changes, Traits, Versions, WriteGuard
from support.memory_client import LIKE_SIMPERIUM, ROWS, Fault, MemoryClient, MemoryStore


class MemoryBench:
    def __init__(self, traits: Traits) -> None:
        self.service = MemoryStore()
        self.store = MemoryClient(self.service, traits=traits)
        self.secrets = ("no login",)

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        self.service.put(note_id, text, tags=tags, trash=trash)

    async def remove(self, note_id) -> None:
        self.service.remove(note_id)

    async def rename(self, old, new) -> None:
        self.service.rename(old, new)

    async def text(self, note_id) -> str:
        return self.service.text(note_id)

    def forget_cursors(self) -> None:
        self.service.forget_cursors()

    def forget_versions(self, note_id) -> None:
        self.service.forget_versions(note_id)

    def refuse_login(self) -> None:
        self._always(Fault.LOGIN)

    def answer(self, body) -> None:
        self._always(Fault.NONSENSE)

    def unreachable(self) -> None:
        self._always(Fault.UNAVAILABLE)

    def lose_answers(self, times) -> None:
        self._always(Fault.LOST_ANSWER, times)

    def lose_requests(self, times) -> None:
        self._always(Fault.TIMEOUT, times)

    def hang(self) -> None:
        self.store.faults.plan(Fault.HANG_AFTER, on="push")

    def _always(self, fault: Fault, times: int = 99) -> None:
        self.store.faults.clear()
        if times:
            self.store.faults.plan(fault, times=times)


class TestMemory(StoreContract):
    traits = LIKE_SIMPERIUM

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        bench = MemoryBench(self.traits)
        yield bench
        await bench.store.close()

    test_a_write_that_is_withdrawn_before_it_leaves_is_not_made = None
    """No request leaves: the tests that hold its calls say when one would."""


class TestMemoryRefusingOldBases(TestMemory):
    traits = replace(LIKE_SIMPERIUM, changes=Changes.FEED, write_guard=WriteGuard.CAS)


class TestMemoryListingVersions(TestMemory):
    traits = replace(ROWS["local"], versions=Versions.LISTED)


class TestLikeLocal(TestMemory):
    traits = ROWS["local"]


class TestLikeVault(TestMemory):
    traits = ROWS["vault"]


class TestLikeTrilium(TestMemory):
    traits = ROWS["trilium"]


class TestLikeMemento(TestMemory):
    traits = ROWS["memento"]


class TestLikeExample(TestMemory):
    traits = ROWS["example"]


class TestLikeEvents(TestMemory):
    traits = ROWS["events"]
