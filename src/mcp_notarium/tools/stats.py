"""Collect the numbers of ``manage get_stats``: program, database, sync. No note text, path or secret."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium import __version__
from mcp_notarium.domain.pending_write import WriteState
from mcp_notarium.storage import driver
from mcp_notarium.tools.schemas import StatsAnswer

if TYPE_CHECKING:
    from mcp_notarium.app import App

_MB = 1_000_000
_OF_THE_WHOLE_ACCOUNT = (
    "memory_rss_mb",
    "db_file_size_mb",
    "db_last_sync_at",
    "db_sync_duration_ms",
    "backend_cursor",
    "sync_left_out",
)
"""Numbers that also change with hidden notes."""
_OF_A_PART = ("db_total_notes", "db_active_notes", "db_trashed_notes", "sync_loaded", "sync_total")
"""Numbers that would reveal, during the first load, how many notes are hidden."""


def collect_stats(app: App) -> StatsAnswer:
    """Return all numbers from the database; asks the store nothing.

    If rules hide notes, numbers that would reveal those are left out.
    """
    numbers = _program(app) | _cache(app) | _sync(app) | _writes(app)
    if app.policy.visibility.hides:
        numbers |= dict.fromkeys(_OF_THE_WHOLE_ACCOUNT)
        if not app.driver.status().complete:
            numbers |= dict.fromkeys(_OF_A_PART)
    return StatsAnswer.model_validate(numbers, strict=False)


def _program(app: App) -> dict[str, object]:
    rss = _rss_bytes()
    return {
        "mcp_notarium_version": __version__,
        "runtime_version": f"{platform.python_implementation()} {platform.python_version()}",
        "memory_rss_mb": None if rss is None else round(rss / _MB, 1),
        "backend": app.config.backend,
        "notices": list(app.all_notices()),
    }


def _cache(app: App) -> dict[str, object]:
    database = app.cache.database
    counts = app.cache.notes.counts()
    return {
        "db_encryption": "on" if database.encrypted else "off",
        "db_cipher_version": _cipher_version(app),
        "db_file_size_mb": round(database.size_bytes() / _MB, 3),
        "db_total_notes": counts.active + counts.trashed,
        "db_active_notes": counts.active,
        "db_trashed_notes": counts.trashed,
        "db_schema_version": database.user_version(),
    }


def _cipher_version(app: App) -> str | None:
    if not app.cache.database.encrypted:
        return None
    return driver.facts().cipher_version


def _sync(app: App) -> dict[str, object]:
    status = app.driver.status()
    metrics = app.driver.metrics()
    return {
        "db_last_sync_at": status.last_sync_at and int(status.last_sync_at),
        "db_sync_duration_ms": metrics.duration_ms,
        "db_sync_status": metrics.status,
        "db_sync_error_count": metrics.error_count or 0,
        "backend_cursor": app.cache.sync_state.cursor(),
        "sync_state": str(status.state),
        "sync_loaded": status.loaded,
        "sync_total": status.total,
        "sync_complete": status.complete,
        "sync_last_error": status.last_error,
        "sync_leader": status.leader,
        "sync_feed": status.feed,
        "sync_left_out": status.left_out,
        "needs_login": status.needs_login,
    }


def _writes(app: App) -> dict[str, object]:
    writes = app.cache.pending.all()
    rejected = sum(write.state is WriteState.REJECTED for write in writes)
    return {"pending_writes": len(writes) - rejected, "rejected_writes": rejected}


def _rss_bytes() -> int | None:
    """Return resident memory in bytes: now on Linux, the peak on other POSIX systems, else None."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return _peak_bytes()


def _peak_bytes() -> int | None:
    try:
        import resource  # noqa: PLC0415 - does not exist on Windows
    except ImportError:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _unit()


def _unit() -> int:
    """Return the unit of ``ru_maxrss``: bytes on macOS, kilobytes elsewhere."""
    return 1 if os.uname().sysname == "Darwin" else 1024
