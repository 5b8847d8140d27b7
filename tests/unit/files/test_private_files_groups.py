"""A group-writable folder above the cache, on systems where each user has a group."""

import errno
import os
import sys

import pytest

from mcp_notarium.config.policy_file import read_policy
from mcp_notarium.domain.policy import Mode
from mcp_notarium.errors import ConfigError
from mcp_notarium.files.account_folder import AccountFolder, find_problem
from mcp_notarium.system import SYSTEM

grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="private groups are Linux's")

ADA, EVE, GROUP = 4711, 4712, 4711


def entry(uid, gid, name):
    return pwd.struct_passwd((name, "x", uid, gid, "", "/home/" + name, "/bin/sh"))


@pytest.fixture(name="system")
def _system(monkeypatch, tmp_path):
    """Ada, her group, and a folder in it; a test changes what it is about."""

    class System:
        users = [entry(0, 0, "root"), entry(ADA, GROUP, "ada"), entry(EVE, EVE, "eve")]  # noqa: RUF012
        group = grp.struct_group(("ada", "x", GROUP, []))
        folder = tmp_path

        def answer(self):
            return SYSTEM.is_group_private(self.folder, self.folder.stat())

    made = System()
    tmp_path.chmod(0o775)
    if os.geteuid() == 0:
        os.chown(tmp_path, ADA, GROUP)
    else:
        monkeypatch.setattr(made, "group", grp.struct_group(("ada", "x", os.getegid(), [])))
        made.users = [entry(os.geteuid(), os.getegid(), "ada"), made.users[2]]
    me = made.users[-2]
    monkeypatch.setattr(os, "geteuid", lambda: me.pw_uid)
    monkeypatch.setattr(pwd, "getpwall", lambda: made.users)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: next(u for u in made.users if u.pw_uid == uid))
    monkeypatch.setattr(grp, "getgrgid", lambda _gid: made.group)
    return made


def group_of(system, *members, name="ada"):
    return grp.struct_group((name, "x", system.group.gr_gid, list(members)))


def test_a_group_of_the_user_alone_may_write(system):
    assert system.answer()
    system.group = group_of(system, "ada")
    assert system.answer()


def test_a_policy_file_is_trusted_below_a_folder_of_such_a_group_and_of_no_other(system):
    mine = system.folder / "mine"
    mine.mkdir(mode=0o700)
    path = mine / "policy.toml"
    path.write_text('mode = "write"\n')
    path.chmod(0o600)
    for one in (mine, path):
        os.chown(one, system.users[-2].pw_uid, -1)
    assert read_policy(path, named=True).policy.mode is Mode.WRITE
    system.group = group_of(system, "eve")
    with pytest.raises(ConfigError, match="others may change a folder above it"):
        read_policy(path, named=True)


def test_a_listed_member_makes_it_a_group_of_others(system):
    system.group = group_of(system, "eve")
    assert not system.answer()


def test_a_user_whose_first_group_it_is_makes_it_a_group_of_others(system):
    system.users = [*system.users[:-1], entry(EVE, system.group.gr_gid, "eve")]
    assert not system.answer()


def test_a_group_of_another_name_is_not_taken_for_private(system):
    system.group = group_of(system, name="users")
    assert not system.answer()


def test_a_group_that_is_not_the_users_first_is_not_taken_for_private(system):
    me = system.users[-2]
    system.users[-2] = entry(me.pw_uid, me.pw_gid + 9, "ada")
    assert not system.answer()


def test_a_folder_writable_by_everybody_is_not_protected_by_a_private_group(system):
    system.folder.chmod(0o777)
    assert not system.answer()


def test_root_and_unknown_users_have_no_private_group(system, monkeypatch):
    def unknown(_uid):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert not system.answer()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not system.answer()


def test_an_access_list_may_let_others_in_behind_the_groups_bits(system, monkeypatch):
    monkeypatch.setattr(os, "getxattr", lambda *_args, **_options: b"list")
    assert not system.answer()

    def denied(*_args, **_options):
        raise OSError(errno.EACCES, "denied")

    monkeypatch.setattr(os, "getxattr", denied)
    assert not system.answer()


def test_such_a_folder_above_the_cache_is_no_problem_and_any_other_is(system):
    folder = AccountFolder(system.folder / "share" / "account")
    assert find_problem(folder) is None
    system.group = group_of(system, "eve")
    assert find_problem(folder) is not None
