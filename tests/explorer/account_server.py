"""Run one server of an account that the product's own opener opens: real settings, real policy file, real key file.

The opener works in threads, as it does in a server: it may be kept waiting, and end, at any change of a file. A server that is refused because
others have the account says so, and its client starts it again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, cast

from explorer.machine import Killed
from explorer.server import Server
from mcp_notarium.account import opener
from mcp_notarium.account.anchor_keeper import AnchorKeeper
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.generation import OpenedCache
from mcp_notarium.app import _begin_chain
from mcp_notarium.audit.chain import Record
from mcp_notarium.audit.verification import Verification
from mcp_notarium.config import Config
from mcp_notarium.errors import CacheError, LockedError, NotariumError, Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.threads import run_in_thread

if TYPE_CHECKING:
    from explorer.account_world import AccountWorld

PAUSE_SECONDS = 20.0
"""A client that was told that others have the account tries again after it."""


class AccountServer(Server):
    """A server process, and after it the next one. It can be called once the account is open."""

    opened: OpenedCache | None = None
    waits = False
    """It was refused for now, and its client has not tried again."""
    held = False
    """The person does not want it to run now."""

    @property
    def home(self) -> AccountWorld:
        """Return the world."""
        return cast("AccountWorld", self.world)

    @property
    def alive(self) -> bool:
        """Tell whether a process of it runs, and has the account open."""
        return super().alive and self.opened is not None

    @property
    def ended(self) -> bool:
        """Tell whether its last process is gone, and another one is to start."""
        return super().ended and not self.waits and not self.held

    def start(self, *, syncing: bool) -> None:
        """Start a process, which opens the account in a thread."""
        self._lives += 1
        self.opened, self.waits = None, False
        self.process = self.machine.start(f"{self.name}{self._lives}")
        with self.process.running():
            self.world.loop.create_task(self._open(syncing=syncing))

    async def _open(self, *, syncing: bool) -> None:
        process = self.process
        config: Config | None = None
        try:
            config = self.home.config(self.machine)
            clock = self.world.clock.time
            opens = partial(opener.open_with_policy, config, heal=True, clock=clock)
            opened = await run_in_thread(opens, too_late=OpenedCache.close)
        except NotariumError as error:
            self._refused(error, None if config is None else config.db_key)
            return
        except Exception as error:  # noqa: BLE001 - nobody else takes it
            self.world.oracle.breaks(f"{self.name} opens the account, and meets {error!r}")
            return
        process.ends.append(opened.server_lock.release)
        if process.dead:
            raise Killed
        self._use(config, opened, syncing=syncing)

    def _use(self, config: Config, opened: OpenedCache, *, syncing: bool) -> None:
        cache = Cache(opened.database, config.policy.visibility)
        lock, keys = config.account_dir / "sync.lock", audit_keys(opened.data_key)
        self._wire(cache, config, keys, lock=lock, syncing=False)
        missing, unusable = AnchorKeeper(config, opened, self.app.audit).start(lambda: None)
        if unusable or (missing is not None and not missing.harmless):
            said = unusable or (missing and missing.words)
            self.world.oracle.breaks(f"{self.name} finds the account rolled back: {said}")
        _begin_chain(config, opened, self.app.audit)
        self.opened, self.policy = opened, config.policy
        if syncing:
            self.world.loop.create_task(self.app.scheduler.run())
        self.world.note(f"{self.name} has opened the account")
        self.home.has_opened(self)

    def _refused(self, error: NotariumError, used: Secret | None) -> None:
        """Let the client start it again later; what is no matter of time is a matter of the person."""
        self.world.note(f"{self.name} is refused: {error.message}")
        self.process.kill()
        busy = isinstance(error, LockedError) and error.verdict is Verdict.BUSY
        passes = busy or isinstance(error, CacheError)
        if not passes and not self.home.person.helps(error, used):
            self.world.oracle.breaks(f"{self.name} cannot open the account: {error.message}")
        self.waits = True
        if not self.world.oracle.broken:
            self.home.outside(self.world.loop.call_later, PAUSE_SECONDS, self._try_again)

    def _try_again(self) -> None:
        self.waits = False
        self.world.start_ended()

    def verify(self) -> tuple[Verification, list[Record]]:
        """See ``Server.verify``: with the anchor of the chain."""
        seen: list[Record] = []
        assert self.opened is not None
        said = self.opened.anchor.read(self.opened.database)
        found = self.app.audit.table.verify(
            anchored=None if said is None else said.head, also=seen.append
        )
        return found, seen

    def close(self) -> None:
        """End it in order, as ``app`` does."""
        opened = self.opened
        if not self.alive or opened is None:
            if self._lives:
                self.process.kill()
            return
        try:
            with self.process.running(), suppress(CacheError):
                if self.app.audit.flush(wait=True):
                    begun = self.app.audit.last_begun
                    opened.anchor.write(self.app.audit.table, opened.database, begun=begun)
                self.app.cache.close()
        except Killed:
            return
        self.process.kill()
