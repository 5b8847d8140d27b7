"""Make real cache files for tests: a fixed key, quick creation, child processes that use them."""

import asyncio
import functools
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from mcp_notarium.domain.policy import EVERYTHING, Visibility
from mcp_notarium.search.query import Query
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener, spelling
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.database_opener import Database
from mcp_notarium.storage.note_search import Found
from mcp_notarium.storage.spelling import Speller

SALT = bytes(range(0xA0, 0xB0))
MAC_KEY = Secret(bytes(range(32, 64)))
KEY = Secret("x'" + bytes(range(32)).hex() + MAC_KEY.reveal().hex() + SALT.hex() + "'")
OTHER_KEY = Secret("x'" + bytes(range(100, 164)).hex() + SALT.hex() + "'")

_PRELUDE = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from support import corpus
from support.cache_room import *
def say(*words):
    print(*words, flush=True)
"""


@functools.cache
def new_file(key_text: str | None) -> bytes:
    """A new cache as bytes: copying it is ten times as fast as making one, and waits for no disk."""
    with tempfile.TemporaryDirectory() as folder:
        key = None if key_text is None else Secret(key_text)
        database_opener.create(Path(folder).resolve() / "c.db", key, meta={}).close()
        return (Path(folder) / "c.db").read_bytes()


def make(
    folder: Path,
    *,
    key: Secret | None = KEY,
    name: str = "cache.db",
    rules: Visibility = EVERYTHING,
) -> Cache:
    """A new cache in a folder (a copy of one that was created)."""
    path = folder / name
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(new_file(None if key is None else key.reveal_text()))
    return Cache(database_opener.connect(path, key), rules)


def create(folder: Path, *, key: Secret | None = KEY, name: str = "cache.db", **meta) -> Cache:
    """A new cache in a folder, made the way the program makes it."""
    return Cache(database_opener.create(folder / name, key, meta=meta))


def reopen(folder: Path, *, key: Secret | None = KEY, name: str = "cache.db") -> Cache:
    """The cache that is there."""
    return Cache(database_opener.connect(folder / name, key))


def second_connection(cache: Cache, *, key: Secret | None = KEY) -> Database:
    """Another connection to the same file that does not wait for locks."""
    database = database_opener.connect(cache.database.path, key)
    database._live().set_busy_timeout(0)
    return database


def store(cache: Cache, revisions, cursor: str | None = None) -> None:
    """Apply revisions, and perhaps the cursor, in one transaction."""
    with cache.transaction():
        cache.notes.apply(revisions)
        if cursor is not None:
            cache.sync_state.set_cursor(cursor)


def find(cache: Cache, query: Query, **how) -> Found:
    """A page of what a search finds, inside words too."""
    return asyncio.run(cache.search.find(query, **how))


def suggest(cache: Cache, word: str, *, within: Query | None = None) -> list[str]:
    """Words that this one may mean, which do find something."""

    async def ask() -> list[str]:
        speller = Speller(cache.database, cache.vocabulary)
        await speller.refresh()
        return await spelling.suggest(
            speller, spelling.Spelled([], None), [word], within=within or Query()
        )

    return asyncio.run(ask())


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that runs ``script`` with this module's names; its output is a pipe."""
    code = _PRELUDE.format(path=sys.path) + textwrap.dedent(script)
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_child(script: str, *arguments: object) -> str:
    """Run to the end (60 s at most) and return what it said; fails if the child failed."""
    process = child(script, *arguments)
    said, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    return said
