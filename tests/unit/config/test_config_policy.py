"""Where the policy comes from, and which files are not trusted with it."""

import json
import os
import stat
from dataclasses import replace

import pytest

from mcp_notarium.config import load
from mcp_notarium.config.closed_places import find_app_places
from mcp_notarium.domain.policy import PERMISSIVE, Mode
from mcp_notarium.errors import ConfigError
from mcp_notarium.stores.kind import Tree
from mcp_notarium.stores.simplenote import kind as simplenote

needs_posix = pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
BASE = {"SIMPLENOTE_USERNAME": "someone@example.com"}


@pytest.fixture
def room(tmp_path):
    """A private folder with a data folder and a working folder in it."""
    tmp_path.chmod(0o700)
    for name in ("data", "work"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path


def put(path, text='mode = "write"\n', mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def loaded(room, env_file=None, **environ):
    environ = BASE | {"NOTARIUM_DATA_DIR": str(room / "data")} | environ
    return load(environ, cwd=room / "work", env_file=env_file)


def refused(room, **environ):
    with pytest.raises(ConfigError) as error:
        loaded(room, **environ)
    assert error.value.resolution_hint
    return error.value.message


def test_without_a_file_everything_is_permitted(room):
    found = loaded(room)
    assert found.config.policy is PERMISSIVE
    assert found.policy.path is None


def test_policy_file_in_the_data_folder_holds(room):
    path = put(room / "data" / "policy.toml")
    found = loaded(room)
    assert found.config.policy.mode is Mode.WRITE
    assert found.policy.path == path
    assert found.policy.lines == {"mode": 1}


PLACES = ("hidden_paths", "allowed_paths", "writable_paths", "writable_below")
STORES = {
    "local": {"LOCAL_NOTEBOOK": "diary"},
    "simplenote": BASE,
    "trilium": {"TRILIUM_URL": "http://127.0.0.1:1", "TRILIUM_TOKEN": "a_b"},
    "vault": {"VAULT_PATH": "vault"},
}
"""Each store with what an account of it needs to be loaded."""


@pytest.mark.parametrize("rule", PLACES)
@pytest.mark.parametrize("store", STORES)
def test_a_rule_binds_only_accounts_whose_notes_have_such_places(room, store, rule):
    (room / "vault").mkdir(mode=0o700)
    own = STORES[store] | {"NOTARIUM_STORE": store}
    own |= {"VAULT_PATH": str(room / "vault")} if store == "vault" else {}
    suits = store == ("trilium" if rule == "writable_below" else "vault")
    path, rules = room / "data" / "policy.toml", f'{rule} = ["Private"]\n'

    def start(profile):
        environ = own | {"NOTARIUM_DATA_DIR": str(room / "data")}
        return load(environ, cwd=room / "work", profile=profile).config.policy

    put(path, f'[profiles.a.notes]\n{rules}[profiles.b]\nmode = "write"\n')
    assert start(None).profile == start("").profile == ""
    assert start("b").mode is Mode.WRITE
    said = []
    for text, profile in (
        (path.read_text(), "a"),
        (f"[notes]\n{rules}", ""),
        (f"[notes]\n{rules}", None),
    ):
        put(path, text)
        if suits:
            policy = start(profile)
            assert policy.visibility.has_rules or policy.writing.has_rules or profile is None
            continue
        with pytest.raises(ConfigError) as error:
            start(profile)
        said.append(error.value)
        assert error.value.details == {"rules": [rule]}
    if said:
        assert "the profile a of" in said[0].message
        assert "without these rules (b)" in said[0].resolution_hint
        assert "NOTARIUM_POLICY_FILE" in said[1].resolution_hint
        assert "[profiles.NAME.notes]" in said[2].resolution_hint


def test_a_profile_narrows_what_may_be_changed_below_notes(room, monkeypatch):
    rules = '[notes]\nwritable_below = ["Top1"]\n[profiles.a.notes]\nwritable_below = ["In2"]\n'
    put(room / "data" / "policy.toml", rules)
    kind = replace(simplenote.KIND, tree=Tree.NOTES)
    monkeypatch.setattr("mcp_notarium.stores.registry.kind", lambda _name: kind)
    found = loaded(room).policy
    assert found.policy.writing.below == ("Top1",)
    narrowed = found.policy.narrowed("a", found.profiles["a"]).writing
    assert (narrowed.tops, narrowed.below) == ({"Top1", "In2"}, ("In2",))
    assert narrowed.permits("x", (), inside=("Top1", "In2"))
    assert not narrowed.permits("x", (), inside=("In2",))
    assert not narrowed.permits("x", ())
    put(room / "data" / "policy.toml", "[notes]\nwritable_below = []")
    assert "writable_below" in refused(room)


def test_a_named_file_holds_instead_and_must_exist(room):
    put(room / "data" / "policy.toml")
    named = put(room / "mine.toml", 'mode = "read-only"')
    assert loaded(room, NOTARIUM_POLICY_FILE=str(named)).config.policy.mode is Mode.READ_ONLY
    assert "does not exist" in refused(room, NOTARIUM_POLICY_FILE=str(room / "none.toml"))


@pytest.mark.parametrize("right", [False, True])
def test_a_policy_file_in_the_accounts_folder_stops_the_start(room, right):
    folder = loaded(room).config.account_dir
    folder.mkdir(mode=0o700)
    if right:
        put(room / "data" / "policy.toml")
    misplaced = put(folder / "policy.toml")
    with pytest.raises(ConfigError) as error:
        loaded(room)
    assert str(misplaced) in error.value.message
    assert str(room / "data" / "policy.toml") in error.value.resolution_hint
    assert ("holds. Put the rules in there" in error.value.resolution_hint) is right
    assert loaded(room, NOTARIUM_POLICY_FILE=str(misplaced)).policy.path == misplaced
    misplaced.unlink()
    misplaced.symlink_to(room / "nowhere")
    assert str(misplaced) in refused(room)


def test_a_wrong_file_stops_the_start(room):
    put(room / "data" / "policy.toml", "[tools]\nsearch = false\n")
    assert "line 2, `tools.search`" in refused(room)


def test_read_only_in_the_environment_only_ever_tightens(room):
    put(room / "data" / "policy.toml")
    assert loaded(room, NOTARIUM_READ_ONLY="1").config.policy.mode is Mode.READ_ONLY
    assert loaded(room, NOTARIUM_READ_ONLY="off").config.policy.mode is Mode.WRITE
    put(room / "data" / "policy.toml", 'mode = "read-only"')
    assert loaded(room, NOTARIUM_READ_ONLY="off").config.policy.mode is Mode.READ_ONLY


def test_a_working_folder_cannot_name_the_policy_file(room):
    loose = put(room / "work" / "loose.toml", 'mode = "full"')
    put(room / "data" / "policy.toml")
    put(room / "work" / ".env", f"NOTARIUM_POLICY_FILE={loose}\nNOTARIUM_DATA_DIR={room}\n")
    found = loaded(room)
    assert found.config.policy.mode is Mode.WRITE
    assert any("NOTARIUM_POLICY_FILE" in warning for warning in found.warnings)


def test_an_env_file_cannot_name_it_either(room):
    loose = put(room / "work" / "loose.toml", 'mode = "full"')
    env_file = put(room / "work" / "mine.env", f"NOTARIUM_POLICY_FILE={loose}\n")
    with pytest.raises(ConfigError, match="NOTARIUM_POLICY_FILE"):
        loaded(room, env_file=env_file)


@needs_posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o644])
def test_a_file_that_others_may_read_or_change_is_refused(room, mode):
    put(room / "data" / "policy.toml", mode=mode)
    assert "others may" in refused(room)


@needs_posix
def test_links_are_not_followed_and_second_names_refused(room):
    real = put(room / "real.toml")
    link = room / "data" / "policy.toml"
    link.symlink_to(real)
    assert "symbolic link" in refused(room)
    link.unlink()
    os.link(real, link)
    assert "second name" in refused(room)


@needs_posix
def test_a_folder_others_may_change_is_refused(room):
    put(room / "data" / "policy.toml")
    (room / "data").chmod(0o770)
    assert "a folder above it" in refused(room)
    (room / "data").chmod(stat.S_IRWXU)
    for mode in (0o707, 0o770):
        room.chmod(mode)
        assert "a folder above it" in refused(room)
    room.chmod(0o1777)
    loaded(room)


@needs_posix
def test_a_folder_that_a_link_leads_through_counts_too(room):
    real = room / "shared" / "mine"
    real.mkdir(mode=0o700, parents=True)
    (room / "shared").chmod(0o707)
    put(real / "policy.toml")
    (room / "link").symlink_to(real)
    named = str(room / "link" / "policy.toml")
    assert "a folder above it" in refused(room, NOTARIUM_POLICY_FILE=named)
    (room / "shared").chmod(0o700)
    assert loaded(room, NOTARIUM_POLICY_FILE=named).config.policy.mode is Mode.WRITE


@needs_posix
def test_a_file_of_another_user_is_refused(room, monkeypatch):
    path, uid = put(room / "data" / "policy.toml"), os.geteuid()
    if uid:
        monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
        assert "belongs to another user" in refused(room)
        return
    for one in (path, path.parent, room):  # only root can give files away
        os.chown(one, 12345, -1)
        assert "belongs to another user" in refused(room)
        os.chown(one, 0, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    path.chmod(0o644)
    assert loaded(room).policy.path == path, "one of root's that nobody else may change is good"


@needs_posix
def test_what_is_no_plain_file_is_refused_without_waiting_for_it(room):
    os.mkfifo(room / "data" / "policy.toml", 0o600)
    assert "not a regular file" in refused(room)
    (room / "data" / "policy.toml").unlink()
    (room / "data" / "policy.toml").mkdir()
    refused(room)


@needs_posix
def test_a_data_folder_that_is_none_is_not_taken_for_a_wrong_policy(room):
    place = put(room / "file")
    assert loaded(room, NOTARIUM_DATA_DIR=str(place)).policy.policy is PERMISSIVE
    assert "cannot be used" in refused(room, NOTARIUM_POLICY_FILE=str(place / "policy.toml"))


def test_a_file_that_is_too_large_or_no_text_is_refused(room):
    path = put(room / "data" / "policy.toml", "#" * 70_000)
    assert "too large" in refused(room)
    path.write_bytes(b'mode = "full"\xff')
    assert "UTF-8" in refused(room)


@needs_posix
def test_what_one_missing_home_folder_leaves_unknown_closes_all_the_other_places(room, monkeypatch):
    import pwd  # noqa: PLC0415 - POSIX alone has it

    def nobody(_user):
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("HOME")
    put(room / "data" / "policy.toml", f'import_paths = ["{room}"]\n')
    accounts, own = room / "config" / "mcp-notarium", {"command": "mcp-notarium"}
    accounts.mkdir(parents=True, mode=0o700)
    put(
        accounts / "accounts.toml",
        f'[v]\nNOTARIUM_STORE = "vault"\nVAULT_PATH = "{room}/notes"\n',
    )
    put(room / "more.env", f"VAULT_PATH={room}/more\n")
    args, env = ["--env-file", str(room / "more.env")], {"XDG_DATA_HOME": "~nobody-of-this-name/x"}
    put(room / ".claude.json", json.dumps({"mcpServers": {"a": own | {"args": args, "env": env}}}))
    given = {"XDG_CONFIG_HOME": str(room / "config"), "CLAUDE_CONFIG_DIR": str(room)}
    closed = loaded(room, **given).config.closed_places
    assert {room / "notes", room / "more"} <= {*closed}
    closed = loaded(room, CLAUDE_CONFIG_DIR=str(room)).config.closed_places
    assert room / "more" in closed
    monkeypatch.setenv("XDG_DATA_HOME", str(room / "data"))
    assert room / "data" / "mcp-notarium" in find_app_places()
