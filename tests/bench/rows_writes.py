"""Measure saves, with and without a key, against the bare request that each of them needs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx

from bench.measure import Figure, Taken, timed
from bench.processes import PATIENCE, Speaker, WrongAnswer
from bench.site import Site, serving

_numbers = itertools.count(1)


def writes(site: Site) -> Iterator[Figure]:
    """Rows for a new note and for a new text of one. Adds notes to the account."""
    with ExitStack() as stack:
        servers = {
            "ours": stack.enter_context(serving(site.encrypted())),
            "plain": stack.enter_context(serving(site.plain())),
        }
        older = site.older()
        servers |= {name: stack.enter_context(serving(old)) for name, old in older.items()}
        client = stack.enter_context(_client(site))
        made = {name: _Saves(site, server) for name, server in servers.items()}
        for row, kind in (("save, new note", "create"), ("save, new text", "update")):
            times: dict[str, list[float]] = {name: [] for name in (*servers, "POST")}
            for _ in range(site.pace.saves):
                for name, saves in made.items():
                    times[name].append(timed(getattr(saves, kind)))
                    for other in servers.values():
                        _seen(other, saves.last)
                times["POST"].append(timed(_post(client, site)))
            taken = {name: Taken(values) for name, values in times.items()}
            beside = {name: taken[name].median * 1000 for name in older}
            yield from _figures(site, row, taken, beside)


def _figures(
    site: Site, row: str, taken: dict[str, Taken], beside: dict[str, float]
) -> Iterator[Figure]:
    ours, plain, post = (taken[name].median * 1000 for name in ("ours", "plain", "POST"))
    floors = {"bare request": post, "without a key": plain} | beside
    p99 = taken["ours"].p99 * 1000
    yield Figure("writes", row, site.count, "ms", ours, p99, floors)
    yield Figure("encryption", row, site.count, "x", ours / plain, floors={"without a key": 1.0})


class _Saves:
    """One server's saves: a note made and changed."""

    def __init__(self, site: Site, server: Speaker) -> None:
        self._site = site
        self._server = server
        self.last: dict[str, Any] = {}

    def create(self) -> None:
        """A new note."""
        self.last = self._server.tool("save", text=_text(), return_text=True)
        self._site.saved += 1

    def update(self) -> None:
        """A new text of the last one."""
        version = self.last["local_version"]
        self.last = self._server.tool(
            "save", id=self.last["id"], local_version=version, text=_text(), return_text=True
        )


def _text() -> str:
    return "saved by the bench\n" + "a line as any other\n" * 20 + f"saved{next(_numbers)}"


def _seen(server: Speaker, note: dict[str, Any]) -> None:
    """Both servers are at rest again before the next save: each sees what the other wrote."""
    deadline = time.monotonic() + PATIENCE
    word = note["text"].split()[-1]
    while server.tool("list", limit=1, query=word)["total_items"] != 1:
        if time.monotonic() > deadline:
            raise WrongAnswer("a save of another server is never seen")
        time.sleep(0.005)


def _client(site: Site) -> httpx.Client:
    headers = {"X-Simperium-Token": site.service.card["token"]}
    return httpx.Client(headers=headers, trust_env=False)


def _post(client: httpx.Client, site: Site) -> Callable[[], object]:
    card = site.service.card
    # A bucket of its own: nobody has to hear of it.
    url = f"{card['url']}/1/{card['app_id']}/bench/i/{next(_numbers):032x}?response=1"
    body = {"content": _text()}

    def act() -> None:
        client.post(url, json=body).raise_for_status()

    return act
