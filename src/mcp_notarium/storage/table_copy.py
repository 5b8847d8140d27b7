"""Copies everything of one open cache into another, new and empty one, row by row.

The target gets its pages written by its own connection, under its own key; nothing of the old file's
bytes is taken over, and no statement ever knows two keys. The search index is built again from the
notes, whose ``pk`` stay what they were, gaps included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from mcp_notarium.storage.connection import Database, Row

_SLICE = 500

OnProgress = Callable[[int, int], None]
"""Called with how many rows are done, and of how many."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is copied: its columns, the key first, by which it is read in order."""

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Key and columns, in the order they are copied in."""
        return (*self.key, *self.columns)


TABLES = (
    Table(
        "notes",
        ("pk",),
        (
            *("id", "local_version", "server_version", "created_at", "modified_at", "trash"),
            *("sync_deleted", "pinned", "markdown", "total_lines", "content_digest", "tags"),
            *("head", "supplement", "text"),
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
"""Tables that the target fills by itself (so does ``notes_fts`` with its shadow tables), and the audit
chain, which is sealed anew (``audit_table.carry_over``)."""


def copy_into(
    source: Database,
    target: Database,
    *,
    keep: Collection[str],
    told: OnProgress = lambda _done, _of: None,
) -> None:
    """Copy every row. ``keep``: keys of ``sync_metadata`` whose values in the target stay.

    Several transactions; the caller lets the target count only when this has returned. Raises
    ``CacheError`` of either side, ``CacheFull`` among them.
    """
    total = sum(source.number(f"SELECT count(*) FROM {table.name}") for table in TABLES)  # noqa: S608 - names of this module
    done = 0
    target.run("UPDATE search_index SET deferred = 1")
    for table in TABLES:
        for rows in slices(source, table):
            with target.transaction():
                kept = [row for row in rows if not _is_named(table, row, keep)]
                target.run_many(_insertion(table), kept)
            done += len(rows)
            told(done, total)
    with target.transaction(durable=True):
        target.run("INSERT INTO notes_fts(notes_fts) VALUES ('rebuild')")
        target.run(
            "UPDATE search_index SET deferred = 0, changes = (SELECT count(*) FROM notes) + 1"
        )


def content_digest(database: Database, *, without: Collection[str]) -> str:
    """SHA-256 in hex over every copied row, in order; ``without`` these keys of the metadata."""
    digest = hashlib.sha256()
    for table in TABLES:
        digest.update(f"table {table.name}\n".encode())
        for rows in slices(database, table):
            for row in rows:
                if not _is_named(table, row, without):
                    digest.update(repr(row).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _is_named(table: Table, row: Row, names: Collection[str]) -> bool:
    """Whether it is the metadata of one of these names; other tables have ids that anybody chooses."""
    return table.name == "sync_metadata" and row[0] in names


def slices(database: Database, table: Table) -> Iterator[list[Row]]:
    """All rows in the order of the key, some hundred at a time."""
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
