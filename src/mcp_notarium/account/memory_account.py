"""Open an account that is in memory alone: no folder, no file, no key, no lock. It ends with the process."""

from __future__ import annotations

from mcp_notarium.account.audit_anchor import Anchor
from mcp_notarium.account.database_creation import OpenedCache
from mcp_notarium.config import Config
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.locks import ServerLock
from mcp_notarium.storage import database_opener
from mcp_notarium.storage.audit_table import AuditTable
from mcp_notarium.storage.cache import Cache, apply_rules
from mcp_notarium.storage.database import Database


class _NoLock(ServerLock):
    """Hold nothing: nobody else can have the database."""

    def __init__(self) -> None:
        self._descriptor = None


class _NoAnchor(Anchor):
    """Keep nothing of the audit chain, which ends with the process."""

    def write(self, table: AuditTable, database: Database, *, begun: int = 0) -> bool:
        del table, database, begun
        return True


def open_in_memory(config: Config) -> OpenedCache:
    """Return an empty account under the policy. Its data key, for the audit chain alone, was drawn just now."""
    database = database_opener.create_in_memory(meta={"owner_identity_hash": config.owner_hash})
    apply_rules(Cache(database, config.policy.visibility))
    return OpenedCache(
        database,
        DataKey.generate(),
        generation="",
        created=True,
        notices=(),
        server_lock=_NoLock(),
        anchor=_NoAnchor(AccountFolder(config.account_dir), "", None),
    )
