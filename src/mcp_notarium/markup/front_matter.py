"""Find and read the YAML block at the top of a note, and change its tags in place. Pure.

Only the tags that change are rewritten. Comments, quotes, order, dates and all other keys stay as they are. YAML
is read as a stream of events, which expands no alias and does not recurse.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

import yaml

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import newline_of
from mcp_notarium.markup.front_block import find_block, is_foreign, is_unclosed

"""The beginning of a block: ``---`` and a key, for ``---`` alone is a line across the page; or ``+++``."""


LARGEST = 65_536
"""Characters. A longer block is not read."""
_DEEPEST = 50
_MOST_EVENTS = 10_000
_MOST_TIMES = 100
"""A tag that stands in the block more often is not removed: the block is read again for each."""
_KEYS = ("tags", "tag")
_ALIASES = ("aliases", "alias")
_CREATED = re.compile(
    r"""^(?P<key>created|date[ _]created|created[ _-]?at|creation[ _]date|date)[ \t]*:[ \t]*(?P<quote>["']?)"""
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+)?(Z| ?[+-][0-9]{2}:?[0-9]{2})?)(?P=quote)[ \t]*(#.*)?$",
    re.IGNORECASE | re.MULTILINE,
)
_SEPARATORS = re.compile(r"[,\s]+")
_PLAIN = re.compile(r"[^\W\d_][\w/-]*")
_NOT_TEXT = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotUnderstood(ValueError):
    """Report that the block is no mapping in YAML, or its tags are not in a form that is known."""


@dataclass(frozen=True, slots=True)
class Span:
    """Hold a value and where it stands in the note's text."""

    value: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TagList:
    """Hold the value of one key for tags, which stands behind the colon at ``colon``."""

    items: tuple[Span, ...]
    whole: Span
    colon: int
    flow: bool = False
    block: int | None = None
    """A list of one line each, with this many blanks before."""


def require_readable(text: str) -> None:
    """Raise ``NotUnderstood`` if the block is no mapping in YAML, or never closed."""
    if is_unclosed(text):
        raise NotUnderstood
    _read(text)


def read_tags(text: str) -> tuple[str, ...]:
    """Return the tags of the block, in their order. Raises ``NotUnderstood``."""
    block = find_block(text)
    if block is None:
        return ()
    source = text[block[0] : block[1]].lower()
    if "tag" not in source and "\\" not in source:  # a quoted key may spell it with escapes
        return ()
    return tuple(tag for one in _read(text) for item in one.items for tag in _tags_in(item.value))


def are_tags_plain(text: str) -> bool:
    """Tell whether ``read_tags`` gives the tags as they are written: one in each item, without ``#``, each once.

    One text that names them all, with commas or blanks, is plain. Raises ``NotUnderstood``.
    """
    lists = _read(text)
    tags = [tag for one in lists for item in one.items for tag in _tags_in(item.value)]
    parts = (
        [item.value]
        if one.flow or one.block is not None
        else _SEPARATORS.split(item.value.strip(", "))
        for one in lists
        for item in one.items
    )
    return [part for of in parts for part in of] == list(dict.fromkeys(tags))


def read_created(text: str) -> float | None:
    """Return when the block says that the note was made, in epoch seconds (UTC if it names no zone); None if nowhere.

    A key that says so goes before ``date``, which may mean the day that the note is about.
    """
    block = find_block(text)
    if block is None:
        return None
    source = text[block[0] : block[1]].replace("\r\n", "\n")
    stated = sorted(_CREATED.finditer(source), key=lambda one: one["key"].lower() == "date")
    for one in stated:
        with suppress(ValueError):
            day = datetime.fromisoformat(one["date"].replace(" +", "+").replace(" -", "-"))
            return (day if day.tzinfo else day.replace(tzinfo=UTC)).timestamp()
    return None


def read_aliases(text: str) -> tuple[str, ...]:
    """Return the other names of the note that the block gives; none if it cannot be read."""
    block = find_block(text)
    if block is None or "alias" not in text[block[0] : block[1]].lower():
        return ()
    try:
        lists = _read(text, _ALIASES)
    except NotUnderstood:
        return ()
    values = (
        item.value.split(",") if item.start == one.whole.start else [item.value]
        for one in lists
        for item in one.items
    )
    return tuple(filter(None, (name.strip() for names in values for name in names)))


def change_tags(
    text: str,
    *,
    added: Sequence[str],
    removed: Sequence[str],
    replaced: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text with tags added to the block and removed from it; a note without a block gets one.

    ``replaced``: removed tags in whose place an added one comes, if they stand there. Raises ``NotUnderstood``.
    """
    placed = set()
    for old, new in replaced.items():
        changed = _replace(text, tag_key(old), new)
        if changed is not None:
            text = changed
            placed.add(new)
    for key in {tag_key(tag) for tag in removed}:
        text = _remove(text, key)
    for tag in added:
        text = text if tag in placed else _add(text, tag)
    return text


def _replace(text: str, key: str, new: str) -> str | None:
    """Put a tag in the place of the first of this key that stands alone; None if there is none."""
    for one in _read(text):
        for item in one.items:
            if [key] == [*map(tag_key, _tags_in(item.value))]:
                return splice(text, item.start, item.end, _quoted(new))
    return None


def _remove(text: str, key: str) -> str:
    for _ in range(_MOST_TIMES):
        for one in _read(text):
            for number, item in enumerate(one.items):
                if key in map(tag_key, _tags_in(item.value)):
                    text = _without(text, one, number, key)
                    break
            else:
                continue
            break
        else:
            return text
    raise NotUnderstood


def _without(text: str, one: TagList, number: int, key: str) -> str:
    """Remove one item, or, of an item with several tags, this tag."""
    item = one.items[number]
    left = [tag for tag in _tags_in(item.value) if tag_key(tag) != key]
    if left:
        return splice(text, item.start, item.end, ", ".join(map(_quoted, left)))
    if one.block is not None:
        start = text.rfind("\n", 0, item.start) + 1
        text = splice(text, start, text.index("\n", item.end) + 1, "")
        return text if len(one.items) > 1 else splice(text, one.colon + 1, one.colon + 1, " []")
    if not one.flow:
        return splice(text, one.whole.start, one.whole.end, "[]")
    if number + 1 < len(one.items):
        return splice(text, item.start, one.items[number + 1].start, "")
    start = one.items[number - 1].end if number else item.start
    return splice(text, start, item.end, "")


def _add(text: str, tag: str) -> str:
    block, end = find_block(text), newline_of(text)
    if block is None:
        if is_foreign(text):
            raise NotUnderstood
        mark = "\ufeff" * text.startswith("\ufeff")
        lines = ("---", "tags:", f"  - {_quoted(tag)}", "---", "")
        return mark + end.join(lines) + text[len(mark) :]
    lists = _read(text)
    if not lists:
        return splice(text, block[1], block[1], f"tags:{end}  - {_quoted(tag)}{end}")
    one = lists[0]
    if one.block is not None:
        at = text.index("\n", one.items[-1].end) + 1
        return splice(text, at, at, f"{' ' * one.block}- {_quoted(tag)}{end}")
    if one.flow:
        at, comma = (one.items[-1].end, ", ") if one.items else (one.whole.start + 1, "")
        return splice(text, at, at, comma + _quoted(tag))
    held = [name for item in one.items for name in _tags_in(item.value)]
    if held or one.whole.end > one.whole.start:
        put = f"[{', '.join(map(_quoted, [*held, tag]))}]"
        return splice(text, one.whole.start, one.whole.end, put)
    return splice(text, one.colon + 1, one.colon + 1, f"{end}  - {_quoted(tag)}")


def splice(text: str, start: int, end: int, put: str) -> str:
    """Return the text with ``put`` in place of what stands from ``start`` to ``end``."""
    return text[:start] + put + text[end:]


def _tags_in(value: str) -> list[str]:
    """Return the tags that one value names: Obsidian takes commas and blanks for separators."""
    names = (part.lstrip("#") for part in _SEPARATORS.split(value))
    return [name for name in names if name]


def _quoted(tag: str) -> str:
    if _PLAIN.fullmatch(tag) and tag.casefold() not in _NOT_TEXT:
        return tag
    return '"' + tag.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(text: str, keys: Collection[str] = _KEYS) -> list[TagList]:
    """Return the values of the keys, those for tags if no other are named. Raises ``NotUnderstood``."""
    block = find_block(text)
    if block is None:
        return []
    start, end, _ = block
    if end - start > LARGEST:
        raise NotUnderstood
    try:
        return _find_lists(parse_events(text[start:end]), text[:end], start, keys)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise NotUnderstood from None


def parse_events(source: str) -> list[yaml.Event]:
    """Return the events of the YAML. Raises ``NotUnderstood`` for many or deep ones: they take the parser seconds."""
    events, depth = [], 0
    for event in yaml.parse(source, Loader=_LOADER):
        events.append(event)
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST or len(events) > _MOST_EVENTS:
            raise NotUnderstood
    return events


def _find_lists(
    events: list[yaml.Event], source: str, offset: int, keys: Collection[str]
) -> list[TagList]:
    """Return the values of the keys in the one mapping of a document."""
    documents = [one for one in events if isinstance(one, yaml.DocumentStartEvent)]
    if not documents:
        return []  # nothing but comments
    if len(documents) > 1 or not isinstance(events[2], yaml.MappingStartEvent):
        if isinstance(events[2], yaml.ScalarEvent) and events[2].value == "":
            return []
        raise NotUnderstood
    found, at = [], 3
    while not isinstance(events[at], yaml.MappingEndEvent):
        key, at = events[at], after_value(events, at)
        value, until = events[at : after_value(events, at)], after_value(events, at)
        if not isinstance(key, yaml.ScalarEvent):
            raise NotUnderstood
        if key.value == "<<":
            raise NotUnderstood  # merged keys may be tags
        if key.value.strip().casefold() in keys:
            found.append(_tag_list(key, value, source, offset))
        at = until
    return found


def after_value(events: list[yaml.Event], at: int) -> int:
    """Return the place behind the value that begins at ``at``."""
    depth = 0
    while True:
        depth += isinstance(events[at], yaml.CollectionStartEvent)
        depth -= isinstance(events[at], yaml.CollectionEndEvent)
        at += 1
        if not depth:
            return at


def _tag_list(key: yaml.ScalarEvent, value: list[yaml.Event], source: str, offset: int) -> TagList:
    first, last = value[0], value[-1]
    colon = source.index(":", key.end_mark.index + offset)
    whole = Span("", first.start_mark.index + offset, last.end_mark.index + offset)
    if isinstance(first, yaml.ScalarEvent):
        if first.start_mark.line != first.end_mark.line:
            raise NotUnderstood  # a list below a value, which YAML reads as one text
        empty = not first.style and first.value.casefold() in ("", "~", "null")
        return TagList(() if empty else (_span(first, offset),), whole, colon)
    inner = value[1:-1]
    if not isinstance(first, yaml.SequenceStartEvent) or not all(
        isinstance(one, yaml.ScalarEvent) for one in inner
    ):
        raise NotUnderstood
    items = tuple(_span(one, offset) for one in inner)
    if first.flow_style:
        return TagList(items, whole, colon, flow=True)
    return TagList(items, whole, colon, block=first.start_mark.column)


def _span(one: yaml.ScalarEvent, offset: int) -> Span:
    return Span(one.value, one.start_mark.index + offset, one.end_mark.index + offset)
