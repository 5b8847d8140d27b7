"""Test the real server against wrong values and lengths of a note service: valid notes stay valid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import OutcomeUnknown, StoreUnavailable
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from notarium_devtools.simperium import Simulator
from support import hostile_service as hostile
from support.hostile_service import FEED, INDEX, NOTE, WRITE, HostileService
from support.hostile_world import CALL_SECONDS, CANARY, World
from support.long import LONG
from support.simplenote_client import open_store, pending
from support.whole import Server, until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    with found.stack:
        yield found


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


def test_any_value_in_any_field_of_a_note_is_read_and_affects_no_other_note(world: World) -> None:
    number = unread = 0
    for field in FIELDS:
        for value in (*JSON_VALUES, *(CLOCKS if "Date" in field else ())):
            if field == "content" and not isinstance(value, str):
                unread += (
                    1  # no note, and counted as left out: the service takes none without a text
                )
                world.simulator.put(f"unread{unread}", content=value)
                continue
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
    until(
        lambda: server.tool("manage", action="get_stats")["stats"]["db_total_notes"] == number + 3,
        within=CALL_SECONDS,
    )
    assert _read_all(server) == number + 3
    stats = server.tool("manage", action="get_stats")["stats"]
    assert (stats["db_sync_error_count"], stats["sync_left_out"]) == (0, unread)
    world.alive(server)
    # And each of them by the feed, changed in one field.
    for note_id in world.simulator.notes():
        world.simulator.put(note_id, content=f"now sound {CANARY}\n", tags=[])
    until(
        lambda: (
            server.tool("list", query="sound", trash_status=2)["total_items"] == number + unread + 3
        ),
        within=CALL_SECONDS,
    )
    assert server.tool("manage", action="get_stats")["stats"]["sync_left_out"] == 0
    world.in_step(server)


def test_any_value_in_any_part_of_an_entry_or_a_change_affects_no_other(world: World) -> None:
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
        until(
            lambda: server.tool("manage", action="get_stats")["stats"]["sync_complete"],
            within=CALL_SECONDS,
        )
        assert {"before1", "before2"} <= {i["uuid"] for i in server.tool("list")["content"]}
        stats = server.tool("manage", action="get_stats")["stats"]
        assert stats["sync_left_out"] > 0
    changes = [
        {"id": f"odd{number}-{part}", "o": "M", "sv": 1, "ev": 2, "v": {}, "cv": "c"}
        | {part: value}
        for number, value in enumerate(JSON_VALUES)
        for part in ("id", "o", "sv", "ev", "v", "ccids", "clientid")
    ]
    back = {"id": "before0", "o": "M", "sv": 9, "ev": 1, "v": {}, "cv": "c"}

    def add_odd_changes(body: bytes) -> bytes:
        answer = json.loads(body)
        return json.dumps([5, *changes, None, back, *answer] if answer else answer).encode()

    with world.service.twisted(FEED, hostile.says(add_odd_changes)):
        world.simulator.put("new", content=f"behind them {CANARY}\n")
        until(lambda: server.tool("list", query="behind")["total_items"] == 1, within=CALL_SECONDS)
        world.alive(server)
    server.tool("manage", action="reset_cache", confirm=True)
    until(
        lambda: server.tool("manage", action="get_stats")["stats"]["db_total_notes"] == 4,
        within=CALL_SECONDS,
    )
    world.in_step(server)
    assert CANARY not in server.errors()


def test_answer_broken_off_at_any_byte_is_never_taken_for_all_of_it() -> None:
    """A read is right or fails; a write is known or in doubt, and is done once whatever is known."""
    simulator = Simulator(publish_delay=None)
    simulator.put("n", {"content": "right", "tags": []})

    async def each_byte(store: SimplenoteStore, service: HostileService) -> None:
        read = written = True
        count = 0
        while read or written:
            read = written = False
            with service.twisted(NOTE, hostile.cut_after(count)):
                try:
                    assert (await store.get("n")).content.text == "right"
                except StoreUnavailable:
                    read = True
            with service.twisted(WRITE, hostile.cut_after(count)):
                note_id = f"w{count}"
                intent = pending(store, Content("once"), note_id=note_id, write_id=f"{count:032x}")
                try:
                    assert (await store.push(intent)).revision.content.text == "once"
                except OutcomeUnknown:
                    written = True
                assert simulator.version(note_id) == 1
            count += 1 if LONG else 9
        assert count > 100, "it was broken off at all"

    async def talk(service: HostileService) -> None:
        store = open_store(service)
        try:
            await each_byte(store, service)
        finally:
            await store.close()

    with simulator.running(), HostileService(simulator) as service:
        asyncio.run(talk(service))
