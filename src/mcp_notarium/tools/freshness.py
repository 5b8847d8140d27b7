"""How complete and how fresh the cache is, in the words of the answers.

Says nothing while everything is plainly in order: an agent reads every byte.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mcp_notarium.tools.context import CallContext
from mcp_notarium.tools.schemas import Sync

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.sync.status import SyncStatus

FIRST_PAGE_SECONDS = 8.0
"""How long the first ``list`` on an empty cache waits; clients give up after 30 to 60 seconds."""

STALE_INTERVALS = 3
"""After so many intervals without a sync, failures in the meantime are worth mentioning."""

_STUCK = ("needs_auth", "halted")
_LOOK_SECONDS = 0.25


async def wait_for_first_page(app: App, call: CallContext) -> None:
    """On a cache that has never held anything, give the first sync a moment to bring page one.

    Does not wait for a sync that has failed already or that only a person can help.
    """
    if app.cache.notes.counts().total or not _worth_waiting(app.driver.status()):
        return
    await call.progress(0, None, "Loading the newest notes")
    for _ in range(round(FIRST_PAGE_SECONDS / _LOOK_SECONDS)):
        if await app.driver.wait_first_page(_LOOK_SECONDS):
            return
        if not _worth_waiting(app.driver.status()):
            return


def _worth_waiting(status: SyncStatus) -> bool:
    nothing_yet = not status.complete and not status.loaded
    return nothing_yet and not status.last_error and status.state not in _STUCK


def sync_of(app: App) -> Sync | None:
    """What an agent should know about the cache before it trusts an answer; None if nothing."""
    status = app.driver.status()
    note = note_on(status, now=app.clock(), interval=app.config.sync_interval)
    if note is None:
        return None
    return Sync(
        state=str(status.state),
        loaded=None if status.complete else status.loaded,
        total=None if status.complete else status.total,
        complete=status.complete,
        note=note,
    )


def note_on(status: SyncStatus, *, now: float, interval: float) -> str | None:
    """One or two sentences on what is missing or old, None if nothing is."""
    if status.needs_login:
        return f"No login is accepted; the user must run `mcp-notarium login`. {_as_of(status)}"
    if status.state == "halted":
        return f"Sync has stopped: {status.last_error or 'unknown reason'}. {_as_of(status)}"
    if not status.complete:
        return _loading(status)
    if status.last_error and _old(status, now=now, interval=interval):
        return f"The note service cannot be reached. {_as_of(status)}"
    return None


def _loading(status: SyncStatus) -> str:
    of = f" of {status.total}" if status.total is not None else ""
    trouble = " It was interrupted and will be tried again." if status.last_error else ""
    return f"The first sync has loaded {status.loaded}{of} notes, newest first.{trouble}"


def _old(status: SyncStatus, *, now: float, interval: float) -> bool:
    last = status.last_sync_at
    return last is None or now - last > STALE_INTERVALS * interval


def _as_of(status: SyncStatus) -> str:
    if status.last_sync_at is None:
        return "Nothing has been synced yet."
    at = datetime.fromtimestamp(status.last_sync_at, UTC)
    return f"Notes are as of {at:%Y-%m-%d %H:%M} UTC."
