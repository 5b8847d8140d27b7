"""Measure a vault: first index, start, how soon a changed file shows, search, saves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from bench import corpus
from bench.measure import Figure, Taken, timed
from bench.processes import CONSOLE, DEADLINE, Speaker, WrongAnswer, surroundings
from bench.site import Site
from mcp_notarium.stores.vault.file_table import FileTable
from mcp_notarium.stores.vault.store import VaultStore

_IN_A_FOLDER = 100
_SOON = 0.005
_numbers = count()


def vault(site: Site) -> Iterator[Figure]:
    """Rows of a folder with as many files, 100 in each folder below it."""
    place = site.folder / "vault"
    files = fill(place, site)
    settings = surroundings(
        NOTARIUM_STORE="vault",
        NOTARIUM_DATA_DIR=str(site.folder / "of the vault"),
        NOTARIUM_KEYCHAIN="off",
        DB_ENCRYPTION_KEY="raw:" + "5a" * 32,
        LOG_LEVEL="error",
        VAULT_PATH=str(place),
    )

    def figure(row: str, unit: str, value: float) -> Figure:
        return Figure("vault", row, site.count, unit, value)

    reading = timed(lambda: [path.read_bytes() for path in files])
    yield figure("reading all files, alone", "s", reading)
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        _wait(lambda: _is_loaded(server, len(files)))
        yield figure("first index", "s", server.age)
        site.settle(server)
        yield figure("memory, at most", "MB", server.memory("VmHWM"))
    yield figure("a look at all files", "ms", _look(place, site))
    starts = [_start(settings, len(files)) for _ in range(site.pace.starts)]
    yield figure("start with nothing changed, to the first list", "ms", Taken(starts).median * 1000)
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        _wait(lambda: _is_loaded(server, len(files)))
        asked = corpus.questions(site.count)
        for kind in ("rare word", "two words"):
            took = _median(site, partial(_search, server, asked[kind]))
            yield figure(kind, "ms", took)
        yield figure("a changed file shows", "ms", _median(site, partial(_change, server, files)))
        yield figure("save, one line", "ms", _median(site, partial(_save, server, place)))


def fill(place: Path, site: Site) -> list[Path]:
    """Write the notes of the corpus; return the files."""
    files = []
    for number, (note_id, fields) in enumerate(corpus.notes(site.count)):
        folder = place / f"Folder {number // _IN_A_FOLDER}"
        folder.mkdir(parents=True, exist_ok=True)
        tags = ", ".join(f'"{tag}"' for tag in fields["tags"])
        path = folder / f"{note_id}.md"
        path.write_text(f"---\ntags: [{tags}]\ncreated: 2024-01-02\n---\n{fields['content']}")
        files.append(path)
    return files


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        if time.monotonic() > deadline:
            raise WrongAnswer("the vault never shows it")
        time.sleep(_SOON)


def _is_loaded(server: Speaker, total: int) -> bool:
    answer = server.tool("list", limit=1)
    return answer["total_items"] == total and not answer.get("sync")


def _search(server: Speaker, asked: list[corpus.Asked], number: int) -> None:
    """Search all notes; the files have their words, and none is in the trash."""
    server.tool("list", query=asked[number % len(asked)].query, limit=20)


def _look(place: Path, site: Site) -> float:
    """Milliseconds of the scan that finds what has changed."""
    table, store = FileTable(), VaultStore(place)
    with store._folder.opened() as root:
        return (
            Taken([timed(lambda: table.scan(root)) for _ in range(site.pace.changes)]).median * 1000
        )


def _start(settings: dict[str, str], total: int) -> float:
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        _wait(lambda: _is_loaded(server, total))
        return server.age


def _change(server: Speaker, files: list[Path], number: int) -> None:
    """Append a word as an editor does, and look until it is found."""
    word = f"appended{next(_numbers)}"
    with files[number].open("a") as file:
        file.write(f"\n{word}\n")
    _wait(lambda: server.tool("list", query=word, limit=1)["total_items"] == 1)


def _save(server: Speaker, place: Path, number: int) -> None:
    path = sorted((place / "Folder 0").iterdir())[number]
    server.tool("save", id=f"Folder 0/{path.name}", append=f"saved {next(_numbers)}")


def _median(site: Site, call: Callable[[int], Any]) -> float:
    return (
        Taken([timed(partial(call, number)) for number in range(site.pace.changes)]).median * 1000
    )
