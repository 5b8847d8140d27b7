"""Stores that overwrite: every text that a write has displaced, or that displaced it, is in somebody's hands.

What a save answers is true also where the store does not take what keeps both texts.
"""

import asyncio
import json
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict

import pytest

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content, WriteState
from mcp_notarium.errors import (
    CacheBusy,
    CacheFull,
    IdTaken,
    LoginRequired,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    StoreRejected,
    StoreUnavailable,
)
from mcp_notarium.files.locks import Leader
from mcp_notarium.stores.contract import Acknowledgement, PushStatus, Retry
from mcp_notarium.sync.link_writes import CardMove
from support.memory_client import (
    LIKE_EVENTS,
    LIKE_EXAMPLE,
    LIKE_SIMPERIUM,
    LIKE_TRILIUM,
    LIKE_VAULT,
    ROWS,
    Fault,
)
from support.sync_rig import LEASE, running, until

BASE = "Title\none\ntwo\nthree\n"
OURS = "Title\none\nTWO, I say\nthree\n"
THEIRS = "Title\none\nTWO, they say\nthree\n"
overwriting = pytest.mark.parametrize(
    "traits",
    [LIKE_TRILIUM, LIKE_VAULT, LIKE_EXAMPLE, LIKE_EVENTS],
    ids=["trilium", "vault", "example", "events"],
)


def texts(store):
    return sorted(content.text for content in store.contents().values())


def rejected(client):
    writes = client.cache.journal.all()
    assert all(write.state is WriteState.REJECTED for write in writes)
    return [write.content.text for write in writes]


async def open_note(client, store):
    store.put("n1", BASE, now=5.0)
    await client.sync()
    return client.note("n1")


def refuse(client, unwanted):
    """Let the store refuse for good every text of which ``unwanted`` is true."""
    push = client.remote.push

    async def refusing(write):
        if unwanted(write.content.text):
            raise StoreRejected("the note is too large")
        return await push(write)

    client.remote.push = refusing


def save(client, store, text, fault, theirs):
    """Save while another device writes ``theirs``; return the answer, or the error that says what became of it."""

    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(fault, on="push", edit=lambda _: theirs)
        try:
            return await client.change(note, text)
        except (StoreRejected, OutcomeUnknown) as error:
            return error
        finally:
            client.faults.clear()

    answer = asyncio.run(scenario())
    assert client.contents() == store.contents()
    return answer


@overwriting
@pytest.mark.parametrize("fault", [Fault.RACE, Fault.OVERWRITE])
def test_a_copy_that_the_store_refuses_is_not_named_and_the_text_is_kept_as_rejected(
    clients, store, traits, fault
):
    client = clients(traits=traits)
    refuse(client, lambda text: text.startswith(MARK))
    answer = save(client, store, OURS, fault, THEIRS)
    assert isinstance(answer, StoreRejected)
    assert "rejected write" in answer.message
    assert texts(store) == [THEIRS]
    assert rejected(client) == [MARK + OURS]


@pytest.mark.parametrize("traits", [LIKE_TRILIUM, LIKE_SIMPERIUM], ids=["trilium", "simplenote"])
def test_a_copy_that_cannot_be_made_leaves_the_text_and_does_not_say_that_nothing_was_saved(
    clients, store, traits
):
    client = clients(traits=traits)
    compose = client.remote.compose

    def refusing(base, content, *, now):
        if content.text.startswith(MARK):
            raise StoreRejected("no such text can be stored")
        return compose(base, content, now=now)

    client.remote.compose = refusing
    ours, theirs = "Title\none\nTWO\nthree\n", "Title\none\nquite another\nthree\n"

    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: theirs)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, ours)
        await client.run_cycles()

    asyncio.run(scenario())
    assert ours in [*texts(store), *rejected(client)]
    assert client.contents() == store.contents()


def test_a_copy_that_a_merging_store_refuses_is_not_named_either(clients, store):
    client = clients(traits=LIKE_SIMPERIUM)
    refuse(client, lambda text: text.startswith(MARK))
    answer = save(client, store, "hello\n", Fault.RACE, "hello brave world\n")
    assert isinstance(answer, StoreRejected)
    assert rejected(client) == [f"{MARK}hello\n"]


@overwriting
def test_a_merge_that_the_store_refuses_is_not_said_to_be_made(clients, store, traits):
    client, ours = clients(traits=traits), f"zero\n{BASE}"
    refuse(client, lambda text: "zero" in text and "four" in text)
    answer = save(client, store, ours, Fault.RACE, f"{BASE}four\n")
    assert (answer.note.text, answer.merged, answer.copy_id) == (ours, False, None)
    assert texts(store) == [ours]
    assert rejected(client) == [f"zero\n{BASE}four\n"]


@overwriting
def test_a_merge_that_is_refused_after_our_text_was_overwritten_is_no_success(
    clients, store, traits
):
    client = clients(traits=traits)
    refuse(client, lambda text: "zero" in text and "four" in text)
    answer = save(client, store, f"zero\n{BASE}", Fault.OVERWRITE, f"{BASE}four\n")
    assert isinstance(answer, StoreRejected)
    assert texts(store) == [f"{BASE}four\n"]
    assert rejected(client) == [f"zero\n{BASE}four\n"]


def test_a_repair_that_a_merging_store_refuses_is_no_success(clients, store):
    client = clients(traits=LIKE_SIMPERIUM)

    async def merges_badly(write):
        refuse(client, lambda _: True)
        store.put("n1", f"zero\n{BASE}")
        before = (await client.remote.get("n1")).etag
        store.put("n1", "zero\na mixture\n")
        return Acknowledgement(await client.remote.get("n1"), PushStatus.STORED, before)

    async def scenario():
        note = await open_note(client, store)
        client.remote.push = merges_badly
        with pytest.raises(StoreRejected, match="rejected write"):
            await client.change(note, f"{BASE}four\n")

    asyncio.run(scenario())
    assert texts(store) == ["zero\na mixture\n"]
    assert client.contents() == store.contents()
    assert rejected(client) == [f"zero\n{BASE}four\n"]


@pytest.mark.parametrize("theirs", [f"{BASE}four\n", THEIRS], ids=["beside", "same line"])
@overwriting
def test_what_was_displaced_is_in_a_note_although_the_disk_refused_the_answer(
    clients, store, monkeypatch, traits, theirs
):
    """The process knows it until it is recorded, also if the disk refuses that twice."""
    client, refused = clients(traits=traits), []

    def full(**_how):
        refused.append(None)
        raise CacheFull("no space")

    async def scenario():
        note, push = await open_note(client, store), client.remote.push

        async def then_full(write):
            answer = await push(write)
            monkeypatch.setattr(client.cache, "transaction", full)
            return answer

        client.remote.push = then_full
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: theirs)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, OURS)
        client.faults.clear()
        with suppress(CacheFull):
            await client.writer.replay.finish_all()
        monkeypatch.undo()
        client.remote.push = push
        client.time.now += 1000
        await client.run_cycles()

    asyncio.run(scenario())
    assert len(refused) > 1
    new = {*OURS.splitlines(), *theirs.splitlines()} - {*BASE.splitlines()}
    assert new <= {line for text in texts(store) for line in text.splitlines()}
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


@overwriting
def test_what_a_server_that_does_not_lead_has_displaced_is_in_a_note_once_the_disk_takes_it(
    clients, store, monkeypatch, traits
):
    """The leader would finish the write later, and does not know what lay under it."""
    leader, client = clients(traits=traits), clients(traits=traits)

    def full(**_how):
        raise CacheFull("no space")

    async def scenario():
        note, push = await open_note(client, store), client.remote.push

        async def then_full(write):
            answer = await push(write)
            monkeypatch.setattr(client.cache, "transaction", full)
            return answer

        client.remote.push = then_full
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, OURS)
        client.faults.clear()
        client.remote.push = push
        running = asyncio.create_task(client.scheduler.run())
        await asyncio.sleep(0.05)
        monkeypatch.undo()
        client.time.now += LEASE + 1
        await until(lambda: not client.cache.journal.in_flight())
        assert not client.scheduler.leads
        running.cancel()
        await asyncio.wait({running})
        await leader.run_cycles()

    leading = Leader(client.folder / "sync.lock")
    assert leading.acquire()
    asyncio.run(scenario())
    leading.release()
    new = {*OURS.splitlines(), *THEIRS.splitlines()} - {*BASE.splitlines()}
    assert new <= {line for text in texts(store) for line in text.splitlines()}
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("seconds", [8, 65, 150])
def test_a_server_that_does_not_lead_tries_again_while_its_lease_holds(
    clients, store, monkeypatch, seconds
):
    """It pauses longer after each failure otherwise, and others take what they cannot know."""
    client, other = clients(traits=LIKE_TRILIUM), clients(traits=LIKE_TRILIUM)
    finish = client.writer._journal.finish

    def full(*_given, **_how):
        raise CacheFull("no space")

    async def scenario():
        note, journal = await open_note(client, store), client.writer._journal
        monkeypatch.setattr(journal, "finish", full)
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, OURS)
        client.faults.clear()
        for _ in range(seconds):
            client.time.now += 1.0
            await client.writer.replay.finish_own()
            assert await other.writer.replay.finish_all() == {None: 1}
        monkeypatch.setattr(journal, "finish", finish)
        await client.writer.replay.finish_own()
        await client.run_cycles()

    asyncio.run(scenario())
    new = {*OURS.splitlines(), *THEIRS.splitlines()} - {*BASE.splitlines()}
    assert new <= {line for text in texts(store) for line in text.splitlines()}
    assert client.cache.journal.all() == []


@pytest.mark.parametrize(
    "error",
    [
        LoginRequired("not logged in"),
        StoreUnavailable("away"),
        RateLimited("slow down", retry_after=300.0),
    ],
    ids=["login", "away", "patience"],
)
def test_a_server_that_leads_tries_again_while_it_rests(clients, store, time, monkeypatch, error):
    """It rests for minutes, and the lease ends before."""
    client, other = clients(traits=LIKE_TRILIUM), clients(traits=LIKE_TRILIUM)
    saved_at, start = [], time.now

    def full(*_given, **_how):
        raise CacheFull("no space")

    async def save(note):
        with monkeypatch.context() as disk:
            disk.setattr(client.writer._journal, "finish", full)
            client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
            with pytest.raises(OutcomeUnknown):
                await client.change(note, OURS)
        saved_at.append(time.now)

    async def scenario():
        note = await open_note(client, store)

        async def refused(*_given, **_how):
            if time.now > start + 400 and not saved_at:
                await save(note)
            raise error

        async def sleep(seconds):
            until_then = time.now + seconds
            while time.now < until_then:
                await time.sleep(min(1.0, until_then - time.now))

        for name in ("changes", "list_page"):
            monkeypatch.setattr(client.remote, name, refused)
        client.scheduler._sleep = sleep
        async with running(client):
            await until(lambda: saved_at and time.now > saved_at[0] + LEASE)
        await other.writer.replay.finish_all()
        monkeypatch.undo()
        await other.run_cycles()

    asyncio.run(scenario())
    new = {*OURS.splitlines(), *THEIRS.splitlines()} - {*BASE.splitlines()}
    assert new <= {line for text in texts(store) for line in text.splitlines()}
    assert client.cache.journal.all() == []


def test_a_server_that_leads_runs_no_cycles_for_an_answer_that_the_disk_refuses(
    clients, store, time, monkeypatch
):
    client = clients(traits=LIKE_TRILIUM)

    def full(*_given, **_how):
        raise CacheFull("no space")

    async def scenario():
        note, start = await open_note(client, store), time.now
        monkeypatch.setattr(client.writer._journal, "finish", full)
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, OURS)
        client.faults.clear()
        async with running(client):
            await until(lambda: time.now > start + 100)

    asyncio.run(scenario())
    assert client.remote.calls.count("changes") < 10


@pytest.mark.parametrize("waits", ["text", "cards"])
def test_a_server_that_does_not_lead_answers_while_another_program_keeps_the_index_locked(
    clients, store, monkeypatch, waits
):
    """A statement that waits for the lock lets nothing else run for five seconds."""
    client = clients(traits=LIKE_TRILIUM)
    journal, state, ticks = client.writer._journal, client.cache.sync_state, []

    def full(*_given, **_how):
        raise CacheFull("no space")

    async def sleep(seconds):
        ticks.append(seconds)
        await client.time.sleep(seconds)

    async def scenario():
        note = await open_note(client, store)
        if waits == "cards":
            move = CardMove(["old.md"], "new.md", {"b.canvas": []}, journal.owner)
            state.add_card_move("key", json.dumps(asdict(move)))
        else:
            with monkeypatch.context() as disk:
                disk.setattr(journal, "finish", full)
                client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
                with pytest.raises(OutcomeUnknown):
                    await client.change(note, OURS)
        client.scheduler._sleep = sleep
        with closing(client.cache.database.open_another()) as another:
            another.run("BEGIN IMMEDIATE")
            async with running(client):
                await until(lambda: len(ticks) > 20, seconds=4)
                another.run("ROLLBACK")
                await until(lambda: not client.writer._attempt.unstored and not owned(state))

    def owned(state):
        return [said for _, said in state.card_moves() if json.loads(said)["owner"]]

    leading = Leader(client.folder / "sync.lock")
    assert leading.acquire()
    asyncio.run(scenario())
    leading.release()


def test_what_another_server_has_finished_is_not_kept_in_memory(clients, store, monkeypatch):
    client = clients(traits=LIKE_TRILIUM)

    def full(*_given, **_how):
        raise CacheFull("no space")

    async def scenario():
        note = await open_note(client, store)
        with monkeypatch.context() as disk:
            disk.setattr(client.writer._journal, "finish", full)
            client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
            with pytest.raises(OutcomeUnknown):
                await client.change(note, OURS)
        client.faults.clear()
        unstored = client.writer._attempt.unstored
        (write,) = client.cache.journal.in_flight()
        assert [*unstored] == [write.write_id]
        client.cache.journal.drop(write.write_id)  # as another process does it
        await client.writer.replay.finish_own()
        assert not unstored

    asyncio.run(scenario())


@pytest.mark.parametrize("finds", ["cycle", "save"])
@overwriting
def test_a_copy_on_its_way_that_somebody_overwrites_is_not_made_twice(
    clients, store, traits, finds
):
    """The cycle, or a save of the copy, meets the entry while the task that made it is still pushing it."""
    client = clients(traits=traits)
    push = client.remote.push

    async def overwritten(write):
        answer = await push(write)
        if write.content.text.startswith(MARK):
            client.remote.push = push
            store.put(write.note_id, "quite another\n")
            if finds == "cycle":
                await client.sync()
            else:
                with suppress(CacheBusy):
                    async with client.writer.locks.lock(write.note_id) as lock:
                        await client.writer.replay.finish_of(write.note_id, lock)
        return answer

    async def scenario():
        note = await open_note(client, store)
        client.remote.push = overwritten
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
        with suppress(OutcomeUnknown):
            await client.change(note, OURS)
        client.faults.clear()
        await client.run_cycles()

    asyncio.run(scenario())
    assert len(texts(store)) == 2
    assert "quite another\n" in texts(store)
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("error", [ValueError, StoreUnavailable])
def test_a_server_goes_on_to_wait_for_the_lead_whatever_it_cannot_finish(
    clients, store, monkeypatch, error
):
    client = clients(traits=LIKE_TRILIUM)
    tried = []

    async def fails():
        tried.append(None)
        raise error("not now")

    async def scenario():
        monkeypatch.setattr(client.writer.replay, "finish_own", fails)
        running = asyncio.create_task(client.scheduler.run())
        await until(lambda: len(tried) > 2)
        leading.release()
        await until(lambda: client.scheduler.leads)
        running.cancel()
        await asyncio.wait({running})

    leading = Leader(client.folder / "sync.lock")
    assert leading.acquire()
    asyncio.run(scenario())


@overwriting
def test_a_repeated_write_is_left_to_the_server_that_alone_knows_what_it_has_displaced(
    clients, store, monkeypatch, traits
):
    client, other = clients(traits=traits), clients(traits=traits)

    def full(**_how):
        raise CacheFull("no space")

    async def scenario():
        note, push = await open_note(client, store), client.remote.push

        async def then_full(write):
            answer = await push(write)
            monkeypatch.setattr(client.cache, "transaction", full)
            return answer

        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, OURS)
        client.remote.push = then_full
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: THEIRS)
        assert await client.writer.replay.finish_all() == {None: 1}
        monkeypatch.undo()
        client.faults.clear()
        client.remote.push = push
        assert await other.writer.replay.finish_all() == {None: 1}
        await client.writer.replay.finish_own()
        await client.run_cycles()

    asyncio.run(scenario())
    new = {*OURS.splitlines(), *THEIRS.splitlines()} - {*BASE.splitlines()}
    assert new <= {line for text in texts(store) for line in text.splitlines()}
    assert client.cache.journal.all() == []


@pytest.mark.parametrize("why", [StoreUnavailable, IdTaken])
@overwriting
def test_a_merge_that_waits_is_not_said_to_be_made_and_is_made_by_the_next_cycle(
    clients, store, traits, why
):
    client, ours = clients(traits=traits), f"zero\n{BASE}"
    push, pushed = client.remote.push, []

    async def once_not(write):
        pushed.append(write)
        if len(pushed) == 2:  # the merge
            raise why("not now")
        return await push(write)

    client.remote.push = once_not

    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: f"{BASE}four\n")
        saved = await client.change(note, ours)
        assert (saved.note.text, saved.merged) == (ours, False)
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert texts(store) == [f"zero\n{BASE}four\n"]
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def displace_and_remove(client, store):
    """Let another device write ``THEIRS`` before our push arrives and remove the note after it."""
    push = client.remote.push

    async def overtaken(write):
        if write.base_etag is not None:
            client.remote.push = push
            store.edit(write.note_id, lambda _: THEIRS)
            answer = await push(write)
            store.remove(write.note_id)
            return answer
        return await push(write)

    client.remote.push = overtaken


@overwriting
def test_what_a_write_displaced_becomes_a_copy_if_the_note_is_removed_before_it_is_read_again(
    clients, store, traits
):
    client = clients(traits=traits)

    async def scenario():
        note = await open_note(client, store)
        displace_and_remove(client, store)
        named = traits.ids.named  # it may have been renamed: our text is kept until a listing tells
        with nullcontext() if named else pytest.raises(NoteNotFound):
            await client.change(note, OURS)
        await client.run_cycles(3)
        return [MARK + OURS] if named else []

    ours = asyncio.run(scenario())
    assert texts(store) == sorted([MARK + THEIRS, *ours])
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


@overwriting
def test_what_a_write_displaced_becomes_a_copy_if_another_process_has_finished_the_write(
    clients, store, time, traits
):
    first, second = clients(traits=traits), clients(traits=traits)

    async def scenario():
        note = await open_note(first, store)
        push = first.remote.push

        async def slow(write):
            first.remote.push = push
            store.edit("n1", lambda _: THEIRS)
            answer = await push(write)
            time.now += LEASE + 1
            await second.sync()
            assert second.cache.journal.all() == []
            return answer

        first.remote.push = slow
        saved = await first.change(note, OURS)
        assert saved.note.text == OURS

    asyncio.run(scenario())
    assert texts(store) == sorted([MARK + THEIRS, OURS])
    assert first.contents() == store.contents()
    assert first.cache.journal.all() == []


@overwriting
def test_what_two_processes_have_displaced_becomes_one_copy(clients, store, time, traits):
    """An editor saves its text again, over what came after it."""
    first, second = clients(traits=traits), clients(traits=traits)
    pushes = [first.remote.push, second.remote.push]

    async def slow(write):
        first.remote.push = pushes[0]
        time.now += LEASE + 1
        await second.sync()
        assert [entry.copied for entry in second.cache.journal.all()] == [True, True]
        store.edit("n1", lambda _: THEIRS)
        return await first.remote.push(write)

    async def between_others(write):
        second.remote.push = pushes[1]
        store.edit("n1", lambda _: THEIRS)
        second.faults.plan(Fault.OVERWRITE, on="push", edit=lambda _: "Title\nquite another\n")
        second.faults.plan(Fault.UNAVAILABLE, on="push", times=2)  # the copies of both
        return await second.remote.push(write)

    async def scenario():
        note = await open_note(first, store)
        first.remote.push, second.remote.push = slow, between_others
        with pytest.raises(OutcomeUnknown, match="another process"):
            await first.change(note, OURS)
        time.now += LEASE + 1
        await second.run_cycles()

    asyncio.run(scenario())
    assert texts(store) == sorted([MARK + THEIRS, MARK + OURS, OURS])
    assert second.contents() == store.contents()
    assert second.cache.journal.all() == []


@overwriting
@pytest.mark.parametrize("removes", [False, True])
def test_nobody_is_told_that_nothing_was_done_if_another_process_has_taken_the_write_over(
    clients, store, time, traits, removes
):
    first, second = clients(traits=traits), clients(traits=traits)

    async def scenario():
        note = await open_note(first, store)
        get, asked = first.remote.get, []

        async def slow(note_id, *, etag=None):
            asked.append(note_id)
            if len(asked) == 2 - removes:  # the comparison
                time.now += LEASE + 1
                await second.sync()
                first.faults.plan(Fault.UNAVAILABLE, on="get")
            return await get(note_id, etag=etag)

        first.remote.get = slow
        if removes:
            with pytest.raises(OutcomeUnknown, match="another process"):
                await first.writer.remove(note)
        else:
            assert (await first.change(note, OURS)).note.text == OURS

    asyncio.run(scenario())
    assert texts(store) == ([BASE] if removes else [OURS])
    assert first.contents() == store.contents()
    assert first.cache.journal.all() == []


@overwriting
@pytest.mark.parametrize("then", ["another edit", "a removal"])
def test_what_a_write_displaced_is_kept_if_something_happens_before_it_is_put_back(
    clients, store, traits, then
):
    client = clients(traits=traits)

    async def scenario():
        note = await open_note(client, store)
        push, get = client.remote.push, client.remote.get

        async def overtaken(write):
            client.remote.push = push
            store.edit("n1", lambda _: THEIRS)
            answer = await push(write)
            client.remote.get = once_more
            return answer

        async def once_more(note_id, *, etag=None):
            client.remote.get = get
            held = await get(note_id, etag=etag)
            if then == "a removal":
                store.remove("n1")
            else:
                store.edit("n1", lambda _: BASE.replace("two", "TWO, others say"))
            return held

        client.remote.push = overtaken
        saved = await client.change(note, OURS)
        assert (store.text(saved.copy_id), saved.merged) == (MARK + OURS, False)
        await client.run_cycles(2)

    asyncio.run(scenario())
    expected = {MARK + OURS, MARK + THEIRS}
    assert expected <= set(texts(store))
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


def test_a_tag_that_was_displaced_makes_no_copy_of_a_removed_note(clients, store):
    client = clients(traits=LIKE_TRILIUM)

    async def scenario():
        note = await open_note(client, store)
        push = client.remote.push

        async def overtaken(write):
            client.remote.push = push
            store.put("n1", BASE, tags=("theirs",))
            answer = await push(write)
            store.remove("n1")
            return answer

        client.remote.push = overtaken
        with pytest.raises(NoteNotFound):
            await client.change(note, OURS)

    asyncio.run(scenario())
    assert store.contents() == client.contents() == {}


@overwriting
def test_a_new_note_that_somebody_edits_before_it_is_read_again_stays_as_they_made_it(
    clients, store, traits
):
    client = clients(traits=traits)
    push = client.remote.push

    async def edited(write):
        answer = await push(write)
        store.edit(answer.revision.id, lambda text: text.replace("wrong", "right"))
        return answer

    client.remote.push = edited
    saved = asyncio.run(client.writer.save(note=None, content=Content("New\nwrong\n")))
    assert texts(store) == [saved.note.text] == ["New\nright\n"]
    assert (saved.merged, saved.copy_id) == (True, None)


@overwriting
def test_a_note_that_says_exactly_what_was_sent_is_not_said_to_be_merged(clients, store, traits):
    client = clients(traits=traits)
    answer = save(client, store, f"zero\n{BASE}", Fault.OVERWRITE, BASE)
    assert (answer.note.text, answer.merged) == (f"zero\n{BASE}", False)
    assert texts(store) == [f"zero\n{BASE}"]


@overwriting
@pytest.mark.parametrize("unsent", [1, 2])
def test_a_merge_that_collides_again_is_in_doubt_until_every_text_is_stored(
    clients, store, traits, unsent
):
    client = clients(traits=traits)

    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "theirs\nagain\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda _: "others\nelse\n")
        client.faults.plan(Fault.UNAVAILABLE, on="push", times=unsent)
        with pytest.raises(OutcomeUnknown):
            await client.change(note, f"zero\n{BASE}")
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert texts(store) == [f"{MARK}zero\ntheirs\nagain\n", "others\nelse\n"]
    assert client.contents() == store.contents()
    assert client.cache.journal.all() == []


# A note that comes back.


@pytest.mark.parametrize(
    "traits",
    [pytest.param(row, id=name) for name, row in ROWS.items() if row.retry is Retry.ASK],
)
def test_a_note_that_somebody_brought_back_is_not_removed_again(clients, store, traits):
    client = clients(traits=traits)

    async def scenario():
        note = await open_note(client, store)
        fields = store.fields("n1")
        client.faults.plan(Fault.LOST_ANSWER, on="delete")
        with pytest.raises(OutcomeUnknown) as doubt:
            await client.writer.remove(note)
        assert "does not delete it again" in doubt.value.resolution_hint
        assert store.ids() == set()
        store.overwrite("n1", fields)
        await client.run_cycles(2)
        assert store.text("n1") == BASE
        assert client.contents() == {"n1": Content(BASE)}
        assert client.cache.journal.all() == []
        await client.writer.remove(client.note("n1"))

    asyncio.run(scenario())
    assert store.ids() == set()


def test_a_deletion_that_a_store_with_write_ids_did_not_get_is_repeated(clients, store):
    client = clients(traits=LIKE_SIMPERIUM)

    async def scenario():
        note = await client.trash(await client.create("one\n"))
        client.faults.plan(Fault.TIMEOUT, on="delete")
        with pytest.raises(OutcomeUnknown) as doubt:
            await client.writer.remove(note)
        assert "the next sync finishes it" in doubt.value.resolution_hint
        await client.run_cycles(2)

    asyncio.run(scenario())
    assert store.ids() == set()


@overwriting
def test_a_repeated_write_does_not_repeat_what_others_have_put_back_for_it(clients, store, traits):
    client = clients(traits=traits)

    async def scenario():
        note = await open_note(client, store)
        client.faults.plan(Fault.TIMEOUT, on="push")
        with pytest.raises(OutcomeUnknown):
            await client.change(note, f"{BASE}ours\n")
        client.faults.plan(Fault.RACE, on="push", edit=lambda text: f"ours\n{text}theirs\n")
        await client.run_cycles()

    asyncio.run(scenario())
    assert texts(store) == [f"ours\n{BASE}theirs\n"]
    assert client.contents() == store.contents()
