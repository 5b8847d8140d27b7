import os

import pytest

from mcp_notarium.secret import Secret
from mcp_notarium.storage import integrity
from mcp_notarium.storage.integrity import PAGE_SIZE, sample
from support import corpus
from support.cache_room import MAC_KEY, SALT, make, second_connection, store

OPTIMISE = "INSERT INTO notes_fts(notes_fts) VALUES ('optimize')"
SEARCH = "SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'the' LIMIT 1"


@pytest.fixture
def file(tmp_path):
    cache = make(tmp_path)
    store(cache, corpus.revisions(30))
    cache.close()
    return tmp_path / "cache.db"


def flip(file, offset):
    with file.open("r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ 1]))


def look(file, *, every=True, key=MAC_KEY):
    return sample(file, key, SALT, every=every)


def test_every_page_of_a_sound_file_is_authentic(file):
    found = look(file)
    assert found.good == found.size // PAGE_SIZE
    assert (found.bad, found.bad_pages, found.salt_ok, found.torn) == (0, (), True, False)
    assert not found.plaintext_magic


def test_the_short_look_takes_five_pages(file):
    found = look(file, every=False)
    assert found.good == 5
    assert found.bad == 0


def test_with_another_key_no_page_is_authentic(file):
    found = look(file, key=Secret(bytes(32)))
    assert found.good == 0
    assert found.salt_ok


@pytest.mark.parametrize("page", [1, 2, 9])
@pytest.mark.parametrize("place", [100, PAGE_SIZE - 70, PAGE_SIZE - 1], ids=["text", "iv", "mac"])
def test_a_flipped_bit_names_its_page_and_no_other(file, page, place):
    flip(file, (page - 1) * PAGE_SIZE + place)
    assert look(file).bad_pages == (page,)


def test_a_damaged_salt_leaves_the_pages_authentic(file):
    flip(file, 3)
    found = look(file)
    assert not found.salt_ok
    assert found.bad == 0


def test_swapped_pages_are_both_named(file):
    whole = bytearray(file.read_bytes())
    two, three = slice(PAGE_SIZE, 2 * PAGE_SIZE), slice(2 * PAGE_SIZE, 3 * PAGE_SIZE)
    whole[two], whole[three] = whole[three], whole[two]
    file.write_bytes(whole)
    assert look(file).bad_pages == (2, 3)


def test_a_forged_magic_does_not_make_authentic_pages_plain(file):
    whole = file.read_bytes()
    file.write_bytes(b"SQLite format 3\0" + whole[16:])
    found = look(file)
    assert found.plaintext_magic
    assert found.good > 0


def test_a_plain_database_has_no_authentic_page(tmp_path):
    make(tmp_path, key=None, name="plain.db").close()
    found = look(tmp_path / "plain.db")
    assert found.plaintext_magic
    assert found.good == 0


@pytest.mark.parametrize("size", [0, 1, 15, 16, PAGE_SIZE - 1])
def test_a_file_shorter_than_a_page_is_torn_and_raises_nothing(file, size):
    file.write_bytes(file.read_bytes()[:size])
    found = look(file)
    assert (found.size, found.good, found.bad) == (size, 0, 0)
    assert found.torn is (size > 0)


def test_looking_changes_neither_content_nor_neighbours(file):
    before, names = file.read_bytes(), sorted(file.parent.iterdir())
    look(file)
    assert file.read_bytes() == before
    assert sorted(file.parent.iterdir()) == names


def test_links_folders_and_pipes_are_not_looked_into(file, tmp_path):
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    os.mkfifo(pipe)
    for path in (link, pipe, tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError):
            look(path)


def test_search_index_that_was_merged_elsewhere_is_not_taken_for_damaged(tmp_path):
    cache = make(tmp_path)
    revisions = list(corpus.revisions(60))
    for number in range(0, 60, 5):
        store(cache, revisions[number : number + 5])
    looking = second_connection(cache)
    looking.rows(SEARCH)
    cache.database.run(OPTIMISE)
    assert integrity.walk(looking, deep=True) == ()
    looking.close()
    cache.close()


def test_what_seems_wrong_once_is_looked_at_again(tmp_path, monkeypatch):
    cache = make(tmp_path)
    store(cache, corpus.revisions(5))
    answers = [("fts5: corruption found",), ("fts5: corruption found",), ()]
    monkeypatch.setattr(integrity, "_first_fault", lambda _db, _questions: answers.pop(0))
    assert integrity.walk(cache.database, deep=True) == ()
    assert cache.database.rows("SELECT 1") != []
    answers += [("page 7 is never used",)] * 3
    assert integrity.walk(cache.database, deep=True) == ("page 7 is never used",)
    assert answers == []
    cache.close()
