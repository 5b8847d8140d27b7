"""Which facts a log event may carry, by name: the allow-list, and the names never shown.

Numbers, booleans and None pass under any name that is not a secret's. Text passes only under a
name listed here; a new one is added deliberately, after asking "can a note's text, title or tag,
or anything the user searched for, ever stand in it?" - if so it is not added, its length is logged
instead.
"""

from __future__ import annotations

import re

IDS = frozenset(
    {"id", "note_id", "write_id", "request_id", "etag", "base_etag", "vault", "owner_id", "cursor"}
)
"""Opaque identifiers: shown by their first characters, enough to find them again."""

WORDS = frozenset(
    {
        "event", "level", "timestamp", "logger",
        "action", "answer", "backend", "backup", "category", "cipher", "client", "component",
        "decision", "driver", "encryption", "errno", "error", "event_type", "file", "folder",
        "from_state", "function", "generation", "hint", "holder", "host", "kdf", "key_source",
        "kind", "level_name", "line", "mark", "message", "method", "mode", "module", "name",
        "notices", "operation", "origin", "outcome", "page", "path", "phase", "platform",
        "problem", "protocol", "reason", "role", "route", "rule", "setting", "signal", "slot",
        "source", "sqlite", "stage", "state", "status", "step", "subcategory", "table", "target",
        "task", "thread", "to_state", "tool", "tools", "transport", "variable", "verdict",
        "version", "versions", "warning", "where",
        "chain", "exception", "frames", "type", "cause", "context", "members", "template",
    }
)  # fmt: skip
"""Names whose values are the program's own words."""

_SECRET = re.compile(
    r"(?:^|[_\-. ])(?:pass(?:word|phrase|wd|code)?|pwd|pw|token|secret|authorization|cookie|key|"
    r"credential|salt|nonce|wrapped|pin|auth_code|login_code|dek|kek)s?$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret(name: str) -> bool:
    """Whether a value under this name is blotted whatever it is, numbers included."""
    return _SECRET.search(_CAMEL.sub("_", name).casefold()) is not None


def is_id(name: str) -> bool:
    """Whether the value under this name is an opaque identifier."""
    return name in IDS


def carries_text(name: str) -> bool:
    """Whether text may be shown under this name."""
    return name in WORDS or name in IDS
