"""Store the journal: writes are recorded before they are sent and dropped when answered.

``write_decisions`` decides about them. ``add`` and ``reject`` reach the disk before they return, or
before the write is sent: after a power cut they are the only trace of what somebody wrote.
"""

from __future__ import annotations

import json
import math
from operator import attrgetter

from mcp_notarium.domain.note import Content, PendingWrite, Properties, WriteKind, WriteState
from mcp_notarium.storage.authorizer import Row
from mcp_notarium.storage.database import Database


class JournalTable:
    """Hold the journal entries of one database, oldest first.

    Methods join the caller's transaction. ``add`` and ``reject`` raise ``RuntimeError`` inside one
    that is not durable, unless the caller flushes it.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, write: PendingWrite, *, flushed_next: bool = False) -> None:
        """Record an entry. Raises ``CacheError`` if its write_id exists already.

        ``flushed_next``: the caller waits for :meth:`Cache.flush` before the write is sent.
        """
        row = dict(zip(_NAMES, _values_of(write), strict=True))
        row |= {"tags": json.dumps(row["tags"]), "from_id": write.from_id or write.note_id}
        with self._db.join_or_begin(durable=not flushed_next):
            self._db.run(_ADD, [*row.values()])

    def drop(self, write_id: str) -> None:
        """Remove an entry; do nothing if it is gone already."""
        self._db.run("DELETE FROM journal WHERE write_id = ?", (write_id,))

    def drop_following(self, write_id: str) -> None:
        """Remove the entries that were to be finished after this one."""
        # defence: links-stay-without-renaming
        self._db.run("DELETE FROM journal WHERE after = ?", (write_id,))

    def rename(self, write_id: str, note_id: str) -> None:
        """Let an entry name its note by another id."""
        self._db.run("UPDATE journal SET note_id = ? WHERE write_id = ?", (note_id, write_id))

    def begin_here(self, write_id: str) -> None:
        """Let an entry have begun with the id that its note has now."""
        self._db.run("UPDATE journal SET from_id = note_id WHERE write_id = ?", (write_id,))

    def get(self, write_id: str) -> PendingWrite | None:
        """Return one entry, or None."""
        row = self._db.row(f"{_SELECT} WHERE write_id = ?", (write_id,))
        return None if row is None else _write(row)

    def in_flight(self) -> list[PendingWrite]:
        """Return the unfinished entries, oldest first, those that follow others last; one of a note, but for new ones that wait for one name."""
        rows = self._db.rows(f"{_SELECT} WHERE state = 'in_flight' {_OLDEST_FIRST}")
        return [_write(row) for row in rows]

    def all(self) -> list[PendingWrite]:
        """Return every entry, rejected ones included."""
        return [_write(row) for row in self._db.rows(f"{_SELECT} {_OLDEST_FIRST}")]

    def count(self) -> int:
        """Count the entries; reads no text."""
        return self._db.number("SELECT count(*) FROM journal")

    def any_in_flight(self) -> bool:
        """Tell whether an entry waits for its answer; reads no text."""
        return self._db.row(_ANY_IN_FLIGHT) is not None

    def reject(self, write_id: str, reason: str) -> None:
        """Mark an entry as refused for good; it stays, because it is somebody's text."""
        with self._db.join_or_begin(durable=True):
            self._db.run(
                "UPDATE journal SET state = 'rejected', reason = ? WHERE write_id = ?",
                (reason, write_id),
            )

    def claim(
        self,
        write_id: str,
        *,
        owner: str,
        now: float,
        lease_until: float,
        latest: float = math.inf,
        gone_owner: str | None = None,
    ) -> bool:
        """Take over an entry to finish it; True if it is ours until ``lease_until``.

        It succeeds if the lease ended before ``now`` (epoch seconds), if it ends after ``latest`` (no
        lease of the same clock does), if the entry is ours already, or if it belongs to ``gone_owner``,
        a process known to have ended. Of several processes that try at once exactly one succeeds.
        """
        taken = self._db.run(
            _CLAIM, (owner, lease_until, write_id, now, latest, owner, gone_owner or owner)
        )
        return taken == 1

    def renew(self, write_id: str, *, owner: str, lease_until: float) -> bool:
        """Renew our lease; False if the entry is gone or another process has it."""
        renewed = self._db.run(
            "UPDATE journal SET lease_until = ? WHERE write_id = ? AND owner = ?",
            (lease_until, write_id, owner),
        )
        return renewed == 1


def _write(row: Row) -> PendingWrite:
    fields = dict(zip(_NAMES, row, strict=True))
    text, title, tags, trash, properties = (fields.pop(name) for name in _OF_CONTENT)
    said = Content(
        text, tuple(json.loads(tags)), bool(trash), title, Properties.from_json(properties)
    )
    fields |= {"kind": WriteKind(fields["kind"]), "state": WriteState(fields["state"])}
    fields |= {name: bool(fields[name]) for name in ("copied", "repair")}
    fields["from_id"] = fields["from_id"] if fields["from_id"] != fields["note_id"] else ""
    return PendingWrite(content=said, **fields)


_COLUMNS = (
    "write_id, note_id, kind, base_etag, text, title, tags, trash, properties, body, created_at, owner, "
    "lease_until, state, reason, copied, client, repair, after, replaced, first_etag, change_id, from_id"
)
_NAMES = tuple(_COLUMNS.split(", "))
_OF_CONTENT = {
    **{name: f"content.{name}" for name in ("text", "title", "tags", "trash")},
    "properties": "content.properties.json",
}
_PATHS = tuple(_OF_CONTENT.get(name, name) for name in _NAMES)
_values_of = attrgetter(*_PATHS)
_SELECT = f"SELECT {_COLUMNS} FROM journal"  # noqa: S608 - constants only
_OLDEST_FIRST = "ORDER BY after <> '', created_at, write_id"
_ADD = f"INSERT INTO journal({_COLUMNS}) VALUES ({', '.join('?' * 23)})"  # noqa: S608 - constants only
_ANY_IN_FLIGHT = "SELECT 1 FROM journal WHERE state = 'in_flight' LIMIT 1"
_CLAIM = """
UPDATE journal SET owner = ?, lease_until = ?
WHERE write_id = ? AND state = 'in_flight'
  AND (lease_until <= ? OR lease_until > ? OR owner = ? OR owner = ?)
"""
