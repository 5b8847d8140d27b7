"""Record which account the notes are from, as far as a token can tell.

A row of ``sync_metadata`` holds a keyed hash of the last token that was accepted, with a new random
key each time; the token cannot be read from it. The store decides what follows.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from typing import Any

from mcp_notarium.secret import Secret
from mcp_notarium.storage.connection import Database
from mcp_notarium.storage.sync_state import SyncState

_ROW = "account_mark"
_KEY_BYTES = 32


class AccountRecord:
    """Hold the account of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._rows = SyncState(database)

    def recognises(self, token: Secret) -> bool:
        """Tell whether this is the token that was remembered last."""
        known = self._read()
        if known is None:
            return False
        return hmac.compare_digest(known["mark"], _mark(known["key"], token))

    def remember(self, token: Secret, *, on_trust: bool) -> None:
        """Remember that the notes are this token's; ``on_trust``: nobody could prove that."""
        if self.recognises(token) and self.on_trust == on_trust:
            return
        key = secrets.token_hex(_KEY_BYTES)
        row = {"key": key, "mark": _mark(key, token), "on_trust": on_trust}
        self._rows.set(_ROW, json.dumps(row))

    @property
    def proven(self) -> bool:
        """Tell whether a token was remembered, and not on trust."""
        known = self._read()
        return known is not None and not known["on_trust"]

    @property
    def on_trust(self) -> bool:
        """Tell whether a token was remembered on trust."""
        known = self._read()
        return known is not None and bool(known["on_trust"])

    @property
    def unfinished(self) -> bool:
        """Tell whether the journal has a write without an answer."""
        return self._db.number(_UNFINISHED) > 0

    def sample_notes(self) -> Sequence[tuple[str, float]]:
        """Return id and time of creation (epoch seconds) of up to eight notes: some new, some old.

        Shared notes belong to other accounts, too, and notes in the trash may be gone by now: such
        notes are returned only if there are no others.
        """
        rows = self._db.rows(_WITNESSES) or self._db.rows(_ANY)
        return [(row[0], row[1]) for row in rows]

    def _read(self) -> dict[str, Any] | None:
        value = self._rows.get(_ROW)
        return None if value is None else json.loads(value)


def _mark(key: str, token: Secret) -> str:
    return hmac.new(bytes.fromhex(key), token.reveal(), hashlib.sha256).hexdigest()


_UNFINISHED = "SELECT count(*) FROM pending_writes WHERE state = 'in_flight'"
_WITNESSES = """
SELECT n.id, b.created_at FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.pk IN (
  SELECT pk FROM (SELECT pk FROM notes WHERE trash = 0 AND tags NOT LIKE '%@%'
                  ORDER BY modified_at DESC, pk LIMIT 4)
  UNION
  SELECT pk FROM (SELECT pk FROM notes WHERE trash = 0 AND tags NOT LIKE '%@%'
                  ORDER BY created_at, pk LIMIT 4)
)
"""
_ANY = (
    "SELECT n.id, b.created_at FROM notes n JOIN note_base b ON b.pk = n.pk ORDER BY n.pk LIMIT 8"
)
