import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from mcp_notarium.errors import CacheFull, ConfigError, LockedError, Verdict
from mcp_notarium.files import private_files
from support import between_calls, needs


@needs.POSIX
def test_content_is_put_in_place_whole_and_private(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    private_files.replace_private(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_content_that_reads_back_differently_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch
):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(private_files, "read_private", lambda _path, most: b"new"[: most - 1])
    with pytest.raises(OSError, match="reads back differently"):
        private_files.replace_private(path, b"new")
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("step", ["write", "sync", "verify"])
def test_a_failure_before_the_switch_leaves_the_old_file_and_nothing_else(tmp_path, step):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(name):
        if name == step:
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        private_files.replace_private(path, b"new", at=fail)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_steps_are_reported_in_order(tmp_path):
    steps = []
    private_files.replace_private(tmp_path / "file", b"x", at=steps.append)
    assert steps == ["write", "sync", "verify", "switch", "sync_folder"]


@needs.POSIX
def test_the_file_is_flushed_before_the_switch_and_the_folder_after(tmp_path, monkeypatch):
    events = []
    real = os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda fd: (
            events.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"),
            real(fd),
        ),
    )
    private_files.replace_private(tmp_path / "file", b"x", at=events.append)
    assert events == ["write", "file", "sync", "verify", "switch", "folder", "sync_folder"]


def test_reading_stops_after_the_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert private_files.read_private(tmp_path / "file", most=10) == b"x" * 11


def test_a_missing_file_is_none(tmp_path):
    assert private_files.read_private(tmp_path / "file", most=10) is None


@needs.POSIX
def test_links_folders_and_pipes_are_not_read(tmp_path):
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(OSError):
            private_files.read_private(tmp_path / name, most=10)


@needs.POSIX
def test_what_is_refused_stays_not_open(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(Path("/dev/fd").iterdir())
    for name in ("folder", "pipe"):
        with pytest.raises(OSError, match="not a regular file"):
            private_files.open_regular(tmp_path / name)
    assert sorted(Path("/dev/fd").iterdir()) == before


@pytest.mark.parametrize(
    ("number", "meaning"),
    [(errno.ENOSPC, CacheFull), (errno.EDQUOT, CacheFull), (errno.EROFS, LockedError)],
)
def test_errors_of_the_disk_become_our_own_and_name_no_path(number, meaning):
    with pytest.raises(meaning) as said, private_files.disk_errors("it cannot be done"):
        raise OSError(number, os.strerror(number), "/somebody/somewhere")
    assert "somewhere" not in said.value.message
    if isinstance(said.value, LockedError):
        assert said.value.verdict is Verdict.UNSAFE_PATH
    else:
        assert said.value.message == "the disk is full: it cannot be done"


def test_what_needs_more_space_than_is_free_is_a_full_disk_too(tmp_path):
    private_files.require_free(tmp_path, 1, "no copy was made")
    with pytest.raises(CacheFull, match=r"^the disk is full: no copy was made; it needs") as said:
        private_files.require_free(tmp_path, 1 << 62, "no copy was made")
    assert said.value.details["needed"] == 1 << 62 > said.value.details["free"]


def test_a_file_that_a_person_has_named_and_that_cannot_be_written_is_their_mistake(tmp_path):
    (tmp_path / "there").write_bytes(b"theirs")
    for name, said in (("there", "is there already"), ("none/new", "no such file")):
        path = tmp_path / name
        with pytest.raises(ConfigError, match=said), private_files.output_errors(path, "the copy"):
            private_files.create_private(path, b"ours")
    assert (tmp_path / "there").read_bytes() == b"theirs"


@pytest.mark.parametrize("step", ["write", "sync", "verify", "switch", "sync_folder"])
def test_a_new_file_that_fails_at_any_step_is_not_there(tmp_path, step):
    def fail(name):
        if name == step:
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        private_files.create_private(tmp_path / "file", b"new", at=fail)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["write", "sync", "verify"])
def test_a_new_file_that_fails_leaves_one_that_another_process_made_meanwhile(tmp_path, step):
    def fail(name):
        if name == step:
            (tmp_path / "file").write_bytes(b"theirs")
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        private_files.create_private(tmp_path / "file", b"new", at=fail)
    assert (tmp_path / "file").read_bytes() == b"theirs"


def test_a_new_file_takes_away_what_a_killed_run_has_left_of_it_and_nothing_else(tmp_path):
    left, others = tmp_path / ".file.0123456789ab.tmp", tmp_path / ".file2.0123456789ab.tmp"
    left.touch()
    others.touch()
    (tmp_path / ".file.ba9876543210.tmp" / "notes").mkdir(parents=True)
    private_files.create_private(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert {one.name for one in tmp_path.iterdir()} == {"file", others.name}
    with pytest.raises(FileExistsError):
        private_files.create_private(tmp_path / "file", b"newer")
    assert (tmp_path / "file").read_bytes() == b"new"


@needs.POSIX
def test_a_tree_that_is_exchanged_for_a_link_while_it_is_removed_takes_nothing_else_along(tmp_path):
    """In a folder for everybody another user can make one that looks like what a killed export has left."""
    other, acted, number = tmp_path / "other", True, 0
    other.mkdir()
    while acted:
        left = tmp_path / f".out.{number:012x}.tmp"
        for folder in (other, left / "inner"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "file").touch()

        def exchange(inner=left / "inner"):
            with suppress(OSError):
                inner.rename(tmp_path / f"away-{inner.parent.name}")
                inner.symlink_to(other)

        with between_calls.acting_before(number, exchange) as counted:
            private_files.remove_unfinished(tmp_path / "out")
        assert [one.name for one in other.iterdir()] == ["file"]
        acted, number = counted.acted, number + 1
    assert number > 5
