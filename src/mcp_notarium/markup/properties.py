"""Read and change the properties of a note: those of the block at its top, and the fields within its text. Pure.

The block goes before the text, and the last of two equal names in it before the first. Case does not tell names apart. Tags are
no properties: they have their own place. ``aliases`` is a list, also if it is written as one text.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import islice
from typing import Final, Literal

from mcp_notarium.markup.front_edit import remove_from_block, set_in_block
from mcp_notarium.markup.front_entries import read_block
from mcp_notarium.markup.inline_fields import MOST as MOST_FIELDS
from mcp_notarium.markup.inline_fields import (
    add_below_first,
    fields_named,
    find_fields,
    joined,
    remove_fields,
    set_fields,
)
from mcp_notarium.markup.property_values import (
    LONGEST_KEY,
    PropertyValue,
    UnfitProperty,
    key_of,
    read_quoted,
    require_fit,
)

MOST = 200
"""Properties of a note that are read."""
MOST_CHANGES = 50


class _Removal(Enum):
    REMOVE = "remove"


REMOVE: Final = _Removal.REMOVE
Removal = Literal[_Removal.REMOVE]
"""In the place of a value: the property goes."""
_TAGS = ("tags", "tag")
_ALIASES = ("aliases", "alias")


def read_properties(text: str) -> dict[str, PropertyValue]:
    """Return the properties of a note, in their order, under their names as written.

    Raises ``NotUnderstood`` if the block is no mapping in YAML, too large, or never closed.
    """
    found: dict[str, tuple[str, PropertyValue]] = {}
    block = read_block(text)
    for one in block.entries if block else ():
        if one.name is not None and _is_shown(one.key):
            value = _value(one.key, one.value)
            found[one.key] = (one.name, value)
    stated: dict[str, list[PropertyValue]] = {}
    names: dict[str, str] = {}
    for field in islice(find_fields(text), MOST_FIELDS):
        key = key_of(field.key)
        if key in found or not _is_shown(key):
            continue
        if key in stated or len(stated) < MOST:
            stated.setdefault(key, []).append(field.value)
            names.setdefault(key, field.key)
    found |= {key: (names[key], _value(key, joined(values))) for key, values in stated.items()}
    return dict(list(found.values())[:MOST])


def change_properties(text: str, changes: Mapping[str, PropertyValue | Removal]) -> str:
    """Return the text with properties set and removed one by one, and every other character as it was.

    A property stays where it is: in the block, else in the text. A new one comes last in the block; a note without a block gets
    one, unless it begins with ``key:: value``: then one more such line. A removed property goes from every place. A text that is a
    date is set as a date.
    Raises ``UnfitProperty``, also for a value in the place of an ``OtherValue``, and ``NotUnderstood``.
    """
    if len(changes) > MOST_CHANGES:
        raise UnfitProperty(f"At most {MOST_CHANGES} properties are changed at once.")
    for name, value in changes.items():
        if key_of(name) in _TAGS:
            raise UnfitProperty("Tags are no property: they are added and removed as tags.")
        if isinstance(value, _Removal):
            text = remove_fields(remove_from_block(text, name), name)
        else:
            require_fit(name, value)
            meant = read_quoted(value) if isinstance(value, str) else value
            text = _set(text, name, meant)
    return text


def _set(text: str, name: str, value: PropertyValue) -> str:
    block = read_block(text)
    if block is None or block.find(name) is None:
        if fields_named(text, name):
            return set_fields(text, name, value)
        if block is None:
            added = add_below_first(text, name, value)
            if added is not None:
                return added
    return set_in_block(text, name, value)


def _is_shown(key: str) -> bool:
    return 0 < len(key) <= LONGEST_KEY and key not in _TAGS


def _value(key: str, value: PropertyValue) -> PropertyValue:
    if key not in _ALIASES or not isinstance(value, str):
        return value
    return tuple(filter(None, (name.strip() for name in value.split(","))))
