"""Find the links that a new name of a note would break, and write others in their place. Pure.

A link breaks if it means no note afterwards, or another one: also a link to a third note, whose name the renamed
one gets. Such a link gets another target, in the form that it had. Every other character of a text stays.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote, unquote

from mcp_notarium.domain.note_links import (
    ENDING,
    Occurrence,
    find_links,
    name_key,
    place_of,
    resolve,
)

Changes = Mapping[str, str | None]
"""Target as written -> the one that it is to become; None: no link can have that."""
_FIXED = ("./", "../")
_NOT_IN_WIKI = re.compile(r"[\[\]|#\n]")
_NOT_IN_ANGLES = re.compile(r"[<>#%\n]")
_PLAIN = "/!$&'*+,;=:@~"
_MOST_ASCII = 127


def find_broken(
    links: Iterable[tuple[str, str]],
    *,
    old: str,
    new: str,
    named: Callable[[str], Sequence[str]],
) -> dict[str, dict[str, str | None]]:
    """Return what the targets of links must become if a note's path changes; by the path of the note they stand in.

    ``links``: path and target of each; of the note itself under its ``old`` path. ``named``: the notes whose name has
    a key, now.
    """
    broken: dict[str, dict[str, str | None]] = {}

    def named_then(key: str) -> list[str]:
        others = [one for one in named(key) if one != old]
        return [*others, new] if key == name_key(new) else others

    for source, target in links:
        here, key = new if source == old else source, name_key(target)
        meant = resolve(target, source, named(key))
        wanted = new if meant == old else meant
        if wanted is not None and resolve(target, here, named_then(key)) != wanted:
            changed = _relink(target, here, wanted, named_then(name_key(wanted)))
            broken.setdefault(source, {})[target] = changed
        elif wanted is None and (moved := _moved_file(target, source, here)) != target:
            broken.setdefault(source, {})[target] = moved
    return broken


def _relink(target: str, source: str, wanted: str, named: Sequence[str]) -> str | None:
    """Return a target that means the note, in the form of another one; None: there is none."""
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


def _moved_file(target: str, source: str, here: str) -> str:
    """Return a relative target of a note that moves, such as an image: it means the same place from there."""
    place = place_of(target, source.rpartition("/")[0]) if target.startswith(_FIXED) else None
    if place is None or source.rpartition("/")[0] == here.rpartition("/")[0]:
        return target
    return _relative(place, here)


def _relative(path: str, source: str) -> str:
    made = posixpath.relpath(f"/{path}", f"/{source.rpartition('/')[0]}")
    return made if made.startswith("../") else f"./{made}"


def count_links(text: str, changes: Changes) -> int:
    """Return how many links of a text have these targets."""
    return sum(one.target in changes for one in find_links(text))


def rewrite_links(text: str, changes: Changes) -> tuple[str, int]:
    """Return the text with other targets in its links, and how many were to change and could not."""
    kept, at, left = [], 0, 0
    for link in find_links(text):
        if link.target not in changes:
            continue
        written = _write(link, changes[link.target], text[link.start : link.end])
        if written is None:
            left += 1
            continue
        kept += [text[at : link.start], written]
        at = link.end
    return "".join((*kept, text[at:])), left


def _write(link: Occurrence, target: str | None, old: str) -> str | None:
    """Return a target as it stands in a text in the place of ``old``; None if no link there can have it."""
    if target is None or (link.form == "wiki" and _NOT_IN_WIKI.search(target)):
        return None
    if link.form == "wiki":
        return target
    if link.form == "angled" and "%" not in old:
        return None if _NOT_IN_ANGLES.search(target) else target
    encoded = old.isascii() and not unquote(old).isascii()
    return "".join(
        one if ord(one) > _MOST_ASCII and not encoded and not one.isspace() else quote(one, _PLAIN)
        for one in target
    )
