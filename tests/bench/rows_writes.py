"""Measure saves, with and without a key, against the bare requests that each of them needs.

And against the SDK's smallest server that makes the same requests, with and without two transactions.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx

from bench import corpus
from bench.measure import Figure, Taken, timed, turned
from bench.processes import Speaker, script, surroundings
from bench.site import Pace, Site, serving

_KINDS = {"save, new note": "create", "save, new text": "update"}
_DURABLE = "SDK, two transactions"
_FLOORS = (_DURABLE, "SDK, nothing kept")
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
                site.saved += _time(_Saves(server), name, times, site.pace, rounds)
        for name in turned(_FLOORS, number):
            with _floor(site, name) as server:
                _time(_Saves(server), name, times, site.pace, rounds)
        with _client(site) as client:
            _time(_Bare(client, site), "bare requests", times, site.pace, rounds)
    for row, kind in _KINDS.items():
        taken = {name: Taken(of) for (name, timed_kind), of in times.items() if timed_kind == kind}
        yield from _figures(site, row, taken)
    yield _at_once(site)


def _floor(site: Site, name: str) -> Speaker:
    """Return the SDK's smallest server that saves; it has said hello."""
    file = str(site.folder / f"floor{next(_numbers)}.sqlite") if name == _DURABLE else ""
    server = Speaker(
        script("floor_save", _bucket(site), site.service.card["token"], file), surroundings()
    )
    server.greet()
    return server


def _time(
    saves: _Saves | _Bare,
    name: str,
    times: dict[tuple[str, str], list[float]],
    pace: Pace,
    rounds: int,
) -> int:
    """Time saves of each kind, each when the one before has settled. The first of each only warms up.

    Returns how many notes are new.
    """
    number = pace.saves // rounds
    for kind in _KINDS.values():
        act = getattr(saves, kind)
        act()
        for _ in range(number):
            time.sleep(_SETTLED)
            times[name, kind].append(timed(act))
    return number + 1


def _figures(site: Site, row: str, taken: dict[str, Taken]) -> Iterator[Figure]:
    ms = {name: of.median * 1000 for name, of in taken.items()}
    ours, bare = ms["ours"], ms["bare requests"]
    beside = {name: ms[name] for name in (*_FLOORS, "bare requests")}
    beside |= {"without a key": ms["plain"]} | {name: ms[name] for name in site.older()}
    yield Figure("writes", row, site.count, "ms", ours, taken["ours"].p99 * 1000, beside)
    more = {name: max(ms[name] - bare, 0.0) for name in _FLOORS}
    beyond = max(ours - bare, 0.0)
    yield Figure("writes", f"{row}: beyond the requests", site.count, "ms", beyond, floors=more)
    ratio = ours / ms["plain"]
    yield Figure("encryption", row, site.count, "x", ratio, floors={"without a key": 1.0})


def _at_once(site: Site) -> Figure:
    """Ask for eight new notes at once; each takes until its own answer."""
    with serving(site.encrypted()) as server:
        ours = _take_at_once(server, site.pace)
    site.saved += len(ours)
    beside = {}
    for name in _FLOORS:
        with _floor(site, name) as server:
            beside[name] = Taken(_take_at_once(server, site.pace)).median * 1000
    ms, p99 = Taken(ours).median * 1000, Taken(ours).p99 * 1000
    return Figure("writes", "eight new notes at once", site.count, "ms", ms, p99, beside)


def unsettled(site: Site) -> Iterator[Figure]:
    """Rows for a save right after another one, and a search just after a save, beside the same at rest.

    Adds notes to the account.
    """
    tags = itertools.cycle(asked.query for asked in corpus.questions(site.count)["tag"])
    times: dict[str, list[float]] = defaultdict(list)
    with serving(site.encrypted()) as server:
        site.settle(server)
        saves = _Saves(server)
        saves.create()
        for _ in range(site.pace.saves):
            search = partial(server.tool, "list", query=next(tags))
            search()
            times["search, settled"].append(timed(search))
            times["save, settled"].append(timed(saves.create))
            time.sleep(_SETTLED)
            times["search"].append(timed(search))
            saves.create()
            times["save"].append(timed(saves.create))
            time.sleep(_SETTLED)
    site.saved += 3 * site.pace.saves + 1
    for row, name in (("save, new note, without a pause", "save"), ("tag, after a save", "search")):
        taken, settled = Taken(times[name]), Taken(times[f"{name}, settled"])
        floors = {"settled": settled.median * 1000}
        ms, p99 = taken.median * 1000, taken.p99 * 1000
        yield Figure("unsettled", row, site.count, "ms", ms, p99, floors)


def _take_at_once(server: Speaker, pace: Pace) -> list[float]:
    taken: list[float] = []
    for _ in range(pace.saves):
        taken += server.call_at_once("save", [{"text": _text()} for _ in range(_AT_ONCE)])
        time.sleep(pace.quiet / 10)
    return taken


class _Saves:
    """One server's saves: a note made and changed."""

    def __init__(self, server: Speaker) -> None:
        self._server = server
        self._last: dict[str, Any] = {}
        self._text = ""

    def create(self) -> None:
        """A new note."""
        self._text = _text()
        self._last = self._server.tool("save", text=self._text)

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
        self._bucket = _bucket(site)
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


def _bucket(site: Site) -> str:
    """Return the address of a bucket of its own: nobody has to hear of it."""
    card = site.service.card
    return f"{card['url']}/1/{card['app_id']}/bench/i"


def _client(site: Site) -> httpx.Client:
    headers = {"X-Simperium-Token": site.service.card["token"]}
    return httpx.Client(headers=headers, trust_env=False)
