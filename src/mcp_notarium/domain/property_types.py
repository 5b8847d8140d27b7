"""Give a value the type that the app of the notes has set for its property. Pure.

The types are those of Obsidian's ``types.json``. A value that has another type is converted if that loses nothing, and else
refused with the form that is taken.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mcp_notarium.domain.note import Value
from mcp_notarium.domain.properties import parse_date, shown_value, typed

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
"""What a value of each type is, in words. Other types, as plugins add them, count as none."""
_YES_NO = MappingProxyType(
    {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
)
_DAY = len("YYYY-MM-DD")


class UnfitType(ValueError):
    """The value cannot have this type without a loss."""


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
