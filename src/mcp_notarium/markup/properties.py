"""Read the properties of a note: those of the block at its top, and the fields within its text. Pure.

The block goes before the text, and the last of two equal names before the first. Tags are no properties: they have their own
place. ``aliases`` is a list, also if it is written as one text.
"""

from __future__ import annotations

from mcp_notarium.markup.front_entries import read_block
from mcp_notarium.markup.inline_fields import find_fields, joined
from mcp_notarium.markup.property_values import LONGEST_KEY, PropertyValue, key_of

MOST = 200
"""Properties of a note that are read."""
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
    for field in find_fields(text):
        key = key_of(field.key)
        if key not in found and _is_shown(key) and len(stated) < MOST:
            stated.setdefault(key, []).append(field.value)
            names.setdefault(key, field.key)
    found |= {key: (names[key], _value(key, joined(values))) for key, values in stated.items()}
    return dict(list(found.values())[:MOST])


def _is_shown(key: str) -> bool:
    return 0 < len(key) <= LONGEST_KEY and key not in _TAGS


def _value(key: str, value: PropertyValue) -> PropertyValue:
    if key not in _ALIASES or not isinstance(value, str):
        return value
    return tuple(filter(None, (name.strip() for name in value.split(","))))
