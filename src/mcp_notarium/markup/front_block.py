"""Find the block of properties at the top of a note, without reading it. Pure."""

from __future__ import annotations

import re

_YAML = re.compile(r"\ufeff?---[ \t]*\r?\n(?P<inner>(?:.*\n)*?)---[ \t]*(?:\r?\n|\Z)")
_TOML = re.compile(r"\ufeff?\+\+\+[ \t]*\r?\n(?P<inner>(?:.*\n)*?)\+\+\+[ \t]*(?:\r?\n|\Z)")
_OPENED = re.compile(
    r"\ufeff?(?:---[ \t]*\r?\n(?:[ \t]*(?:#.*)?\r?\n)*[^\s:#>*+`|\[({-][^:\n]*:(?:[ \t]|\r?\n|\Z)|\+\+\+[ \t]*\r?\n)"
)
"""The beginning of a block: ``---`` and a key, for ``---`` alone is a line across the page; or ``+++``."""
STARTS = ("---", "\ufeff---", "+++", "\ufeff+++")
"""Beginnings of a text with a block; a text may begin so without one."""


def find_block(text: str) -> tuple[int, int, int] | None:
    """Return where the block's YAML starts and ends, and where the note's own text begins."""
    if not text.startswith(STARTS[:2]):
        return None
    found = _YAML.match(text)
    return (*found.span("inner"), found.end()) if found else None


def is_foreign(text: str) -> bool:
    """Tell whether a note begins with a block that no YAML can be put into: TOML, or one that is never closed."""
    return looks_like_block(text) and find_block(text) is None


def looks_like_block(text: str) -> bool:
    """Tell whether a text begins as one with a block of YAML or TOML does, closed or not, also where it may be two lines across."""
    return text.startswith(STARTS) and bool(_OPENED.match(text))


def is_unclosed(text: str) -> bool:
    """Tell whether a block begins at the top of a note, and never ends."""
    return is_foreign(text) and _TOML.match(text) is None


def text_start(text: str) -> int:
    """Return where the note's own text begins, below a block of YAML or TOML."""
    if not text.startswith(STARTS):
        return 0
    found = _YAML.match(text) or _TOML.match(text)
    return found.end() if found else 0


def shown_part(text: str) -> str:
    """Return the text below the block; if there is none, the lines of the block."""
    start = text_start(text)
    if not start or text[start:].strip():
        return text[start:]
    found = _YAML.match(text) or _TOML.match(text)
    return found["inner"] if found else text
