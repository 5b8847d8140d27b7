"""Measure an idle server: its cost, and how soon it has changes from elsewhere."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from bench import corpus
from bench.measure import Figure
from bench.processes import CONSOLE, HELLO, PATIENCE, Speaker, WrongAnswer
from bench.site import Site, serving

_note = "f" * 31


def idle(site: Site) -> Iterator[Figure]:
    """Rows for rest, and for changes by another device. Adds notes to the account."""
    base = site.service.card["relay"]
    addresses = {
        "SIMPERIUM_API_URL": f"{base}/1",
        "SIMPERIUM_AUTH_URL": f"{base}/1",
        "SIMPLENOTE_APP_URL": base,
    }
    with serving(site.encrypted() | addresses) as server:
        site.wait(server)
        _rest(site)
        cpu, began = server.cpu(), time.monotonic()
        time.sleep(site.pace.idle)
        share = (server.cpu() - cpu) / (time.monotonic() - began) * 100
        yield Figure("idle", "share of a core", site.count, "%", share)
        yield Figure("memory", "at rest, warm", site.count, "MB", server.memory())
        server.tool("get", id=corpus.note_id(0))  # after it, what changes a note is imported
        site.settle(server)
        yield Figure("memory", "at rest, after a get", site.count, "MB", server.memory())
        seen, requests, sizes = [], [], []
        for number in range(site.pace.changes):
            before = site.service.order(traffic=True)
            seen.append(_change(site, server, number))
            after = _rest(site)
            requests.append(after["relayed"] - before["relayed"])
            sizes.append(after["bytes"] - before["bytes"])
    yield Figure("idle", "change seen", site.count, "ms", statistics.median(seen) * 1000)
    yield Figure("idle", "requests a refresh", site.count, "", statistics.median(requests))
    yield Figure("idle", "bytes a refresh", site.count, "bytes", statistics.median(sizes))


def before_the_first_call(site: Site) -> Iterator[Figure]:
    """Memory of a server that was greeted and asked for its tools, and of one that has listed and read."""
    shaken, settled = _greeted(site, site.encrypted())
    older = {name: _greeted(site, old) for name, old in site.older().items()}
    first = {name: each[0] for name, each in older.items()}
    second = {name: each[1] for name, each in older.items()}
    yield Figure("memory", "after initialize", site.count, "MB", shaken, floors=first)
    yield Figure("memory", "before the first call", site.count, "MB", settled, floors=second)
    with serving(site.encrypted()) as server:
        for number in range(50):
            server.tool("list")
            server.tool("get", id=corpus.note_id(number))
        yield Figure("memory", "after 100 calls", site.count, "MB", server.memory())


def _greeted(site: Site, settings: dict[str, str]) -> tuple[float, float]:
    """Return MB behind the handshake, and when the server has done what it does unasked."""
    with Speaker(CONSOLE, settings) as server:
        server.ask("initialize", HELLO)
        shaken = server.memory()
        server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        server.ask("tools/list")
        time.sleep(site.pace.quiet)
        return shaken, server.memory()


def _rest(site: Site) -> dict[str, int]:
    """Wait until nothing has passed for a while; the traffic so far."""
    traffic: dict[str, int] = {}
    while (now := site.service.order(traffic=True)) != traffic:
        traffic = now
        time.sleep(site.pace.quiet)
    return traffic


def _change(site: Site, server: Speaker, number: int) -> float:
    """Another device writes a note; seconds until ``list`` has it."""
    note_id = f"{_note}{number:x}"
    began = time.perf_counter()
    site.service.order(put=note_id, content=f"from elsewhere {number}\n" + "a line\n" * 30)
    site.saved += 1
    deadline = time.monotonic() + PATIENCE
    while server.tool("list", limit=1)["total_items"] != site.expected:
        if time.monotonic() > deadline:
            raise WrongAnswer("a change elsewhere is never seen")
        time.sleep(0.01)
    return time.perf_counter() - began
