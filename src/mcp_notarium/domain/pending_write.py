"""Define a journal entry: a write recorded before it is sent and dropped when it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mcp_notarium.domain.note import Content


class WriteKind(StrEnum):
    """Name what the write does at the store."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class WriteState(StrEnum):
    """Name the state: ``IN_FLIGHT`` until answered, ``REJECTED`` if the store will never take it."""

    IN_FLIGHT = "in_flight"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Hold one journal entry. ``write_id`` is the idempotency key and never changes over retries.

    ``base_etag`` is the acknowledged revision the content was made from (None: a new note).
    ``body`` is the exact JSON text to send. ``owner`` and ``lease_until`` (epoch seconds) tell
    other processes whether somebody is still working on it. ``copied``: the conflict copy of this save
    is this entry or was made before it, so nothing of it is copied again.
    """

    write_id: str
    note_id: str
    kind: WriteKind
    base_etag: str | None
    content: Content
    body: str
    created_at: float
    owner: str
    lease_until: float
    state: WriteState = WriteState.IN_FLIGHT
    reason: str = ""
    copied: bool = False
