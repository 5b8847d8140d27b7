import errno
import os
import stat
from pathlib import Path

import pytest

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files import account_folder
from mcp_notarium.files.account_folder import AccountFolder, find_problem
from support import needs
from support.account import account, folder_of

pytestmark = needs.POSIX


@pytest.fixture
def mine(tmp_path):
    made = folder_of(account(tmp_path))
    account_folder.create_folder(made)
    return made


def test_the_folder_and_what_is_missing_above_it_are_private(tmp_path):
    old = os.umask(0)
    try:
        made = AccountFolder(tmp_path / "a" / "b" / "c")
        account_folder.create_folder(made)
    finally:
        os.umask(old)
    for path in (made.path, made.path.parent, made.path.parent.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert find_problem(made) is None


def test_a_folder_that_does_not_exist_yet_is_no_problem(tmp_path):
    assert find_problem(AccountFolder(tmp_path / "none" / "yet")) is None


def test_a_prepared_folder_is_trusted_by_its_real_path(mine):
    assert account_folder.check_folder(mine.path).path == mine.path.resolve()


@pytest.mark.attack(26)
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o777])
def test_an_open_account_folder_is_refused_with_the_command(mine, mode):
    mine.path.chmod(mode)
    problem = find_problem(mine)
    assert "chmod 700" in problem.command
    assert str(mine.path) in problem.command
    with pytest.raises(LockedError) as refused:
        account_folder.check_folder(mine.path)
    assert refused.value.verdict is Verdict.UNSAFE_PATH
    assert refused.value.resolution_hint == problem.command


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_parent_that_others_can_change_is_refused(mine, mode):
    mine.path.parent.chmod(mode)
    assert "chmod go-w" in find_problem(mine).command


def test_a_parent_that_others_can_only_read_is_fine(mine):
    mine.path.parent.chmod(0o755)
    assert find_problem(mine) is None


def test_a_sticky_parent_such_as_tmp_is_fine(mine):
    mine.path.parent.chmod(0o1777)
    assert find_problem(mine) is None


@pytest.mark.parametrize(
    "name",
    [
        "notarium_keys.json",
        "notarium_keys.json.bak",
        "notarium_keys.json.new",
        ".notarium_keys.json.0123456789ab.tmp",
        "notarium_cache.0123456789abcdef.sqlite.encrypted",
        "notarium_cache.0123456789abcdef.sqlite.encrypted-wal",
        "notarium_cache.sqlite",
        "keys.lock",
        "server.lock",
        "sync.lock",
        "files.lock",
    ],
)
def test_every_file_of_ours_must_be_private_and_no_link(mine, name):
    path = mine.path / name
    path.touch(mode=0o600)
    assert find_problem(mine) is None
    path.chmod(0o644)
    assert "chmod 600" in find_problem(mine).command
    path.unlink()
    path.symlink_to(mine.path / "elsewhere")
    assert "symbolic link" in find_problem(mine).reason


def test_a_file_with_two_names_is_refused(mine):
    mine.key_file.touch(mode=0o600)
    os.link(mine.key_file, mine.path / "other")
    assert "mv " in find_problem(mine).command


def test_a_folder_in_a_files_place_is_refused(mine):
    mine.key_file.mkdir(mode=0o700)
    assert find_problem(mine) is not None


def test_files_of_others_in_the_folder_are_none_of_our_business(mine):
    (mine.path / "readme.txt").write_text("x")
    assert find_problem(mine) is None


@pytest.mark.attack(26)
def test_somebody_elses_folder_and_file_are_refused_with_chown(mine, monkeypatch):
    mine.key_file.touch(mode=0o600)
    for path in (mine.path, mine.key_file):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "lstat", seen_as_foreign(path))
            problem = find_problem(mine)
        assert "belongs to another user" in problem.reason
        assert f"chown {os.geteuid()} {path}" in problem.command
    assert find_problem(mine) is None


def seen_as_foreign(foreign):
    """``Path.lstat``, for which that one belongs to the user after us."""

    def lstat(path):
        found = list(path.stat(follow_symlinks=False))
        found[stat.ST_UID] += path == foreign
        return os.stat_result(found)

    return lstat


def test_an_account_folder_that_is_a_link_is_refused(mine):
    real = mine.path.with_name("real")
    mine.path.rename(real)
    mine.path.symlink_to(real)
    assert "NOTARIUM_DATA_DIR" in find_problem(mine).command


@pytest.mark.attack(25)
def test_a_linked_parent_of_ours_is_refused(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    made = AccountFolder(tmp_path / "link" / "notes" / "account")
    assert "symbolic link" in find_problem(made).reason


def test_commands_hide_the_name_of_the_home_folder_and_quote_spaces(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    made = AccountFolder(tmp_path / "my notes" / "account")
    account_folder.create_folder(made)
    made.path.chmod(0o755)
    assert "`chmod 700 ~/'my notes/account'`" in find_problem(made).command


def deny(monkeypatch, path, action="lstat"):
    """What an unprivileged user meets; tests may run as root, who is denied nothing."""
    real = getattr(Path, action)

    def denied(self, *args, **options):
        if self == path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        return real(self, *args, **options)

    monkeypatch.setattr(Path, action, denied)


def test_a_folder_above_that_lets_nobody_in_is_a_problem_with_the_command(mine, monkeypatch):
    mine.path.parent.chmod(0o600)
    deny(monkeypatch, mine.path)
    problem = find_problem(mine)
    assert "permission denied" in problem.reason
    assert problem.command == f"Run `chmod u+rwx {mine.path.parent}`."


def test_an_account_folder_that_cannot_be_listed_is_a_problem(mine, monkeypatch):
    mine.path.chmod(0o300)
    deny(monkeypatch, mine.path, "iterdir")
    assert find_problem(mine).command == f"Run `chmod u+rwx {mine.path}`."


def test_where_no_folder_can_be_made_the_place_is_named_and_nothing_is_left(tmp_path):
    assert account_folder.find_obstacle(AccountFolder(tmp_path / "a" / "b")) is None
    assert list(tmp_path.iterdir()) == []
    if not Path("/proc/self").exists():
        pytest.skip("no folder here refuses root")
    assert (
        "/proc " in account_folder.find_obstacle(AccountFolder(Path("/proc/none/account"))).command
    )


def test_generations_are_read_from_file_names(mine):
    for name in (
        "notarium_cache.0123456789abcdef.sqlite.encrypted",
        "notarium_cache.x.sqlite.encrypted",
    ):
        (mine.path / name).touch()
    assert mine.generations() == ("0123456789abcdef",)
    assert AccountFolder(mine.path / "none").generations() == ()


MOUNTS = """\
22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /home rw,relatime shared:2 - nfs4 server:/home rw
31 30 253:1 / /home/me/local\\040disk rw,relatime - ext4 /dev/vdb rw
32 22 0:26 / /mnt/peer rw - fuse.sshfs peer:/ rw
33 22 0:27 / /mnt/Büro\\0403 rw - cifs //server/notes rw
"""


@pytest.fixture
def mounts(tmp_path):
    path = tmp_path / "mountinfo"
    path.write_text(MOUNTS, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/notes", "ext4"),
        ("/home/me/notes", "nfs4"),
        ("/home/me/local disk/notes", "ext4"),
        ("/home/me/local disks", "nfs4"),
        ("/mnt/peer", "fuse.sshfs"),
        ("/mnt/Büro 3/notes", "cifs"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(mounts, path, kind):
    assert account_folder.file_system(Path(path), mounts=mounts) == kind


def test_a_network_drive_is_warned_about_and_a_local_one_is_not(mounts):
    assert (
        "network drive"
        in account_folder.location_warnings(Path("/home/me/notes"), mounts=mounts)[0]
    )
    assert account_folder.location_warnings(Path("/var/notes"), mounts=mounts) == ()


@pytest.mark.parametrize(
    "folder", ["Dropbox", "OneDrive - Work", "Google Drive", "Mobile Documents", "Nextcloud"]
)
def test_a_synchronised_folder_is_warned_about(mounts, folder):
    path = Path("/var") / folder / "notes"
    assert "synchronised" in account_folder.location_warnings(path, mounts=mounts)[0]


def test_where_mounts_cannot_be_read_nothing_is_claimed(tmp_path):
    assert account_folder.file_system(Path("/"), mounts=tmp_path / "none") == ""
    assert account_folder.location_warnings(Path("/var/notes"), mounts=tmp_path / "none") == ()


def test_the_real_mounts_of_this_machine_can_be_read(tmp_path):
    assert account_folder.file_system(tmp_path)
