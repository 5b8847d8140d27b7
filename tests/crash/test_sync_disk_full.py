"""Fill the disk under a server that syncs: its answers say that the notes are old."""

import pytest

from notarium_devtools.simperium import Simulator
from support import needs
from support.small_disk import SmallDisk
from support.whole import Server, environment, until

pytestmark = pytest.mark.timeout(120)

NEWS = "news from elsewhere\n" + "a line of many\n" * 100_000


@pytest.fixture
def simulator():
    made = Simulator()
    made.put("old", content="old\n", tags=[])
    with made.running():
        yield made


@pytest.fixture
def disk(tmp_path):
    made = SmallDisk(tmp_path / "disk", "24m")
    if not made.mounted:
        needs.lacking("a disk of its own cannot be mounted here")
    yield made
    made.unmount()


def test_while_news_cannot_be_stored_every_answer_says_so_until_there_is_room(simulator, disk):
    with Server(environment(simulator, disk.folder)) as server:
        server.loaded(1)
        until(lambda: server.tool("manage", action="get_stats")["stats"]["sync_feed"])
        filler = disk.fill()
        simulator.put("new", content=NEWS, tags=[])
        until(lambda: "sync" in server.tool("list"))
        answer = server.tool("list")
        assert answer["total_items"] == 1
        assert "disk" in answer["sync"]["note"]
        assert answer["sync"]["state"] == "backing_off"
        stats = server.tool("manage", action="get_stats")["stats"]
        assert stats["sync_last_error"] in answer["sync"]["note"]
        assert stats["db_sync_status"] == "backing_off"
        assert stats["db_sync_error_count"] >= 1
        assert server.said("sync.cycle_failed")
        assert server.said("sync.not_recorded")
        filler.unlink()
        until(lambda: server.tool("list")["total_items"] == 2, within=60)
        until(lambda: "sync" not in server.tool("list"))
        stats = server.tool("manage", action="get_stats")["stats"]
        assert stats["db_sync_status"] == "idle"
        assert stats["db_sync_error_count"] == 0
        assert "sync_last_error" not in stats
        assert server.leave() == 0
