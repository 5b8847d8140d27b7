"""Define the properties of a note: names with typed values, compared and stored exactly. Pure.

A value is yes or no, a number, a text, or a list of texts. A text that is an ISO date is a date; nothing else is.
A mark that a note has or has not (``pinned``) is a property that is True, and is not there otherwise.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal

from mcp_notarium.domain.characters import replace_surrogates

if TYPE_CHECKING:
    from mcp_notarium.domain.note import Content

Value = bool | int | float | str | tuple[str, ...] | None
"""None: the property is there without a value."""
MARKS: Final = ("pinned", "markdown", "archived")
"""What some stores can say of a note. A property is shown only if it is set; each is a field of ``save``."""
Kind = Literal["yes/no", "number", "date", "text", "list", "empty"]
LONGEST_KEY: Final = 256
LONGEST_VALUE: Final = 4_000
MOST_ITEMS: Final = 100
"""Items of a list."""
MOST: Final = 200
"""Properties of a note."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_MOST_DIGITS = 15
_STARTS, _INLINE = ("---", "\ufeff---", "+++", "\ufeff+++"), "::"
"""Without these a text has no properties."""
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)


class PropertyPlace(Enum):
    """Name where a store keeps properties of any name; marks it keeps in its own way."""

    NOWHERE = "only in a block at the top of the text, if there is one"
    IN_TEXT = "in a block at the top of the text"
    BESIDE = "beside the text"


class Properties(Mapping[str, Value]):
    """Hold names and values; immutable. ``True``, ``1`` and ``1.0`` are three values."""

    __slots__ = ("_values", "json")

    json: Final[str]
    """Hold the same as JSON, sorted by name."""

    def __init__(self, values: Mapping[str, Value] | Iterable[tuple[str, Value]] = ()) -> None:
        self._values: Final = dict(sorted(dict(values).items()))
        self.json = json.dumps(self._values, ensure_ascii=False) if self._values else "{}"

    @classmethod
    def from_json(cls, stored: str) -> Properties:
        """Read what ``json`` gave."""
        return NONE if stored == "{}" else cls(read_values(json.loads(stored)))

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __repr__(self) -> str:
        return f"Properties({list(self._values)!r})"  # never the values, which are a person's

    def having(self, changes: Mapping[str, Value], *, without: Iterable[str] = ()) -> Properties:
        """Return them with these values, and without these names."""
        gone = {*without} - changes.keys()
        kept = {name: value for name, value in self._values.items() if name not in gone}
        return Properties({**kept, **changes})

    def differing(self, other: Properties) -> frozenset[str]:
        """Return the names that only one of the two has, or with another value."""
        names = self._values.keys() | other.keys()
        return frozenset(name for name in names if not _is_same(self, other, name))

    def cleaned(self) -> Properties:
        """Return them in a form that any store can hold: lone surrogates are replaced."""
        if self.json.isascii():
            return self
        return Properties({replace_surrogates(name): _clean(value) for name, value in self.items()})


def flags(*names: str) -> Properties:
    """Return the properties of these names that are set."""
    return Properties(dict.fromkeys(names, True))


def read_values(values: Mapping[str, Any]) -> dict[str, Value]:
    """Return values from JSON; what is of no kind that is known here is left out."""
    read = ((name, tuple(one) if isinstance(one, list) else one) for name, one in values.items())
    return {name: value for name, value in read if is_value(value)}


def is_value(value: Any) -> bool:
    """Tell whether it is a value of a property."""
    if isinstance(value, tuple):
        return all(isinstance(item, str) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def kind_of(value: Value) -> Kind:
    """Return the kind of a value."""
    match value:
        case None:
            return "empty"
        case bool():
            return "yes/no"
        case int() | float():
            return "number"
        case tuple():
            return "list"
        case _:
            return "text" if parse_date(value) is None else "date"


def typed(text: str) -> Value:
    """Return the value that a text without quotes stands for: a number in decimal, true or false, else the text."""
    if text in ("true", "false"):
        return text == "true"
    if _NUMBER.fullmatch(text) and len(text) <= _MOST_DIGITS:
        return float(text) if "." in text else int(text)
    return text


def shown_value(value: Value) -> str:
    """Return a value in words, as a filter compares it: ``true``, ``4``, ``one, two``; '' for an empty one."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case tuple():
            return ", ".join(value)
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return str(value)


def parse_date(text: str) -> datetime | None:
    """Return the date of a text in ISO form, with or without a time; None for any other."""
    if not _DATE.fullmatch(text):
        return None
    try:
        day = date.fromisoformat(text) if len(text) == 10 else None  # noqa: PLR2004 - YYYY-MM-DD
        return datetime(day.year, day.month, day.day) if day else datetime.fromisoformat(text)  # noqa: DTZ001 - a day
    except ValueError:
        return None


def properties_of(content: Content) -> Properties:
    """Return all properties of a note; one beside the text goes before one in it. What cannot be read is left out."""
    return read_properties_of(content)[0]


def read_properties_of(content: Content) -> tuple[Properties, bool]:
    """Return all properties of a note, and whether all of those in its text could be read."""
    if not content.text.startswith(_STARTS) and _INLINE not in content.text:
        return content.properties, True
    from mcp_notarium.markup.front_matter import NotUnderstood  # noqa: PLC0415 - few notes need YAML
    from mcp_notarium.markup.properties import read_properties  # noqa: PLC0415
    from mcp_notarium.markup.property_values import to_json  # noqa: PLC0415

    try:
        found = read_properties(content.text)
    except NotUnderstood:
        return content.properties, False
    if not found:
        return content.properties, True
    values = read_values({name: to_json(value) for name, value in found.items()})
    return Properties({**values, **content.properties}), True


def merge_properties(base: Properties, mine: Properties, theirs: Properties) -> Properties:
    """Apply to ``theirs`` what mine set, changed and removed."""
    changed = {name: mine[name] for name in base.differing(mine) if name in mine}
    return theirs.having(changed, without=base.keys() - mine.keys())


def properties_clash(base: Properties, mine: Properties, theirs: Properties) -> bool:
    """Tell whether both sides changed a property, and not to the same."""
    both = base.differing(mine) & base.differing(theirs)
    return not both.isdisjoint(mine.differing(theirs))


def _is_same(one: Properties, other: Properties, name: str) -> bool:
    if name not in one or name not in other:
        return False
    return type(one[name]) is type(other[name]) and one[name] == other[name]


def _clean(value: Value) -> Value:
    if isinstance(value, str):
        return replace_surrogates(value)
    return tuple(map(replace_surrogates, value)) if isinstance(value, tuple) else value


NONE: Final = Properties()
"""No properties."""
