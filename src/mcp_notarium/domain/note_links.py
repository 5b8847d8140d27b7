"""Find the links in a Markdown text, and the note that each means, as Obsidian does. Pure.

A link names a note by its path, by the end of it, or by its name alone: ``[[Plan]]``, ``![[Work/Plan#Costs|costs]]``,
``[costs](../Work/Plan.md)``. What stands in code is no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.domain.note_paths import path_key

MOST = 1000
"""Links of one note, each target once, that are looked at."""
_LONGEST = 1024
_WIKI = r"\[\[(?P<wiki>[^\[\]|#\n]*)[^\[\]\n]*\]\]"
_TITLE = r"""\s{1,9}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'|\([^()\n]{0,300}\))"""
_INLINE = (
    r"\]\((?:<(?P<angled>[^<>\n]*)>|(?P<bare>[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*))"
    rf"(?:{_TITLE})?\)"
)
_LINK = re.compile(f"{_WIKI}|{_INLINE}")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
"""How a target begins that is no file of the vault."""
_FENCE = re.compile(r"\s*(?:>\s*)*(`{3,}|~{3,})")
_TICKS = re.compile("`+")
_ENDING = re.compile(r"\.(md|markdown)\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Links:
    """Hold what a note links to, as written, and by which ``aliases`` others may link to it."""

    targets: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def cleaned(self) -> Links:
        """Return it without lone surrogates."""
        return Links(
            *(tuple(map(replace_surrogates, each)) for each in (self.targets, self.aliases))
        )


def find_targets(text: str) -> tuple[str, ...]:
    """Return the targets of a text's links, each once, without headings and display texts."""
    found: dict[str, None] = {}
    if "[[" in text or "](" in text:
        for line in _prose(text):
            for link in _LINK.finditer(line):
                if target := _target(link):
                    found.setdefault(target)
            if len(found) >= MOST:
                break
    return tuple(found)[:MOST]


def _target(link: re.Match[str]) -> str | None:
    wiki = link["wiki"]
    if wiki is not None:
        target = wiki.strip().removesuffix("\\").rstrip()  # a table escapes the bar behind it
    else:
        target = link["angled"] if link["bare"] is None else link["bare"]
        if _ELSEWHERE.match(target):
            return None
        target = unquote(target.partition("#")[0], errors="replace").strip()
    return target if 0 < len(target) <= _LONGEST else None


def _prose(text: str) -> Iterator[str]:
    """Yield the lines that may have links, without code."""
    fence = ""
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[1].startswith(fence):
                fence = ""
        elif opened:
            fence = opened[1]
        elif "[[" in line or "](" in line:
            yield _without_code(line) if "`" in line else line


def _without_code(line: str) -> str:
    """Return the line without what stands between two runs of as many backticks."""
    runs = [found.span() for found in _TICKS.finditer(line)]
    following: dict[int, int] = {}
    closes = [0] * len(runs)
    for number in reversed(range(len(runs))):
        size = runs[number][1] - runs[number][0]
        closes[number] = following.get(size, 0)
        following[size] = number
    kept, at, number = [], 0, 0
    while number < len(runs):
        if closing := closes[number]:
            kept.append(line[at : runs[number][0]])
            at, number = runs[closing][1], closing
        number += 1
    return " ".join((*kept, line[at:]))


def name_key(path: str) -> str:
    """Return what a link and its note have in common: the name without folders and ending."""
    return _stem_key(path).rpartition("/")[2]


def _stem_key(path: str) -> str:
    return path_key(_ENDING.sub("", path))


def resolve(target: str, source: str, candidates: Iterable[str]) -> str | None:
    """Return which of the notes of the target's name a link in ``source`` means; None: none of them.

    A path that begins with ``/``, ``./`` or ``../`` means that one place. Any other means the note whose whole path
    it is, else one whose path ends so: one below the folder of the source first, then the shortest path.
    """
    folder = source.rpartition("/")[0]
    place = _place(target, folder)
    if place is None:
        return None
    fixed = target.startswith(("/", "./", "../"))
    wanted, above = _stem_key(place), path_key(folder)
    keyed = [(_stem_key(one), one) for one in candidates]
    whole = sorted(one for key, one in keyed if key == wanted)
    if whole or fixed:
        return next(iter(whole), None)
    ending = sorted(
        (not path_key(one).startswith(f"{above}/") and bool(above), len(one), one)
        for key, one in keyed
        if key.endswith(f"/{wanted}")
    )
    return ending[0][2] if ending else None


def _place(target: str, folder: str) -> str | None:
    """Return the path from the top that a target means; None if it lies outside."""
    relative = target.startswith(("./", "../"))
    parts: list[str] = folder.split("/") if relative and folder else []
    for part in target.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or None


def resolve_alias(target: str, named: Sequence[str]) -> str | None:
    """Return which of the notes with this alias a link means: the one with the shortest path."""
    return min(named, key=lambda one: (len(one), one), default=None) if "/" not in target else None
