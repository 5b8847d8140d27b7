"""Test the two packages of the SQLCipher driver: each opens and continues the files of the other."""

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.account import reencryption, user_key_rotation
from mcp_notarium.domain.note import Content
from mcp_notarium.search.parser import parse
from mcp_notarium.secret import Secret
from mcp_notarium.storage import driver, integrity
from mcp_notarium.storage.cache import Cache
from support import corpus
from support.account import OTHER, PASSPHRASE, account, made, open_cheaply
from support.cheap_costs import CHEAPEST

TOP = Path(__file__).resolve().parents[2]
SUFFIX = "-other-driver"

_RUN = """
import sys
sys.path[:0] = {path!r}
import test_other_driver
test_other_driver.{action}({folder!r})
"""


@pytest.fixture(scope="module")
def other():
    """The interpreter of the environment with the other package."""
    mine = Path(sys.prefix)
    theirs = mine.name.removesuffix(SUFFIX) if mine.name.endswith(SUFFIX) else mine.name + SUFFIX
    python = mine.with_name(theirs) / "bin" / "python"
    if not python.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("./scripts/test makes the second environment; run the tests with it")
        pytest.skip("there is no second environment; ./scripts/test makes it")
    return python


def elsewhere(python, action, folder):
    """Have the other environment do one of the functions below; gives what it says."""
    code = _RUN.format(
        path=[str(TOP / "tests"), str(Path(__file__).parent)], action=action, folder=str(folder)
    )
    done = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def config_of(folder, passphrase=PASSPHRASE):
    return replace(account(Path(folder)), db_key=Secret(passphrase))


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")


def name_driver(_folder):
    say(driver.installed_versions())


def make(folder):
    made(Path(folder))
    put(folder)


def put(folder, passphrase=PASSPHRASE, start=0):
    with closing(open_cheaply(config_of(folder, passphrase))) as opened:
        cache = Cache(opened.database)
        with cache.transaction(durable=True):
            cache.notes.apply(
                corpus.make(f"n{number}", Content(f"some words {number} łódź 東京\n"))
                for number in range(start, start + 50)
            )
    say("put")


def put_more(folder):
    put(folder, OTHER, start=50)


def change_key(folder):
    user_key_rotation.rotate_passphrase(config_of(folder), new=Secret(OTHER), parameters=CHEAPEST)
    say("changed")


def rewrite_database(folder):
    reencryption.reencrypt(
        config_of(folder, OTHER),
        new=Secret(PASSPHRASE),
        parameters=CHEAPEST,
    )
    say("changed")


def read(folder, passphrase=PASSPHRASE):
    with closing(open_cheaply(config_of(folder, passphrase))) as opened:
        cache = Cache(opened.database)
        assert integrity.check(opened.database) == ()
        found = cache.search.find_words(parse("words lodz 東京"), limit=1000)
        say([cache.notes.counts().total, len(found.notes)])


def read_changed(folder):
    read(folder, OTHER)


ACTIONS = {
    action.__name__: action
    for action in (make, put_more, change_key, rewrite_database, read, read_changed, name_driver)
}


def here(action, folder, capsys):
    capsys.readouterr()
    ACTIONS[action](str(folder))
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_other_environment_has_the_other_package(other, capsys, tmp_path):
    mine, theirs = here("name_driver", tmp_path, capsys), elsewhere(other, "name_driver", tmp_path)
    assert {name.split()[0] for name in (*mine, *theirs)} == {"sqlcipher3", "sqlcipher3-binary"}


@pytest.mark.attack(23)
@pytest.mark.parametrize("first_here", [True, False], ids=["made here", "made there"])
def test_each_continues_where_the_other_stopped(other, capsys, tmp_path, first_here):
    def do(action, *, mine):
        if mine == first_here:
            return here(action, tmp_path, capsys)
        return elsewhere(other, action, tmp_path)

    do("make", mine=True)
    assert do("read", mine=False) == [50, 50]
    do("change_key", mine=False)
    assert do("read_changed", mine=True) == [50, 50]
    do("put_more", mine=False)
    assert do("read_changed", mine=True) == [100, 100]
    do("rewrite_database", mine=True)
    assert do("read", mine=False) == [100, 100]
    assert do("read", mine=True) == [100, 100]
