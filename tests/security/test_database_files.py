"""Test who may read the files, and which files are not followed, opened or created."""

import os
import stat

import pytest

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.storage import database_opener
from support import corpus
from support.cache_room import KEY, create, make, reopen, run_child, store


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder):
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


def unsafe(path):
    with pytest.raises(LockedError) as refusal:
        database_opener.connect(path, KEY)
    assert refusal.value.verdict is Verdict.UNSAFE_PATH
    assert str(path.parent) not in f"{refusal.value!r}{refusal.value.to_dict()}"


@pytest.mark.attack(28)
@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "plain"])
def test_all_files_are_private_under_an_open_umask(open_umask, tmp_path, key):
    cache = create(tmp_path, key=key)
    store(cache, corpus.revisions(5))
    private = {"cache.db": 0o600, "cache.db-wal": 0o600, "cache.db-shm": 0o600}
    assert modes(tmp_path) == private
    cache.close()
    cache = reopen(tmp_path, key=key)
    store(cache, corpus.revisions(5, seed=2))
    assert modes(tmp_path) == private
    cache.close()


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path):
    make(tmp_path, name="real.db").close()
    link = tmp_path / "cache.db"
    link.symlink_to(tmp_path / "real.db")
    unsafe(link)


def test_a_link_above_the_file_is_not_followed(tmp_path):
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    make(real).close()
    link = tmp_path / "link"
    link.symlink_to(real)
    unsafe(link / "cache.db")


def test_a_dangling_link_is_not_created_through(tmp_path):
    link, target = tmp_path / "cache.db", tmp_path / "elsewhere"
    link.symlink_to(target)
    with pytest.raises(FileExistsError):
        database_opener.create(link, KEY, meta={})
    assert not target.exists()
    assert link.is_symlink()


def test_a_file_with_a_second_name_is_refused(tmp_path):
    make(tmp_path).close()
    os.link(tmp_path / "cache.db", tmp_path / "second")
    unsafe(tmp_path / "cache.db")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604])
def test_a_file_others_may_read_is_refused(tmp_path, mode):
    make(tmp_path).close()
    (tmp_path / "cache.db").chmod(mode)
    unsafe(tmp_path / "cache.db")


def test_a_folder_or_pipe_in_its_place_is_refused(tmp_path):
    (tmp_path / "folder.db").mkdir()
    unsafe(tmp_path / "folder.db")
    os.mkfifo(tmp_path / "pipe.db", 0o600)
    unsafe(tmp_path / "pipe.db")


def test_refusing_leaves_no_file_behind(tmp_path):
    make(tmp_path).close()
    (tmp_path / "cache.db").chmod(0o644)
    before = (tmp_path / "cache.db").read_bytes()
    unsafe(tmp_path / "cache.db")
    assert modes(tmp_path) == {"cache.db": 0o644}
    assert (tmp_path / "cache.db").read_bytes() == before


def test_nothing_reaches_standard_error_when_opening_fails(tmp_path):
    make(tmp_path).close()
    whole = bytearray((tmp_path / "cache.db").read_bytes())
    whole[300] ^= 1
    (tmp_path / "cache.db").write_bytes(whole)
    said = run_child(
        """
        import os
        reading, writing = os.pipe()
        os.dup2(writing, 2)
        from mcp_notarium.errors import CacheDamaged
        try:
            reopen(Path(sys.argv[1]))
        except CacheDamaged:
            say("damaged")
        os.close(writing); os.close(2)
        say("native log:", len(os.read(reading, 10_000)))
        """,
        tmp_path,
    )
    assert said == "damaged\nnative log: 0\n"


def test_memory_security_can_be_switched_on(tmp_path):
    make(tmp_path).close()
    said = run_child(
        """
        db = database_opener.connect(Path(sys.argv[1]) / "cache.db", KEY, memory_security=True)
        say(db._connection.execute("SELECT 1").fetchone())
        db._connection.set_authorizer(None)
        say(db._connection.execute("PRAGMA cipher_memory_security").fetchone())
        """,
        tmp_path,
    )
    assert said == "(1,)\n('1',)\n"
