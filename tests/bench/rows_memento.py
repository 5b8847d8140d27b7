"""Measure a file of Memento's app: first sync, refreshes, saves, native calls, how long the app waits for locks."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench import corpus
from bench.measure import Figure, Taken
from bench.processes import CONSOLE, Speaker, WrongAnswer, surroundings
from bench.rows_trilium import wait_for
from bench.site import Site
from mcp_notarium import config
from mcp_notarium.app import open_app
from mcp_notarium.stores.memento import database_file
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.sync.cycle_states import Event
from support.journal_entries import make_write
from support.memento_file import MementoFile

IMAGE = json.dumps(["data:image/png;base64," + "A" * 20_000])
EMBEDDING = json.dumps([0.123456] * 400)
_EACH = 10
"""One note of so many has an image."""


def memento(site: Site) -> Iterator[Figure]:
    """Rows of a file with as many notes, each with an embedding, some with an image."""
    folder = site.folder / "memento"
    folder.mkdir()
    app = _fill(folder / "dev.db", site.count)
    settings = surroundings(
        NOTARIUM_STORE="memento",
        NOTARIUM_TOOLS="both",
        NOTARIUM_DATA_DIR=str(folder),
        NOTARIUM_KEYCHAIN="off",
        DB_ENCRYPTION_KEY="raw:" + "5a" * 32,
        LOG_LEVEL="error",
        MEMENTO_DATABASE=str(app.path),
    )

    def figure(row: str, unit: str, value: float) -> Figure:
        return Figure("memento", row, site.count, unit, value)

    yield figure("file", "MB", app.path.stat().st_size / 1e6)
    with Speaker(CONSOLE, settings) as server:
        server.greet()
        wait_for(server, site.count)
        yield figure("first sync", "s", server.age)
        yield figure("processor time up to then", "s", server.cpu_ever())
        site.settle(server)
        yield figure("memory, at most", "MB", server.memory("VmHWM"))
        yield figure("memory, at rest", "MB", server.memory())
        yield figure("list", "ms", _median(site, lambda _: server.tool("list", limit=20)))
        for tool, arguments in (
            ("get_notes", {}),
            ("search_notes", {"query": corpus.questions(site.count)["rare word"][0].query}),
            ("get_note", {"id": "n1"}),
        ):
            yield figure(tool, "ms", _median(site, partial(_native, server, tool, arguments)))
        waits = _Waits(app)
        with waits:
            yield figure("save, new note", "ms", _median(site, partial(_save, server)))
        yield figure(
            "longest wait of the app for a lock meanwhile", "ms", max(waits.seconds) * 1000
        )
    yield _write_lock(site, app)
    for kind, seconds in asyncio.run(_refreshes(site, settings, app)).items():
        yield figure(f"refresh, {kind}", "ms", statistics.median(seconds) * 1000)


def _write_lock(site: Site, app: MementoFile) -> Figure:
    """How long an edit of a note keeps all others from writing; the floor is the app's own change of such a note."""
    store, ours, apps = MementoStore(app.path), [], []
    locked_at = 0.0
    columns, commit = database_file._columns, database_file._commit

    def locked(connection: sqlite3.Connection) -> database_file.Columns:
        nonlocal locked_at
        locked_at = time.perf_counter()  # of a write: the statement before has taken the lock
        return columns(connection)

    def committed(connection: sqlite3.Connection) -> None:
        commit(connection)
        ours.append(time.perf_counter() - locked_at)

    async def edits() -> None:
        for number in range(site.pace.saves):
            base = await store.get(f"n{number * _EACH}")
            content = replace(base.content, text=f"{base.content.text}\nmore")
            write_id, now = f"{number:032x}", time.time()
            await store.push(make_write(store, base.id, content, base, write_id=write_id, now=now))
            apps.append(await asyncio.to_thread(_change_as_the_app, app, f"n{number * _EACH}"))
        await store.close()

    with patch.multiple(database_file, _columns=locked, _commit=committed):
        asyncio.run(edits())
    floor = statistics.median(apps) * 1000
    taken = Taken(ours)
    return Figure(
        *(
            "memento",
            "write lock of an edit",
            site.count,
            "ms",
            taken.median * 1000,
            taken.p99 * 1000,
        ),
        floors={"the app's own change of it": floor},
    )


def _change_as_the_app(app: MementoFile, note_id: str) -> float:
    with app.opened() as db:
        db.execute("BEGIN IMMEDIATE")
        began = time.perf_counter()
        row = db.execute('SELECT * FROM "Note" WHERE "id" = ?', (note_id,)).fetchone()
        values = (row["content"] + "\nby the app", int(time.time() * 1000), note_id)
        db.execute('UPDATE "Note" SET "content" = ?, "updatedAt" = ? WHERE "id" = ?', values)
        db.execute("COMMIT")
        return time.perf_counter() - began


@dataclass
class _Waits:
    """The app, which takes the lock again and again, and tells how long it has waited."""

    app: MementoFile
    seconds: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        with self.app.opened() as db:
            while not self._stop.wait(0.002):
                began = time.perf_counter()
                db.execute("BEGIN IMMEDIATE")
                self.seconds.append(time.perf_counter() - began)
                db.execute("ROLLBACK")


def _fill(path: Path, count: int) -> MementoFile:
    app = MementoFile(path)
    with app.opened() as db:
        db.execute("BEGIN")
        for number, (_, fields) in enumerate(corpus.notes(count)):
            title, _, content = fields["content"].partition("\n")
            image = IMAGE if number % _EACH == 0 else None
            db.execute(
                'INSERT INTO "Note" ("id", "title", "content", "labels", "images", "embedding", "createdAt", '
                '"updatedAt") VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
                (f"n{number}", title, content, json.dumps(fields["tags"]), image, EMBEDDING)
                + (1_600_000_000_000 + number,) * 2,
            )
        db.execute("COMMIT")
    return app


def _native(server: Speaker, tool: str, arguments: dict[str, Any], _number: int) -> None:
    server.call(tool, **arguments)


def _save(server: Speaker, number: int) -> None:
    server.tool("save", title=f"Saved {number}", text="a line\n" * 20)


def _median(site: Site, call: Any) -> float:
    taken = []
    for number in range(site.pace.changes):
        began = time.perf_counter()
        call(number)
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


async def _refreshes(
    site: Site, settings: dict[str, str], app: MementoFile
) -> dict[str, list[float]]:
    """Refresh with and without a change, as a server does every interval, which nobody waits for here."""
    loaded = config.load(settings, cwd=Path(settings["NOTARIUM_DATA_DIR"])).config
    async with open_app(loaded, syncing=False) as opened:

        async def refresh() -> float:
            began = time.perf_counter()
            await opened.scheduler._runner.work(Event.DUE)
            return time.perf_counter() - began

        await refresh()
        idle = [await refresh() for _ in range(site.pace.changes)]
        before, changed = opened.cache.notes.counts().total, []
        for number in range(site.pace.changes):
            app.put(f"new{number}", "a line\n")
            changed.append(await refresh())
        found = opened.cache.notes.counts().total - before
        if found != site.pace.changes:
            raise WrongAnswer(f"{found} notes came by {site.pace.changes} changes")
    return {"no change": idle, "one change": changed}
