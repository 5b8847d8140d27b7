import os

import pytest

from mcp_notarium.secret import Secret
from mcp_notarium.storage.page_check import PAGE_SIZE, sample
from support import corpus
from support.cache_room import MAC_KEY, SALT, make, store


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
