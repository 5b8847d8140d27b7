"""A write we have promised ourselves to finish: recorded before it is sent, dropped when answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mcp_notarium.domain.note import Content


class WriteKind(StrEnum):
    """What the write does at the note service."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class WriteState(StrEnum):
    """``IN_FLIGHT`` until answered; ``REJECTED`` when the service will never take it."""

    IN_FLIGHT = "in_flight"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """One intent. ``write_id`` is the idempotency key and never changes over retries.

    ``base_etag`` is the acknowledged revision the content was made from (None: a new note).
    ``body`` is the exact JSON text to send. ``owner`` and ``lease_until`` (epoch seconds) tell
    other processes whether somebody is still busy with it. ``copied``: the conflict copy of this save is
    this intent or was made before it, so nothing of it is copied again.
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
