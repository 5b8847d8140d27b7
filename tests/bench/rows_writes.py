"""Measure saves, with and without a key, against the bare requests that each of them needs."""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx

from bench import corpus
from bench.measure import Figure, Taken, timed, turned
from bench.processes import Speaker
from bench.site import Pace, Site, serving

_KINDS = {"save, new note": "create", "save, new text": "update"}
_AT_ONCE = 8
_ROUNDS = 4
_SETTLED = 0.1
"""Seconds after which a server has heard of its own save from the store."""
_numbers = itertools.count(1)
_BODIES = [fields["content"] for _, fields in corpus.notes(50)]


def writes(site: Site) -> Iterator[Figure]:
    """Rows for a new note, for a new text of one, and for eight saves at once. Adds notes to the account.

    One server runs at a time: others would hear of each save at the moment when it is measured.
    """
    settings = {"ours": site.encrypted(), "plain": site.plain()} | site.older()
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    rounds = min(_ROUNDS, site.pace.saves)
    for number in range(rounds):
        for name in turned(settings, number):
            with serving(settings[name]) as server:
                site.settle(server)
                _time(_Saves(site, server), name, times, site.pace, rounds)
        with _client(site) as client:
            _time(_Bare(client, site), "bare", times, site.pace, rounds)
    for row, kind in _KINDS.items():
        taken = {name: Taken(times[name, kind]) for name in (*settings, "bare")}
        beside = {name: taken[name].median * 1000 for name in site.older()}
        yield from _figures(site, row, taken, beside)
    yield _at_once(site)


def _time(
    saves: _Saves | _Bare,
    name: str,
    times: dict[tuple[str, str], list[float]],
    pace: Pace,
    rounds: int,
) -> None:
    """Time saves of each kind, each when the one before has settled. The first of each only warms up."""
    for kind in _KINDS.values():
        act = getattr(saves, kind)
        act()
        for _ in range(pace.saves // rounds):
            time.sleep(_SETTLED)
            times[name, kind].append(timed(act))


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
        self._last: dict[str, Any] = {}
        self._text = ""

    def create(self) -> None:
        """A new note."""
        self._text = _text()
        self._last = self._server.tool("save", text=self._text)
        self._site.saved += 1

    def update(self) -> None:
        """A new text of the last one."""
        self._text = _changed(self._text)
        known = {name: self._last[name] for name in ("id", "local_version")}
        self._last = self._server.tool("save", **known, text=self._text)


def _text() -> str:
    number = next(_numbers)
    return f"{_BODIES[number % len(_BODIES)]}\nsaved{number}"


def _changed(text: str) -> str:
    """Another last line."""
    return f"{text.rpartition(chr(10))[0]}\nsaved{next(_numbers)}"


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
