"""Read the rows of other tables that go when a note goes, and make them again.

Such are the labels that Prisma keeps in a table of its own (``_LabelToNote``). Only what the file itself
declares counts: a foreign key to the note's id with ON DELETE CASCADE. Rows that hang on these rows are not read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from mcp_notarium.stores.memento.database_file import quoted
from mcp_notarium.stores.memento.note_codec import LinkedRow

_LINKS = """
SELECT t.name, k."from" FROM sqlite_master AS t, pragma_foreign_key_list(t.name) AS k
WHERE t.type = 'table' AND lower(k."table") = 'note' AND k.on_delete = 'CASCADE' AND coalesce(k."to", 'id') = 'id'
AND (SELECT count(*) FROM pragma_foreign_key_list(t.name) AS part WHERE part.id = k.id) = 1
"""
"""Each table with a column whose row goes with the note of that id."""
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def read(connection: sqlite3.Connection, note_id: str) -> list[LinkedRow]:
    """Return the rows that SQLite removes together with the note."""
    found = []
    for table, column in connection.execute(_LINKS).fetchall():
        names = ", ".join(map(quoted, _columns(connection, table)))
        sql = f"SELECT {names} FROM {quoted(table)} WHERE {quoted(column)} = ?"  # noqa: S608 - names of the file, quoted
        rows = connection.execute(sql, (note_id,)).fetchall()
        found += [LinkedRow(table, dict(row)) for row in rows]
    return found


def insert(connection: sqlite3.Connection, rows: Sequence[LinkedRow]) -> None:
    """Make the rows again. One that the file does not take any more is left out: its label has gone, too."""
    tables = {table for table, _ in connection.execute(_LINKS).fetchall()}
    for row in rows:
        if row.table not in tables:
            continue
        there = _columns(connection, row.table)
        values = {name: value for name, value in row.values.items() if name in there}
        names, marks = ", ".join(map(quoted, values)), ", ".join("?" * len(values))
        sql = f"INSERT OR IGNORE INTO {quoted(row.table)} ({names}) VALUES ({marks})"  # noqa: S608 - the same
        try:
            connection.execute(sql, tuple(values.values()))
        except sqlite3.IntegrityError:
            continue


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [name for (name,) in connection.execute(_COLUMNS, (table,)).fetchall()]
