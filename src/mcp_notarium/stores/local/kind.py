"""Declare the local notebook, and the same in memory: settings, what names an account, tables. No login, no network.

* ``notebook_notes.change`` is the notebook's number of the note's last change. It is etag and place in the stream
  of changes at once, and no number is given twice. No answer shows it: it would count changes of hidden notes.
* ``made_by`` is the write that made the note: another one that asks for the same id has to take another.
* ``properties`` is a JSON object with everything of a note that has no column of its own.
* ``text`` stands last: a listing without content reads the index alone.
* ``notebook_files`` says which file a note has under which name. ``discarded_at`` (epoch seconds): an undo has taken it, and may
  be taken back. ``notebook_file_parts`` has the bytes of each digest once, in parts that a copy reads by the hundred.
* ``notebook_removed`` has no text, and only the newest removals: a cursor from before ``forgotten`` is lost.

The checks are what a verification of the database verifies.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.domain.note import PropertyPlace
from mcp_notarium.stores.kind import (
    AccountIdentity,
    LentTables,
    StoreKind,
    StoreSettings,
    Truth,
    is_plain_id,
    traits_of,
)

if TYPE_CHECKING:
    from mcp_notarium.stores.context import Access, StoreContext
    from mcp_notarium.stores.contract import Store


TABLES = LentTables(
    keys={
        "notebook": ("one",),
        "notebook_notes": ("id",),
        "notebook_removed": ("id",),
        "notebook_files": ("note_id", "name"),
        "notebook_file_parts": ("digest", "part"),
    },
    statements=(
        """
        CREATE TABLE notebook (
          one       INTEGER PRIMARY KEY CHECK (one = 1),
          change    INTEGER NOT NULL DEFAULT 0 CHECK (change >= 0),
          forgotten INTEGER NOT NULL DEFAULT 0 CHECK (forgotten BETWEEN 0 AND change)
        ) STRICT
        """,
        "INSERT INTO notebook(one) VALUES (1)",
        """
        CREATE TABLE notebook_notes (
          id          TEXT PRIMARY KEY CHECK (id <> ''),
          change      INTEGER NOT NULL CHECK (change >= 1),
          write_id    TEXT NOT NULL,
          made_by     TEXT NOT NULL,
          created_at  REAL NOT NULL,
          modified_at REAL NOT NULL,
          trash       INTEGER NOT NULL CHECK (trash IN (0, 1)),
          tags        TEXT NOT NULL CHECK (json_valid(tags)),
          properties  TEXT NOT NULL CHECK (json_valid(properties)),
          title       TEXT,
          text        TEXT NOT NULL
        ) STRICT
        """,
        "CREATE UNIQUE INDEX notebook_changes ON notebook_notes(change, id)",
        """
        CREATE TABLE notebook_removed (
          id     TEXT PRIMARY KEY,
          change INTEGER NOT NULL CHECK (change >= 1)
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE UNIQUE INDEX notebook_removals ON notebook_removed(change)",
        """
        CREATE TABLE notebook_files (
          note_id      TEXT NOT NULL,
          name         TEXT NOT NULL CHECK (name <> ''),
          kind         TEXT NOT NULL,
          digest       TEXT NOT NULL CHECK (length(digest) = 64),
          size         INTEGER NOT NULL CHECK (size >= 0),
          kept_at      REAL NOT NULL,
          discarded_at REAL,
          PRIMARY KEY (note_id, name)
        ) STRICT
        """,
        "CREATE INDEX notebook_files_digest ON notebook_files(digest)",
        """
        CREATE TABLE notebook_file_parts (
          digest TEXT NOT NULL,
          part   INTEGER NOT NULL CHECK (part >= 0),
          data   BLOB NOT NULL,
          PRIMARY KEY (digest, part)
        ) STRICT
        """,
    ),
    last_change="SELECT change FROM notebook",
    files="""
        SELECT count(*), (SELECT coalesce(sum(size), 0) FROM (SELECT size FROM notebook_files GROUP BY digest))
        FROM notebook_files WHERE discarded_at IS NULL
    """,
    twins={
        "notebook_notes": """
            SELECT n.id, CAST(b.etag AS INTEGER), '', '', b.created_at, b.modified_at, n.trash, n.tags,
                   CAST(b.raw AS TEXT), n.title, n.text
            FROM notes n JOIN note_base b ON b.pk = n.pk WHERE n.id = ?
        """
    },
    renumber="""
        UPDATE notebook SET change = max(
          change, :least,
          (SELECT coalesce(max(change), 0) FROM notebook_notes),
          (SELECT coalesce(max(change), 0) FROM notebook_removed)
        )
    """,
)


NOTEBOOK, COPIES = "LOCAL_NOTEBOOK", "LOCAL_COPIES"


def _identity(settings: StoreSettings) -> AccountIdentity:
    name = unicodedata.normalize("NFC", settings.text(NOTEBOOK).strip())
    return AccountIdentity("local", "", name)


def _open(_settings: StoreSettings, context: StoreContext) -> Store:
    from mcp_notarium.stores.local.store import LocalStore  # noqa: PLC0415 - every start imports this

    return LocalStore(context.database)


def _access(_settings: StoreSettings) -> Access:
    from mcp_notarium.stores.context import Access  # noqa: PLC0415 - every start imports this module

    return Access()


KIND = StoreKind(
    name="local",
    title="the local notebook",
    place="here, in an encrypted notebook",
    truth=Truth.LOCAL,
    variables=(
        Variable(
            name=NOTEBOOK,
            purpose="Name of the notebook. Another name is another notebook.",
            kind=Kind.TEXT,
            default="notebook",
        ),
        Variable(
            name=COPIES,
            purpose="How many verified copies of the notebook are kept. One is made when a server stops "
            "after changes, or after the next start; `mcp-notarium restore` puts one back.",
            kind=Kind.COUNT,
            default="5",
            maximum=100,
        ),
    ),
    identity=_identity,
    open=_open,
    access=_access,
    tables=TABLES,
    titles=True,
    trash=True,
    keeps_files=True,
    properties=frozenset({"pinned"}),
    other_properties=PropertyPlace.BESIDE,
    takes_id=is_plain_id,
    native_toolset="plain_{names}",
    copies=lambda settings: int(settings.text(COPIES)),
)
MEMORY = StoreKind(
    name="memory",
    title="the notebook in memory",
    truth=Truth.LOCAL,
    variables=(),
    identity=lambda _settings: AccountIdentity("memory", "", ""),
    open=_open,
    access=_access,
    **traits_of(KIND),
    native_toolset=KIND.native_toolset,
    persistent=False,
)
"""No file ever holds its database, which has the tables already, as every database of the program has."""
