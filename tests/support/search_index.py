"""Fill the cache's search tables in plain SQLite, for tests of search/sql_builder.py."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.lines import first_line
from mcp_notarium.search.folding import supplement, tag_words, title_key
from mcp_notarium.search.query import Query
from mcp_notarium.search.sql_builder import Statement, build
from mcp_notarium.storage.schema import RANKING

SCHEMA = """
CREATE TABLE notes(
  pk INTEGER PRIMARY KEY, id TEXT UNIQUE, local_version INTEGER, server_version INTEGER,
  created_at INTEGER, modified_at INTEGER, trash INTEGER,
  properties TEXT DEFAULT '{}',
  tags TEXT, title TEXT, head TEXT, title_key TEXT, heading TEXT, tag_words TEXT, supplement TEXT,
  text TEXT);
CREATE INDEX notes_listing ON notes(trash, modified_at DESC, pk);
CREATE INDEX notes_created ON notes(trash, created_at DESC, pk);
CREATE INDEX notes_titles ON notes(title_key);
CREATE INDEX notes_meta ON notes(pk, trash, modified_at, created_at);
CREATE TABLE note_tags(pk INTEGER NOT NULL, tag TEXT NOT NULL, key TEXT NOT NULL);
CREATE INDEX note_tags_key ON note_tags(key, pk);
CREATE VIRTUAL TABLE notes_fts USING fts5(
  text, heading, tag_words, supplement, content='notes', content_rowid='pk',
  tokenize='porter unicode61 remove_diacritics 1');
CREATE TRIGGER notes_added AFTER INSERT ON notes BEGIN
  INSERT INTO notes_fts(rowid, text, heading, tag_words, supplement)
  VALUES (new.pk, new.text, new.heading, new.tag_words, new.supplement);
  UPDATE note_counts SET active = active + (new.trash = 0), trashed = trashed + new.trash;
END;
CREATE TABLE note_counts(active INTEGER, trashed INTEGER);
INSERT INTO note_counts VALUES (0, 0);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One note of the index; ``pk`` is its place in the list given, from 1."""

    text: str
    tags: tuple[str, ...] = ()
    modified_at: int = 0
    created_at: int = 0
    trash: bool = False


class SearchTables:
    """A database in memory with these notes."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.db = sqlite3.connect(":memory:")
        self.db.executescript(SCHEMA)
        self.db.execute(RANKING)
        for pk, entry in enumerate(entries, start=1):
            self.db.execute(
                "INSERT INTO notes(pk, id, local_version, created_at, modified_at, trash,"
                " tags, head, title_key, heading, tag_words, supplement, text)"
                " VALUES (?,?,1,?,?,?,?,?,?,?,?,?,?)",
                (
                    pk,
                    f"id{pk}",
                    entry.created_at,
                    entry.modified_at,
                    int(entry.trash),
                    json.dumps(entry.tags),
                    entry.text[:80],
                    title_key(first_line(entry.text)),
                    first_line(entry.text),
                    tag_words(entry.tags),
                    supplement(entry.text),
                    entry.text,
                ),
            )
            self.db.executemany(
                "INSERT INTO note_tags VALUES (?,?,?)",
                [(pk, tag, tag_key(tag)) for tag in entry.tags],
            )

    def run(self, statement: Statement) -> list[tuple]:
        return self.db.execute(statement.sql, statement.parameters).fetchall()

    def found(self, query: Query, *, limit: int = 1000, offset: int = 0, **more) -> list[int]:
        """The pks of the page, in the order of the answer."""
        return [row[-1] for row in self.run(build(query, limit=limit, offset=offset, **more).rows)]

    def counted(self, query: Query, **more) -> int:
        return self.run(build(query, limit=1, **more).count)[0][0]

    def plan(self, statement: Statement) -> list[str]:
        """How SQLite would carry the statement out, one step a line."""
        rows = self.db.execute("EXPLAIN QUERY PLAN " + statement.sql, statement.parameters)
        return [row[3] for row in rows]

    def close(self) -> None:
        self.db.close()
