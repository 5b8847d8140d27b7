"""Create the tables and migrate them from one schema version to the next.

Each migration runs in one transaction together with its record and ``user_version``; a crash
leaves the version before or the version after. Migrations add or rewrite, they never drop what
somebody wrote. The caller copies the file before a migration.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from mcp_notarium.storage.database import Database
from mcp_notarium.storage.schema import NAME, STATEMENTS

APPLICATION_ID = 0x4E4F5441  # "NOTA"


@dataclass(frozen=True, slots=True)
class Migration:
    """Hold one step of the schema, which leads to ``version``."""

    version: int
    name: str
    statements: tuple[str, ...]


MIGRATIONS = (Migration(1, NAME, STATEMENTS),)
SCHEMA_VERSION = MIGRATIONS[-1].version


@dataclass(frozen=True, slots=True)
class SchemaState:
    """Describe the schema of a database."""

    version: int
    application_id: int

    @property
    def ours(self) -> bool:
        """Tell whether this is a database of this program (of any version)."""
        return self.version > 0 and self.application_id == APPLICATION_ID


def state(database: Database) -> SchemaState:
    """Read version and application id."""
    return SchemaState(
        version=database.user_version(), application_id=database.number("PRAGMA application_id")
    )


def create_tables(database: Database, *, meta: Mapping[str, str]) -> None:
    """Create all tables and the first metadata in an empty database, in one transaction."""
    with database.schema_change(), database.transaction(durable=True):
        database.run(f"PRAGMA application_id = {APPLICATION_ID}")
        for step in MIGRATIONS:
            _run_step(database, step)
        database.run_many(
            "INSERT INTO sync_metadata(key, value) VALUES (?, ?)", sorted(meta.items())
        )


def migrate(database: Database) -> tuple[int, ...]:
    """Run every missing step; return their versions (empty: up to date).

    Raises ``CacheError``; the step that failed changed nothing. The caller has checked
    :class:`SchemaState`: a foreign or newer database is refused there.
    """
    taken = []
    for step in MIGRATIONS:
        with database.schema_change(), database.transaction(durable=True):
            # Inside the write lock: two processes may be migrating at once.
            if step.version > database.user_version():
                _run_step(database, step)
                taken.append(step.version)
    return tuple(taken)


def rehearse(database: Database) -> None:
    """Run the steps of :func:`migrate` in one transaction that is rolled back.

    Raises ``CacheError`` where ``migrate`` would. The database is unchanged in any case.
    """
    with suppress(_Undone), database.schema_change(), database.transaction():
        for step in MIGRATIONS:
            if step.version > database.user_version():
                _run_step(database, step)
        raise _Undone


class _Undone(Exception):
    """Leave a transaction without committing it."""


def _run_step(database: Database, step: Migration) -> None:
    for statement in step.statements:
        database.run(statement)
    database.run(
        "INSERT INTO schema_migrations(version, name, applied_at) VALUES (?, ?, unixepoch())",
        (step.version, step.name),
    )
    database.run(f"PRAGMA user_version = {int(step.version)}")
