"""Make clients of the embedded Simperium: quick retries, short deadlines, tokens in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.secret import Secret
from mcp_notarium.stores.http import HttpSession
from mcp_notarium.stores.http_rules import RetryPolicy
from mcp_notarium.stores.simplenote.kind import Urls
from mcp_notarium.stores.simplenote.store import AccountRecord, SimplenoteStore
from notarium_devtools.simperium import Simulator
from support.journal_entries import make_write

QUICK = RetryPolicy(tries=3, first=0.01, longest=0.02)


class MemoryTokens:
    """A ``TokenStore`` that forgets with the process; ``stored`` counts the stores."""

    def __init__(self, token: Secret | None = None) -> None:
        self.token = token
        self.stored = 0

    def load(self) -> Secret | None:
        return self.token

    def store(self, token: Secret) -> None:
        self.token = token
        self.stored += 1

    def forget(self) -> None:
        self.token = None


class MemoryRecord:
    """An ``AccountRecord`` of a cache with these ``notes`` (id and date), no write unfinished."""

    def __init__(self, notes: Sequence[tuple[str, float]] = ()) -> None:
        self.notes = notes
        self.unfinished = False
        self.token: Secret | None = None
        self.trusted = False

    def recognises(self, token: Secret) -> bool:
        return self.token == token

    def remember(self, token: Secret, *, on_trust: bool) -> None:
        self.token, self.trusted = token, on_trust

    @property
    def proven(self) -> bool:
        return self.token is not None and not self.trusted

    @property
    def on_trust(self) -> bool:
        return self.token is not None and self.trusted

    def sample_notes(self) -> Sequence[tuple[str, float]]:
        return self.notes


def urls_of(sim: Simulator) -> Urls:
    """The addresses of a running simulator."""
    return Urls(api=sim.api_url, auth=sim.auth_url, app=sim.app_url, app_id=sim.app_id)


def open_session(
    sim: Simulator, *, timeout: float = 10.0, retry_policy: RetryPolicy = QUICK
) -> HttpSession:
    """Connections to a running simulator."""
    return HttpSession(bases=urls_of(sim).all(), timeout=timeout, retry_policy=retry_policy)


def open_store(
    sim: Simulator,
    *,
    tokens: MemoryTokens | None = None,
    record: AccountRecord | None = None,
    password: str | None = None,
    token: str | None = None,
    timeout: float = 10.0,
    retry_policy: RetryPolicy = QUICK,
) -> SimplenoteStore:
    """A store that logs in with the simulator's own password, unless told otherwise."""
    return SimplenoteStore(
        urls=urls_of(sim),
        username=sim.username,
        password=Secret(sim.password if password is None else password),
        token=None if token is None else Secret(token),
        tokens=tokens or MemoryTokens(),
        record=record or MemoryRecord(),
        api_key=Secret(sim.api_key),
        client_id="mcp-notarium-test",
        timeout=timeout,
        session=open_session(sim, timeout=timeout, retry_policy=retry_policy),
    )


Step = Callable[[Simulator, SimplenoteStore], Awaitable[Any]]


def with_simulator(step: Step, *, timeout: float = 10.0, **options: Any) -> None:
    async def whole() -> None:
        async with Simulator(**options).serving() as sim:
            store = open_store(sim, timeout=timeout)
            try:
                await step(sim, store)
            finally:
                await store.close()

    asyncio.run(whole())


def pending(
    store: SimplenoteStore,
    content: Content,
    *,
    base: Revision | None = None,
    note_id: str = "n1",
    write_id: str = "0b",
) -> PendingWrite:
    return make_write(store, note_id, content, base, write_id=write_id)
