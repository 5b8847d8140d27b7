"""Test the tools over a real cache, writer and scheduler and the in-memory note service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_notarium.app import App, see_as
from mcp_notarium.audit.chain import AuditKeys
from mcp_notarium.config import Config
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.files.locks import make_owner_name
from mcp_notarium.keys.secret_places import StoredToken
from mcp_notarium.library import Library
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.storage.audit_log import AuditLog, Steps
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.usage_limits import UsageLimits
from mcp_notarium.stores.contract import Store
from mcp_notarium.sync.scheduler import Scheduler
from mcp_notarium.sync.writer import Writer
from mcp_notarium.tools.consent import ConsentMode, consent_error
from mcp_notarium.tools.question import Question
from support.cache_room import make
from support.memory_client import LIKE_SIMPERIUM, MemoryClient
from support.memory_store import MemoryStore
from support.simplenote_settings import simplenote
from support.sync_rig import run_cycle

NOW = 1_750_000_000.0
"""15 June 2025, 15:06:40 UTC."""


class Caller:
    """A ``CallContext``: agrees, declines, or (None) can be asked nothing; nothing is recorded."""

    act: Any = None

    def __init__(self, *, agrees: bool | None = None, client: str = "test") -> None:
        self.agrees = agrees
        self.client = client
        self.steps = Steps()
        self.asked: list[str] = []
        self.progress_messages: list[str] = []

    def is_answered(self, *, irreversible: bool) -> bool:
        del irreversible
        return False

    async def confirm(self, question: Question) -> bool:
        self.asked.append(question.text)
        if self.agrees is None:
            raise consent_error(ConsentMode.ARGUMENT, question.text)
        return self.agrees

    async def progress(self, done: float, total: float | None, message: str) -> None:
        del done, total
        self.progress_messages.append(message)


class ToolHarness:
    """Hold an open account for tests of tools: ``store`` is the note service, ``app`` what a tool gets."""

    def __init__(
        self,
        folder: Path,
        *,
        policy: Policy = PERMISSIVE,
        audit_keys: AuditKeys = AuditKeys(),  # noqa: B008 - frozen
        remote: Store | None = None,
        cache: Cache | None = None,
        **traits: Any,
    ) -> None:
        self.store = MemoryStore()
        self.remote: Any = remote or MemoryClient(
            self.store, traits=replace(LIKE_SIMPERIUM, **traits), poll_seconds=0.2
        )
        self.now = NOW
        self.ticking = False
        self._began = time.monotonic()
        self.caller = Caller()
        config = Config(**simplenote("user@example.org"), data_dir=folder, policy=policy)
        cache = cache or make(folder, key=None, name="cache.sqlite", rules=policy.visibility.stored)
        apply_rules(cache)
        made: dict[str, str] = {}
        if remote is None:
            self.remote.new_id = lambda *_content, seed, **_attempt: made.setdefault(
                seed, f"{len(made) + 1:032x}"
            )
        writer = Writer(
            cache,
            self.remote,
            owner=make_owner_name(),
            lease=60.0,
            scope=policy.writing,
        )
        scheduler = Scheduler(
            cache,
            self.remote,
            writer,
            stopwatch=self.clock,
            interval=60.0,
            leader_lock_path=folder / "sync.lock",
        )
        tokens = StoredToken(cache.sync_state, owner=config.owner_hash, system=None)
        cache.versions.clock = self.clock
        audit = AuditLog(cache.database, audit_keys, clock=self.clock, days=365)
        budget = UsageLimits(policy.limits, cache, clock=self.clock, hourly=policy.hourly)
        native, seen = getattr(self.remote, "native", None), see_as(policy, cache)
        self.app = App(
            *(config, seen, self.remote, writer, scheduler, tokens, audit, budget),
            library=Library(
                seen,
                self.remote,
                writer,
                scheduler,
                native=None if native is None else native(NativeIndex(seen, self.remote)),
                files_lock=folder / "files.lock",
            ),
            notices=("one",),
            clock=self.clock,
        )

    def clock(self) -> float:
        """``now``, which stands still unless the harness is ``ticking``."""
        return self.now + (time.monotonic() - self._began if self.ticking else 0.0)

    async def sync(self) -> None:
        """One whole cycle: the cache is in step afterwards."""
        await run_cycle(self.app.scheduler)

    def close(self) -> None:
        """Let go of the files."""
        self.app.cache.close()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[App]:
        """Give the open account, as ``AppHolder`` asks for it."""
        yield self.app

    @asynccontextmanager
    async def syncing(self) -> AsyncIterator[None]:
        """With the scheduler at work."""
        task = asyncio.create_task(self.app.scheduler.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
