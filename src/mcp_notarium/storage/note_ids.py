"""Follow the ids of notes whose store renames them: old ids stay aliases, and what a rule hides by its id stays hidden.

A name is an id or an identity. What a rule names is hidden, and so is every note that is seen under a hidden
name; its other name is hidden from then on, too. Hidden names only ever grow: they stay when the
index is emptied and when their note is gone, and go with the rule. So no order of renames shows a note
that was hidden once.

So is the id under which the journal had a new note, where the store has given that another one.

An id that an agent holds goes on meaning the same note, as long as the index holds that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mcp_notarium.domain.policy import Visibility
from mcp_notarium.storage.database import Database

Named = tuple[str, str | None]
"""Id and identity under which a note was seen."""
_Name = tuple[str, str]
"""Kind and name."""
_ID, _IDENTITY = "id", "identity"


class HiddenNames:
    """Hold the names of the notes that the rules on ``hidden_ids`` hide.

    Those of ``followed_ids`` are only followed: other rules hide them.
    """

    def __init__(
        self, database: Database, hidden_ids: Sequence[str], followed_ids: Sequence[str] = ()
    ) -> None:
        self._db = database
        self._hidden_ids = hidden_ids
        self._followed_ids = (*hidden_ids, *followed_ids)

    def find_rule(self, note_id: str, identity: str | None) -> str | None:
        """Return the id in the rules that hides a note of these names; None: none does."""
        if not self._hidden_ids:
            return None
        rules = (row[0] for row in self._db.rows(_FIND, (note_id, identity)))
        return next((rule for rule in rules if rule in self._hidden_ids), None)

    def has_news(self, seen: Iterable[Named]) -> bool:
        """Tell whether :meth:`follow` would record anything."""
        return bool(self._spread(seen))

    def follow(self, seen: Iterable[Named]) -> set[str]:
        """Record the names of notes that were seen under a hidden one; return those that are new. Inside a transaction."""
        added = self._spread(seen)
        self._db.run_many(_ADD, sorted(added))
        return {name for _, name, _ in added}

    def forget_other_rules(self) -> None:
        """Forget the names that only rules have hidden which are gone; inside a transaction."""
        kept = set(self._followed_ids)
        gone = {row[0] for row in self._db.rows("SELECT DISTINCT rule FROM hidden_names")} - kept
        self._db.run_many("DELETE FROM hidden_names WHERE rule = ?", [(rule,) for rule in gone])

    def _spread(self, seen: Iterable[Named]) -> set[tuple[str, str, str]]:
        notes = [((_ID, note_id), (_IDENTITY, one)) for note_id, one in seen if one]
        if not self._followed_ids or not notes:
            return set()
        rules: dict[_Name, set[str]] = {(_ID, note_id): {note_id} for note_id in self._followed_ids}
        for kind, name, rule in self._db.rows("SELECT kind, name, rule FROM hidden_names"):
            rules.setdefault((kind, name), set()).add(rule)
        added: set[tuple[str, str, str]] = set()
        grew = True
        while grew:  # twice, or more often where several ids have one identity
            grew = False
            for names in notes:
                hiding = {rule for name in names for rule in rules.get(name, ())}
                for name in names:
                    missing = hiding - rules.get(name, set())
                    if missing:
                        rules.setdefault(name, set()).update(missing)
                        added.update((*name, rule) for rule in missing)
                        grew = True
        return added


_FIND = """
SELECT rule FROM hidden_names WHERE (kind = 'id' AND name = ?1) OR (kind = 'identity' AND name = ?2)
ORDER BY rule
"""
_ADD = "INSERT OR IGNORE INTO hidden_names(kind, name, rule) VALUES (?, ?, ?)"


class NoteNames:
    """Read and change the ids of the notes of one database. None of these notes is hidden."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def current(self, alias: str) -> str | None:
        """Return the id that the note of an old id has now; None if there was none, or more than one."""
        rows = self._db.rows(_CURRENT, (alias,))
        return rows[0][0] if len(rows) == 1 else None

    def identities(self) -> dict[str, str]:
        """Return id to identity of every note that has one."""
        return dict(self._db.rows(_IDENTITIES))

    def set_identities(self, identities: Mapping[str, str]) -> None:
        """Record what names these notes beyond their ids, also of hidden ones; inside a transaction."""
        rows = [(identity, note_id) for note_id, identity in identities.items()]
        self._db.run_many(_SET_IDENTITY, rows)
        self._db.run_many("UPDATE hidden_notes SET identity = ? WHERE id = ?", rows)
        if rows:
            self._db.run(COUNT, CHANGED)

    def all(self) -> list[str]:
        """Return every id that a note has or had, and those of removed notes of which versions are kept."""
        return [row[0] for row in self._db.rows(_ALL)]

    def seen(self) -> list[Named]:
        """Return each name that a note has or had, hidden or not, with the note's identity."""
        return [(row[0], row[1]) for row in self._db.rows(_SEEN)]

    def is_taken(self, note_id: str, identity: str | None) -> bool:
        """Tell whether another note than the one of this id is behind the id now.

        ``identity`` is what the store says of the id now. A note that was rewritten has another one, too;
        one that is known to be another note's is proof.
        """
        if identity is None:
            return False
        return self._db.row(_ELSEWHERE, {"id": note_id, "identity": identity}) is not None

    def add_alias(self, alias: str, note_id: str) -> None:
        """Let another id mean the note, too, if it is there; inside a transaction."""
        self._db.run(_ADD_ALIAS, (alias, note_id))
        self._db.run(COUNT, CHANGED)

    def drop_aliases(self, rules: Visibility) -> None:
        """Forget the old ids that rules on paths close, so that none can be guessed; inside a transaction."""
        aliases = [row[0] for row in self._db.rows("SELECT DISTINCT alias FROM note_aliases")]
        hidden = [(alias,) for alias in aliases if rules.closes(alias)]
        self._db.run_many("DELETE FROM note_aliases WHERE alias = ?", hidden)

    def rename(self, old: str, new: str) -> bool:
        """Give the note another id, with its unfinished write and its versions; inside a transaction.

        False, and nothing is changed, if there is a note of that id already, or none of the old one.
        """
        note = self._db.row("SELECT pk FROM notes WHERE id = ?", (old,))
        if note is None or self._db.row("SELECT 1 FROM notes WHERE id = ?", (new,)) is not None:
            return False
        self._db.run("UPDATE notes SET id = ? WHERE id = ?", (new, old))
        self._db.run("DELETE FROM hidden_notes WHERE id = ?", (new,))
        self._db.run("UPDATE journal SET note_id = ? WHERE note_id = ?", (new, old))
        self._db.run("DELETE FROM note_versions WHERE note_id = ?", (new,))
        self._db.run("UPDATE note_versions SET note_id = ? WHERE note_id = ?", (new, old))
        self._db.run("DELETE FROM note_aliases WHERE pk = ? AND alias = ?", (note[0], new))
        self._db.run("INSERT OR IGNORE INTO note_aliases(alias, pk) VALUES (?, ?)", (old, note[0]))
        self._db.run(COUNT, CHANGED)
        return True


COUNT = """
INSERT INTO sync_metadata(key, value) VALUES (?, '1')
ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)
"""
"""Lets the views of profiles know that notes have changed; inside a transaction."""
CHANGED = ("notes.changes",)
CLEARED = ("notes.cleared",)
"""The rows of ``sync_metadata`` that count how often notes have changed, and how often the index was emptied."""
_CURRENT = "SELECT n.id FROM note_aliases a JOIN notes n ON n.pk = a.pk WHERE a.alias = ?"
_ADD_ALIAS = "INSERT OR IGNORE INTO note_aliases(alias, pk) SELECT ?, pk FROM notes WHERE id = ?"
_IDENTITIES = """
SELECT n.id, b.identity FROM notes n JOIN note_base b ON b.pk = n.pk WHERE b.identity IS NOT NULL
"""
_SEEN = """
SELECT n.id, b.identity FROM notes n JOIN note_base b ON b.pk = n.pk WHERE b.identity IS NOT NULL
UNION ALL
SELECT id, identity FROM hidden_notes WHERE identity IS NOT NULL
UNION ALL
SELECT a.alias, b.identity FROM note_aliases a JOIN note_base b ON b.pk = a.pk
"""
_ALL = """
SELECT id FROM notes UNION SELECT alias FROM note_aliases UNION SELECT note_id FROM note_versions
"""
_ELSEWHERE = """
WITH seen(identity) AS (
  SELECT :identity UNION
  SELECT b.identity FROM note_base b JOIN notes n ON n.pk = b.pk WHERE n.id = :id
)
SELECT 1 FROM seen CROSS JOIN note_base b ON b.identity = seen.identity JOIN notes n ON n.pk = b.pk
WHERE n.id <> :id
UNION ALL
SELECT 1 FROM seen CROSS JOIN hidden_notes h ON h.identity = seen.identity WHERE h.id <> :id
LIMIT 1
"""
_SET_IDENTITY = """
UPDATE note_base SET identity = ? WHERE pk = (SELECT pk FROM notes WHERE id = ?)
"""
