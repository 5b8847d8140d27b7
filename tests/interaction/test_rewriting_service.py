"""Test the real server behind a proxy that changes a word in every request."""

from contextlib import ExitStack

from notarium_devtools.simperium import Simulator
from support import hostile_service as hostile
from support.hostile_service import FEED, INDEX, NOTE, WRITE, HostileService
from support.whole import Server, environment, run, until


def test_one_save_makes_one_note_and_is_reported_as_stored_differently(tmp_path):
    """Also after a restart, and whatever the change feed says of it."""
    simulator = Simulator(poll_seconds=0.2, publish_delay=None)
    swapped = hostile.says(lambda body: body.replace(b"colour", b"color"))
    with ExitStack() as stack:
        stack.enter_context(simulator.running())
        service = stack.enter_context(HostileService(simulator))
        env = environment(service, tmp_path)
        for kind in (WRITE, NOTE, FEED, INDEX):
            stack.enter_context(service.twisted(kind, swapped))
        with Server(env) as server:
            saved = server.tool("save", text="red\nthe colour\n")
            assert saved["note"].startswith("stored differently: line 2. ")
            assert "conflict_copy_id" not in saved
            changed = server.tool(
                "save",
                id=saved["id"],
                local_version=saved["local_version"],
                text="red\nthe colour\nanother colour\n",
            )
            assert changed["note"].startswith("stored differently: lines 2, 3. ")
            (notice,) = server.tool("manage", action="get_stats")["stats"]["notices"]
            assert "stored 2 writes differently" in notice
        with Server(env) as server:
            feeds = service.met[FEED]
            until(lambda: service.met[FEED] > feeds)
            assert server.tool("manage", action="get_stats")["stats"]["pending_writes"] == 0
        assert simulator.note(saved["id"])["content"] == "red\nthe colour\nanother colour\n"
        assert len(simulator.notes()) == 1
        assert service.met[WRITE] == 2
        for asked in (("doctor", "--offline"), ("status",)):
            assert "stored 2 writes differently" in run(env, *asked).stdout
