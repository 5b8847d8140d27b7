"""Read all properties of a note: those in its text, and those beside it. Pure."""

from __future__ import annotations

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.properties import Properties
from mcp_notarium.markup.front_matter import NotUnderstood
from mcp_notarium.markup.properties import read_properties


def properties_of(content: Content) -> Properties:
    """Return the properties of a note, as far as its text can be read; one beside the text goes before one in it."""
    return read_properties_of(content)[0]


def read_properties_of(content: Content) -> tuple[Properties, bool]:
    """Return the properties of a note, and whether all of those in its text could be read."""
    try:
        found = read_properties(content.text)
    except NotUnderstood:
        return content.properties, False
    return (Properties({**found, **content.properties}) if found else content.properties), True
