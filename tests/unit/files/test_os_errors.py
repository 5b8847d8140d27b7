import errno
import os
from pathlib import Path

import pytest

from mcp_notarium.errors import CacheFull, LockedError, Verdict
from mcp_notarium.files import os_errors
from mcp_notarium.files.private_files import disk_errors
from support import needs


def error(number, path):
    return OSError(number, os.strerror(number), str(path))


@needs.POSIX
def test_a_closed_file_of_ours_is_opened_by_one_command(tmp_path):
    file = tmp_path / "keys"
    file.touch(mode=0o200)
    assert os_errors.suggest_fix(error(errno.EACCES, file)) == f"Run `chmod u+rw {file}`."


@needs.POSIX
def test_a_closed_folder_above_comes_before_what_is_in_it(tmp_path):
    closed = tmp_path / "a"
    (closed / "b").mkdir(parents=True)
    closed.chmod(0o500)
    assert (
        os_errors.suggest_fix(error(errno.EPERM, closed / "b" / "c"))
        == f"Run `chmod u+rwx {closed}`."
    )
    closed.chmod(0o700)


def test_what_is_not_ours_is_named(tmp_path):
    advice = os_errors.suggest_fix(error(errno.EACCES, "/none/such"))
    assert advice == "You may not use /. Set NOTARIUM_DATA_DIR to a folder of your own."


def test_a_file_in_a_folders_place_is_the_one_that_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert f"mv {file} {file}.moved" in os_errors.suggest_fix(
        error(errno.ENOTDIR, file / "x" / "y")
    )


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOENT])
def test_everything_else_names_the_path_and_the_setting(tmp_path, number):
    advice = os_errors.suggest_fix(error(number, tmp_path))
    assert str(tmp_path) in advice
    assert "NOTARIUM_DATA_DIR" in advice


@pytest.mark.parametrize("named", [None, 7])
def test_an_error_about_no_path_still_has_a_way_out(named):
    assert os_errors.suggest_fix(OSError(errno.EROFS, "x", named)) == os_errors.ELSEWHERE


def test_of_a_file_in_use_the_program_that_has_it_is_to_be_closed(tmp_path):
    advice = os_errors.suggest_fix(error(errno.EBUSY, tmp_path))
    assert f"Close the program that has {tmp_path} open" in advice


def test_a_user_without_a_home_folder_gets_the_whole_path(monkeypatch):
    def homeless():
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert os_errors.display_path(Path("/a b")) == "'/a b'"


def test_disk_errors_never_send_to_another_command(tmp_path):
    with pytest.raises(LockedError) as refused, disk_errors("it cannot be used"):
        (tmp_path / "none" / "x").mkdir()
    assert refused.value.verdict is Verdict.UNSAFE_PATH
    assert str(tmp_path / "none" / "x") in refused.value.resolution_hint
    with pytest.raises(CacheFull), disk_errors("it cannot be used"):
        raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.EIO, "check the disk"), (errno.ENOSPC, "Free some disk space")]
)
def test_another_folder_is_no_way_out_of_a_disk_that_fails(tmp_path, number, advice):
    said = os_errors.suggest_fix(error(number, tmp_path))
    assert advice in said
    assert "NOTARIUM_DATA_DIR" not in said
