"""Test a full disk: it is reported, stored notes stay, and work continues when there is space."""

import pytest

from mcp_notarium.storage import integrity
from support.cache_room import make, reopen, run_child
from support.small_disk import SmallDisk

FILLING = """
import resource
from mcp_notarium.errors import CacheFull
folder, limit = Path(sys.argv[1]), int(sys.argv[2])
cache = reopen(folder)
cache.database.set_checkpointer(True)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

def fill(number):
    text = " ".join(f"{n}x{number}" for n in range(4_000))
    store(cache, [corpus.make(f"id{number}", corpus.Content(text))], cursor=str(number + 1))

for number in range(10_000):
    try:
        fill(number)
    except CacheFull as error:
        say("full", number, error.category)
        break
assert not cache.database.closed
assert not cache.database.in_transaction
assert cache.notes.counts().active == number
assert cache.sync_state.cursor() == str(number)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    fill(number)
    say("room again")
cache.close()
"""


@pytest.fixture
def disk(tmp_path):
    made = SmallDisk(tmp_path / "disk", "4m")
    yield made
    made.unmount()


def test_a_size_limit_rolls_back_the_last_change_only_and_room_heals_it(tmp_path):
    make(tmp_path).close()
    said = run_child(FILLING, tmp_path, 3_000_000).split()
    assert said[0] == "full"
    assert said[2] == "DB_OPERATION"
    assert said[-2:] == ["room", "again"]
    cache = reopen(tmp_path)
    assert int(said[1]) > 3
    assert cache.notes.counts().active == int(said[1]) + 1
    assert integrity.check(cache.database) == ()
    cache.close()


def test_a_full_disk_loses_nothing_that_was_stored(disk):
    make(disk.folder).close()
    said = run_child(FILLING, disk.folder, 0 if disk.mounted else 2_000_000).split()
    assert said[0] == "full"
    if disk.mounted:
        disk.resize("64m")
    cache = reopen(disk.folder)
    try:
        assert cache.notes.counts().active >= int(said[1]) > 3
        assert cache.notes.get("id0").text.startswith("0x0 1x0")
        assert integrity.check(cache.database) == ()
    finally:
        cache.close()  # or the disk cannot be unmounted


OPENING = """
import resource
from mcp_notarium.errors import CacheError
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    reopen(Path(sys.argv[1]))
except CacheError as error:
    say(type(error).__name__)
"""


def test_a_cache_that_finds_no_room_to_be_opened_is_full_and_not_damaged(tmp_path):
    make(tmp_path).close()
    assert run_child(OPENING, tmp_path, 4096).split() == ["CacheFull"]
    reopen(tmp_path).close()
