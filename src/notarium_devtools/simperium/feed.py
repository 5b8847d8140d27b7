"""Format changes as ``GET /changes`` answers them, plain or as a busy service may send them.

Pure: it turns changes into JSON values and applies the allowed distortions (repeated, reordered,
aggregated entries). A reader that follows the rules must survive every one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from notarium_devtools.simperium.jsondiff import object_difference
from notarium_devtools.simperium.store import Change


@dataclass(frozen=True, slots=True)
class Distortions:
    """Hold what the feed does to its entries; the default is nothing."""

    aggregate: bool = False
    """All changes of one object become one entry that spans several versions."""
    duplicate: bool = False
    """Every entry comes twice."""
    reorder: bool = False
    """All entries but the last come in reverse order."""


def feed_entries(changes: Sequence[Change], distortions: Distortions) -> list[dict[str, Any]]:
    """Return the JSON array of a feed answer. The last entry always carries the newest cv."""
    if distortions.aggregate:
        changes = _aggregated(changes)
    entries = [_entry(change) for change in changes]
    if distortions.duplicate:
        entries = [entry for entry in entries for _ in range(2)]
    if distortions.reorder:
        entries = entries[-2::-1] + entries[-1:]
    return entries


def _entry(change: Change) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "clientid": change.clientid,
        "cv": change.cv,
        "ev": change.end_version,
        "id": change.id,
        "o": "-" if change.after is None else "M",
        "ccids": list(change.ccids),
    }
    if change.before is not None:
        entry["sv"] = change.start_version
    if change.after is not None:
        entry["v"] = object_difference(change.before or {}, change.after)
    return entry


def _aggregated(changes: Sequence[Change]) -> list[Change]:
    spans: dict[tuple[str, str], Change] = {}
    births: dict[str, str] = {}
    for change in changes:
        if change.before is None:
            # Made anew after a removal: its version count may have begun again.
            births[change.id] = change.cv
        life = (change.id, births.get(change.id, ""))
        # Popped and put back, so that a span stands where its last change stood.
        earlier = spans.pop(life, None)
        spans[life] = change if earlier is None else _span(earlier, change)
    return list(spans.values())


def _span(first: Change, last: Change) -> Change:
    return replace(
        last,
        before=first.before,
        start_version=first.start_version,
        ccids=first.ccids + last.ccids,
    )
