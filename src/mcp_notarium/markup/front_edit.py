"""Set and remove properties, and tags, in the YAML block at the top of a note, and change nothing else. Pure.

Only the value's own span is written: comments, quotes, order, anchors and all other keys stay as they are. A list keeps its form,
and those of its items that stay keep theirs; a text stays in its quotes, or in lines below its ``|``. After each change the block is read again: a change of anything else is refused.

Written words stay plain where YAML 1.1 and 1.2 both take them for text; else they are in double quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from types import MappingProxyType

import yaml

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import LF, newline_of
from mcp_notarium.markup.front_block import STARTS, is_foreign
from mcp_notarium.markup.front_entries import Entry, FrontBlock, read_block
from mcp_notarium.markup.front_matter import TAG_KEYS, NotUnderstood, read_lists, tags_in
from mcp_notarium.markup.property_values import (
    OtherValue,
    PropertyValue,
    RepeatedProperty,
    UnfitProperty,
    key_of,
    read_plain,
    write_scalar,
)

_BOM = "\ufeff"
_MOST_TIMES = 100
"""A tag that more items name is not removed: the block is read again for each."""
_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)+")
_LITERAL = re.compile(r"\|[+-]?(?=[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*\r?\n)*(?P<indent> +))")
_DASH = re.compile(r" *-[ \t]*")


_UNPRINTABLE = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"\\\\]')
_NOT_PLAIN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|:(?:\s|\Z)|\s#|\A(?:---|\.\.\.)"
)
_NOT_SINGLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_QUOTES = ("'", '"')
_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`=<")
_IN_FLOW = re.compile(r"[,\[\]{}:?]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_RESOLVER = yaml.SafeLoader("")
_TEXT = "tag:yaml.org,2002:str"


def set_in_block(text: str, name: str, value: PropertyValue) -> str:
    """Return the text with a property set in its block; a note without a block gets one.

    Raises ``NotUnderstood``, and ``UnfitProperty`` for an ``OtherValue``, or a value that other ones refer to.
    """
    block = read_block(text)
    if block is None:
        if is_foreign(text):
            raise NotUnderstood
        return _checked([_with_block(text, name, value)], text, FrontBlock(0, 0, 0), name, value)
    _require_single(text, block, name)
    entry = block.find(name)
    if entry is None:
        return _checked([_add(text, block, name, value)], text, block, name, value)
    return _set(text, block, entry, value)


def _set(text: str, block: FrontBlock, entry: Entry, value: PropertyValue) -> str:
    """Return the text with another value of an entry. Raises as ``set_in_block``."""
    name = entry.name or ""
    if _is_same(entry.value, value):
        return text
    if isinstance(entry.value, OtherValue):
        raise UnfitProperty(f"The value of `{name}` has parts: change it in the note's text.")
    _require_unshared(block, entry, name)
    ways = (
        _change_items(text, block, entry, value),
        _replace_literal(text, block, entry, value),
        _replace(text, block, entry, value),
    )
    return _checked([one for one in ways if one is not None], text, block, name, value, entry=entry)


def change_tags(
    text: str,
    *,
    added: Sequence[str],
    removed: Sequence[str],
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text with tags added to the block and removed from it, one by one; a note without a block gets one.

    ``replaced``: removed tags in whose place an added one comes, if they stand there. Raises ``NotUnderstood``.
    """
    left = [*added]
    try:
        for old, new in replaced.items():
            if (changed := _with_tag(text, tag_key(old), new)) != text:
                text = changed
                left.remove(new)
        for key in {tag_key(tag): None for tag in removed}:
            text = _without_tag(text, key)
        if left and (lists := read_lists(text)):
            names = [name for item in lists[0].items for name in tags_in(item)]
            held = lists[0].items if lists[0].listed else names
            return _set_tags(text, 0, (*held, *left))
        return set_in_block(text, "tags", tuple(left)) if left else text
    except UnfitProperty:
        raise NotUnderstood from None


def _without_tag(text: str, key: str) -> str:
    for _ in range(_MOST_TIMES):
        if (changed := _with_tag(text, key)) == text:
            return text
        text = changed
    raise NotUnderstood


def _with_tag(text: str, key: str, new: str = "") -> str:
    """Remove a tag from the first item that names it; ``new``: or put that in the place of the first that stands alone."""
    for number, one in enumerate(read_lists(text)):
        for at, item in enumerate(one.items):
            names = tags_in(item)
            left = [name for name in names if tag_key(name) != key]
            if left == names or (new and left):
                continue
            made = ", ".join(left) or new
            if made and not one.listed and isinstance(read_plain(made), str):
                return _set_tags(text, number, made)
            items = (*one.items[:at], *([made] if made else []), *one.items[at + 1 :])
            return _set_tags(text, number, items)
    return text


def _set_tags(text: str, number: int, value: PropertyValue) -> str:
    """Return the text with another value of the key for tags that has this number."""
    block = read_block(text)
    if block is None:
        raise NotUnderstood
    entries = [one for one in block.entries if (one.name or "").strip().casefold() in TAG_KEYS]
    return _set(text, block, entries[number], value)


def remove_from_block(text: str, name: str) -> str:
    """Return the text without a property in its block, and without the block if that holds nothing then.

    Raises as ``set_in_block``.
    """
    block = read_block(text)
    if block is not None:
        _require_single(text, block, name)
    while block is not None and (entry := block.find(name)) is not None:
        _require_unshared(block, entry, name)
        kept, body = [one for one in block.entries if one is not entry], text[block.body :]
        for changed in _removals(text, block, entry):
            if _are_same(_entries(changed, body), kept):
                text, block = changed, read_block(changed)
                break
        else:
            raise NotUnderstood
        empty = block is not None and text[block.start : block.end].strip() == "}" * block.flow
        if empty and not body.startswith(STARTS):  # else its first lines would become a block
            return _BOM * text.startswith(_BOM) + body
    return text


def _checked(
    ways: Sequence[str],
    text: str,
    block: FrontBlock,
    name: str,
    value: PropertyValue,
    *,
    entry: Entry | None = None,
) -> str:
    """Return the first text in which the property has the value, and all else is as before. Raises ``NotUnderstood``."""
    kept = [one for one in block.entries if one is not entry]
    at = len(kept) if entry is None else block.entries.index(entry)
    body = text[block.body :] if block.body else text.removeprefix(_BOM)
    for changed in ways:
        entries = _entries(changed, body)
        one = entries.pop(at) if at < len(entries) else None
        if one is None or one.name != (entry.name if entry else name):
            continue
        if _is_same(one.value, value) and _are_same(entries, kept):
            return changed
    raise NotUnderstood


def _entries(changed: str, body: str) -> list[Entry]:
    """Return the entries of a changed text; none if they cannot be read or the body is another one."""
    try:
        block = read_block(changed)
    except NotUnderstood:
        return []
    return list(block.entries) if block and changed[block.body :] == body else []


def _are_same(some: Sequence[Entry], others: Sequence[Entry]) -> bool:
    return [one.signature for one in some] == [one.signature for one in others]


def _is_same(one: PropertyValue, other: PropertyValue) -> bool:
    return type(one) is type(other) and one == other


def _require_unshared(block: FrontBlock, entry: Entry, name: str) -> None:
    others = (one for one in block.entries if one is not entry)
    if entry.anchors and any(entry.anchors & one.aliases for one in others):
        raise UnfitProperty(f"Other properties refer to the value of `{name}`.")


def _require_single(text: str, block: FrontBlock, name: str) -> None:
    """Raise ``RepeatedProperty`` for a key that stands twice: YAML forbids that, and apps read one or none of the values."""
    key = key_of(name)
    places = [(one.name, one.name_start) for one in block.entries if one.key == key]
    if len({spelled for spelled, _ in places}) < len(places):
        lines = ", ".join(str(text.count("\n", 0, start) + 1) for _, start in places)
        raise RepeatedProperty(f"`{name}` stands several times at the top: in lines {lines}.")


def _with_block(text: str, name: str, value: PropertyValue) -> str:
    mark, end = _BOM * text.startswith(_BOM), newline_of(text)
    return mark + end.join(("---", *_lines(name, value), "---", "")) + text[len(mark) :]


def _lines(name: str, value: PropertyValue) -> list[str]:
    key = write_text(name, flow=True)
    if isinstance(value, tuple) and value:
        return [f"{key}:", *(f"  - {write_text(one)}" for one in value)]
    return [f"{key}: {write_value(value)}".rstrip()]


def _add(text: str, block: FrontBlock, name: str, value: PropertyValue) -> str:
    if not block.flow:
        end, indent = newline_of(text), " " * block.column
        lines = "".join(indent + line + end for line in _lines(name, value))
        return splice(text, block.end, block.end, lines)
    put = f"{write_quoted(name)}: {write_value(value, flow=True)}"
    if not block.entries:
        return splice(text, block.start, block.start, put)
    at = _end(block.entries[-1])
    return splice(text, at, at, f", {put}")


def _replace(text: str, block: FrontBlock, entry: Entry, value: PropertyValue) -> str:
    """Put another value in the place of the whole old one."""
    if entry.colon is None:
        raise NotUnderstood
    behind, line_end = entry.colon + 1, _line_end(text, entry.colon)
    listed = isinstance(value, tuple) and value and not (block.flow or entry.is_flow)
    written = "" if listed else _written(entry, value, flow=block.flow)
    below = entry.start > line_end
    if block.flow or (written and not below):
        if entry.end > entry.start:
            return splice(text, entry.start, entry.end, written)
        return splice(text, behind, behind, f" {written}")
    last = _line_end(text, _end(entry))
    rest = text[behind:line_end] if below else text[_end(entry) : last]
    added = "".join(
        f"{newline_of(text)}{' ' * (block.column + 2)}- {write_text(one)}"
        for one in (value if listed and isinstance(value, tuple) else ())
    )
    return splice(text, behind, last, f" {written}".rstrip() + rest + added)


def _written(entry: Entry, value: PropertyValue, *, flow: bool) -> str:
    """Return a value in one line: a text is in the quotes of the old value, if that has any, and so is a date of a date."""
    style = _style((entry.events[0],))
    if style and isinstance(value, str):
        return write_styled(value, style, flow=flow)
    if style and isinstance(value, date) and isinstance(entry.value, date):
        return write_styled(write_scalar(value), style)
    return write_value(value, flow=flow)


def _style(events: Sequence[yaml.Event]) -> str | None:
    """Return the quotes in which all of these stand; None if there are several, or other forms."""
    styles = {one.style if isinstance(one, yaml.ScalarEvent) else None for one in events}
    style = styles.pop() if len(styles) == 1 else None
    return style if style in ("'", '"') else None


def _replace_literal(
    text: str, block: FrontBlock, entry: Entry, value: PropertyValue
) -> str | None:
    """Put several lines in the place of lines below a ``|``; None if the old or the new value is none such."""
    found = _LITERAL.match(text, entry.start)
    if block.flow or found is None or not isinstance(value, str) or LF not in value.rstrip(LF):
        return None
    rest = text[found.end() : _line_end(text, found.end())]
    chomping = "-" if not value.endswith(LF) else "+" if value.endswith(LF + LF) else ""
    lines = (found["indent"] + line if line else "" for line in value.rstrip(LF).split(LF))
    return splice(
        text, entry.start, entry.end, newline_of(text).join((f"|{chomping}{rest}", *lines))
    )


def _change_items(text: str, block: FrontBlock, entry: Entry, value: PropertyValue) -> str | None:
    """Change those items of a list that differ; None if that cannot be done one by one."""
    old = entry.value
    if not (entry.is_list and isinstance(old, tuple) and isinstance(value, tuple)):
        return None
    if not value and entry.is_flow:
        return None
    first = _shared(old, value)
    last = _shared(old[first:][::-1], value[first:][::-1])
    new = value[first : len(value) - last]
    style = '"' if block.flow else _style(entry.events[1:-1])
    kept = {one: text[start:end] for one, (start, end) in zip(old, entry.places, strict=True)}
    written = [kept.get(one) or write_styled(one, style, flow=entry.is_flow) for one in new]
    change = _change_flow if entry.is_flow else _change_lines
    return change(text, entry, first, last, written)


def _change_flow(text: str, entry: Entry, first: int, last: int, new: list[str]) -> str:
    """Put ``new`` in the place of the items behind the ``first`` ones and before the ``last`` ones."""
    places, put = entry.places, ", ".join(new)
    middle = places[first : len(places) - last]
    if len(middle) == len(new):
        return _put_each(text, middle, new)
    if middle and new:
        return splice(text, middle[0][0], middle[-1][1], put)
    if new and first:
        return splice(text, places[first - 1][1], places[first - 1][1], f", {put}")
    if new:
        at = places[0][0] if places else entry.start + 1
        return splice(text, at, at, f"{put}, " if places else put)
    if last:
        return splice(text, middle[0][0], places[len(places) - last][0], "")
    return splice(text, places[first - 1][1], middle[-1][1], "")


def _change_lines(text: str, entry: Entry, first: int, last: int, new: list[str]) -> str | None:
    """Do the same to a list with its items below each other, which has at least one."""
    places = entry.places
    middle = places[first : len(places) - last]
    if len(middle) == len(new):
        return _put_each(text, middle, new)
    starts = [text.rfind("\n", 0, start) + 1 for start, _ in places]
    dashes = [text[begin:start] for begin, (start, _) in zip(starts, places, strict=True)]
    if not all(map(_DASH.fullmatch, dashes)):
        return None
    dash = dashes[0] if dashes[0][-1] != "-" else f"{dashes[0]} "  # that of an empty item
    lines = "".join(dash + put + newline_of(text) for put in new)
    ends = [_next_line(text, end) for _, end in places]
    if len(middle) == len(places) and not new and entry.colon is not None:
        for begin, end in reversed([*zip(starts, ends, strict=True)]):
            text = splice(text, begin, end, "")  # comments between them stay
        return splice(text, entry.colon + 1, entry.colon + 1, " []")
    if middle:
        return splice(text, starts[first], ends[len(places) - last - 1], lines)
    at = ends[first - 1] if first else starts[0]
    return splice(text, at, at, lines)


def _put_each(text: str, places: Sequence[tuple[int, int]], new: Sequence[str]) -> str:
    for (start, end), put in reversed([*zip(places, new, strict=True)]):
        text = splice(text, start, end, put)
    return text


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many equal items both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _removals(text: str, block: FrontBlock, entry: Entry) -> Iterator[str]:
    """Yield the ways to remove an entry, the best first."""
    if not block.flow:
        start = text.rfind("\n", 0, entry.name_start) + 1
        end = _next_line(text, _end(entry))
        yield splice(text, start, end, "")
        blank = _BLANK_LINES.match(
            text, end
        )  # they would become part of a text above that keeps its last lines
        yield splice(text, start, blank.end() if blank else end, "")
        return
    at = block.entries.index(entry)
    if at + 1 < len(block.entries):
        yield splice(text, entry.name_start, block.entries[at + 1].name_start, "")
    else:
        yield splice(text, _end(block.entries[at - 1]) if at else entry.name_start, _end(entry), "")


def _end(entry: Entry) -> int:
    """Return where the value ends, or the colon or the name if there is none."""
    return max(entry.end, entry.name_end if entry.colon is None else entry.colon + 1)


def _line_end(text: str, at: int) -> int:
    end = text.index("\n", at)
    return end - (end > at and text[end - 1] == "\r")


def _next_line(text: str, at: int) -> int:
    return text.index("\n", at) + 1


def splice(text: str, start: int, end: int, put: str) -> str:
    """Return the text with ``put`` in place of what stands from ``start`` to ``end``."""
    return text[:start] + put + text[end:]


def write_text(text: str, *, flow: bool = False) -> str:
    """Return a text in YAML; ``flow``: within brackets."""
    return text if _is_plain(text, flow=flow) else write_quoted(text)


def write_styled(text: str, style: str | None, *, flow: bool = False) -> str:
    """Return a text in YAML, in the quotes of ``style`` if that is any."""
    if style == "'" and not _NOT_SINGLE.search(text):
        return "'" + text.replace("'", "''") + "'"
    return write_quoted(text) if style in _QUOTES else write_text(text, flow=flow)


def write_quoted(text: str) -> str:
    """Return a text in double quotes, in one line; also JSON reads it if no character is above U+FFFF or below a blank."""
    return f'"{_UNPRINTABLE.sub(lambda one: _escape(one[0]), text)}"'


def write_value(value: PropertyValue, *, flow: bool = False) -> str:
    """Return a value in one line; ``flow``: within brackets, where a text is always in quotes, as in JSON."""
    match value:
        case str():
            return write_quoted(value) if flow else write_text(value)
        case bool() | int() | float() | date():
            return write_scalar(value)
        case tuple():
            items = (write_quoted(one) if flow else write_text(one, flow=True) for one in value)
            return f"[{', '.join(items)}]"
        case _:
            return "null" if flow else ""


def _is_plain(text: str, *, flow: bool) -> bool:
    if not text or text != text.strip() or _NOT_PLAIN.search(text):
        return False
    if text[0] in _INDICATORS or (flow and _IN_FLOW.search(text)):
        return False
    if read_plain(text) != text:
        return False
    return bool(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == _TEXT)


def _escape(one: str) -> str:
    return _SHORT.get(one) or f"\\u{ord(one):04x}"
