"""Store the sync state: the cursor, the first load, the last cycles, cards to change, the login, the account.

These are rows of ``sync_metadata``; those that speak of the index are called ``sync.*``. The cursor moves
only in the transaction that stores what it covers; the caller sees to that, and every setter joins the open
transaction.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mcp_notarium.errors import CacheError, ErrorKind
from mcp_notarium.secret import Secret
from mcp_notarium.storage.database import Database
from mcp_notarium.storage.journal_table import JournalTable

LEFT_OUT = "sync.left_out"
"""The row that counts notes without a usable id or readable text."""
_CURSOR = "sync.cursor"
_LISTING = "sync.listing"
_PROGRESS = "sync.first_load"
_METRICS = "sync.metrics"
_CARDS = "cards."
_NEVER = "never"
_DIFFERENCES = "stored_differently"
_AT_REST = "idle"
_LOGIN_CHANGES = "login_changes"
_ACCOUNT = "account_mark"
_KEY_BYTES = 32
_LOGIN_TOKEN = "login_token"  # noqa: S105 - the name of a row, not a token


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Hold the progress of the first load."""

    anchor_cursor: str | None = None
    """The cursor of its first page."""
    mark: str | None = None
    """Start of the next page."""
    total: int | None = None
    """Number of notes in the store; None: unknown."""
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Metrics:
    """Hold the result of the last cycles: epoch seconds, ``error_count`` failures in a row."""

    last_sync_at: float | None = None
    duration_ms: int | None = None
    status: str = _NEVER
    error_count: int = 0
    last_error: str | None = None
    """The message of the last failure."""
    error_kind: ErrorKind | None = None
    """The rest of it."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Count the writes the store holds differently from what was sent; the last at epoch seconds."""

    count: int = 0
    last_at: float = 0.0


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """Hold what a status is made of."""

    notes: int
    """Number of notes in the index."""
    cursor: str | None
    progress: LoadProgress
    metrics: Metrics
    left_out: int
    """Number of notes that have no usable id or text, are in no listing, or could not be read yet."""


class SyncState:
    """Store the rows that sync needs after a restart."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, key: str) -> str | None:
        """Return the value of a key, or None."""
        row = self._db.row("SELECT value FROM sync_metadata WHERE key = ?", (key,))
        return None if row is None else row[0]

    def set(self, key: str, value: str | None) -> None:
        """Store a value; None removes the key. Do nothing if the database is read-only."""
        if self._db.read_only:
            return
        if value is None:
            self._db.run("DELETE FROM sync_metadata WHERE key = ?", (key,))
        else:
            self._db.run(_PUT, (key, value))

    def facts(self) -> SyncFacts:
        """Return everything that a status is made of, by one statement."""
        row = self._db.row(_FACTS)
        notes, values, unread = (row[0] or 0, json.loads(row[1]), row[2]) if row else (0, {}, 0)
        return SyncFacts(
            notes=notes,
            cursor=values.get(_CURSOR),
            progress=LoadProgress(**json.loads(values.get(_PROGRESS) or "{}")),
            metrics=_metrics(json.loads(values.get(_METRICS) or "{}")),
            left_out=int(values.get(LEFT_OUT) or 0) + unread,
        )

    def card_moves(self) -> list[tuple[str, str]]:
        """Return what is still to be done in canvases for notes that were renamed, by its keys."""
        return [(key.removeprefix(_CARDS), value) for key, value in self._db.rows(_ALL_CARDS)]

    def add_card_move(self, key: str, value: str) -> None:
        """Record what is to be done in canvases."""
        self.set(f"{_CARDS}{key}", value)

    def drop_card_move(self, key: str) -> None:
        """Forget what was done; nothing happens if it is forgotten already."""
        self.set(f"{_CARDS}{key}", None)

    def cursor(self) -> str | None:
        """Return the cursor in the store's stream of changes; None before the first complete load."""
        return self.get(_CURSOR)

    def set_cursor(self, cursor: str | None) -> None:
        """Move the cursor, in the transaction that stores what it covers."""
        self.set(_CURSOR, cursor)

    def progress(self) -> LoadProgress:
        """Return how far the first load is; a new ``LoadProgress`` if none was begun."""
        return LoadProgress(**self._values(_PROGRESS))

    def set_progress(self, progress: LoadProgress) -> None:
        """Store how far the first load is."""
        self._set_values(_PROGRESS, progress)

    def metrics(self) -> Metrics:
        """Return the result of the last cycles."""
        return _metrics(self._values(_METRICS))

    def record_load(self, *, at: float) -> None:
        """Record that everything is stored as of ``at`` (epoch seconds); its cycle may still run."""
        before = self.metrics()
        status = _AT_REST if before.status == _NEVER else before.status
        self._set_values(_METRICS, replace(before, last_sync_at=at, status=status))

    def differences(self) -> Differences:
        """Return how often the store has changed what was sent."""
        return Differences(**self._values(_DIFFERENCES))

    def record_difference(self, *, at: float) -> None:
        """Count one more write that the store holds differently."""
        self._set_values(_DIFFERENCES, Differences(self.differences().count + 1, at))

    def record_cycle(
        self,
        *,
        at: float,
        duration_ms: int,
        status: str,
        error: str | None = None,
        kind: ErrorKind | None = None,
    ) -> Metrics:
        """Record the end of a cycle at ``at`` (epoch seconds); ``error`` None means success.

        A failed cycle leaves ``last_sync_at`` at the last good one.
        """
        before = self.metrics()
        after = Metrics(
            last_sync_at=at if error is None else before.last_sync_at,
            duration_ms=duration_ms,
            status=status,
            error_count=0 if error is None else before.error_count + 1,
            last_error=error,
            error_kind=kind,
        )
        self._set_values(_METRICS, after)
        return after

    @property
    def can_store_login(self) -> bool:
        """Tell whether a login token may be stored: only in an encrypted, writable database."""
        return self._db.encrypted and not self._db.read_only

    def login_token(self) -> Secret | None:
        """Return the stored login token, or None."""
        value = self.get(_LOGIN_TOKEN) if self._db.encrypted else None
        return None if value is None else Secret(value)

    def set_login_token(self, token: Secret | None) -> None:
        """Store the login token; None forgets it. Raises ``CacheError`` in a plain database."""
        if token is not None and not self.can_store_login:
            raise CacheError(
                "a login is not stored in an unencrypted cache",
                resolution_hint="Turn encryption on, or give the login in the client's configuration.",
            )
        self.set(_LOGIN_TOKEN, None if token is None else token.reveal_text())
        self.set(_LOGIN_CHANGES, str(self.login_changes() + 1))

    def login_changes(self) -> int:
        """Return a number that grows whenever a login is stored or forgotten, wherever it is kept."""
        return int(self.get(_LOGIN_CHANGES) or 0)

    def _values(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get(key) or "{}")
        return found

    def _set_values(self, key: str, values: LoadProgress | Metrics | Differences) -> None:
        self.set(key, json.dumps(asdict(values)))


class AccountRecord:
    """Record which account the notes of one database are from, as far as a token can tell.

    The row holds a keyed hash of the last token that was accepted, with a new random key each time; the
    token cannot be read from it. The store decides what follows.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._rows = SyncState(database)

    def recognises(self, token: Secret) -> bool:
        """Tell whether this is the token that was remembered last."""
        row = self._row()
        return bool(row) and hmac.compare_digest(row["mark"], _mark(row["key"], token))

    def remember(self, token: Secret, *, on_trust: bool) -> None:
        """Remember that the notes are this token's; ``on_trust``: nobody could prove that."""
        if self.recognises(token) and self.on_trust == on_trust:
            return
        key = secrets.token_hex(_KEY_BYTES)
        row = {"key": key, "mark": _mark(key, token), "on_trust": on_trust}
        self._rows.set(_ACCOUNT, json.dumps(row))

    @property
    def proven(self) -> bool:
        """Tell whether a token was remembered, and not on trust."""
        return self._row().get("on_trust") is False

    @property
    def on_trust(self) -> bool:
        """Tell whether a token was remembered on trust."""
        return self._row().get("on_trust") is True

    @property
    def unfinished(self) -> bool:
        """Tell whether the journal has a write without an answer."""
        return JournalTable(self._db).any_in_flight()

    def sample_notes(self) -> Sequence[tuple[str, float]]:
        """Return id and time of creation (epoch seconds) of up to eight notes: some new, some old.

        Shared notes belong to other accounts, too, and notes in the trash may be gone by now: such
        notes are returned only if there are no others.
        """
        rows = self._db.rows(_RECENT_AND_OLDEST) or self._db.rows(_ANY)
        return [(row[0], row[1]) for row in rows]

    def _row(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._rows.get(_ACCOUNT) or "{}")
        return found


class ListingMemory:
    """Keep the text of a store about its last full listing; it goes with the index."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._rows = SyncState(database)

    def load(self) -> str | None:
        """Return the text; None if there is none."""
        return self._rows.get(_LISTING)

    def store(self, text: str) -> None:
        """Keep this text instead. Raises ``CacheBusy`` at once while another process is writing."""
        with self._db.without_waiting():
            self._rows.set(_LISTING, text)


def _metrics(values: dict[str, Any]) -> Metrics:
    kind = values.pop("error_kind", None)
    return Metrics(**values, error_kind=None if kind is None else ErrorKind(**kind))


def _mark(key: str, token: Secret) -> str:
    return hmac.new(bytes.fromhex(key), token.reveal(), hashlib.sha256).hexdigest()


_RECENT_AND_OLDEST = """
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
_FACTS = """
SELECT (SELECT active + trashed FROM note_counts), json_group_object(key, value), (
  SELECT count(*) FROM sync_metadata m, json_each(nullif(m.value, '')) AS open
  WHERE m.key = 'sync.unresolved' AND NOT EXISTS (SELECT 1 FROM notes n WHERE n.id = open.key)
)
FROM sync_metadata
WHERE key IN ('sync.cursor', 'sync.first_load', 'sync.metrics', 'sync.left_out')
"""
# SQLite would plan a query with a bound pattern again in each cycle.
_ALL_CARDS = "SELECT key, value FROM sync_metadata WHERE key GLOB 'cards.*' ORDER BY key"
_PUT = """
INSERT INTO sync_metadata(key, value) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""
