"""Make journal entries, as ``sync.journal`` makes them and as one that nobody has finished."""

from __future__ import annotations

from mcp_notarium.domain.note import Content, PendingWrite, Revision, WriteKind
from mcp_notarium.stores.contract import Store


def make_write(
    store: Store,
    note_id: str,
    content: Content,
    base: Revision | None = None,
    *,
    write_id: str = "00aa",
    now: float = 1_700_000_000.0,
) -> PendingWrite:
    """Make the creation of a note, or the update of ``base``, with the body that the store sends."""
    body = store.compose(base, content, now=now)
    return make_unfinished(content, note_id, base, write_id=write_id, body=body, now=now)


def make_unfinished(
    content: Content,
    note_id: str = "n1",
    base: Revision | None = None,
    *,
    write_id: str = "w",
    body: bytes = b"{}",
    now: float = 1.0,
) -> PendingWrite:
    """Make an entry without a store."""
    return PendingWrite(
        write_id=write_id,
        note_id=note_id,
        kind=WriteKind.UPDATE if base else WriteKind.CREATE,
        base_etag=base.etag if base else None,
        content=content,
        body=body,
        created_at=now,
        owner="me",
        lease_until=now + 60,
    )
