"""Build the part of an answer that says how complete and how fresh the index is.

Says nothing while everything is in order: an agent reads every byte.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp_notarium.errors import (
    LoginRequired,
    NotariumError,
    Restated,
    StillLoading,
    StoreUnavailable,
)
from mcp_notarium.tools.answers import Sync

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.sync.status import SyncStatus

FIRST_PAGE_SECONDS = 8.0
"""Seconds that the first ``list`` on an empty index waits; clients give up after 30 to 60 seconds."""

_LIST_AGAIN = "Call `list` again in a few minutes; if it stays like this, ask the user to run `mcp-notarium doctor`."
_NEEDS_PERSON = ("needs_auth", "halted")
_POLL_SECONDS = 0.25


async def wait_for_notes(app: App) -> SyncStatus:
    """Wait a moment for the first sync: for its first page, or for all notes if rules hide some.

    Returns how sync stands then. Does not wait for a sync that has failed already or that only a person
    can repair. Nothing is listed before all are here if rules hide notes: a first page with gaps would
    reveal how many notes are hidden. Raises why nothing can be listed yet, with the way out.
    """
    all_needed = app.config.policy.visibility.has_rules
    for _ in range(round(FIRST_PAGE_SECONDS / _POLL_SECONDS) + 1):
        status = app.library.status()
        if status.complete or (status.loaded and not all_needed):
            return status
        if status.last_error or status.state in _NEEDS_PERSON:
            break
        await asyncio.sleep(_POLL_SECONDS)
    raise _nothing_loaded(app, status)


def _nothing_loaded(app: App, status: SyncStatus) -> NotariumError:
    """Return the error for a listing of notes that are not here yet; an empty page would be a lie."""
    why = _reason(status) or "no login is accepted"
    message, kind = f"The notes have not been loaded: {why}.", status.error_kind
    if status.needs_login:
        return Restated(message, kind) if kind else LoginRequired(message)
    if status.last_error and status.state != "halted":
        again = None if status.way_out else _LIST_AGAIN
        kind = kind or StoreUnavailable(message).kind
        return Restated(message, kind, resolution_hint=again)
    return still_loading(app, "call `list` again in a minute.")


def still_loading(app: App, until: str) -> StillLoading:
    """Return the error for an answer that needs all notes; ``until`` says what happens when they are here."""
    status = app.library.status()
    if status.needs_login or status.state == "halted":
        return StillLoading(
            status_sentence(status, now=app.clock()) or "The notes are not here.",
            resolution_hint="Ask the user to do that; trying again does not help before.",
        )
    return StillLoading(f"The notes are being loaded; {until}")


def sync_part(status: SyncStatus, *, now: float) -> Sync | None:
    """Return what an agent should know about the index before it trusts an answer, or None."""
    note = status_sentence(status, now=now)
    if note is None:
        return None
    return Sync(
        state=str(status.state),
        loaded=None if status.complete else status.loaded,
        total=None if status.complete else status.total,
        complete=status.complete,
        note=note,
    )


def page_fields(
    app: App, status: SyncStatus, *, page: int, size: int, total: int
) -> dict[str, Any]:
    """Return what ``PageAnswer`` has of this page, of ``size`` rows."""
    after = page + 1 if page * size < total else None
    return {"total": total, "next_page": after, "sync": sync_part(status, now=app.clock())}


def status_sentence(status: SyncStatus, *, now: float) -> str | None:
    """Return one or two sentences on what is missing or old, or None."""
    as_of = _describe_age(status, now=now)
    if status.needs_login:
        return f"{_describe_login(status)} {as_of}"
    if status.state == "halted":
        return f"{_describe_halt(status)} {as_of}"
    if not status.complete:
        return _loading(status)
    if status.last_error:
        return f"The last sync failed: {_reason(status)}. {_way_out(status)}{as_of}"
    return None


def _reason(status: SyncStatus) -> str:
    return (status.last_error or "").rstrip(".")


def _way_out(status: SyncStatus) -> str:
    return f"{status.way_out} " if status.way_out else ""


def _describe_login(status: SyncStatus) -> str:
    if status.way_out is None:
        return "No login is accepted; the user must run `mcp-notarium login`."
    return f"No login is accepted: {_reason(status)}. {status.way_out}"


def _describe_halt(status: SyncStatus) -> str:
    if status.last_error is None:
        return "Sync has stopped; `mcp-notarium doctor` tells the user why."
    return (
        f"Sync has stopped: {status.last_error}. If that is right, the user must run "
        "`mcp-notarium reset-cache`; if not, nothing is lost here."
    )


def _loading(status: SyncStatus) -> str:
    of = "" if status.total is None else f" of {status.total}"
    trouble = " It was interrupted and will be tried again." if status.last_error else ""
    if status.way_out:
        trouble = f" It was interrupted: {_reason(status)}. {status.way_out}"
    return f"The first sync has loaded {status.loaded}{of} notes, newest first.{trouble}"


def _describe_age(status: SyncStatus, *, now: float) -> str:
    if status.last_sync_at is None:
        return "Nothing has been synced yet."
    at = datetime.fromtimestamp(status.last_sync_at, UTC)
    return f"Notes are as of {at:%Y-%m-%d %H:%M} UTC, {_age(now - status.last_sync_at)} ago."


def _age(seconds: float) -> str:
    """Return the age in the largest unit of which there are at least two."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
