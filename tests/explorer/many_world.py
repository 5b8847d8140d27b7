"""Run a store of more notes than a person deletes in an evening, which seems to have lost them for a while, and indexes that are made anew.

Nobody removes a note here, so an index that lacks one was emptied: by a call that asks for that, or by a process that reads notes
with another version of the codec; and only once the store has answered a listing.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from explorer.machine import Machine, Process
from explorer.server import Server
from explorer.world import QUIET_SECONDS, World
from mcp_notarium.domain.note import Tombstone
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.stores.contract import ChangePage, ListingPage

_MORE = tuple(f"many{number:02}" for number in range(11))
_OTHERS = ("edit the top", "edit the end", "forget cursors")
"""What another device does to notes here."""
_AWAY_SECONDS = (30.0, 150.0, 700.0)


@dataclass(eq=False)
class _Reader:
    """Hold how a process has last listed the store, of which it reads notes with a version of the codec."""

    process: Process
    codec: int
    listed: int = 0
    """Pages that it has got."""


class ManyWorld(World):
    """Hold everything that takes part in one run of such a store. ``trashed``: notes that lie in the trash."""

    trashed = 0

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._readers: list[_Reader] = []
        self._first: frozenset[str] = frozenset()
        """Ids of the notes that there are from the beginning to the end."""
        self._unseen: frozenset[str] = frozenset()
        """Ids of notes that the store does not show for a while."""
        self._unseen_until = 0.0
        self._was_away = False
        self._in_part = False
        """A request for a note has failed: the others may be so few that they are believed (docs/sync.md, Removals)."""
        self._resets: list[Machine] = []
        """Computers whose servers are asked to empty the index."""
        self._emptied: set[Machine] = set()
        """Computers whose index was emptied, and need not be whole before the end."""
        self._newer = 1
        self._all_acts = acts = self.place.acts
        remote = self.place.remote

        def watched(process: Process, cache: Any) -> Any:
            return self._watch(process, remote(process, cache))

        self.place.remote = watched  # type: ignore[method-assign]
        self.place.acts = lambda: {  # type: ignore[method-assign]
            **{name: act for name, act in acts().items() if name in _OTHERS},
            "show no note": lambda _one, _word: self._show(0),
            # So few are left beside those in the trash that a person may have deleted the others.
            **({} if self.trashed else {"show one note": lambda _one, _word: self._show(1)}),
        }

    # The store.

    def _show(self, shown: int) -> None:
        """Let the store show so many notes only, for a while, as a service does that reads another database."""
        label, said = "seconds for which notes are not shown", _AWAY_SECONDS
        self._unseen_until = (
            self.loop.time() + said[self.chooser.choose(label, len(said), rate=0.7, said=said)]
        )
        self._unseen, self._was_away = frozenset(self.place.ids()[shown:]), True
        self.oracle.outdated = True  # an index that is loaded now is whole after the next listing

    def _lacks(self) -> frozenset[str]:
        return (
            self._unseen if not self.calm and self.loop.time() < self._unseen_until else frozenset()
        )

    def _watch(self, process: Process, client: Any) -> Any:
        """Let a client see what the store shows."""
        list_page, get, changes = client.list_page, client.get, client.changes
        label = f"{process.name} reads notes with a newer codec"
        if not self.chooser.mute and self.chooser.choose(label, 2, rate=0.3):
            self._newer += 1
        client.codec_version = self._newer
        reader = _Reader(process, self._newer)
        self._readers.append(reader)

        async def listed(**how: Any) -> ListingPage:
            page, lacks = await list_page(**how), self._lacks()
            reader.listed += 1
            return replace(page, entries=tuple(one for one in page.entries if one.id not in lacks))

        async def got(note_id: str, *, etag: str | None = None) -> Any:
            try:
                found = await get(note_id, etag=etag)
            except BaseException:
                self._in_part = True
                raise
            if note_id in self._lacks():
                raise NoteNotFound("no such note in the store", details={"id": note_id})
            return found

        async def changed(cursor: str, **how: Any) -> ChangePage:
            page, lacks = await changes(cursor, **how), self._lacks()
            kept = (one for one in page.changes if one.id not in lacks)
            gone = () if self.trashed else map(Tombstone, sorted(lacks))
            return replace(page, changes=(*kept, *gone))

        client.list_page, client.get, client.changes = listed, got, changed
        return client

    # The parts of a run.

    def begin(self, loaded: Any) -> None:
        """See ``World.begin``."""
        self.chooser.mute = True
        for at, name in enumerate(_MORE):
            self.place.put(name, f"{name}\nline\n")
            if at < self.trashed:
                self._all_acts()["trash"](name, "")
        super().begin(loaded)
        self._first = frozenset(self.place.ids())

    def heal(self) -> None:
        """See ``World.heal``: an index was filled by the codec that its leader has, or is when a cycle has followed."""
        super().heal()
        self.loop.run_until(lambda: not self._outdated(), deadline=self.loop.time() + QUIET_SECONDS)
        if outdated := self._outdated():
            raise self.oracle.breaks(f"an index is not read anew: {outdated}")

    def _outdated(self) -> str:
        """Say of which server that leads the index was filled by another codec than it has, '' if of none."""
        for server in self.servers:
            if server.alive and server.app.scheduler.leads:
                filled_by = server.app.cache.progress.codec_version
                if filled_by != (codec := self._reader(server).codec):
                    return (
                        f"that of {server.name} was filled by codec {filled_by}, and it has {codec}"
                    )
        return ""

    def after_step(self, label: str) -> None:
        """See ``World.after_step``: no note goes from an index."""
        super().after_step(label)
        for machine in self.machines if label and not self._in_part else ():
            server = next(
                (one for one in self.servers if one.alive and one.machine is machine), None
            )
            if server is None or machine in (*self._emptied, *self._resets):
                continue
            if server.app.cache.database.in_transaction:
                continue
            if lost := sorted(self._first - server.app.cache.notes.etags().keys()):
                self._judge_loss(machine, server, lost)

    def _judge_loss(self, machine: Machine, server: Server, lost: list[str]) -> None:
        """Demand that somebody has emptied the index, after an answer of the store."""
        self._emptied.add(machine)
        codec = server.app.cache.progress.codec_version
        other = [
            self._reader(one).listed > 0
            for one in self.servers
            if one.alive and one.machine is machine and self._reader(one).codec != codec
        ]
        if not other:
            self.oracle.breaks(
                f"notes go that nobody has removed: the index of {machine.name} lacks {lost}"
            )
        elif not any(other):
            self.oracle.breaks(
                f"an index is emptied whose store was not asked: that of {machine.name}, by another codec"
            )

    def _reader(self, server: Server) -> _Reader:
        return next(one for one in self._readers if one.process is server.process)

    # What servers do.

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, Any]]]:
        return super()._possible() | {"empty the index": self._empty}

    async def _empty(self, server: Server) -> None:
        reader = self._reader(server)
        listed, ends = reader.listed, False
        self._resets.append(server.machine)
        try:
            answer = await server.call("manage", action="reset_cache", confirm=True)
            ends = not answer.may_have_changed
        finally:
            self._resets.remove(server.machine)
            if not ends:
                self._emptied.add(server.machine)
        if answer.ok and reader.listed == listed:
            self.oracle.breaks(
                f"an index is emptied whose store was not asked: that of {server.name}, by a call"
            )

    def _is_smooth(self) -> bool:
        return super()._is_smooth() and not self._was_away and not self._emptied


class TrashWorld(ManyWorld):
    """The same, where some notes lie in the trash: these do not count as lost, unless no other is left."""

    trashed = 3
