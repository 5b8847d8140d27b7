"""Keep what every place has whose store is reached by HTTP: the way there, and one real store for each process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from explorer.http_wire import Proxy, Sent, WiredTransport
from explorer.machine import NOW
from mcp_notarium.domain.note import PendingWrite
from mcp_notarium.stores.contract import Acknowledgement, Store
from mcp_notarium.stores.http import HttpSession
from notarium_devtools.http_server import Request, Response

if TYPE_CHECKING:
    from explorer.machine import Process
    from explorer.world import World
    from mcp_notarium.storage.cache import Cache

TIMEOUT_SECONDS = 30.0


class HttpPlace(ABC):
    """A simulated service, and the ways to it. The clock of the service is its own."""

    repeats = False
    settings: dict[str, Any]
    base: str

    def __init__(self, world: World) -> None:
        self.world = world
        self.oracle = world.oracle
        self._proxy = Proxy()
        self._ways: list[WiredTransport] = []

    def now(self) -> float:
        """Return the time of the service, in epoch seconds."""
        return self.world.loop.time() + NOW

    @abstractmethod
    async def respond(self, request: Request) -> Response:
        """See ``Service.respond``."""

    @abstractmethod
    def words(self, request: Request) -> str:
        """See ``Service.words``."""

    def leaves(self, sent: Sent) -> None:  # noqa: B027 - most need not know
        """See ``Service.leaves``."""

    @abstractmethod
    def lands(self, sent: Sent) -> None:
        """See ``Service.lands``."""

    def landed(self, sent: Sent) -> None:  # noqa: B027 - as above
        """See ``Service.landed``."""

    def fails(self, sent: Sent) -> None:  # noqa: B027 - as above
        """See ``Service.fails``."""

    @abstractmethod
    def may_be_old(self, request: Request) -> bool:
        """See ``Service.may_be_old``."""

    def is_old(self, request: Request) -> None:  # noqa: B027 - as above
        """See ``Service.is_old``."""

    @abstractmethod
    def repeatable(self, request: Request) -> bool:
        """See ``Service.repeatable``."""

    @abstractmethod
    def open_store(self, session: HttpSession, cache: Cache) -> Any:
        """Return the real store of a process."""

    def remote(self, process: Process, cache: Cache) -> Store:
        """See ``Place.remote``."""
        world = self.world
        way = WiredTransport(
            self,
            self._proxy,
            process=process,
            loop=world.loop,
            chooser=world.chooser,
            note=world.note,
            calm=lambda: world.calm,
            down=lambda: world.down,
        )
        self._ways.append(way)
        session = HttpSession(
            bases=[self.base],
            timeout=TIMEOUT_SECONDS,
            draw=lambda: 0.5,
            clock=world.clock.monotonic,
            wall_clock=world.clock.time,
            transport=way,
        )
        store = self.open_store(session, cache)
        push = store.push

        async def watched(write: PendingWrite) -> Acknowledgement:
            world.oracle.see_push(write)
            acknowledged: Acknowledgement = await push(write)
            return acknowledged

        store.push = watched
        opened: Store = store
        return opened

    def requests(self) -> dict[str, int]:
        """See ``Place.requests``."""
        return {way.process.name: way.requests for way in self._ways}

    def close(self) -> None:  # noqa: B027 - nothing is open
        """See ``Place.close``."""
