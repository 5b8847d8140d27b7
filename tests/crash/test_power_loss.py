"""Cut the power at any moment of a command that changes keys: nothing is lost, it can be repeated.

The real commands are recorded as the kernel sees them, and what an unlucky disk may have kept of
them is laid out and opened (``support/power_loss.py`` says what that may be). On a disk that takes no
notice of the flushes of files, or of those of folders, exactly the rule must break that they uphold;
else the proof would prove nothing.
"""

import functools
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from support import disk_trace, power_loss
from support.account import fingerprint
from support.disk_trace import Flush, FlushFolder, Operation
from support.found import Violation
from support.long import LONG, sample
from support.power_stories import DISTINCT, story_named
from support.stories import Story

TRIALS = range(600)
CONTROLS = 4000 if LONG else 400

pytestmark = [
    pytest.mark.timeout(3600 if LONG else 120),
]
DRAWN = sample("power loss", DISTINCT, 4)
every_story = pytest.mark.parametrize("story", DRAWN, ids=lambda story: story.name)


@pytest.fixture(scope="module", autouse=True)
def _strace():
    disk_trace.demand()


@functools.cache
def played(name: str) -> tuple[disk_trace.Recording, dict[str, str]]:
    """The recording of a story, and what lay there in the end."""
    story = story_named(name)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve() / "home"
        home.mkdir(mode=0o700)
        story.prepare(home)
        recording = disk_trace.record(
            story.program, root=home, trace=home.parent / "trace", env=story.variables(home)
        )
        return recording, persistent_files(home)


def persistent_files(home: Path) -> dict[str, str]:
    """Return the files, without those that SQLite maps into memory."""
    return {name: at for name, at in fingerprint(home).items() if not name.endswith("-shm")}


def check_power_cut(
    story: Story, folder: Path, number: int, *, deaf: type[Operation] | None = None
) -> None:
    """Cut the power at a random point, restore what is on the disk, and check it; ``deaf``: ignored flushes."""
    recording, _ = played(story.name)
    dice = random.Random(f"{story.name} {number}")
    moment = power_loss.some_moment(recording, dice)
    disk = power_loss.cut_power(
        recording, moment, dice, heeded=lambda one: deaf is None or not isinstance(one, deaf)
    )
    home = folder / f"home-{number}"
    disk.lay_out(recording.root, home, dice)
    try:
        story.check(home, done=moment > recording.reported_at(story.says), dice=dice)
    except Exception as error:
        error.add_note(f"power cut {number} of {story.name}, before operation {moment}")
        raise
    shutil.rmtree(home)


@every_story
def test_a_recording_played_to_its_end_gives_the_files_on_the_disk(tmp_path, story):
    recording, in_the_end = played(story.name)
    disk = power_loss.before(recording)
    for one in recording.operations:
        disk.do(one)
    disk.finish()
    disk.lay_out(recording.root, tmp_path / "home")
    assert persistent_files(tmp_path / "home") == in_the_end


@pytest.mark.attack(18)
@every_story
def test_after_a_power_cut_nothing_is_lost_and_the_command_can_be_repeated(place, story):
    for number in sample(story.name, TRIALS, 10):
        check_power_cut(story, place, number)


CONTROLLED = [
    pytest.param(story, deaf, wanted, id=f"{story.name}-{deaf.__name__}")
    for story in DRAWN
    for deaf, wanted in zip((Flush, FlushFolder), story.unflushed, strict=True)
    if wanted is not None
]


@pytest.mark.attack(18)
@pytest.mark.parametrize(("story", "deaf", "wanted"), CONTROLLED)
@pytest.mark.slow("searches for a moment that breaks the rule")
def test_on_a_disk_that_takes_no_notice_of_flushes_the_rule_breaks_that_they_uphold(
    place, story, deaf, wanted
):
    broken = set()
    for number in range(CONTROLS):
        try:
            check_power_cut(story, place, number, deaf=deaf)
        except Violation as violation:
            broken.add(violation.broken)
        if wanted in broken:
            return
    pytest.fail(f"{wanted!r} expected, {broken!r} seen")
