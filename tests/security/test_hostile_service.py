"""The real server against a note service that means harm: it answers on, in bounded time and memory.

Whatever one kind of call is answered with, tools go on being served, notes and confirmed writes of
before stay, and when the service behaves again everything is in step.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.backends.simplenote.client import SimplenoteBackend
from mcp_notarium.errors import BackendUnavailable, OutcomeUnknown
from mcp_notarium.notes.note import Content
from mcp_notarium.simulator import Simulator
from support import hostile_service as hostile
from support.hostile_service import DELETE, FEED, INDEX, LOGIN, NOTE, WRITE, HostileService, Twist
from support.long import LONG
from support.simplenote_client import open_backend, pending
from support.whole import Server, environment, until

pytestmark = pytest.mark.timeout(600)

CANARY = "quietlighthouse"
CALL_SECONDS = 25.0
"""The shortest deadline that can be set for the service is 5 seconds; a save may need several calls."""
MOST_MIB = 400
"""An answer may have 32 MiB, and be in memory as bytes, as text and as values."""


def _bomb(to: socket.socket, _answer: hostile.Answer) -> None:
    to.sendall(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n")
    packer = zlib.compressobj(9, wbits=31)
    block = bytes(1 << 20)
    for _ in range(10 << 10):
        to.sendall(packer.compress(block))


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
    "gzip in gzip": hostile.raw(
        hostile.whole(
            200, gzip.compress(gzip.compress(bytes(1 << 28))), content_encoding="gzip,gzip"
        )
    ),
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


def _chosen() -> list[tuple[str, list[str]]]:
    """Every twist with every kind of call; in the short form each twist meets one of them."""
    kinds = (INDEX, FEED, NOTE, WRITE, DELETE)
    names = list(TWISTS)
    return [(kind, names if LONG else names[at :: len(kinds)]) for at, kind in enumerate(kinds)]


class World:
    """A simulator, the hostile proxy before it, and a loaded server."""

    def __init__(self, folder: Path) -> None:
        self.simulator = Simulator(poll_seconds=1.0, publish_delay=None)
        for number in range(3):
            self.simulator.put(f"before{number}", content=f"before {number} {CANARY}\n")
        self.stack = ExitStack()
        self.stack.enter_context(self.simulator.running())
        self.service = self.stack.enter_context(HostileService(self.simulator))
        self.env = environment(
            self.service,
            folder,
            API_TIMEOUT_SECONDS="5",
            LOG_LEVEL="debug",
        )
        self.count = 3
        self.number = 0

    def serve(self) -> Server:
        return self.stack.enter_context(Server(self.env))

    def alive(self, server: Server) -> None:
        """Tools are answered at once, and what was there before still is."""
        began = time.monotonic()
        for number in range(3):
            assert CANARY in server.tool("get", id=f"before{number}")["text"]
        assert server.tool("list", query=CANARY)["total_items"] >= 3
        assert server.tool("manage", action="get_stats")["db_total_notes"] >= 3
        assert time.monotonic() - began < CALL_SECONDS
        assert hostile.peak_mib(server.process.pid) < MOST_MIB

    def in_step(self, server: Server) -> None:
        """The cache holds what the service has, text for text, and no write is open."""
        found = {name: note["content"] for name, note in self.simulator.notes().items()}

        def same() -> bool:
            stats = server.tool("manage", action="get_stats")
            if stats["db_total_notes"] != len(found) or stats["pending_writes"]:
                return False
            return all(server.tool("get", id=name)["text"] == found[name] for name in found)

        until(same, within=60.0)
        assert hostile.peak_mib(server.process.pid) < MOST_MIB

    def meet(self, server: Server, kind: str, twist: Twist) -> None:
        """Make a call of this kind happen, and see it answered by the twist."""
        self.number += 1
        note_id, text = f"new{self.number}", f"new {self.number} {CANARY}\n"
        met = self.service.met[kind]
        if kind in (WRITE, DELETE):
            self._by_tool(server, kind, twist, text)
            return
        with ExitStack() as twists:
            if kind == NOTE:
                dumb = hostile.says(lambda body: body.replace(b'"o":"M"', b'"o":"?"'))
                twists.enter_context(self.service.twisted(FEED, dumb))
            if kind == INDEX:
                self.simulator.faults.forget_cv()
            twists.enter_context(self.service.twisted(kind, twist))
            self.simulator.put(note_id, content=text)
            until(lambda: self.service.met[kind] > met)
            self.alive(server)

    def _by_tool(self, server: Server, kind: str, twist: Twist, text: str) -> None:
        began = time.monotonic()
        if kind == WRITE:
            with self.service.twisted(kind, twist):
                server.result("save", text=text)
            assert time.monotonic() - began < CALL_SECONDS
            self.alive(server)
            self.in_step(server)
            texts = [note["content"] for note in self.simulator.notes().values()]
            assert texts.count(text) == 1, "neither lost nor doubled"
            return
        made = server.tool("save", text=text)
        trashed = server.tool(
            "manage", action="trash", id=made["id"], local_version=made["local_version"]
        )
        with self.service.twisted(kind, twist):
            arguments = {"id": made["id"], "local_version": trashed["new_local_version"]}
            server.result("manage", action="delete_permanently", confirm=True, **arguments)
        assert time.monotonic() - began < CALL_SECONDS
        assert made["id"] not in self.simulator.notes()
        self.alive(server)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    with found.stack:
        yield found


@pytest.mark.parametrize(("kind", "names"), _chosen(), ids=lambda value: str(value)[:6])
def test_no_answer_to_any_kind_of_call_stops_or_swells_the_server(
    world: World, kind: str, names: list[str]
) -> None:
    server = world.serve()
    server.loaded(3)
    for name in names:
        world.meet(server, kind, TWISTS[name])
        world.in_step(server)
    assert server.leave() == 0
    errors = server.errors()
    assert CANARY not in errors
    assert "Traceback" not in errors
    assert '"ERROR"' not in errors
    assert len(errors) < 1_000_000


@pytest.mark.parametrize("name", list(TWISTS) if LONG else ["10 GB of JSON", "deep JSON"])
def test_hostile_login_keeps_no_tool_from_answering(world: World, name: str) -> None:
    with world.service.twisted(LOGIN, TWISTS[name]):
        server = world.serve()
        assert server.tool("list")["total_items"] == 0
        until(lambda: world.service.met[LOGIN] > 0)
        error = server.error("save", text="x")
        assert error["category"] != "INTERNAL", error
        assert server.tool("list")["total_items"] == 0
        assert hostile.peak_mib(server.process.pid) < MOST_MIB
    assert server.leave() == 0
    assert world.simulator.password not in server.errors()


JSON_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**18, 10**300, 1e308, "", "text", "\0", "\ud83d", "\u202e"),
    *([], [[]], [None, 1, {}, "\udc00"], {}, {"": None}, {"a": {"a": []}}),
)
CLOCKS = (0, 1, -1e308, 253402300799, 253402300800, 1e20, 2**63, 10**400, 1e-300, "1970-01-01")
FIELDS = (
    *("content", "tags", "systemTags", "creationDate", "modificationDate", "deleted"),
    *("shareURL", "publishURL", "unknown"),
)


def _read_all(server: Server) -> int:
    """Every note, listed and read by every page; how many there are."""
    found, page = 0, 1
    while page is not None:
        listed = server.tool("list", limit=100, page=page, trash_status=2)
        for item in listed["content"]:
            note = server.tool("get", id=item["uuid"])
            assert isinstance(note["text"], str)
            json.dumps(note, ensure_ascii=False).encode()
        found += len(listed["content"])
        page = listed.get("next_page")
    return found


def test_any_value_in_any_field_of_a_note_is_read_and_spoils_no_other(world: World) -> None:
    number = 0
    for field in FIELDS:
        for value in (*JSON_VALUES, *(CLOCKS if "Date" in field else ())):
            number += 1
            world.simulator.put(f"odd{number}", **{field: value})
    for odd in (
        "../../x",
        "a/b",
        "%2f..%2f",
        "a\0b",
        "x" * 256,
        "a?b#c",
        " ",
        "\r\nx: y",
        "é\u202e",
    ):
        number += 1
        world.simulator.put(odd, content=f"odd id {CANARY}\n")
    server = world.serve()
    until(lambda: server.tool("manage", action="get_stats")["db_total_notes"] == number + 3)
    assert _read_all(server) == number + 3
    assert server.tool("manage", action="get_stats")["db_sync_error_count"] == 0
    world.alive(server)
    # And each of them by the feed, changed in one field.
    for note_id in world.simulator.notes():
        world.simulator.put(note_id, content=f"now sound {CANARY}\n", tags=[])
    until(lambda: server.tool("list", query="sound", trash_status=2)["total_items"] == number + 3)
    world.in_step(server)


def test_any_value_in_any_part_of_an_entry_or_a_change_spoils_no_other(world: World) -> None:
    odd = [
        {"id": f"odd{number}-{part}", "v": 1, "d": {"content": "x"}} | {part: value}
        for number, value in enumerate(JSON_VALUES)
        for part in ("id", "v", "d")
    ]
    twice = [{"id": "before0", "v": v, "d": {"content": "false"}} for v in (10**17, 0, 1, 1)]

    def listed(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["index"] = [*odd, 5, None, *answer["index"], *twice, "x", []]
        return json.dumps(answer).encode()

    with world.service.twisted(INDEX, hostile.says(listed)):
        server = world.serve()
        until(lambda: server.tool("manage", action="get_stats")["sync_complete"])
        assert {"before1", "before2"} <= {i["uuid"] for i in server.tool("list")["content"]}
        stats = server.tool("manage", action="get_stats")
        assert stats["sync_left_out"] > 0
    changes = [
        {"id": f"odd{number}-{part}", "o": "M", "sv": 1, "ev": 2, "v": {}, "cv": "c"}
        | {part: value}
        for number, value in enumerate(JSON_VALUES)
        for part in ("id", "o", "sv", "ev", "v", "ccids", "clientid")
    ]
    back = {"id": "before0", "o": "M", "sv": 9, "ev": 1, "v": {}, "cv": "c"}

    def told(body: bytes) -> bytes:
        answer = json.loads(body)
        return json.dumps([5, *changes, None, back, *answer] if answer else answer).encode()

    with world.service.twisted(FEED, hostile.says(told)):
        world.simulator.put("new", content=f"behind them {CANARY}\n")
        until(lambda: server.tool("list", query="behind")["total_items"] == 1)
        world.alive(server)
    server.tool("manage", action="reset_cache", confirm=True)
    until(lambda: server.tool("manage", action="get_stats")["db_total_notes"] == 4)
    world.in_step(server)
    assert CANARY not in server.errors()


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

    with world.service.twisted(INDEX, page):
        world.simulator.faults.forget_cv()
        world.simulator.put("wake", content="x\n")
        until(lambda: world.service.met[INDEX] >= enough, within=120)
        world.alive(server)
    world.in_step(server)
    assert server.leave() == 0


def test_answer_broken_off_at_any_byte_is_never_taken_for_all_of_it() -> None:
    """A read is right or fails; a write is known or in doubt, and is done once whatever is known."""
    simulator = Simulator(publish_delay=None)
    simulator.put("n", {"content": "right", "tags": []})

    async def each_byte(backend: SimplenoteBackend, service: HostileService) -> None:
        read = written = True
        count = 0
        while read or written:
            read = written = False
            with service.twisted(NOTE, hostile.cut_after(count)):
                try:
                    assert (await backend.get("n")).content.text == "right"
                except BackendUnavailable:
                    read = True
            with service.twisted(WRITE, hostile.cut_after(count)):
                note_id = f"w{count}"
                intent = pending(
                    backend, Content("once"), note_id=note_id, write_id=f"{count:032x}"
                )
                try:
                    assert (await backend.push(intent)).revision.content.text == "once"
                except OutcomeUnknown:
                    written = True
                assert simulator.version(note_id) == 1
            count += 1 if LONG else 9
        assert count > 100, "it was broken off at all"

    async def talk(service: HostileService) -> None:
        backend = open_backend(service)
        try:
            await each_byte(backend, service)
        finally:
            await backend.close()

    with simulator.running(), HostileService(simulator) as service:
        asyncio.run(talk(service))
