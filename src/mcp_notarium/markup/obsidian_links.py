"""Read links in Markdown by Obsidian's rules, and write others where a new name of a note would break them. Pure.

To Obsidian a link names a note by its path, by the end of it, or by its name alone: ``[[Plan]]``,
``![[Work/Plan#Costs|costs]]``, ``[costs](../Work/Plan.md)``, ``[costs]: ../Work/Plan.md`` (``resolve``). To other
programs a Markdown link is a path from the folder of its note (``relative_place``). What stands in code is no link.

A link breaks if it means no note afterwards, or another one: also a link to a third note, whose name the renamed
one gets. A Markdown link that leads to its file as a relative path leads there afterwards, too; every other link
means what it means to Obsidian. Such a link gets another target, in the form that it had. Every other character of a
text stays.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from urllib.parse import quote, unquote

from mcp_notarium.domain.characters import path_key, replace_surrogates
from mcp_notarium.markup.code_parts import without_code

Link = tuple[str, bool] | tuple[str, bool, str]
"""A target as written, and whether it stands in a Markdown link, not in a wikilink; perhaps what is written behind its ``#``."""
MOST = 1000
"""Links of one note, each target once, that are looked at."""
_LONGEST = 1024
_WIKI = r"\[\[(?P<wiki>[^\[\]|#\n]*)[^\[\]\n]*\]\]"
_TITLE = r"""\s{1,9}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'|\([^()\n]{0,300}\))"""
_INLINE = (
    r"\]\((?:<(?P<angled>[^<>\n]*)>|(?P<bare>[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*))"
    rf"(?:{_TITLE})?\)"
)
_DEFINITION = (
    r"^(?:\s*>)*\s{0,3}\[(?!\^)[^\[\]\n]+\]:\s{1,9}(?:<(?P<named_angled>[^<>\n]+)>|(?P<named_bare>[^\s<>]+))"
    rf"(?:{_TITLE})?\s*$"
)
"""``[1]: target``, for links such as ``[shown][1]``; not a footnote."""
_LINK = re.compile(f"{_DEFINITION}|{_WIKI}|{_INLINE}")
_PART = re.compile(r"\s*#([^|\[\]<>()\n\"']+?)(?=\]\]|[|>)]|\s+[\"'(]|$)")
"""Part of its note that a link means, behind the target."""
_BEGINNINGS = ("[[", "](", "]:")
_ESCAPED_BRACKET = re.compile(r"(\\\\)|\\\[[^\[\]\n]*\](?=\()|\\[\[\]]")
"""Also the other bracket of a Markdown link whose first one is escaped; not one behind two backslashes."""
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)
"""Beginning of a target that is no file of the vault."""
_FENCE = re.compile(r"\s*(?:>\s*)*(`{3,}|~{3,})")
_INDENTED = re.compile(r"(?: {0,3}\t| {4})")
_ITEM = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|\Z)")
ENDING = re.compile(r"\.(md|markdown)\Z", re.IGNORECASE)


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
    for link in find_links(text):
        found.setdefault(link.target)
        if len(found) == MOST:
            break
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Hold a link of a text: its target, where that is written, and how: ``wiki``, ``angled`` or ``bare``."""

    target: str
    start: int
    end: int
    form: str
    part: str = ""
    """Text behind its ``#``, from ``part_start`` on; '' if it has none."""
    part_start: int = 0

    @property
    def link(self) -> Link:
        """Return what tells it from links that mean something else."""
        return self.target, self.form != "wiki"

    @property
    def whole(self) -> Link:
        """Return the same with the part of the note that is meant."""
        return self.target, self.form != "wiki", self.part


def find_links(text: str, *, within: bool = False) -> Iterator[Occurrence]:
    """Yield the links of a text, in order; ``within``: also those to parts of the same note, whose target is ''."""
    if not any(one in text for one in _BEGINNINGS):
        return
    for place, line in _prose(text):
        for link in _LINK.finditer(line):
            group = link.lastgroup or ""
            form, written = group.removeprefix("named_"), link[group]
            if form == "wiki":
                target = shown = (
                    written.strip().removesuffix("\\").rstrip()
                )  # a table escapes the bar behind it
            elif ELSEWHERE.match(written) and not (within and written.startswith("#")):
                continue
            else:
                shown = written.partition("#")[0].strip()
                target = unquote(_ESCAPED.sub(r"\1", shown), errors="replace").strip()
            at = link.start(group) + written.index(shown)
            found = _PART.match(line, at + len(shown), link.end())
            part = found[1].rstrip("\\") if found else ""
            if 0 < len(target) <= _LONGEST or (within and part and not target):
                start, begins = place + at, place + (found.start(1) if found else 0)
                yield Occurrence(target, start, start + len(shown), form, part, begins)


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that may have links, each with its place in the text; code and escaped brackets are blank."""
    fence, place, after_blank, in_list = "", 0, True, False
    for line in text.split("\n"):
        opened = _FENCE.match(line)
        blank, indented = not line.strip(), _INDENTED.match(line) is not None
        in_list = _ITEM.match(line) is not None or (in_list and (blank or line[:1].isspace()))
        code = indented and after_blank and not in_list
        if fence:
            if opened and opened[1].startswith(fence):
                fence = ""
        elif code:
            pass
        elif opened:
            fence = opened[1]
        elif any(one in line for one in _BEGINNINGS):
            prose = without_code(line) if "`" in line else line
            yield place, _without_escaped(prose) if "\\" in prose else prose
        place += len(line) + 1
        after_blank = blank or code


def _without_escaped(line: str) -> str:
    """Return the line with blanks in the place of brackets that begin or end no link."""
    return _ESCAPED_BRACKET.sub(lambda found: found[1] or " " * len(found[0]), line)


def name_key(path: str) -> str:
    """Return what a link and its note have in common: the name without folders and ending."""
    return _stem_key(path).rpartition("/")[2]


def _stem_key(path: str) -> str:
    return path_key(ENDING.sub("", path))


def resolve(target: str, source: str, candidates: Iterable[str]) -> str | None:
    """Return which of the notes of the target's name a link in ``source`` means; None: none of them.

    A path that begins with ``/``, ``./`` or ``../`` means that one place. Any other means the note whose whole path
    it is, else one whose path ends so: one below the folder of the source first, then the shortest path.
    """
    folder = source.rpartition("/")[0]
    place = place_of(target, folder)
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


def relative_place(target: str, source: str) -> str | None:
    """Return the path from the top to which a Markdown link leads as a relative path; None if it lies outside."""
    folder = source.rpartition("/")[0]
    return None if target.startswith("/") else place_of(f"./{target}", folder)


def place_of(target: str, folder: str) -> str | None:
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

    Nobody knows the form of a link, so there is an answer for either.

    * ``links``: path and target of each, those of the note itself under its ``old`` path;
    * ``named``: the notes whose name has a key, now;
    * ``files``: which of the ``file_places`` there are.
    """

    def named_then(key: str) -> list[str]:
        others = [one for one in named(key) if one != old]
        return [*others, new] if key == name_key(new) else others

    renaming = _Moving(lambda path: new if path == old else path, named_then, named, files)
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
class FolderMove:
    """Tell what links become when everything in the folder ``old`` goes to the folder ``new``, each at its place."""

    old: str
    new: str
    named: Callable[[str], Sequence[str]]
    """The notes and other files whose name has a key, now."""
    unknown_stays: bool = False
    """A target without such a name may be there all the same, and stays."""

    def place_then(self, path: str) -> str:
        """Return the path of a file afterwards."""
        return f"{self.new}{path[len(self.old) :]}" if path.startswith(f"{self.old}/") else path

    def relink(self, target: str, source: str) -> dict[Link, tuple[str | None, str]]:
        """Return what a link must become in either form, with the path that it means; nothing if it goes on to work."""
        moving = _Moving(
            self.place_then,
            lambda key: [*map(self.place_then, self.named(key))],
            self.named,
            unknown_stays=self.unknown_stays,
        )
        found: dict[Link, tuple[str | None, str]] = {}
        for markdown in (False, True):
            changed = moving.relink(target, source, markdown=markdown)
            if changed != target:
                found[target, markdown] = (
                    changed,
                    moving.find_meant(target, source, markdown=markdown),
                )
        return found


@dataclass(frozen=True, slots=True)
class SetMove:
    """Tell which links break when several notes move together."""

    then: Callable[[str], str]
    """Return the path of a note afterwards."""
    named: Callable[[str], Sequence[str]]
    """See ``FolderMove``."""

    def breaks(self, link: Link, source: str) -> bool:
        """Tell whether a link in a note must change; also if it means no note, but perhaps another file."""
        moving = _Moving(self.then, lambda key: [*map(self.then, self.named(key))], self.named)
        if not moving.find_meant(link[0], source, markdown=link[1]):
            return True
        return moving.relink(link[0], source, markdown=link[1]) != link[0]


@dataclass(frozen=True, slots=True)
class _Moving:
    """Tell what links become when notes move: each to the place ``then``."""

    then: Callable[[str], str]
    named_then: Callable[[str], Sequence[str]]
    """The same afterwards."""
    named: Callable[[str], Sequence[str]]
    """The notes whose name has a key, now."""
    files: AbstractSet[str] = frozenset()
    """See ``find_broken``."""
    unknown_stays: bool = False
    """See ``FolderMove``."""

    def find_meant(self, target: str, source: str, *, markdown: bool) -> str:
        """Return the path that a link means now; '' if it means none."""
        now = self.named(name_key(target))
        place = relative_place(target, source) if markdown else None
        return place if place is not None and place in now else resolve(target, source, now) or ""

    def relink(self, target: str, source: str, *, markdown: bool) -> str | None:
        """Return the target that a link is to have: its own, unless it would break; None: no link can have it."""
        now, here = self.named(name_key(target)), self.then(source)
        meant = resolve(target, source, now)
        place = relative_place(target, source) if markdown else None
        if place is not None and place in now:
            return self._relink_relative(target, here, place, as_well=meant == place)
        if meant is None:
            return self._relink_file(target, source, place)
        wanted = self.then(meant)
        if resolve(target, here, self._named_then(target)) == wanted:
            return target
        return _relink(target, here, wanted, self._named_then(wanted))

    def _relink_relative(self, target: str, here: str, place: str, *, as_well: bool) -> str:
        """Keep a relative path that leads to a note; ``as_well``: Obsidian takes it for that note, too."""
        wanted = self.then(place)
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
        folder, here = source.rpartition("/")[0], self.then(source)
        if folder == here.rpartition("/")[0]:
            return target
        lead = place_of(target, folder) if target.startswith(_FIXED) else place
        stays = self.unknown_stays and target.startswith(_FIXED)
        if lead is not None and self.then(lead) != lead and not stays:
            return target  # what it would lead to moves as well
        if target.startswith(_FIXED):
            return _relative(posixpath.join(folder, target), here)
        there = place is not None and place in self.files
        return _relative(place or "", here).removeprefix("./") if there else target

    def _named_then(self, target: str) -> Sequence[str]:
        return self.named_then(name_key(target))


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


def settled(changes: Changes) -> dict[Link, str | None]:
    """Return the changes that can be made twice: without those whose outcome is itself a link that changes."""
    return {
        link: target
        for link, target in changes.items()
        if target is not None and (target, link[1]) not in changes
    }


def count_links(text: str, changes: Changes) -> int:
    """Return how many links of a text have these targets."""
    return sum(one.link in changes or one.whole in changes for one in find_links(text, within=True))


def rewrite_links(text: str, changes: Changes) -> str:
    """Return the text with other targets, or other parts of them, in its links; a link that cannot have its own stays."""
    kept, at = [], 0
    for start, end, written in find_edits(text, changes):
        kept += [text[at:start], written]
        at = end
    return "".join((*kept, text[at:]))


def find_edits(text: str, changes: Changes) -> Iterator[tuple[int, int, str]]:
    """Yield what changes in the links of a text: from where to where, and what is written there."""
    for link in find_links(text, within=True):
        start, end = link.start, link.end
        if link.link in changes:
            written = _write(link, changes[link.link], text[start:end])
        elif link.whole in changes:
            written, start = changes[link.whole], link.part_start
            end = start + len(link.part)
        else:
            continue
        if written is not None:
            yield start, end, written


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
