"""Measure the local notebook: saves, calls, start, making the index again, and the copy at a stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench import corpus
from bench.measure import Figure, Taken, timed
from bench.processes import CONSOLE, DEADLINE, Speaker, WrongAnswer, surroundings
from bench.site import Site
from mcp_notarium import config
from mcp_notarium.account import copies, opener
from mcp_notarium.domain.note import Content
from mcp_notarium.storage.fts_index import FtsIndex
from mcp_notarium.stores.contract import run_at_once
from mcp_notarium.stores.local.kind import TABLES
from mcp_notarium.stores.local.store import LocalStore
from support.journal_entries import make_write

_BATCH = 1000


def local(site: Site) -> Iterator[Figure]:
    """Rows of a notebook with as many notes, filled without a server."""
    folder = site.folder / "local"
    folder.mkdir()
    settings = surroundings(
        NOTARIUM_STORE="local",
        NOTARIUM_DATA_DIR=str(folder),
        NOTARIUM_KEYCHAIN="off",
        DB_ENCRYPTION_KEY="raw:" + "5a" * 32,
        LOG_LEVEL="error",
    )
    texts = _fill(settings, site)

    def figure(row: str, unit: str, value: float, **floors: float) -> Figure:
        return Figure("local", row, site.count, unit, value, floors=floors)

    yield figure("index made from the notes", "s", _load(settings, site))
    _merge(settings)
    starts = [_start(settings, site) for _ in range(site.pace.starts)]
    yield figure("first list, warm", "ms", Taken(starts).median * 1000)
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        server.tool("list", limit=1)
        yield figure("list", "ms", _median(site, lambda _: server.tool("list", limit=20)))
        asked = corpus.questions(site.count)
        for kind in ("rare word", "two words"):
            yield figure(kind, "ms", _median(site, partial(_search, server, asked[kind])))
        for row, took in _saves(server, site):
            yield figure(row, "ms", took)
        yield figure("memory at rest", "MB", server.memory())
        began = time.perf_counter()
    yield figure("stop, with a copy if there is time", "s", time.perf_counter() - began)
    yield figure("a copy, without pauses", "s", _copy(settings))
    (database,) = folder.glob("*/notarium_cache.*.sqlite.encrypted")
    yield figure("database", "MB", database.stat().st_size / 1e6, **{"texts alone": texts / 1e6})


def _fill(settings: dict[str, str], site: Site) -> int:
    """Store the notes of the corpus; return the bytes of their texts."""
    texts = 0
    loaded = config.load(settings, cwd=Path(settings["NOTARIUM_DATA_DIR"])).config
    with closing(opener.open_cache(loaded)) as opened:
        opened.database.set_checkpointer(True)
        store = LocalStore(opened.database)
        notes = corpus.notes(site.count)
        while some := list(islice(notes, _BATCH)):
            with opened.database.transaction(durable=True):
                for note_id, fields in some:
                    content = Content(fields["content"], tuple(fields["tags"]), fields["deleted"])
                    texts += len(content.text.encode())
                    write = make_write(store, note_id, content, write_id=note_id, now=1.6e9)
                    run_at_once(store.push(write))
    return texts


def _load(settings: dict[str, str], site: Site) -> float:
    """Seconds from the launch until every note can be listed."""
    expected, deadline = corpus.active(site.count), time.monotonic() + DEADLINE
    began = time.perf_counter()
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        while True:
            answer = server.tool("list", limit=1)
            if answer["total_items"] == expected and not answer.get("sync"):
                took = time.perf_counter() - began
                break
            if time.monotonic() > deadline:
                raise WrongAnswer(f"{answer['total_items']} notes, never {expected}")
            time.sleep(0.05)
    return took


def _merge(settings: dict[str, str]) -> None:
    """Do the merges that a loaded index leaves to an idle server."""
    loaded = config.load(settings, cwd=Path(settings["NOTARIUM_DATA_DIR"])).config
    with closing(opener.open_cache(loaded)) as opened:
        opened.database.set_checkpointer(True)
        index = FtsIndex(opened.database)
        while index.tidy():
            pass


def _copy(settings: dict[str, str]) -> float:
    """Seconds of a copy, verified; the newest one is out of the way."""
    loaded = config.load(settings, cwd=Path(settings["NOTARIUM_DATA_DIR"])).config
    with closing(opener.open_cache(loaded)) as opened:
        for one in copies.list_copies(opened.anchor.folder):
            one.path.unlink()
        return timed(partial(copies.copy_after_changes, opened, TABLES, keep=1, now=time.time()))


def _start(settings: dict[str, str], site: Site) -> float:
    began = time.perf_counter()
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        if server.tool("list", limit=20)["total_items"] != corpus.active(site.count):
            raise WrongAnswer("not all notes are there")
        return time.perf_counter() - began


def _median(site: Site, act: Callable[[int], object]) -> float:
    """Milliseconds of the middle one of many calls."""
    return Taken([timed(partial(act, at)) for at in range(site.pace.calls)]).median * 1000


def _search(server: Speaker, asked: list[corpus.Asked], at: int) -> None:
    one = asked[at % len(asked)]
    if not one.answers(server.tool("list", query=one.query)):
        raise WrongAnswer(f"{one.query} finds another number of notes")


def _saves(server: Speaker, site: Site) -> Iterator[tuple[str, float]]:
    """Milliseconds of a new note and of a new text of it."""
    text = "saved by the bench\n" + "a line as any other\n" * 20
    made: list[dict[str, Any]] = []

    def create() -> None:
        made.append(server.tool("save", text=text))

    def change() -> None:
        known = {"id": made[-1]["id"], "local_version": made[-1]["local_version"]}
        server.tool("save", **known, text=f"changed\n{text}")

    times = [(timed(create), timed(change)) for _ in range(site.pace.saves)]
    for row, taken in zip(
        ("save, new note", "save, new text"), zip(*times, strict=True), strict=True
    ):
        yield row, Taken(taken).median * 1000
