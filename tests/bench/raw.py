"""The very statements of the server, run by the driver alone: what SQLite and SQLCipher need for them."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import sqlcipher3.dbapi2 as driver

from mcp_notarium.search.parser import parse
from mcp_notarium.search.sql_builder import build
from mcp_notarium.search.sql_conditions import Statement
from mcp_notarium.storage.database import page_cache
from mcp_notarium.storage.note_search import MOST_RANKED, most_passed

_KEY = f"x'{'5b' * 80}'"
_LIMIT = 20
_GET = (
    "SELECT id, local_version, server_version, created_at, modified_at, trash, pinned, markdown, "
    "tags, text FROM notes WHERE id = ?"
)
_COUNT = "SELECT active FROM note_counts"

Request = dict[str, Any]


def listing(
    query: str | None, *, page: int = 1, from_end: bool = False, hits: int = 0, notes: int = 0
) -> Request:
    """What ``list`` runs for a query: the statement of one page, and of the number of notes.

    ``hits`` among all ``notes``: what the server finds out before it walks along an index for a tag.
    """
    asked = partial(
        build, parse(query), limit=_LIMIT, offset=(page - 1) * _LIMIT, from_end=from_end
    )
    statements = asked()
    if statements.named and (most := most_passed(hits, notes, _LIMIT)):
        statements = asked(most_passed=most)
    request = {
        "rows": _sent(statements.rows),
        "count": _sent(statements.count or Statement(_COUNT)),
    }
    if statements.otherwise is not None:
        request["otherwise"] = _sent(statements.otherwise)
    if statements.hits is not None:
        request |= {"hits": _sent(statements.hits), "unranked": _sent(asked(ranked=False).rows)}
    return request


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
        self._db.execute(f"PRAGMA cache_size = -{page_cache(Path(path).stat().st_size) // 1024}")
        self._db.execute("PRAGMA query_only = ON")

    @classmethod
    def plain(cls, path: str | Path) -> Raw:
        """A cache without a key."""
        return cls(path, None)

    @classmethod
    def cipher(cls, path: str | Path) -> Raw:
        """A file made by ``encrypted_copy``."""
        return cls(path, _KEY)

    def answer(self, request: Request) -> Request:
        """The rows, and their number: counted only where they may be more than these."""
        many = "hits" in request and self._number(request["hits"]) > MOST_RANKED
        rows = self._db.execute(*request["unranked" if many else "rows"]).fetchall()
        if "otherwise" in request and len(rows) < _LIMIT:
            rows = self._db.execute(*request["otherwise"]).fetchall()
        total = len(rows)
        if "count" in request and total == _LIMIT:
            total = self._number(request["count"])
        return {"content": rows, "total_items": total}

    def _number(self, statement: list[Any]) -> int:
        number: int = self._db.execute(*statement).fetchone()[0]
        return number

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def encrypted_copy(plain: Path, copy: Path) -> None:
    """The same database under a key, with SQLCipher's own settings."""
    with closing(driver.connect(str(plain), isolation_level=None)) as db:
        db.execute(f'ATTACH DATABASE ? AS copy KEY "{_KEY}"', (str(copy),))
        db.execute("SELECT sqlcipher_export('copy')")
        db.execute("DETACH DATABASE copy")
