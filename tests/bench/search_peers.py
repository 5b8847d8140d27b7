"""Ask other servers of Markdown folders the judged queries, each on its own copy of the same notes as files.

``scripts/bench --install-peers`` puts them into ``.bench``, each in an environment of its own; those that are not there are left out.
They are asked for words, as an agent asks that names no limit; none of them has a model of meanings here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Speaker, surroundings
from bench.report import tell
from quality.scoring import Answer
from quality.texts import Note

_BENCH = Path(__file__).resolve().parents[2] / ".bench"
_OF_NPM = {"mcpvault": "@bitbonsai/mcpvault"}
_OF_PYPI = ("markdown-vault-mcp", "basic-memory")
_PATIENCE = 400.0
_FILE = "n-{:05d}.md"
_OWN_WORD = re.compile(r"\bunique\d+\b")
_PARTS = 7
_NAMED = re.compile(r"\bn-(\d{5})\b")


@dataclass(frozen=True, slots=True)
class SearchPeer:
    """How one server is started on a folder and asked."""

    name: str
    command: list[str]
    environment: Callable[[Path, Path], Mapping[str, str]]
    tool: str
    options: Mapping[str, object]

    def start(self, place: Path, data: Path) -> Speaker:
        """Launch it, greeted."""
        command = [str(place) if part == "FOLDER" else part for part in self.command]
        server = Speaker(command, surroundings(**self.environment(place, data)))
        server.greet()
        return server

    def ask(self, server: Speaker, text: str, notes: Sequence[Note]) -> Answer:
        """Return the notes in the order in which the answer names their files; an error is an empty answer."""
        began = time.perf_counter()
        arguments = {"query": text, **self.options}
        result = server.ask("tools/call", {"name": self.tool, "arguments": arguments})
        took = (time.perf_counter() - began) * 1000
        said = "".join(str(block.get("text", "")) for block in result["content"])
        named = dict.fromkeys(int(number) for number in _NAMED.findall(said))
        return Answer(tuple(notes[number].id for number in named), said, took)


def install() -> None:
    """Install every peer into a folder of its own below ``.bench``."""
    _BENCH.mkdir(exist_ok=True)
    for package in _OF_NPM.values():
        subprocess.run(["npm", "install", "--silent", "--prefix", str(_BENCH), package], check=True)
    for name in _OF_PYPI:
        place = _BENCH / name
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        done = subprocess.run([*pip, "install", "--quiet", name], check=False)
        if done.returncode:
            tell(f"{name} cannot be installed here and is left out")


def peers(folder: Path, notes: Sequence[Note], asked: Sequence[str]) -> dict[str, list[Answer]]:
    """Return the answers of each server that is there. One that does not find the last note in time is left out."""
    found = {}
    for peer in _available():
        place, data = folder / f"files of {peer.name}", folder / f"data of {peer.name}"
        data.mkdir()
        _write(place, notes)
        with peer.start(place, data) as server:
            if _ready(peer, server, notes):
                found[peer.name] = [peer.ask(server, text, notes) for text in asked]
            else:
                tell(f"{peer.name} has not indexed {len(notes)} notes in {_PATIENCE:.0f} s")
    return found


def _write(place: Path, notes: Sequence[Note]) -> None:
    place.mkdir()
    for number, note in enumerate(notes):
        tags = "".join(f"  - {tag}\n" for tag in note.tags)
        file = place / _FILE.format(number)
        file.write_text(f"---\ntags:\n{tags}---\n{note.text}", encoding="utf-8")
        os.utime(file, (note.date, note.date))


def _ready(peer: SearchPeer, server: Speaker, notes: Sequence[Note]) -> bool:
    """Wait until notes of all parts are found by a word that only they have."""
    deadline = time.monotonic() + _PATIENCE
    own = [found[0] for note in notes if (found := _OWN_WORD.search(note.text))]
    for word in own[:: max(1, len(own) // _PARTS)] + own[-1:]:
        while not peer.ask(server, word, notes).ids:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
    return True


def _available() -> Iterator[SearchPeer]:
    mcpvault = _BENCH / "node_modules" / ".bin" / "mcpvault"
    if mcpvault.exists():
        command = [str(mcpvault), "FOLDER"]
        yield SearchPeer("mcpvault", command, lambda _place, _data: {}, "search_notes", {})
    vault = _BENCH / "markdown-vault-mcp" / "bin" / "markdown-vault-mcp"
    if vault.exists():
        yield SearchPeer(
            "markdown-vault-mcp",
            [str(vault), "serve"],
            lambda place, data: {
                "HOME": str(data),
                "MARKDOWN_VAULT_MCP_SOURCE_DIR": str(place),
                "MARKDOWN_VAULT_MCP_READ_ONLY": "true",
            },
            "search",
            {},
        )
    memory = _BENCH / "basic-memory" / "bin" / "basic-memory"
    if memory.exists():
        yield SearchPeer(
            "basic-memory",
            [str(memory), "mcp"],
            lambda place, data: {
                "HOME": str(data),
                "BASIC_MEMORY_HOME": str(place),
                "BASIC_MEMORY_CONFIG_DIR": str(data / "settings"),
                "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            },
            "search_notes",
            {},
        )
