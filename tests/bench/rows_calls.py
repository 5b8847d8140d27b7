"""Measure calls of a running server over stdio, against the same SQL in a bare loop and without a loop."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import corpus
from bench.measure import Act, Figure, Taken, in_turn
from bench.processes import TESTS, Speaker, WrongAnswer, script, surroundings
from bench.raw import Raw, Request, encrypted_copy, getting, listing
from bench.site import Site, database, serving

_DEEP = ("list, middle page", "list, last page")
_FIXTURE = [sys.executable, str(TESTS / "support" / "fixture_server.py")]


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call, the request a floor gets for it, and what the answer must hold."""

    tool: str
    arguments: dict[str, Any]
    request: Request
    right: Callable[[dict[str, Any]], bool]


def transport(site: Site) -> Iterator[Figure]:
    """The round trip of ``echo`` over our transport, and over the shortest there is."""
    echoes: dict[str, list[str]] = {
        "ours": _FIXTURE,
        "shortest wire": script("floor_wire"),
        "SDK stdio": script("floor_sdk"),
        "bare loop": script("floor_bare"),
    }
    with ExitStack() as stack:
        speakers = {
            name: stack.enter_context(Speaker(command, surroundings()))
            for name, command in echoes.items()
        }
        for speaker in speakers.values():
            speaker.greet()
        taken = in_turn(
            [{n: _echo(s) for n, s in speakers.items()} for _ in range(2 * site.pace.calls)]
        )
    floors = {name: times.median * 1000 for name, times in taken.items() if name != "ours"}
    ours = taken["ours"]
    yield Figure("transport", "echo", 0, "ms", ours.median * 1000, ours.p99 * 1000, floors)


def _echo(speaker: Speaker) -> Act:
    return lambda: speaker.call("echo", text="a line of some length, as arguments have it")


def calls(site: Site) -> Iterator[Figure]:
    """Every kind of read, and what the key costs over all of them."""
    encrypted, plain, older = site.encrypted(), site.plain(), site.older()
    copy = site.folder / "copy.sqlite"
    copy.unlink(missing_ok=True)
    encrypted_copy(database(plain), copy)
    shares = []
    with ExitStack() as stack:
        bench = _Bench(
            site,
            ours=stack.enter_context(serving(encrypted)),
            plain=stack.enter_context(serving(plain)),
            older={name: stack.enter_context(serving(old)) for name, old in older.items()},
            wire=stack.enter_context(Speaker(script("floor_wire"), surroundings())),
            files=(database(plain), copy),
        )
        stack.callback(bench.close)
        bench.wire.greet()
        bench.warm_up()
        reads = _kinds(site)
        for row, kinds in reads.items():
            taken = bench.measure(kinds, first_page=reads["list"][0] if row in _DEEP else None)
            ours = taken["ours"].median * 1000
            shares.append(taken["ours"].median / taken["plain"].median)
            p99 = taken["ours"].p99 * 1000
            beside = {name: taken[name].median * 1000 for name in older}
            yield Figure("calls", row, site.count, "ms", ours, p99, _floors(taken) | beside)
        peak = bench.ours.memory("VmHWM")
    key = sorted(shares)[len(shares) // 2]
    yield Figure("encryption", "reads", site.count, "x", key, floors={"without a key": 1.0})
    yield Figure("memory", "peak, reading", site.count, "MB", peak)


def _floors(taken: dict[str, Taken]) -> dict[str, float]:
    ms = {name: times.median * 1000 for name, times in taken.items()}
    first_page = {"first page": ms["first page"]} if "first page" in ms else {}
    return first_page | {
        "raw SQL + round trip": ms["raw cipher"] + ms["round trip"],
        "bare loop, encrypted": ms["bare loop, encrypted"],
        "bare loop": ms["bare loop"],
        "raw SQLCipher": ms["raw cipher"],
        "raw SQLite": ms["raw plain"],
        "without a key": ms["plain"],
    }


def _kinds(site: Site) -> dict[str, list[Call]]:
    last = max(1, site.expected // 20)
    middle = max(1, last // 2)
    return {
        "list": [_listed({}, listing(None), site.expected)],
        "list, middle page": [_listed({"page": middle}, listing(None, page=middle), site.expected)],
        "list, last page": [_listed({"page": last}, listing(None, page=last), site.expected)],
        "get": [_got(note_id) for note_id in corpus.some_ids(site.count)],
        **{
            row: [_searched(q) for q in asked]
            for row, asked in corpus.questions(site.count).items()
        },
    }


def _listed(arguments: dict[str, Any], request: Request, total: int) -> Call:
    def right(answer: dict[str, Any]) -> bool:
        return answer["total_items"] == total and len(answer["content"]) > 0

    return Call("list", arguments, request, right)


def _searched(asked: corpus.Asked) -> Call:
    return Call("list", {"query": asked.query}, listing(asked.query), asked.answers)


def _got(note_id: str) -> Call:
    return Call("get", {"id": note_id}, getting(note_id), lambda answer: answer["id"] == note_id)


class _Bench:
    """All that answers, side by side."""

    def __init__(
        self,
        site: Site,
        *,
        ours: Speaker,
        plain: Speaker,
        older: dict[str, Speaker],
        wire: Speaker,
        files: tuple[Path, Path],
    ) -> None:
        self.ours, self.plain, self.wire = ours, plain, wire
        self._servers = {"ours": ours, "plain": plain} | older
        self._loops = {
            "bare loop": Speaker(script("floor_bare", str(files[0])), surroundings()),
            "bare loop, encrypted": Speaker(
                script("floor_bare", str(files[1]), "encrypted"), surroundings()
            ),
        }
        self._raw_plain, self._raw_cipher = Raw.plain(files[0]), Raw.cipher(files[1])
        self._pace = site.pace

    def warm_up(self) -> None:
        """Have what the first ``get`` makes a server import be imported: a second of work beside its calls."""
        for server in self._servers.values():
            server.tool("get", id=corpus.note_id(0))
        time.sleep(self._pace.quiet)

    def close(self) -> None:
        """End what this has begun."""
        self._raw_plain.close()
        self._raw_cipher.close()
        for loop in self._loops.values():
            loop.__exit__()

    def measure(self, kinds: Sequence[Call], *, first_page: Call | None) -> dict[str, Taken]:
        """Each call is checked once with everybody, then all are timed in turn."""
        for call in kinds:
            self._check(call)
        more = {"first page": self.asking(first_page)} if first_page else {}
        return in_turn(
            [self._subjects(kinds[n % len(kinds)]) | more for n in range(self._pace.calls)]
        )

    def asking(self, call: Call) -> Act:
        """This call of the server under a key, whose answer must be right."""
        return lambda: _demand(call, self.ours.tool(call.tool, **call.arguments))

    def _subjects(self, call: Call) -> dict[str, Act]:
        servers = {name: _asked(server, call) for name, server in self._servers.items()}
        loops = {name: _requested(loop, call) for name, loop in self._loops.items()}
        return (
            servers
            | loops
            | {
                "raw plain": lambda: self._raw_plain.answer(call.request),
                "raw cipher": lambda: self._raw_cipher.answer(call.request),
                "round trip": _echo(self.wire),
            }
        )

    def _check(self, call: Call) -> None:
        for server in self._servers.values():
            _demand(call, server.tool(call.tool, **call.arguments))
        if call.tool == "list":
            for loop in self._loops.values():
                _demand(call, loop.tool(call.tool, **call.request))
            for raw in (self._raw_plain, self._raw_cipher):
                _demand(call, raw.answer(call.request))


def _asked(server: Speaker, call: Call) -> Act:
    return lambda: server.tool(call.tool, **call.arguments)


def _requested(loop: Speaker, call: Call) -> Act:
    return lambda: loop.tool(call.tool, **call.request)


def _demand(call: Call, answer: dict[str, Any]) -> None:
    if not call.right(answer):
        raise WrongAnswer(f"{call.tool} {call.arguments}")
