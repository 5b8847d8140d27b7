"""Run whole accounts: servers that the product's own opener opens, while a person changes the policy or the key between."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from explorer.account_machine import AccountMachine, SystemCalls
from explorer.account_server import AccountServer
from explorer.choices import Chooser
from explorer.hiding import Hiding
from explorer.local_place import LocalPlace
from explorer.loop import DeterministicLoop
from explorer.machine import Clock, Machine, Process
from explorer.person import Person
from explorer.server import Server
from explorer.vault_place import LEFT_BEHIND, VaultPlace
from explorer.workers import Workers
from explorer.world import Plan, World
from mcp_notarium.config import Config, loader
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Policy
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.vault.folder import LONGEST_WAIT

PRIVATE = "private"
_SAME_FILE = ("rename", "exchange", "trash", "append", "edit in place", "take a name")
"""What another program does to a note of a vault that goes on to be the same file."""


class AccountWorld(World):
    """Hold everything that takes part in one run of such an account."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        loop: DeterministicLoop,
        clock: Clock,
        chooser: Chooser,
        **how: Any,
    ) -> None:
        super().__init__(plan, folder, loop, clock, chooser, **how)
        self.hiding = Hiding(self)
        if plan.changes == "policy":
            self.oracle.hiding = self.hiding
        own = getattr(self.place, "workers", None)
        self.workers = own or Workers(loop, chooser)
        for machine in self.computers:
            machine.workers = self.workers
        self._calls = SystemCalls(self.computers, self.workers)
        self._calls.begin(threaded=own is not None)
        self.person = Person(self)
        self._begun = False
        self._to_put: list[Callable[[], None]] = []
        if isinstance(self.place, LocalPlace):
            self._follow(self.place)
        self._person: Process | None = None

    def make_machine(self, name: str) -> Machine:
        """See ``World.make_machine``."""
        return AccountMachine(name, self.folder, self.chooser, self.note, kills=self.plan.kills)

    def make_server(self, name: str, machine: Machine, policy: Policy) -> AccountServer:
        """See ``World.make_server``."""
        return AccountServer(self, name, machine, policy)

    @property
    def computers(self) -> list[AccountMachine]:
        """Return the computers."""
        return cast("list[AccountMachine]", self.machines)

    @property
    def clients(self) -> list[AccountServer]:
        """Return the servers."""
        return cast("list[AccountServer]", self.servers)

    def outside(self, call: Callable[..., object], *args: Any) -> None:
        """Call what belongs to no process."""
        Context().run(call, *args)

    def config(self, machine: Machine) -> Config:
        """Return the settings of a start, read as a server reads them."""
        kind, settings = self.place.settings["store"], self.place.settings["store_settings"]
        required = {one.name: "x" for one in kind.variables if one.required}
        key = {"DB_ENCRYPTION_KEY_FILE": str(machine.folder / "key")}
        loaded = loader.load(
            required
            | {name: text for name, text in settings.texts.items() if text}
            | (key if self.plan.changes == "key" else {"DB_ENCRYPTION": "off"})
            | {
                "NOTARIUM_DATA_DIR": str(machine.folder),
                "NOTARIUM_STORE": kind.name,
                "NOTARIUM_KEYCHAIN": "off",
                "HOME": str(machine.folder),
            },
            cwd=machine.folder,
        )
        return replace(loaded.config, **self.place.settings)

    def is_emptied(self, note_id: str) -> bool:
        """Tell whether another program has emptied the file of a note just now."""
        if not isinstance(self.place, VaultPlace):
            return False
        since = self.place.editors.emptied.get(note_id, -LONGEST_WAIT)
        return self.loop.time() - since < LONGEST_WAIT

    # The local notebook, which is in the database of the account.

    def _follow(self, place: LocalPlace) -> None:
        """Let another program use what a server has opened: whoever has the account open has its lock."""
        put, contents, known = place.put, place.contents, dict[str, Content]()

        def open_another() -> Cache:
            return next(one for one in self.clients if one.alive).app.cache.open_another()

        def put_when_open(name: str, text: str, *, tags: tuple[str, ...] = ()) -> None:
            if any(one.alive for one in self.servers):
                put(name, text, tags=tags)
            else:
                self._to_put.append(partial(put, name, text, tags=tags))

        def last_contents() -> dict[str, Content]:
            if any(one.alive for one in self.servers):
                known.clear()
                known.update(contents())
            return dict(known)

        place.opens = open_another
        place.put = put_when_open  # type: ignore[method-assign]
        place.contents = last_contents  # type: ignore[method-assign]

    # The parts of a run.

    def begin(self, loaded: Any) -> None:
        """See ``World.begin``; ``loaded``: the files of the data folder."""
        for machine in self.computers:
            if loaded:
                machine.put_back(loaded)
                os.urandom(1)  # else the names that were drawn for these files would come again
            elif self.plan.changes == "key":
                self.person.write_key(machine)
        if self.plan.changes == "policy":
            self.chooser.mute = True
            word = self.word("own")
            self.oracle.promise(word, "the store")
            if isinstance(self.place, VaultPlace):
                (self.place.disk.root / "Work").mkdir()
            name = "Work/note-private" if self.place.traits.ids.paths else "note-private"
            self.place.put(name, f"mine\n{word}\n", tags=(PRIVATE,))
        super().begin(None)

    def loaded(self) -> Any:
        """See ``World.loaded``."""
        if not self.place.repeats:
            return None
        for server in self.servers:
            server.close()
        return self.computers[0].files()

    def act(self) -> None:
        """See ``World.act``."""
        self._begun = True
        super().act()

    def heal(self) -> None:
        """See ``World.heal``: the clients whose policy is an old one are started again, as is asked of the person."""
        self._begun = False
        wanted = self.config(self.machines[0]).policy
        for server in self.servers:
            if server.alive and server.policy != wanted:
                server.close()
        super().heal()
        self.person.judge()
        if shut := [one.name for one in self.servers if not (one.alive or self.is_away(one))]:
            self.oracle.breaks(f"the account does not open for {shut}")
        if self.oracle.broken:
            raise self.oracle.breaks(self.oracle.broken)

    def _in_step(self) -> bool:
        left_behind = LEFT_BEHIND in self.place.contents().values()  # also where rules hide it
        return not left_behind and super()._in_step()

    def close(self) -> None:
        """See ``World.close``."""
        for machine in self.machines:
            for process in machine.processes:
                process.kill()
        super().close()
        for machine in self.computers:
            machine.settle()
        self._calls.close()

    def has_opened(self, server: AccountServer) -> None:
        """Let a server that has opened the account begin its acts, and see what it has."""
        while self._to_put:
            self.outside(self._to_put.pop(0))
        self.hiding.begins(server)
        if self._begun:
            super()._begin_acts(server)

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, None]]]:
        hides = {"ask for what is hidden": self.hiding.ask} if self.oracle.hiding else {}
        return super()._possible() | hides

    def _begin_acts(self, server: Server) -> None:
        if server.alive:
            super()._begin_acts(server)

    def after_step(self, label: str) -> None:
        """See ``World.after_step``; when all is calm, clients start again, too."""
        calm, self.calm = self.calm, False
        try:
            super().after_step(label)
        finally:
            self.calm = calm

    def _act_elsewhere(self, name: str, note_id: str) -> str:
        if isinstance(self.place, LocalPlace) and not any(one.alive for one in self.servers):
            return ""
        if name not in _SAME_FILE and (content := self.place.contents().get(note_id)):
            self.hiding.lose_sight(content)
        word = super()._act_elsewhere(name, note_id)
        self.hiding.look()
        return word

    # What the person does.

    def _plan_foreign(self) -> None:
        super()._plan_foreign()
        acts = self.person.acts()
        for number in range(1, 3):
            name = self.chooser.among(f"act {number} of the person", ["nothing", *acts])
            if name != "nothing":
                self._foreign_left += 1
                turns = self.comes_after(f"act {number} of the person")
                self.loop.expect_after(turns, f"the person {name}", partial(self._let_person, name))

    def _let_person(self, name: str) -> None:
        if self._person is not None and not self._person.dead:  # one thing after the other
            self.outside(self.loop.call_later, 1.0, self._let_person, name)
            return
        self._person = process = self.machines[0].start("the person")
        process.ends.append(self._person_ended)
        with process.running():
            self.loop.create_task(self._act_as_person(name, process))

    def _person_ended(self) -> None:
        self._foreign_left -= 1
        for server in self.clients:
            server.held = False

    async def _act_as_person(self, name: str, process: Process) -> None:
        self.note(f"the person {name}")
        try:
            await self.person.acts()[name]()
        except Exception as error:  # noqa: BLE001 - nobody else takes it
            self.oracle.breaks(f"the person {name}, and meets {error!r}")
        process.kill()
