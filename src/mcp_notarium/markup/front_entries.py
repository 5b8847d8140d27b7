"""Read the entries of the YAML block at the top of a note, with where each stands. Pure.

A list of plain items is a list of their texts, as written. A nested mapping, a list that holds more than plain items, a tag
such as ``!!int``, or a value that is too long is an ``OtherValue``. An alias (``*name``) is read as what it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import yaml

from mcp_notarium.markup.front_block import find_block, is_unclosed
from mcp_notarium.markup.front_matter import LARGEST, NotUnderstood, after_value, parse_events
from mcp_notarium.markup.property_values import (
    LONGEST_VALUE,
    MOST_ITEMS,
    OtherValue,
    PropertyValue,
    key_of,
    read_plain,
    read_quoted,
)

_TEXT_TAGS = (None, "tag:yaml.org,2002:str")
_FIRST_KEY = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one key with its value, and where they stand in the note's text."""

    name: str | None
    key: str
    name_start: int
    name_end: int
    colon: int | None
    """None if the key has none."""
    start: int
    end: int
    events: tuple[yaml.Event, ...]
    """Those of the value, from ``start`` to ``end``."""
    value: PropertyValue
    anchors: frozenset[str]
    aliases: frozenset[str]
    places: tuple[tuple[int, int], ...] = ()
    """Those of a list's items."""

    @property
    def signature(self) -> tuple[object, ...]:
        """Return what the entry means to YAML, without where it stands."""
        return (self.name, *map(_signature, self.events))

    @property
    def is_list(self) -> bool:
        """Tell whether the value is a list of plain items, in place."""
        return isinstance(self.value, tuple) and isinstance(self.events[0], yaml.SequenceStartEvent)

    @property
    def is_flow(self) -> bool:
        """Tell whether the value is written in brackets."""
        first = self.events[0]
        return isinstance(first, yaml.CollectionStartEvent) and bool(first.flow_style)


@dataclass(frozen=True, slots=True)
class FrontBlock:
    """Hold the entries of a block; ``end``: behind its last line."""

    start: int
    end: int
    body: int
    entries: tuple[Entry, ...] = ()
    flow: bool = False
    """They stand in braces, which open at ``start``."""
    column: int = 0

    def find(self, name: str) -> Entry | None:
        """Return the entry that counts: the last one of this name."""
        key = key_of(name)
        return next((one for one in reversed(self.entries) if one.key == key), None)


@lru_cache(maxsize=2)
def read_block(text: str) -> FrontBlock | None:
    """Return the block of a note; None if it has none. Raises ``NotUnderstood``, also for one that never ends.

    A change asks several times for that of two texts.
    """
    place = find_block(text)
    if place is None:
        if is_unclosed(text):
            raise NotUnderstood
        return None
    start, end, body = place
    if end - start > LARGEST:
        raise NotUnderstood
    try:
        events = parse_events(text[start:end])
    except (yaml.YAMLError, RecursionError, ValueError):
        raise NotUnderstood from None
    if sum(isinstance(one, yaml.DocumentStartEvent) for one in events) > 1:
        raise NotUnderstood
    top = events[_FIRST_KEY - 1] if len(events) >= _FIRST_KEY else None
    if not isinstance(top, yaml.MappingStartEvent):
        if isinstance(top, yaml.ScalarEvent) and top.value != "":
            raise NotUnderstood
        if isinstance(top, yaml.SequenceStartEvent | yaml.AliasEvent):
            raise NotUnderstood
        return FrontBlock(start, end, body)
    entries = _Reader(text, start, events).read()
    column = top.start_mark.column
    opened = top.end_mark.index + start
    return FrontBlock(
        opened if top.flow_style else start, end, body, entries, bool(top.flow_style), column
    )


@dataclass(slots=True)
class _Reader:
    """Read the entries one by one: an alias means the last value before it that has its name."""

    text: str
    offset: int
    events: list[yaml.Event]
    named: dict[str, tuple[yaml.Event, ...]] = field(default_factory=dict)

    def read(self) -> tuple[Entry, ...]:
        found, at = [], _FIRST_KEY
        while not isinstance(self.events[at], yaml.MappingEndEvent):
            middle = after_value(self.events, at)
            until = after_value(self.events, middle)
            found.append(self._entry(self.events[at:middle], tuple(self.events[middle:until])))
            at = until
        return tuple(found)

    def _entry(self, name: list[yaml.Event], events: tuple[yaml.Event, ...]) -> Entry:
        first, last = name[0], name[-1]
        words = first.value if isinstance(first, yaml.ScalarEvent) else None
        start, end = events[0].start_mark.index + self.offset, self._end(events)
        name_end = last.end_mark.index + self.offset
        self._remember(tuple(name))
        value = self._value(events, self.text[start:end])
        self._remember(events)
        own = (*name, *events)
        return Entry(
            words,
            key_of(words) if words is not None else "",
            first.start_mark.index + self.offset,
            name_end,
            self._colon(name_end),
            start,
            end,
            events,
            value,
            frozenset(one.anchor for one in own if _is_anchor(one)),
            frozenset(one.anchor for one in own if isinstance(one, yaml.AliasEvent)),
            self._places(events) if isinstance(value, tuple) else (),
        )

    def _end(self, events: tuple[yaml.Event, ...]) -> int:
        """Return where the value ends: not with the comments and empty lines below it."""
        last = next(
            one
            for one in reversed(events)
            if not isinstance(one, yaml.CollectionEndEvent)
            or one.end_mark.index > one.start_mark.index
        )
        end: int = last.end_mark.index + self.offset
        if isinstance(last, yaml.ScalarEvent) and last.style in ("|", ">"):
            start = last.start_mark.index + self.offset
            end = start + len(self.text[start:end].rstrip())
        return end

    def _places(self, events: tuple[yaml.Event, ...]) -> tuple[tuple[int, int], ...]:
        return tuple(
            (one.start_mark.index + self.offset, self._end((one,))) for one in events[1:-1]
        )

    def _colon(self, name_end: int) -> int | None:
        at = name_end
        while self.text[at].isspace():
            at += 1
        return at if self.text[at] == ":" else None

    def _remember(self, events: tuple[yaml.Event, ...]) -> None:
        """Remember the values that have names; of those within a value, the plain ones alone."""
        for number, one in enumerate(events):
            if _is_anchor(one):
                whole = events if number == 0 else (one,)
                self.named[one.anchor] = whole

    def _value(self, events: tuple[yaml.Event, ...], source: str) -> PropertyValue:
        first = self._meant(events)
        if len(first) == 1:
            value = _scalar(first[0])
            too_long = isinstance(value, str) and len(value) > LONGEST_VALUE
            if not too_long and not isinstance(value, OtherValue):
                return value
        elif isinstance(first[0], yaml.SequenceStartEvent) and first[0].tag is None:
            inner = first[1:-1]
            meant = [self._meant((one,)) for one in inner[: MOST_ITEMS + 1]]
            if len(inner) <= MOST_ITEMS and all(map(_is_plain, meant)):
                texts = tuple(one[0].value for one in meant)
                if sum(map(len, texts)) <= LONGEST_VALUE:
                    return texts
        return OtherValue(source[:LONGEST_VALUE])

    def _meant(self, events: tuple[yaml.Event, ...]) -> tuple[yaml.Event, ...]:
        """Return what an alias names; what is no alias itself."""
        first = events[0]
        return (
            self.named.get(first.anchor, events) if isinstance(first, yaml.AliasEvent) else events
        )


def _is_anchor(event: yaml.Event) -> bool:
    return getattr(event, "anchor", None) is not None and not isinstance(event, yaml.AliasEvent)


def _is_plain(events: tuple[yaml.Event, ...]) -> bool:
    return (
        len(events) == 1 and isinstance(events[0], yaml.ScalarEvent) and events[0].tag in _TEXT_TAGS
    )


def _scalar(event: yaml.Event) -> PropertyValue:
    if not isinstance(event, yaml.ScalarEvent) or event.tag not in _TEXT_TAGS:
        return OtherValue("")
    if event.tag is not None or event.style in ("|", ">"):
        return str(event.value)
    return read_quoted(event.value) if event.style else read_plain(event.value)


def _signature(event: yaml.Event) -> tuple[object, ...]:
    anchor = getattr(event, "anchor", None)
    if isinstance(event, yaml.ScalarEvent):
        return yaml.ScalarEvent, anchor, event.tag, event.value, event.implicit
    return type(event), anchor, getattr(event, "tag", None)
