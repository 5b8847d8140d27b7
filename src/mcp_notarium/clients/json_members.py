"""Add and remove one member of an object in a JSON file that people edit; every other byte stays.

The files of editors have comments and commas before a closing bracket, which no library for Python keeps. So
the text is cut at tokens, and every result is read again: it must differ in that one member only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r'(?P<space>[\s\ufeff]+)|(?P<comment>//[^\r\n]*|/\*.*?\*/)|(?P<mark>[{}\[\]:,])'
    r'|(?P<value>"(?:[^"\\\n]|\\.)*"|[^\s"{}\[\]:,/]+)',
    re.DOTALL,
)  # fmt: skip
_INDENT = "  "


class Unreadable(ValueError):
    """Report that the text is no JSON object that could be edited."""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    start: int
    end: int
    value: int
    """Index of the value's first token."""


@dataclass(frozen=True, slots=True)
class _Object:
    """Hold where an object's brackets are, and its members."""

    opening: int
    closing: int
    members: tuple[_Member, ...]
    comma: int | None
    """Index of a comma behind the last member."""


def read(text: str) -> dict[str, Any]:
    """Return the object, {} for an empty text. Raises ``Unreadable``."""
    found = [one for one in _tokens(text) if one.kind in {"mark", "value"}]
    kept = [
        one.text
        for one, after in zip_longest(found, found[1:])
        if not (one.text == "," and after is not None and after.text in {"}", "]"})
    ]
    try:
        value = json.loads(" ".join(kept) or "{}")
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unreadable("it holds no object")
    return value


def add(text: str, key: str, name: str, value: Mapping[str, Any]) -> str:
    """Return the text with the member ``name`` in the object ``key``, which is made if it is missing."""
    before = read(text)
    inner = before.get(key, {})
    if not isinstance(inner, dict) or name in inner:
        raise Unreadable(f"`{key}` is no object, or has `{name}` already")
    if not any(one.kind in {"mark", "value"} for one in _tokens(text)):
        text = "\n".join(filter(None, (text.rstrip(), "{}\n")))
    if key in before:
        text = _insert(text, [key], name, value)
    else:
        text = _insert(text, [], key, {name: value})
    return _proven(text, before | {key: inner | {name: dict(value)}})


def remove(text: str, key: str, name: str, *, with_object: bool) -> str:
    """Return the text without that member. ``with_object``: an object that is empty then goes as well."""
    before = read(text)
    inner = dict(before[key])
    del inner[name]
    if with_object and not inner:
        del before[key]
        return _proven(_delete(text, [], key), before)
    return _proven(_delete(text, [key], name), before | {key: inner})


def _proven(text: str, wanted: dict[str, Any]) -> str:
    if read(text) != wanted:
        raise Unreadable("it is written in a way that cannot be edited safely")
    return text


def _insert(text: str, path: list[str], name: str, value: Mapping[str, Any]) -> str:
    tokens = list(_tokens(text))
    found = _find(tokens, path)
    end = _line_end(text)
    outer, step = _indent_of(text, tokens[found.opening].start), _step(text, tokens)
    own = outer + step
    lines = "\n" in text[tokens[found.opening].end : tokens[found.closing].start]
    if found.members and lines:
        own = _indent_of(text, found.members[0].start)
    member = f"{json.dumps(name)}: {json.dumps(value, indent=step, ensure_ascii=False)}"
    member = member.replace("\n", end + own)
    last = _last_kept(tokens, found)
    tail = text[last.end :] if lines else end + outer + text[tokens[found.closing].start :]
    comma = "," if found.comma is not None else ""
    text = text[: last.end] + end + own + member + comma + tail
    if found.members and not comma:
        at = found.members[-1].end
        text = text[:at] + "," + text[at:]
    return text


def _delete(text: str, path: list[str], name: str) -> str:
    tokens = list(_tokens(text))
    found = _find(tokens, path)
    index = max(i for i, one in enumerate(found.members) if one.name == name)
    member = found.members[index]
    begin = max(one.end for one in tokens if one.kind != "space" and one.end <= member.start)
    commas = [one for one in tokens if one.text == "," and one.kind == "mark"]
    behind = next((one for one in commas if one.start >= member.end), None)
    limit = found.members[index + 1].start if index + 1 < len(found.members) else None
    limit = tokens[found.closing].start if limit is None else limit
    if behind is not None and behind.start < limit:
        return _collapse(text[:begin] + text[behind.end :], path)
    if index:
        before = next(one for one in commas if one.start >= found.members[index - 1].end)
        between = text[before.end : begin] if begin > before.end else ""
        return text[: before.start] + between + text[member.end :]
    return _collapse(text[:begin] + text[member.end :], path)


def _collapse(text: str, path: list[str]) -> str:
    """Write an object that holds only blanks as ``{}``."""
    tokens = list(_tokens(text))
    found = _find(tokens, path)
    start, end = tokens[found.opening].end, tokens[found.closing].start
    return text[:start] + text[end:] if not text[start:end].strip() else text


def _find(tokens: list[_Token], path: list[str]) -> _Object:
    at = next(i for i, one in enumerate(tokens) if one.kind == "mark")
    found = _object_at(tokens, at)
    for key in path:
        value = next(one.value for one in reversed(found.members) if one.name == key)
        found = _object_at(tokens, value)
    return found


def _object_at(tokens: list[_Token], opening: int) -> _Object:
    members: list[_Member] = []
    comma: int | None = None
    at = _next(tokens, opening)
    while tokens[at].text != "}":
        if tokens[at].text == ",":
            comma, at = at, _next(tokens, at)
            continue
        key, value = at, _next(tokens, _next(tokens, at))
        last = _end_of_value(tokens, value)
        name = json.loads(tokens[key].text)
        members.append(_Member(name, tokens[key].start, tokens[last].end, value))
        comma, at = None, _next(tokens, last)
    return _Object(opening, at, tuple(members), comma)


def _end_of_value(tokens: list[_Token], at: int) -> int:
    depth = 0
    while True:
        mark = tokens[at].text if tokens[at].kind == "mark" else ""
        depth += (mark in {"{", "["}) - (mark in {"}", "]"})
        if depth == 0:
            return at
        at = _next(tokens, at)


def _next(tokens: list[_Token], at: int) -> int:
    return next(
        i for i in range(at + 1, len(tokens)) if tokens[i].kind in {"mark", "value"}
    )  # fmt: skip


def _last_kept(tokens: list[_Token], found: _Object) -> _Token:
    """Return the last token before the closing bracket that is no blank; a comment counts."""
    return next(one for one in reversed(tokens[: found.closing]) if one.kind != "space")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable("it is not JSON")
        yield _Token(match.lastgroup or "", match[0], match.start(), match.end())
        at = match.end()


def _indent_of(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _step(text: str, tokens: list[_Token]) -> str:
    """Return by how much the file indents a member."""
    members = _find(tokens, []).members
    return (_indent_of(text, members[0].start) if members else "") or _INDENT


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
