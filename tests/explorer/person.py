"""Let a person change what holds for an account: the policy file, or the key, with the functions of the commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp_notarium.account import key_changes, reencryption, user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.errors import LockedError, NotariumError, Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.threads import run_in_thread

if TYPE_CHECKING:
    from explorer.account_machine import AccountMachine
    from explorer.account_world import AccountWorld

POLICIES = {
    "no rules": "",
    "private notes hidden": '[notes]\nhidden_tags = ["private"]\n',
    "private notes hidden, read-only": 'mode = "read-only"\n[notes]\nhidden_tags = ["private"]\n',
    "a note hidden": '[notes]\nhidden_ids = ["note1"]\n',
    "tagged notes alone": '[notes]\nallowed_tags = ["t"]\nuntagged = "hide"\n',
    "read-only": 'mode = "read-only"\n',
}
PATH_POLICIES = {
    "a folder hidden": '[notes]\nhidden_paths = ["Work"]\n',
    "a note hidden wherever it goes": '[notes]\nhidden_ids = ["note1.md"]\n',
}
"""Where notes have paths."""


class Person:
    """The one whose account it is. What is written is on the disk at once."""

    def __init__(self, world: AccountWorld) -> None:
        self._world = world
        self.key = f"raw:{'07' * 32}"
        """What is in the key file of the clients."""
        self.perhaps = ""
        """A key that opens the account instead, if a change was cut off behind its commit point."""
        self.gone = [f"raw:{'09' * 32}"]
        """Keys that open nothing: any more, or ever."""

    def acts(self) -> dict[str, Callable[[], Coroutine[Any, Any, None]]]:
        """Return what the person may do."""
        if self._world.plan.changes == "policy":
            return {"changes the policy": self._change_policy}
        return {
            "rotates the key": self._rotate,
            "re-encrypts the database": partial(self._reencrypt, rotates=False),
            "re-encrypts it with another key": partial(self._reencrypt, rotates=True),
        }

    # The policy.

    def policies(self) -> dict[str, str]:
        """Return the files by what they say."""
        paths = self._world.place.traits.ids.paths
        return {
            name: text
            for name, text in (POLICIES | PATH_POLICIES).items()
            if (name not in PATH_POLICIES or paths) and (name != "a note hidden" or not paths)
        }

    async def _change_policy(self) -> None:
        policies = self.policies()
        name = self._world.chooser.among("policy", list(policies))
        await self._world.loop.gate("the person has the policy in mind")
        self._world.hiding.is_to_hide("note1.md" if "note1.md" in policies[name] else "")
        for machine in self._world.computers:
            self.write_policy(machine, policies[name])
        self._world.note(f"the person changes the policy: {name}")
        for server in self._world.servers:
            await self._world.loop.gate(f"the person starts the client of {server.name} again")
            server.close()

    def write_policy(self, machine: AccountMachine, text: str) -> None:
        """Write the policy file, or take it away."""
        path = machine.folder / "policy.toml"
        if text:
            path.touch(mode=0o600)
            path.write_text(text)
        else:
            path.unlink(missing_ok=True)
        machine.has_written(path)

    # The key.

    async def _rotate(self) -> None:
        machine, new = self._world.computers[0], f"raw:{os.urandom(32).hex()}"
        await self._change(
            machine,
            new,
            lambda: user_key_rotation.rotate_passphrase(
                self._world.config(machine), new=Secret(new), options=self._options()
            ),
        )

    async def _reencrypt(self, *, rotates: bool) -> None:
        world, machine = self._world, self._world.computers[0]
        new = f"raw:{os.urandom(32).hex()}" if rotates else ""
        for server in world.clients:
            await world.loop.gate(f"the person closes the client of {server.name}")
            server.held = True
            server.close()
        try:
            await self._change(
                machine,
                new,
                lambda: reencryption.reencrypt(
                    world.config(machine),
                    new=Secret(new) if new else None,
                    options=self._options(),
                ),
            )
        finally:
            for server in world.clients:
                server.held = False

    def _options(self) -> ChangeOptions:
        return ChangeOptions(clock=self._world.clock.time)

    async def _change(
        self, machine: AccountMachine, new: str, change: Callable[[], object]
    ) -> None:
        """Change the key of the account, then the one in the clients' key file."""
        world = self._world
        if self.perhaps and not await run_in_thread(self._finds_key):
            return
        self.perhaps = new
        try:
            await run_in_thread(change)
        except NotariumError as error:
            self.perhaps = ""
            world.note(f"the person is refused: {error.message}")
            if not isinstance(error, LockedError) or error.verdict is not Verdict.BUSY:
                world.oracle.breaks(f"the key cannot be changed: {error.message}")
            return
        if new:
            self._use(new)
        world.note("the key is changed" if new else "the database is re-encrypted")

    def _use(self, new: str) -> None:
        self.gone.append(self.key)
        self.key, self.perhaps = new, ""
        for machine in self._world.computers:
            self.write_key(machine)

    def write_key(self, machine: AccountMachine) -> None:
        """Write the key file that the clients' settings name."""
        path = machine.folder / "key"
        path.touch(mode=0o600)
        path.write_text(self.key)
        machine.has_written(path)

    def _finds_key(self) -> bool:
        """Find out which of two keys opens the account after a change that was cut off: it must be one of them alone."""
        world, machine = self._world, self._world.computers[0]
        opens = [key for key in (self.key, self.perhaps) if self._opens(machine, key)]
        if len(opens) != 1:
            world.oracle.breaks(f"{len(opens)} of the old key and the new one open the account")
            return False
        if opens[0] == self.key:
            self.gone.append(self.perhaps)
            self.perhaps = ""
        else:
            self._use(self.perhaps)
        return True

    def _opens(self, machine: AccountMachine, key: str) -> bool:
        settings = self._world.config(machine)
        return key_changes.list_slots(settings, Secret(key)).opened_by is not None

    def helps(self, error: NotariumError, used: Secret | None) -> bool:
        """Put the other key into the key file if a change was cut off; False if that is not what is wrong.

        A client that has read the key file before (``used``) will read it again.
        """
        wrong = isinstance(error, LockedError) and error.verdict is Verdict.WRONG_KEY
        if wrong and used is not None and used.reveal_text() != self.key:
            return True
        if not wrong or not self.perhaps:
            return False
        if self._finds_key():
            self._world.note("the person takes the other key")
        return True

    def judge(self) -> None:
        """Demand that in the end the key opens the account that the person has, and no earlier one."""
        if self._world.plan.changes != "key":
            return
        machine = self._world.computers[0]
        if self.perhaps:
            self._finds_key()
        if not self._opens(machine, self.key):
            self._world.oracle.breaks("the key of the person opens nothing")
        if any(self._opens(machine, key) for key in self.gone):
            self._world.oracle.breaks("a key from before still opens the account")
