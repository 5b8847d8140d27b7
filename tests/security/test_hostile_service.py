"""Test the real server against a hostile note service: it answers on, in bounded time and memory.

Whatever one kind of call is answered with, tools go on being served, notes and confirmed writes of
before stay, and when the service behaves again everything is in step.
"""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import hostile_service as hostile
from support.hostile_service import DELETE, FEED, INDEX, LOGIN, NOTE, WRITE, Twist
from support.hostile_world import CALL_SECONDS, CANARY, MOST_MIB, World
from support.long import LONG, sample
from support.whole import Server, until

pytestmark = pytest.mark.timeout(600)


def _bomb(to: socket.socket, _answer: hostile.Answer) -> None:
    to.sendall(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n")
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20)
    for _ in range(10 << 10):
        to.sendall(packer.compress(block))


def _nested(to: socket.socket, answer: hostile.Answer) -> None:
    packed = gzip.compress(gzip.compress(bytes(1 << 28)))
    hostile.raw(hostile.whole(200, packed, content_encoding="gzip,gzip"))(to, answer)


def _endless_bytes(start: bytes, block: bytes) -> Twist:
    return lambda to, _answer: _pour(to, start, block)


def _pour(to: socket.socket, start: bytes, block: bytes) -> None:
    to.sendall(start)
    while True:
        to.sendall(block)


OK = b"HTTP/1.1 200 OK\r\n"
TWISTS: dict[str, Twist] = {
    "31 MB of empty lists": hostile.raw(hostile.whole(200, b"[" + b"[]," * 10_400_000 + b"0]")),
    "10 GB of zeros": hostile.endless(b"", bytes(1 << 16)),
    "10 GB of JSON": hostile.endless(b'{"current":"c","index":[0', b',{"id":"x","v":1}' * 4096),
    "a gzip bomb": _bomb,
    "gzip in gzip": _nested,
    "deep JSON": hostile.raw(hostile.whole(200, b"[" * 100_000 + b"]" * 100_000)),
    "no JSON": hostile.raw(hostile.whole(200, b"<html>\0\xff</html>")),
    "a header of 10 MB": hostile.raw(OK, b"x-a: " + b"a" * (10 << 20), b"\r\n\r\n"),
    "headers for ever": _endless_bytes(OK, b"x-a: b\r\n" * 1000),
    "go on, for ever": _endless_bytes(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "a length of 10**30": hostile.raw(OK, b"content-length: 1" + b"0" * 30 + b"\r\n\r\n[]"),
    "a length below zero": hostile.raw(OK, b"content-length: -5\r\n\r\n[]"),
    "chunks without end": _endless_bytes(OK + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "no HTTP": _endless_bytes(b"", b"\0" * 65536),
    "somewhere else": hostile.raw(hostile.whole(302, b"", location="http://127.0.0.1:1/")),
    "cut in the body": lambda to, answer: to.sendall(hostile.of(answer)[:-1]),
    "a drip": hostile.drip(1.0),
}


KINDS = (INDEX, FEED, NOTE, WRITE, DELETE)
PARSED_WHOLE = "31 MB of empty lists"
"""Within the bound on bytes: what keeps it from memory stands behind each kind of read."""


def _chosen() -> list[tuple[str, str]]:
    """Every twist with every kind of call; in the short form some of them, and one that is read whole."""
    every = list(itertools.product(KINDS, TWISTS))
    whole = [(kind, PARSED_WHOLE) for kind in (INDEX, FEED, NOTE)]
    short = {*sample("twists", every, 4), *sample("read whole", whole, 1)}
    return [case for case in every if LONG or case in short]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    with found.stack:
        yield found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Server]]:
    """One server for all that it has to outlive; it ends in order after all of it."""
    found = World(tmp_path_factory.mktemp("served"))
    with found.stack:
        server = found.serve()
        server.loaded(3)
        yield found, server
        assert server.leave() == 0


@pytest.mark.parametrize(("kind", "name"), _chosen())
@pytest.mark.slow("answers of gigabytes, or that never end")
def test_no_answer_to_any_kind_of_call_stops_or_swells_the_server(
    served: tuple[World, Server], kind: str, name: str
) -> None:
    world, server = served
    before = len(server.errors())
    world.meet(server, kind, TWISTS[name], whole=name != "a drip")
    world.in_step(server)
    errors = server.errors()[before:]
    assert CANARY not in errors
    assert "Traceback" not in errors
    assert '"ERROR"' not in errors
    assert len(errors) < 1_000_000


@pytest.mark.parametrize("name", list(TWISTS) if LONG else ["10 GB of JSON", "deep JSON"])
def test_hostile_login_keeps_no_tool_from_answering(world: World, name: str) -> None:
    with world.service.twisted(LOGIN, TWISTS[name]):
        server = world.serve()
        until(lambda: world.service.met[LOGIN] > 0, within=CALL_SECONDS)
        for tool, arguments in (("list", {}), ("save", {"text": "x"}), ("list", {})):
            error = server.error(tool, **arguments)
            assert error["category"] != "INTERNAL", error
        assert hostile.peak_mib(server.process.pid) < MOST_MIB
    assert server.leave() == 0
    assert world.simulator.password not in server.errors()


@pytest.mark.parametrize("form", ["ever new", "in circles"])
def test_pages_without_end_do_not_swell_the_server(world: World, form: str) -> None:
    server = world.serve()
    server.loaded(3)
    numbers = itertools.count(1)
    enough = {"ever new": 600 if LONG else 60, "in circles": 4}[form]

    def page(to: socket.socket, _answer: hostile.Answer) -> None:
        number = next(numbers)
        place = number if form == "ever new" else number % 3
        entries = [{"id": f"e{place}-{at}", "v": 1} for at in range(1000)]
        answer = {"index": entries, "current": "c", "mark": f"m{place}"}
        to.sendall(hostile.whole(200, json.dumps(answer).encode()))

    lost = world.service.twisted(FEED, hostile.CURSOR_LOST)
    with lost, world.service.twisted(INDEX, page):
        world.simulator.put("wake", content="x\n")
        until(lambda: world.service.met[INDEX] >= enough, within=2 * CALL_SECONDS)
        world.alive(server)
    world.in_step(server)
    assert server.leave() == 0
