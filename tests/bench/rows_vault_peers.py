"""Measure a vault beside other servers of Markdown folders, each with its own copy of the same files.

``scripts/bench --install-peers`` installs them; those that are not there are left out. mcpvault has no index and
reads all files for each search; basic-memory keeps one, unencrypted, and is asked for words, not for meanings.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from bench.measure import Figure, in_turn
from bench.peers import Launch, installed
from bench.processes import CONSOLE, DEADLINE, Speaker, WrongAnswer
from bench.rows_vault import fill
from bench.site import SMOKE, Site

_MOST_FOR_BASIC_MEMORY = 1000
"""Its first index of 10,000 files takes more than half an hour."""
_OURS = "here"
_SOON = 0.005
_numbers = count()


@dataclass(frozen=True, slots=True)
class Peer:
    """How one server is started and asked; ``find`` tells whether a search names a note."""

    launch: Launch
    find: Callable[[Speaker, str, str], bool]
    read: Callable[[Speaker, str], str]
    append: Callable[[Speaker, str, str], object]


def vault_peers(site: Site) -> Iterator[Figure]:
    """Rows of a folder with as many files, 100 in each folder below it."""
    side = _Side(site)

    def figure(row: str, unit: str, taken: Mapping[str, float]) -> Figure:
        floors = {name: value for name, value in taken.items() if name != _OURS}
        return Figure("vault peers", row, site.count, unit, taken[_OURS], floors=floors)

    yield figure("first index, until words of all parts are found", "s", side.start(side.words))
    some = dict([*side.words.items()][:1])
    yield figure("start with nothing changed, until a word is found", "s", side.start(some))
    changed = f"changed{next(_numbers)}"
    for place in side.places.values():
        _write(place / side.notes[3], changed)
    time.sleep(1)
    took = side.start({changed: side.notes[3]})
    yield figure("start after a change, until its word is found", "s", took)
    with side.serving():
        for row, act in (
            ("rare word", side.search),
            ("a note, read", side.read),
            ("save, one line", side.save),
            ("a changed file shows", side.change),
        ):
            taken = in_turn(
                [
                    {name: partial(act, name, number) for name in side.peers}
                    for number in range(site.pace.changes)
                ]
            )
            yield figure(row, "ms", {name: one.median * 1000 for name, one in taken.items()})
        memory = {name: server.memory("VmHWM") for name, server in side.servers.items()}
        yield figure("memory, at most", "MB", memory)


class _Side:
    """The servers side by side, each with its copy of the files and a folder for its own data."""

    def __init__(self, site: Site) -> None:
        others = () if site.pace is SMOKE else _others()
        left_out = "basic-memory" if site.count > _MOST_FOR_BASIC_MEMORY else ""
        everyone = {peer.launch.name: peer for peer in (_ours(), *others)}
        self.peers = {name: peer for name, peer in everyone.items() if name != left_out}
        self.places = {name: site.folder / f"files of {name}" for name in self.peers}
        self._data = {name: site.folder / f"data of {name}" for name in self.peers}
        ours = self.places[_OURS]
        self.notes = [str(path.relative_to(ours)) for path in fill(ours, site)]
        for name, place in self.places.items():
            if name != _OURS:
                shutil.copytree(ours, place)
        spread = range(0, site.count, max(1, site.count // 7))
        self.words = {f"unique{number}": self.notes[number] for number in spread}
        self.servers: dict[str, Speaker] = {}

    def start(self, looked_for: Mapping[str, str]) -> dict[str, float]:
        """Start each; seconds until it finds these notes by their words."""
        took = {}
        for name, peer in self.peers.items():
            with peer.launch.start(self.places[name], self._data[name]) as server:
                for word, note in looked_for.items():
                    _wait(partial(peer.find, server, word, note))
                took[name] = server.age
        return took

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Start all, and wait until each finds a note."""
        with ExitStack() as stack:
            for name, peer in self.peers.items():
                server = stack.enter_context(peer.launch.start(self.places[name], self._data[name]))
                self.servers[name] = server
                _wait(partial(peer.find, server, *next(iter(self.words.items()))))
            yield

    def search(self, name: str, number: int) -> None:
        """Find a note by a word that no other has."""
        word, note = [*self.words.items()][number % len(self.words)]
        if not self.peers[name].find(self.servers[name], word, note):
            raise WrongAnswer(f"{name} does not find {word}")

    def read(self, name: str, number: int) -> None:
        """Read a note."""
        text = self.peers[name].read(self.servers[name], self.notes[50 + number])
        if f"unique{50 + number}" not in text:
            raise WrongAnswer(f"{name} reads another note")

    def save(self, name: str, number: int) -> None:
        """Append a line through the server."""
        line = f"saved {next(_numbers)}"
        self.peers[name].append(self.servers[name], self.notes[200 + number], line)

    def change(self, name: str, number: int) -> None:
        """Append a word as an editor does, and look until it is found."""
        word, path = f"appended{next(_numbers)}", self.notes[10 + number]
        _write(self.places[name] / path, word)
        _wait(partial(self.peers[name].find, self.servers[name], word, path))


def _write(path: Path, word: str) -> None:
    with path.open("a") as file:
        file.write(f"\n{word}\n")


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > deadline:
            raise WrongAnswer("it is never found")
        time.sleep(_SOON)


def _text(server: Speaker, name: str, **arguments: object) -> str:
    return str(server.call(name, **arguments)["content"])


def _ours() -> Peer:
    return Peer(
        Launch(
            _OURS,
            lambda _place: CONSOLE,
            lambda place, data: {
                "NOTARIUM_STORE": "vault",
                "NOTARIUM_TOOLS": "both",
                "NOTARIUM_DATA_DIR": str(data),
                "NOTARIUM_KEYCHAIN": "off",
                "DB_ENCRYPTION_KEY": "raw:" + "5a" * 32,
                "LOG_LEVEL": "error",
                "VAULT_PATH": str(place),
            },
        ),
        lambda server, word, note: note in _text(server, "list", query=word, limit=20),
        lambda server, note: _text(server, "read_note", path=note),
        lambda server, note, line: server.tool("save", id=note, append=line),
    )


def _others() -> Iterator[Peer]:
    there = installed()
    if launch := there.get("mcpvault"):
        yield Peer(
            launch,
            lambda server, word, note: note in _text(server, "search_notes", query=word, limit=20),
            lambda server, note: _text(server, "read_note", path=note),
            lambda server, note, line: server.call(
                "write_note", path=note, content=f"\n{line}", mode="append"
            ),
        )
    if launch := there.get("basic-memory"):
        yield Peer(
            launch,
            lambda server, word, note: (
                Path(note).stem in _text(server, "search_notes", query=word, page_size=20)
            ),
            lambda server, note: _text(server, "read_note", identifier=note.removesuffix(".md")),
            lambda server, note, line: server.call(
                "edit_note", identifier=note.removesuffix(".md"), operation="append", content=line
            ),
        )
