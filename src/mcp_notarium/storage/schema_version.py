"""Create the tables of a database, and tell whose it is and of which schema.

Both marks and all tables come in one transaction: a crash leaves an empty file or a whole database. A start
refuses a database of another schema, and nothing migrates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcp_notarium.storage.database import Database
from mcp_notarium.storage.schema import STATEMENTS

APPLICATION_ID: Final = 0x4E4F5441  # "NOTA"
SCHEMA_VERSION: Final = 1


def is_ours(database: Database) -> bool:
    """Check whether this is a database of this program, of any schema."""
    return database.number("PRAGMA application_id") == APPLICATION_ID


def create_tables(database: Database, *, meta: Mapping[str, str]) -> None:
    """Create all tables and the first metadata in an empty database, in one transaction."""
    with database.schema_change(), database.transaction(durable=True):
        database.run(f"PRAGMA application_id = {APPLICATION_ID}")
        for statement in STATEMENTS:
            database.run(statement)
        database.run(f"PRAGMA user_version = {SCHEMA_VERSION}")
        database.run_many(
            "INSERT INTO sync_metadata(key, value) VALUES (?, ?)", sorted(meta.items())
        )
