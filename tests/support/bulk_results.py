"""Read what an answer says of each note of many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rows_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each: its ``id``, or its ``name``, with status and reason."""
    return [
        {kind: one} | {key: row[key] for key in ("status", "reason") if key in row}
        for row in answer.get("results", ())
        for kind in ("id", "name")
        for one in row.get(f"{kind}s", ())
    ]
