"""``OpenedCache``: what ``opening`` gives: the open database, and what lies beside it in the folder."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_notarium.account.audit_anchor import Anchor
from mcp_notarium.account.markers import PendingMarker
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.files.locks import ServerLock
from mcp_notarium.storage.database import Database


@dataclass(frozen=True, slots=True)
class OpenedCache:
    """An open cache. ``data_key`` None and ``generation`` '': it is not encrypted.

    ``pending_marker`` promises that no intent is inside; who records one withdraws it first.
    ``anchor`` remembers where its audit chain ended. ``rebuilt``: it was made in the place of another.
    """

    database: Database
    data_key: DataKey | None
    generation: str
    created: bool
    notices: tuple[str, ...]
    pending_marker: PendingMarker
    server_lock: ServerLock
    anchor: Anchor
    rebuilt: bool = False

    def close(self) -> None:
        """Promise that nothing is pending, if so; close the database; leave. Never raises."""
        if not self.database.closed:
            self.pending_marker.renew(self.database)
            self.database.close()
        self.server_lock.release()
