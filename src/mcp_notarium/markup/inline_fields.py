"""Read and change the fields within a note's text: Dataview's inline fields, which are Logseq's properties as well. Pure.

``key:: value`` fills a line, or an item of a list; ``[key:: value]`` and ``(key:: value)`` stand anywhere. What stands in code or
in a task is no property of the note. A list has commas between texts in quotes, links, numbers, dates, true and false; any other
value with commas is one text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from mcp_notarium.domain.lines import newline_of
from mcp_notarium.markup.code_parts import lines_outside_code, without_code
from mcp_notarium.markup.front_block import text_start
from mcp_notarium.markup.property_values import (
    LONGEST_VALUE,
    MOST_ITEMS,
    OtherValue,
    PropertyValue,
    UnfitProperty,
    key_of,
    read_plain,
    read_quoted,
    write_scalar,
)

MOST = 2_000
"""Fields of a text that are looked at."""
_MARK = re.compile(r"::(?=[ \t\r\n]|\Z)")
_BEFORE = re.compile(
    r"\ufeff?[ \t>]*(?P<item>(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?(?P<task>\[[^\n]\][ \t])?"
)
_LINE = re.compile(
    r"[*_~]{0,3}(?P<key>[^\W_][\w \t/-]{0,199}?)[ \t]*[*_~]{0,3}::(?=[ \t]|\Z)[ \t]*"
)
_BRACKET = re.compile(r"(?<!\[)[\[(](?P<key>[^\[\](){}:|#\n]{1,200})::[ \t]+")
_ATOM = re.compile(r'[ \t]*(?:"((?:[^"\\]|\\.)*)"|(\[\[[^\[\]]*\]\])|([^\s,"\[\]]+))[ \t]*(,|\Z)')
_ESCAPED = re.compile(r'\\(["\\])')
_LINK = re.compile(r"\[\[[^\[\]\n]*\]\]")
_CLOSED_BY = {"[": "]", "(": ")"}


_LONGEST_INDENT = 1_000


@dataclass(frozen=True, slots=True)
class InlineField:
    """Hold a field and its places in the text: all of it, and its value from ``value_start`` to ``value_end``."""

    key: str
    value: PropertyValue
    start: int
    end: int
    value_start: int
    value_end: int
    bracketed: bool
    """It stands within a line; else it fills the line, behind the mark of an ``item`` if it has one."""
    item: bool


def find_fields(text: str) -> Iterator[InlineField]:
    """Yield the fields of a text, in order."""
    if "::" not in text:
        return
    for start, end in lines_outside_code(text, _MARK, text_start(text)):
        yield from _fields_of(text[start:end].removesuffix("\r"), start)


def _fields_of(line: str, offset: int) -> Iterator[InlineField]:
    shown = without_code(line) if "`" in line else line
    before = _BEFORE.match(shown)
    if before is None or before["task"]:
        return
    found = False
    for one in _bracketed(shown, line, offset):
        found = True
        yield one
    field = None if found else _LINE.match(shown, before.end())
    if field is not None and field["key"].strip():
        start, end = field.end(), len(line.rstrip())
        yield _field(
            field,
            line,
            offset,
            (before.end(), max(end, start)),
            (start, max(end, start)),
            item=before["item"] is not None,
        )


def _bracketed(shown: str, line: str, offset: int) -> Iterator[InlineField]:
    at, closings = 0, None
    while field := _BRACKET.search(shown, at):
        at = field.start() + 1
        if closings is None:
            closings = _closings(shown)
        close = closings.get(field.start())
        if close is None or close < field.end() or not field["key"].strip():
            continue
        end = field.end() + len(line[field.end() : close].rstrip())
        yield _field(field, line, offset, (field.start(), close + 1), (field.end(), end))
        at = close + 1


def _field(
    found: re.Match[str],
    line: str,
    offset: int,
    whole: tuple[int, int],
    value: tuple[int, int],
    *,
    item: bool | None = None,
) -> InlineField:
    return InlineField(
        found["key"].strip(),
        read_inline(line[value[0] : value[1]]),
        whole[0] + offset,
        whole[1] + offset,
        value[0] + offset,
        value[1] + offset,
        bracketed=item is None,
        item=bool(item),
    )


def _closings(line: str) -> dict[int, int]:
    """Return which bracket closes which; one behind a backslash does neither."""
    found: dict[int, int] = {}
    opened: dict[str, list[int]] = {"]": [], ")": []}
    for one in re.finditer(r"\\.|[\[\]()]", line):
        if one[0] in _CLOSED_BY:
            opened[_CLOSED_BY[one[0]]].append(one.start())
        elif one[0] in opened and opened[one[0]]:
            found[opened[one[0]].pop()] = one.start()
    return found


def read_inline(source: str) -> PropertyValue:
    """Return the value that a field's words have."""
    if len(source) > LONGEST_VALUE:
        return OtherValue(source[:LONGEST_VALUE])
    atoms = _atoms(source)
    if len(atoms) > 1:
        return tuple(atoms) if len(atoms) <= MOST_ITEMS else OtherValue(source)
    if atoms and source.startswith('"'):
        return read_quoted(atoms[0])
    return read_plain(source)


def _atoms(source: str) -> list[str]:
    """Return the texts of a list; none if any part is neither quoted nor a link, a number, a date, true or false."""
    found, at, more = [], 0, ","
    while more == ",":
        atom = _ATOM.match(source, at)
        if atom is None:
            return []
        quoted, link, plain, more = atom.groups()
        if plain is not None and (plain == "~" or isinstance(read_plain(plain), str | None)):
            return []
        found.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else link or plain)
        at = atom.end()
    return found


def write_inline(key: str, value: PropertyValue) -> str:
    """Return a value as a field has it. A list of one is its one value. Raises ``UnfitProperty``."""
    match value:
        case None | ():
            return ""
        case tuple() if len(value) == 1:
            return write_inline(key, value[0])
        case tuple():
            written = ", ".join(map(_atom, value))
        case str():
            written = (
                value if value and read_inline(value) == read_quoted(value) else _quoted(value)
            )
        case OtherValue():
            raise UnfitProperty(f"The value of `{key}` is none that can be set.")
        case _:
            written = write_scalar(value)
    if re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ufeff]", written):
        raise UnfitProperty(f"`{key}` stands in the note's text: its value is one line.")
    return written


def _atom(text: str) -> str:
    return text if _LINK.fullmatch(text) or _atoms(text) == [text] else _quoted(text)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def joined(values: list[PropertyValue]) -> PropertyValue:
    """Return the value of a key that stands in a text several times: a list of all."""
    if len(values) == 1:
        return values[0]
    texts: list[str] = []
    for one in values:
        match one:
            case tuple():
                texts += one
            case str():
                texts.append(one)
            case OtherValue():
                texts.append(one.source)
            case None:
                pass
            case _:
                texts.append(write_scalar(one))
    if len(texts) > MOST_ITEMS or sum(map(len, texts)) > LONGEST_VALUE:
        return OtherValue(", ".join(texts)[:LONGEST_VALUE])
    return tuple(texts)


def fields_named(text: str, name: str, *, most: int | None = MOST) -> list[InlineField]:
    """Return the fields of this name, among the first ``most`` of the text."""
    key = key_of(name)
    return [one for one in islice(find_fields(text), most) if key_of(one.key) == key]


def set_fields(text: str, name: str, value: PropertyValue) -> str:
    """Return the text with another value in the one field of this name; or in each, if the list has as many items.

    Raises ``UnfitProperty`` if there are more or fewer, or a field cannot have the value.
    """
    fields = fields_named(text, name)
    values: tuple[PropertyValue, ...] = (value,)
    if len(fields) > 1:
        if not isinstance(value, tuple) or len(value) != len(fields):
            raise UnfitProperty(
                f"`{name}` stands in the note's text {len(fields)} times: give a list of as many values."
            )
        values = value
    changed, expected = text, [one.value for one in fields]
    for number, field in reversed([*enumerate(fields)]):
        written = write_inline(name, values[number])
        if read_inline(written) == field.value:
            continue
        expected[number] = read_inline(written)
        blank = "" if text[field.value_start - 1] in " \t" else " "
        put = blank + written if written else ""
        changed = changed[: field.value_start] + put + changed[field.value_end :]
    _require(changed, name, expected)
    return changed


def remove_fields(text: str, name: str) -> str:
    """Return the text without the fields of this name; a line that holds nothing else goes, too."""
    while fields := fields_named(
        text, name, most=None
    ):  # a line may be a field once those within it are gone
        kept, at = [], 0
        for field in fields:
            start, end = _span(text, field)
            kept.append(text[at:start])
            at = max(at, end)
        text = "".join((*kept, text[at:]))
    return text


def add_below_first(text: str, name: str, value: PropertyValue) -> str | None:
    """Return the text with a field below those that it begins with, as a page of Logseq has them; None if it has none.

    Raises ``UnfitProperty`` for a name or a value that no field can have.
    """
    at = text.startswith("\ufeff")
    begin = int(at)
    for field in find_fields(text):
        if field.start != begin or field.bracketed or field.item:
            break
        begin = text.find("\n", field.end) + 1
        if not begin:
            begin = len(text)
            break
    if begin == int(at):
        return None
    line = f"{name}:: {write_inline(name, value)}".rstrip()
    end = newline_of(text)
    put = line + end if text[:begin].endswith("\n") else end + line
    changed = text[:begin] + put + text[begin:]
    _require(changed, name, [read_inline(write_inline(name, value))])
    return changed


def _require(text: str, name: str, expected: list[PropertyValue]) -> None:
    """Raise ``UnfitProperty`` unless the fields of this name are read with these values."""
    if [one.value for one in fields_named(text, name)] != expected:
        raise UnfitProperty(
            f"`{name}` would stand in the note's text, which cannot hold this name or this value."
        )


def _span(text: str, field: InlineField) -> tuple[int, int]:
    """Return what goes with a field: its line, or one blank next to it."""
    begin = text.rfind("\n", 0, field.start) + 1
    stop = text.find("\n", field.end) + 1 or len(text)
    if not field.bracketed:
        if field.item and _indent(text[stop : stop + _LONGEST_INDENT]) > _indent(text[begin:stop]):
            return field.start, field.end  # its children need the item
        return begin, stop
    before, behind = text[begin : field.start], text[field.end : stop]
    if before.endswith(" "):
        return field.start - 1, field.end
    return field.start, field.end + behind.startswith(" ")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t>"))
