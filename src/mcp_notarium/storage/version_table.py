"""Keep the revisions that our writes have replaced, for undo; docs/format.md says when they go.

The row of a save that only added holds no text if the store's own history has the revision: it only names it. A note that was
removed from here leaves a row with a *full copy*, if its store can make it again. A version *stays* for a day, whatever comes
later, if the change took something away (``domain/loss.py``); so do full copies. A version without room loses its text. The row
of number ``CREATION`` is no version: it says who made the note.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from mcp_notarium.domain.loss import find_taken
from mcp_notarium.domain.note import Content, Properties, Revision
from mcp_notarium.storage.authorizer import Row
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.hidden_notes import VisibilityFilter

ROW_BYTES = 300
"""Counted for each version in addition to its text, so that many small ones are limited, too."""
CREATION = 0
_COUNTED_AGAIN = 16
"""The part of the size that is kept before all versions are counted again: that takes 2 ms for 10,000."""
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class VersionLimits:
    """Limit what is kept: in days, and in bytes of all versions of all notes. 0 days: keep none.

    A process may go beyond the bytes by a sixteenth before it removes the oldest versions that need not stay.
    """

    days: int = 90
    size: int = 64 * 1024 * 1024


DEFAULT_LIMITS = VersionLimits()


@dataclass(frozen=True, slots=True)
class NoteVersion:
    """Describe a revision that a write of ours has replaced, without its text. Times are epoch seconds."""

    local_version: int
    """The number that the note had; so is the next."""
    server_version: int | None
    modified_at: float
    """Time of the revision."""
    replaced_at: float
    replaced_by: str
    """Name and version of the client that asked for the write; '' if that is not known."""
    etag: str
    made: str | None
    """The etag of the revision that the write has made; None if that has somebody else's change, too."""
    removed: bool
    """The write has removed the note, and all of it is kept."""
    change_id: str
    """The change of many notes that the write belongs to; '' if it was alone."""


@dataclass(frozen=True, slots=True)
class Makers:
    """Tell who made which revision of a note: the numbers of what was replaced, what was made, and by whom."""

    writes: list[tuple[Any, ...]] = field(default_factory=list)

    def of(self, etag: str, *, number: int | None = None) -> str:
        """Return who made a revision; '' if it was made elsewhere, or that is not known.

        Pass its ``local_version`` as ``number`` if the store makes etags of texts: an older text that is saved again has its
        older etag again. The write that made the revision is the last one before that number.
        """
        if number is None:
            return next((by for _, made, by in self.writes if made == etag), "")
        last = next(((made, by) for its, made, by in self.writes if its < number), None)
        return last[1] if last is not None and last[0] == etag else ""


@dataclass(frozen=True, slots=True)
class Removed:
    """Hold a note that was removed from here."""

    version: NoteVersion
    content: Content
    """Has the full copy as its ``native`` part."""
    tags_understood: bool


class VersionTable:
    """Hold the versions of one database. Writing methods join the caller's transaction."""

    def __init__(
        self,
        database: Database,
        limits: VersionLimits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db = database
        self.limits = limits
        self.clock = clock
        self._uncounted = limits.size

    def of(self, note_id: str) -> list[NoteVersion]:
        """Return the versions of a note, newest first; reads no text."""
        return [NoteVersion(*row) for row in self._db.rows(_OF, (note_id,))]

    def find_changed(self, change_id: str) -> list[str]:
        """Return the notes that a change of many has changed, the last one first."""
        rows = self._db.rows(_CHANGED, (change_id,)) if change_id else []
        return list(dict.fromkeys(row[0] for row in rows))

    def find_restorable(self, change_id: str) -> set[str]:
        """Return the notes of which what a change of many has replaced is here."""
        return {row[0] for row in self._db.rows(_RESTORABLE, (change_id,))}

    def makers(self, note_id: str) -> Makers:
        """Return which clients have made the revisions of a note."""
        return Makers(self._db.rows(_MAKERS, (note_id,)))

    def get(self, note_id: str, number: int) -> tuple[NoteVersion, Content | None] | None:
        """Return a version with its content (None: the store keeps it, or nobody), or None if there is none."""
        row = self._db.row(_GET, (note_id, number))
        if row is None:
            return None
        *facts, text, tags, trash, title, properties = row
        version = NoteVersion(*facts)
        if text is None:
            return version, None
        set_then = Properties.from_json(properties)
        content = Content(text, tuple(json.loads(tags)), bool(trash), title, set_then)
        return version, content

    def native(self, note_id: str, number: int) -> str:
        """Return what the version has in the store's own form; '' if that is nothing."""
        found = self._db.row(_NATIVE, (note_id, number))
        return "" if found is None or found[0] is None else found[0].decode()

    def natives_since(self, note_id: str, number: int) -> list[str]:
        """Return what this version and the newer ones have in the store's own form, the newest first."""
        return [one.decode() for (one,) in self._db.rows(_NATIVES, (note_id, number))]

    def has_room(self, size: int, *, now: float) -> bool:
        """Tell whether a version of that many bytes can be kept: there is room, and others can stay.

        The versions that writes on their way will leave count, too.
        """
        if not self.limits.days:
            return False
        room, since = self.limits.size - ROW_BYTES - size, {"since": now - DAY}
        if room >= self._db.number(_COST_OF_DAY, since):
            return True  # beside all of this day
        return room >= self._db.number(_COST_OF_STAYING, since)

    def removed(self, note_id: str) -> list[Removed]:
        """Return what is kept of the notes of this id that were removed from here, the last one first."""
        found = []
        for number, full_copy, clear in self._db.rows(_REMOVED, (note_id,)):
            kept = self.get(note_id, number)
            if kept is not None and kept[1] is not None:
                content = replace(kept[1], native=full_copy.decode())
                found.append(Removed(kept[0], content, bool(clear)))
        return found

    def full_copies(self, note_id: str) -> list[tuple[Any, ...]]:
        """Return the rows with full copies of this id, for :meth:`put_back`."""
        return self._db.rows(_FULL_COPIES, (note_id,))

    def put_back(self, rows: list[tuple[Any, ...]]) -> None:
        """Insert rows again that went with a later note of their id."""
        self._db.run_many(_KEEP, rows)

    def keep(
        self,
        replaced: Revision,
        *,
        number: int,
        at: float,
        by: str,
        made: str | None = None,
        in_store: bool = False,
        full_copy: bytes | None = None,
        native: bytes = b"",
        stays: bool = False,
        change_id: str = "",
    ) -> bool:
        """Keep a revision that a write has replaced (or made), and remove what is over the size; True if that is nothing.

        * ``number``: its ``local_version``, or ``CREATION``;
        * ``in_store``: the store keeps it under its etag;
        * ``native``: what the write has replaced, in the store's own form;
        * ``stays``: the write has taken something away.
        """
        if not self.limits.days:
            return False
        content = replaced.content
        size = len(content.text.encode())
        held = (0 if in_store else size) + len(full_copy or b"") + len(native)
        self._db.run(
            _KEEP,
            (
                *(replaced.id, number, replaced.server_version, replaced.modified_at, at, by),
                *(size, held, replaced.etag, made),
                int(replaced.tags_understood),
                *(json.dumps(content.tags), int(content.trash)),
                content.properties.json,
                *((None, None) if in_store else (content.title, content.text)),
                full_copy,
                native or None,
                int(stays or full_copy is not None),
                change_id,
            ),
        )
        self._uncounted += ROW_BYTES + held
        return self._limit_size(at)

    def keep_ours(self, notes: Iterable[tuple[int, Revision]]) -> list[tuple[int]]:
        """Keep what these notes (by their keys) say, and return those that these revisions leave saying it.

        They are what writes from here have made. One that is a version already stays as it is.
        """
        replaced: list[tuple[int, int]] = []
        same: list[tuple[int]] = []
        for pk, new in notes:
            row = self._db.row("SELECT text, title FROM notes WHERE pk = ?", (pk,))
            if row is None:
                continue
            old = Content(row[0], title=row[1])
            title = (
                old.title if new.links is not None else new.content.title
            )  # else it is its place
            now = Content(new.content.text, title=title)
            if now == old:
                same.append((pk,))
            else:
                replaced.append((int(bool(find_taken(old, now))), pk))
            self._uncounted += ROW_BYTES + len(old.text.encode())
        if replaced and self.limits.days:
            at = self.clock()
            self._db.run_many(_KEEP_OURS, [(at, stays, pk) for stays, pk in replaced])
            self._limit_size(at)
        return same

    def _limit_size(self, now: float) -> bool:
        """Remove versions beyond the size, where enough was kept since they were counted; True if there are none.

        What has no room next to those that stay goes first, then the oldest of the others.
        """
        if self._uncounted <= self.limits.size // _COUNTED_AGAIN:
            return True
        self._uncounted = 0
        if self._db.number(_COST) <= self.limits.size:
            return True
        staying = {pk for (pk,) in self._db.rows(_STAYING, {"since": now - DAY})}
        gone = _find_excess(self._db.rows(_BY_AGE), staying, self.limits.size)
        last = [key for key in gone if self._db.row(_IS_LAST, key) is not None]
        self._db.run_many(_EMPTY, last)
        self._db.run_many("DELETE FROM note_versions WHERE pk = ?", {*gone} - {*last})
        return False

    def expire(self, now: float) -> None:
        """Remove the versions that were replaced too long ago."""
        self._db.run(
            "DELETE FROM note_versions WHERE replaced_at < ?", (now - self.limits.days * DAY,)
        )

    def remove(self, note_ids: Iterable[str]) -> None:
        """Remove all versions of these notes."""
        self._db.run(_REMOVE, (json.dumps(list(note_ids)),))

    def remove_orphans(self, *, spared: Iterable[str]) -> None:
        """Remove the versions of notes that went while the index was empty; not of ``spared`` ids."""
        self._db.run(_REMOVE_ORPHANS, (json.dumps(list(spared)),))

    def remove_hidden(self, visibility: VisibilityFilter) -> None:
        """Remove the versions that the rules hide by their own id and tags."""
        rows = self._db.rows(_WITH_TEXTS if visibility.rules.hidden_properties else _LABELS)
        hidden = [
            (pk,)
            for pk, note_id, clear, tags, properties, text in rows
            if visibility.find_rule_of(
                note_id, labelled(tags, properties, text or ""), clear=bool(clear)
            )
            is not None
        ]
        self._db.run_many("DELETE FROM note_versions WHERE pk = ?", hidden)


def labelled(tags: str, properties: str, text: str) -> Content:
    """Return the content with what rules judge; a text that was given up for room has no properties any more."""
    return Content(text, tuple(json.loads(tags)), properties=Properties.from_json(properties))


def _find_excess(rows: list[Row], staying: set[int], size: int) -> list[tuple[int]]:
    """Return the keys of the rows (key and cost, oldest first) that have no room."""
    gone = []
    for pk, cost in rows:
        if pk in staying and cost <= size:  # defence: deleted-note-not-pushed-out
            size -= cost
        elif pk in staying:
            gone.append((pk,))
    room = size
    for pk, cost in reversed(rows):
        if pk not in staying and cost <= room:
            room -= cost
        elif pk not in staying:
            gone.append((pk,))
            room = room if cost > size else 0  # else all that are older go, too
    return gone


_FACTS = (
    "number, server_version, modified_at, replaced_at, replaced_by, etag, made, "
    "coalesce(length(full_copy), 0) > 0, change_id"
)
_OF = f"SELECT {_FACTS} FROM note_versions WHERE note_id = ? AND number > {CREATION} ORDER BY number DESC"  # noqa: S608 - constants of ours
_CHANGED = (
    "SELECT note_id FROM note_versions WHERE change_id = ? AND change_id <> '' ORDER BY pk DESC"
)
_RESTORABLE = "SELECT DISTINCT note_id FROM note_versions WHERE change_id = ? AND change_id <> '' AND text IS NOT NULL"
_MAKERS = """
SELECT number, made, replaced_by FROM note_versions
WHERE note_id = ? AND coalesce(length(full_copy), 0) = 0 ORDER BY number DESC
"""
_GET = f"""
SELECT {_FACTS}, text, tags, trash, title, properties FROM note_versions
WHERE note_id = ? AND number = ? AND number > {CREATION}
"""  # noqa: S608 - as above
_COLUMNS = """
note_id, number, server_version, modified_at, replaced_at, replaced_by, size, held, etag, made,
tags_understood, tags, trash, properties, title, text, full_copy, native, stays, change_id
"""
_KEEP = f"""
INSERT OR REPLACE INTO note_versions({_COLUMNS})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""  # noqa: S608 - as above
_KEEP_OURS = f"""
INSERT OR IGNORE INTO note_versions({_COLUMNS})
SELECT n.id, n.local_version, n.server_version, b.modified_at, ?1, '', length(CAST(n.text AS BLOB)),
       length(CAST(n.text AS BLOB)), b.etag, NULL, b.tags_understood, n.tags, n.trash, n.properties, n.title,
       n.text, NULL, NULL, ?2, ''
FROM notes n JOIN note_base b ON b.pk = n.pk
WHERE n.pk = ?3
"""  # noqa: S608 - as above
_FULL_COPIES = f"SELECT {_COLUMNS} FROM note_versions WHERE note_id = ? AND full_copy IS NOT NULL"  # noqa: S608 - as above
_COST_OF_ONE = f"{ROW_BYTES} + held"
_COST = f"SELECT sum({_COST_OF_ONE}) FROM note_versions INDEXED BY note_versions_age"  # noqa: S608 - constants of ours
_BY_AGE = f"SELECT pk, {_COST_OF_ONE} FROM note_versions INDEXED BY note_versions_age ORDER BY replaced_at, pk"  # noqa: S608 - as above
_STAY = "FROM note_versions INDEXED BY note_versions_age WHERE replaced_at > :since AND stays"
"""Those that stay."""
_STAYING = f"SELECT pk {_STAY}"
_COST_TO_COME = f"""
SELECT coalesce(sum({ROW_BYTES} + length(CAST(n.text AS BLOB)) + iif(j.kind = 'delete', length(j.body),
       coalesce(length(j.replaced), length(b.raw), 0))), 0)
FROM journal j JOIN notes n ON n.id = j.note_id JOIN note_base b ON b.pk = n.pk
WHERE j.state = 'in_flight' AND j.kind <> 'create'
"""  # noqa: S608 - as above
"""Bytes that the unfinished writes may need, also those that only add."""
_COST_OF_DAY = f"""
SELECT ({_COST_TO_COME}) + coalesce(sum({_COST_OF_ONE}), 0) FROM note_versions WHERE replaced_at > :since
"""  # noqa: S608 - as above
_COST_OF_STAYING = f"SELECT ({_COST_TO_COME}) + coalesce(sum({_COST_OF_ONE}), 0) {_STAY}"
_IS_LAST = """
SELECT 1 FROM note_versions AS one WHERE pk = ? AND text IS NOT NULL AND full_copy IS NULL
AND number = (SELECT max(number) FROM note_versions WHERE note_id = one.note_id)
"""
_EMPTY = "UPDATE note_versions SET title = NULL, text = NULL, native = NULL, held = 0, stays = 0 WHERE pk = ?"
_NATIVE = "SELECT native FROM note_versions WHERE note_id = ? AND number = ?"
_NATIVES = """
SELECT native FROM note_versions WHERE note_id = ? AND number >= ? AND native IS NOT NULL ORDER BY number DESC
"""
_REMOVE = "DELETE FROM note_versions WHERE note_id IN (SELECT value FROM json_each(?))"
_REMOVE_ORPHANS = """
DELETE FROM note_versions
WHERE note_id NOT IN (SELECT id FROM notes) AND note_id NOT IN (SELECT value FROM json_each(?))
AND full_copy IS NULL
"""
_REMOVED = """
SELECT number, full_copy, tags_understood FROM note_versions
WHERE note_id = ? AND full_copy IS NOT NULL ORDER BY number DESC
"""
_LABELS = "SELECT pk, note_id, tags_understood, tags, properties, NULL FROM note_versions"
_WITH_TEXTS = "SELECT pk, note_id, tags_understood, tags, properties, text FROM note_versions"
