"""Run the contract with Memento, over files as its app has them, which another program writes, too."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from contract.store_contract import AttachmentsContract, Bench, RevivingContract, StoreContract
from mcp_notarium.errors import OutcomeUnknown
from mcp_notarium.stores.memento import database_file
from mcp_notarium.stores.memento.store import MementoStore
from support.memento_file import MementoFile


class MementoBench:
    """The app writes the file; the disk fails on order."""

    secrets = ()

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *, dates: str) -> None:
        self.app = MementoFile(folder / "dev.db")
        self.store = MementoStore(self.app.path)
        self.store.pause = 0.02
        self._patch = patch
        self._dates = dates
        self._rising = count(1_600_000_000_000, 1000)
        if dates != "integer":  # what shows the form in a file without notes
            self.app.run(
                "INSERT INTO \"User\" VALUES ('u', 'U', 'u@example.org', ?)", (self._date(),)
            )

    def _date(self) -> int | str:
        at = next(self._rising)
        if self._dates == "integer":
            return at
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at / 1000))
        return f"{text}.{at % 1000:03}+00:00"

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        labels = json.dumps(tags) if tags else None
        self.app.put(note_id, text, labels=labels, updatedAt=self._date())

    async def remove(self, note_id) -> None:
        self.app.remove(note_id)

    async def text(self, note_id) -> str:
        return self.app.row(note_id)["content"]

    def forget_cursors(self) -> None: ...

    def forget_versions(self, note_id) -> None: ...

    def refuse_login(self) -> None: ...

    def answer(self, body) -> None: ...

    def unreachable(self) -> None:
        self.app.path = self.app.path.rename(self.app.path.with_name("unmounted.db"))

    def lose_answers(self, times) -> None:
        def commit_and_fail(connection: sqlite3.Connection) -> None:
            connection.execute("COMMIT")
            if times:
                raise OutcomeUnknown("the disk did not answer")

        self._patch.setattr(database_file, "_commit", commit_and_fail)

    def lose_requests(self, times) -> None: ...

    def hang(self) -> None:
        locked = threading.Event()

        def lock() -> None:
            with self.app.opened() as db:
                db.execute("BEGIN IMMEDIATE")
                locked.set()
                time.sleep(0.3)

        threading.Thread(target=lock).start()
        locked.wait()


class TestMemento(StoreContract, AttachmentsContract, RevivingContract):
    over_network = False
    dates = "integer"

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
            bench = MementoBench(Path(place), patch, dates=self.dates)
            yield bench
            await bench.store.close()

    async def test_update_keeps_unknown_fields_and_the_creation_date(self, bench) -> None:
        """An edit changes its own columns, also in a file with columns that are not known here."""
        bench.app.run('ALTER TABLE "Note" ADD COLUMN "mood" TEXT')
        held = {
            "color": "teal", "images": '["data:image/png;base64,AA=="]', "order": 7, "mood": "good",
            "reminder": 1_700_000_000_000, "reminderRecurrence": "weekly", "size": "large",
        }  # fmt: skip
        bench.app.put("n1", "one\n", **held)
        before = bench.app.row("n1")
        base = await bench.store.get("n1")
        changed = replace(base.content, text="two\n")
        write = self.write(bench.store, "n1", changed, base=base, write_id="0b", now=1_700_000_500)
        answer = await bench.store.push(write)
        assert answer.revision.modified_at == 1_700_000_500
        after = bench.app.row("n1")
        assert {name for name in after if after[name] != before[name]} == {"content", "updatedAt"}


class TestMementoWithTextDates(TestMemento):
    dates = "text"
