"""Fill the disk or a quota at any write of any command that changes keys.

What the command says is what holds: if it fails, the old key opens what it opened; if it does not, it
is done. In any case it can be done when there is room, and nothing is left over.
"""

import errno
import os
import random
import shutil
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from mcp_notarium.errors import NotariumError
from mcp_notarium.files.private_files import ignore_step
from support.long import LONG, dice, sample
from support.needs import lacking
from support.power_stories import DISTINCT
from support.small_disk import SmallDisk
from support.stories import TAKES_ROOM, stopping

if sys.platform != "win32":
    import resource

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="no limits on files"),
    pytest.mark.timeout(3600 if LONG else 120),
]
every_story = pytest.mark.parametrize(
    "story", sample("full disks", DISTINCT, 5), ids=lambda story: story.name
)
NEXT = 2 if LONG else 5
PAGE = 4096
LIMITS = [0, *sample("limits", [*range(100, 2048, 100), *range(PAGE, 80 * PAGE, PAGE)], 3)]
LEFT = sample("pages left", range(80), 3)


GOES_ON = {
    *("purge", "repair", "rotate-key --reencrypt"),
    *("keychain disable", "rotate-key --keychain, again"),
}
"""They go on where they failed, also behind their commit point; the keychain may fail later, too."""
PASSING = ("-wal", "-shm", "keychain.json")


def persistent_files(home):
    """Return the key files, and the names of all others except what an attempt may leave or move aside."""
    paths = [path for path in home.rglob("*") if "quarantine" not in path.parts]
    return {
        path.name: path.read_bytes() if path.match("notarium_keys*") else b""
        for path in paths
        if path.is_file() and not path.name.endswith((*PASSING, ".lock"))
    }


def require_as_before(story, home, origin):
    """It says that it failed; so it is as if it had not been tried."""
    before, after = persistent_files(origin), persistent_files(home)
    moved_on = before.get("notarium_keys.json") != after.get("notarium_keys.json")
    assert after == before or (moved_on and story.name in GOES_ON)


def attempt(story, home, *, at=ignore_step):
    """Do it; whether it says that it is done."""
    try:
        story.act(home, at)
    except NotariumError:
        return False
    return True


@pytest.fixture
def tried(place):
    """Does a story once more from its beginning, within ``limits``, and judges what is left."""

    def again(story, number, limits, *, on_step=None, folder=place):
        origin = place / "origin"
        if not origin.exists():
            origin.mkdir(mode=0o700)
            story.prepare(origin)
        home = folder / f"home-{number}"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(origin, home)
        with limits:
            done = attempt(story, home, at=on_step or ignore_step)
        if not done:
            require_as_before(story, home, origin)
        story.check(home, done=done, dice=random.Random(number))
        shutil.rmtree(home)
        return done

    return again


@contextmanager
def no_file_beyond(size):
    """A quota of a kind: writing behind ``size`` fails with EFBIG, in every file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@every_story
def test_with_a_quota_it_says_what_holds(tried, story):
    done = [tried(story, limit, no_file_beyond(limit)) for limit in LIMITS]
    assert done[0] == (story.name == "purge")  # it writes nothing


class FullFrom:
    """From the place ``first`` on, whatever takes room is refused."""

    def __init__(self, first, number):
        self.first, self.number, self.count = first, number, 0

    def __call__(self, name):
        if name.removesuffix("_copy").removesuffix("_prepared") in TAKES_ROOM:
            self.count += 1
            if self.count >= self.first:
                raise OSError(self.number, os.strerror(self.number))


@every_story
def test_a_disk_that_is_full_from_any_write_on_is_no_end_of_a_cache(tried, story):
    for first in count(1 + dice(story.name).randrange(NEXT), NEXT):
        full = FullFrom(first, errno.ENOSPC if first % 2 else errno.EDQUOT)
        done = tried(story, first, stopping(full), on_step=full)
        if full.count < first:
            assert done
            break


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    made = SmallDisk(tmp_path_factory.mktemp("small") / "disk", "64m")
    if not made.mounted:
        lacking("only root may mount a disk")
    yield made
    made.unmount()


@contextmanager
def all_but(disk, pages):
    """Somebody else has filled the disk."""
    filler = disk.folder / "filler"
    with filler.open("wb") as file:
        free = shutil.disk_usage(disk.folder).free - pages * PAGE
        os.posix_fallocate(file.fileno(), 0, free)
    try:
        yield
    finally:
        filler.unlink()


@every_story
def test_on_a_disk_with_few_pages_left_it_says_what_holds(tried, disk, story):
    for pages in LEFT:
        tried(story, pages, all_but(disk, pages), folder=Path(disk.folder))
