"""After the first load: the feed, polling without it, lost cursors, complete listings."""

import asyncio
import json
from dataclasses import replace

import pytest

from mcp_notarium.errors import OutcomeUnknown, StoreProtocolError
from mcp_notarium.storage.sync_progress import SWEEP_PERIOD, SWEEP_PERIOD_BLIND
from mcp_notarium.stores.contract import ChangePage, Changes, Entry
from mcp_notarium.sync import batch_reader
from mcp_notarium.sync.cycle_states import State
from mcp_notarium.sync.scheduler import FILE_RETRY
from support.memory_client import LIKE_MEMENTO, LIKE_SIMPERIUM, LIKE_VAULT, Fault
from support.sync_rig import in_step, running, until

POLLED = replace(LIKE_SIMPERIUM, changes=Changes.DELTA)
PROBED = replace(LIKE_SIMPERIUM, changes=Changes.SNAPSHOT, probe=True, long_poll=False)
LISTED = replace(LIKE_SIMPERIUM, changes=Changes.SNAPSHOT, long_poll=False)


@pytest.fixture
def loaded(client, store):
    """A client that has loaded twenty notes."""
    for number in range(20):
        store.put(f"n{number:02}", f"note {number}\n")
    asyncio.run(client.sync())
    client.remote.calls.clear()
    return client


def sync(client):
    return asyncio.run(client.sync())


def test_a_cycle_without_news_is_one_small_request_and_changes_nothing(loaded):
    before = loaded.rows()
    assert sync(loaded) is State.IDLE
    assert loaded.remote.calls == ["changes"]
    assert loaded.rows() == before


def test_changes_elsewhere_arrive_without_asking_for_each_note(loaded, store):
    store.edit("n03", lambda text: text + "more\n")
    store.put("new", "new\n")
    store.remove("n04")
    sync(loaded)
    assert loaded.contents() == store.contents()
    assert loaded.remote.calls == ["changes", "changes"]


def test_changes_without_content_are_asked_for(loaded, store):
    store.edit("n03", lambda text: text + "more\n")
    loaded.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
    sync(loaded)
    assert loaded.contents() == store.contents()
    assert loaded.remote.calls == ["changes", "get", "changes"]


def test_a_change_of_a_note_whose_write_is_unanswered_waits_for_the_write(loaded, store):
    async def scenario():
        note = loaded.note("n03")
        loaded.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await loaded.change(note, "mine\n" + note.text)
        store.edit("n03", lambda text: text + "theirs\n")
        loaded.faults.plan(Fault.NONSENSE, on="get")
        await loaded.sync()
        assert loaded.note("n03").text == "note 3\n"
        assert (*loaded.cache.progress.unresolved(),) == ("n03",)
        await loaded.sync()

    asyncio.run(scenario())
    assert store.text("n03") == "mine\nnote 3\ntheirs\n"
    assert loaded.contents() == store.contents()
    assert (*loaded.cache.progress.unresolved(),) == ()


def test_one_note_that_cannot_be_read_does_not_delay_the_others(loaded, store):
    for note_id in ("n03", "n04", "n05"):
        store.edit(note_id, lambda text: text + "more\n")
    loaded.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
    loaded.faults.plan(Fault.NONSENSE, on="get")
    assert sync(loaded) is State.IDLE
    different = {i for i in store.ids() if loaded.contents()[i] != store.contents()[i]}
    assert len(different) == 1
    assert (*loaded.cache.progress.unresolved(),) == tuple(different)
    sync(loaded)
    assert loaded.contents() == store.contents()
    assert (*loaded.cache.progress.unresolved(),) == ()


def test_a_note_that_reads_older_than_the_feed_said_is_read_again(loaded, store):
    store.edit("n03", lambda text: text + "more\n")
    loaded.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
    loaded.faults.plan(Fault.STALE, on="get")
    sync(loaded)
    assert (*loaded.cache.progress.unresolved(),) == ("n03",)
    sync(loaded)
    assert loaded.contents() == store.contents()
    assert (*loaded.cache.progress.unresolved(),) == ()


def test_a_removed_id_that_is_used_again_is_followed(loaded, store):
    store.remove("n03")
    store.put("n03", "made again\n")
    sync(loaded)
    assert loaded.contents() == store.contents()


def test_a_lost_cursor_is_replaced_by_comparing_everything(loaded, store):
    store.edit("n03", lambda text: text + "more\n")
    store.put("new", "new\n")
    store.remove("n04")
    store.forget_cursors()
    assert sync(loaded) is State.IDLE
    assert loaded.contents() == store.contents()
    assert loaded.remote.calls.count("list_page") == 1
    loaded.remote.calls.clear()
    sync(loaded)
    assert loaded.remote.calls == ["changes"]


def test_changes_made_while_a_sweep_reads_its_pages_are_not_missed(loaded, store):
    store.edit("n03", lambda text: text + "more\n")
    store.forget_cursors()
    list_page = loaded.remote.list_page

    async def moving(**listing):
        page = await list_page(**listing)
        store.edit("n05", lambda text: text + "meanwhile\n")
        store.put("meanwhile", "new\n")
        return page

    loaded.remote.list_page = moving
    sync(loaded)
    assert loaded.contents() == store.contents()


def test_a_note_missing_from_a_listing_but_not_from_the_store_stays(loaded, store):
    list_page = loaded.remote.list_page

    async def forgetful(**listing):
        page = await list_page(**listing)
        kept = tuple(entry for entry in page.entries if entry.id not in ("n03", "n04"))
        return type(page)(kept, page.cursor, page.next_mark, page.total)

    loaded.remote.list_page = forgetful
    store.edit("n09", lambda text: text + "more\n")
    store.forget_cursors()
    assert sync(loaded) is State.IDLE
    assert loaded.contents() == store.contents()


def test_a_sweep_that_does_not_read_every_page_removes_nothing(loaded, store):
    store.remove("n03")
    store.forget_cursors()
    list_page = loaded.remote.list_page

    async def broken_second_page(**listing):
        if listing["mark"] is None:
            return await list_page(**listing | {"limit": 5})
        loaded.faults.plan(Fault.UNAVAILABLE, on="list_page")
        return await list_page(**listing)

    loaded.remote.list_page = broken_second_page
    before = loaded.contents()
    assert sync(loaded) is State.BACKING_OFF
    assert loaded.contents() == before
    loaded.remote.list_page = list_page
    sync(loaded)
    assert loaded.contents() == store.contents()


def test_too_many_missing_notes_halt_the_cycle_and_nothing_is_removed(loaded, store):
    for number in range(11):
        store.remove(f"n{number:02}")
    store.edit("n15", lambda text: text + "more\n")
    store.forget_cursors()
    before = set(loaded.contents())
    assert sync(loaded) is State.HALTED
    assert set(loaded.contents()) == before
    assert loaded.note("n15").text == "note 15\nmore\n"
    status = loaded.scheduler.status()
    assert status.state is State.HALTED
    assert "disappeared" in status.last_error
    assert sync(loaded) is State.HALTED


def test_whole_listings_may_lack_any_number_of_notes_but_not_be_empty(clients, store):
    for number in range(40):
        store.put(f"n{number:02}", f"note {number}\n")
    client = clients(traits=LIKE_VAULT)
    sync(client)
    for number in range(28):
        store.remove(f"n{number:02}")
    assert sync(client) is State.IDLE
    assert client.contents() == store.contents()
    before = client.contents()
    for number in range(28, 40):
        store.remove(f"n{number:02}")
    assert sync(client) is State.HALTED
    assert client.contents() == before
    store.put("other", "a note of another branch\n")
    assert sync(client) is State.IDLE
    assert client.contents() == store.contents()


def test_a_note_that_a_whole_listing_lacks_is_asked_for_all_the_same(clients, store):
    for number in range(40):
        store.put(f"n{number:02}", f"note {number}\n")
    client = clients(traits=LIKE_VAULT)
    sync(client)
    list_page = client.remote.list_page

    async def lacking(**kind):
        page = await list_page(**kind)
        return replace(page, entries=tuple(e for e in page.entries if e.id >= "n30"))

    client.remote.list_page = lacking
    store.remove("n29")
    assert sync(client) is State.IDLE
    assert client.contents() == store.contents()


def test_many_notes_that_cannot_be_read_do_not_halt_and_are_not_removed(loaded, store):
    unreadable = {f"n{number:02}" for number in range(12)}
    list_page, get = loaded.remote.list_page, loaded.remote.get

    async def lacking(**kind):
        page = await list_page(**kind)
        return replace(page, entries=tuple(e for e in page.entries if e.id not in unreadable))

    async def unread(note_id):
        if note_id in unreadable:
            raise StoreProtocolError("not a note")
        return await get(note_id)

    loaded.remote.list_page, loaded.remote.get = lacking, unread
    store.remove("n12")
    store.edit("n15", lambda text: text + "more\n")
    store.forget_cursors()
    before = set(loaded.contents())
    assert sync(loaded) is State.IDLE
    assert set(loaded.contents()) == before - {"n12"}
    assert loaded.note("n15").text == "note 15\nmore\n"
    for note_id in unreadable:
        store.remove(note_id)
    loaded.remote.get = get
    loaded.time.now += 4000
    store.forget_cursors()
    assert sync(loaded) is State.HALTED, "now the store says that they are gone"
    assert set(loaded.contents()) == before - {"n12"}


def test_no_more_is_asked_once_too_many_are_gone(loaded, store):
    asked = []
    get = loaded.remote.get

    async def counted(note_id):
        asked.append(note_id)
        return await get(note_id)

    loaded.remote.get = counted
    for number in range(12):
        store.remove(f"n{number:02}")
    store.forget_cursors()
    assert sync(loaded) is State.HALTED
    assert 11 <= len(asked) <= 12


def test_an_account_that_suddenly_looks_empty_halts_the_cycle(loaded, store):
    store.forget_cursors()
    loaded.faults.plan(Fault.CURSOR_LOST, on="changes")
    loaded.faults.plan(Fault.VANISHED, on="list_page")
    loaded.faults.plan(Fault.VANISHED, on="get", times=99)
    assert sync(loaded) is State.HALTED
    assert loaded.contents() == store.contents()
    loaded.faults.clear()
    assert sync(loaded) is State.IDLE


def test_a_feed_that_removes_most_of_the_notes_halts_the_cycle(loaded, store):
    for number in range(12):
        store.remove(f"n{number:02}")
    cursor = loaded.cache.sync_state.cursor()
    assert sync(loaded) is State.HALTED
    assert len(loaded.contents()) == 20
    assert loaded.cache.sync_state.cursor() == cursor


def test_emptying_the_trash_elsewhere_goes_through(client, store):
    for number in range(40):
        store.put(f"n{number:02}", "x\n", trash=number < 30)

    async def scenario():
        await client.sync()
        for number in range(30):
            store.remove(f"n{number:02}")
        assert await client.sync() is State.IDLE

    asyncio.run(scenario())
    assert client.contents() == store.contents()


def test_a_sweep_is_made_every_day_even_if_the_feed_works(loaded, time):
    sync(loaded)
    assert "list_page" not in loaded.remote.calls
    time.now += SWEEP_PERIOD + 1
    sync(loaded)
    assert loaded.remote.calls.count("list_page") == 1
    sync(loaded)
    assert loaded.remote.calls.count("list_page") == 1


def test_many_missed_changes_are_listed_instead_of_asked_for_one_by_one(client, store):
    async def scenario():
        for number in range(400):
            store.put(f"n{number:03}", "x\n")
        await client.sync()
        for number in range(350):
            store.edit(f"n{number:03}", lambda text: text + "more\n")
        store.forget_cursors()
        client.faults.plan(Fault.CURSOR_LOST, on="changes")
        client.remote.calls.clear()
        await client.sync()

    asyncio.run(scenario())
    assert client.contents() == store.contents()
    assert client.remote.calls.count("get") == 0


def test_a_feed_that_fails_once_is_tried_again_and_twice_is_replaced_by_polling(loaded, store):
    store.edit("n03", lambda text: text + "more\n")
    loaded.faults.plan(Fault.NONSENSE, on="changes", times=2)
    assert sync(loaded) is State.BACKING_OFF
    assert loaded.note("n03").text == "note 3\n"
    assert sync(loaded) is State.IDLE
    assert loaded.contents() == store.contents()
    assert loaded.scheduler.feed_usable is False
    assert loaded.remote.calls == ["changes", "changes", "list_page"]


def test_a_feed_that_comes_back_tells_what_polling_could_not_see(loaded, store, time):
    loaded.faults.plan(Fault.NONSENSE, on="changes", times=2)
    sync(loaded)
    store.remove("n03")
    store.edit("n04", lambda text: text + "more\n")
    sync(loaded)
    assert "n03" in loaded.contents()
    loaded.remote.calls.clear()
    sync(loaded)
    assert loaded.remote.calls == ["list_page"]  # of what is new since the last one
    time.now += 400
    loaded.remote.calls.clear()
    assert sync(loaded) is State.IDLE
    assert loaded.contents() == store.contents()
    assert loaded.scheduler.feed_usable is True
    assert loaded.remote.calls == ["changes", "changes"]


def test_a_store_that_is_down_altogether_does_not_cost_the_feed(loaded, store):
    loaded.faults.plan(Fault.UNAVAILABLE, times=6)

    async def scenario():
        for _ in range(3):
            assert await loaded.sync() is State.BACKING_OFF
        loaded.faults.clear()
        store.edit("n03", lambda text: text + "more\n")
        loaded.remote.calls.clear()
        assert await loaded.sync() is State.IDLE

    asyncio.run(scenario())
    assert loaded.remote.calls == ["changes", "changes"]


def test_without_a_feed_changes_are_polled_and_removals_found_every_hour(clients, store, time):
    client = clients(traits=POLLED)
    for number in range(5):
        store.put(f"n{number}", "x\n")

    async def scenario():
        await client.sync()
        store.edit("n1", lambda text: text + "more\n")
        store.remove("n2")
        client.remote.calls.clear()
        await client.sync()
        assert client.remote.calls == ["list_page"]
        assert client.note("n1").text == "x\nmore\n"
        assert client.cache.notes.get("n2") is not None
        client.remote.calls.clear()
        await client.sync()
        assert client.remote.calls == ["list_page"]
        time.now += SWEEP_PERIOD_BLIND + 1
        await client.sync()

    asyncio.run(scenario())
    assert client.contents() == store.contents()


def test_an_index_that_lags_behind_our_own_save_does_not_take_it_back(clients, store):
    client = clients(traits=POLLED)
    store.put("n", "one\n")

    async def scenario():
        await client.sync()
        store.put("other", "x\n")
        await client.change(client.note("n"), "one\ntwo\n")
        client.faults.plan(Fault.STALE, on="list_page")
        await client.sync()
        assert client.note("n").text == "one\ntwo\n"

    asyncio.run(scenario())


def test_a_store_that_can_only_list_is_compared_in_every_cycle(clients, store):
    client = clients(traits=LISTED)
    for number in range(5):
        store.put(f"n{number}", "x\n")

    async def scenario():
        await client.sync()
        store.edit("n1", lambda text: text + "more\n")
        store.remove("n2")
        await client.sync()

    asyncio.run(scenario())
    assert client.contents() == store.contents()


def test_a_login_that_is_refused_stops_sync_and_keeps_everything(loaded, store):
    before = loaded.contents()
    loaded.faults.plan(Fault.LOGIN)
    assert sync(loaded) is State.NEEDS_AUTH
    assert loaded.scheduler.status().needs_login
    assert loaded.contents() == before
    assert sync(loaded) is State.IDLE
    assert not loaded.scheduler.status().needs_login


def test_metrics_say_how_the_last_cycles_went(loaded, time):
    loaded.faults.plan(Fault.UNAVAILABLE, times=2)
    good = loaded.cache.sync_state.metrics()
    time.now += 10
    sync(loaded)
    bad = loaded.cache.sync_state.metrics()
    assert (bad.status, bad.error_count, bad.last_sync_at) == ("backing_off", 1, good.last_sync_at)
    assert bad.last_error
    loaded.faults.clear()
    sync(loaded)
    again = loaded.cache.sync_state.metrics()
    assert (again.status, again.error_count, again.last_error) == ("idle", 0, None)
    assert again.last_sync_at == time.now


def test_an_answer_that_makes_no_sense_at_all_does_not_end_sync(loaded, store):
    changes = loaded.remote.changes

    async def broken(*_args, **_options):
        raise KeyError("a defect")

    loaded.remote.changes = broken
    assert sync(loaded) is State.BACKING_OFF
    assert "KeyError" in loaded.scheduler.status().last_error
    assert "a defect" not in loaded.scheduler.status().last_error
    loaded.remote.changes = changes
    assert sync(loaded) is State.IDLE


def test_a_feed_that_never_moves_its_cursor_does_not_loop(loaded):
    cursor = loaded.cache.sync_state.cursor()

    async def stuck(*_args, **_options):
        loaded.remote.calls.append("changes")
        return ChangePage((Entry("n03", "r9", 9),), cursor)

    loaded.remote.changes = stuck
    assert sync(loaded) is State.IDLE
    assert loaded.remote.calls.count("changes") == 1


def test_unresolved_notes_are_kept_as_ids_and_versions_and_nothing_else(loaded, store):
    store.edit("n03", lambda text: text + "more\n")
    loaded.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
    loaded.faults.plan(Fault.NONSENSE, on="get")
    sync(loaded)
    assert json.loads(loaded.cache.sync_state.get("sync.unresolved")) == {"n03": 2}


@pytest.fixture
def probed(clients, store):
    """A client that has loaded three notes of a store which tells whether anything has changed."""
    for number in range(3):
        store.put(f"n{number}", f"note {number}\n")
    client = clients(traits=PROBED)
    asyncio.run(client.sync())
    client.remote.calls.clear()
    return client


def test_a_store_that_says_that_nothing_has_changed_is_not_listed(probed, store):
    before = probed.rows()
    assert sync(probed) is State.IDLE
    assert (probed.remote.calls, probed.rows()) == (["changes"], before)
    store.edit("n1", lambda text: text + "more\n")
    store.remove("n2")
    probed.remote.calls.clear()
    assert sync(probed) is State.IDLE
    assert probed.contents() == store.contents()
    assert probed.remote.calls == ["changes", "list_page", "get", "get"]
    probed.remote.calls.clear()
    sync(probed)
    assert probed.remote.calls == ["changes"]


def test_a_store_that_is_wrong_about_its_changes_is_listed_within_the_hour(probed, store):
    store.edit("n1", lambda text: text + "more\n")
    for seconds, seen in ((0, False), (SWEEP_PERIOD_BLIND + 1, True)):
        probed.time.now += seconds
        probed.faults.plan(Fault.STALE, on="changes")
        assert sync(probed) is State.IDLE
        assert (probed.contents() == store.contents()) is seen


def test_a_store_that_changes_during_each_listing_is_followed_cycle_by_cycle(probed, store):
    list_page = probed.remote.list_page

    async def busy(**asked):
        page = await list_page(**asked)
        store.edit("n1", lambda text: text + "more\n")
        return page

    probed.remote.list_page = busy
    store.edit("n1", lambda text: text + "more\n")
    for _ in range(3):
        probed.remote.calls.clear()
        assert sync(probed) is State.IDLE
        assert probed.remote.calls.count("list_page") == 1
    probed.remote.list_page = list_page
    sync(probed)
    assert probed.contents() == store.contents()


def test_a_store_that_cannot_be_asked_for_changes_is_listed(probed, store):
    store.edit("n1", lambda text: text + "more\n")
    probed.faults.plan(Fault.TIMEOUT, on="changes", times=2)
    assert sync(probed) is State.BACKING_OFF
    assert sync(probed) is State.IDLE
    assert probed.contents() == store.contents()


def test_a_store_without_a_feed_that_reports_that_something_changed_is_listed_at_once(
    clients, store
):
    store.put("n1", "text\n")

    async def scenario():
        client = clients(traits=LIKE_VAULT)
        async with running(client):
            await until(in_step(store, client))
            now = client.time.now
            store.edit("n1", lambda text: text + "more\n")
            await until(in_step(store, client))
            assert client.scheduler.feed_usable
            assert client.time.now - now < 60

    asyncio.run(scenario())


@pytest.mark.parametrize("times", [1, 12])
def test_a_store_of_files_that_fails_is_soon_followed_again(clients, store, times):
    store.put("n1", "text\n")

    async def scenario():
        client = clients(traits=LIKE_VAULT)
        async with running(client):
            await until(in_step(store, client))
            client.faults.plan(Fault.TIMEOUT, on="changes", times=times)
            client.faults.plan(Fault.TIMEOUT, on="list_page", times=max(1, times - 1))
            now = client.time.now
            for text in ("more\n", "again\n"):
                store.edit("n1", lambda held, text=text: held + text)
                await until(in_step(store, client))
            assert client.time.now - now < times * FILE_RETRY
            assert client.faults.planned == []

    asyncio.run(scenario())


@pytest.fixture
def snapshot(clients, store, monkeypatch):
    """A client of a store whose etags have no order; many changes are five, and all notes have changed."""
    monkeypatch.setattr(batch_reader, "RELIST", 5)
    for number in range(6):
        store.put(f"n{number}", f"note {number}\n")
    client = clients(traits=LIKE_MEMENTO)
    asyncio.run(client.sync())
    for number in range(6):
        store.edit(f"n{number}", lambda text: text + "more\n")
    client.remote.calls.clear()
    return client


def test_many_changed_notes_are_listed_and_not_fetched_one_by_one(snapshot, store):
    assert sync(snapshot) is State.IDLE
    assert snapshot.contents() == store.contents()
    assert snapshot.remote.calls == ["changes", "list_page", "list_page"]


def test_a_note_that_is_saved_while_many_are_listed_is_asked_for(snapshot, store):
    list_page = snapshot.remote.list_page

    async def saving(**asked):
        page = await list_page(**asked)
        if asked["with_content"]:
            snapshot.remote.list_page = list_page
            await snapshot.change(snapshot.note("n3"), "first\nnote 3\n")
            snapshot.remote.calls.clear()
        return page

    snapshot.remote.list_page = saving
    sync(snapshot)
    assert snapshot.remote.calls == ["get"]
    assert snapshot.contents() == store.contents()
    assert store.text("n3") == "first\nnote 3\nmore\n"
