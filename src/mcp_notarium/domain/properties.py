"""Define the properties of a note: names with typed values, compared and stored exactly. Pure.

A value is yes or no, a number, a text, or a list of texts. A text that is an ISO date is a date; nothing else is.
A mark that a note has or has not (``pinned``) is a property that is True, and is not there otherwise.

An app may have set the type of a property, one of Obsidian's ``types.json``. A value that has another type is converted if that loses nothing, and else
refused with the form that is taken.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from types import MappingProxyType
from typing import Final, Literal

from mcp_notarium.domain.note import Content, Properties, Value, read_values
from mcp_notarium.markup.front_block import is_foreign, looks_like_block
from mcp_notarium.markup.property_values import OtherValue, read_plain, to_json

Kind = Literal["yes/no", "number", "date", "text", "list", "empty"]
LONGEST_KEY: Final = 256
LONGEST_VALUE: Final = 4_000
MOST_ITEMS: Final = 100
"""Items of a list."""
MOST: Final = 200
"""Properties of a note."""
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)


FORMS: Final = MappingProxyType(
    {
        "text": "a text",
        "multitext": "a list of texts",
        "aliases": "a list of texts",
        "tags": "a list of texts",
        "number": "a number",
        "checkbox": "true or false",
        "date": "a day, YYYY-MM-DD",
        "datetime": "a day with a time, YYYY-MM-DDTHH:MM",
    }
)
"""Values of each type, in words. Other types, as plugins add them, count as none."""
_YES_NO = MappingProxyType(
    {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
)
_DAY = len("YYYY-MM-DD")


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
    """Return the value that a text without quotes stands for; a date is the text."""
    value = to_json(read_plain(text))
    return tuple(value) if isinstance(value, list) else value


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
    """Return all properties of a note; one outside the text goes before one in it. What cannot be read is left out."""
    return read_properties_of(content)[0]


def read_properties_of(content: Content) -> tuple[Properties, bool]:
    """Return all properties of a note, and whether all of those in its text could be read."""
    if not content.may_have_properties:
        return content.properties, True
    from mcp_notarium.markup.front_matter import NotUnderstood  # noqa: PLC0415 - few notes need YAML
    from mcp_notarium.markup.properties import read_properties  # noqa: PLC0415

    try:
        found = read_properties(content.text)
    except NotUnderstood:
        return content.properties, False
    if not found:
        return content.properties, not is_foreign(content.text)
    # What is beyond the bounds, in other values, or taken over from elsewhere may be any property.
    whole = len(found) < MOST and content.text.count("::") < MOST and "<<" not in content.text
    whole = whole and not any(isinstance(value, OtherValue) for value in found.values())
    values = read_values({name: to_json(value) for name, value in found.items()})
    return Properties({**values, **content.properties}), whole


def is_block_unread(text: str) -> bool:
    """Tell whether a text begins with a block of properties that is no YAML, or never closed."""
    from mcp_notarium.markup.front_entries import read_block  # noqa: PLC0415 - few notes need YAML
    from mcp_notarium.markup.front_matter import NotUnderstood  # noqa: PLC0415

    if not looks_like_block(text):
        return False
    try:
        return read_block(text) is None
    except NotUnderstood:
        return True


def merge_properties(base: Properties, mine: Properties, theirs: Properties) -> Properties:
    """Apply to ``theirs`` what mine set, changed and removed."""
    changed = {name: mine[name] for name in base.differing(mine) if name in mine}
    return theirs.having(changed, without=base.keys() - mine.keys())


def properties_clash(base: Properties, mine: Properties, theirs: Properties) -> bool:
    """Tell whether both sides changed a property, and not to the same."""
    both = base.differing(mine) & base.differing(theirs)
    return not both.isdisjoint(mine.differing(theirs))


class UnfitType(ValueError):
    """Report that the value cannot have this type without a loss."""


def with_type(value: Value, kind: str) -> Value:
    """Return the value as one of this type. Raises ``UnfitType``. None, which removes, stays."""
    if value is None:
        return None
    match kind:
        case "checkbox":
            said = shown_value(value).strip().casefold()
            if isinstance(value, tuple) or said not in _YES_NO:
                raise UnfitType
            return _YES_NO[said]
        case "number":
            number = typed(value.strip()) if isinstance(value, str) else value
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise UnfitType
            return number
        case "date" | "datetime":
            return _day(value, with_time=kind == "datetime")
        case "text":
            if isinstance(value, tuple):
                raise UnfitType
            return shown_value(value)
        case _:
            return value if isinstance(value, tuple) else tuple(filter(None, [shown_value(value)]))


def _day(value: Value, *, with_time: bool) -> str:
    if not isinstance(value, str) or parse_date(value) is None:
        raise UnfitType
    if with_time:
        return value if len(value) > _DAY else f"{value}T00:00:00"
    if len(value) > _DAY:
        raise UnfitType
    return value
