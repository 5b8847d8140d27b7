"""Kill real processes while they sync: the cache stays whole, nothing is lost or done twice."""

import asyncio
import json
import signal
import sys
import time
from contextlib import contextmanager

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.search.parser import parse
from mcp_notarium.storage import integrity
from notarium_devtools.simperium import Simulator
from support import sync_child
from support.long import sample
from support.simplenote_client import open_store
from support.sync_rig import Client, FlyingTime, open_cache
from support.talker import Talker
from support.whole import run

KILLED = -9


@pytest.fixture(autouse=True)
def _cache(tmp_path):
    open_cache(tmp_path).close()


@pytest.fixture
def sim():
    with Simulator(poll_seconds=1.0).running() as simulator:
        yield simulator


def order(sim, folder, job, **more):
    place = {"folder": str(folder), "url": sim.url, "app_id": sim.app_id, "token": sim.token}
    return [sys.executable, sync_child.__file__, json.dumps(place | {"job": job} | more)]


def run_child(sim, folder, job, **more):
    """Run a child to its end; gives its exit code."""
    done = run({"HOME": str(folder)}, command=order(sim, folder, job, **more))
    assert done.returncode in (0, KILLED), done.stderr
    return done.returncode


@contextmanager
def started(sim, folder, job, **more):
    """A child that runs while this is entered."""
    with Talker(order(sim, folder, job, **more), env={"HOME": str(folder)}) as child:
        yield child


def ask(child, **question):
    child.send(question)
    return child.receive()


def truth(sim):
    return {
        note_id: Content(note["content"], tuple(note["tags"]), bool(note["deleted"]))
        for note_id, note in sim.notes().items()
    }


@contextmanager
def reopen(sim, folder):
    """A client of this process on the cache a child has left."""
    remote = open_store(sim, token=sim.token)
    client = Client(folder, None, remote=remote, time=FlyingTime(time.time()))
    client.writer._journal._owner_ended = lambda _owner: True
    try:
        assert integrity.check(client.cache.database) == ()
        yield client
    finally:
        client.close()


def settle(client):
    async def run():
        try:
            await client.run_cycles(2)
        finally:
            await client.remote.close()

    asyncio.run(run())


def fill(sim, count):
    for number in range(count):
        sim.put(f"note-{number:04}", content=f"note {number}\n" + "text\n" * 10)


def listings(sim):
    """Whether each listing so far began at a mark."""
    return [
        "mark" in request.query
        for request in sim.requests
        if request.path.endswith("/index") and "data" in request.query
    ]


@pytest.mark.parametrize(
    ("nth", "torn"),
    sample(
        "transactions",
        [(nth, torn) for nth in range(1, 8) for torn in (True, False)],
        2,
    ),
)
def test_a_first_load_killed_at_a_transaction_is_resumed(sim, tmp_path, nth, torn):
    fill(sim, 5600)  # seven pages, each a transaction
    assert run_child(sim, tmp_path, "sync", end_at_transaction=nth, torn=torn) == KILLED
    sim.reset_log()
    with reopen(sim, tmp_path) as client:
        progress = client.cache.sync_state.progress()
        page_one_is_in = (nth, torn) != (1, True)
        assert (progress.mark is not None or progress.complete) is page_one_is_in
        stored = client.cache.notes.counts().total
        assert stored >= (100 if page_one_is_in else 0)
        assert client.cache.search.find_words(parse("text"), limit=1).total == stored
        assert (client.cache.sync_state.cursor() is not None) is progress.complete
        settle(client)
        assert client.contents() == truth(sim)
    begun = listings(sim)
    assert False not in begun or not page_one_is_in, "it starts where it was, not over again"


@pytest.mark.parametrize("requests", sample("moments", [2, 3, 4], 1))
def test_a_first_load_killed_at_some_moment_is_resumed(sim, tmp_path, requests):
    fill(sim, 1500)
    sim.latency = 0.02
    with started(sim, tmp_path, "sync") as child:
        deadline = time.monotonic() + 30
        while len(sim.requests) < requests:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        child.signal(signal.SIGKILL)
        child.leave()
    with reopen(sim, tmp_path) as client:
        settle(client)
        assert client.contents() == truth(sim)
        assert client.scheduler.status().complete


@pytest.mark.parametrize("step", ["recorded", "pushed", "committed"])
def test_a_save_killed_at_any_step_happens_exactly_once(sim, tmp_path, step):
    sim.put("note", content="one\n")
    assert run_child(sim, tmp_path, "sync") == 0
    ended = {"end_at_step": step}
    assert run_child(sim, tmp_path, "save", id="note", text="one\ntwo\n", **ended) == KILLED
    assert run_child(sim, tmp_path, "save", text="new\n", **ended) == KILLED
    with reopen(sim, tmp_path) as client:
        assert len(client.cache.journal.all()) == (0 if step == "committed" else 2)
        settle(client)
        assert client.cache.journal.all() == []
        assert client.contents() == truth(sim)
    assert sorted(content.text for content in truth(sim).values()) == ["new\n", "one\ntwo\n"]
    assert sim.version("note") == 2


def test_of_two_processes_one_leads_both_write_and_the_other_takes_over_when_it_is_killed(
    sim, tmp_path
):
    fill(sim, 150)
    with started(sim, tmp_path, "serve") as first, started(sim, tmp_path, "serve") as second:
        leader, follower = _roles(first, second)
        written = [
            ask(child, do="write", text=f"written by {number}\n")["id"]
            for number, child in enumerate((leader, follower, leader, follower))
        ]
        assert ask(follower, do="write", id=written[0], text="changed by the follower\n")["id"]
        sim.put("elsewhere", content="elsewhere\n")
        assert ask(follower, do="sync") == {"well": True}
        leader.signal(signal.SIGKILL)
        leader.leave()
        sim.put("note-0001", content="changed after the leader's end\n")
        sim.delete("note-0002")
        _wait_for(lambda: ask(follower, do="status")["leader"], seconds=5)
        assert ask(follower, do="sync") == {"well": True}
        with reopen(sim, tmp_path) as reader:
            assert reader.contents() == truth(sim)
            assert reader.cache.journal.all() == []
            asyncio.run(reader.remote.close())
    texts = [content.text for content in truth(sim).values()]
    assert texts.count("changed by the follower\n") == 1
    assert len(texts) == 150 - 1 + 4 + 1


def _roles(first, second):
    def one_leads():
        return [child for child in (first, second) if _complete_leader(child)]

    _wait_for(one_leads, seconds=20)
    (leader,) = one_leads()
    return leader, second if leader is first else first


def _complete_leader(child):
    status = ask(child, do="status")
    return status["leader"] and status["complete"]


def _wait_for(holds, *, seconds):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
