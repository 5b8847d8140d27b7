"""A revision as the values of its rows in ``notes`` and ``note_base``. Pure."""

from __future__ import annotations

import json
import math

from mcp_notarium.cache.raw import without_text
from mcp_notarium.notes.lines import total_lines
from mcp_notarium.notes.note import Revision
from mcp_notarium.notes.preview import preview
from mcp_notarium.query.fold import supplement

Value = str | int | float | None

_AS_JSON = json.JSONEncoder(ensure_ascii=False).encode
_LATEST = 253_402_300_799  # the end of the year 9999: what a calendar date can still show


def note_columns(revision: Revision) -> tuple[Value, ...]:
    """The columns of ``notes`` in the order of the statements there, without key and version."""
    content = revision.content
    return (
        revision.id,
        revision.server_version,
        _seconds(revision.created_at),
        _seconds(revision.modified_at),
        int(content.trash),
        int(revision.pinned),
        int(revision.markdown),
        total_lines(content.text),
        content.digest(),
        _AS_JSON(content.tags),
        preview(content.text),
        supplement(content.text),
        content.text,
    )


def base_columns(pk: int, revision: Revision) -> tuple[Value, ...]:
    """The columns of ``note_base``."""
    stored = without_text(revision.raw, revision.content.text)
    return (
        pk,
        revision.etag,
        _number(revision.created_at),
        _number(revision.modified_at),
        stored.text_at,
        int(stored.escaped),
        stored.rest,
    )


def _number(value: float) -> float:
    return 0.0 if math.isnan(value) else float(value)


def _seconds(value: float) -> int:
    return math.floor(min(max(_number(value), -_LATEST), _LATEST))
