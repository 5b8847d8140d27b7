"""Do everyday tasks with our server and with others on the same notes: what each costs, and what became of the notes.

Each task of a server that is compared has fresh notes and a process of its own, and is judged by the files or by the service. Our
server does them beside that in the stores that no other server here has.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from bench import everyday_basics as basics
from bench.everyday_notes import (
    NOT_DONE,
    Judge,
    Notes,
    as_object,
    as_text,
    day,
    edit,
    moved,
    notes,
    read_files,
    set_values,
    tell,
    unchanged,
    visit,
    write_files,
)
from bench.everyday_page import CANNOT, DONE, GROUP, OURS, result_row
from bench.everyday_scripts import BASIC_MEMORY, FRUITS, MCPVAULT, SIMPLENOTE, TODAY, Script
from bench.everyday_scripts import OURS as OUR_SCRIPTS
from bench.measure import Figure
from bench.peers import SIMPLE, has_simplenote, installed, simplenote_command
from bench.processes import CONSOLE, Service, Speaker, WrongAnswer, surroundings
from bench.report import tell as progress
from bench.rows_tokens import counts

_LONG = "\n\nDay 287.\n" + "Rain on most days, the beans grow slowly.\n" * 20
_TASK, _SWEPT = "- [ ] order timber 📅 2026-11-30", "- [x] sweep the yard ✅ 2026-11-20"
_PATIENCE, _LATE = 60.0, 2.0


def _ticked(before: Notes, after: Notes, said: str) -> str:
    """Judge the ticked task, with the day or without."""
    done = _TASK.replace("[ ]", "[x]")
    return edit("Plan", _TASK, done, f"{done} ✅ {TODAY}")(before, after, said)


def _harvested(before: Notes, after: Notes, said: str) -> str:
    return set_values(*FRUITS, tags=["stored", "y2026"])(before, after, said)


JUDGES: Mapping[str, Judge] = {
    "append below a heading": edit("Plan", "ground is wet.", "ground is wet.\nBring boots."),
    "read one section of ninety": tell("Day 287."),
    "rewrite a section": edit("Diary", _LONG, "\n\nIt was dry.\n"),
    "rename a heading": edit("Diary", "## Week 3\n", "## Week three\n"),
    "tick the task that is due": _ticked,
    "reopen a task": edit("Chores", _SWEPT, "- [ ] sweep the yard", _SWEPT.replace("[x]", "[ ]")),
    "read three notes at once": tell(*(f"harvest of {fruit.lower()}" for fruit in FRUITS)),
    "one tag comes, one goes": set_values("Apples", tags=["eaten"]),
    "tag all that a search finds": _harvested,
    "take all of that back": unchanged,
    "write into today's note, twice": day,
    "set properties": set_values("Apples", status="sold", price=12.5),
    "find by properties": tell("Quinces"),
    "remove a property": set_values("Apples", price=None),
    "count properties in use": tell("status", "price", "phase"),
    "set a property of many notes": set_values(*FRUITS, season="autumn"),
    "find what hangs loose": tell("Nowhere"),
    "begin a note from a template": visit,
    "move a folder with its links": moved,
    **basics.JUDGES,
}
"""All tasks. The service of Simplenote has no properties, links, templates and folders: of the first nineteen it has eleven."""
OF_SIMPLENOTE = [*list(JUDGES)[:11], *basics.JUDGES]
OF_VAULTS = [task for task in JUDGES if task not in basics.OF_SIMPLENOTE]


@dataclass
class Calls:
    """Call the tools of a server; keep what a model writes and reads."""

    server: Speaker
    asked: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)

    def __call__(self, tool: str, /, **arguments: Any) -> str:
        request = {"name": tool, "arguments": arguments}
        result = self.server.ask("tools/call", request)
        text = "".join(str(block.get("text", "")) for block in result["content"])
        self.asked.append(json.dumps(request, ensure_ascii=False))
        self.answered.append(text)
        return text

    def begin(self) -> None:
        """Forget what was said so far."""
        self.asked.clear()
        self.answered.clear()


@dataclass(frozen=True, slots=True)
class World:
    """Notes in one place, and how a server is started on them."""

    server: Speaker
    read: Callable[[], Notes]


@dataclass(frozen=True, slots=True)
class Rival:
    """A server in one store. ``known``: a search that tells that it has read the notes."""

    name: str
    store: str
    scripts: Mapping[str, Script]
    world: Callable[[Path], AbstractContextManager[World]]
    known: tuple[str, Mapping[str, Any]] | None
    pause: float = 0.2
    """Seconds between two looks whether it has: one refuses calls that are alike."""

    @property
    def tasks(self) -> list[str]:
        """The tasks that its store has."""
        return OF_SIMPLENOTE if self.store == "simplenote" else OF_VAULTS


def _our_settings(data: Path) -> dict[str, str]:
    more = {"DB_ENCRYPTION_KEY": "raw:" + "5a" * 32, "LOG_LEVEL": "error"}
    return {"HOME": str(data), "NOTARIUM_DATA_DIR": str(data / "cache"), **more}


@contextmanager
def _our_vault(folder: Path) -> Iterator[World]:
    place = _files(folder)
    settings = _our_settings(folder) | {"NOTARIUM_STORE": "vault", "VAULT_PATH": str(place)}
    with Speaker(CONSOLE, surroundings(NOTARIUM_KEYCHAIN="off", **settings)) as server:
        _greet(server)
        yield World(server, lambda: read_files(place))


def _files(folder: Path) -> Path:
    place = folder / "notes"
    place.mkdir()
    write_files(place)
    return place


def _greet(server: Speaker) -> None:
    """Say what every client says; a person cannot be asked."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}}
    server.ask("initialize", hello | {"clientInfo": {"name": "bench", "version": "1"}})
    server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


def _peer_files(name: str) -> Callable[[Path], AbstractContextManager[World]]:
    @contextmanager
    def world(folder: Path) -> Iterator[World]:
        place = _files(folder)
        with installed()[name].launch(place, folder) as server:
            server.patience = 1.0  # not all end with their input
            _greet(server)
            yield World(server, lambda: read_files(place))

    return world


@contextmanager
def _service(folder: Path) -> Iterator[tuple[Service, Callable[[], Notes]]]:
    del folder
    with Service(0) as service:
        for name, text in notes(files=False).items():
            for price in basics.RENTS if name == "Rent" else [""]:
                older = text.replace(basics.RENTS[-1], price) if price else text
                service.order(put=name, **as_object(name, older))

        def read() -> Notes:
            held = service.order(notes=True)
            return {name: as_text(one) for name, one in held.items() if not one["deleted"]}

        yield service, read


@contextmanager
def _our_simplenote(folder: Path) -> Iterator[World]:
    with (
        _service(folder) as (service, read),
        Speaker(CONSOLE, service.settings(folder)) as server,
    ):
        _greet(server)
        yield World(server, read)


@contextmanager
def _peer_simplenote(folder: Path) -> Iterator[World]:
    with (
        _service(folder) as (service, read),
        Speaker(*simplenote_command(service.card, folder)) as server,
    ):
        server.patience = 1.0
        _greet(server)
        yield World(server, read)


_STATS = ("manage", {"action": "get_stats"})
OUR_RIVALS = (
    Rival(OURS, "simplenote", OUR_SCRIPTS | basics.OURS, _our_simplenote, _STATS),
    Rival(OURS, "vault", OUR_SCRIPTS | basics.OURS, _our_vault, _STATS),
)
_PEERS = (
    Rival("mcpvault", "vault", MCPVAULT | basics.MCPVAULT, _peer_files("mcpvault"), None),
    Rival(
        "simplenote-mcp-server",
        "simplenote",
        SIMPLENOTE | basics.SIMPLENOTE,
        _peer_simplenote,
        (
            "list_notes",
            {"limit": 100},
        ),  # a search that found nothing would find nothing for a minute
        2.5,
    ),
    Rival(
        "basic-memory",
        "vault",
        BASIC_MEMORY | basics.BASIC_MEMORY,
        _peer_files("basic-memory"),
        ("search_notes", {"query": "fragrant"}),
    ),
)


def everyday(folder: Path, tokenizer: Path) -> Iterator[Figure]:
    """Rows of each task of each server, and of ours in the other stores."""
    there = {*installed(), *([SIMPLE] if has_simplenote() else [])}
    for rival in OUR_RIVALS:
        yield from compare(rival, folder / f"{rival.store} {rival.name}", tokenizer)
    run = importlib.import_module("support.everyday_tasks").run  # what is there is not typed
    for store in ("local", "trilium", "memento"):
        place = folder / store
        place.mkdir()
        for task, agent in anyio.run(run, store, place).items():
            said = (agent.asked, agent.answered)
            yield from _figures(result_row(task, OURS, store), DONE, said, tokenizer)
    for rival in (one for one in _PEERS if one.name in there):
        begun = time.monotonic()
        yield from compare(rival, folder / f"{rival.store} {rival.name}", tokenizer)
        progress(f"everyday, {rival.name}, {rival.store}: {time.monotonic() - begun:.1f} s")


def compare(rival: Rival, folder: Path, tokenizer: Path) -> Iterator[Figure]:
    """Rows of one server; one that has no tool for a task cannot do it."""
    for number, task in enumerate(rival.tasks):
        if task not in rival.scripts:
            yield Figure(GROUP, result_row(task, rival.name, rival.store), 0, CANNOT, 0.0)
            continue
        place = folder / str(number)
        place.mkdir(parents=True)
        with rival.world(place) as world:
            yield from attempt(rival, world, task, tokenizer)


def attempt(rival: Rival, world: World, task: str, tokenizer: Path) -> Iterator[Figure]:
    """Rows of one task. What a server writes a little before or after its answers counts."""
    call, judge = Calls(world.server), JUDGES[task]
    _wait(rival, call)
    before, settled = world.read(), False
    while not settled:
        time.sleep(0.3 if rival.known and rival.name != OURS else 0.0)
        settled = before == (before := world.read())
    call.begin()
    said = ""
    try:
        rival.scripts[task](call)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        said = f"{NOT_DONE}: {call.answered[-1][:60] if call.answered else error}"
    deadline = time.monotonic() + _LATE
    while (wrong := judge(before, world.read(), "\n".join(call.answered))) and (
        time.monotonic() < deadline
    ):
        time.sleep(0.2)
    row = result_row(task, rival.name, rival.store)
    yield from _figures(row, wrong or said or DONE, (call.asked, call.answered), tokenizer)


def _wait(rival: Rival, call: Calls) -> None:
    """Wait until the server has read all notes."""
    deadline = time.monotonic() + _PATIENCE
    while rival.known is not None:
        tool, arguments = rival.known
        text = call(tool, **arguments)
        if '"sync_complete":true' in text.replace(" ", "") or "Quinces" in text or "Plan" in text:
            return
        if time.monotonic() > deadline:
            raise WrongAnswer(f"{rival.name} has not read the notes: {text[:300]}")
        time.sleep(rival.pause)


def _figures(
    row: str,
    verdict: str,
    said: tuple[list[str], list[str]],
    tokenizer: Path,
) -> Iterator[Figure]:
    """Rows of what was done, of its tokens in and out, and of its calls."""
    (wrote, read), unit = counts(["\n".join(part) for part in said], tokenizer)
    yield Figure(GROUP, f"{row}: tokens", 0, unit, wrote + read)
    yield Figure(GROUP, f"{row}: tokens written", 0, unit, wrote)
    yield Figure(GROUP, f"{row}: calls", 0, "calls", len(said[0]))
    yield Figure(GROUP, row, 0, verdict, float(verdict == DONE))
