"""Run the server's own SQL statements with the driver alone, as a floor."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlcipher3.dbapi2 as driver

from mcp_notarium.search.fts_expression import build_match
from mcp_notarium.search.parser import parse
from mcp_notarium.search.query import Word
from mcp_notarium.search.ranking import MOST_RANKED
from mcp_notarium.search.sql_builder import Statement, build, build_newest, order_of, wide_rows
from mcp_notarium.storage.database_opener import PAGE_CACHE
from mcp_notarium.storage.note_rows import BATCH
from mcp_notarium.storage.schema import STATEMENTS

KEY = f"x'{'5b' * 80}'"
"""Of the databases that floors make."""
_LIMIT = 20
_GET = (
    "SELECT id, local_version, server_version, created_at, modified_at, trash, properties, "
    "tags, text FROM notes WHERE id = ?"
)

Request = dict[str, Any]


def listing(query: str | None, *, page: int = 1) -> Request:
    """What ``list`` runs for a query: the statement of one page, and of the number of notes."""
    asked, offset = parse(query), (page - 1) * _LIMIT
    statements = build(asked, limit=_LIMIT, offset=offset)
    unranked = statements.rows
    if isinstance(asked.terms, Word) and (expression := build_match(asked.terms)):
        found, _ = build_newest(asked, expression, (), without=(), limit=_LIMIT, offset=offset)
        unranked = wide_rows(found, order_of(asked))
    return {
        "rows": _sent(statements.rows),
        "unranked": _sent(unranked),
        "count": _sent(statements.count),
    }


def getting(note_id: str) -> Request:
    """What ``get`` runs."""
    return {"rows": [_GET, [note_id]]}


def _sent(statement: Statement) -> list[Any]:
    return [statement.sql, list(statement.parameters)]


class Raw:
    """One connection; ``answer`` runs a request as the server would."""

    def __init__(self, path: str | Path, key: str | None) -> None:
        self._db = driver.connect(str(path), isolation_level=None, cached_statements=256)
        if key is not None:
            self._db.set_key(key)
        self._db.execute(f"PRAGMA cache_size = -{PAGE_CACHE // 1024}")
        self._db.execute("PRAGMA query_only = ON")

    @classmethod
    def plain(cls, path: str | Path) -> Raw:
        """A cache without a key."""
        return cls(path, None)

    @classmethod
    def cipher(cls, path: str | Path) -> Raw:
        """A file made by ``encrypted_copy``."""
        return cls(path, KEY)

    def answer(self, request: Request) -> Request:
        """The rows, and how many there are on all pages."""
        total = self._number(request["count"]) if "count" in request else 1
        rows = self._db.execute(*request["unranked" if total > MOST_RANKED else "rows"]).fetchall()
        return {"content": rows, "total_items": total}

    def _number(self, statement: list[Any]) -> int:
        number: int = self._db.execute(*statement).fetchone()[0]
        return number

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def filled(plain: Path, copy: Path) -> float:
    """Write all notes of a cache without a key into an encrypted one; return the seconds of processor time.

    In transactions of a page, with the full text: what a first sync cannot do without.
    """
    began = time.process_time()
    with closing(driver.connect(str(copy), isolation_level=None)) as db:
        db.set_key(KEY)
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", *STATEMENTS):
            db.execute(statement)
        db.execute("ATTACH DATABASE ? AS plain KEY ''", (str(plain),))
        (last,) = db.execute("SELECT max(pk) FROM plain.notes").fetchone()
        for start in range(1, last + 1, BATCH):
            page = (start, start + BATCH - 1)
            db.execute("BEGIN")
            for table in ("notes", "note_base", "note_tags"):
                found = f"SELECT * FROM plain.{table} WHERE pk BETWEEN ? AND ?"
                db.execute(f"INSERT INTO main.{table} {found}", page)
            db.execute(_FULL_TEXT, page)
            db.execute("COMMIT")
    return time.process_time() - began


_FULL_TEXT = """
INSERT INTO main.notes_fts(rowid, text, heading, tag_words, supplement)
SELECT pk, text, heading, tag_words, supplement FROM main.notes WHERE pk BETWEEN ? AND ?
"""


def encrypted_copy(plain: Path, copy: Path) -> None:
    """The same database under a key, with SQLCipher's own settings."""
    with closing(driver.connect(str(plain), isolation_level=None)) as db:
        db.execute(f'ATTACH DATABASE ? AS copy KEY "{KEY}"', (str(copy),))
        db.execute("SELECT sqlcipher_export('copy')")
        db.execute("DETACH DATABASE copy")
