import sqlite3
from contextlib import closing

import pytest

from mcp_notarium.domain.note import Content, Tombstone
from mcp_notarium.errors import CacheBusy, CacheDamaged, CacheError, CacheFull, LockedError, Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener, integrity
from mcp_notarium.storage.driver import translate
from mcp_notarium.storage.integrity import PAGE_SIZE, sample
from mcp_notarium.storage.write_ahead_log import pages_in_log
from support import corpus
from support.cache_room import KEY, MAC_KEY, SALT, create, make, reopen, second_connection, store
from support.journal_entries import make_unfinished


def put(db, key, value="x"):
    db.run("INSERT INTO sync_metadata(key, value) VALUES (?, ?)", (key, value))


def keys(db):
    return {row[0] for row in db.rows("SELECT key FROM sync_metadata")}


def put_and_fail(db, key, context):
    with context:
        put(db, key)
        _ = 1 / 0


def nest(db, key):
    with db.transaction():
        put(db, key)
        with db.transaction():
            pass


def driver_error(name, code):
    error = sqlite3.DatabaseError("near 'my secret note': syntax error")
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


def test_what_is_written_is_there_after_reopening(tmp_path, either):
    put(either.database, "kept")
    either.close()
    again = reopen(tmp_path, key=KEY if either.database.encrypted else None)
    assert "kept" in keys(again.database)
    again.close()


def test_meta_given_at_creation_is_in_the_file(tmp_path):
    cache = create(tmp_path, vault_id="v1", generation="g1")
    assert cache.sync_state.get("vault_id") == "v1"
    assert cache.sync_state.get("generation") == "g1"
    cache.close()


def test_an_exception_inside_a_transaction_undoes_all_of_it(either):
    db = either.database
    with pytest.raises(ZeroDivisionError):
        put_and_fail(db, "gone", db.transaction())
    assert "gone" not in keys(db)
    assert not db.in_transaction


def test_a_transaction_inside_a_transaction_is_an_error_and_undoes_the_outer(cache):
    db = cache.database
    with pytest.raises(RuntimeError, match="nest"):
        nest(db, "outer")
    assert "outer" not in keys(db)


def test_a_transaction_is_usable_after_one_that_failed(cache):
    with pytest.raises(CacheError), cache.transaction():
        cache.database.run("INSERT INTO nowhere VALUES (1)")
    with cache.transaction():
        put(cache.database, "after")
    assert "after" in keys(cache.database)


def test_a_durable_transaction_waits_for_the_disk_and_nothing_else_does(cache):
    levels = []
    for durable in (True, False, True):
        with cache.transaction(durable=durable):
            levels.append(cache.database.number("PRAGMA synchronous"))
        levels.append(cache.database.number("PRAGMA synchronous"))
    assert levels == [2, 1, 1, 1, 2, 1]


def test_joined_uses_the_open_transaction_and_refuses_a_weaker_one(cache):
    db = cache.database
    with pytest.raises(ZeroDivisionError), db.transaction():
        put_and_fail(db, "inner", db.join_or_begin())
    assert "inner" not in keys(db)
    with (
        pytest.raises(RuntimeError, match="durable"),
        db.transaction(),
        db.join_or_begin(durable=True),
    ):
        pass
    with db.join_or_begin(durable=True):
        put(db, "alone")
    assert "alone" in keys(db)


def test_a_second_writer_gets_the_error_that_the_cache_is_busy(cache):
    other = second_connection(cache)
    with cache.transaction(), pytest.raises(CacheBusy), other.transaction():
        pass
    with other.transaction():
        put(other, "later")
    assert "later" in keys(cache.database)
    other.close()


def test_a_reader_is_not_disturbed_by_a_writer_and_sees_no_half_transaction(cache):
    other = second_connection(cache)
    with cache.transaction():
        put(cache.database, "half")
        assert "half" not in keys(other)
    assert "half" in keys(other)
    other.close()


def test_the_stamp_moves_when_anybody_commits_and_only_then(cache):
    other = second_connection(cache)
    before = cache.database.stamp()
    assert cache.database.stamp() == before
    put(cache.database, "mine")
    mine = cache.database.stamp()
    assert mine != before
    put(other, "theirs")
    assert cache.database.stamp() != mine
    other.close()


def test_only_a_checkpointer_moves_the_wal_into_the_main_file(tmp_path):
    cache = make(tmp_path)
    main = cache.database.path
    size = main.stat().st_size
    big = [corpus.make(f"n{i}", Content("x" * 900_000)) for i in range(10)]
    store(cache, big[:5])
    assert main.stat().st_size == size
    cache.database.set_checkpointer(True)
    store(cache, big[5:])
    assert main.stat().st_size > size
    cache.close()


def test_size_counts_the_wal_too(cache):
    before = cache.database.size_bytes()
    store(cache, corpus.revisions(20))
    assert cache.database.path.stat().st_size < cache.database.size_bytes()
    assert cache.database.size_bytes() > before


def test_a_closed_cache_says_so(cache):
    cache.close()
    cache.close()
    assert cache.database.closed
    with pytest.raises(CacheError, match="closed"):
        cache.notes.counts()


def test_surrogates_in_parameters_are_replaced_instead_of_raising(cache):
    db = cache.database
    put(db, "lone", "a\ud800b")
    assert db.row("SELECT value FROM sync_metadata WHERE key = 'lone'") == ("a\ufffdb",)
    assert db.row("SELECT :x", {"x": "\udfff"}) == ("\ufffd",)
    db.run_many("INSERT INTO sync_metadata VALUES (?, ?)", [("m\ud800", "1")])
    assert "m\ufffd" in keys(db)


@pytest.mark.parametrize("count", [49, 50, 51, 150, 199])
def test_many_rows_are_written_as_one_by_one_in_their_order(cache, count):
    rows = [(f"m{number % 120:03}", str(number)) for number in range(count)]
    with cache.transaction():
        cache.database.run_many(
            "INSERT INTO sync_metadata(key, value) VALUES (?, ?)"
            " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            rows,
        )
    stored = cache.database.rows("SELECT key, value FROM sync_metadata WHERE key GLOB 'm[0-9]*'")
    assert dict(stored) == dict(rows)
    with cache.transaction():
        cache.database.run_many(
            "UPDATE sync_metadata SET value = ?2 || 'b' WHERE key = ?1", list(dict(rows).items())
        )
    assert cache.database.row("SELECT value FROM sync_metadata WHERE key = 'm048'") == (
        f"{dict(rows)['m048']}b",
    )


def test_neither_sql_nor_values_stand_in_an_error(cache):
    with pytest.raises(CacheError) as error:
        cache.database.rows("SELECT zebra FROM sync_metadata WHERE 'giraffe'", ())
    with pytest.raises(CacheError) as constraint:
        put(cache.database, None, "giraffe")
    for caught in (error.value, constraint.value):
        shown = f"{caught!r} {caught.to_dict()}"
        assert "zebra" not in shown
        assert "giraffe" not in shown
        assert caught.__cause__ is None
        assert caught.__suppress_context__


@pytest.mark.parametrize(
    ("name", "code", "writing", "meaning"),
    [
        ("SQLITE_FULL", 13, True, CacheFull),
        ("SQLITE_FULL", 13, False, CacheFull),
        ("SQLITE_IOERR_WRITE", 778, True, CacheFull),
        ("SQLITE_IOERR_WRITE", 778, False, CacheFull),
        ("SQLITE_IOERR_SHMSIZE", 4874, False, CacheFull),
        ("SQLITE_IOERR_SHMMAP", 5386, False, CacheFull),
        ("SQLITE_IOERR_READ", 266, False, CacheDamaged),
        ("SQLITE_IOERR_SHORT_READ", 522, False, CacheDamaged),
        ("SQLITE_IOERR", 10, False, CacheDamaged),
        ("SQLITE_BUSY", 5, True, CacheBusy),
        ("SQLITE_BUSY_SNAPSHOT", 517, True, CacheBusy),
        ("SQLITE_LOCKED", 6, False, CacheBusy),
        ("SQLITE_CORRUPT", 11, True, CacheDamaged),
        ("SQLITE_NOTADB", 26, False, CacheDamaged),
        ("SQLITE_READONLY", 8, True, CacheError),
        ("SQLITE_CONSTRAINT", 19, True, CacheError),
    ],
)
def test_each_driver_error_has_one_meaning_and_takes_no_text_along(name, code, writing, meaning):
    error = translate(driver_error(name, code), writing=writing)
    assert type(error) is meaning
    assert "secret" not in f"{error!r}{error.to_dict()}"


def test_out_of_memory_from_the_driver_means_poisoned():
    assert type(translate(MemoryError(), writing=True)) is CacheDamaged


@pytest.mark.parametrize(
    "key",
    ["passphrase", "x'" + "0" * 64 + "'", "x'" + "0" * 159 + "'", "x'" + "G" * 160 + "'", ""],
)
def test_a_key_of_another_form_is_refused_before_a_file_is_made(tmp_path, key):
    with pytest.raises(ValueError, match="160"):
        database_opener.create(tmp_path / "c.db", Secret(key), meta={})
    assert list(tmp_path.iterdir()) == []


def test_connecting_never_creates_a_database(tmp_path):
    with pytest.raises(LockedError) as refusal:
        database_opener.connect(tmp_path / "absent.db", KEY)
    assert refusal.value.verdict is Verdict.DATABASE_MISSING
    assert list(tmp_path.iterdir()) == []


def test_a_new_cache_is_complete_in_its_main_file_before_it_is_used(tmp_path):
    cache = create(tmp_path)
    found = sample(cache.database.path, MAC_KEY, SALT, every=True)
    assert found.good > 5
    assert found.bad == 0
    cache.close()


def test_a_creation_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def fails(*_, **__):
        raise CacheFull("no room")

    monkeypatch.setattr(database_opener.schema_version, "create_tables", fails)
    with pytest.raises(CacheFull):
        database_opener.create(tmp_path / "c.db", KEY, meta={})
    assert list(tmp_path.iterdir()) == []


def test_creating_over_something_that_is_there_changes_nothing(tmp_path, cache):
    before = cache.database.path.read_bytes()
    with pytest.raises(FileExistsError):
        database_opener.create(cache.database.path, KEY, meta={})
    assert cache.database.path.read_bytes() == before


def test_creating_beside_an_orphaned_wal_is_refused(tmp_path):
    orphan = tmp_path / "c.db-wal"
    orphan.write_bytes(b"committed once")
    with pytest.raises(FileExistsError):
        database_opener.create(tmp_path / "c.db", KEY, meta={})
    assert orphan.read_bytes() == b"committed once"


def test_a_sound_cache_has_nothing_to_report(either):
    store(either, corpus.revisions(30))
    assert integrity.check(either.database) == ()


def test_the_check_finds_a_search_index_that_misses_a_note(cache):
    store(cache, corpus.revisions(5))
    with cache.transaction():
        cache.database.run("UPDATE notes SET text = text || ' more' WHERE pk = 1")
    assert integrity.check(cache.database) != ()


LONG = "A" * 20_000


@pytest.fixture
def damaged(tmp_path):
    """Make the file of a note and a pending write with this text; damage one of its pages, None: none."""
    cache = make(tmp_path)
    path, sound = tmp_path / "cache.db", []

    def damage(page, text=LONG):
        if not sound:
            store(cache, [corpus.make("a", Content(text))])
            cache.journal.add(make_unfinished(Content(text)))
            cache.close()
            sound.append(path.read_bytes())
        whole = bytearray(sound[0])
        if page is not None:
            whole[page * PAGE_SIZE + 100] ^= 1
        path.write_bytes(whole)
        return len(whole) // PAGE_SIZE

    return damage


def stumbles(tmp_path, damaged, read, text):
    """Read with each page damaged in turn: all of it, or damage; return how often it was damage."""
    found = 0
    for page in range(damaged(None, text)):
        damaged(page)
        try:
            with closing(reopen(tmp_path)) as cache:
                assert read(cache) == text
        except CacheDamaged:
            found += 1
    return found


TEXTS = pytest.mark.parametrize("text", [LONG, "€" * 7000, "A" * 4050], ids=["A", "€", "one page"])


@TEXTS
def test_no_text_is_read_from_a_damaged_page(tmp_path, damaged, text):
    assert stumbles(tmp_path, damaged, lambda cache: cache.notes.get("a").text, text)


@TEXTS
@pytest.mark.parametrize("columns", ["text", "*"])
def test_no_rows_are_read_from_a_damaged_page(tmp_path, damaged, text, columns):
    def read(cache):
        return cache.database.rows(f"SELECT {columns} FROM notes")[0][-1]

    assert stumbles(tmp_path, damaged, read, text)


@TEXTS
def test_no_pending_write_is_read_from_a_damaged_page(tmp_path, damaged, text):
    def read(cache):
        (held,) = cache.journal.all()
        assert held == make_unfinished(Content(text))
        return held.content.text

    assert stumbles(tmp_path, damaged, read, text)


@pytest.mark.parametrize("page", [1, 2, 10, -2, -1, None])
def test_no_damaged_page_is_copied(tmp_path, damaged, page):
    pages = damaged(None)
    damaged(None if page is None else page % pages)
    copy = tmp_path / "copy.db"
    with closing(reopen(tmp_path)) as cache:
        if page is None:
            database_opener.copy(cache.database, copy, KEY, after_step=lambda *_: None)
        else:
            with pytest.raises(CacheDamaged):
                database_opener.copy(cache.database, copy, KEY, after_step=lambda *_: None)
            assert cache.database.closed
    assert copy.exists() == (page is None)


def test_a_page_that_is_torn_beside_its_form_in_the_log_is_no_damage(tmp_path):
    with closing(make(tmp_path)) as cache:
        store(cache, [corpus.make("a", Content(LONG + "\0"))])
        assert cache.database.checkpoint()
        store(cache, [Tombstone("a"), corpus.make("b", Content(LONG + "\0"))])
        pages = (tmp_path / "cache.db").stat().st_size // PAGE_SIZE
        torn = max(page for page in pages_in_log(tmp_path / "cache.db-wal") if page <= pages)
        with (tmp_path / "cache.db").open("r+b") as file:
            file.seek((torn - 1) * PAGE_SIZE + 100)
            file.write(b"torn")
        cache.database.shrink()
        assert cache.notes.get("b").text == LONG + "\0"
        database_opener.copy(cache.database, tmp_path / "c.db", KEY, after_step=lambda *_: None)
        assert cache.database.checkpoint()
        assert integrity.check(cache.database) == ()


def test_a_long_value_that_ends_with_nul_is_read_where_every_page_is_sound(either):
    store(either, [corpus.make("a", Content(LONG + "\0"))])
    assert either.notes.get("a").text == LONG + "\0"
