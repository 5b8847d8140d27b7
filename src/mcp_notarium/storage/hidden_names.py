"""Let a rule that hides a note by its id follow that note, whatever its store renames.

A name is an id or an identity. What a rule names is hidden, and so is every note that is seen under a hidden
name; its other name is hidden from then on, too. Hidden names only ever grow: they stay when the
index is emptied and when their note is gone, and go with the rule. So no order of renames shows a note
that was hidden once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_notarium.storage.database import Database

Named = tuple[str, str | None]
"""Id and identity under which a note was seen."""
_Name = tuple[str, str]
"""Kind and name."""
_ID, _IDENTITY = "id", "identity"


class HiddenNames:
    """Hold the names of the notes that the rules on ``hidden_ids`` hide."""

    def __init__(self, database: Database, hidden_ids: Sequence[str]) -> None:
        self._db = database
        self._hidden_ids = hidden_ids

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
        """Record the names of notes that were seen under a hidden one; return those that are new.

        Inside a transaction.
        """
        added = self._spread(seen)
        self._db.run_many(_ADD, sorted(added))
        return {name for _, name, _ in added}

    def forget_other_rules(self) -> None:
        """Forget the names that only rules have hidden which are gone; inside a transaction."""
        kept = set(self._hidden_ids)
        gone = {row[0] for row in self._db.rows("SELECT DISTINCT rule FROM hidden_names")} - kept
        self._db.run_many("DELETE FROM hidden_names WHERE rule = ?", [(rule,) for rule in gone])

    def _spread(self, seen: Iterable[Named]) -> set[tuple[str, str, str]]:
        """Return the rows (kind, name, rule) to add."""
        notes = [((_ID, note_id), (_IDENTITY, one)) for note_id, one in seen if one]
        if not self._hidden_ids or not notes:
            return set()
        rules: dict[_Name, set[str]] = {(_ID, note_id): {note_id} for note_id in self._hidden_ids}
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
