"""Measure the first sync of an empty cache, against reading the same pages and dropping them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from bench import corpus
from bench.measure import Figure, Taken, turned
from bench.processes import CONSOLE, DEADLINE, Speaker, WrongAnswer
from bench.raw import filled
from bench.site import Site, database

LATENCIES = {0: 0.0, 40: 0.04}
_FIRST_PAGE, _PAGE = 100, 1000
_SLOW = 0.5
"""Seconds per answer that stand out from the noise of a start."""


@dataclass(slots=True)
class _Load:
    """What was seen of the first syncs at one latency; seconds and MB."""

    wire: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)
    peak: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    requests: int = 0
    bodies: int = 0


def first_sync(site: Site) -> Iterator[Figure]:
    """Rows for each latency, and the memory it took."""
    loads = {ms: _Load() for ms in LATENCIES}
    older = {ms: _Load() for ms in LATENCIES} if site.against else {}
    rounds = site.pace.syncs if site.count <= 10_000 else 1
    for number in range(rounds):
        for ms, load in turned(loads.items(), number):
            site.service.order(latency=LATENCIES[ms])
            load.wire.append(_wire(site))
            _one(site, load, _new(site, f"sync-{ms}-{number}"), "encrypted")
            if site.against:
                settings = _new(site, f"older-{ms}-{number}") | site.against.variables
                _one(site, older[ms], settings, "older")
            site.service.order(latency=0.0)
    for ms, load in loads.items():
        yield from _figures(site, load, older.get(ms), ms)
    meanwhile = Taken(_meanwhile(site))
    value, p99 = meanwhile.median * 1000, meanwhile.p99 * 1000
    yield Figure("first sync", "calls meanwhile", site.count, "ms", value, p99)
    trips = _round_trips(site)
    yield Figure("first sync", "round trips before the first list", site.count, "", trips)
    old = older.get(0)
    yield _work(site, loads[0].cpu, old.cpu if old else None)
    for row, values, before in (
        ("peak, first sync", loads[0].peak, old.peak if old else None),
        ("after the first sync", loads[0].after, old.after if old else None),
    ):
        beside = _beside(site, before)
        yield Figure("memory", row, site.count, "MB", statistics.median(values), floors=beside)


def _work(site: Site, cpu: list[float], before: list[float] | None) -> Figure:
    """Return the processor time of a first sync; other work on the machine changes it less than the time."""
    plain = database(site.plain())
    files = (site.folder / f"filled-{number}.sqlite" for number in range(site.pace.syncs))
    bare = [filled(plain, file) for file in files]
    floors = {"the same rows, encrypted": statistics.median(bare)} | _beside(site, before)
    value = statistics.median(cpu)
    return Figure("first sync", "processor time at 0 ms", site.count, "s", value, floors=floors)


def _beside(site: Site, values: list[float] | None) -> dict[str, float]:
    """Return the older build's median under its name."""
    return {site.against.name: statistics.median(values)} if site.against and values else {}


def _figures(site: Site, load: _Load, older: _Load | None, ms: int) -> Iterator[Figure]:
    def figure(row: str, values: list[float], before: list[float] | None) -> Figure:
        floors = {"wire": statistics.median(load.wire)} if "all notes" in row else {}
        floors |= _beside(site, before)
        return Figure("first sync", row, site.count, "s", statistics.median(values), floors=floors)

    yield figure(f"all notes at {ms} ms", load.all, older.all if older else None)
    yield figure(f"launch to the first list at {ms} ms", load.first, older.first if older else None)
    rest = [whole - first for whole, first in zip(load.all, load.first, strict=True)]
    yield figure(f"first list to all notes at {ms} ms", rest, None)
    if ms == 0:
        yield Figure("first sync", "requests", site.count, "", load.requests)
        yield Figure("first sync", "bytes of bodies", site.count, "MB", load.bodies / 1e6)


def _one(site: Site, load: _Load, settings: dict[str, str], name: str) -> None:
    before = site.service.order(traffic=True)
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        newest = corpus.note_id(corpus.newest(site.count))
        if server.tool("list")["content"][0]["uuid"] != newest:
            raise WrongAnswer("the first list does not begin with the newest note")
        load.first.append(server.age)
        site.wait(server)
        load.all.append(server.age)
        load.cpu.append(server.cpu_ever())
        load.peak.append(server.memory("VmHWM"))
        after = site.service.order(traffic=True)
        site.settle(server)  # what is measured is how it stands when nothing is left to be done
        load.after.append(server.memory())
    load.requests = after["requests"] - before["requests"]
    load.bodies = after["bodies"] - before["bodies"]
    site.adopt(name, settings)


def _meanwhile(site: Site) -> list[float]:
    """Seconds of calls of every kind, one every 20 ms, during a first sync of its own."""
    newest = corpus.newest(site.count)
    calls: list[tuple[str, dict[str, object]]] = [
        ("list", {}),
        ("list", {"query": f"common{newest % 5}"}),
        ("list", {"query": f"unique{newest}"}),
        ("list", {"query": f"tag:project-{newest % 50}"}),
        ("get", {"id": corpus.note_id(newest)}),
    ]
    times: list[float] = []
    with Speaker(CONSOLE, _new(site, "meanwhile")) as server:
        server.greet()
        server.tool("list")
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            tool, arguments = calls[len(times) % len(calls)]
            began = time.perf_counter()
            answer = server.tool(tool, **arguments)
            times.append(time.perf_counter() - began)
            if (
                arguments == {}
                and answer["total_items"] == site.expected
                and not answer.get("sync")
            ):
                return times
            time.sleep(0.02)
    raise WrongAnswer(f"never {site.expected} notes")


def _round_trips(site: Site) -> float:
    """How much later the first list comes if every answer is slow, in answers."""
    times: dict[float, list[float]] = {0.0: [], _SLOW: []}
    for number in range(site.pace.syncs + 1):
        for latency in turned(times, number):
            site.service.order(latency=latency)
            with Speaker(CONSOLE, _new(site, f"trips-{latency}-{number}")) as server:
                server.greet()
                server.tool("list")
                times[latency].append(server.age)
            site.service.order(latency=0.0)
    return (statistics.median(times[_SLOW]) - statistics.median(times[0.0])) / _SLOW


def _new(site: Site, name: str) -> dict[str, str]:
    """An empty cache with a token: who logs in by password does that once, and has one request more."""
    return site.fresh(name, SIMPLENOTE_TOKEN=site.service.card["token"], SIMPLENOTE_PASSWORD="")


def _wire(site: Site) -> float:
    """Seconds for all pages over one connection: each needs the mark of the one before."""
    card = site.service.card
    url = f"{card['url']}/1/{card['app_id']}/note/index"
    began = time.perf_counter()
    with httpx.Client(headers={"X-Simperium-Token": card["token"]}, trust_env=False) as client:
        mark, size = "", _FIRST_PAGE
        while True:
            query = {"data": "1", "limit": str(size)} | ({"mark": mark} if mark else {})
            body = client.get(url, params=query).content
            _, found, rest = body.rpartition(b'"mark"')
            if not found:
                return time.perf_counter() - began
            mark, size = rest.split(b'"')[1].decode(), _PAGE


def size(site: Site) -> Iterator[Figure]:
    """Bytes on disk of a loaded cache that no server has open, against the texts alone."""
    texts = sum(len(note["content"].encode()) for _, note in corpus.notes(site.count)) / 1e6
    encrypted, plain = (
        _on_disk(database(settings)) for settings in (site.encrypted(), site.plain())
    )
    floors = {"texts alone": texts, "without a key": plain}
    floors |= {name: _on_disk(database(old)) for name, old in site.older().items()}
    yield Figure("size", "database", site.count, "MB", encrypted, floors=floors)


def _on_disk(path: Path) -> float:
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6
