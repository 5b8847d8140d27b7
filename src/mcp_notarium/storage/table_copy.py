"""Copy every row of one open database into another, new and empty one.

The target's own connection writes its pages under its own key; no bytes of the old file are copied,
and no statement ever knows two keys. The full-text index is built again from the notes. The ``pk`` of
notes stay the same, gaps included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from mcp_notarium.storage.connection import Database, Row
from mcp_notarium.storage.fts_index import FtsIndex

_SLICE = 500

OnProgress = Callable[[int, int], None]
"""Is called with the number of rows done, and of all rows."""


@dataclass(frozen=True, slots=True)
class Table:
    """Hold a table to copy: its columns; rows are read in the order of the key."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Return key and columns, in the order of copying."""
        return (*self.key, *self.columns)


TABLES = (
    Table(
        "notes",
        ("pk",),
        (
            *("id", "local_version", "server_version", "created_at", "modified_at", "trash"),
            *("pinned", "markdown", "tags", "head", "supplement", "text"),
        ),
    ),
    Table(
        "note_base",
        ("pk",),
        ("etag", "created_at", "modified_at", "text_at", "text_escaped", "raw"),
    ),
    Table("note_tags", ("pk", "tag"), ("key",)),
    Table(
        "pending_writes",
        ("write_id",),
        (
            *("note_id", "kind", "base_etag", "text", "tags", "trash", "body", "created_at"),
            *("owner", "lease_until", "state", "reason", "copied"),
        ),
    ),
    Table("withheld", ("id",), ("etag", "server_version", "rule")),
    Table("sync_metadata", ("key",), ("value",)),
)
REBUILT_TABLES = frozenset(
    {"note_counts", "search_index", "index_changes", "schema_migrations", "audit"}
)
"""Tables that the target fills by itself (like ``notes_fts`` with its shadow tables), and the audit
chain, which gets new MACs (``audit_table.carry_over``)."""


def copy_into(
    source: Database,
    target: Database,
    *,
    keep: Collection[str],
    told: OnProgress = lambda _done, _of: None,
) -> None:
    """Copy every row. ``keep``: keys of ``sync_metadata`` whose values in the target stay.

    It takes several transactions; the target is valid only when this has returned. Raises
    ``CacheError`` of either side, ``CacheFull`` among them.
    """
    total = sum(source.number(f"SELECT count(*) FROM {table.name}") for table in TABLES)  # noqa: S608 - names of this module
    done = 0
    for table in TABLES:
        for rows in slices(source, table):
            with target.transaction():
                kept = [row for row in rows if not _is_named(table, row, keep)]
                target.run_many(_insertion(table), kept)
            done += len(rows)
            told(done, total)
    with target.transaction(durable=True):
        FtsIndex(target).rebuild()


def content_digest(database: Database, *, without: Collection[str]) -> str:
    """Return SHA-256 in hex over every copied row, in order; ``without`` these keys of the metadata."""
    digest = hashlib.sha256()
    for table in TABLES:
        digest.update(f"table {table.name}\n".encode())
        for rows in slices(database, table):
            for row in rows:
                if not _is_named(table, row, without):
                    digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _is_named(table: Table, row: Row, names: Collection[str]) -> bool:
    """Tell whether it is metadata of one of these names; ids in other tables are anybody's choice."""
    return table.name == "sync_metadata" and row[0] in names


def slices(database: Database, table: Table) -> Iterator[list[Row]]:
    """Yield all rows in the order of the key, some hundred at a time."""
    last: Row = ()
    while rows := database.rows(_selection(table, first=not last), (*last, _SLICE)):
        yield rows
        last = rows[-1][: len(table.key)]


def _selection(table: Table, *, first: bool) -> str:
    key = ", ".join(table.key)
    after = "" if first else f"WHERE ({key}) > ({', '.join('?' * len(table.key))})"
    return f"SELECT {', '.join(table.all_columns)} FROM {table.name} {after} ORDER BY {key} LIMIT ?"  # noqa: S608 - as above


def _insertion(table: Table) -> str:
    columns = ", ".join(table.all_columns)
    values = ", ".join("?" * len(table.all_columns))
    return f"INSERT OR REPLACE INTO {table.name}({columns}) VALUES ({values})"  # noqa: S608 - as above
