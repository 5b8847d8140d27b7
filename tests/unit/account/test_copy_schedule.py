"""When the notebook is copied: in the background until somebody leaves, and at a stop as far as the time goes."""

import asyncio
import threading
import time
from contextlib import closing

import pytest

from mcp_notarium import logs
from mcp_notarium.account import copies
from mcp_notarium.account.copies import CopySchedule
from mcp_notarium.app import open_app
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import LockedError
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.integrity import PAGE_SIZE
from mcp_notarium.stores.local.kind import TABLES
from support.account import account, database_of, folder_of, open_cheaply
from support.local_notebook import OtherProcess, local
from support.log_events import capture

RAW = Secret("raw:" + "0a" * 32)
LONG = "x" * 3_000_000
"""A text of several steps."""


@pytest.fixture
def config(tmp_path):
    return account(tmp_path, db_key=RAW, **local())


@pytest.fixture
def opened(config):
    with closing(open_cheaply(config)) as opened:
        OtherProcess(Cache(opened.database)).put("n1", LONG)
        yield opened


def scheduled(opened):
    return CopySchedule(opened, TABLES, keep=3, log=logs.get("test"))


def in_folder(opened):
    folder = opened.anchor.folder
    return [path.name for path in folder.copies.iterdir()] if folder.copies.exists() else []


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stop_without_the_time_leaves_the_copy_to_the_next_start(opened, monkeypatch):
    with capture() as events:
        assert scheduled(opened).finish(0.0) is None
    assert [one["event"] for one in events] == ["cache.copy_left"]
    assert in_folder(opened) == []
    monkeypatch.setattr(copies, "FIRST_SECONDS", 0)
    following = scheduled(opened)
    thread = threading.Thread(target=following.work)
    thread.start()
    until(lambda: copies.list_copies(opened.anchor.folder))
    following.leave()
    thread.join(20)
    assert not thread.is_alive()
    assert len(in_folder(opened)) == 1


def test_a_copy_in_the_background_ends_within_a_step_when_the_server_leaves(opened, monkeypatch):
    monkeypatch.setattr(copies, "FIRST_SECONDS", 0)
    schedule = scheduled(opened)
    steps = []
    usual = schedule._yield_to_calls

    def leave_at_the_first_step():
        pause = usual()

        def step(copied, pages):
            steps.append((copied, pages))
            schedule.leave()
            pause(copied, pages)

        return step

    monkeypatch.setattr(schedule, "_yield_to_calls", leave_at_the_first_step)
    schedule.work()
    ((copied, pages),) = steps
    assert copied < pages
    assert in_folder(opened) == []


def test_a_server_copies_what_one_before_it_has_left(config, monkeypatch):
    with closing(open_cheaply(config)) as killed:
        OtherProcess(Cache(killed.database)).put("n1", "of a killed server")
    monkeypatch.setattr(copies, "FIRST_SECONDS", 0)

    async def scenario():
        async with open_app(config) as app:
            await asyncio.to_thread(until, lambda: copies.list_copies(folder_of(config)))
            await app.writer.save(note=None, content=Content("of this one"))

    asyncio.run(asyncio.wait_for(scenario(), 20))
    assert [one.change for one in copies.list_copies(folder_of(config))] == [2, 1]


@pytest.mark.parametrize("syncing", [True, False], ids=["in the background", "at the stop"])
def test_damage_that_a_copy_meets_is_known_to_the_server(config, monkeypatch, syncing):
    async def save():
        async with open_app(config) as app:
            await app.writer.save(note=None, content=Content(LONG))

    asyncio.run(save())
    (copy,) = copies.list_copies(folder_of(config))
    copy.path.unlink()
    with database_of(config).open("r+b") as file:
        file.seek(PAGE_SIZE * 300)
        file.write(b"spoilt!!")
    monkeypatch.setattr(copies, "FIRST_SECONDS", 0)
    met = asyncio.Queue()

    async def scenario():
        async with open_app(config, syncing=syncing, damaged=met.put_nowait) as app:
            if syncing:
                met.put_nowait(await met.get())
            assert app.cache.database.closed == syncing

    with pytest.raises(LockedError):
        asyncio.run(asyncio.wait_for(scenario(), 20))
    assert met.qsize() == 1
    assert folder_of(config).damage_marker.exists()
    assert not copies.list_copies(folder_of(config))
