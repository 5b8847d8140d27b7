"""Test twelve calls of a connected client while Simplenote, or what stands before it, answers something wrong.

No note at the store is replaced by anything but what the user wrote, no answer shows another note's text, and what
was acknowledged, or may have been, is there once the service tells the truth again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from notarium_devtools.simperium import Simulator
from support.hostile_service import CURSOR_LOST, FEED, INDEX, HostileService
from support.long import sample
from support.simplenote_client import open_store
from support.sync_rig import quick_folder
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.wrong_answers import FALSE, OTHER, Liar, Lie

CALLS = (
    "list", "get", "lines", "save", "append", "prepend", "replace", "tags", "pinned", "trash", "history",
    "undo",
)  # fmt: skip
OURS, OUR_TAG = "by the user", "by-the-user"
WRITES = frozenset(CALLS) - {"list", "get", "lines", "history"}
REFUSALS = frozenset(
    {
        "bad_answer", "unavailable", "timeout", "login_required", "in_doubt", "rejected", "too_large", "conflict",
        "changed_since", "rate_limit", "version",
    }
)  # fmt: skip


def first(call: str) -> str:
    return f"Note of {call} \u2013 é\nline one\n"


def today(call: str) -> str:
    return f"{first(call)}line two\nwritten since yesterday\n"


class World:
    """A simulator behind a liar, an index in step with it, and a connected client."""

    def __init__(self, simulator: Simulator, service: HostileService, harness: ToolHarness) -> None:
        self.simulator, self.service, self.harness = simulator, service, harness
        self.client: Client
        self.read: dict[str, int] = {}
        """The version that the client has read of each note."""

    def reset(self) -> None:
        """Give every call a note of its own, with a yesterday."""
        for call in CALLS:
            self.simulator.put(
                call, content=today(call), tags=["kept"], systemTags=[], deleted=False
            )

    async def call(self, name: str, **arguments: Any) -> tuple[dict[str, Any], str]:
        """Return the answer, and the subcategory if it is an error."""
        result = await self.client.call_tool(name, arguments)
        found = result.structured_content or {}
        error = found.get("error", found) if result.is_error else {}
        if result.is_error and not found:
            found = error = json.loads(result.content[0].text)  # type: ignore[union-attr]
        return found, str(
            error.get("subcategory") or error.get("category")
        ) if result.is_error else ""

    async def run(self, call: str) -> tuple[dict[str, Any], str]:
        """Make one of the twelve calls."""
        versioned = {"id": call, "local_version": self.read[call]}
        tool, arguments = {
            "list": ("list", {"query": "line"}),
            "get": ("get", {"id": call}),
            "lines": ("get", {"id": call, "range_line_start": 2, "range_line_count": 2}),
            "save": ("save", {**versioned, "text": f"{today(call)}{OURS}\n"}),
            "append": ("save", {"id": call, "append": OURS}),
            "prepend": ("save", {"id": call, "prepend": OURS}),
            "replace": ("save", {"id": call, "find": "line one", "replace": OURS}),
            "tags": ("save", {**versioned, "tags": ["kept", OUR_TAG]}),
            "pinned": ("save", {"id": call, "properties": {"pinned": True}}),
            "trash": ("manage", {"action": "trash", **versioned}),
            "history": ("manage", {"action": "history", "id": call}),
            "undo": ("manage", {"action": "undo", "confirm": True, **versioned}),
        }[call]
        return await self.call(tool, **arguments)

    def truth(self, call: str) -> dict[str, Any]:
        return self.simulator.note(call)

    async def settle(self) -> None:
        """Let syncs finish what is in doubt, and bring the index in step, by a full listing at last."""
        for _ in range(3):
            self.harness.now += 40_000.0
            await self.harness.sync()


def wanted(call: str, before: dict[str, Any]) -> dict[str, Any]:
    """Return what the note is after the call."""
    text = before["content"]
    title, _, rest = text.partition("\n")
    return before | {
        "save": {"content": f"{text}{OURS}\n"},
        "append": {"content": f"{text}{OURS}\n"},
        "prepend": {"content": f"{title}\n{OURS}\n{rest}"},
        "replace": {"content": text.replace("line one", OURS)},
        "tags": {"tags": ["kept", OUR_TAG]},
        "pinned": {"systemTags": ["pinned"]},
        "trash": {"deleted": True},
        "undo": {"content": today(call) + text.partition(f"{OURS} before\n")[2]},
    }.get(call, {})


Answers = dict[str, tuple[dict[str, Any], str]]
SHOWN = ("content", "tags", "systemTags", "deleted")


def shown(note: dict[str, Any]) -> dict[str, Any]:
    return {name: note[name] for name in SHOWN}


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    simulator = Simulator(poll_seconds=0.2, publish_delay=None)
    for call in CALLS:
        simulator.put(call, content=first(call), tags=["kept"])
    simulator.put(OTHER, content=f"{FALSE}\nsomething else\n", tags=["wrong"], creationDate=1.6e9)
    simulator.put(OTHER, content=f"{FALSE}\nsomething else\nand more\n", tags=["wrong"])
    with simulator.running(), HostileService(simulator) as service:
        store = open_store(service, timeout=2.0)  # type: ignore[arg-type] - it has the same addresses
        harness = ToolHarness(folder, remote=store)
        found = World(simulator, service, harness)
        await harness.sync()
        async with connected(harness.opened, seconds=900) as client:
            found.client = client
            yield found
        await store.close()
        harness.close()


async def prepare(world: World, *, moved: bool) -> None:
    """Bring every note to its first state, read by the client; ``moved``: changed elsewhere since."""
    world.reset()
    await world.settle()
    _, error = await world.call("save", id="undo", append=f"{OURS} before")
    assert not error
    for call in CALLS:
        note = world.harness.app.cache.notes.get(call)
        assert note is not None
        world.read[call] = note.local_version
        if moved:
            world.simulator.put(call, content=world.truth(call)["content"] + "a moment ago\n")


async def answers_under(world: World, lie: Lie) -> Answers:
    """Make the calls under the lie; one about listings or changes is met by a sync before them."""
    with ExitStack() as lies:
        lies.enter_context(world.service.twisted(lie.kind, lie.twist, carried_out=lie.carried_out))
        if lie.kind not in (INDEX, FEED):
            return {call: await world.run(call) for call in CALLS}
        if lie.kind == INDEX:
            lies.enter_context(world.service.twisted(FEED, CURSOR_LOST))
        await world.settle()
    return {call: await world.run(call) for call in CALLS}


def said_wrong(call: str, answer: dict[str, Any], error: str) -> Iterator[str]:
    """Yield what is wrong with an answer by itself."""
    if FALSE in str(answer) and not (call == "list" and OTHER in str(answer)):
        yield f"{call} shows another note: {answer}"
    if error and error not in REFUSALS:
        yield f"{call} ends with {error}: {answer}"


def stored_wrong(world: World, call: str, before: dict[str, Any]) -> Iterator[str]:
    """Yield what the store has that is neither the note as it was nor as the user wants it."""
    now = shown(world.truth(call))
    if now not in (shown(before), shown(wanted(call, before))):
        yield f"{call} became {now}"


def lost(world: World, call: str, before: dict[str, Any], error: str) -> Iterator[str]:
    """Yield what was promised and is not so once the service tells the truth again."""
    now, note = world.truth(call), world.harness.app.cache.notes.get(call)
    promised = call in WRITES and error in ("", "in_doubt")
    if promised and shown(now) != shown(wanted(call, before)):
        yield f"{call} ({error or 'ok'}) is lost: {shown(now)}"
    if note is None or (note.text, note.trash) != (now["content"], now["deleted"]):
        yield f"{call}: the index has {note}, the store {shown(now)}"


async def judge(world: World, lie: Lie, *, moved: bool) -> list[str]:
    """Make the twelve calls under the lie; return what went wrong."""
    await prepare(world, moved=moved)
    before = {call: world.truth(call) for call in CALLS}
    others = set(world.simulator.notes())
    answers = await answers_under(world, lie)
    found = [one for call, given in answers.items() for one in said_wrong(call, *given)]
    found += [one for call in CALLS for one in stored_wrong(world, call, before[call])]
    await world.settle()
    for call, (_, error) in answers.items():
        found += [*stored_wrong(world, call, before[call]), *lost(world, call, before[call], error)]
    for copy in set(world.simulator.notes()) - others:
        text = world.truth(copy)["content"]
        if OURS not in text or FALSE in text:
            found.append(f"a copy that nobody wrote: {text!r}")
        world.simulator.delete(copy)
    return found


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


NAMES = [str(lie) for lie in Liar(None).all()]
ALWAYS = {
    "note: another note under the right number",
    "note: yesterday's text under today's number",
    "note: today's text under yesterday's number",
    "note: no text",
    "note: keys twice",
    "note: not there",
    "write: another note under a far number",
    "write: 409, never carried out",
    "write: 412, never carried out",
}
"""Kinds that have replaced a note, or lost an edit, before there was a proof against them."""


@pytest.mark.attack(51)
@pytest.mark.parametrize("moved", [False, True], ids=["as read", "changed elsewhere since"])
@pytest.mark.timeout(900)
@pytest.mark.slow("twelve calls for each of the lies")
def test_a_wrong_answer_never_becomes_the_note(folder: Path, moved: bool) -> None:
    async def scenario() -> list[str]:
        async with world(folder) as opened:
            found: list[str] = []
            every = Liar(opened.simulator).all()
            drawn = sample("lies", [lie for lie in every if str(lie) not in ALWAYS], 3)
            for lie in [*(lie for lie in every if str(lie) in ALWAYS), *drawn]:
                found += [f"{lie}: {fault}" for fault in await judge(opened, lie, moved=moved)]
            return found

    assert asyncio.run(scenario()) == []


@pytest.mark.attack(51)
def test_there_are_a_hundred_kinds_of_wrong_answers() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 100
    assert set(NAMES) >= ALWAYS
