"""Measure saves, with and without a key, against the bare requests that each of them needs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx

from bench import corpus
from bench.measure import Figure, Taken, timed
from bench.processes import PATIENCE, Speaker, WrongAnswer
from bench.site import Site, serving

_AT_ONCE = 8
_numbers = itertools.count(1)
_BODIES = [fields["content"] for _, fields in corpus.notes(50)]


def writes(site: Site) -> Iterator[Figure]:
    """Rows for a new note, for a new text of one, and for eight saves at once. Adds notes to the account."""
    with ExitStack() as stack:
        servers = {
            "ours": stack.enter_context(serving(site.encrypted())),
            "plain": stack.enter_context(serving(site.plain())),
        }
        older = site.older()
        servers |= {name: stack.enter_context(serving(old)) for name, old in older.items()}
        bare = _Bare(stack.enter_context(_client(site)), site)
        made = {name: _Saves(site, server) for name, server in servers.items()}
        for row, kind in (("save, new note", "create"), ("save, new text", "update")):
            times: dict[str, list[float]] = {name: [] for name in (*servers, "bare")}
            for _ in range(site.pace.saves):
                for name, saves in made.items():
                    times[name].append(timed(getattr(saves, kind)))
                    for other in servers.values():
                        _seen(other, saves.last)
                times["bare"].append(timed(getattr(bare, kind)))
            taken = {name: Taken(values) for name, values in times.items()}
            beside = {name: taken[name].median * 1000 for name in older}
            yield from _figures(site, row, taken, beside)
    yield _at_once(site)


def _figures(
    site: Site, row: str, taken: dict[str, Taken], beside: dict[str, float]
) -> Iterator[Figure]:
    ours, plain, bare = (taken[name].median * 1000 for name in ("ours", "plain", "bare"))
    floors = {"bare requests": bare, "without a key": plain} | beside
    p99 = taken["ours"].p99 * 1000
    yield Figure("writes", row, site.count, "ms", ours, p99, floors)
    yield Figure("writes", f"{row}: beyond the requests", site.count, "ms", max(ours - bare, 0.0))
    yield Figure("encryption", row, site.count, "x", ours / plain, floors={"without a key": 1.0})


def _at_once(site: Site) -> Figure:
    """Ask for eight new notes at once; each takes until its own answer."""
    taken: list[float] = []
    with serving(site.encrypted()) as server:
        for _ in range(site.pace.saves):
            taken += server.call_at_once("save", [{"text": _text()} for _ in range(_AT_ONCE)])
            site.saved += _AT_ONCE
            time.sleep(site.pace.quiet / 10)
    times = Taken(taken)
    p99 = times.p99 * 1000
    return Figure("writes", "eight new notes at once", site.count, "ms", times.median * 1000, p99)


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
        known = {name: self.last[name] for name in ("id", "local_version")}
        text = _changed(self.last["text"])
        self.last = self._server.tool("save", **known, text=text, return_text=True)


def _text() -> str:
    number = next(_numbers)
    return f"{_BODIES[number % len(_BODIES)]}\nsaved{number}"


def _changed(text: str) -> str:
    """Another last line."""
    return f"{text.rpartition(chr(10))[0]}\nsaved{next(_numbers)}"


def _seen(server: Speaker, note: dict[str, Any]) -> None:
    """Both servers are at rest again before the next save: each sees what the other wrote."""
    deadline = time.monotonic() + PATIENCE
    word = note["text"].split()[-1]
    while server.tool("list", limit=1, query=word)["total_items"] != 1:
        if time.monotonic() > deadline:
            raise WrongAnswer("a save of another server is never seen")
        time.sleep(0.005)


class _Bare:
    """The requests that a save needs, without a server: a note made, read and changed."""

    def __init__(self, client: httpx.Client, site: Site) -> None:
        card = site.service.card
        # A bucket of its own: nobody has to hear of it.
        self._bucket = f"{card['url']}/1/{card['app_id']}/bench/i"
        self._client = client
        self._url = ""
        self._text = ""

    def create(self) -> None:
        """A new note."""
        self._url = f"{self._bucket}/{next(_numbers):032x}"
        self._post(_text())

    def update(self) -> None:
        """A new text of the last one, over the revision that is read first."""
        self._client.get(self._url).raise_for_status()
        self._post(_changed(self._text))

    def _post(self, text: str) -> None:
        self._text = text
        answer = self._client.post(self._url, params={"response": 1}, json={"content": text})
        answer.raise_for_status()


def _client(site: Site) -> httpx.Client:
    headers = {"X-Simperium-Token": site.service.card["token"]}
    return httpx.Client(headers=headers, trust_env=False)
