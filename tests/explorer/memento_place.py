"""Keep the notes of a run in the SQLite file of an app, which the app writes, too.

The store's threads are workers (``workers``). Each statement is a moment at which the app may act, or the process may
end. The app takes SQLite's real locks and keeps them for simulated seconds; both sides wait for each other in simulated time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

from explorer.broken import Broken
from explorer.editors import added_below
from explorer.workers import TurnLock, Workers, require_alive
from mcp_notarium import threads
from mcp_notarium.domain.note import Content, PendingWrite
from mcp_notarium.stores.contract import Acknowledgement, Store
from mcp_notarium.stores.kind import StoreSettings
from mcp_notarium.stores.memento import database_file, note_codec
from mcp_notarium.stores.memento.database_file import DatabaseFile, Opened
from mcp_notarium.stores.memento.kind import DATABASE, KIND, USER_ID
from mcp_notarium.stores.memento.note_table import NoteTable
from mcp_notarium.stores.memento.store import MementoStore
from support.memento_file import BUSY_SECONDS, MementoFile

if TYPE_CHECKING:
    from explorer.machine import Process
    from explorer.world import World
    from mcp_notarium.storage.cache import Cache

LOOK_SECONDS = 0.2
"""Between two looks whether the file is free: in simulated time a few will do."""
HELD_SECONDS = (0.02, 1.0, 4.0, 7.0)
"""Seconds for which the app keeps a lock: shorter than anybody waits, and longer."""
_CHANGES = ("BEGIN IMMEDIATE", "INSERT", "UPDATE", "DELETE", "COMMIT")


class CountedFile(DatabaseFile):
    """The file, and how often its process has looked at it or written it."""

    uses = 0

    def stamp(self) -> str:
        """See ``DatabaseFile.stamp``."""
        self.uses += 1
        return super().stamp()

    def reading(self) -> AbstractContextManager[Opened]:
        """See ``DatabaseFile.reading``."""
        self.uses += 1
        return super().reading()

    def writing(self) -> AbstractContextManager[Opened]:
        """See ``DatabaseFile.writing``."""
        self.uses += 1
        return super().writing()


class SteppedMemento(MementoStore):
    """The store of one process."""

    pause = 10.0

    def __init__(self, place: MementoPlace, process: Process) -> None:
        super().__init__(place.app.path)
        self.process = process
        self.counted = self._file = CountedFile(place.app.path)
        self._place = place
        self._file._in_use = TurnLock(place.workers)  # type: ignore[assignment]
        process.ends.append(self._file._drop)

    async def push(self, write: PendingWrite) -> Acknowledgement:
        """See ``Store.push``."""
        self._place.world.oracle.see_push(write)
        self.process.place("sends push")
        answer = await super().push(write)
        self.process.place("has the answer to push")
        return answer


class MementoPlace:
    """The file, and the app."""

    repeats = False

    traits = MementoStore.traits

    def __init__(self, world: World) -> None:
        self.world = world
        self.app = MementoFile(world.folder / "dev.db")
        self.settings: dict[str, Any] = {
            "store": KIND,
            "store_settings": StoreSettings({DATABASE: str(self.app.path), USER_ID: ""}),
        }
        self.workers = workers = Workers(world.loop, world.chooser)
        self._stores: list[SteppedMemento] = []
        self._gone: list[str] = []
        place = self

        class Connection(sqlite3.Connection):
            """One of the store, whose every statement is a moment."""

            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                """See ``sqlite3``."""
                verb = (
                    " ".join(sql.split(None, 2)[:2])
                    if sql.startswith("BEGIN")
                    else sql.split(None, 1)[0]
                )
                require_alive()
                if world.down and (verb != "PRAGMA" or "data_version" in sql):
                    raise _locked()
                if verb == "PRAGMA":
                    return super().execute(sql, *values)
                workers.moment(f"before {verb}", kill=verb in _CHANGES)
                found = super().execute(sql, *values)
                if verb == "COMMIT":
                    workers.moment("it has committed", kill=True)
                    place.maybe_fail()
                return found

        replaced = SimpleNamespace(**{name: getattr(sqlite3, name) for name in dir(sqlite3)})
        replaced.connect = lambda *args, **how: sqlite3.connect(*args, **how, factory=Connection)
        self._patches = ExitStack()
        for where, name, value in (
            (threads, "threading", workers.threading),
            (time, "sleep", workers.sleep),
            (database_file, "sqlite3", replaced),
            (database_file, "LOOK_SECONDS", LOOK_SECONDS),
        ):
            self._patches.enter_context(mock.patch.object(where, name, value))

    def maybe_fail(self) -> None:
        """Let the disk not confirm what it has stored."""
        chooser = self.world.chooser
        rate = chooser.rates.faults / 2
        if not self.world.calm and chooser.choose("the disk does not answer", 2, rate=rate):
            raise sqlite3.OperationalError("simulated")

    # The app.

    def acts(self) -> dict[str, Callable[[str, str], None]]:
        """See ``Place.acts``."""

        def top(text: str, word: str) -> str:
            return f"{word}\n{text}"

        def end(text: str, word: str) -> str:
            return added_below(text, word)

        def whole(_text: str, word: str) -> str:
            return f"{word} other\n"

        return {
            "edit the top": lambda one, word: self._edit(one, word, top),
            "edit the end": lambda one, word: self._edit(one, word, end),
            "edit and tell no date": lambda one, word: self._edit(one, word, end, dated=False),
            "edit and keep the lock": lambda one, word: self._edit(one, word, end, holds=True),
            "rewrite": lambda one, word: self._edit(one, word, whole),
            "write an old buffer": self._write_old_buffer,
            "label": self._label,
            "colour": lambda one, _word: self._set(one, "color", "red"),
            "remove": lambda one, _word: self._remove(one),
            "read for long": lambda _one, _word: self._read_long(),
            "bring a note back": self._bring_back,
        }

    def _edit(
        self,
        note_id: str,
        word: str,
        change: Callable[[str, str], str],
        *,
        dated: bool = True,
        holds: bool = False,
    ) -> None:
        def act(db: sqlite3.Connection) -> None:
            found = db.execute('SELECT "content" FROM "Note" WHERE "id" = ?', (note_id,)).fetchone()
            if found is None:
                return
            text = change(found[0], word)
            self._forgiven = " ".join({*found[0].split()} - {*text.split()})
            self._promised = word
            changed = 'UPDATE "Note" SET "content" = ?, "embedding" = ? WHERE "id" = ?'
            db.execute(changed, (text, json.dumps([text]), note_id))
            if dated:
                self._date(db, note_id)

        self._write(act, holds=holds)

    def _write_old_buffer(self, note_id: str, word: str) -> None:
        """Write the whole text over what is there, from what was there a while ago."""
        text = added_below(self.contents()[note_id].text, word)
        self._later(
            "writes its buffer", lambda: self._edit(note_id, word, lambda _now, _word: text)
        )

    def _set(self, note_id: str, column: str, value: str) -> None:
        def act(db: sqlite3.Connection) -> None:
            db.execute(f'UPDATE "Note" SET "{column}" = ? WHERE "id" = ?', (value, note_id))
            self._date(db, note_id)

        self._write(act)

    def _label(self, note_id: str, word: str) -> None:
        def act(db: sqlite3.Connection) -> None:
            found = db.execute('SELECT "labels" FROM "Note" WHERE "id" = ?', (note_id,)).fetchone()
            if found is not None:
                labels = json.dumps([*json.loads(found[0] or "[]"), word])
                self._promised = word
                db.execute('UPDATE "Note" SET "labels" = ? WHERE "id" = ?', (labels, note_id))
                self._date(db, note_id)

        self._write(act)

    def _remove(self, note_id: str) -> None:
        def act(db: sqlite3.Connection) -> None:
            found = db.execute(
                'SELECT "content" || coalesce("labels", \'\') FROM "Note" WHERE "id" = ?',
                (note_id,),
            ).fetchone()
            (count,) = db.execute('SELECT count(*) FROM "Note"').fetchone()
            if found is not None and count > 1:
                self._forgiven = found[0]
                db.execute('DELETE FROM "Note" WHERE "id" = ?', (note_id,))
                self._gone.append(note_id)

        self._write(act)

    def _bring_back(self, note_id: str, word: str) -> None:
        """Make a note again that is gone; another one if this one is there."""
        there = self.contents()
        gone = [one for one in (note_id, *self._gone) if one not in there]
        if gone:
            self.put(gone[0], f"{word}\nback\n")
            self.world.oracle.is_back(gone[0], at=self.world.loop.time())

    def _date(self, db: sqlite3.Connection, note_id: str) -> None:
        now = int(self.world.clock.time() * 1000)
        db.execute('UPDATE "Note" SET "updatedAt" = ? WHERE "id" = ?', (now, note_id))

    def _read_long(self) -> None:
        db = sqlite3.connect(self.app.path, timeout=0, isolation_level=None)
        db.execute("BEGIN")

        def read() -> None:
            db.execute('SELECT count(*) FROM "Note"').fetchall()
            self._later("has read", db.close)

        self._patiently(read, db)

    def _write(self, act: Callable[[sqlite3.Connection], None], *, holds: bool = False) -> None:
        """Run a transaction of the app, as soon as nobody is in its way. What it promises holds when it is stored."""
        db = sqlite3.connect(self.app.path, timeout=0, isolation_level=None)
        told: dict[str, str] = {}

        def begin() -> None:
            db.execute("BEGIN IMMEDIATE")
            self._forgiven = self._promised = ""
            act(db)
            told.update(forgiven=self._forgiven, promised=self._promised)
            if holds:
                self._later("commits", lambda: self._patiently(commit, db))
            else:
                self._patiently(commit, db)

        def commit() -> None:
            db.execute("COMMIT")
            db.close()
            self.world.oracle.forgive(told["forgiven"])
            if told["promised"]:
                self.world.oracle.promise(told["promised"], "the app")

        self._patiently(begin, db)

    def _patiently(self, step: Callable[[], None], db: sqlite3.Connection) -> None:
        """Take a step, and again while the file is locked, as long as the app waits."""
        world = self.world
        deadline = world.loop.time() + BUSY_SECONDS
        world._foreign_left += 1

        def attempt() -> None:
            try:
                step()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                if world.loop.time() < deadline:
                    world.loop.call_later(LOOK_SECONDS, attempt)
                    return
                world.note("the app gives up: the file is locked")
                db.close()
            world._foreign_left -= 1

        attempt()

    def _later(self, what: str, step: Callable[[], None]) -> None:
        """Take the next step after a while."""
        world = self.world
        world._foreign_left += 1
        label, said = f"the app {what} after", [f"{one:g} s" for one in HELD_SECONDS]
        at = world.chooser.choose(label, len(said), rate=1.0, said=said)

        def happen() -> None:
            world._foreign_left -= 1
            step()
            world.note(f"the app {what}")

        world.loop.call_later(HELD_SECONDS[at], happen)

    # What runs and oracle ask.

    def remote(self, process: Process, _cache: Cache) -> Store:
        """See ``Place.remote``."""
        self.workers.follow(process)
        made = SteppedMemento(self, process)
        self._stores.append(made)
        return made

    def requests(self) -> dict[str, int]:
        """See ``Place.requests``: how often the file was used."""
        return {one.process.name: one.counted.uses for one in self._stores}

    def ids(self) -> list[str]:
        """See ``Place.ids``."""
        return sorted(self.contents())

    def contents(self) -> dict[str, Content]:
        """See ``Place.contents``: what is committed, whoever has locks."""
        address = f"file:{self.app.path}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as db:
            db.row_factory = sqlite3.Row
            columns = frozenset(row["name"] for row in db.execute('PRAGMA table_info("Note")'))
            table = NoteTable(db, columns, "")
            rows = table.read_all(table.all_ids()[0])
        return {str(row["id"]): note_codec.revision(row).content for row in rows}

    def judge_more(self) -> None:
        """Demand that an embedding is made of the words that are there: the app would find the wrong note by it."""
        for row in self.app.run('SELECT "id", "content", "embedding" FROM "Note"'):
            made_of = json.loads(row["embedding"])[0] if row["embedding"] else row["content"]
            if made_of != row["content"]:
                raise Broken(
                    f"an embedding is one of old words: {row['id']} has {row['content']!r}, and it is of {made_of!r}"
                )

    def is_clear(self, _note_id: str) -> bool:
        """See ``Place.is_clear``: nobody hides any otherwise."""
        return True

    def put(self, name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
        """See ``Place.put``."""
        now = int(self.world.clock.time() * 1000)

        def act(db: sqlite3.Connection) -> None:
            if db.execute('SELECT 1 FROM "Note" WHERE "id" = ?', (name,)).fetchone():
                return  # it came while the app waited
            self._promised = next(iter(self.world.oracle.authors.keys() & text.split()), "")
            db.execute(
                'INSERT INTO "Note" ("id", "title", "content", "labels", "embedding", "createdAt", "updatedAt") VALUES (?, ?, ?, ?, ?, ?, ?)',
                (name, name, text, json.dumps(tags), json.dumps([text]), now, now),
            )

        self._write(act)

    def close(self) -> None:
        """See ``Place.close``."""
        self._patches.close()


def _locked() -> sqlite3.OperationalError:
    """Return what SQLite says while the app keeps the file locked."""
    error = sqlite3.OperationalError("simulated")
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
    return error
