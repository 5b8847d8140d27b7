"""Find the links that a new name of a note would break, and write others in their place. Pure.

A link breaks if it means no note afterwards, or another one: also a link to a third note, whose name the renamed
one gets. A Markdown link that leads to its file as a relative path leads there afterwards, too; every other link
means what it means to Obsidian. Such a link gets another target, in the form that it had. Every other character of a
text stays.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from urllib.parse import quote, unquote

from mcp_notarium.domain.note_links import (
    ELSEWHERE,
    ENDING,
    Link,
    Occurrence,
    find_links,
    name_key,
    relative_place,
    resolve,
)

Changes = Mapping[Link, str | None]
"""Link -> the target that it is to have; None: no link can have that."""
_FIXED = ("./", "../")
_NOT_IN_WIKI = re.compile(r"[\[\]|#\n]")
_NOT_IN_ANGLES = re.compile(r"[<>#%\n]")
_PLAIN = "/!$&'*+,;=:@~"
_MOST_ASCII = 127
_TOP = "/\0" * 64
"""Stands for the folders above the vault: a relative path may lead there."""


def find_broken(
    links: Iterable[tuple[str, str]],
    *,
    old: str,
    new: str,
    named: Callable[[str], Sequence[str]],
    files: AbstractSet[str] = frozenset(),
) -> dict[str, dict[Link, str | None]]:
    """Return what links must become if a note's path changes, by the path of the note they stand in.

    ``links``: path and target of each, those of the note itself under its ``old`` path. Which form they have is not
    known, so there is an answer for either. ``named``: the notes whose name has a key, now. ``files``: which of the
    ``file_places`` there are.
    """
    renaming = _Renaming(old, new, named, files)
    broken: dict[str, dict[Link, str | None]] = {}
    for source, target in links:
        for markdown in (False, True):
            changed = renaming.relink(target, source, markdown=markdown)
            if changed != target:
                broken.setdefault(source, {})[target, markdown] = changed
    return broken


def file_places(targets: Iterable[str], source: str) -> set[str]:
    """Return the places to which links may lead as relative paths, except those of notes."""
    places = (relative_place(target, source) for target in targets)
    return {place for place in places if place is not None and not ENDING.search(place)}


@dataclass(frozen=True, slots=True)
class _Renaming:
    """Tell what links become when a note of the path ``old`` gets the path ``new``."""

    old: str
    new: str
    named: Callable[[str], Sequence[str]]
    files: AbstractSet[str]

    def relink(self, target: str, source: str, *, markdown: bool) -> str | None:
        """Return the target that a link is to have: its own, unless it would break; None: no link can have it."""
        now, here = self.named(name_key(target)), self._then(source)
        meant = resolve(target, source, now)
        place = relative_place(target, source) if markdown else None
        if place is not None and place in now:
            return self._relink_relative(target, here, place, as_well=meant == place)
        if meant is None:
            return self._relink_file(target, source, place)
        wanted = self._then(meant)
        if resolve(target, here, self._named_then(target)) == wanted:
            return target
        return _relink(target, here, wanted, self._named_then(wanted))

    def _relink_relative(self, target: str, here: str, place: str, *, as_well: bool) -> str:
        """Keep a relative path that leads to a note; ``as_well``: Obsidian takes it for that note, too."""
        wanted = self._then(place)
        path = _relative(wanted, here)
        forms = [path] if target.startswith("./") else [path.removeprefix("./"), path]
        if relative_place(target, here) == wanted:
            forms.insert(0, target)
        fitting = (
            form
            for form in forms
            if not as_well or resolve(form, here, self._named_then(form)) == wanted
        )
        return next(fitting, forms[-1])

    def _relink_file(self, target: str, source: str, place: str | None) -> str:
        """Keep the relative path of a note that moves, such as that of an image."""
        folder, here = source.rpartition("/")[0], self._then(source)
        if folder == here.rpartition("/")[0]:
            return target
        if target.startswith(_FIXED):
            return _relative(posixpath.join(folder, target), here)
        there = place is not None and place in self.files
        return _relative(place or "", here).removeprefix("./") if there else target

    def _then(self, path: str) -> str:
        return self.new if path == self.old else path

    def _named_then(self, target: str) -> list[str]:
        key = name_key(target)
        others = [one for one in self.named(key) if one != self.old]
        return [*others, self.new] if key == name_key(self.new) else others


def _relink(target: str, source: str, wanted: str, named: Sequence[str]) -> str | None:
    """Return a target that means the note to Obsidian, in the form of another one; None: there is none."""
    path = wanted if ENDING.search(target) else ENDING.sub("", wanted)
    if target.startswith(_FIXED):
        forms = [_relative(path, source)]
    elif target.startswith("/"):
        forms = [f"/{path}"]
    else:
        parts = path.split("/")
        ends = ["/".join(parts[at:]) for at in range(len(parts) - 1, 0, -1)]
        forms = [path] if "/" in target else [*ends, path]
    return next((form for form in forms if resolve(form, source, named) == wanted), None)


def _relative(path: str, source: str) -> str:
    made = posixpath.relpath(f"{_TOP}/{path}", f"{_TOP}/{source.rpartition('/')[0]}")
    return made if made.startswith("../") else f"./{made}"


def count_links(text: str, changes: Changes) -> int:
    """Return how many links of a text have these targets."""
    return sum(one.link in changes for one in find_links(text))


def rewrite_links(text: str, changes: Changes) -> str:
    """Return the text with other targets in its links; a link that cannot have its own stays."""
    kept, at = [], 0
    for link in find_links(text):
        if link.link not in changes:
            continue
        written = _write(link, changes[link.link], text[link.start : link.end])
        if written is None:
            continue
        kept += [text[at : link.start], written]
        at = link.end
    return "".join((*kept, text[at:]))


def _write(link: Occurrence, target: str | None, old: str) -> str | None:
    """Return a target as it stands in a text in the place of ``old``; None if no link there can have it."""
    if target is None or (link.form == "wiki" and _NOT_IN_WIKI.search(target)):
        return None
    if link.form == "wiki":
        return target
    if link.form == "angled" and "%" not in old:
        return None if _NOT_IN_ANGLES.search(target) else _as_path(target)
    encoded = old.isascii() and not unquote(old).isascii()
    return _as_path(
        "".join(
            one
            if ord(one) > _MOST_ASCII and not encoded and not one.isspace()
            else quote(one, _PLAIN)
            for one in target
        )
    )


def _as_path(written: str) -> str:
    """Encode the colon of what would be taken for an address, such as ``to: b.md``."""
    return written.replace(":", "%3A", 1) if ELSEWHERE.match(written) else written
