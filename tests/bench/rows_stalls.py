"""Measure what holds the event loop up: the merging after a first sync, and records of many calls at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.measure import Act, Figure, Taken, timed
from bench.processes import CONSOLE, Speaker
from bench.site import Site

_SECONDS = 3.0
"""How long each is watched: what a first sync of 50,000 notes leaves to be merged takes that long."""
_REST = 1.0
"""Time without a new note after which a server merges its index."""
_PAUSE = 0.005


def stalls(site: Site) -> Iterator[Figure]:
    """Rows of a server that has just synced, of the same at rest, and of one that gets call after call.

    The loop answers a ``ping`` as soon as it is free, so the slowest ping shows how long it was not.
    """
    card = site.service.card
    settings = site.fresh("stalls", SIMPLENOTE_TOKEN=card["token"], SIMPLENOTE_PASSWORD="")
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        site.wait(server)
        time.sleep(min(_REST, site.pace.idle))
        yield from _watched(site, server, "just synced")
        site.settle(server)
        yield from _watched(site, server, "settled")
        calls = _repeat(site, lambda: server.tool("list", limit=1), pause=0.0)
        yield _figure(site, "list, without a pause", calls)


def _watched(site: Site, server: Speaker, when: str) -> Iterator[Figure]:
    pings: list[float] = []
    lists: list[float] = []

    def both() -> None:
        pings.append(timed(lambda: server.ask("ping")))
        lists.append(timed(lambda: server.tool("list", limit=20)))

    _repeat(site, both, pause=_PAUSE)
    yield _figure(site, f"ping, {when}", pings)
    yield _figure(site, f"list, {when}", lists)


def _repeat(site: Site, act: Act, *, pause: float) -> list[float]:
    times = []
    ends = time.monotonic() + min(_SECONDS, site.pace.idle)
    while time.monotonic() < ends:
        times.append(timed(act))
        time.sleep(pause)
    return times


def _figure(site: Site, row: str, times: list[float]) -> Figure:
    taken = Taken(times)
    return Figure("stalls", row, site.count, "ms", taken.median * 1000, taken.p99 * 1000)
