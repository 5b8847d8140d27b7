"""Say who takes part in a run: computers with servers, a store, somebody else who writes; and let them act."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from explorer.choices import Chooser
from explorer.loop import DeterministicLoop
from explorer.machine import Clock, Killed, Machine, Process
from explorer.oracle import UNKNOWN, Oracle
from explorer.server import Answer, Server
from explorer.wire import WiredClient
from mcp_notarium.domain.note import PendingWrite
from mcp_notarium.domain.policy import PERMISSIVE, Visibility
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Ids, Store, Traits
from support.memory_client import ROWS
from support.memory_store import MemoryStore

HEALING_SECONDS = 7200.0
QUIET_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Describe a world. ``apart``: the two servers run on two computers, else on one."""

    traits: Traits
    apart: bool = False
    hides: bool = False
    acts: int = 3
    """Acts of each server, and of the other writer, at most."""
    kills: int = 2
    syncing: bool = True
    """Servers sync by themselves, else once when they start."""
    script: Mapping[str, tuple[str, ...]] | None = None
    """What each does, where that is no choice."""


class World:
    """Hold everything that takes part in one run."""

    def __init__(
        self, plan: Plan, folder: Path, loop: DeterministicLoop, clock: Clock, chooser: Chooser
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.clock = clock
        self.chooser = chooser
        self.oracle = Oracle()
        self.story: list[str] = []
        self.calm = True
        """Nothing goes wrong on the way to the store."""
        self._words = 0
        self.acts = plan.acts
        """Acts of each server, and of the other writer, at most."""
        self.store = MemoryStore()
        self.clients: list[WiredClient] = []
        rules = Visibility(hidden_tags=("hidden",)) if plan.hides else Visibility()
        policy = replace(PERMISSIVE, visibility=rules)
        names = ("m", "n") if plan.apart else ("m",)
        self.machines = [
            Machine(name, folder, chooser, self.note, kills=plan.kills) for name in names
        ]
        self.servers = [
            Server(self, name, self.machines[at % len(self.machines)], policy)
            for at, name in enumerate(("a", "b"))
        ]
        self._ended: set[str] = set()

    # What the parts ask.

    def note(self, line: str) -> None:
        """Add a line to the story of the run."""
        self.story.append(f"{self.loop.time():9.2f} s  {line}")

    def word(self, who: str) -> str:
        """Return a word that nobody has used."""
        self._words += 1
        return f"{who}{self._words}"

    def has_ended(self, owner: str) -> bool:
        """Tell whether the process of this name has ended."""
        return any(
            one.name == owner and one.dead for machine in self.machines for one in machine.processes
        )

    def remote(self, process: Process, _cache: Cache) -> Store:
        """Return a client of the store for a process."""
        client = WiredClient(
            self.store,
            process=process,
            loop=self.loop,
            chooser=self.chooser,
            note=self.note,
            traits=self.plan.traits,
            calm=lambda: self.calm,
            sends=lambda write: self._see_push(process, write),
            deletes=lambda note_id: self.oracle.forgive(self._text(note_id)),
        )
        self.clients.append(client)
        return client  # type: ignore[return-value]

    def _see_push(self, process: Process, write: PendingWrite) -> None:
        server = next(one for one in self.servers if one.process is process)
        self.oracle.see_push(server, write)

    def _text(self, note_id: str) -> str:
        return self.store.text(note_id) if note_id in self.store.ids() else ""

    # The parts of a run.

    def begin(self) -> None:
        """Fill the store, start the servers, and let them load: nothing of this is a choice."""
        self.chooser.mute = True
        for number in range(2):
            word = self.word("old")
            self.oracle.promise(word, "the store")
            self.store.put(
                f"note{number}", f"title {number}\n{word}\n", tags=("t",), now=self.clock.time()
            )
        if self.plan.hides:
            self._hide("note-hidden")
        for server in self.servers:
            server.start(syncing=self.plan.syncing)
            if not self.plan.syncing:
                with server.process.running():
                    self.loop.create_task(server.sync())
        self.loop.run_until(self._loaded, deadline=self.loop.time() + 600)
        self.chooser.mute = self.calm = False
        self.acts -= self.chooser.choose("acts left out", self.acts, rate=0.6)

    def act(self) -> None:
        """Let everybody carry out a plan, and whoever is killed start again."""
        for server in self.servers:
            self._begin_acts(server)
        self._plan_foreign()
        self.loop.run_until(self._all_acted, deadline=self.loop.time() + HEALING_SECONDS)

    def heal(self) -> None:
        """Let nothing go wrong any more, and wait until all agree."""
        self.chooser.mute = self.calm = True
        for server in self.servers:
            if not server.alive:
                self._restart(server)
        if not self.store.ids():
            self._put("put")
        self.loop.run_until(self._in_step, deadline=self.loop.time() + HEALING_SECONDS)
        self.oracle.judge([one for one in self.servers if one.alive], self.store.contents())

    def rest(self) -> None:
        """Let ten quiet minutes pass, and see that little happens in them."""
        before = {id(one): one.requests for one in self.clients}
        until = self.loop.time() + QUIET_SECONDS
        self.loop.run_until(lambda: False, deadline=until)
        asked = {
            f"{one.process.name}": one.requests - before.get(id(one), 0) for one in self.clients
        }
        self.oracle.judge_quiet(self.loop.waiting(), asked)

    def close(self) -> None:
        """End everything."""
        for server in self.servers:
            server.close()
        self._take_away()

    def after_step(self) -> None:
        """Take away what a killed process leaves, and start another one in its place."""
        self._take_away()
        if not self.calm:
            for server in self.servers:
                if not server.alive and server.name not in self._ended:
                    self._ended.add(server.name)
                    self.loop.expect(
                        f"{server.name} starts again", lambda one=server: self._again(one)
                    )

    def _take_away(self) -> None:
        for machine in self.machines:
            while machine.gone:
                self.loop.drop(machine.gone.pop())

    def _again(self, server: Server) -> None:
        self._ended.discard(server.name)
        if not server.alive:
            self._restart(server)
            self._begin_acts(server)

    def _restart(self, server: Server) -> None:
        self.note(f"{server.name} starts again")
        try:
            server.start(syncing=self.plan.syncing)
        except Killed:
            return
        if not self.plan.syncing:
            with server.process.running():
                self.loop.create_task(server.sync())

    def _loaded(self) -> bool:
        return all(one.contents() and one.app.library.status().complete for one in self.servers)

    def _all_acted(self) -> bool:
        alive = all(server.alive for server in self.servers)
        ended = all(one.done >= self.acts and not one.busy for one in self.servers)
        return alive and ended and not self._foreign_left

    def _in_step(self) -> bool:
        rules = self.servers[0].policy.visibility
        truth = {
            one: content
            for one, content in self.store.contents().items()
            if rules.sees(one, content.tags)
        }
        return all(
            one.alive and not one.unfinished() and one.contents() == truth for one in self.servers
        )

    # What servers do.

    def _begin_acts(self, server: Server) -> None:
        with server.process.running():
            self.loop.create_task(self._acts(server))

    async def _acts(self, server: Server) -> None:
        while server.done < self.acts:
            number = server.done + 1
            name = self._next_act(number, server.name, list(self._possible()))
            server.done += 1
            if name == "nothing":
                continue
            server.busy += 1
            try:
                await self.loop.gate(f"{server.name} begins to {name}")
                await self._possible()[name](server)
            finally:
                server.busy -= 1

    def _next_act(self, number: int, who: str, names: list[str]) -> str:
        if self.plan.script is None:
            return self.chooser.among(f"act {number} of {who}", ["nothing", *names])
        acts = self.plan.script.get(who, ())
        return acts[number - 1] if number <= len(acts) else "nothing"

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, None]]]:
        traits = self.plan.traits
        acts = {
            "create": self._create,
            "append": self._append,
            "prepend": self._prepend,
            "rewrite": self._rewrite,
            "undo": self._undo,
            "look": self._look,
            "remove": self._remove,
        }
        if traits.tags:
            acts["tag"] = self._tag
        if traits.trash:
            acts |= {"trash": self._trash, "untrash": self._untrash}
        return acts

    async def _create(self, server: Server) -> None:
        word = self.word(server.name)
        await self._promising(server, word, "save", text=f"{word}\nnew\n")

    async def _append(self, server: Server) -> None:
        await self._change(server, lambda word: {"append": f"{word}\n"})

    async def _prepend(self, server: Server) -> None:
        await self._change(server, lambda word: {"prepend": f"{word}\n"})

    async def _change(self, server: Server, how: Callable[[str], dict[str, Any]]) -> None:
        note_id = self._some_note(server)
        if note_id:
            word = self.word(server.name)
            await self._promising(server, word, "save", id=note_id, **how(word))

    async def _rewrite(self, server: Server) -> None:
        note_id = self._some_note(server)
        if not note_id:
            return
        read = await server.call("get", id=note_id)
        if not read.ok or read.value.get("text_is_partial"):
            return
        await self.loop.gate(f"{server.name} has read")
        word, text = self.word(server.name), read.value["text"]
        lines = [*text.split("\n")[:1], word, *text.split("\n")[1:]]
        version = read.value["local_version"]
        await self._promising(
            server, word, "save", id=note_id, text="\n".join(lines), local_version=version
        )

    async def _tag(self, server: Server) -> None:
        note = self._some_note(server)
        if not note:
            return
        read = await server.call("get", id=note)
        if read.ok:
            tags = [*read.value["tags"], self.word("tag")]
            await server.call("save", id=note, tags=tags, local_version=read.value["local_version"])

    async def _trash(self, server: Server) -> None:
        await self._manage(server, "trash")

    async def _untrash(self, server: Server) -> None:
        await self._manage(server, "untrash")

    async def _manage(self, server: Server, action: str) -> Answer | None:
        note_id = self._some_note(server)
        read = await server.call("get", id=note_id) if note_id else None
        if read is None or not read.ok:
            return None
        version = read.value["local_version"]
        return await server.call(
            "manage", action=action, id=note_id, local_version=version, confirm=True
        )

    async def _remove(self, server: Server) -> None:
        note_id = self._some_note(server)
        note = server.app.cache.notes.get(note_id) if note_id else None
        if note is None or (self.plan.traits.trash and not note.trash):
            await self._trash(server) if self.plan.traits.trash else None
            return
        words = note.text
        await self._guarded(
            server,
            "manage",
            lambda: self.oracle.forgive(words),
            action="delete_permanently",
            id=note_id,
            local_version=note.local_version,
            confirm=True,
        )

    async def _undo(self, server: Server) -> None:
        mine = [(key[1], words) for key, words in self.oracle.last.items() if key[0] == server.name]
        if not mine:
            return
        note_id, words = mine[-1]
        await self._guarded(
            server,
            "manage",
            lambda: self.oracle.forgive(" ".join(words)),
            action="undo",
            id=note_id,
            confirm=True,
        )

    async def _look(self, server: Server) -> None:
        await server.call("list")
        note_id = self._some_note(server)
        if note_id:
            await server.call("get", id=note_id)

    def _some_note(self, server: Server) -> str:
        ids = sorted(server.app.cache.notes.etags())
        return ids[self.chooser.choose(f"note of {server.name}", len(ids), rate=0.4)] if ids else ""

    async def _promising(self, server: Server, word: str, tool: str, **arguments: Any) -> None:
        """Call a tool that adds a word, and remember what was promised of it."""
        answer = await server.call(tool, **arguments)
        unknown = answer.value.get("subcategory") == UNKNOWN
        if answer.ok or (unknown and not self.plan.hides):  # where rules hide notes, no copy tells
            self.oracle.promise(word, server.name)
        note_id = answer.value.get("id")
        if answer.ok and isinstance(note_id, str):
            self.oracle.last.setdefault((server.name, note_id), []).append(word)
            note = server.app.cache.notes.get(note_id)
            if note is not None:
                self.oracle.see_version(server, note_id, note.local_version, note.content)

    async def _guarded(
        self, server: Server, tool: str, forgive: Callable[[], None], **arguments: Any
    ) -> None:
        """Call a tool that takes words away: if it is not answered, they may be gone or not."""
        answered = False
        try:
            answer = await server.call(tool, **arguments)
            answered = True
            if answer.ok or answer.value.get("subcategory") == UNKNOWN:
                forgive()
        finally:
            if not answered:
                forgive()

    # What somebody else does at the store.

    def _plan_foreign(self) -> None:
        self._foreign_left = 0
        names = [
            "edit the top",
            "edit the end",
            "rewrite",
            "put",
            "remove",
            "forget cursors",
            "forget versions",
            "set a clock",
        ]
        names += ["trash"] if self.plan.traits.trash else []
        names += ["rename"] if self.plan.traits.ids is Ids.NAMED else []
        names += ["hide", "edit what is hidden"] if self.plan.hides else []
        for number in range(1, self.acts + 1):
            name = self._next_act(number, "another device", names)
            if name == "nothing":
                continue
            self._foreign_left += 1
            turns = self.chooser.choose(f"act {number} of another device comes after", 30, rate=1.0)
            self.loop._add_event(
                f"another device: {name}", lambda name=name: self._foreign(name), turns
            )

    def _foreign(self, name: str) -> None:
        self._foreign_left -= 1
        store, traits = self.store, self.plan.traits
        ids = sorted(one for one in store.ids() if not one.startswith("note-hidden"))
        at = self.chooser.choose("note of another device", len(ids), rate=0.4) if ids else 0
        note_id = ids[at] if ids else ""
        word = self.word("them")
        match name:
            case "put":
                self._put("put")
                return
            case "set a clock":
                self.clock.set_by = (-4000.0, 90.0, 4000.0, 0.0)[
                    self.chooser.choose("seconds that a clock is set by", 4, rate=1.0)
                ]
            case "forget cursors":
                store.forget_cursors()
            case "hide":
                self._hide(f"note-hidden-{word}")
            case "edit what is hidden":
                word = f"secret{word}"
                self.oracle.hidden.add(word)
                store.edit("note-hidden", lambda text: f"{text}{word}\n", now=self.clock.time())
            case _ if not note_id:
                return
            case "edit the top":
                self.oracle.promise(word, "another device")
                store.edit(note_id, lambda text: f"{word}\n{text}", now=self.clock.time())
            case "edit the end":
                self.oracle.promise(word, "another device")
                store.edit(note_id, lambda text: f"{text}{word}\n", now=self.clock.time())
            case "rewrite":
                self.oracle.forgive(store.text(note_id))
                self.oracle.promise(word, "another device")
                store.edit(note_id, lambda _text: f"{word} other\n", now=self.clock.time())
            case "trash":
                fields = store.fields(note_id)
                store.overwrite(note_id, fields | {"trash": True, "modified": self.clock.time()})
            case "remove" if len(ids) > 1:
                self.oracle.forgive(store.text(note_id))
                store.remove(note_id)
            case "forget versions":
                store.forget_versions(note_id)
            case "rename":
                store.rename(note_id, f"{word}.md")
        self.note(f"another device: {name} {note_id} ({word})")
        del traits

    def _put(self, what: str) -> None:
        word = self.word("them")
        self.oracle.promise(word, "another device")
        self.store.put(f"other-{word}", f"{word} title\nline\n", now=self.clock.time())
        self.note(f"another device: {what} ({word})")

    def _hide(self, note_id: str) -> None:
        word = self.word("secret")
        self.oracle.hidden.add(word)
        self.store.put(note_id, f"{word}\nhidden\n", tags=("hidden",), now=self.clock.time())


WORLDS: dict[str, Plan] = {
    **{row: Plan(traits) for row, traits in ROWS.items()},
    **{f"{row}, apart": Plan(traits, apart=True) for row, traits in ROWS.items()},
    **{f"{row}, hidden": Plan(traits, hides=True) for row, traits in ROWS.items()},
}
"""By name: each supported row of the contract, on one computer and on two, and with notes that rules hide."""
SMALL: dict[str, Plan] = {
    f"{row}, {foreign}": Plan(
        traits,
        kills=1,
        syncing=False,
        acts=2,
        script={"a": ("append", "rewrite"), "b": ("append",), "another device": (foreign,)},
    )
    for row, traits in ROWS.items()
    for foreign in ("edit the end", "remove")
}
"""By name: three writes of two servers and one of another device, small enough to play every order."""
