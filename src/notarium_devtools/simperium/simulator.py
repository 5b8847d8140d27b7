"""Start, inspect and disturb the simulator.

It wires accounts, faults and server together and may be used from any thread while it serves.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

from notarium_devtools.http_faults import Rule
from notarium_devtools.http_server import Logged, Request, Response, Server
from notarium_devtools.simperium.accounts import Account, Accounts, LoginRules, SentCode
from notarium_devtools.simperium.api import Api, failure
from notarium_devtools.simperium.changes import Change, SimperiumFaults
from notarium_devtools.simperium.device import Device
from notarium_devtools.simperium.objects import Limits
from notarium_devtools.simperium.store import Bucket

_PATIENCE = 10.0


class Simulator(Device):
    """Simulate Simperium with one account, ``user@example.com``, to begin with.

    It also acts as the other device of that account. ``latency`` (seconds) passes before every answer.
    ``publish_delay`` (seconds) is how long the service takes to give a note tagged ``published`` its
    address while serving; None: it never does by itself. ``poll_seconds`` is the longest duration of a long
    poll. The ``max_object_bytes`` of ``limits`` replaces ``max_note_bytes``.
    """

    def __init__(
        self,
        *,
        latency: float = 0.0,
        max_note_bytes: int = 1_000_000,
        limits: Limits | None = None,
        login_rules: LoginRules | None = None,
        app_id: str = "chalk-bump-f49",
        api_key: str = "the-simulators-own-api-key",
        username: str = "user@example.com",
        password: str = "correct horse battery staple",  # noqa: S107 - opens nothing but this
        port: int = 0,
        poll_seconds: float = 25.0,
        publish_delay: float | None = 0.05,
        clock: Callable[[], float] = time.time,
    ) -> None:
        limits = limits or Limits(max_object_bytes=max_note_bytes)
        self.app_id = app_id
        self.api_key = api_key
        self.faults = SimperiumFaults()
        self.poll_seconds = poll_seconds
        self.publish_delay = publish_delay
        self.accounts = Accounts(limits=limits, login_rules=login_rules, clock=clock)
        self._api = api = Api(
            accounts=self.accounts,
            faults=self.faults,
            app_id=app_id,
            api_key=api_key,
            wait_for_change=self._wait_for_change,
        )
        self._server = Server(api, self.faults, failure, latency=latency, port=port)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._default = self.accounts.add(username, password)
        notes = self.accounts.bucket(self._default, "note")
        super().__init__(notes, clock)
        notes.listeners.append(self._after_change)

    # Where it is and who lives there

    @property
    def url(self) -> str:
        """Return ``http://127.0.0.1:PORT``. Valid once it serves."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def api_url(self) -> str:
        """Return the base of the data host."""
        return f"{self.url}/1"

    @property
    def auth_url(self) -> str:
        """Return the base of the login host."""
        return f"{self.url}/1"

    @property
    def app_url(self) -> str:
        """Return the base of the account host."""
        return self.url

    @property
    def username(self) -> str:
        """Return the first account's name."""
        return self._default.username

    @property
    def password(self) -> str:
        """Return the first account's password."""
        return self._default.password

    @property
    def token(self) -> str:
        """Return the first account's token, as every login gives it."""
        return self._default.token

    @property
    def sent_codes(self) -> list[SentCode]:
        """Return the login codes "e-mailed" so far, oldest first."""
        return list(self.accounts.sent_codes)

    def add_account(self, username: str, password: str) -> Account:
        """Add another account. Raises ``Refused`` 409 if the name is taken."""
        return self.accounts.add(username, password)

    def account(self, username: str) -> Account:
        """Return an account by name. Raises ``KeyError``."""
        return self.accounts.get(username)

    def change_password(self, password: str, *, username: str | None = None) -> str:
        """Change a password; the old token becomes invalid. Return the new token."""
        return self.accounts.change_password(username or self.username, password)

    def bucket(self, name: str = "note", *, username: str | None = None) -> Bucket:
        """Return a bucket itself, past HTTP and faults."""
        return self.accounts.bucket(self.accounts.get(username or self.username), name)

    def device(self, username: str) -> Device:
        """Return another device of another account."""
        return Device(self.bucket("note", username=username), self._now)

    # What happens on the wire

    @property
    def latency(self) -> float:
        """Return the seconds before every answer."""
        return self._server.latency

    @latency.setter
    def latency(self, seconds: float) -> None:
        self._server.latency = seconds

    @property
    def requests(self) -> list[Logged]:
        """Return every request so far, in the order they were finished."""
        return list(self._server.log)

    def reset_log(self) -> None:
        """Forget the requests so far."""
        self._server.log.clear()

    def between_pages(self, action: Callable[[], object], *, nth: int = 1) -> Rule:
        """Run ``action`` before the ``nth`` request for a further page of an index."""
        return self.faults.call(action, method="GET", path="*/index", query={"mark": "?*"}, nth=nth)

    def publish(self, note_id: str, *, delay: float = 0.0) -> None:
        """Give the note its public address, ``delay`` seconds from now, as the service does."""
        if delay <= 0 or self._loop is None:
            self._give_address(note_id)
        else:
            self._loop.call_soon_threadsafe(
                self._loop.call_later, delay, self._give_address, note_id
            )

    async def respond(self, request: Request) -> Response:
        """Answer a request without a socket, past all faults; a long poll waits in the running event loop."""
        return await self._api.respond(request)

    # Running

    @contextmanager
    def running(self) -> Iterator[Simulator]:
        """Serve from a thread of its own while the block lasts."""
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        thread = threading.Thread(
            target=self._serve_in_thread, args=(started,), name="simulator", daemon=True
        )
        thread.start()
        loop, ended = started.result(_PATIENCE)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join(_PATIENCE)
            if thread.is_alive():
                raise RuntimeError("the simulator did not stop")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Simulator]:
        """Serve from the running event loop while the block lasts."""
        self._server.hold_port()
        await self._server.listen()
        self._loop = asyncio.get_running_loop()
        try:
            yield self
        finally:
            self._loop = None
            await self._server.stop()

    def stop_listening(self) -> None:
        """Simulate a lost network: connections are cut and new ones refused, on the same port."""
        self._in_loop(self._server.refuse)

    def resume(self) -> None:
        """Restore the network."""
        self._in_loop(self._server.resume)

    def _serve_in_thread(
        self, started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
    ) -> None:
        async def serve() -> None:
            ended = asyncio.Event()
            async with self.serving():
                started.set_result((asyncio.get_running_loop(), ended))
                await ended.wait()

        try:
            asyncio.run(serve())
        except OSError as refusal:
            started.set_exception(refusal)

    def _in_loop(self, action: Callable[[], None]) -> None:
        loop = self._loop
        if loop is None:
            raise RuntimeError("the simulator is not serving")
        if _running_loop() is loop:
            action()
            return
        done: Future[None] = Future()

        def act() -> None:
            try:
                action()
            except OSError as refusal:
                done.set_exception(refusal)
            else:
                done.set_result(None)

        loop.call_soon_threadsafe(act)
        done.result(_PATIENCE)

    async def _wait_for_change(self, bucket: Bucket, cv: str) -> None:
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake(_change: Change) -> None:
            loop.call_soon_threadsafe(changed.set)

        with bucket.lock:
            bucket.listeners.append(wake)
            if bucket.current != cv:
                changed.set()
        try:
            async with asyncio.timeout(self.poll_seconds):
                await changed.wait()
        except TimeoutError:
            pass
        finally:
            with bucket.lock:
                bucket.listeners.remove(wake)

    # The service's own edits

    def _after_change(self, change: Change) -> None:
        serving = self._loop is not None
        if serving and self.publish_delay is not None and _wants_address(change):
            self.publish(change.id, delay=self.publish_delay)

    def _give_address(self, note_id: str) -> None:
        if note_id in self._notes:
            address = f"http://simp.ly/p/{note_id[:6]}"
            self._notes.force_write(
                note_id,
                {**self._notes.read(note_id).value, "publishURL": address},
                clientid="server",
            )


def _wants_address(change: Change) -> bool:
    value = change.after or {}
    return "published" in (value.get("systemTags") or ()) and not value.get("publishURL")


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
