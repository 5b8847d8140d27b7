"""Open the app: build every component from the configuration.

Nothing here decides anything; it says which part gets which. :func:`open_app` raises ``LockedError``
if the database may not be opened or turns out to be damaged, and leaves nothing open then.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mcp_notarium import logs
from mcp_notarium.account import audit_anchor, opener, rollback
from mcp_notarium.account.anchor_keeper import AnchorKeeper
from mcp_notarium.account.copies import Copies, CopySchedule, describe_age
from mcp_notarium.account.generation import OpenedCache
from mcp_notarium.account.rollback import Rollback
from mcp_notarium.errors import (
    CacheBusy,
    CacheDamaged,
    CacheError,
    CacheFull,
    CacheReplaced,
    LockedError,
)
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import make_owner_name
from mcp_notarium.keys import keychain
from mcp_notarium.keys.secret_places import StoredToken
from mcp_notarium.library import Library
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.sync_state import AccountRecord, ListingMemory
from mcp_notarium.storage.usage_limits import UsageLimits
from mcp_notarium.storage.version_table import VersionLimits
from mcp_notarium.stores.context import StoreContext
from mcp_notarium.stores.contract import require_supported_row
from mcp_notarium.sync.scheduler import Scheduler
from mcp_notarium.sync.writer import Writer
from mcp_notarium.threads import run_in_thread

if TYPE_CHECKING:
    from mcp_notarium.config import Config
    from mcp_notarium.domain.policy import Policy
    from mcp_notarium.logs import Logger
    from mcp_notarium.meaning.meaning_search import MeaningSearch
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.kind import LentTables

_CLIENT_ID = "client_id"
_LEASE_MARGIN = 5.0
_CLOSING_SECONDS = 2.0
WARMING_DELAY = 3.0
"""Seconds between looks whether the first load is done and merged. Meanwhile a server starts."""
_SHARE = 0.5
"""Share of the remaining time for each step of closing: the next step needs some too."""


@dataclass(frozen=True, slots=True)
class App:
    """Hold everything a tool needs, for one account; valid while :func:`open_app` is open."""

    config: Config
    cache: Cache
    store: Store
    writer: Writer
    scheduler: Scheduler
    tokens: StoredToken
    audit: AuditLog
    usage_limits: UsageLimits
    library: Library
    notices: tuple[str, ...] = ()
    """Sentences for the user about how the database was opened."""
    rollback: Rollback | None = None
    """Rollback of the database, if any: then nothing is changed."""
    clock: Callable[[], float] = time.time
    """Gives epoch seconds."""

    def all_notices(self) -> tuple[str, ...]:
        """Return ``notices``, and whether the store changes what it is sent."""
        differences = self.describe_differences()
        return (*self.notices, differences) if differences else self.notices

    def describe_differences(self) -> str | None:
        """Describe for the user how often writes were stored differently; None if never."""
        seen = self.cache.sync_state.differences()
        if not seen.count:
            return None
        last = datetime.fromtimestamp(seen.last_at, UTC)
        return (
            f"The note store has stored {seen.count} writes differently from what was sent, the last on "
            f"{last:%Y-%m-%d %H:%M} UTC. Something between here and there changes texts."
        )


def _ignore_damage(_damage: LockedError) -> None:
    """Ignore the report: the user of the app meets the damage too."""


@asynccontextmanager
async def open_app(
    config: Config,
    *,
    log: Logger | None = None,
    syncing: bool = True,
    time_to_close: Callable[[], float] = lambda: _CLOSING_SECONDS,
    whole: bool = False,
    read_only: bool = False,
    heal: bool = False,
    damaged: Callable[[LockedError], None] = _ignore_damage,
    in_memory: bool = False,
) -> AsyncIterator[App]:
    """Open the app, with sync running unless ``syncing`` is False; close it on leaving.

    ``CacheDamaged`` raised inside leaves as ``LockedError``.

    * ``time_to_close`` returns the seconds left for closing, at any moment of it;
    * ``whole``: check every page first;
    * ``read_only``: change no file of the folder, and keep the visibility rules of the index;
    * ``heal``: repair a damaged database if that loses nothing;
    * ``damaged`` is called once, in the event loop, for damage that shows while the database is open;
    * ``in_memory``: use an empty database that ends with the app, whatever the store.
    """
    log = log or logs.get("app")
    opens = partial(opener.open_with_policy, config, whole=whole, heal=heal)
    if in_memory or not config.store.persistent:
        from mcp_notarium.account import generation  # noqa: PLC0415 - no other store needs it

        opens = partial(generation.open_in_memory, config)
    elif read_only:
        opens = partial(opener.open_cache, config, read_only=True, whole=whole)
    opened = await run_in_thread(opens, too_late=OpenedCache.close)
    opened.database.on_damage(lambda: damaged(_damage_error(config, opened)))
    loop = asyncio.get_running_loop()

    def on_replaced() -> None:  # in any thread
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(damaged, _replaced_error(config, opened))

    copies: CopySchedule | None = None
    try:
        app = _wire(config, opened, log, on_replaced)
        writes_copies = not read_only and app.rollback is None
        copies = _schedule_copies(config, opened, log) if writes_copies else None
        for notice in app.notices:
            log.warning("cache.notice", message=notice)
        try:
            works = _works(config, app, copies, opened, log) if syncing else {}
            async with _running(works, app, time_to_close, log):
                yield app
            await _close(app, time_to_close)
        finally:
            if not read_only and app.rollback is None and app.audit.flush(wait=True):
                begun = app.audit.last_begun
                opened.anchor.write(app.audit.table, opened.database, begun=begun)
        if copies is not None:
            with _marking_damage(opened):
                finish = partial(copies.finish, time_to_close())
                await run_in_thread(finish)
    except CacheReplaced as error:
        raise _replaced_error(config, opened) from error
    except CacheDamaged as error:
        raise _damage_error(config, opened) from error
    finally:
        witness = opened.database.witness
        if copies is not None and witness is not None and witness.displaced:
            copies.rescue(time_to_close() * _SHARE)
        opened.close()


def _replaced_error(config: Config, opened: OpenedCache) -> LockedError:
    if not opened.database.path.exists():
        return rollback.removed_error()
    copies = _copies(config, opened)
    found = rollback.find_replaced(opened.anchor, copies)
    return rollback.replaced_error(copies) if found is None else found.locked()


def _damage_error(config: Config, opened: OpenedCache) -> LockedError:
    found = rollback.find_replaced(opened.anchor, _copies(config, opened))
    return opener.damage_error(config) if found is None else found.locked()


def _copies(config: Config, opened: OpenedCache) -> Copies:
    return Copies(opened.anchor.folder, opened.data_key, config.store.tables)


def _wire(config: Config, opened: OpenedCache, log: Logger, on_replaced: Callable[[], None]) -> App:
    limits = VersionLimits(days=config.version_days, size=config.version_mb * 1024 * 1024)
    rules = config.policy.visibility
    cache = Cache(opened.database, rules.stored, limits)
    keys = audit_anchor.audit_keys(opened.data_key)
    audit = AuditLog(
        opened.database,
        keys,
        clock=time.time,
        days=config.audit_days,
        profile=config.policy.profile,
    )
    missing, unusable = AnchorKeeper(config, opened, audit).start(on_replaced)
    _begin_chain(config, opened, audit)
    tokens = StoredToken(
        cache.sync_state,
        owner=config.owner_hash,
        system=keychain.system_keychain() if config.keychain else None,
    )
    context = StoreContext(
        tokens=tokens,
        record=AccountRecord(cache.database),
        database=cache.database,
        memory=ListingMemory(cache.database),
        client_id=_client_id(cache),
        timeout=config.api_timeout,
    )
    store = config.store.open(config.store_settings, context)
    require_supported_row(store.traits)

    def log_difference(note_id: str) -> None:
        # An id may be made of a title, and no word of a note stands in the log.
        log.warning("sync.stored_differently", note_id=audit.note_reference(note_id))

    writer = Writer(
        cache,
        store,
        owner=_owner_name(),
        lease=2 * config.api_timeout + _LEASE_MARGIN,
        on_difference=log_difference,
        scope=config.policy.writing,
    )
    scheduler = Scheduler(
        cache,
        store,
        writer,
        stopwatch=time.monotonic,
        interval=config.sync_interval,
        leader_lock_path=config.account_dir / "sync.lock" if config.store.persistent else None,
        log=log,
    )
    usage_limits = UsageLimits(
        config.policy.limits, cache, clock=time.time, hourly=config.policy.hourly
    )
    anchor_notice = missing.notice if missing is not None else unusable
    found = (anchor_notice, _describe_copies(config, opened, audit))
    native, seen = config.store.native, see_as(config.policy, cache)
    library = Library(
        seen,
        store,
        writer,
        scheduler,
        native=None if native is None else native(store, NativeIndex(seen, store)),
        files_lock=AccountFolder(config.account_dir).files_lock
        if config.store.persistent
        else None,
    )
    return App(
        *(config, seen, store, writer, scheduler, tokens, audit, usage_limits, library),
        notices=(
            *opened.notices,
            *filter(None, found),
            *config.store.notices(config.store_settings),
            *_describe_meaning(config),
        ),
        rollback=None if missing is None or missing.harmless else missing,
    )


def see_as(policy: Policy, stored: Cache) -> Cache:
    """Return what agents under the policy see of a cache: a view of it, if a profile narrows the rules it is filled under."""
    if policy.visibility.within is None:
        return stored
    from mcp_notarium.storage.profile_view import ViewCache  # noqa: PLC0415 - only where there is a profile

    return ViewCache(stored, policy.visibility, policy.profile)


@cache
def _owner_name() -> str:
    """Return the name of this process, the same after a repair: it goes on with its own writes."""
    return make_owner_name()


def _begin_chain(config: Config, opened: OpenedCache, audit: AuditLog) -> None:
    """Give a database without a record its first one, which says why."""
    if not opened.database.read_only and audit.table.head().count == 0:
        why = "rebuilt" if opened.rebuilt else "created" if opened.created else "upgraded"
        has_older_files = opened.created and AccountFolder(config.account_dir).quarantine.is_dir()
        facts = {"why": why} | ({"older_files": "quarantine"} if has_older_files else {})
        with suppress(CacheBusy, CacheFull):  # the next record will fail, too
            audit.table.begin(time.time(), facts=facts)


def _client_id(cache: Cache) -> str:
    """Return the name of this database for the store, the same in every process and at every start."""
    known = cache.sync_state.get(_CLIENT_ID)
    if known is None:
        known = f"mcp-notarium-{uuid.uuid4().hex[:12]}"
        cache.sync_state.set(_CLIENT_ID, known)
    return known


_Work = tuple[Coroutine[Any, Any, None], Callable[[], None] | None]
"""Work that runs as long as the app is open, and what ends it; None: it is cancelled."""


def _works(
    config: Config, app: App, copies: CopySchedule | None, opened: OpenedCache, log: Logger
) -> dict[str, _Work]:
    """Return the background work of a server, by name."""
    found: dict[str, _Work] = {"sync": (app.scheduler.run(), None)}
    if copies is not None:
        found["copies"] = _copy(copies, opened), copies.leave
    meaning = app.cache.search.meaning = _meaning(config, app, log)
    if meaning is not None:
        found["meaning"] = meaning.run(), None
    return found | {"warming": (_warm(app), None)}


@asynccontextmanager
async def _running(
    works: Mapping[str, _Work], app: App, time_to_close: Callable[[], float], log: Logger
) -> AsyncIterator[None]:
    """Do these works, each in a task of its own; end and await them on leaving."""
    tasks = {asyncio.create_task(work, name=name): end for name, (work, end) in works.items()}
    for task in tasks:
        task.add_done_callback(partial(_log_failure, log))
    try:
        yield
    finally:
        for task, end in tasks.items():
            (end or task.cancel)()
        if tasks:
            await asyncio.wait(tasks, timeout=time_to_close() * _SHARE)
        await app.cache.vocabulary.finish(time_to_close() * _SHARE)


def _log_failure(log: Logger, task: asyncio.Task[None]) -> None:
    """Tell of work that has ended by an error: the notes that are here can still be read."""
    if not task.cancelled() and task.exception() is not None:
        log.error("work.ended", work=task.get_name(), exc=task.exception())


async def _copy(copies: CopySchedule, opened: OpenedCache) -> None:
    with suppress(CacheDamaged), _marking_damage(opened):
        await run_in_thread(copies.work)


async def _warm(app: App) -> None:
    """Read the words of all notes in good time, so that no search has to wait for them."""
    with suppress(CacheError):
        await asyncio.sleep(WARMING_DELAY)
        while app.cache.notes.index.tidy_due or not app.scheduler.status().complete:  # noqa: ASYNC110 - another process may load
            await asyncio.sleep(WARMING_DELAY)
        app.cache.follow()
        await app.cache.vocabulary.refresh()


async def _close(app: App, time_to_close: Callable[[], float]) -> None:
    """Let writes end whose caller has gone, then close the connections."""
    try:
        await _await_in_time(app.writer.locks.drain(), time_to_close)
    finally:
        await _await_in_time(app.store.close(), time_to_close)
        if app.cache.stored is not app.cache:
            app.cache.database.close()


def _copies_wanted(config: Config, opened: OpenedCache) -> tuple[LentTables, int] | None:
    """Return the tables of notes that are nowhere else, and how many copies are kept; None if none is made."""
    tables, keep = config.store.tables, config.store.copies(config.store_settings)
    return None if tables is None or keep == 0 or opened.data_key is None else (tables, keep)


def _describe_copies(config: Config, opened: OpenedCache, audit: AuditLog) -> str | None:
    """Say that the copies of a database whose notes are nowhere else are too old; None if not."""
    wanted = _copies_wanted(config, opened)
    if wanted is None:
        return None
    number, now = audit.table.first(), time.time()
    first = next(audit.table.records(first=number, last=number), None)
    began = first.at_ms / 1000 if first is not None else now
    return describe_age(opened, wanted[0], began=began, now=now)


def _schedule_copies(config: Config, opened: OpenedCache, log: Logger) -> CopySchedule | None:
    """Return what copies a database whose notes are nowhere else; None if none is wanted."""
    wanted = _copies_wanted(config, opened)
    return None if wanted is None else CopySchedule(opened, wanted[0], keep=wanted[1], log=log)


def _describe_meaning(config: Config) -> Iterator[str]:
    """Yield why a model that is named cannot be used, as far as that shows without loading it."""
    if config.meaning_model is not None:
        from mcp_notarium.meaning import embedder  # noqa: PLC0415 - an extra

        problem = embedder.find_problem(config.meaning_model)
        if problem is not None:
            yield f"{problem.message}. {problem.resolution_hint}"


def _meaning(config: Config, app: App, log: Logger) -> MeaningSearch | None:
    """Return what searches by meaning; None if no model is named."""
    if config.meaning_model is None:
        return None
    from mcp_notarium.meaning.meaning_search import MeaningSearch  # noqa: PLC0415 - an extra

    database, scheduler = app.cache.database, app.scheduler
    is_view = app.cache.stored is not app.cache  # nobody else embeds its notes
    return MeaningSearch(
        config.meaning_model, database, leads=lambda: is_view or scheduler.leads, log=log
    )


@contextmanager
def _marking_damage(opened: OpenedCache) -> Iterator[None]:
    """Mark the database as damaged if a copy has met a page that cannot be read."""
    try:
        yield
    except CacheDamaged as damage:
        opened.database.mark_damaged(damage.message)
        raise


async def _await_in_time(ending: Awaitable[None], time_to_close: Callable[[], float]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(ending, time_to_close() * _SHARE)
