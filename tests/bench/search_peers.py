"""Ask other servers of Markdown folders the judged queries, each on its own copy of the same notes as files.

They are asked for words, as an agent asks that names no limit; none of them has a model of meanings here.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers import installed
from bench.processes import Speaker
from bench.report import tell
from quality.scoring import Answer
from quality.texts import Note

_TOOLS = {
    "mcpvault": "search_notes",
    "markdown-vault-mcp": "search",
}
_PATIENCE = 120.0
_FILE = "n-{:05d}.md"
_NAMED = re.compile(r"\bn-(\d{5})\b")
_OWN_WORD = re.compile(r"\bunique\d+\b")
_PARTS = 7


def peers(folder: Path, notes: Sequence[Note], asked: Sequence[str]) -> dict[str, list[Answer]]:
    """Return the answers of each server that is there. One that does not find the last note in time is left out."""
    found = {}
    for name, launch in installed().items():
        if name not in _TOOLS:
            continue
        place, data = folder / f"files of {name}", folder / f"data of {name}"
        data.mkdir()
        _write(place, notes)
        with launch.start(place, data) as server:
            if _ready(name, server, notes):
                found[name] = [_ask(name, server, text, notes) for text in asked]
            else:
                tell(f"{name} has not indexed {len(notes)} notes in {_PATIENCE:.0f} s")
    return found


def _write(place: Path, notes: Sequence[Note]) -> None:
    place.mkdir()
    for number, note in enumerate(notes):
        tags = "".join(f"  - {tag}\n" for tag in note.tags)
        file = place / _FILE.format(number)
        file.write_text(f"---\ntags:\n{tags}---\n{note.text}", encoding="utf-8")
        os.utime(file, (note.date, note.date))


def _ready(name: str, server: Speaker, notes: Sequence[Note]) -> bool:
    """Wait until notes of all parts are found by a word that only they have."""
    deadline = time.monotonic() + _PATIENCE
    own = [found[0] for note in notes if (found := _OWN_WORD.search(note.text))]
    for word in own[:: max(1, len(own) // _PARTS)] + own[-1:]:
        while not _ask(name, server, word, notes).ids:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.5)
    return True


def _ask(name: str, server: Speaker, text: str, notes: Sequence[Note]) -> Answer:
    """Return the notes in the order in which the answer names their files; an error is an empty answer."""
    began = time.perf_counter()
    result = server.ask("tools/call", {"name": _TOOLS[name], "arguments": {"query": text}})
    took = (time.perf_counter() - began) * 1000
    said = "".join(str(block.get("text", "")) for block in result["content"])
    named = dict.fromkeys(int(number) for number in _NAMED.findall(said))
    return Answer(tuple(notes[number].id for number in named), said, took)
