"""The numbers of ``manage get_stats``: program, cache, sync. No note text, no path, no secret."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from mcp_notarium import __version__
from mcp_notarium.domain.pending_write import WriteState
from mcp_notarium.storage import driver
from mcp_notarium.tools.memory_usage import rss_bytes
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
"""They move with hidden notes, too."""
_OF_A_PART = ("db_total_notes", "db_active_notes", "db_trashed_notes", "sync_loaded", "sync_total")
"""While pages come in, how much of a page can be shown would tell how much cannot."""


def stats(app: App) -> StatsAnswer:
    """Everything at once, from the cache; asks the note service nothing.

    Where rules hide notes, numbers are left out that would tell of those.
    """
    numbers = _program(app) | _cache(app) | _sync(app) | _writes(app)
    if app.policy.visibility.hides:
        numbers |= dict.fromkeys(_OF_THE_WHOLE_ACCOUNT)
        if not app.driver.status().complete:
            numbers |= dict.fromkeys(_OF_A_PART)
    return StatsAnswer.model_validate(numbers, strict=False)


def _program(app: App) -> dict[str, object]:
    rss = rss_bytes()
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
