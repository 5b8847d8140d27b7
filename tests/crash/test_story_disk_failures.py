"""Let any one change of the disk fail, in each command that changes keys or caches.

What the command says is true of what is active then: it is called a failure only as long as what was
before counts; and what it names as the way on ends it.
"""

import errno
import os
import random
import shutil
import sys
from pathlib import Path

import pytest

from mcp_notarium.account import purge
from mcp_notarium.cli import command_context, main
from mcp_notarium.config import Loaded
from mcp_notarium.config.policy_file import FoundPolicy
from mcp_notarium.domain.policy import PERMISSIVE
from mcp_notarium.errors import LockedError, Unfinished
from mcp_notarium.files.os_errors import ELSEWHERE
from support.account import folder_of
from support.long import LONG, dice, sample
from support.power_stories import DISTINCT
from support.stories import given_key, stopping

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="folders are flushed"),
    pytest.mark.timeout(3600 if LONG else 180),
]
STORIES = [story for story in DISTINCT if story.command]
NEXT = 3 if LONG else 27
"""Every so many places before the commit point are tried, from one that is drawn, and those behind it."""
NO_FILE = {"begin", "commit", "committed", "flock"}
AGAIN = {name: name for name in ("rotate-key --reencrypt", "repair", "purge")}
"""What is run again where something is left; whoever changes slots has nothing to leave."""
FAILURE = "cannot be"


class Failing:
    """Fails at one place (``steadily``: and at every one behind it); 0: nowhere.

    ``commit`` is the number of places before the key file that counts was another one.
    """

    def __init__(self, number, config, *, steadily=False):
        self.number, self.config, self.steadily = number, config, steadily
        self.folder = folder_of(config)
        self.count, self.commit = 0, None
        self.before = self.key_file()

    def key_file(self):
        path = self.folder.key_file
        return path.read_bytes() if path.exists() else None

    def __call__(self, name):
        if name in NO_FILE:
            return
        if self.commit is None and self.key_file() != self.before:
            self.commit = self.count
        self.count += 1
        late = self.steadily and self.count > self.number
        if self.number and (self.count == self.number or late):
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def loaded(config):
    """The configuration as a command gets it, with no account remembered."""
    return Loaded(config, (), (), FoundPolicy(PERMISSIVE, Path("none")))


@pytest.fixture
def tried(place, monkeypatch, capsys):
    """Does a command in a copy of what was there; how it ended, what it said, and the copy."""

    def again(story, number=0, *, steadily=False):
        origin, home = place / "origin", place / f"home-{number}-{steadily}"
        if not origin.exists():
            origin.mkdir(mode=0o700)
            story.prepare(origin)
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(origin, home)
        config = given_key(home, db_encryption="off" not in story.environment.values())
        failing = Failing(number, config, steadily=steadily)
        with monkeypatch.context() as patch:
            patch.setattr(command_context, "prepare_account", lambda _args: loaded(config))
            patch.chdir(home)
            capsys.readouterr()
            with stopping(failing):
                code = main.run(list(story.command))
        return code, capsys.readouterr().err, home, failing

    return again


every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


def require_true(story, code, said, failing, home):
    """What was said is what holds."""
    moved = failing.key_file() != failing.before
    if code == 0:
        assert f"mcp-notarium: {FAILURE}" not in said
    elif not moved:
        assert "is active" not in said
    else:
        assert story.name in AGAIN, said
        assert FAILURE not in said
        assert ELSEWHERE not in said
        assert f"Run `mcp-notarium {AGAIN[story.name]}` again" in said or (
            f"or run `mcp-notarium {AGAIN[story.name]}` again" in said
        )
    story.check(home, done=code == 0, dice=random.Random(failing.number))


@every_story
@pytest.mark.parametrize("steadily", [False, True], ids=["once", "from then on"])
@pytest.mark.slow("fails once at each place")
def test_a_failure_of_the_disk_is_called_one_only_while_what_was_before_counts(
    tried, story, steadily
):
    code, said, home, whole = tried(story)
    assert code == 0, said
    shutil.rmtree(home)
    commit = whole.count if whole.commit is None else whole.commit
    before = range(1 + dice(story.name).randrange(NEXT), commit, NEXT)
    after = sample(f"{story.name} {steadily}", range(max(commit, 1), whole.count + 1), 3)
    for number in (*before, *after):
        code, said, home, failing = tried(story, number, steadily=steadily)
        try:
            require_true(story, code, said, failing, home)
        except AssertionError as error:
            error.add_note(f"{story.name}, failed at {number} of {whole.count}: {code}, {said}")
            raise
        shutil.rmtree(home)


@pytest.mark.parametrize("name", ["repair", "purge"])
def test_the_named_command_removes_the_old_files(tried, name, monkeypatch, capsys):
    (story,) = (one for one in STORIES if one.name == name)
    *_, whole = tried(story)
    for number in range(max(whole.commit, 1), whole.count + 1):
        code, _said, home, failing = tried(story, number)
        if code == 0 or failing.key_file() == failing.before:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(
                command_context, "prepare_account", lambda _args, f=failing: loaded(f.config)
            )
            assert main.run(story.command) == 0 or "nothing is wrong" in capsys.readouterr().err
        left = {path.name for path in failing.folder.path.glob("*")}
        assert not [path for path in left if path.startswith("notarium_cache.sqlite")]
        assert len([path for path in left if path.endswith(".encrypted")]) == (name[0] != "p")
        shutil.rmtree(home)


def hint_of(error):
    """Where it does not send people elsewhere."""
    return "" if ELSEWHERE in error.resolution_hint else error.resolution_hint


def test_a_cache_that_is_quarantined_in_part_is_not_called_unusable(place):
    """The way out of every other verdict must not send people elsewhere half way."""
    story = next(one for one in STORIES if one.name == "repair")
    origin = place / "origin"
    origin.mkdir(mode=0o700)
    story.prepare(origin)
    ended = set()
    for number in range(1, 100):
        home = place / "home"
        shutil.copytree(origin, home)
        config = given_key(home)
        names = sorted(path.name for path in config.account_dir.glob("notarium_*"))
        failing = Failing(number, config)
        try:
            with stopping(failing):
                purge.reset_account(config)
        except Unfinished as error:
            ended.add("in part" if "`mcp-notarium reset-cache` again" in hint_of(error) else "?")
        except LockedError:
            ended.add("not")
            assert sorted(path.name for path in config.account_dir.glob("notarium_*")) == names
        else:
            ended.add("done")
        purge.reset_account(config)
        assert not [*config.account_dir.glob("notarium_*")]
        aside = [path.name for path in config.account_dir.glob("quarantine/2*/notarium_*")]
        assert sorted(aside) == names
        shutil.rmtree(home)
        if failing.count < number:
            break
    assert ended == {"not", "in part", "done"}
