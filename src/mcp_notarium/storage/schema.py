"""Define schema 1: notes with their full-text index, bases, hidden notes, journal, audit chain, metadata.

A store may have tables of its own (``StoreKind.tables``); every database has those of all stores.

docs/format.md says what the tables hold. What a change of them must keep:

* In ``notes`` the small columns come first and ``text`` last: a listing reads the first bytes of a row and never its
  overflow pages.
* ``pk`` is explicit because the search index refers to it; an implicit rowid may change when a database is copied.
* The codec of the store leaves the note's text out of ``note_base.raw``: each text twice would double the file.
* ``title_key`` is the folded title, or first line. ``heading``, ``tag_words`` and ``supplement`` are there to be searched.
* ``search_index.changes`` grows when words come into the index, and ``index_changes`` names the notes of the last ones.
  ``left_behind``: words of replaced texts are in it since it was merged (``merged_at``, epoch seconds).
* Triggers keep ``note_counts``, but who inserts notes adds them: a trigger for each row is a twelfth of what a
  first load writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from mcp_notarium.stores import registry


class Kind(Enum):
    """Name what a table holds."""

    INDEX = "what can be fetched again from the store"
    STATE = "what only this database has"


@dataclass(frozen=True, slots=True)
class Table:
    """Describe a table."""

    kind: Kind
    key: tuple[str, ...] = ()
    """Its first columns, by which rows are copied in order; () where others fill it."""


_LENT = tuple(kind.tables for kind in registry.kinds() if kind.tables is not None)

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {
        "notes": Table(Kind.INDEX, ("pk",)),
        "note_base": Table(Kind.INDEX, ("pk",)),
        "note_tags": Table(Kind.INDEX, ("pk", "tag")),
        "note_names": Table(Kind.INDEX, ("kind", "key", "pk")),
        "note_links": Table(Kind.INDEX, ("pk", "place")),
        "note_properties": Table(Kind.INDEX, ("pk", "place")),
        "note_tasks": Table(Kind.INDEX, ("pk", "line")),
        "merge_bases": Table(Kind.INDEX, ("number",)),
        "note_vectors": Table(Kind.INDEX, ("number",)),
        "hidden_notes": Table(Kind.INDEX, ("id",)),
        "notes_fts": Table(Kind.INDEX),
        "search_index": Table(Kind.INDEX),
        "index_changes": Table(Kind.INDEX),
        "note_counts": Table(Kind.INDEX),
        "note_versions": Table(Kind.STATE, ("pk",)),
        "note_aliases": Table(Kind.INDEX, ("alias", "pk")),
        "hidden_names": Table(Kind.STATE, ("kind", "name", "rule")),
        "profile_numbers": Table(Kind.STATE, ("profile", "note_id", "first")),
        "journal": Table(Kind.STATE, ("write_id",)),
        "sync_metadata": Table(Kind.STATE, ("key",)),
        "approvals": Table(Kind.STATE, ("id",)),
        "audit": Table(Kind.STATE),
        "checkpoints": Table(Kind.STATE),
    }
    | {name: Table(Kind.STATE, key) for lent in _LENT for name, key in lent.keys.items()}
)
"""Every table and what it holds; triggers, the full-text index and the audit chain fill some."""
INDEX_ROWS: Final = "sync."
"""Rows of ``sync_metadata`` whose key begins so speak of the index, and are of no use without it."""

RANKING: Final = (
    "INSERT INTO notes_fts(notes_fts, rank) VALUES ('rank', 'bm25(1.0, 5.0, 3.0, 1.0)')"
)
"""A word in the heading counts more than one in the text, where it may stand as well."""

STATEMENTS = (
    # These two get the first pages, which each start reads: what they hold can be fetched from nowhere.
    "CREATE TABLE sync_metadata (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    # One row on a page of its own: the main file is read without its log, where it may be of several times.
    "CREATE TABLE checkpoints (one INTEGER PRIMARY KEY CHECK (one = 1), number INTEGER NOT NULL) STRICT",
    "INSERT INTO checkpoints VALUES (1, 0)",
    """
    CREATE TABLE notes (
      pk             INTEGER PRIMARY KEY,
      id             TEXT NOT NULL UNIQUE CHECK (id <> ''),
      local_version  INTEGER NOT NULL DEFAULT 1 CHECK (local_version >= 1),
      server_version INTEGER,
      created_at     INTEGER NOT NULL,
      modified_at    INTEGER NOT NULL,
      trash          INTEGER NOT NULL DEFAULT 0 CHECK (trash IN (0, 1)),
      properties     TEXT NOT NULL DEFAULT '{}',
      tags           TEXT NOT NULL DEFAULT '[]',
      title          TEXT,
      head           TEXT NOT NULL DEFAULT '',
      title_key      TEXT NOT NULL DEFAULT '',
      heading        TEXT NOT NULL DEFAULT '',
      tag_words      TEXT NOT NULL DEFAULT '',
      supplement     TEXT NOT NULL DEFAULT '',
      text           TEXT NOT NULL
    ) STRICT
    """,
    "CREATE INDEX notes_listing ON notes(trash, modified_at DESC, pk)",
    "CREATE INDEX notes_created ON notes(trash, created_at DESC, pk)",
    "CREATE INDEX notes_titles ON notes(title_key)",
    "CREATE INDEX notes_meta ON notes(pk, trash, modified_at, created_at)",
    """
    CREATE VIRTUAL TABLE notes_fts USING fts5(
      text, heading, tag_words, supplement,
      content='notes', content_rowid='pk',
      tokenize='porter unicode61 remove_diacritics 1'
    )
    """,
    RANKING,
    # The words of a large transaction are written at once, 16 MiB of them at most.
    "INSERT INTO notes_fts(notes_fts, rank) VALUES ('hashsize', 16777216)",
    # Else a save merges the words of those before it, now and then for 20 ms; all is merged at rest.
    "INSERT INTO notes_fts(notes_fts, rank) VALUES ('automerge', 0)",
    # Else the sixteenth page of a load, or a save behind it, merges all before it, for seconds.
    "INSERT INTO notes_fts(notes_fts, rank) VALUES ('crisismerge', 1000)",
    """
    CREATE TABLE search_index (
      one         INTEGER PRIMARY KEY CHECK (one = 1),
      changes     INTEGER NOT NULL DEFAULT 0,
      owed        INTEGER NOT NULL DEFAULT 0 CHECK (owed IN (0, 1, 2)),
      left_behind INTEGER NOT NULL DEFAULT 0 CHECK (left_behind IN (0, 1)),
      merged_at   INTEGER NOT NULL DEFAULT 0,
      vectors     INTEGER NOT NULL DEFAULT 0
    ) STRICT
    """,
    "INSERT INTO search_index(one) VALUES (1)",
    """
    CREATE TABLE index_changes (
      change INTEGER PRIMARY KEY,
      pk     INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE note_counts (
      one     INTEGER PRIMARY KEY CHECK (one = 1),
      active  INTEGER NOT NULL DEFAULT 0 CHECK (active >= 0),
      trashed INTEGER NOT NULL DEFAULT 0 CHECK (trashed >= 0)
    ) STRICT
    """,
    "INSERT INTO note_counts(one) VALUES (1)",
    """
    CREATE TRIGGER notes_uncounted AFTER DELETE ON notes BEGIN
      UPDATE note_counts SET active = active - (old.trash = 0), trashed = trashed - old.trash;
    END
    """,
    """
    CREATE TRIGGER notes_recounted AFTER UPDATE OF trash ON notes WHEN old.trash <> new.trash
    BEGIN
      UPDATE note_counts SET active = active + old.trash - new.trash,
                             trashed = trashed + new.trash - old.trash;
    END
    """,
    """
    CREATE TABLE note_tags (
      pk  INTEGER NOT NULL REFERENCES notes(pk) ON DELETE CASCADE,
      tag TEXT NOT NULL,
      key TEXT NOT NULL,
      PRIMARY KEY (pk, tag)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX note_tags_key ON note_tags(key, pk)",
    """
    CREATE TABLE note_names (
      kind TEXT NOT NULL CHECK (kind IN ('path', 'name', 'alias')),
      key  TEXT NOT NULL,
      pk   INTEGER NOT NULL REFERENCES notes(pk) ON DELETE CASCADE,
      PRIMARY KEY (kind, key, pk)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX note_names_pk ON note_names(pk)",
    """
    CREATE TABLE note_links (
      pk     INTEGER NOT NULL REFERENCES notes(pk) ON DELETE CASCADE,
      place  INTEGER NOT NULL,
      target TEXT NOT NULL,
      key    TEXT NOT NULL,
      PRIMARY KEY (pk, place)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX note_links_key ON note_links(key, pk)",
    """
    CREATE TABLE note_properties (
      pk        INTEGER NOT NULL REFERENCES notes(pk) ON DELETE CASCADE,
      place     INTEGER NOT NULL,
      name      TEXT NOT NULL,
      key       TEXT NOT NULL,
      kind      TEXT NOT NULL,
      value     TEXT NOT NULL,
      value_key TEXT NOT NULL,
      number    REAL,
      is_list   INTEGER NOT NULL CHECK (is_list IN (0, 1)),
      PRIMARY KEY (pk, place)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX note_properties_key ON note_properties(key, value_key, pk)",
    """
    CREATE TABLE note_tasks (
      pk        INTEGER NOT NULL REFERENCES notes(pk) ON DELETE CASCADE,
      line      INTEGER NOT NULL,
      is_open   INTEGER NOT NULL CHECK (is_open IN (0, 1)),
      state     TEXT NOT NULL,
      due       REAL,
      scheduled REAL,
      words     TEXT NOT NULL,
      PRIMARY KEY (pk, line)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX note_tasks_open ON note_tasks(is_open, due, pk)",
    """
    CREATE TABLE note_base (
      pk              INTEGER PRIMARY KEY REFERENCES notes(pk) ON DELETE CASCADE,
      etag            TEXT NOT NULL,
      created_at      REAL NOT NULL,
      modified_at     REAL NOT NULL,
      tags_understood INTEGER NOT NULL DEFAULT 1 CHECK (tags_understood IN (0, 1)),
      identity        TEXT,
      raw             BLOB NOT NULL,
      written_here    INTEGER NOT NULL DEFAULT 0 CHECK (written_here IN (0, 1))
    ) STRICT
    """,
    "CREATE INDEX note_base_identity ON note_base(identity) WHERE identity IS NOT NULL",
    """
    CREATE TABLE merge_bases (
      number        INTEGER PRIMARY KEY,
      pk            INTEGER NOT NULL REFERENCES notes(pk) ON DELETE CASCADE,
      local_version INTEGER NOT NULL,
      trash         INTEGER NOT NULL CHECK (trash IN (0, 1)),
      properties    TEXT NOT NULL,
      tags          TEXT NOT NULL,
      title         TEXT,
      text          TEXT NOT NULL,
      UNIQUE (pk, local_version)
    ) STRICT
    """,
    """
    CREATE TABLE note_vectors (
      number        INTEGER PRIMARY KEY,
      pk            INTEGER NOT NULL UNIQUE REFERENCES notes(pk) ON DELETE CASCADE,
      model         TEXT NOT NULL,
      local_version INTEGER NOT NULL,
      vector        BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE journal (
      write_id    TEXT PRIMARY KEY,
      note_id     TEXT NOT NULL,
      kind        TEXT NOT NULL CHECK (kind IN ('create', 'update', 'delete')),
      base_etag   TEXT,
      text        TEXT NOT NULL,
      title       TEXT,
      tags        TEXT NOT NULL,
      trash       INTEGER NOT NULL CHECK (trash IN (0, 1)),
      properties  TEXT NOT NULL DEFAULT '{}',
      body        BLOB NOT NULL,
      created_at  REAL NOT NULL,
      owner       TEXT NOT NULL,
      lease_until REAL NOT NULL,
      state       TEXT NOT NULL DEFAULT 'in_flight' CHECK (state IN ('in_flight', 'rejected')),
      reason      TEXT NOT NULL DEFAULT '',
      copied      INTEGER NOT NULL DEFAULT 0 CHECK (copied IN (0, 1)),
      client      TEXT NOT NULL DEFAULT '',
      repair      INTEGER NOT NULL DEFAULT 0 CHECK (repair IN (0, 1)),
      after       TEXT NOT NULL DEFAULT '',
      replaced    BLOB,
      first_etag  TEXT,
      change_id   TEXT NOT NULL DEFAULT '',
      from_id     TEXT NOT NULL DEFAULT ''
    ) STRICT
    """,
    """
    CREATE TABLE note_versions (
      pk              INTEGER PRIMARY KEY,
      note_id         TEXT NOT NULL,
      number          INTEGER NOT NULL,
      server_version  INTEGER,
      modified_at     REAL NOT NULL,
      replaced_at     REAL NOT NULL,
      replaced_by     TEXT NOT NULL DEFAULT '',
      size            INTEGER NOT NULL,
      held            INTEGER NOT NULL,
      etag            TEXT NOT NULL,
      made            TEXT,
      tags_understood INTEGER NOT NULL DEFAULT 1 CHECK (tags_understood IN (0, 1)),
      tags            TEXT NOT NULL,
      trash           INTEGER NOT NULL CHECK (trash IN (0, 1)),
      properties      TEXT NOT NULL DEFAULT '{}',
      title           TEXT,
      text            TEXT,
      full_copy        BLOB,
      native          BLOB,
      stays           INTEGER NOT NULL DEFAULT 0 CHECK (stays IN (0, 1)),
      change_id       TEXT NOT NULL DEFAULT '',
      UNIQUE (note_id, number),
      CHECK (held = iif(text IS NULL, 0, size) + coalesce(length(full_copy), 0) + coalesce(length(native), 0))
    ) STRICT
    """,
    "CREATE INDEX note_versions_age ON note_versions(replaced_at, held, stays)",
    "CREATE INDEX note_versions_change ON note_versions(change_id) WHERE change_id <> ''",
    """
    CREATE TABLE note_aliases (
      alias TEXT NOT NULL,
      pk    INTEGER NOT NULL REFERENCES notes(pk) ON DELETE CASCADE,
      PRIMARY KEY (alias, pk)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX note_aliases_pk ON note_aliases(pk)",
    """
    CREATE TABLE hidden_notes (
      id             TEXT PRIMARY KEY CHECK (id <> ''),
      etag           TEXT NOT NULL,
      server_version INTEGER,
      rule           TEXT NOT NULL,
      identity       TEXT
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE hidden_names (
      kind TEXT NOT NULL CHECK (kind IN ('id', 'identity')),
      name TEXT NOT NULL,
      rule TEXT NOT NULL,
      PRIMARY KEY (kind, name, rule)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE approvals (
      id         TEXT PRIMARY KEY CHECK (id <> ''),
      binding    TEXT NOT NULL UNIQUE CHECK (length(binding) = 64),
      client     TEXT NOT NULL,
      profile    TEXT,
      tool       TEXT NOT NULL,
      action     TEXT NOT NULL,
      note_id    TEXT NOT NULL,
      question   TEXT NOT NULL,
      diff       TEXT NOT NULL,
      asked_at   REAL NOT NULL,
      expires_at REAL NOT NULL,
      answer     TEXT NOT NULL DEFAULT '' CHECK (answer IN ('', 'yes', 'no'))
    ) STRICT
    """,
    """
    CREATE TABLE profile_numbers (
      profile TEXT NOT NULL,
      note_id TEXT NOT NULL,
      first   INTEGER NOT NULL,
      shift   INTEGER NOT NULL,
      PRIMARY KEY (profile, note_id, first)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE audit (
      number    INTEGER PRIMARY KEY CHECK (number >= 1),
      at_ms     INTEGER NOT NULL,
      client    TEXT NOT NULL,
      act       TEXT NOT NULL CHECK (act <> ''),
      digest    TEXT NOT NULL,
      notes     TEXT NOT NULL,
      decision  TEXT NOT NULL,
      outcome   TEXT NOT NULL,
      bytes_out INTEGER NOT NULL CHECK (bytes_out >= 0),
      refers    INTEGER NOT NULL CHECK (refers >= 0 AND refers < number),
      facts     TEXT NOT NULL,
      previous  TEXT NOT NULL CHECK (length(previous) = 64),
      mac       TEXT NOT NULL CHECK (length(mac) = 64)
    ) STRICT
    """,
    # defence: audit-never-changed
    """
    CREATE TRIGGER audit_never_changed BEFORE UPDATE ON audit BEGIN
      SELECT RAISE(ABORT, 'an audit record is never changed');
    END
    """,
    """
    CREATE TRIGGER audit_without_gap BEFORE INSERT ON audit
    WHEN EXISTS (SELECT 1 FROM audit)
     AND new.number <> (SELECT max(number) FROM audit) + 1
    BEGIN
      SELECT RAISE(ABORT, 'an audit record follows the last one');
    END
    """,
    """
    CREATE TRIGGER audit_oldest_first BEFORE DELETE ON audit
    WHEN old.number <> (SELECT min(number) FROM audit)
    BEGIN
      SELECT RAISE(ABORT, 'only the oldest audit record may go');
    END
    """,
    *(statement for lent in _LENT for statement in lent.statements),
)
RENUMBERING: Final = tuple(lent.renumber for lent in _LENT)
"""Statements that raise the numbers of stores to at least ``:least``, and above those of their rows."""
TWINS: Final = MappingProxyType({name: sql for lent in _LENT for name, sql in lent.twins.items()})
"""Query by key that makes a row of a store's table again from the index."""
