"""Drop notes that the policy hides before they are stored; record only that they exist.

A hidden note leaves no row in ``notes``, its base, its tags or the full-text index. Every answer made
from those is therefore the answer of an account without the note. The table ``hidden_notes`` is for sync alone;
no tool reads it. ``note_ids`` knows what became of the ids in the rules. The database records by which
rules it was filled (``RULES_KEY``); a process with other rules stores nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mcp_notarium.domain.note import NONE, Content, Revision, Tombstone
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.domain.properties import read_properties_of
from mcp_notarium.errors import PolicyChanged
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.note_ids import HiddenNames
from mcp_notarium.storage.note_rows import Change

RULES_KEY = "policy.visibility"
"""The row of ``sync_metadata`` with the digest of the rules; no row: nothing is hidden."""


@dataclass(frozen=True, slots=True)
class HiddenNote:
    """Describe a hidden note: its last revision and the rule that hides it."""

    etag: str
    server_version: int | None
    rule: str
    identity: str | None = None


class VisibilityFilter:
    """Keep hidden notes out of one database under one set of rules."""

    def __init__(self, database: Database, rules: Visibility) -> None:
        self._db = database
        self.rules = rules
        self.names = HiddenNames(database, rules.hidden_ids, rules.followed_ids)

    @property
    def matches_index(self) -> bool:
        """Tell whether the index was filled under these rules."""
        row = self._db.row("SELECT value FROM sync_metadata WHERE key = ?", (RULES_KEY,))
        return (row[0] if row else "") == self.rules.digest

    def require_match(self) -> None:
        """Raise ``PolicyChanged`` if the index is filled under other rules by now."""
        if not self.matches_index:  # defence: older-rules-stop
            raise PolicyChanged(
                "the rules of what agents may see were changed while this server ran"
            )

    def filter_changes(self, batch: Mapping[str, Change]) -> dict[str, Change]:
        """Return the changes, with a tombstone for every hidden note; inside a transaction.

        Record the notes that are hidden, and forget those that no longer are.
        """
        if not self.rules.has_rules:  # defence: hidden-notes-not-stored =True
            return dict(batch)
        hidden = {
            change.id: (change, rule)
            for change in batch.values()
            if isinstance(change, Revision) and (rule := self.find_rule(change)) is not None
        }
        self._forget([note_id for note_id in batch if note_id not in hidden])
        self.record_hidden(
            (one.id, HiddenNote(one.etag, one.server_version, rule, one.identity))
            for one, rule in hidden.values()
        )
        return {
            note_id: Tombstone(note_id) if note_id in hidden else change
            for note_id, change in batch.items()
        }

    def find_rule(self, revision: Revision) -> str | None:
        """Return the rule that hides this revision of a note; None if it is visible."""
        return self.find_rule_of(
            revision.id,
            revision.content,
            clear=revision.tags_understood,  # defence: unclear-tags-hide =True
            identity=revision.identity,
        )

    def find_rule_of(
        self, note_id: str, content: Content, *, clear: bool = True, identity: str | None = None
    ) -> str | None:
        """Return the rule that hides a note as this; ``clear`` False: it has other tags, too."""
        properties, readable = NONE, True
        if self.rules.hidden_properties:  # defence: properties-judged =False
            properties, readable = read_properties_of(content)
        rule = self.rules.hidden_by(note_id, content.tags, properties, clear=clear and readable)
        # defence: rule-follows-renamed-note
        if rule is None and self.rules.hidden_ids:
            named = self.names.find_rule(note_id, identity)
            rule = named and f'hidden_ids "{named}"'
        return rule

    def sees(self, note_id: str, content: Content) -> bool:
        """Tell whether the note would be visible as this."""
        return self.find_rule_of(note_id, content) is None

    def record_hidden(self, notes: Iterable[tuple[str, HiddenNote]]) -> None:
        """Record that these notes are hidden."""
        self._db.run_many(
            _PUT,
            [(id_, one.etag, one.server_version, one.rule, one.identity) for id_, one in notes],
        )

    def hidden_notes(self, ids: Sequence[str] | None = None) -> dict[str, HiddenNote]:
        """Return the hidden ones among these notes (None: all hidden notes). For sync, never for a tool."""
        if not self.rules.has_rules:
            return {}
        rows = self._db.rows(_ALL) if ids is None else self._db.rows(_OF, (json.dumps(list(ids)),))
        return {row[0]: HiddenNote(*row[1:]) for row in rows}

    def clear(self) -> None:
        """Forget all hidden notes, but not which names are hidden."""
        self._db.run("DELETE FROM hidden_notes")

    def move(self, renamed: Mapping[str, str]) -> dict[str, HiddenNote]:
        """Forget hidden notes (old id to new id) and return them by their new ids, to be hidden again."""
        notes = self.hidden_notes(list(renamed)) if renamed else {}
        self._forget(list(notes))
        return {renamed[old]: one for old, one in notes.items()}

    def _forget(self, ids: Sequence[str]) -> None:
        if ids:
            self._db.run(_FORGET, (json.dumps(list(ids)),))


_ALL = "SELECT id, etag, server_version, rule, identity FROM hidden_notes"
_OF = """
SELECT w.id, w.etag, w.server_version, w.rule, w.identity
FROM json_each(?) AS wanted CROSS JOIN hidden_notes w ON w.id = wanted.value
"""
_FORGET = "DELETE FROM hidden_notes WHERE id IN (SELECT value FROM json_each(?))"
_PUT = """
INSERT INTO hidden_notes(id, etag, server_version, rule, identity) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
  etag = excluded.etag, server_version = excluded.server_version, rule = excluded.rule,
  identity = excluded.identity
"""
