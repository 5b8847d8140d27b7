"""Keep one event on one line: escape control, line-breaking, bidirectional and invisible characters.

Only what could forge a line, hide text or steer a terminal; letters of every script stay.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_BUT_NEWLINE_AND_TAB = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_LAST_OF_PLANE_ZERO = 0xFFFF


def one_line(text: str) -> str:
    """Return ``text`` with every unsafe character, newlines included, escaped by its code."""
    return _UNSAFE.sub(_escaped, text)


def several_lines(text: str) -> str:
    """Return ``text`` escaped as by :func:`one_line`, but with newlines and tabs: for a person."""
    return _UNSAFE_BUT_NEWLINE_AND_TAB.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\u{code:04x}" if code <= _LAST_OF_PLANE_ZERO else f"\\U{code:08x}"
