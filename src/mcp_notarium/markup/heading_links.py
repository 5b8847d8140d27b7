"""Tell which links to a part of a note mean another heading, or none, once a heading has other words. Pure.

As Obsidian reads it, ``[[Note#Costs]]`` means the first heading of these words, and ``[[Note#Plan#Costs]]`` the first below
one called *Plan*; marks and letter case make no difference. Markdown links have the words encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, unquote

from mcp_notarium.markup.obsidian_links import Link, find_links
from mcp_notarium.markup.section_names import letters_of
from mcp_notarium.markup.sections import Section

_NOT_IN_LINKS = re.compile(r"[#|^\[\]\\]|%%")
_PLAIN = "/!$&'*+,;=:@~"


def find_renamed(
    text: str,
    means: Callable[[str], bool],
    before: Sequence[Section],
    after: Sequence[Section],
    number: int,
) -> dict[Link, str | None]:
    """Return what links in this text become: those to parts of a note whose heading of this number has other words.

    ``means``: tells whether a target is that note, ``before`` and ``after`` are its sections.
    """
    changes: dict[Link, str | None] = {}
    words = " ".join(_NOT_IN_LINKS.sub(" ", after[number].words).split())
    for link in find_links(text, within=True):
        if not link.part or link.part.startswith("^") or not means(link.target):
            continue
        written = link.form != "wiki"
        parts = (unquote(link.part, errors="replace") if written else link.part).split("#")
        keys = [*map(letters_of, parts)]
        meant = _find(before, keys)
        if meant is None or number not in (*meant.within, meant.ordinal):
            continue
        if (_find(after, keys) or before[0]).ordinal == meant.ordinal:
            continue
        old = letters_of(before[number].words)
        new = [words if key == old else part for key, part in zip(keys, parts, strict=True)]
        changes[link.whole] = _write(new, markdown=written) if words else None
    return changes


def _find(sections: Sequence[Section], keys: Sequence[str]) -> Section | None:
    """Return the first section that a link with these words means."""
    for one in sections[1:]:
        if letters_of(one.words) != keys[-1]:
            continue
        above = iter(one.within)
        if all(any(letters_of(sections[at].words) == key for at in above) for key in keys[:-1]):
            return one
    return None


def _write(parts: Sequence[str], *, markdown: bool) -> str:
    return "#".join(quote(part, _PLAIN) if markdown else part for part in parts)
