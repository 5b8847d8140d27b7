"""The first load: newest notes at once, resumable anywhere, complete even if the store moves."""

import asyncio
import itertools
from contextlib import aclosing

import pytest

from mcp_notarium.errors import StoreProtocolError
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.contract import Entry, ListingPage
from mcp_notarium.sync import listing_pages
from mcp_notarium.sync.cycle_states import State
from support.memory_client import ROWS, Fault
from support.sync_rig import Crash, until


def fill(store, count):
    for number in range(count):
        store.put(f"n{number:04}", f"note {number}\n", now=float(number))


def requests(client):
    """Records limit and mark of every listing."""
    seen = []
    list_page = client.remote.list_page

    async def recording(*, since, mark, limit, with_content):
        seen.append((limit, mark is not None, with_content))
        return await list_page(since=since, mark=mark, limit=limit, with_content=with_content)

    client.remote.list_page = recording
    return seen


def test_an_empty_account_is_complete_after_one_page(client):
    assert asyncio.run(client.sync()) is State.IDLE
    status = client.scheduler.status()
    assert (status.complete, status.loaded, status.total) == (True, 0, 0)
    assert client.cache.sync_state.cursor() is not None


def test_a_load_that_is_complete_has_a_time_whatever_comes_after_it(client, store, time):
    fill(store, 3)
    client.faults.plan(Fault.UNAVAILABLE, on="changes", times=9)
    assert asyncio.run(client.sync()) is State.BACKING_OFF
    status = client.scheduler.status()
    assert (status.complete, status.last_sync_at) == (True, time.now)
    assert status.last_error


class OnProgress:
    """Takes down what is logged."""

    def __init__(self):
        self.facts = {}

    def info(self, event, /, **facts):
        self.facts[event] = facts

    warning = info


def test_notes_that_came_in_pages_are_not_said_to_be_asked_for_singly(client, store):
    fill(store, 300)
    log = client.scheduler._runner._log = OnProgress()
    asyncio.run(client.sync())
    facts = {"stored": 300, "removed": 0, "deferred": 0, "fetched": 0}
    assert log.facts["sync.cycle_done"] == facts


def test_the_first_page_is_small_and_the_others_are_large(client, store):
    fill(store, 2200)
    seen = requests(client)
    asyncio.run(client.sync())
    assert seen == [(100, False, True), (1000, True, True), (1000, True, True), (1000, True, True)]
    assert client.contents() == store.contents()


def test_the_newest_notes_are_there_after_the_first_page(client, store):
    fill(store, 150)
    client.faults.plan(Fault.UNAVAILABLE, on="changes", times=9)
    list_page = client.remote.list_page

    async def first_only(**listing):
        if listing["mark"] is not None:
            await asyncio.Event().wait()
        return await list_page(**listing)

    client.remote.list_page = first_only

    async def scenario():
        load = asyncio.create_task(client.sync())
        await until(lambda: client.scheduler.status().loaded)
        status = client.scheduler.status()
        load.cancel()
        await asyncio.wait({load})
        return status

    status = asyncio.run(scenario())
    assert set(client.contents()) == {f"n{number:04}" for number in range(50, 150)}
    assert (status.loaded, status.total, status.complete) == (100, 150, False)
    assert status.state is State.INDEXING


def test_the_next_page_is_asked_for_while_the_last_one_is_being_stored(client, store):
    fill(store, 2200)
    seen = requests(client)
    commit = client.scheduler._runner.applier.commit
    expected = iter([2, 3])

    async def waiting(batch, tally):
        asked = next(expected, 0)
        await until(lambda: len(seen) >= asked)
        await commit(batch, tally)

    client.scheduler._runner.applier.commit = waiting
    asyncio.run(client.sync())
    assert next(expected, None) is None


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_a_killed_load_resumes_where_it_was(clients, store, commits, monkeypatch):
    fill(store, 5200)
    client = clients()
    transaction = Cache.transaction
    begun = []

    def counted(cache, **options):
        begun.append(1)
        if len(begun) > commits:
            raise Crash
        return transaction(cache, **options)

    monkeypatch.setattr(Cache, "transaction", counted)

    async def killed():
        with pytest.raises(Crash):
            await client.sync()

    asyncio.run(killed())
    monkeypatch.undo()
    client.close()
    after = clients()
    seen = requests(after)
    assert (after.cache.sync_state.progress().anchor_cursor is not None) is (commits >= 1)
    asyncio.run(after.sync())
    assert seen[0] == (1000, True, True), "it begins at the mark, not at the first page"
    assert after.contents() == store.contents()
    assert after.scheduler.status().complete


@pytest.fixture
def read_slowly(client):
    """Reads a listing ahead of somebody who takes each page when no other can be got ready."""

    async def read(taken, **options):
        listed = listing_pages.Listing(**options)
        async with aclosing(listing_pages.read_ahead(client.remote, listed)) as all_pages:
            async for page in all_pages:
                taken.append(page)
                for _ in range(100):
                    await asyncio.sleep(0)

    return read


def test_pages_come_in_order_the_first_small(store, read_slowly):
    fill(store, 5200)
    taken = []
    asyncio.run(read_slowly(taken, first=listing_pages.FIRST_PAGE))
    assert [len(page.entries) for page in taken] == [100, 1000, 1000, 1000, 1000, 1000, 100]
    ids = [entry.id for page in taken for entry in page.entries]
    assert len(set(ids)) == 5200
    assert taken[-1].next_mark is None


@pytest.mark.parametrize("good", [1, 2, 3])
def test_a_page_that_fails_hides_none_that_came_before_it(client, store, read_slowly, good):
    fill(store, 4200)
    list_page, asked = client.remote.list_page, itertools.count(1)

    async def failing(**arguments):
        if next(asked) > good:
            raise StoreProtocolError("no more")
        return await list_page(**arguments)

    client.remote.list_page = failing
    taken = []
    with pytest.raises(StoreProtocolError, match="no more"):
        asyncio.run(read_slowly(taken))
    assert sum(len(page.entries) for page in taken) == good * listing_pages.PAGE


def test_notes_that_change_while_the_pages_are_read_are_not_missed(client, store):
    fill(store, 900)
    list_page = client.remote.list_page

    async def moving(**listing):
        page = await list_page(**listing)
        store.edit("n0000", lambda text: text + "changed\n")
        store.put(f"new {len(client.remote.calls)}", "new\n")
        if listing["mark"] is None:
            store.remove("n0001")
        return page

    client.remote.list_page = moving
    asyncio.run(client.sync())
    assert client.contents() == store.contents()
    assert client.scheduler.status().state is State.IDLE


def test_a_mark_the_store_has_forgotten_starts_the_listing_again(clients, store):
    fill(store, 700)
    client = clients()
    client.faults.plan(Fault.UNAVAILABLE, on="changes", times=9)
    list_page = client.remote.list_page

    async def second_page_fails(**listing):
        if listing["mark"] is not None:
            client.faults.plan(Fault.UNAVAILABLE, on="list_page")
        return await list_page(**listing)

    client.remote.list_page = second_page_fails
    assert asyncio.run(client.sync()) is State.BACKING_OFF
    store.remove("n0650")
    client.remote.list_page = list_page
    client.faults.clear()
    client.faults.plan(Fault.REJECTED, on="list_page")
    asyncio.run(client.run_cycles(2))
    assert client.contents() == store.contents()


def test_a_listing_that_repeats_itself_is_an_error_and_not_a_loop(client, store):
    fill(store, 300)
    list_page = client.remote.list_page

    async def repeating(**listing):
        page = await list_page(**listing | {"mark": None})
        return ListingPage(page.entries, page.cursor, "the same mark", page.total)

    client.remote.list_page = repeating
    assert asyncio.run(client.sync()) is State.BACKING_OFF
    assert "repeats itself" in client.scheduler.status().last_error
    assert len([call for call in client.remote.calls if call == "list_page"]) <= 4


@pytest.mark.parametrize(("each", "most"), [(0, 25), (100, 35)], ids=["empty", "full"])
def test_a_listing_without_end_is_given_up_after_a_bounded_number_of_pages(
    client, monkeypatch, each, most
):
    monkeypatch.setattr(listing_pages, "MOST_NOTES", 3000)
    pages = itertools.count()

    async def endless(**_listing):
        number = next(pages)
        entries = tuple(Entry(f"n{number}-{at}", "1", 1) for at in range(each))
        return ListingPage(entries, "c", f"mark {number}")

    async def read():
        async with aclosing(
            listing_pages.pages(client.remote, listing_pages.Listing())
        ) as all_pages:
            async for _page in all_pages:
                pass

    client.remote.list_page = endless
    with pytest.raises(StoreProtocolError, match="no end"):
        asyncio.run(read())
    assert next(pages) < most


def test_listings_without_content_are_filled_in_by_asking(client, store):
    fill(store, 30)
    client.faults.plan(Fault.WITHOUT_CONTENT, on="list_page")
    asyncio.run(client.sync())
    assert client.contents() == store.contents()
    assert client.remote.calls.count("get") == 30


def test_a_failure_in_the_middle_keeps_what_came_and_continues_later(client, store):
    fill(store, 2200)
    client.faults.plan(Fault.UNAVAILABLE, on="changes")
    list_page = client.remote.list_page
    pages = []

    async def third_fails(**listing):
        pages.append(listing_pages)
        if len(pages) == 3:
            client.faults.plan(Fault.TIMEOUT, on="list_page")
        return await list_page(**listing)

    client.remote.list_page = third_fails

    async def scenario():
        assert await client.sync() is State.BACKING_OFF
        assert len(client.contents()) == 1100
        assert client.scheduler.status().loaded == 1100
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert client.contents() == store.contents()
    assert pages[3] == pages[2]
    assert len(pages) == 5


@pytest.mark.parametrize("traits", ROWS.values(), ids=ROWS)
def test_notes_whose_ids_cannot_be_stored_come_and_go_and_are_counted(clients, store, traits):
    client = clients(traits=traits)
    store.put("plain", "kept\n")
    for note_id in ("half \ud83d", "x" * 1025, ""):
        store.put(note_id, "left out\n")
        assert asyncio.run(client.sync()) is State.IDLE
        assert client.cache.progress.left_out
        assert set(client.contents()) == {"plain"}
    store.remove("half \ud83d")
    for _ in range(2):
        assert asyncio.run(client.sync()) is State.IDLE
    assert set(client.contents()) == {"plain"}
