"""Decode an answer's bytes to JSON values, within bounds, and encode JSON values. Pure.

A hostile or broken answer raises ``StoreProtocolError``, never another exception and never a message
that quotes it.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from mcp_notarium.errors import StoreProtocolError

DEEPEST = 64
MOST_VALUES = 500_000
"""More than a page of a thousand notes with hundreds of tags each; as Python objects, some 50 MB."""

_NESTED = (dict, list)  # ``dict | list`` would be made again for each value
# Made once: json.dumps makes an encoder at each call, for every note of a page.
_READABLE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ESCAPED = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


class AnswerTooLarge(StoreProtocolError):
    """Report an answer larger than can be taken; a smaller part of it may be requested."""


def parse_json(body: bytes, *, deepest: int | None = DEEPEST, most: int = MOST_VALUES) -> Any:
    """Parse the JSON value in ``body`` (UTF-8); at most ``deepest`` levels, finite numbers only.

    ``deepest`` None leaves that to the caller, who looks at each note by itself, so that one does
    not spoil the page of the others. Raises ``StoreProtocolError``; and ``AnswerTooLarge`` for
    what a single note in it may be to blame for: too many values, too deep to be read at all, a name twice
    in one object, or a number that is none or has thousands of digits.
    """
    if _values_in(body, most) > most:
        raise AnswerTooLarge("the note store answered more values than can be taken at once")
    try:
        value = _DECODER.decode(body.decode())
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise StoreProtocolError("the note store answered something that is not JSON") from None
    except (ValueError, RecursionError):
        raise AnswerTooLarge("the note store answered a value that cannot be taken") from None
    if deepest is not None and deeper_than(value, deepest):  # defence: json-depth
        raise StoreProtocolError("the note store answered JSON that is nested too deeply")
    return value


def read_text(body: bytes, name: str) -> str:
    """Return a text by its name in the JSON object of an answer; '' if there is none."""
    try:
        answer = parse_json(body)
    except StoreProtocolError:
        return ""
    found = answer.get(name) if isinstance(answer, dict) else None
    return found if isinstance(found, str) else ""


def to_json(value: Any) -> bytes:
    """Encode compact JSON in UTF-8; lone surrogates become escapes."""
    try:
        return _READABLE.encode(value).encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(value).encode()


def _values_in(body: bytes, most: int) -> int:
    """Count an upper bound of the values in the JSON text without making any of them.

    A value of two bytes can take a hundred in memory. What stands in texts is left out; that takes no
    longer than reading the bytes a few times, whatever they are.
    """
    if (at_most := _separators_in(body)) <= most:
        return at_most
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = unescaped.count(b'"')
    if quotes > 4 * most:
        return quotes // 4
    return _separators_in(b"".join(unescaped.split(b'"')[::2]))


def _separators_in(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _without_repeats(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) != len(members):
        raise ValueError("a name twice in one object")
    return value


def _refuse(_name: str) -> NoReturn:
    raise ValueError("not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError("not a finite number")
    return number


# Made once, as the encoders.
_DECODER = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_without_repeats
)


def deeper_than(value: Any, levels: int) -> bool:
    """Tell whether lists and objects nest deeper than ``levels``; level by level, no recursion."""
    level = [value] if isinstance(value, _NESTED) else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, _NESTED)
        ]
        if not level:
            return False
    return True
