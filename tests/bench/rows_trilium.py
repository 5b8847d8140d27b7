"""Measure a Trilium account: first sync, refreshes with and without a change, memory."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figure
from bench.processes import CONSOLE, DEADLINE, Child, Speaker, WrongAnswer, script, surroundings
from bench.site import Site
from mcp_notarium import config
from mcp_notarium.app import open_app
from mcp_notarium.sync.cycle_states import Event

Taken = tuple[int, int, float]
"""Requests, bytes of both directions, seconds."""


def trilium(site: Site) -> Iterator[Figure]:
    """Rows of a server with as many notes, each a text of some lines."""
    folder = site.folder / "trilium"
    folder.mkdir()

    def figure(row: str, unit: str, value: float) -> Figure:
        return Figure("trilium", row, site.count, unit, value)

    with Child(script("trilium_service", str(site.count))) as service:
        card = service.receive()
        settings = surroundings(
            NOTARIUM_STORE="trilium",
            NOTARIUM_DATA_DIR=str(folder),
            NOTARIUM_KEYCHAIN="off",
            DB_ENCRYPTION_KEY="raw:" + "5a" * 32,
            LOG_LEVEL="error",
            TRILIUM_URL=card["url"],
            TRILIUM_TOKEN=card["token"],
        )
        with Speaker(CONSOLE, settings) as server:
            server.greet()
            wait_for(server, site.count)
            yield figure("first sync", "s", server.age)
            requests, size = _traffic(service)
            yield figure("first sync, requests", "", requests)
            yield figure("first sync, bytes", "MB", size / 1e6)
            site.settle(server)
            yield figure("memory, at most", "MB", server.memory("VmHWM"))
            yield figure("memory, at rest", "MB", server.memory())
        for kind, taken in asyncio.run(_refreshes(site, settings, service)).items():
            requests, size, seconds = map(statistics.median, zip(*taken, strict=True))
            yield figure(f"refresh, {kind}: requests", "", requests)
            yield figure(f"refresh, {kind}: bytes", "bytes", size)
            yield figure(f"refresh, {kind}", "ms", seconds * 1000)


def wait_for(server: Speaker, count: int) -> None:
    """Wait until so many notes are there and nothing is missing."""
    deadline = time.monotonic() + DEADLINE
    while True:
        answer = server.tool("list", limit=1)
        if answer["total_items"] == count and not answer.get("sync"):
            return
        if time.monotonic() > deadline:
            raise WrongAnswer(f"{answer['total_items']} notes, never {count}")
        time.sleep(0.05)


def _traffic(service: Child) -> tuple[int, int]:
    service.send({})
    told = service.receive()
    return told["requests"], told["bytes"]


async def _refreshes(
    site: Site, settings: dict[str, str], service: Child
) -> dict[str, list[Taken]]:
    """Refresh with and without a change, as a server does every interval, which nobody waits for here."""
    loaded = config.load(settings, cwd=Path(settings["NOTARIUM_DATA_DIR"])).config
    async with open_app(loaded, syncing=False) as app:

        async def refresh() -> Taken:
            before, began = _traffic(service), time.perf_counter()
            await app.scheduler._runner.work(Event.DUE)
            took, after = time.perf_counter() - began, _traffic(service)
            return after[0] - before[0], after[1] - before[1], took

        await refresh()
        idle = [await refresh() for _ in range(site.pace.changes)]
        changed = []
        for number in range(site.pace.changes):
            service.send({"put": f"Bench{number}00000", "content": f"New {number}\na line\n"})
            service.receive()
            changed.append(await refresh())
        counts = app.cache.notes.counts()
        if counts.total != site.count + site.pace.changes:
            raise WrongAnswer(f"{counts.total} notes after {site.pace.changes} changes")
    return {"no change": idle, "one change": changed}
