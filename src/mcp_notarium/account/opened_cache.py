"""Hold what ``opener`` returns: the open database, and what lies beside it in the folder."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_notarium.account.audit_anchor import Anchor
from mcp_notarium.account.markers import PendingMarker
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.files.locks import ServerLock
from mcp_notarium.storage.database import Database


@dataclass(frozen=True, slots=True)
class OpenedCache:
    """Hold an open cache. ``data_key`` None and ``generation`` '': it is not encrypted.

    ``pending_marker`` says that no intent is inside; withdraw it before recording one. ``anchor`` keeps the
    end of the audit chain. ``rebuilt``: the cache replaced another.
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
        """Renew the marker if nothing is pending, close the database, release the lock. Never raises."""
        if not self.database.closed:
            self.pending_marker.renew(self.database)
            self.database.close()
        self.server_lock.release()
