"""The store as another device sees it, and what can go wrong on the way to it: two kinds of world.

``MemoryWorld`` is quick and knows every hazard; ``SimplenoteWorld`` is the real store speaking
HTTP to the embedded service. The state machine of sync runs in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from mcp_notarium.domain.note import Content
from mcp_notarium.stores.contract import Store, WriteGuard
from notarium_devtools.simperium import Simulator
from support.local_notebook import OtherProcess
from support.memory_client import LIKE_SIMPERIUM, Fault, Faults, MemoryClient
from support.memory_store import MemoryStore
from support.simplenote_client import open_store
from support.sync_rig import open_cache

WRITE_FAULTS = (
    Fault.TIMEOUT,
    Fault.LOST_ANSWER,
    Fault.UNAVAILABLE,
    Fault.RACE,
    Fault.OVERWRITE,
    Fault.RATE_LIMITED,
    Fault.LOGIN,
    Fault.REJECTED,
    Fault.NONSENSE,
)
READ_FAULTS = (
    Fault.UNAVAILABLE,
    Fault.TIMEOUT,
    Fault.LOST_ANSWER,
    Fault.NONSENSE,
    Fault.CURSOR_LOST,
    Fault.WITHOUT_CONTENT,
    Fault.STALE,
)


class MemoryWorld:
    """A note store in memory, of a kind that ``traits`` describes."""

    traits = LIKE_SIMPERIUM
    read_faults = READ_FAULTS

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.faults: dict[str, Faults] = {}
        self.races = 0
        overwrites = self.traits.write_guard is WriteGuard.LAST_WRITER
        self.write_faults = tuple(
            fault for fault in WRITE_FAULTS if overwrites or fault is not Fault.OVERWRITE
        )

    @property
    def has_trash(self) -> bool:
        return self.traits.trash

    def remote(self, name: str) -> Store:
        self.faults[name] = Faults()
        return MemoryClient(
            self.store, faults=self.faults[name], traits=self.traits, poll_seconds=0.001
        )

    def plan_write(
        self,
        name: str,
        fault: Fault,
        gone: Callable[[str], None],
        written: Callable[[str], None],
    ) -> None:
        """``gone`` is told the text that somebody else throws away in the very moment of a push.

        ``written`` is told the line that is put there instead, where a store may not lose it.
        """

        def rewrite(text: str) -> str:
            self.races += 1
            line = f"wholly other words, all at once, {self.races}"
            gone(text)
            if self.traits.write_guard is not WriteGuard.SERVER_MERGE:
                written(line)
            return f"{line}\n"

        self.faults[name].plan(fault, on="push", edit=rewrite)

    def plan_read(self, name: str, fault: Fault) -> None:
        if fault is Fault.NONSENSE:
            self.faults[name].plan(fault, on="changes")
        elif fault is not Fault.STALE:
            self.faults[name].plan(fault)
        elif self.store.cursor(lag=True) != self.store.cursor():
            # Otherwise the listing would lag and its cursor would not: nobody could tell.
            self.faults[name].plan(fault, on="list_page")

    def clear_faults(self) -> None:
        for faults in self.faults.values():
            faults.clear()

    def contents(self) -> dict[str, Content]:
        return self.store.contents()

    def put(self, note_id: str, text: str, *, trash: bool = False) -> None:
        self.store.put(note_id, text, trash=trash)

    def edit(self, note_id: str, change: Callable[[str], str]) -> None:
        self.store.edit(note_id, change)

    def remove(self, note_id: str) -> None:
        self.store.remove(note_id)

    def forget(self) -> None:
        """Old cursors, old versions and old write_ids become unknown."""
        self.store.forget_cursors()
        self.store.forget_write_ids()
        for note_id in self.store.ids():
            self.store.forget_versions(note_id)

    def forget_cursors(self) -> None:
        self.store.forget_cursors()

    async def close(self) -> None:
        return


class SimplenoteWorld:
    """The embedded Simperium, reached by the real store."""

    has_trash = True
    write_faults = (Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.UNAVAILABLE, Fault.RACE, Fault.REJECTED)
    read_faults = (Fault.UNAVAILABLE, Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.CURSOR_LOST)

    def __init__(self) -> None:
        self._open = ExitStack()
        self.sim = self._open.enter_context(Simulator(poll_seconds=0.01).running())
        self._clients: list[Store] = []

    def remote(self, _name: str) -> Store:
        self._clients.append(open_store(self.sim))
        return self._clients[-1]

    def plan_write(
        self,
        _name: str,
        fault: Fault,
        _gone: Callable[[str], None],
        _written: Callable[[str], None],
    ) -> None:
        where = {"method": "POST", "path": "*/note/i/*", "times": 9}
        match fault:
            case Fault.TIMEOUT:
                self.sim.faults.cut_before(**where)
            case Fault.LOST_ANSWER:
                self.sim.faults.cut_after(**where)
            case Fault.UNAVAILABLE:
                self.sim.faults.status(503, **where)
            case Fault.REJECTED:
                self.sim.faults.status(400, **where)
            case _:
                self.sim.faults.call(self._race, method="POST", path="*/note/i/*")

    def _race(self) -> None:
        for note_id in sorted(self.contents())[:3]:
            self.edit(note_id, lambda text: text + "from elsewhere\n")

    def plan_read(self, _name: str, fault: Fault) -> None:
        where = {"method": "GET", "path": "*/note/*", "times": 9}
        match fault:
            case Fault.TIMEOUT:
                self.sim.faults.cut_before(**where)
            case Fault.LOST_ANSWER:
                self.sim.faults.cut_answer(**where)
            case Fault.CURSOR_LOST:
                self.sim.faults.forget_cv()
            case _:
                self.sim.faults.status(503, **where)

    def clear_faults(self) -> None:
        self.sim.faults.clear()

    def contents(self) -> dict[str, Content]:
        return {
            note_id: Content(note["content"], tuple(note["tags"]), bool(note["deleted"]))
            for note_id, note in self.sim.notes().items()
        }

    def put(self, note_id: str, text: str, *, trash: bool = False) -> None:
        self.sim.put(note_id, content=text, deleted=trash)

    def edit(self, note_id: str, change: Callable[[str], str]) -> None:
        self.sim.put(note_id, content=change(self.sim.note(note_id)["content"]))

    def remove(self, note_id: str) -> None:
        self.sim.delete(note_id)

    def forget(self) -> None:
        self.forget_cursors()

    def forget_cursors(self) -> None:
        self.sim.bucket("note").forget_changes()

    async def close(self) -> None:
        for remote in self._clients:
            await remote.close()
        await asyncio.to_thread(self._open.close)


class LocalWorld:
    """The local notebook, which all clients have in the one database of ``folder``."""

    has_trash = True
    write_faults = ()
    read_faults = ()

    def __init__(self, folder: Path) -> None:
        self._other = OtherProcess(open_cache(folder))
        self.contents = self._other.contents
        self.put = self._other.put
        self.edit = self._other.edit
        self.remove = self._other.remove
        self.forget = self.forget_cursors = self._other.forget_cursors

    def clear_faults(self) -> None: ...

    def written_by_clients(self) -> dict[str, str]:
        """Id and etag of each note whose last change is a client's: the index has it since then."""
        rows = self._other.cache.database.rows(
            "SELECT id, CAST(change AS TEXT) FROM notebook_notes WHERE write_id NOT LIKE 'other-%'"
        )
        return dict(rows)

    async def close(self) -> None:
        self._other.cache.close()
