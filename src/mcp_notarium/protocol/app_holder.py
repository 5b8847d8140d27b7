"""Open the account once on demand, share it between calls, close it at the end.

Calls that come meanwhile wait for the one opening. A database that may not be opened locks the server:
every later call gets the same error, nothing is retried, and the process ends with exit code 1. One that
turns out to be damaged while it is open is closed at once and opened again, which repairs it; the second
time it is refused. What may pass by itself (another process holds the database) is tried again by the
next call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from mcp_notarium import __version__, logs
from mcp_notarium.app import App, open_app
from mcp_notarium.audit.chain import ActName, AuditEntry, Facts
from mcp_notarium.errors import (
    CacheBusy,
    CacheDamaged,
    CacheError,
    CacheReplaced,
    ConfigError,
    LockedError,
    NotariumError,
    OutcomeUnknown,
    Verdict,
)
from mcp_notarium.protocol.call_pipeline import report_unexpected

if TYPE_CHECKING:
    from mcp_notarium.config import Config
    from mcp_notarium.storage.audit_log import AuditLog

Opener = Callable[[], AbstractAsyncContextManager[App]]
Report = Callable[[NotariumError], None]


class AppHolder:
    """Hold the one ``App`` of the process, opened on demand. Run :meth:`keep` in a task of its own.

    ``refused``: what has been reported already, and locks it from the start.
    """

    def __init__(
        self, opener: Opener, *, report: Report, refused: NotariumError | None = None
    ) -> None:
        self._opener = opener
        self._report = report
        self._wanted = anyio.Event()
        self._tried = anyio.Event()
        self._leaving = anyio.Event()
        self._letting_go = anyio.Event()
        self.opened: App | None = None
        """The open ``App``, None while it is not open."""
        self._error = refused
        if refused is not None:
            self._tried.set()
        self._ended = anyio.Event()
        self._reopened = False
        self.on_open: Callable[[], None] = lambda: None
        """Called each time the account has been opened, before anybody else hears of it."""

    @property
    def locked(self) -> bool:
        """Tell whether the database is refused for good."""
        return self.opened is None and self._error is not None and _is_final(self._error)

    def open(self) -> None:
        """Begin to open, if that has not begun."""
        self._wanted.set()

    async def app(self) -> App:
        """Return the open ``App``. Raises the ``NotariumError`` for which it cannot be opened."""
        while self.opened is None and not self.locked:
            self.open()
            tried = self._tried
            await tried.wait()
            if tried is self._tried or self._error is not None:
                break  # otherwise it was let go of before we woke, and is opened again
        if self.opened is None:
            raise self._refusal()
        return self.opened

    async def tried(self) -> None:
        """Wait until the first attempt to open has ended, however it did."""
        await self._tried.wait()

    def lock(self, error: NotariumError) -> None:
        """Refuse the account for good, and let go of what is open or being opened."""
        if self.locked:
            return
        self.opened, self._error = None, error
        self._report(error)
        self._tried.set()
        self._letting_go.set()

    def reopen(self, error: NotariumError) -> None:
        """Let go of a damaged database and open it again; the second time, refuse it for good.

        One in whose place another file was met is refused at once.
        """
        replaced = isinstance(error, LockedError) and error.verdict is Verdict.ROLLBACK_SEEN
        if replaced or self._reopened or self.locked or self._leaving.is_set():
            self.lock(error)
            return
        self._reopened = True
        self.opened = None
        if self._tried.is_set():
            self._tried = anyio.Event()
        self._letting_go.set()

    def answer(self, error: NotariumError) -> NotariumError:
        """Return the error for a call that failed: if the server is locked, the reason and the way out.

        A write that was sent before may have been stored: it is not to be repeated after a repair.
        """
        if not self.locked:
            damaged = isinstance(error, CacheDamaged) and not isinstance(error, CacheReplaced)
            return repairing_error() if damaged else error
        refusal = self._refusal()
        if isinstance(error, OutcomeUnknown):
            error.details |= refusal.details
            error.resolution_hint = (
                f"Do not repeat the write. {refusal.agent_hint or refusal.resolution_hint}"
            )
        return refusal if isinstance(error, CacheError) else error

    def _refusal(self) -> NotariumError:
        if self._error is None:
            return NotariumError(
                "The server is stopping.", resolution_hint="Ask the user to restart the client."
            )
        return self._error.with_traceback(None)

    async def keep(self) -> None:
        """Open when asked, hold until :meth:`leave`, close. Ends early when locked."""
        try:
            while not (self._leaving.is_set() or self.locked):
                await self._wanted.wait()
                if not self._leaving.is_set():
                    self._letting_go = anyio.Event()
                    await self._hold()
        finally:
            self._tried.set()
            self._ended.set()

    async def _hold(self) -> None:
        """Make one attempt, and hold what it opens."""
        async with AsyncExitStack() as stack:
            try:
                app = await stack.enter_async_context(self._opener())
            except NotariumError as error:
                self._fail(error)
                return
            if self.locked or self._letting_go.is_set():  # found damaged while it was being opened
                return
            self.opened, self._error = app, None
            self.on_open()
            self._tried.set()
            await self._letting_go.wait()
            self.opened = None

    def _fail(self, error: NotariumError) -> None:
        """Tell those who wait, and be ready for another attempt."""
        if _is_final(error):
            self.lock(error)
        elif not self.locked:
            self._error = error
            self._report(error)
            tried, self._tried, self._wanted = self._tried, anyio.Event(), anyio.Event()
            tried.set()

    async def leave(self, *, within: float) -> None:
        """Close the account; give up waiting after ``within`` seconds."""
        self._leaving.set()
        self._letting_go.set()
        self._wanted.set()
        with anyio.move_on_after(within):
            await self._ended.wait()


def repairing_error() -> CacheBusy:
    """Return the error for a call that has met damage which is being repaired."""
    return CacheBusy("a page of the database could not be read; the database is being repaired")


def _is_final(error: NotariumError) -> bool:
    if isinstance(error, LockedError):
        return error.verdict is not Verdict.BUSY
    return isinstance(error, ConfigError)


@asynccontextmanager
async def open_account(
    config: Config, holder: AppHolder, *, time_to_close: Callable[[], float]
) -> AsyncIterator[App]:
    """Open the account for a holder; whatever goes wrong on the way becomes a ``NotariumError``."""
    opening = open_app(
        config,
        log=logs.get("app"),
        time_to_close=time_to_close,
        heal=True,
        damaged=holder.reopen,
    )
    try:
        app = await opening.__aenter__()
    except NotariumError:
        raise
    except Exception as error:  # noqa: BLE001 - shown to the client without its text
        raise report_unexpected(error, while_doing="opening the cache") from None
    app.audit.buffer(
        AuditEntry(at=app.clock(), act=ActName.START, facts=record_start(config, app.audit))
    )
    app.audit.flush()
    app.audit.tidy()  # defence: server-prunes-records
    try:
        yield app
    finally:
        app.audit.buffer(AuditEntry(at=app.clock(), act=ActName.STOP))
        await _close(opening)


def record_start(config: Config, audit: AuditLog) -> Facts:
    """Return the rules a server works under, for the record of its start.

    The policy is named by a keyed digest: another policy has another one, and its tags stay unknown.
    """
    return {
        "version": __version__,
        "destructive": config.destructive,
        "audit_days": config.audit_days,
        "policy": audit.digest("policy", config.policy.meaning),
    } | audit.facts


async def _close(opening: AbstractAsyncContextManager[App]) -> None:
    """Close the account. Nothing is lost where that fails: every write is committed already."""
    try:
        await opening.__aexit__(None, None, None)
    except LockedError:
        return  # damage met on the way out: it is known there
    except Exception as error:  # noqa: BLE001 - the process ends either way
        report_unexpected(error, while_doing="closing the cache")
