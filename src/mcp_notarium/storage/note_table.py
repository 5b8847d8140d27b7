"""Store and read the acknowledged notes.

``notes`` holds only what the store acknowledged and an agent may see (``hidden_notes.py``). Writes
that the store has not confirmed are in ``journal_table``. ``note_search.py`` searches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mcp_notarium.domain.note import Content, Note, Properties, Revision, Tombstone
from mcp_notarium.domain.policy import EVERYTHING, Visibility
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.fts_index import FtsIndex
from mcp_notarium.storage.hidden_notes import HiddenNote, VisibilityFilter
from mcp_notarium.storage.merge_bases import MergeBases
from mcp_notarium.storage.note_ids import CHANGED, CLEARED, COUNT, Named, NoteNames
from mcp_notarium.storage.note_links import NoteLinks
from mcp_notarium.storage.note_rows import Applied, Change, Rows, batches, rows_of
from mcp_notarium.storage.property_table import PUT_PROPERTY, PUT_TASK
from mcp_notarium.storage.version_table import VersionTable

__all__ = ["VERSION_FLOOR", "Applied", "Counts", "NoteTable"]

VERSION_FLOOR = "local_version_floor"
"""The row of ``sync_metadata`` with the lowest ``local_version`` that a note may be stored with."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Hold the numbers of notes in and out of the trash."""

    active: int
    trashed: int

    @property
    def total(self) -> int:
        """Return the number of all notes, the trash included."""
        return self.active + self.trashed


@dataclass(frozen=True, slots=True)
class _ExistingNote:
    """Hold key, version and etag of a stored note, and whether it is what a write from here has made."""

    pk: int
    local_version: int
    etag: str
    written_here: bool
    has_parts: tuple[bool, ...]
    """Tells for each of the tables of ``_PARTS`` whether rows of it are there."""


class NoteTable:
    """Hold the notes of one database. Writing methods must run inside ``Database.transaction``."""

    def __init__(
        self,
        database: Database,
        rules: Visibility = EVERYTHING,
        versions: VersionTable | None = None,
    ) -> None:
        self._db = database
        self.index = FtsIndex(database)
        self._versions = versions or VersionTable(database)
        self.merge_bases = MergeBases(database)
        self.names = NoteNames(database)
        self.links = NoteLinks(database)
        self.visibility = VisibilityFilter(database, rules)

    def get(self, note_id: str) -> Note | None:
        """Return the note as it is stored, also by an id that it had before; or None."""
        row = self._db.row(_GET, (note_id,))
        if row is None and (renamed := self.names.current(note_id)) is not None:
            row = self._db.row(_GET, (renamed,))
        if row is None:
            return None
        stored_id, ours, theirs, text, tags, trash, made, changed, title, properties = row
        known, are_set = tuple(json.loads(tags)), Properties.from_json(properties)
        return Note(
            stored_id, ours, theirs, text, known, bool(trash), made, changed, title, are_set
        )

    def base(self, note_id: str) -> Revision | None:
        """Return the revision the store acknowledged last, or None."""
        held = self.numbered_base(note_id)
        return None if held is None else held[1]

    def numbered_base(self, note_id: str) -> tuple[int, Revision] | None:
        """Return the revision the store acknowledged last with its ``local_version``, or None."""
        row = self._db.row(_BASE, (note_id,))
        if row is None:
            return None
        ours, text, tags, trash, title, properties = row[:6]
        etag, made, changed, raw, number, understood, identity = row[6:]
        known, are_set = tuple(json.loads(tags)), Properties.from_json(properties)
        content = Content(text, known, bool(trash), title, are_set)
        return ours, Revision(
            note_id, etag, content, made, changed, raw, number, bool(understood), identity
        )

    def etag(self, note_id: str) -> str | None:
        """Return the etag of the acknowledged revision, or None."""
        return self.etags([note_id]).get(note_id)

    def etags(self, ids: Sequence[str] | None = None) -> dict[str, str]:
        """Return id to etag of those of these notes that are stored; None: of every note.

        About 150 bytes each, no text is read.
        """
        if ids is None:
            return dict(self._db.rows(_ETAGS))
        return dict(self._db.rows(_ETAGS_OF, (json.dumps(list(ids)),)))

    def ids_with_text(self, text: str) -> list[str]:
        """Return the notes that say exactly this; reads the text of every note."""
        return [row[0] for row in self._db.rows("SELECT id FROM notes WHERE text = ?", (text,))]

    def last_seen_etag(self, note_id: str) -> str | None:
        """Return the etag of the last revision that came, also of a hidden note. For sync only."""
        hidden = self.visibility.hidden_notes([note_id])
        return hidden[note_id].etag if hidden else self.etag(note_id)

    def counts(self) -> Counts:
        """Return the totals that triggers keep; the cost is the same at any size."""
        row = self._db.row("SELECT active, trashed FROM note_counts")
        return Counts(*row) if row else Counts(0, 0)

    def apply(
        self, changes: Iterable[Change], *, written_here: bool = False, kept: bool = False
    ) -> Applied:
        """Store revisions and remove notes with a tombstone, in this order.

        ``written_here``: writes from here have made them; see :meth:`mark_written`. ``kept``: what they replace is a version
        already. A revision whose etag is stored already changes nothing; one that the rules hide is removed.
        Raises ``PolicyChanged`` if the index is under other rules by now, and ``RuntimeError`` outside
        a transaction: the notes and the cursor that covers them belong together.
        """
        self._require_transaction()
        self.visibility.require_match()
        done = Applied()
        for batch in batches(changes):
            done += self._apply_batch(batch, written_here=written_here, kept=kept)
        return done

    def find_hidden(self, note_ids: Iterable[str]) -> dict[str, HiddenNote]:
        """Return those of these notes that the rules hide, though they are stored."""
        bases = filter(None, map(self.base, note_ids))
        return {
            base.id: HiddenNote(base.etag, base.server_version, rule, base.identity)
            for base in bases
            if (rule := self.visibility.find_rule(base)) is not None
        }

    def hide(self, notes: Mapping[str, HiddenNote]) -> None:
        """Remove these notes and record that they are hidden; inside a transaction."""
        self._require_transaction()
        if not notes:
            return
        self.visibility.record_hidden(notes.items())
        for batch in batches(map(Tombstone, notes)):
            self._apply_admitted(batch)
        self.index.mark_terms_stale()

    def follow(self, seen: Iterable[Named]) -> None:
        """Let the rules on ids follow their notes to the names they were seen under; hide what has one.

        Call it inside a transaction, before these names are judged.
        """
        self._require_transaction()
        if names := self.visibility.names.follow(seen):
            self.visibility.require_match()
            named = self._db.rows(_NAMED, (json.dumps([*names]),))
            self.hide(self.find_hidden(row[0] for row in named))

    def clear(self) -> None:
        """Remove every note, but not their versions. Numbers given before are never given for other text."""
        self._require_transaction()
        self.visibility.require_match()
        self.visibility.clear()
        self.raise_version_floor()
        self.index.empty()
        for table in (*_PARTS, "merge_bases", "note_base", "notes"):
            self._db.run(f"DELETE FROM {table}")  # noqa: S608 - names of this module
        self._db.run(COUNT, CLEARED)
        self._db.run(COUNT, CHANGED)

    def mark_written(self, note_id: str) -> None:
        """Record that the note is what a write from here has made of it; inside a transaction."""
        self._db.run(_MARK_WRITTEN, (note_id,))

    def is_written_here(self, note_id: str) -> bool:
        """Tell whether the note is what a write from here has made of it."""
        return self._db.row(_IS_WRITTEN_HERE, (note_id,)) is not None

    def rename(self, old: str, new: str) -> None:
        """Give a note another id, and a version that neither id has had; inside a transaction.

        A late edit of the version before is merged. Nothing is changed if there is a note of the new id
        already. A note that its new id hides goes like a removed one.
        """
        self._require_transaction()
        base = self.base(old)
        if base is None:
            return
        if (rule := self.visibility.find_rule(replace(base, id=new))) is not None:
            self.hide({old: HiddenNote(base.etag, base.server_version, rule, base.identity)})
            return
        if self.names.rename(old, new):
            self.merge_bases.keep([self._db.number("SELECT pk FROM notes WHERE id = ?", (new,))])
            self.links.rename(new)
            self.renumber(new)
            self.raise_version_floor()  # for a note that takes the old id

    def renumber(self, note_id: str) -> None:
        """Give a note a version that none has had, though its etag is the same; inside a transaction."""
        held = self._db.number("SELECT local_version FROM notes WHERE id = ?", (note_id,))
        version = max(held, self._db.number(_HIGHEST)) + 1
        self._db.run("UPDATE notes SET local_version = ? WHERE id = ?", (version, note_id))
        self._db.run(_RECORD_CHANGE, {"highest": version})

    def raise_version_floor(self, *, least: int = 0) -> None:
        """Let the versions of notes stored from now on begin above ``least`` and all that were used here."""
        self._db.run(_RAISE_FLOOR, {"given": max(self._db.number(_HIGHEST), least)})

    def changes(self) -> int:
        """Return a number that another one follows whenever notes change, in any process."""
        return self._db.number(_CHANGES)

    def _require_transaction(self) -> None:
        if not self._db.in_transaction:
            msg = "notes are written inside a transaction"
            raise RuntimeError(msg)

    def _apply_batch(self, batch: dict[str, Change], *, written_here: bool, kept: bool) -> Applied:
        revisions = (one for one in batch.values() if isinstance(one, Revision))
        if named := [(one.id, one.identity) for one in revisions if one.identity]:
            self.follow(named)
        admitted = self.visibility.filter_changes(batch)
        done = self._apply_admitted(admitted, written_here=written_here, kept=kept)
        if done.removed and admitted != batch:
            self.index.mark_terms_stale()
        return done

    def _apply_admitted(
        self, batch: Mapping[str, Change], *, written_here: bool = False, kept: bool = False
    ) -> Applied:
        existing = self._find_existing(batch)
        revisions = [change for change in batch.values() if isinstance(change, Revision)]
        gone = [old.pk for id_, old in existing.items() if isinstance(batch[id_], Tombstone)]
        # Of a note that is gone or hidden nothing stays; also if the index has been emptied before.
        if removed := [id_ for id_, change in batch.items() if isinstance(change, Tombstone)]:
            self._versions.remove(removed)  # defence: hidden-versions-go
        changed = [
            (old, rows_of(revision))
            for revision in revisions
            if (old := existing.get(revision.id)) and old.etag != revision.etag
        ]
        made = [rows_of(revision) for revision in revisions if revision.id not in existing]
        if not (made or changed or gone):
            return Applied(0, 0, len(batch))
        last, floor = (self._db.row(_LAST) if made else None) or (0, 0)
        new = list(enumerate(made, last + 1))
        rewritten = [old.pk for old, _ in changed]
        with self.index.update(
            replaced=[*gone, *rewritten], written=[*(pk for pk, _ in new), *rewritten]
        ):
            given = [
                *self._update(changed, written_here=written_here, kept=kept),
                *self._insert(new, floor, written_here=written_here),
            ]
            # Last, as in a sweep: it raises the versions of notes that come after it.
            self._remove(gone)
        stored = len(new) + len(changed)
        # The highest version that is ours and not the store's survives the index.
        ours = [version for version, one in given if version > (one.revision.server_version or 0)]
        self._db.run(_RECORD_CHANGE, {"highest": max(ours, default=0)})
        return Applied(stored, len(gone), len(batch) - stored - len(gone))

    def _find_existing(self, ids: Iterable[str]) -> dict[str, _ExistingNote]:
        rows = self._db.rows(_EXISTING, (json.dumps(list(ids)),))
        return {
            note_id: _ExistingNote(pk, version, etag, written, tuple(parts))
            for note_id, pk, version, etag, written, *parts in rows
        }

    def _remove(self, pks: list[int]) -> None:
        if pks:
            self._db.run(_RAISE_FLOOR, {"given": self._db.number(_HIGHEST_OF, (json.dumps(pks),))})
            self._db.run(_DROP_QUESTIONS, (json.dumps(pks),))
        self._db.run_many("DELETE FROM notes WHERE pk = ?", [(pk,) for pk in pks])

    def _insert(
        self, new: list[tuple[int, Rows]], floor: int, *, written_here: bool
    ) -> list[tuple[int, Rows]]:
        """Store new notes; return the version of each with its rows."""
        if not new:
            return []
        numbered = [(pk, max(one.revision.server_version or 1, floor), one) for pk, one in new]
        self._db.run_many(_INSERT, [(pk, version, *one.note) for pk, version, one in numbered])
        trashed = sum(one.revision.content.trash for _, one in new)
        self._db.run(_COUNT_NEW, (len(new) - trashed, trashed))
        self._store_parts(new, written_here=written_here)
        return [(version, one) for _, version, one in numbered]

    def _update(
        self, changed: list[tuple[_ExistingNote, Rows]], *, written_here: bool, kept: bool
    ) -> list[tuple[int, Rows]]:
        """Store what has changed; return the new version of each note with its rows."""
        if not changed:
            return []
        ours: list[tuple[int]] = []
        if not kept:
            ours = self._versions.keep_ours(  # defence: replaced-own-text-kept =False
                (old.pk, one.revision) for old, one in changed if old.written_here
            )
            self.merge_bases.keep(old.pk for old, _ in changed)
        numbered = [
            (max(old.local_version + 1, one.revision.server_version or 0), old.pk, one)
            for old, one in changed
        ]
        self._db.run_many(_UPDATE, [(version, *one.note, pk) for version, pk, one in numbered])
        rows_by_pk = [(old.pk, one) for old, one in changed]
        for table in _PARTS:
            place = _PARTS.index(table)
            gone = [(old.pk,) for old, _ in changed if old.has_parts[place]]
            self._db.run_many(f"DELETE FROM {table} WHERE pk = ?", gone)  # noqa: S608 - as above
        self._store_parts(rows_by_pk, written_here=written_here)
        self._db.run_many("UPDATE note_base SET written_here = 1 WHERE pk = ?", ours)
        return [(version, one) for version, _, one in numbered]

    def _store_parts(self, rows_by_pk: list[tuple[int, Rows]], *, written_here: bool) -> None:
        written = int(written_here)
        self._db.run_many(_PUT_BASE, [(pk, *one.base, written) for pk, one in rows_by_pk])
        self._db.run_many(_PUT_TAG, [(pk, *tag) for pk, one in rows_by_pk for tag in one.tags])
        listed = [(pk, *row) for pk, one in rows_by_pk for row in one.properties]
        self._db.run_many(PUT_PROPERTY, listed)
        self._db.run_many(PUT_TASK, [(pk, *row) for pk, one in rows_by_pk for row in one.tasks])
        if linked := [row for row in rows_by_pk if row[1].revision.links is not None]:
            self.links.put((pk, one.revision) for pk, one in linked)


_GET = """
SELECT id, local_version, server_version, text, tags, trash, created_at, modified_at, title, properties
FROM notes WHERE id = ?
"""
_BASE = """
SELECT n.local_version, n.text, n.tags, n.trash, n.title, n.properties, b.etag, b.created_at, b.modified_at,
       b.raw, n.server_version, b.tags_understood, b.identity
FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ?
"""
_ETAGS = "SELECT n.id, b.etag FROM notes n JOIN note_base b ON b.pk = n.pk"
_ETAGS_OF = """
SELECT n.id, b.etag
FROM json_each(?) AS wanted
CROSS JOIN notes n ON n.id = wanted.value
CROSS JOIN note_base b ON b.pk = n.pk
"""
_MARK_WRITTEN = """
UPDATE note_base SET written_here = 1 WHERE pk = (SELECT pk FROM notes WHERE id = ?)
"""
_IS_WRITTEN_HERE = """
SELECT 1 FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ? AND b.written_here
"""
_PARTS = ("note_tags", "note_properties", "note_tasks", "note_names", "note_links")
# At the end in the order of _PARTS.
_EXISTING = """
SELECT n.id, n.pk, n.local_version, b.etag, b.written_here,
       EXISTS (SELECT 1 FROM note_tags p WHERE p.pk = n.pk),
       EXISTS (SELECT 1 FROM note_properties p WHERE p.pk = n.pk),
       EXISTS (SELECT 1 FROM note_tasks p WHERE p.pk = n.pk),
       EXISTS (SELECT 1 FROM note_names p WHERE p.pk = n.pk),
       EXISTS (SELECT 1 FROM note_links p WHERE p.pk = n.pk)
FROM json_each(?) AS wanted
CROSS JOIN notes n ON n.id = wanted.value
CROSS JOIN note_base b ON b.pk = n.pk
"""
_NAMED = """
SELECT n.id FROM json_each(?) AS wanted CROSS JOIN notes n ON n.id = wanted.value
UNION
SELECT n.id FROM json_each(?1) AS wanted
CROSS JOIN note_base b ON b.identity = wanted.value CROSS JOIN notes n ON n.pk = b.pk
"""
_CHANGES = "SELECT CAST(value AS INTEGER) FROM sync_metadata WHERE key = 'notes.changes'"
_LAST = """
SELECT coalesce((SELECT max(pk) FROM notes), 0),
       coalesce((SELECT CAST(value AS INTEGER) FROM sync_metadata WHERE key = 'local_version_floor'), 0)
"""
_HIGHEST = "SELECT CAST(value AS INTEGER) FROM sync_metadata WHERE key = 'local_version_highest'"
_RECORD_CHANGE = """
INSERT INTO sync_metadata(key, value)
SELECT 'notes.changes', '1' UNION ALL
SELECT 'local_version_highest', CAST(:highest AS TEXT) WHERE :highest > 0
ON CONFLICT (key) DO UPDATE SET value = CAST(
  CASE key WHEN 'notes.changes' THEN CAST(value AS INTEGER) + 1
           ELSE max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER)) END AS TEXT)
"""
_HIGHEST_OF = """
SELECT max(n.local_version) FROM json_each(?) AS wanted CROSS JOIN notes n ON n.pk = wanted.value
WHERE n.local_version > coalesce(n.server_version, 0)
"""
# What would change of a note that is gone waits for nobody any more, and holds its text.
_DROP_QUESTIONS = """
DELETE FROM approvals WHERE note_id IN (SELECT n.id FROM json_each(?) AS wanted CROSS JOIN notes n ON n.pk = wanted.value)
"""
# Numbers that the store gave come back unchanged; only ours must not restart.
_RAISE_FLOOR = """
INSERT INTO sync_metadata(key, value)
SELECT 'local_version_floor', CAST(:given + 1 AS TEXT) WHERE :given > 0
ON CONFLICT (key) DO UPDATE SET
  value = CAST(max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER)) AS TEXT)
"""
_INSERT = """
INSERT INTO notes(pk, local_version, id, server_version, created_at, modified_at, trash, properties,
                  tags, title, head, title_key, heading, tag_words, supplement, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COUNT_NEW = "UPDATE note_counts SET active = active + ?, trashed = trashed + ?"
_UPDATE = """
UPDATE notes SET local_version = ?, id = ?, server_version = ?, created_at = ?, modified_at = ?,
                 trash = ?, properties = ?, tags = ?, title = ?, head = ?, title_key = ?, heading = ?, tag_words = ?,
                 supplement = ?, text = ?
WHERE pk = ?
"""
_PUT_BASE = """
INSERT INTO note_base(pk, etag, created_at, modified_at, tags_understood, identity, raw, written_here)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (pk) DO UPDATE SET
  etag = excluded.etag, created_at = excluded.created_at, modified_at = excluded.modified_at,
  tags_understood = excluded.tags_understood, identity = excluded.identity, raw = excluded.raw,
  written_here = excluded.written_here
"""
_PUT_TAG = "INSERT OR IGNORE INTO note_tags(pk, tag, key) VALUES (?, ?, ?)"
