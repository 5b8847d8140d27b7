"""Store what notes link to, in stores with paths; find the links of a note, broken links and orphans.

A link is kept as it is written, and resolved when somebody asks: so it is right after every rename, and a note
that appears or is hidden changes no other row. Hidden notes are not here: no link leads to one or comes from one. Notes in the trash do
not count as linked.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from operator import itemgetter

from mcp_notarium.domain.characters import path_key
from mcp_notarium.domain.note import Revision
from mcp_notarium.markup.obsidian_links import (
    Changes,
    FolderMove,
    Link,
    SetMove,
    file_places,
    find_broken,
    name_key,
    relative_place,
    resolve,
    resolve_alias,
)
from mcp_notarium.storage.database import Database

_SLICE = 1000
"""Links or notes looked at at once: other calls are answered in between."""


@dataclass(frozen=True, slots=True)
class LinkedNotes:
    """Hold the links of a note: each target as written with the note that it means, None if there is none."""

    links: tuple[tuple[str, str | None], ...]
    linked_from: tuple[str, ...]
    """The notes that link to it, by path."""


class NoteLinks:
    """Hold the links of one database. Writing methods run inside a transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def put(self, notes: Iterable[tuple[int, Revision]]) -> None:
        """Store names and links of notes that have none yet; of a store without paths nothing."""
        names: list[tuple[str, str, int]] = []
        links: list[tuple[int, int, str, str]] = []
        for pk, revision in notes:
            if (found := revision.links) is None:
                continue
            names += ((kind, key, pk) for kind, key in _names_of(revision.id))
            names += (("alias", path_key(alias), pk) for alias in found.aliases)
            links += ((pk, at, one, name_key(one)) for at, one in enumerate(found.targets))
        self._db.run_many(_PUT_NAME, names)
        self._db.run_many(_PUT_LINK, links)

    def rename(self, note_id: str) -> None:
        """Give a note that has names here those of the id that it has now."""
        for kind, key in _names_of(note_id):
            self._db.run(_RENAME, {"key": key, "kind": kind, "id": note_id})

    def of(self, note_id: str) -> LinkedNotes:
        """Return the links of a note, and those to it."""
        targets = [row[0] for row in self._db.rows(_TARGETS, (note_id,))]
        own = [row[0] for row in self._db.rows(_OWN_KEYS, (note_id,))]
        sources = self._db.rows(_SOURCES, (json.dumps(own),))
        find = self._finder({*map(name_key, targets), *(name_key(row[1]) for row in sources)})
        return LinkedNotes(
            tuple((target, find(target, note_id)) for target in targets),
            tuple(
                dict.fromkeys(
                    source
                    for source, target in sources
                    if source != note_id and find(target, source) == note_id
                )
            ),
        )

    def find_sources(self, path: str) -> list[tuple[str, str]]:
        """Return target and note of each link that may lead to a file of this name, but for notes in the trash."""
        rows = self._db.rows(_SOURCES, (json.dumps([name_key(path)]),))
        return [(target, source) for source, target in rows]

    def find_file_places(self, note_id: str) -> set[str]:
        """Return the places to which links of a note may lead, except those of notes."""
        return file_places((row[0] for row in self._db.rows(_TARGETS, (note_id,))), note_id)

    def find_broken(
        self,
        old: str,
        new: str,
        *,
        files: AbstractSet[str] = frozenset(),
        others: Iterable[tuple[str, str]] | None = None,
    ) -> dict[str, dict[Link, str | None]]:
        """Return what links must become if the path of a note changes; see ``obsidian_links.find_broken``.

        ``others``: links that are not those of notes, which are followed then. Those in the trash are left alone, and aliases
        mean nothing: other programs do not follow them.
        """
        keys = sorted({name_key(old), name_key(new)})
        if others is None:
            own = [(old, row[0]) for row in self._db.rows(_TARGETS, (old,))]
            others = [*own, *self._db.rows(_SOURCES, (json.dumps(keys),))]
        links = dict.fromkeys(others)
        named = self._names({*keys, *(name_key(target) for _, target in links)})
        return find_broken(
            links, old=old, new=new, named=lambda key: named.get(key, ()), files=files
        )

    def still_broken(
        self, broken: Mapping[str, Changes], moves: Mapping[str, str]
    ) -> dict[str, Changes]:
        """Return of such changes those of links that break also if all these notes move, each from one path to another.

        Some of them may have moved already.
        """
        back = {new: old for old, new in moves.items()}
        named = self._names({name_key(link[0]) for changes in broken.values() for link in changes})

        def named_before(key: str) -> list[str]:
            return [back.get(one, one) for one in named.get(key, ())]

        move = SetMove(lambda path: moves.get(path, path), named_before)
        return {
            source: left
            for source, changes in broken.items()
            if (
                left := {
                    link: target
                    for link, target in changes.items()
                    if move.breaks(link, back.get(source, source))
                }
            )
        }

    def find_moved(self, source: str, targets: Iterable[str]) -> dict[Link, str | None]:
        """Return what links of a note must become that lead to no note now, and led to one that has another path by now."""
        targets_of: dict[str, list[str]] = defaultdict(list)
        for target in targets:
            targets_of[name_key(target)].append(target)
        moved = [row for row in self._db.rows(_MOVED) if name_key(row[0]) in targets_of]
        named = self._names({name_key(one) for row in moved for one in row})
        changes: dict[Link, str | None] = {}
        for before, now in moved:
            key = name_key(before)
            then = {one: [*named.get(one, ())] for one in (key, name_key(now))}
            then[name_key(now)].remove(now)
            then[key].append(before)
            links = [(source, target) for target in targets_of[key]]
            broken = find_broken(links, old=before, new=now, named=then.__getitem__)
            changes |= broken.get(source, {})
        return changes

    def _names(self, keys: Iterable[str]) -> dict[str, list[str]]:
        named: dict[str, list[str]] = defaultdict(list)
        for kind, key, note_id in self._db.rows(_NAMED, (json.dumps(sorted(keys)),)):
            if kind == "name":
                named[key].append(note_id)
        return named

    def _finder(self, keys: set[str]) -> _Finder:
        return _Finder(self._db.rows(_NAMED, (json.dumps(sorted(keys)),)))


class _Finder:
    """Find the note that a link means, among the notes of these names and aliases."""

    def __init__(self, rows: Iterable[tuple[str, str, str]]) -> None:
        self._named: dict[tuple[str, str], list[str]] = defaultdict(list)
        for kind, key, note_id in rows:
            self._named[kind, key].append(note_id)

    def __call__(self, target: str, source: str) -> str | None:
        found = resolve(target, source, self._named.get(("name", name_key(target)), ()))
        return found or resolve_alias(target, self._named.get(("alias", path_key(target)), ()))


def _names_of(path: str) -> tuple[tuple[str, str], ...]:
    return (("path", path_key(path)), ("name", name_key(path)))


_PUT_NAME = "INSERT OR IGNORE INTO note_names(kind, key, pk) VALUES (?, ?, ?)"
_PUT_LINK = "INSERT OR IGNORE INTO note_links(pk, place, target, key) VALUES (?, ?, ?, ?)"
_RENAME = """
UPDATE note_names SET key = :key
WHERE kind = :kind AND pk = (SELECT pk FROM notes WHERE id = :id)
"""
_TARGETS = """
SELECT l.target FROM note_links l WHERE l.pk = (SELECT pk FROM notes WHERE id = ?) ORDER BY l.place
"""
_OWN_KEYS = """
SELECT key FROM note_names
WHERE kind IN ('name', 'alias') AND pk = (SELECT pk FROM notes WHERE id = ? AND trash = 0)
"""
_SOURCES = """
SELECT n.id, l.target
FROM json_each(?) AS wanted CROSS JOIN note_links l ON l.key = wanted.value
CROSS JOIN notes n ON n.pk = l.pk AND n.trash = 0
ORDER BY n.id
"""
_MOVED = """
SELECT a.alias, max(n.id) FROM note_aliases a JOIN notes n ON n.pk = a.pk AND n.trash = 0
WHERE a.alias NOT IN (SELECT id FROM notes) GROUP BY a.alias HAVING count(*) = 1 ORDER BY a.alias
"""
_NAMED = """
SELECT m.kind, m.key, n.id
FROM json_each(?) AS wanted
CROSS JOIN note_names m ON m.kind IN ('name', 'alias') AND m.key = wanted.value
CROSS JOIN notes n ON n.pk = m.pk AND n.trash = 0
"""


@dataclass(slots=True)
class Survey:
    """Hold what is found."""

    broken: list[tuple[str, str]] = field(default_factory=list)
    """Note and target as written."""
    canvases: list[tuple[str, str]] = field(default_factory=list)
    """The same as ``broken`` for what canvases show, from the top, and what their texts link to."""
    orphans: list[str] = field(default_factory=list)
    unlinked: list[str] = field(default_factory=list)
    """The files that no link means."""


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
    """Hold what links must become if a folder moves: of each note, the new target and the path that it means."""

    inside: Sequence[str]
    """The notes in the folder."""
    links: dict[str, dict[Link, tuple[str | None, str]]] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)
    """The files in the folder that notes in it show or link to."""
    moved: set[str] = field(default_factory=set)
    """The former paths of notes that an earlier call has moved already; links to them are of that time."""
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
    unknown_stays: bool,
) -> Iterator[None]:
    """Fill ``found`` with what changes if the folder ``old`` becomes ``new``, a slice at each step.

    ``unknown_stays``: see ``FolderMove``.
    """
    names = _Names(database, files)
    found.moved = names.put_back(database, old, new)
    move = FolderMove(old, new, names.named, unknown_stays)
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


class _Names(_Finder):
    """Know what links may mean: all notes outside the trash by name and alias, and other files by name."""

    def __init__(self, database: Database, files: Iterable[str]) -> None:
        super().__init__(database.rows(_NAMES))
        self.files = {*files}
        self.linked: set[str] = set()
        """The notes that link to another one, or to which one links."""
        self.used: set[str] = set()
        self._files: dict[str, list[str]] = defaultdict(list)
        for path in self.files:
            self._files[name_key(path)].append(path)

    def put_back(self, database: Database, old: str, new: str) -> set[str]:
        """Know notes that have gone from one folder to the other by their former paths; return these."""
        there = {note_id for ids in self._named.values() for note_id in ids}
        gone: dict[str, str] = {
            note_id: alias
            for alias, note_id in database.rows(_FORMER, (f"{old}/", f"{old}0"))
            if note_id == f"{new}{alias[len(old) :]}" and alias not in there
        }
        self._named.update(
            {key: [gone.get(one, one) for one in ids] for key, ids in self._named.items()}
        )
        return {*gone.values()}

    def follow(self, target: str, source: str) -> bool:
        """Follow a link; False: it leads nowhere."""
        meant = self(target, source)
        if meant is None:
            file = self.find_file(target, source)
            self.used |= set() if file is None else {file}
            return file is not None
        self.linked |= set() if meant == source else {meant, source}
        return True

    def named(self, key: str) -> list[str]:
        """Return the notes and other files whose name has a key."""
        return [*self._named.get(("name", key), ()), *self._files.get(key, ())]

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
