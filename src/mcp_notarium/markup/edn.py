"""Read EDN, the notation of Clojure's settings, as plain values. Pure.

Maps become dictionaries, whose keywords keep their colon (``":journals-directory"``); lists, vectors and sets become lists;
symbols, numbers and characters stay as they are written. Of a tagged value the tag is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_DEEPEST = 32
_TOKEN = re.compile(
    r"""(?P<blank>[\s,]+|;[^\n]*)|(?P<text>\#?"(?:[^"\\]|\\.)*+")|(?P<drop>\#_)|(?P<open>\#?[{(\[])|(?P<close>[)}\]])"""
    r"""|(?P<tag>\#[\w.?/-]+)|(?P<word>\\.[\w]*|[^\s,;"(){}\[\]]+)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r"}
_CLOSING = {"{": "}", "(": ")", "[": "]"}


class NotEdn(ValueError):
    """The text is no EDN that can be read."""


def read_edn(text: str) -> Any:
    """Return the first value of a text; None if there is none. Raises ``NotEdn``."""
    tokens = _tokens(text)
    return next(_values(tokens, None, 0), None)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise NotEdn("a text that does not end")
        at = found.end()
        if (kind := found.lastgroup) != "blank":
            yield str(kind), found[0]


def _values(tokens: Iterator[tuple[str, str]], closing: str | None, depth: int) -> Iterator[Any]:
    """Yield the values up to the closing bracket."""
    if depth > _DEEPEST:
        raise NotEdn("nested too deep")
    dropped = 0
    for kind, token in tokens:
        if kind == "drop":
            dropped += 1
            continue
        if kind == "tag":
            continue
        if kind == "close":
            if token != closing:
                raise NotEdn("brackets that do not fit")
            return
        value = _value(kind, token, tokens, depth)
        if dropped:
            dropped -= 1
        else:
            yield value
    if closing is not None:
        raise NotEdn("a bracket that is not closed")


def _value(kind: str, token: str, tokens: Iterator[tuple[str, str]], depth: int) -> Any:
    if kind == "text":
        return _ESCAPED.sub(_unescaped, token.removeprefix("#")[1:-1])
    if kind != "open":
        return token
    within = list(_values(tokens, _CLOSING[token[-1]], depth + 1))
    return (
        within
        if not token.startswith("{")
        else {
            key: value
            for key, value in zip(within[::2], within[1::2], strict=False)
            if isinstance(key, str)
        }
    )


def _unescaped(found: re.Match[str]) -> str:
    name = found[1]
    return chr(int(name[1:], 16)) if len(name) > 1 else _CHARACTERS.get(name, name)
