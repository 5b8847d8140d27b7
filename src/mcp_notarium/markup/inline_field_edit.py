"""Set and remove fields within a note's text (``key:: value``), and change nothing else. Pure."""

from __future__ import annotations

from itertools import islice

from mcp_notarium.domain.lines import newline_of
from mcp_notarium.markup.inline_fields import (
    MOST,
    InlineField,
    find_fields,
    read_inline,
    write_inline,
)
from mcp_notarium.markup.property_values import PropertyValue, UnfitProperty, key_of

_LONGEST_INDENT = 1_000


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
    """Return what goes with a field: its line, or one blank beside it."""
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
