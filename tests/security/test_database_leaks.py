"""Test that no note text is outside the encrypted pages: not in the folder, not in temporary files."""

from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content, PendingWrite, Tombstone, WriteKind
from mcp_notarium.errors import CacheDamaged
from mcp_notarium.search.parser import parse
from mcp_notarium.secret import Secret
from mcp_notarium.storage import driver, integrity
from support import corpus
from support.cache_room import KEY, create, find, make, reopen, store, suggest

MARKER = "Xylographer7731"
MARKERS = (MARKER.encode(), MARKER.lower().encode(), b"tagmarker9", b"tokenmarker9")


def fill(folder, key):
    cache = create(folder, key=key, vault_id="metamarker9")
    notes = [
        corpus.make(f"id{n}", Content(f"{MARKER} {n} " * 40, ("tagmarker9",))) for n in range(300)
    ]
    store(cache, notes)
    if key:
        cache.sync_state.set_login_token(Secret("tokenmarker9"))
    content = Content(MARKER)
    cache.journal.add(
        PendingWrite("w", "n", WriteKind.CREATE, None, content, MARKER.encode(), 0.0, "me", 0.0)
    )
    cache.database.set_checkpointer(True)
    store(cache, [corpus.make(f"more{n}", Content(MARKER * 3)) for n in range(300)])
    return cache


def leaks(folder):
    """Markers found in the raw bytes of the files of a folder, by file name."""
    return {
        (path.name, marker)
        for path in folder.iterdir()
        for marker in MARKERS
        if marker in path.read_bytes()
    }


def test_no_marker_is_in_clear_in_any_file_of_the_folder(tmp_path):
    cache = fill(tmp_path, KEY)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"cache.db", "cache.db-wal", "cache.db-shm"}
    assert leaks(tmp_path) == set()
    cache.close()
    assert leaks(tmp_path) == set()
    assert (tmp_path / "cache.db").stat().st_size > 200_000


def test_the_search_for_markers_does_find_them_in_a_plain_cache(tmp_path):
    cache = fill(tmp_path, None)
    assert {marker for _, marker in leaks(tmp_path)} >= set(MARKERS[:3])
    cache.close()


def test_deleted_text_is_wiped_from_the_file_and_not_only_unlinked(tmp_path):
    """Seen in a plain cache, where the pages can be read."""
    cache = make(tmp_path, key=None)
    notes = [corpus.make(f"id{n}", Content(f"{MARKER} {n} " * 400)) for n in range(3)]
    store(cache, notes)
    with cache.transaction():
        cache.versions.keep(notes[0], number=1, at=2e9, by="agent", made=None, in_store=False)
    cache.database.checkpoint()
    assert MARKER.encode() in cache.database.path.read_bytes()
    with cache.transaction():
        cache.notes.apply([Tombstone(f"id{n}") for n in range(3)])
    while cache.notes.index.tidy():
        pass
    cache.database.checkpoint()
    assert leaks(tmp_path) == set()
    cache.close()


def temporary_files():
    """Files this process has open that SQLite made for temporary data."""
    opened = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if "etilqs_" in target:
            opened.append(target)
    return opened


def sort_big(connection):
    """Begin a sort of some 60 MB and stay in the middle of it."""
    rows = connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) "
        "SELECT hex(randomblob(5000)) AS x FROM n ORDER BY x"
    )
    rows.fetchone()
    return rows


@pytest.mark.attack(29)
def test_a_sort_that_does_not_fit_makes_no_temporary_file(tmp_path):
    cache = make(tmp_path)
    rows = sort_big(cache.database._connection)
    assert temporary_files() == []
    rows.close()
    cache.close()


def test_the_search_for_temporary_files_does_find_one_where_they_are_allowed():
    connection = driver.module().connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA temp_store = 1")
    rows = sort_big(connection)
    assert temporary_files() != []
    rows.close()
    connection.close()


def test_at_no_moment_of_heavy_use_is_a_temporary_file_open(tmp_path):
    cache, seen = fill(tmp_path, KEY), []
    cache.database._connection.set_progress_handler(lambda: seen.extend(temporary_files()), 500)
    for _ in range(3):
        find(cache, parse("xylographer7731"), limit=20)
        suggest(cache, "xylografer7731")
    store(cache, [corpus.make(f"last{n}", Content(MARKER * 3)) for n in range(300)])
    assert integrity.check(cache.database) == ()
    rows = sort_big(cache.database._connection)
    assert seen == []
    rows.close()
    cache.close()


def test_a_connection_that_would_write_temporary_files_is_refused(monkeypatch, tmp_path):
    make(tmp_path).close()
    module = driver.module()
    real = module.connect

    class Forgetful:
        def __init__(self, connection):
            self._inner = connection

        def execute(self, sql, *parameters):
            kept = "PRAGMA temp_store = 1" if sql == "PRAGMA temp_store = MEMORY" else sql
            return self._inner.execute(kept, *parameters)

        def __getattr__(self, name):
            return getattr(self._inner, name)

    monkeypatch.setattr(module, "connect", lambda *a, **k: Forgetful(real(*a, **k)))
    with pytest.raises(CacheDamaged, match="does not accept its settings"):
        reopen(tmp_path)


@pytest.mark.parametrize("word", ["cipher_log_level", "set_key"])
def test_the_key_is_given_without_sql_and_after_the_native_log_is_silent(
    monkeypatch, tmp_path, word
):
    """The order of the first steps on a connection, seen from the driver."""
    seen = []
    module = driver.module()
    real = module.connect

    class Watched:
        def __init__(self, connection):
            self._inner = connection

        def execute(self, sql, *parameters):
            seen.append(sql)
            return self._inner.execute(sql, *parameters)

        def set_key(self, key):
            seen.append("set_key")
            self._inner.set_key(key)

        def __getattr__(self, name):
            return getattr(self._inner, name)

    monkeypatch.setattr(module, "connect", lambda *a, **k: Watched(real(*a, **k)))
    create(tmp_path).close()
    assert "cipher_log_level = NONE" in seen[0]
    assert seen[1] == "set_key"
    assert any(word in step for step in seen)
    assert not [step for step in seen if KEY.reveal_text()[2:34] in step]
