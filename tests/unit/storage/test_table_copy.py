"""A cache copied row by row into another: the same rows, the same search, other bytes."""

from contextlib import closing
from itertools import chain

import pytest

from mcp_notarium.domain.note import Content, Revision, Tombstone
from mcp_notarium.errors import CacheDamaged, CacheFull
from mcp_notarium.search import parser
from mcp_notarium.secret import Secret
from mcp_notarium.storage import database_opener, integrity, table_copy
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.note_lookup import count_tags
from mcp_notarium.storage.schema import TABLES, Kind
from support.journal_entries import make_unfinished

OLD, NEW = (Secret(f"x'{digit * 160}'") for digit in ("1", "2"))
TIES = frozenset({"generation"})
COPIED = [name for name, table in TABLES.items() if table.key]
STATE = [name for name in COPIED if TABLES[name].kind is Kind.STATE]


def write(note_id):
    return make_unfinished(Content("mine"), note_id)


def revision(number, text, *, trash=False, tags=()):
    return Revision(
        id=f"n{number:04}",
        etag=str(number),
        server_version=number + 1,
        content=Content(text=text, tags=tags, trash=trash),
        created_at=1.5e9 + number,
        modified_at=1.6e9 + number,
        raw=b"{}",
    )


@pytest.fixture
def source(tmp_path):
    """A cache with gaps in its keys: notes were deleted and grew again."""
    tmp_path.chmod(0o700)
    cache = Cache(
        database_opener.create(tmp_path / "old", OLD, meta={"generation": "old", "a": "b"})
    )
    with cache.transaction():
        cache.notes.apply(
            revision(n, f"note {n} common w{n}\nStraße 東京都", tags=("x",) if n % 3 else ())
            for n in range(1300)
        )
        cache.notes.apply(Tombstone(f"n{n:04}") for n in range(0, 1300, 4))
        cache.notes.apply(
            revision(n, f"again {n} common", trash=n % 8 == 0) for n in range(0, 400, 4)
        )
        cache.sync_state.set_cursor("here")
        for number in (1, 2):
            cache.versions.keep(
                revision(1, f"replaced {number}"),
                number=number,
                at=1.7e9,
                by="",
                made="r9",
                in_store=False,
            )
    yield cache
    cache.close()


@pytest.fixture
def target(tmp_path, source):
    cache = Cache(database_opener.create(tmp_path / "new", NEW, meta={"generation": "new"}))
    yield cache
    cache.close()


def found(cache, words):
    page = cache.search.find_words(parser.parse(words), limit=50)
    return page.total, [(note.id, note.tags, note.local_version) for note in page.notes]


def test_everything_is_there_and_nothing_else(source, target):
    table_copy.copy_into(source.database, target.database, keep=TIES)
    assert integrity.check(target.database) == ()
    digests = [table_copy.content_digest(c.database, without=TIES) for c in (source, target)]
    assert digests[0] == digests[1]
    assert target.notes.counts() == source.notes.counts()
    assert target.notes.base("n0001") == source.notes.base("n0001")
    assert count_tags(target.database, limit=9) == count_tags(source.database, limit=9)
    assert target.sync_state.cursor() == "here"
    assert len(target.versions.of("n0001")) == 2


def test_the_rows_to_keep_stay_unchanged(source, target):
    table_copy.copy_into(source.database, target.database, keep=TIES)
    assert target.sync_state.get("generation") == "new"
    assert target.sync_state.get("a") == "b"


@pytest.mark.parametrize(
    "words", ["common", "again", "w77", "strasse", "東京", "tag:x w5*", "again -w3"]
)
def test_every_search_finds_the_same_in_the_same_order(source, target, words):
    table_copy.copy_into(source.database, target.database, keep=TIES)
    assert found(target, words) == found(source, words)
    assert found(source, words)[0] > 0


def test_keys_with_gaps_stay_and_the_copy_can_be_written_on(source, target):
    table_copy.copy_into(source.database, target.database, keep=TIES)
    keys = "SELECT pk, id FROM notes ORDER BY pk"
    assert target.database.rows(keys) == source.database.rows(keys)
    with target.transaction():
        target.notes.apply([revision(9000, "written afterwards"), Tombstone("n0001")])
    assert found(target, "afterwards")[0] == 1
    assert found(target, "w1")[0] == 0
    assert integrity.check(target.database) == ()


def test_progress_ends_with_everything(source, target):
    reports = []
    table_copy.copy_into(
        source.database, target.database, keep=TIES, on_progress=lambda *at: reports.append(at)
    )
    done, total = reports[-1]
    assert done == total
    assert [at for at, _ in reports] == sorted(at for at, _ in reports)


def test_a_difference_of_one_letter_changes_the_digest(source, target):
    table_copy.copy_into(source.database, target.database, keep=TIES)
    before = table_copy.content_digest(target.database, without=TIES)
    with target.transaction():
        target.database.run("UPDATE note_base SET raw = x'7b207d' WHERE pk = 2")
    assert table_copy.content_digest(target.database, without=TIES) != before


def test_every_table_is_marked_as_index_or_state(source):
    tables = source.database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    assert {name for (name,) in tables if not name.startswith("notes_fts_")} == set(TABLES)


def test_a_reset_empties_the_index_and_keeps_the_state(source):
    database = source.database
    rows = {name: len(list(table_copy.slices(database, name))) for name in COPIED}
    assert rows["notes"]
    with source.transaction():
        source.notes.clear()
    for name in COPIED:
        left = len(list(table_copy.slices(database, name)))
        assert left == (0 if TABLES[name].kind is Kind.INDEX else rows[name])


def test_a_salvage_copies_the_state_and_the_bases_of_unfinished_writes(source, target):
    source.sync_state.set("setting", "kept")
    source.journal.add(write("n0001"))
    path = source.database.path
    progress = []
    report = table_copy.salvage(
        lambda: database_opener.connect(path, OLD),
        target.database,
        without=TIES,
        on_progress=lambda done, of: progress.append((done, of)),
    )
    assert (report.writes, report.complete) == (1, True)
    rows = sum(len(list(chain(*table_copy.slices(source.database, name)))) for name in STATE)
    assert rows > 2
    assert progress == sorted(progress)
    assert progress[-1] == (rows, rows)
    assert [kept.write_id for kept in target.journal.all()] == ["w"]
    assert target.notes.etags() == {"n0001": "1"}
    assert target.notes.counts().total == 1
    assert target.notes.base("n0001") == source.notes.base("n0001")
    assert found(target, "w1")[0] == 1
    assert target.versions.get("n0001", 2) == source.versions.get("n0001", 2)
    assert target.sync_state.get("setting") == "kept"
    assert target.sync_state.cursor() is None
    assert target.sync_state.get("generation") == "new"
    assert integrity.check(target.database) == ()


@pytest.mark.parametrize("table", ["note_versions", "journal"])
@pytest.mark.parametrize("size", [4100, 20_000])
def test_a_salvage_takes_no_text_that_a_damaged_page_has_cut(tmp_path, table, size):
    text, path = "A" * size, tmp_path / "long"
    tmp_path.chmod(0o700)
    with closing(Cache(database_opener.create(path, OLD, meta={}))) as cache:
        if table == "journal":
            cache.journal.add(make_unfinished(Content(text)))
        else:
            with cache.transaction():
                cache.versions.keep(
                    revision(1, text), number=1, at=1.7e9, by="agent", made=None, in_store=False
                )
    sound, lost = path.read_bytes(), 0
    pages = len(sound) // integrity.PAGE_SIZE
    for page in range(pages - 4, pages):
        whole = bytearray(sound)
        whole[page * integrity.PAGE_SIZE + 100] ^= 1
        path.write_bytes(whole)
        try:
            database_opener.connect(path, OLD).close()
        except CacheDamaged:
            continue  # a page of the schema
        with closing(database_opener.create(tmp_path / f"new{page}", NEW, meta={})) as target:
            report = table_copy.salvage(
                lambda: database_opener.connect(path, OLD), target, without=TIES
            )
            kept = target.rows(f"SELECT text FROM {table}")
            assert kept == [(text,)] or (kept, report.complete) == ([], False)
            lost += not kept
    assert lost


@pytest.mark.parametrize("table", COPIED)
def test_the_key_of_a_table_is_its_first_columns(source, table):
    source.database._connection.set_authorizer(None)  # the guard lets nobody ask for this
    columns = source.database.rows("SELECT name FROM pragma_table_info(?)", (table,))
    key = TABLES[table].key
    assert tuple(name for (name,) in columns)[: len(key)] == key


def test_an_error_of_the_target_is_raised(source, target, monkeypatch):
    def full(*_given):
        raise CacheFull("full")

    monkeypatch.setattr(target.database, "run_many", full)
    with pytest.raises(CacheFull):
        table_copy.copy_into(source.database, target.database, keep=TIES)


def test_only_metadata_is_left_out_by_its_name(source, target):
    """The service chooses the ids of notes, also those that are names of ours."""
    source.database.run(
        "INSERT INTO hidden_notes VALUES ('generation', '1', 1, 'hidden_ids', NULL)"
    )
    before = table_copy.content_digest(source.database, without=TIES)
    table_copy.copy_into(source.database, target.database, keep=TIES)
    assert target.database.rows("SELECT id FROM hidden_notes") == [("generation",)]
    source.database.run("DELETE FROM hidden_notes")
    assert table_copy.content_digest(source.database, without=TIES) != before
