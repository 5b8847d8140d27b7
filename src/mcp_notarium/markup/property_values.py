"""Say what the value of a property can be; read it from plain words and from JSON, and write it. Pure.

A date in quotes is a date, too: Obsidian decides by the characters. ``yes`` and ``no`` are text, as in YAML 1.2.
A number is decimal; digits that a number would lose (``007``, an integer beyond 2**53) stay text.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from types import MappingProxyType

from mcp_notarium.domain.characters import has_lone_surrogate, tag_key

LONGEST_VALUE = 4_000
"""Characters of a value's text, or of all texts of a list. A longer one is an ``OtherValue``."""
LONGEST_KEY = 200
MOST_ITEMS = 1_000
_LARGEST_INTEGER = 2**53
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_LONGEST_TIME = 40
_NUMBER = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][-+]?[0-9]{1,3})?"
)
_LONGEST_NUMBER = 50
_YES_NO = MappingProxyType(
    {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
)
_NOTHING = ("", "~", "null", "Null", "NULL")
_NO_KEY = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class UnfitProperty(ValueError):
    """Report why the property cannot have this name or value, or why its own cannot be changed."""


class RepeatedProperty(UnfitProperty):
    """Report in which lines of the block the key stands: readers differ in which of them they take."""


@dataclass(frozen=True, slots=True)
class OtherValue:
    """Hold a value that is none of the kinds, as it stands in the note, cut after ``LONGEST_VALUE`` characters."""

    source: str


_NoText = bool | int | float | date
Scalar = str | bool | int | float | date | datetime
PropertyValue = Scalar | tuple[str, ...] | OtherValue | None
"""None: the key is there without a value."""


def key_of(name: str) -> str:
    """Return what two spellings of a property's name have in common."""
    return tag_key(name.strip())


def read_plain(source: str) -> Scalar | None:
    """Return the value that words without quotes have."""
    if source in _NOTHING:
        return None
    if source in _YES_NO:
        return _YES_NO[source]
    number = _number(source)
    return read_quoted(source) if number is None else number


def read_quoted(text: str) -> str | date | datetime:
    """Return the date or the time that a text is; else the text."""
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
        if len(text) <= _LONGEST_TIME and _TIME.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        pass  # such as the 30th of February
    return text


def _number(source: str) -> int | float | None:
    if len(source) > _LONGEST_NUMBER or not _NUMBER.fullmatch(source):
        return None
    if not re.search(r"[.eE]", source):
        integer = int(source)
        return integer if abs(integer) <= _LARGEST_INTEGER else None
    value = float(source)
    return value if math.isfinite(value) else None


def write_scalar(value: _NoText) -> str:
    """Return a value that is no text as YAML 1.1, YAML 1.2 and Dataview read it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    written = repr(value)
    return written if "e" not in written or "." in written else written.replace("e", ".0e")


def require_fit(key: str, value: PropertyValue) -> None:
    """Raise ``UnfitProperty`` for a name or a value that no property can have."""
    if not key or key != key.strip():
        raise UnfitProperty(
            "A property's name is not empty, and does not begin or end with blanks."
        )
    if len(key) > LONGEST_KEY or _NO_KEY.search(key) or key == "<<" or has_lone_surrogate(key):
        raise UnfitProperty(
            f"A property's name is one line of at most {LONGEST_KEY} visible characters, not `<<`."
        )
    match value:
        case OtherValue():
            raise UnfitProperty(f"The value of `{key}` is none that can be set.")
        case str() | tuple():
            texts = (value,) if isinstance(value, str) else value
            if any(map(has_lone_surrogate, texts)):
                raise UnfitProperty(f"The value of `{key}` has half a character.")
            if len(texts) > MOST_ITEMS or sum(map(len, texts)) > LONGEST_VALUE:
                raise UnfitProperty(
                    f"The value of `{key}` is longer than {LONGEST_VALUE} characters"
                    f" or {MOST_ITEMS} items."
                )
        case float() if not math.isfinite(value):
            raise UnfitProperty(f"The value of `{key}` is no finite number.")
        case int() if abs(value) > _LARGEST_INTEGER:
            raise UnfitProperty(f"The number of `{key}` has too many digits: write it as text.")
        case datetime() if (offset := value.utcoffset()) and offset.total_seconds() % 60:
            raise UnfitProperty(f"The time zone of `{key}` is no whole minutes from UTC.")
        case _:
            pass


def from_json(value: object) -> PropertyValue:
    """Return the value that JSON means: a text that is a date or a time becomes one. Raises ``UnfitProperty``."""
    match value:
        case str():
            return read_quoted(value)
        case None | bool() | int() | float():
            return value
        case list() | tuple() if all(isinstance(one, str | bool | int | float) for one in value):
            return tuple(one if isinstance(one, str) else write_scalar(one) for one in value)
        case _:
            raise UnfitProperty("A property is a text, a number, true, false or a list of texts.")


def to_json(value: PropertyValue) -> bool | float | str | list[str] | None:
    """Return the value as JSON has it: a date as its ISO form, any other value as its source."""
    match value:
        case date():
            return value.isoformat()
        case tuple():
            return list(value)
        case OtherValue():
            return value.source
        case _:
            return value
