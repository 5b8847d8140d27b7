"""Find and read the YAML block at the top of a note: its tags, its dates, its other names. Pure.

YAML is read as a stream of events, which expands no alias and does not recurse.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import yaml

from mcp_notarium.markup.front_block import find_block, is_unclosed

LARGEST = 65_536
"""Characters. A longer block is not read."""
_DEEPEST = 50
_MOST_EVENTS = 10_000
TAG_KEYS = ("tags", "tag")
_ALIASES = ("aliases", "alias")
_CREATED = re.compile(
    r"""^(?P<key>created|date[ _]created|created[ _-]?at|creation[ _]date|date)[ \t]*:[ \t]*(?P<quote>["']?)"""
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+)?(Z| ?[+-][0-9]{2}:?[0-9]{2})?)(?P=quote)[ \t]*(#.*)?$",
    re.IGNORECASE | re.MULTILINE,
)
_SEPARATORS = re.compile(r"[,\s]+")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class NotUnderstood(ValueError):
    """Report that the block is no mapping in YAML, or its tags are not in a form that is known."""


@dataclass(frozen=True, slots=True)
class TagList:
    """Hold the value of one key for tags."""

    items: tuple[str, ...]
    listed: bool
    """It is a list. Else one text may name several tags."""


def require_readable(text: str) -> None:
    """Raise ``NotUnderstood`` if the block is no mapping in YAML, or never closed."""
    if is_unclosed(text):
        raise NotUnderstood
    read_lists(text)


def read_tags(text: str) -> tuple[str, ...]:
    """Return the tags of the block, in their order. Raises ``NotUnderstood``."""
    block = find_block(text)
    if block is None:
        return ()
    source = text[block[0] : block[1]].lower()
    if "tag" not in source and "\\" not in source:  # a quoted key may spell it with escapes
        return ()
    return tuple(tag for one in read_lists(text) for item in one.items for tag in tags_in(item))


def are_tags_plain(text: str) -> bool:
    """Tell whether ``read_tags`` gives the tags as they are written: one in each item, without ``#``, each once.

    One text that names them all, with commas or blanks, is plain. Raises ``NotUnderstood``.
    """
    lists = read_lists(text)
    tags = [tag for one in lists for item in one.items for tag in tags_in(item)]
    parts = (
        [item] if one.listed else _SEPARATORS.split(item.strip(", "))
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
        lists = read_lists(text, _ALIASES)
    except NotUnderstood:
        return ()
    values = ([item] if one.listed else item.split(",") for one in lists for item in one.items)
    return tuple(filter(None, (name.strip() for names in values for name in names)))


def tags_in(value: str) -> list[str]:
    """Return the tags that one value names: Obsidian takes commas and blanks for separators."""
    names = (part.lstrip("#") for part in _SEPARATORS.split(value))
    return [name for name in names if name]


def read_lists(text: str, keys: Collection[str] = TAG_KEYS) -> list[TagList]:
    """Return the values of the keys, those for tags if no other are named. Raises ``NotUnderstood``."""
    block = find_block(text)
    if block is None:
        return []
    start, end, _ = block
    if end - start > LARGEST:
        raise NotUnderstood
    try:
        return _find_lists(parse_events(text[start:end]), keys)
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


def _find_lists(events: list[yaml.Event], keys: Collection[str]) -> list[TagList]:
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
            found.append(_tag_list(value))
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


def _tag_list(value: list[yaml.Event]) -> TagList:
    first, inner = value[0], value[1:-1]
    if isinstance(first, yaml.ScalarEvent):
        if first.start_mark.line != first.end_mark.line:
            raise NotUnderstood  # a list below a value, which YAML reads as one text
        empty = not first.style and first.value.casefold() in ("", "~", "null")
        return TagList(() if empty else (first.value,), listed=False)
    if not isinstance(first, yaml.SequenceStartEvent) or not all(
        isinstance(one, yaml.ScalarEvent) for one in inner
    ):
        raise NotUnderstood
    return TagList(tuple(one.value for one in inner), listed=True)
