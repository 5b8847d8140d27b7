"""Store what notes link to, in stores with paths, and find the links of a note and those to it.

A link is kept as it is written, and resolved when somebody asks: so it is right after every rename, and a note
that appears or is hidden changes no other row. Hidden notes are not here: no link leads to one or comes from one.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from mcp_notarium.domain.characters import path_key
from mcp_notarium.domain.note import Revision
from mcp_notarium.markup.obsidian_links import (
    Changes,
    Link,
    SetMove,
    file_places,
    find_broken,
    name_key,
    resolve,
    resolve_alias,
)
from mcp_notarium.storage.database import Database


@dataclass(frozen=True, slots=True)
class LinkedNotes:
    """Hold the links of a note: each target as written with the note that it means, None if there is none.

    ``linked_from``: the notes that link to it, by path.
    """

    links: tuple[tuple[str, str | None], ...]
    linked_from: tuple[str, ...]


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

    def drop(self, pks: Sequence[int]) -> None:
        """Forget names and links of these notes."""
        keys = [(pk,) for pk in pks]
        self._db.run_many("DELETE FROM note_names WHERE pk = ?", keys)
        self._db.run_many("DELETE FROM note_links WHERE pk = ?", keys)

    def clear(self) -> None:
        """Forget all."""
        self._db.run("DELETE FROM note_names")
        self._db.run("DELETE FROM note_links")

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
        found = self._db.rows(_NAMED, (json.dumps(sorted(keys)),))
        return _Finder(found)


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
