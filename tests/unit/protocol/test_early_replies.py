"""The prelude: answers only where no policy can hold, and takes nothing that it cannot answer."""

import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from mcp_notarium.config import load
from mcp_notarium.crypto.owner_hash import owner_hash
from mcp_notarium.domain.policy import TOOLS
from mcp_notarium.errors import NotariumError
from mcp_notarium.protocol import early_replies
from mcp_notarium.protocol.handshake import Greeting
from mcp_notarium.protocol.line_reader import LineBuffer
from mcp_notarium.protocol.preflight import refuse_early
from mcp_notarium.protocol.server import surface
from mcp_notarium.protocol.static_replies import Front
from support.talker import HELLO, INITIALIZED, call

ACCOUNT = {
    "SIMPLENOTE_USERNAME": "someone@example.com",
    "SIMPLENOTE_PASSWORD": "pw",
    "DB_ENCRYPTION_KEY": "raw:" + "5a" * 32,
}


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for fd in (reading, writing):
        try:
            os.close(fd)
        except OSError:
            continue


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A home, a working folder and a folder of notes of one's own."""
    for name in ("home", "cwd", "data"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def may(environ):
    reading, writing = os.pipe()
    try:
        return early_replies.may_answer(environ, incoming=reading)
    finally:
        os.close(reading)
        os.close(writing)


WRITINGS = [
    "{0}/data",
    " {0}/data ",
    "{0}/data/",
    "{0}/cwd/../data",
    "~/data",
    "data",
    "../data",
    "",
]
PLACES = ["data", "data/mcp-notarium", "home/data", "home/.local/share/mcp-notarium", "cwd/data"]
ACCOUNT_FOLDER = owner_hash(ACCOUNT["SIMPLENOTE_USERNAME"])[:16]


def policy(where, _account):
    (where / "policy.toml").write_text('version = 1\n[tools]\nsave = "off"\n')
    (where / "policy.toml").chmod(0o600)


def stray_policy(where, account):
    account.mkdir(mode=0o700)
    policy(account, account)


def wide(where, _account):
    where.chmod(0o777)


def readable(_where, account):
    account.mkdir(mode=0o755)


def encrypted(_where, account):
    account.mkdir(mode=0o700)
    (account / "x.sqlite.encrypted").touch(mode=0o600)


def readable_file(_where, account):
    account.mkdir(mode=0o700)
    (account / "keys.json").touch(mode=0o644)


def link(where, account):
    account.symlink_to(where)


def second_name(_where, account):
    account.mkdir(mode=0o700)
    (account / "keys.json").touch(mode=0o600)
    (account.parent.parent / "elsewhere").hardlink_to(account / "keys.json")


ODDITIES = [policy, stray_policy, wide, readable, encrypted, readable_file, link, second_name]


def surrounded(root, draw):
    """Folders, files and variables of which some are odd; gives the variables."""
    for place in PLACES:
        (root / place).mkdir(parents=True, mode=0o700, exist_ok=True)
    environ = ACCOUNT | {"HOME": str(root / "home")}
    for name in ("NOTARIUM_DATA_DIR", "XDG_DATA_HOME"):
        how = draw(st.none() | st.sampled_from(WRITINGS))
        if how is not None:
            environ[name] = how.format(root)
    for name, values in (
        ("NOTARIUM_READ_ONLY", ["on", "off", ""]),
        ("NOTARIUM_TOOLS", ["notarium", "other"]),
        ("NOTARIUM_BACKEND", ["simplenote", "none-such"]),
        ("DB_ENCRYPTION", ["on", "off"]),
        ("SIMPLENOTE_USERNAME", ["", " "]),
    ):
        if draw(st.integers(0, 5)) == 0:
            environ[name] = draw(st.sampled_from(values))
    if draw(st.integers(0, 3)) == 0:
        (root / "cwd/.env").write_text("NOTARIUM_READ_ONLY=on\n")
        (root / "cwd/.env").chmod(0o600)
    oddity = draw(st.sampled_from([None, None, *ODDITIES]))
    if oddity is not None:
        where = root / draw(st.sampled_from(PLACES))
        oddity(where, where / ACCOUNT_FOLDER)
    return environ


@settings(max_examples=300)
@given(chosen=st.data())
def test_where_it_answers_nothing_is_refused_early_and_every_tool_is_offered(
    tmp_path_factory, chosen
):
    """Whatever is odd in the surroundings, it was left to those who know."""
    root = tmp_path_factory.mktemp("place")
    environ = surrounded(root, chosen.draw)
    before, home = Path.cwd(), os.environ.get("HOME", "")
    os.chdir(root / "cwd")
    os.environ["HOME"] = environ["HOME"]
    try:
        answers = may(environ)
        event(f"answers: {answers}")
        config = load(environ, cwd=root / "cwd").config
        refuse_early(config)
    except NotariumError as error:
        event(f"refused: {type(error).__name__}")
        assert not answers
    else:
        assert not answers or tuple(config.policy.tools) == tuple(TOOLS)
    finally:
        os.chdir(before)
        os.environ["HOME"] = home


def test_plain_surroundings_are_recognised(place):
    assert may(ACCOUNT | {"HOME": str(place / "home")})
    assert may(ACCOUNT | {"NOTARIUM_DATA_DIR": str(place / "data")})


@pytest.mark.parametrize(
    "more",
    [
        {"NOTARIUM_POLICY_FILE": "x"},
        {"NOTARIUM_READ_ONLY": "off"},
        {"NOTARIUM_TOOLS": "notarium"},
        {"NOTARIUM_DATA_DIR": "data"},
    ],
)
def test_whatever_may_narrow_the_tools_is_left_to_the_configuration(place, more):
    assert not may(ACCOUNT | {"HOME": str(place / "home")} | more)


@pytest.mark.parametrize("oddity", [stray_policy, wide, readable, readable_file, link, second_name])
def test_folders_that_others_can_read_or_change_are_left_to_the_checks(place, oddity):
    environ = ACCOUNT | {"NOTARIUM_DATA_DIR": str(place / "data")}
    assert may(environ)
    oddity(place / "data", place / "data" / ACCOUNT_FOLDER)
    assert not may(environ)


@pytest.mark.parametrize(
    "more",
    [
        {"DB_ENCRYPTION": "off"},
        {"SIMPLENOTE_USERNAME": " "},
        {"NOTARIUM_DATA_DIR": "{0}/cwd/../data"},
    ],
)
def test_what_may_be_refused_or_mean_another_folder_is_left_to_the_configuration(place, more):
    environ = ACCOUNT | {"NOTARIUM_DATA_DIR": str(place / "data")}
    assert may(environ)
    assert not may(environ | {name: value.format(place) for name, value in more.items()})


@pytest.mark.parametrize("named", [[], ["sqlcipher3-1", "sqlcipher3_binary-1"]])
def test_a_driver_that_is_not_there_once_is_left_to_the_checks(place, monkeypatch, named):
    environ = ACCOUNT | {"NOTARIUM_DATA_DIR": str(place / "data")}
    (place / "site/sqlcipher3").mkdir(parents=True)
    (place / "site/sqlcipher3/__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(place / "site")])
    (place / "site/sqlcipher3-1.dist-info").mkdir()
    assert may(environ)
    (place / "site/sqlcipher3-1.dist-info").rmdir()
    for name in named:
        (place / f"site/{name}.dist-info").mkdir()
    assert not may(environ)


def test_policy_and_settings_in_files_are_left_to_the_configuration(place):
    environ = ACCOUNT | {"NOTARIUM_DATA_DIR": str(place / "data")}
    for plant in (lambda path: path.touch(mode=0o600), lambda path: path.symlink_to("nowhere")):
        plant(place / "data/policy.toml")
        assert not may(environ)
        (place / "data/policy.toml").unlink()
    assert may(environ)
    (place / "cwd/.env").touch()
    assert not may(environ)


def told(fd):
    return [json.loads(line) for line in os.read(fd, 1 << 18).splitlines()]


def line(message):
    return json.dumps(message).encode() + b"\n"


def test_it_answers_what_it_knows_and_keeps_the_beginning_of_the_rest(pipe):
    incoming, writing = os.pipe()
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    os.write(writing, line(HELLO) + line(INITIALIZED) + line(listing) + b'{"jsonrpc":')
    greeting, buffer = Greeting(Front(surface()), pipe[1]), LineBuffer()
    early_replies.answer(incoming, greeting, buffer)
    assert [answer["id"] for answer in told(pipe[0])] == [0, 1]
    assert not greeting.waiting
    assert buffer.feed(b'"2.0"}\n') == [b'{"jsonrpc":"2.0"}']
    os.write(writing, line(call(2, "save", text="x")))
    early_replies.answer(incoming, greeting, buffer)
    assert greeting.waiting
    os.close(incoming)
    os.close(writing)


def test_it_leaves_the_end_of_input_to_the_reader(pipe):
    incoming, writing = os.pipe()
    os.write(writing, line(HELLO))
    os.close(writing)
    greeting = Greeting(Front(surface()), pipe[1])
    early_replies.answer(incoming, greeting, LineBuffer())
    assert len(told(pipe[0])) == 1
    assert not greeting.left
    assert os.read(incoming, 1) == b""
    os.close(incoming)


@pytest.mark.parametrize("given", [None, "", "  "])
def test_policy_in_the_usual_folder_is_seen_however_its_variable_is_left_empty(place, given):
    environ = ACCOUNT | {"HOME": str(place / "home")}
    if given is not None:
        environ |= {"XDG_DATA_HOME": given, "NOTARIUM_DATA_DIR": given}
    usual = place / "home/.local/share/mcp-notarium"
    usual.mkdir(parents=True, mode=0o700)
    assert may(environ)
    (usual / "policy.toml").touch(mode=0o600)
    assert not may(environ)


def test_without_a_home_only_the_configuration_knows_the_folder(place):
    assert not may(ACCOUNT)
    assert not may(ACCOUNT | {"HOME": ""})
