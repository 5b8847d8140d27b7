"""The power goes at any moment of a command that changes keys: nothing is lost, it can be repeated.

The real commands are recorded as the kernel sees them, and what an unlucky disk may have kept of
them is laid out and opened (``support/power_loss.py`` says what that may be). The same disk that
takes no notice of any flush must lose something, or the proof would prove nothing.
"""

import functools
import random
import sys
import tempfile
from pathlib import Path

import pytest

from support import disk_trace, power_loss
from support.account import fingerprint
from support.disk_trace import Cut, Flush, FlushFolder
from support.long import LONG
from support.power_stories import STORIES, Story

TRIALS = 600 if LONG else 14
CONTROLS = 2000 if LONG else 300

pytestmark = [
    pytest.mark.timeout(3600 if LONG else 120),
]
every_story = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


@pytest.fixture(scope="module", autouse=True)
def _strace():
    disk_trace.demand()


@functools.cache
def played(name: str) -> tuple[disk_trace.Recording, dict[str, str]]:
    """The recording of a story, and what lay there in the end."""
    (story,) = (one for one in STORIES if one.name == name)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve() / "home"
        home.mkdir(mode=0o700)
        story.prepare(home)
        command = [sys.executable, "-m", "mcp_notarium", *story.command]
        recording = disk_trace.record(
            command, root=home, trace=home.parent / "trace", env=story.variables(home)
        )
        return recording, lasting(home)


def lasting(home: Path) -> dict[str, str]:
    """What lies there, without what SQLite maps into memory."""
    return {name: at for name, at in fingerprint(home).items() if not name.endswith("-shm")}


def judge(story: Story, folder: Path, number: int, *, flushing: bool = True) -> None:
    """Cut the power somewhere, lay out what is left, and look."""
    recording, _ = played(story.name)
    dice = random.Random(f"{story.name} {number}")
    moment = power_loss.some_moment(recording, dice)
    disk = power_loss.cut_power(
        recording,
        moment,
        dice,
        heeded=lambda one: flushing or not isinstance(one, Flush | FlushFolder),
    )
    home = folder / f"home-{number}"
    disk.lay_out(recording.root, home, dice)
    try:
        story.judge(home, done=moment > recording.told(story.says), dice=dice)
    except Exception as error:
        error.add_note(f"power cut {number} of {story.name}, before operation {moment}")
        raise


@every_story
def test_a_recording_that_is_played_to_its_end_gives_what_lies_there(tmp_path, story):
    recording, in_the_end = played(story.name)
    disk = power_loss.before(recording)
    for one in recording.operations:
        disk.do(one)
    disk.finish()
    disk.lay_out(recording.root, tmp_path / "home")
    assert lasting(tmp_path / "home") == in_the_end


def test_every_byte_of_a_plain_cache_is_overwritten_before_its_place_is_given_back():
    recording, _ = played("migrate-plaintext")
    plain = {path.name: file for path, file in recording.names.items() if ".sqlite" in path.name}
    files = {plain["notarium_cache.sqlite"], plain["notarium_cache.sqlite-wal"]}
    disk = power_loss.before(recording)
    assert all(any(disk.contents[file]) for file in files)
    for one in recording.operations:
        if isinstance(one, Cut) and one.file in files:
            disk.do(Flush(one.file))
            assert not any(disk.contents[one.file][one.size :])
        disk.do(one)
    disk.finish()
    assert not any(any(disk.contents[file]) for file in files)


@every_story
def test_after_a_power_cut_nothing_is_lost_and_the_command_can_be_repeated(tmp_path, story):
    for number in range(TRIALS):
        judge(story, tmp_path, number)


@every_story
def test_on_a_disk_that_takes_no_notice_of_flushes_something_is_lost(tmp_path, story):
    played(story.name)
    for number in range(CONTROLS):
        try:
            judge(story, tmp_path, number, flushing=False)
        except Exception:  # noqa: BLE001 - whatever is wrong is what is looked for
            return
    pytest.fail("no flush is needed, it seems")
