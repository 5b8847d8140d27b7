"""Open the account: Config → App, the whole wiring on one screen.

Nothing here decides anything; it says which part gets which. :func:`open_app` raises
``LockedError`` where the cache may not be opened or turns out to be damaged, and leaves nothing open
then.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mcp_notarium import logs as logging_room
from mcp_notarium.account import audit_anchor, opener, policy_change
from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheError, CacheFull, LockedError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.keys import keychain
from mcp_notarium.keys.login_token import StoredToken
from mcp_notarium.storage.account_record import AccountRecord
from mcp_notarium.storage.audit_log import Trail
from mcp_notarium.storage.budget import Allowance
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores import registry
from mcp_notarium.stores.simplenote.urls import Urls
from mcp_notarium.sync.driver import Driver
from mcp_notarium.sync.process_owner import owner_name
from mcp_notarium.sync.status import notice_of_differences
from mcp_notarium.sync.writer import Writer
from mcp_notarium.threads import run_aside

if TYPE_CHECKING:
    from mcp_notarium.config import Config
    from mcp_notarium.domain.policy import Policy
    from mcp_notarium.logs import Logger
    from mcp_notarium.stores.contract import Backend

_CLIENT_ID = "client_id"
_LEASE_MARGIN = 5.0
_CLOSING_SECONDS = 2.0
HEAD_START = 0.2
_SHARE = 0.5
"""Of the time that is left, for each step of closing: the next one needs some too."""


@dataclass(frozen=True, slots=True)
class App:
    """Everything a tool needs, for one account; valid while :func:`open_app` is open.

    ``notices`` are sentences for the person about how the cache was opened. ``clock`` gives
    epoch seconds.
    """

    config: Config
    cache: Cache
    backend: Backend
    writer: Writer
    driver: Driver
    tokens: StoredToken
    audit: Trail
    allowance: Allowance
    notices: tuple[str, ...] = ()
    clock: Callable[[], float] = time.time

    @property
    def policy(self) -> Policy:
        """What the person has decided about agents."""
        return self.config.policy

    def all_notices(self) -> tuple[str, ...]:
        """``notices``, and whether the note service changes what it is given."""
        differences = notice_of_differences(self.cache.sync_state)
        return (*self.notices, differences) if differences else self.notices


def _nobody(_damage: LockedError) -> None:
    """Whoever works with the account meets the damage too."""


@asynccontextmanager
async def open_app(
    config: Config,
    *,
    log: Logger | None = None,
    syncing: bool = True,
    time_to_close: Callable[[], float] = lambda: _CLOSING_SECONDS,
    whole: bool = False,
    read_only: bool = False,
    damaged: Callable[[LockedError], None] = _nobody,
) -> AsyncIterator[App]:
    """The open account, with sync running unless ``syncing`` is False; closed on leaving.

    ``time_to_close`` gives the seconds that are left for closing, at any moment of it. ``whole``:
    every page is looked at before. ``read_only``: no file of the folder is changed, and the rules that
    the cache is kept under stay, too. ``damaged`` is
    called once, in the event loop, if the cache turns out to be damaged while it is open; what
    raises ``CacheDamaged`` inside leaves as ``LockedError``.
    """
    log = log or logging_room.get("app")
    if read_only:
        opens = partial(opener.open_cache, guarded=True, read_only=True)
    else:
        opens = partial(policy_change.open_ruled)
    opened = await run_aside(partial(opens, config, whole=whole), too_late=opener.OpenedCache.close)
    opened.database.when_damaged(lambda: damaged(opener.damaged(config)))
    try:
        app = _wired(config, opened, log)
        for notice in app.notices:
            log.warning("cache.notice", message=notice)
        try:
            async with _running(app.driver, log, wanted=syncing, time_to_close=time_to_close):
                yield app
            await _closed(app, time_to_close)
        finally:
            if not read_only and app.audit.flush(patient=True):
                opened.anchor.write(app.audit.table, opened.database)
    except CacheDamaged as error:
        raise opener.damaged(config) from error
    finally:
        opened.close()


def _wired(config: Config, opened: opener.OpenedCache, log: Logger) -> App:
    cache = Cache(opened.database, config.policy.visibility)
    audit = _audit(config, opened)
    tokens = StoredToken(
        cache.sync_state,
        owner=config.owner_hash,
        system=keychain.system_keychain() if config.keychain else None,
    )
    backend = _simplenote(config, cache, tokens)

    def nothing_pending() -> None:
        opened.certificate.renew(opened.database)

    def differed(note_id: str) -> None:
        log.warning("sync.stored_differently", note_id=note_id)

    writer = Writer(
        cache,
        backend,
        clock=time.time,
        owner=owner_name(),
        lease=2 * config.api_timeout + _LEASE_MARGIN,
        before_intent=opened.certificate.withdraw,
        after_last_intent=nothing_pending,
        differed=differed,
    )
    driver = Driver(
        cache,
        backend,
        writer,
        clock=time.time,
        stopwatch=time.monotonic,
        interval=config.sync_interval,
        leader_lock_path=config.account_dir / "sync.lock",
        log=log,
    )
    allowance = Allowance(config.policy.limits, cache, clock=time.time)
    odd = opened.anchor.notice(audit.table, opened.database)
    notices = (*opened.notices, odd) if odd else opened.notices
    return App(config, cache, backend, writer, driver, tokens, audit, allowance, notices)


def _audit(config: Config, opened: opener.OpenedCache) -> Trail:
    """The audit chain; a cache that has none yet gets its first record, which says why."""
    keys = audit_anchor.audit_keys(opened.data_key)
    trail = Trail(opened.database, keys, clock=time.time, days=config.audit_days)
    if trail.table.head().count == 0:
        why = "rebuilt" if opened.rebuilt else "created" if opened.created else "upgraded"
        aside = opened.created and AccountFolder(config.account_dir).quarantine.is_dir()
        facts = {"why": why} | ({"older_files": "quarantine"} if aside else {})
        with suppress(CacheBusy, CacheFull):  # the next record will not be begun either
            trail.table.begin(time.time(), facts=facts)
    return trail


def _simplenote(config: Config, cache: Cache, tokens: StoredToken) -> Backend:
    made: Backend = registry.load(config.backend)(
        urls=Urls.given(api=config.api_url, auth=config.auth_url, app=config.app_url),
        username=config.username,
        password=config.password,
        token=config.token,
        tokens=tokens,
        record=AccountRecord(cache.database),
        api_key=config.api_key,
        client_id=_client_id(cache),
        timeout=config.api_timeout,
    )
    return made


def _client_id(cache: Cache) -> str:
    """Names this cache to the service, the same in every process and at every start."""
    known = cache.sync_state.get(_CLIENT_ID)
    if known is None:
        known = f"mcp-notarium-{uuid.uuid4().hex[:12]}"
        cache.sync_state.set(_CLIENT_ID, known)
    return known


@asynccontextmanager
async def _running(
    driver: Driver, log: Logger, *, wanted: bool, time_to_close: Callable[[], float]
) -> AsyncIterator[None]:
    """Sync in a task of its own, ended and awaited on leaving."""
    task = asyncio.create_task(_synced(driver), name="sync") if wanted else None
    if task is not None:
        task.add_done_callback(lambda done: _say_why(done, log))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=time_to_close() * _SHARE)


async def _synced(driver: Driver) -> None:
    """Sync; where everything is here already, who wants to read goes first.

    Importing what speaks to the network takes as long as answering a dozen questions.
    """
    with suppress(CacheError):
        if driver.status().complete:
            await asyncio.sleep(HEAD_START)
    await driver.run()


def _say_why(task: asyncio.Task[None], log: Logger) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("sync.ended", exc=task.exception())


async def _closed(app: App, time_to_close: Callable[[], float]) -> None:
    """Let writes end whose caller has gone, then the connections."""
    try:
        await _in_time(app.writer.drain(), time_to_close)
    finally:
        await _in_time(app.backend.close(), time_to_close)


async def _in_time(ending: Awaitable[None], time_to_close: Callable[[], float]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(ending, time_to_close() * _SHARE)
