"""Damage real files: each kind of damage is distinguished, and looking changes nothing."""

from contextlib import closing

import pytest

from mcp_notarium.errors import CacheDamaged, LockedError, Verdict
from mcp_notarium.search.parser import parse
from mcp_notarium.storage import database_opener, integrity
from mcp_notarium.storage.integrity import PAGE_SIZE, sample
from support import corpus
from support.cache_room import KEY, MAC_KEY, OTHER_KEY, SALT, make, reopen, store

NOTES = list(corpus.revisions(120))


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    cache = make(folder)
    store(cache, NOTES)
    cache.close()
    return (folder / "cache.db").read_bytes()


@pytest.fixture
def file(tmp_path, sound):
    path = tmp_path / "cache.db"
    path.touch(mode=0o600)
    path.write_bytes(sound)
    return path


def damaged(sound, how):
    whole = bytearray(sound)
    middle = len(whole) // PAGE_SIZE // 2 * PAGE_SIZE
    match how:
        case "page 1 flipped":
            whole[200] ^= 1
        case "mac of page 1 flipped":
            whole[PAGE_SIZE - 1] ^= 1
        case "cut on a page edge":
            del whole[middle:]
        case "cut inside a page":
            del whole[middle + 1000 :]
        case "cut inside page 1":
            del whole[1000:]
        case "empty":
            whole.clear()
        case "garbage":
            whole[:] = bytes(range(256)) * 64
        case "text":
            whole[:] = b"Dear diary, " * 1000
    return bytes(whole)


def flip(file, offset):
    whole = bytearray(file.read_bytes())
    whole[offset] ^= 1
    file.write_bytes(whole)


def problems(file):
    """What opening, checking and closing finds wrong with the file."""
    try:
        cache = reopen(file.parent)
    except CacheDamaged as refusal:
        return (refusal.message,)
    found = integrity.check(cache.database)
    cache.close()
    return found


def read_everything(cache):
    for note in NOTES:
        cache.notes.base(note.id)
    cache.search.find_words(parse("note"), limit=100)


AT_ONCE = [
    "page 1 flipped",
    "mac of page 1 flipped",
    "cut on a page edge",
    "cut inside page 1",
    "empty",
    "garbage",
    "text",
]


@pytest.mark.parametrize("how", AT_ONCE)
def test_damage_seen_at_the_first_read_refuses_and_leaves_the_file_alone(file, sound, how):
    file.write_bytes(damaged(sound, how))
    before = file.read_bytes()
    with pytest.raises(CacheDamaged):
        database_opener.connect(file, KEY)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["cache.db"]


def test_a_wrong_key_refuses_and_leaves_the_file_alone(file, sound):
    for _ in range(20):
        with pytest.raises(CacheDamaged):
            database_opener.connect(file, OTHER_KEY)
    assert file.read_bytes() == sound
    assert problems(file) == ()


def test_an_encrypted_file_is_not_opened_without_its_key_nor_a_plain_one_with_a_key(file, tmp_path):
    with pytest.raises(CacheDamaged):
        database_opener.connect(file, None)
    make(tmp_path, key=None, name="plain.db").close()
    plain = tmp_path / "plain.db"
    before = plain.read_bytes()
    with pytest.raises(CacheDamaged):
        database_opener.connect(plain, KEY)
    assert plain.read_bytes() == before


def test_a_wrong_key_loses_nothing_of_an_unfinished_wal(tmp_path, sound):
    cache = make(tmp_path)
    store(cache, NOTES[:20])
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    for path in database_opener.companions(cache.database.path)[:2]:
        target = copy / path.name
        target.touch(mode=0o600)
        target.write_bytes(path.read_bytes())
    cache.close()
    with pytest.raises(CacheDamaged):
        database_opener.connect(copy / "cache.db", OTHER_KEY)
    again = reopen(copy)
    assert [again.notes.base(note.id) for note in NOTES[:20]] == NOTES[:20]
    again.close()


@pytest.mark.attack(11)
def test_a_flipped_bit_in_any_page_is_found_by_looking_and_by_checking(file, sound):
    pages = len(sound) // PAGE_SIZE
    for page in [1, 2, *range(3, pages, 7), pages]:
        whole = bytearray(sound)
        whole[(page - 1) * PAGE_SIZE + 50] ^= 1
        file.write_bytes(whole)
        assert sample(file, MAC_KEY, SALT, every=True).bad_pages == (page,)
        assert problems(file) != ()


def test_after_damage_everything_answers_damage_and_nothing_is_written(file, sound):
    whole = bytearray(sound)
    for page in range(len(whole) // PAGE_SIZE // 2, len(whole) // PAGE_SIZE):
        whole[(page - 1) * PAGE_SIZE + 50] ^= 1
    file.write_bytes(whole)
    cache = reopen(file.parent)
    with pytest.raises(CacheDamaged):
        read_everything(cache)
    assert cache.database.closed
    for attempt in (cache.notes.counts, lambda: cache.notes.get("x"), cache.database.stamp):
        with pytest.raises(CacheDamaged):
            attempt()
    with pytest.raises(CacheDamaged):
        store(cache, NOTES[:1])
    assert file.read_bytes() == bytes(whole)


@pytest.mark.attack(12)
def test_a_file_cut_inside_a_page_is_never_taken_for_sound(file, sound):
    file.write_bytes(damaged(sound, "cut inside a page"))
    assert sample(file, MAC_KEY, SALT).torn
    assert problems(file) != ()


@pytest.mark.attack(10)
def test_a_damaged_salt_does_no_harm(file, sound):
    file.write_bytes(bytes(16) + sound[16:])
    assert not sample(file, MAC_KEY, SALT).salt_ok
    assert problems(file) == ()


@pytest.mark.attack(14)
def test_a_forged_plaintext_magic_does_no_harm(file, sound):
    file.write_bytes(b"SQLite format 3\0" + sound[16:])
    cache = reopen(file.parent)
    assert cache.notes.counts().total == len(NOTES)
    cache.close()


@pytest.mark.attack(13)
def test_a_missing_file_is_not_recreated_and_its_wal_is_not_touched(tmp_path):
    wal = tmp_path / "cache.db-wal"
    wal.write_bytes(b"the only copy")
    with pytest.raises(LockedError) as refusal:
        database_opener.connect(tmp_path / "cache.db", KEY)
    assert refusal.value.verdict is Verdict.DATABASE_MISSING
    assert [path.name for path in tmp_path.iterdir()] == ["cache.db-wal"]
    assert wal.read_bytes() == b"the only copy"


def test_listeners_for_damage_are_called_once_also_late_ones(file, sound):
    for page in range(len(sound) // PAGE_SIZE // 2, len(sound) // PAGE_SIZE):
        flip(file, page * PAGE_SIZE + 50)
    cache, called = reopen(file.parent), []
    cache.database.on_damage(lambda: called.append("early"))
    for _ in range(2):
        with pytest.raises(CacheDamaged):
            read_everything(cache)
    cache.database.on_damage(lambda: called.append("late"))
    assert called == ["early", "late"]


@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
def test_walking_through_finds_a_page_in_use_and_moves_no_log(tmp_path, key):
    cache = make(tmp_path, key=key)
    store(cache, NOTES[:20])
    log = tmp_path / "cache.db-wal"
    assert log.stat().st_size > 0
    before = (tmp_path / "cache.db").read_bytes()
    for deep in (False, True):
        assert integrity.walk(cache.database, deep=deep) == ()
    assert (tmp_path / "cache.db").read_bytes() == before
    cache.close()
    root = 3  # of 0, 1, 2 ...: the table of notes
    path = tmp_path / "cache.db"
    whole = bytearray(path.read_bytes())
    whole[root * PAGE_SIZE : (root + 1) * PAGE_SIZE] = b"\xa5" * PAGE_SIZE
    path.write_bytes(whole)
    opened = database_opener.connect(path, key)
    assert integrity.walk(opened) != ()
    assert opened.closed


def test_a_read_of_any_damaged_page_reports_damage(file, sound):
    stumbled = 0
    for page in range(len(sound) // PAGE_SIZE):
        file.write_bytes(sound)
        flip(file, page * PAGE_SIZE + 50)
        try:
            with closing(database_opener.connect(file, KEY)) as opened:
                opened.rows("SELECT * FROM notes")
        except CacheDamaged:
            stumbled += 1
    assert stumbled > len(NOTES) // 4
