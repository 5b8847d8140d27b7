"""Kill every command that changes keys between any two changes of the disk.

Afterwards exactly the keys of before open or exactly those of after, every note is there, the command
can be done again, and then nothing is left over. In the long form also the real command, before every
system call that has to do with its files. A real server starts afterwards.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from itertools import count

import pytest

from mcp_notarium.errors import Verdict
from support import disk_trace
from support.found import KEY, NEW
from support.long import LONG, dice, sample
from support.power_stories import DISTINCT, STORIES
from support.stories import KILLED, run_killed
from support.talker import SERVE, Talker, call

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL"),
    pytest.mark.timeout(3600 if LONG else 120),
]
DRAWN = sample("kills", DISTINCT, 6)
every_story = pytest.mark.parametrize("story", DRAWN, ids=lambda story: story.name)
NEXT, NEXT_CALL = (2, 4) if LONG else (9, 59)
"""Every so many places and system calls are tried, from one that is drawn."""
CALLS = "fsync,fdatasync,pwrite64,sendfile,ftruncate,rename,unlink,mkdir,rmdir,flock"
SERVED = {"rotate-key --reencrypt": NEW}
if LONG:
    SERVED |= {"rotate-key": NEW, "keys add": KEY, "keys remove": KEY, "repair": KEY}
NOWHERE = {
    f"{name}_URL": "http://127.0.0.1:9"
    for name in ("SIMPERIUM_AUTH", "SIMPLENOTE_APP")  # the third would name another account
}


@pytest.fixture
def origin(place):
    """Makes what was there before a story, to be copied."""

    def made(story):
        folder = place / "origin"
        folder.mkdir(mode=0o700)
        story.prepare(folder)
        return folder

    return made


@every_story
def test_killed_anywhere_it_leaves_what_was_or_what_is_to_be_and_can_be_repeated(
    place, origin, story
):
    before = origin(story)
    for number in count(1 + dice(story.name).randrange(NEXT), NEXT):
        home = place / f"home-{number}"
        shutil.copytree(before, home)
        end = run_killed(story.act, home, number)
        assert end in {0, KILLED}
        try:
            story.check(home, done=end == 0, dice=random.Random(number))
        except AssertionError as error:
            error.add_note(f"{story.name}, killed at stop {number}")
            raise
        shutil.rmtree(home)
        if end == 0:
            break
    assert number > NEXT


def killed_at(story, home, number):
    """The end of the real command, killed before its call ``number`` of those that matter."""
    return subprocess.run(
        [
            *(disk_trace.STRACE, "-f", "-o", os.devnull, "-e", f"trace={CALLS}"),
            *("-e", f"inject={CALLS}:signal=KILL:when={number}"),
            *story.program,
        ],
        cwd=home,
        env=story.variables(home),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.attack(17)
@pytest.mark.parametrize("story", sample("system calls", STORIES, 1), ids=lambda story: story.name)
def test_the_real_command_killed_at_any_system_call_leaves_the_same(place, origin, story):
    disk_trace.demand()
    before, chance = origin(story), random.Random(story.name)
    for number in count(1 + dice(f"{story.name}, call").randrange(NEXT_CALL), NEXT_CALL):
        home = place / f"home-{number}"
        shutil.copytree(before, home)
        end = killed_at(story, home, number)
        assert end.returncode in {0, -signal.SIGKILL}, end.stderr
        story.check(home, done=story.says in end.stdout + end.stderr, dice=chance)
        shutil.rmtree(home)
        if end.returncode == 0:
            break


@pytest.mark.parametrize("story", [s for s in STORIES if s.name in SERVED], ids=lambda s: s.name)
@pytest.mark.parametrize("number", sample("a real server", range(2, 40, 4), 1))
def test_a_real_server_starts_after_a_kill(place, origin, story, number):
    home = origin(story)
    run_killed(story.act, home, number)
    env = story.variables(home) | NOWHERE
    keys = (KEY, SERVED[story.name])
    assert any(starts(home, env | {"DB_ENCRYPTION_KEY": key.reveal_text()}) for key in keys)


def starts(home, env):
    """Whether a server serves the cache; else it must be locked for its key.

    A repair may have emptied it, if what it was is in the quarantine: the next sync fetches all, after a login.
    """
    with Talker(SERVE, env=env) as server:
        server.greet()
        result = server.ask(call(1, "list", limit=1))["result"]
    if not result.get("isError"):
        return result["structuredContent"]["total_items"] > 0
    text = result["content"][0]["text"]
    if '"login_required"' in text:
        return any(home.rglob("quarantine/*/*.encrypted"))
    assert f'"{Verdict.WRONG_KEY.name.lower()}"' in text, text
    return False
