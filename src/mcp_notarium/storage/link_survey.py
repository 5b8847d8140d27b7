"""Follow all links of a store with paths at once: what links to nothing, and what nothing links to.

Hidden notes are not in the index, so a link to one leads nowhere. Notes in the trash do not count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from mcp_notarium.domain.characters import path_key
from mcp_notarium.markup.obsidian_links import (
    FolderMove,
    Link,
    name_key,
    relative_place,
    resolve,
    resolve_alias,
)
from mcp_notarium.storage.database import Database

_SLICE = 1000
"""Links or notes looked at at once: other calls are answered in between."""


@dataclass(slots=True)
class Survey:
    """Hold what is found. ``broken``: note and target as written; ``unlinked``: the files that no link means.

    ``canvases``: the same as ``broken`` for what canvases show, from the top, and what their texts link to.
    """

    broken: list[tuple[str, str]] = field(default_factory=list)
    canvases: list[tuple[str, str]] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    unlinked: list[str] = field(default_factory=list)


def survey(
    database: Database,
    found: Survey,
    *,
    files: Iterable[str],
    canvases: Mapping[str, Sequence[str]],
) -> Iterator[None]:
    """Fill ``found``, a slice at each step. ``files``: those that are no notes; ``canvases``: what each shows or links to."""
    names = _Names(database, files)
    for canvas, targets in canvases.items():
        found.canvases += [(canvas, one) for one in targets if not names.follow(one, canvas)]
    after = (-1, -1)
    while rows := database.rows(_LINKS, (*after, _SLICE)):
        found.broken += [
            (source, target) for *_, source, target in rows if not names.follow(target, source)
        ]
        after = (rows[-1][0], rows[-1][1])
        yield
    last = 0
    while ids := database.rows(_IDS, (last, _SLICE)):
        found.orphans += [note_id for _, note_id in ids if note_id not in names.linked]
        last = ids[-1][0]
        yield
    found.broken.sort(key=itemgetter(0))
    found.orphans.sort()
    found.unlinked = sorted(names.files - names.used)


@dataclass(slots=True)
class MoveSurvey:
    """Hold what links must become if a folder moves: of each note, the new target and the path that it means.

    ``inside``: the notes in the folder. ``shown``: the files in the folder that notes in it show or link to. ``moved``: the former paths of notes that an earlier
    call has moved already; links to them are of that time.
    """

    inside: Sequence[str]
    links: dict[str, dict[Link, tuple[str | None, str]]] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    canvases: dict[str, dict[Link, tuple[str | None, str]]] = field(default_factory=dict)
    """The same as ``links`` for the texts of canvases."""


def survey_move(
    database: Database,
    found: MoveSurvey,
    *,
    old: str,
    new: str,
    files: Iterable[str],
    canvases: Mapping[str, Iterable[Link]],
) -> Iterator[None]:
    """Fill ``found`` with what changes if the folder ``old`` becomes ``new``, a slice at each step."""
    names = _Names(database, files)
    found.moved = names.put_back(database, old, new)
    move = FolderMove(old, new, names.named)
    inside = f"{old}/"
    for canvas, links in canvases.items():
        for link in dict.fromkeys(links):
            if link in (changed := move.relink(link[0], canvas)):
                found.canvases.setdefault(canvas, {})[link] = changed[link]
    after = (-1, -1)
    while rows := database.rows(_LINKS, (*after, _SLICE)):
        for *_, source, target in rows:
            is_inside = source.startswith(inside)
            if not is_inside and not any(
                one.startswith(inside) for one in names.named(name_key(target))
            ):
                continue
            if changed := move.relink(target, source):
                found.links.setdefault(source, {}).update(changed)
            file = names.find_file(target, source) if is_inside else None
            if file is not None and file.startswith(inside):
                found.shown.add(file)
        after = (rows[-1][0], rows[-1][1])
        yield


class _Names:
    """Know what links may mean: all notes outside the trash by name and alias, and other files by name."""

    def __init__(self, database: Database, files: Iterable[str]) -> None:
        self.files = {*files}
        self.linked: set[str] = set()
        """The notes that link to another one, or to which one links."""
        self.used: set[str] = set()
        self._notes: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._files: dict[str, list[str]] = defaultdict(list)
        for kind, key, note_id in database.rows(_NAMES):
            self._notes[kind, key].append(note_id)
        for path in self.files:
            self._files[name_key(path)].append(path)

    def put_back(self, database: Database, old: str, new: str) -> set[str]:
        """Know notes that have gone from one folder to the other by their former paths; return these."""
        there = {note_id for ids in self._notes.values() for note_id in ids}
        gone: dict[str, str] = {
            note_id: alias
            for alias, note_id in database.rows(_FORMER, (f"{old}/", f"{old}0"))
            if note_id == f"{new}{alias[len(old) :]}" and alias not in there
        }
        self._notes.update(
            {key: [gone.get(one, one) for one in ids] for key, ids in self._notes.items()}
        )
        return {*gone.values()}

    def follow(self, target: str, source: str) -> bool:
        """Follow a link; False: it leads nowhere."""
        meant = self._find(target, source)
        if meant is None:
            file = self.find_file(target, source)
            self.used |= set() if file is None else {file}
            return file is not None
        self.linked |= set() if meant == source else {meant, source}
        return True

    def named(self, key: str) -> list[str]:
        """Return the notes and other files whose name has a key."""
        return [*self._notes.get(("name", key), ()), *self._files.get(key, ())]

    def _find(self, target: str, source: str) -> str | None:
        found = resolve(target, source, self._notes.get(("name", name_key(target)), ()))
        return found or resolve_alias(target, self._notes.get(("alias", path_key(target)), ()))

    def find_file(self, target: str, source: str) -> str | None:
        """Return the file that is no note and that a link means; None if there is none."""
        place = relative_place(target, source)
        if place is not None and place in self.files:
            return place
        return resolve(target, source, self._files.get(name_key(target), ()))


def find_untagged(database: Database, *, limit: int, offset: int) -> tuple[list[str], int]:
    """Return the ids of notes outside the trash without tags, by id, and how many there are."""
    rows = database.rows(_UNTAGGED, (limit, offset))
    return [row[0] for row in rows], database.number(_UNTAGGED_COUNT)


def count_folders(database: Database) -> dict[str, tuple[int, int]]:
    """Return each folder of a note outside the trash, '' for the top: how many notes are in it, and in it or below."""
    own: dict[str, int] = defaultdict(int)
    last = 0
    while rows := database.rows(_IDS, (last, _SLICE)):
        for _, note_id in rows:
            own[note_id.rpartition("/")[0]] += 1
        last = rows[-1][0]
    below: dict[str, int] = defaultdict(int)
    for folder, notes in own.items():
        parts = folder.split("/") if folder else []
        for end in range(len(parts) + 1):
            below["/".join(parts[:end])] += notes
    return {folder: (own.get(folder, 0), below[folder]) for folder in sorted(below, key=path_key)}


_LINKS = """
SELECT l.pk, l.place, n.id, l.target FROM note_links l CROSS JOIN notes n ON n.pk = l.pk AND n.trash = 0
WHERE (l.pk, l.place) > (?, ?) ORDER BY l.pk, l.place LIMIT ?
"""
_FORMER = """
SELECT a.alias, n.id FROM note_aliases a JOIN notes n ON n.pk = a.pk AND n.trash = 0
WHERE a.alias > ? AND a.alias < ?
"""
_IDS = "SELECT pk, id FROM notes WHERE pk > ? AND trash = 0 ORDER BY pk LIMIT ?"
_NAMES = """
SELECT m.kind, m.key, n.id FROM note_names m JOIN notes n ON n.pk = m.pk AND n.trash = 0
WHERE m.kind IN ('name', 'alias')
"""
_FROM = "FROM notes n WHERE n.trash = 0 AND n.pk NOT IN (SELECT pk FROM note_tags)"
_UNTAGGED = f"SELECT n.id {_FROM} ORDER BY n.id LIMIT ? OFFSET ?"
_UNTAGGED_COUNT = f"SELECT count(*) {_FROM}"
