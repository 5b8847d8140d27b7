"""Test the eight invariants of sync (docs/sync.md), each under its own name.

Every test lets Hypothesis make up a history: what another device does to the store, what goes wrong
on the way, where the process ends. Examples are derived from the test itself, so that every run is
the same run.
"""

import asyncio
from contextlib import suppress

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NotariumError, OutcomeUnknown
from mcp_notarium.stores.contract import ListingPage
from mcp_notarium.sync.batch_apply import Batch, Tally
from mcp_notarium.sync.cycle_states import State
from mcp_notarium.sync.pull_decisions import REMOVAL_COUNT
from support.memory_client import Fault
from support.sync_histories import (
    User,
    Violation,
    acknowledged_to,
    covered,
    edits,
    happen,
    note_ids,
    plan_faults,
    read_faults,
    user_acts,
    watched,
    world,
)
from support.sync_rig import Crash

QUICK = settings(max_examples=25, deadline=None, derandomize=True, database=None)


@QUICK
@given(
    histories=st.tuples(edits, edits, edits),
    faults=st.tuples(read_faults, read_faults),
    crash_at=st.integers(1, 30),
    forgets=st.booleans(),
    unreadable=st.booleans(),
)
@example(
    histories=([("put", "n1")], [("edit", "n1")], []),
    faults=([], []),
    crash_at=30,
    forgets=False,
    unreadable=True,
)
def test_the_cursor_moves_only_in_the_transaction_that_stores_what_it_covers(
    histories, faults, crash_at, forgets, unreadable
):
    with world() as (store, make):
        happen(store, histories[0])
        client = make()
        commits = []

        def check():
            commits.append(1)
            if not covered(client, store):
                raise Violation
            if len(commits) == crash_at:
                raise Crash

        async def run():
            for history, these in zip(histories[1:], faults, strict=True):
                plan_faults(client, these)
                await client.sync()
                happen(store, history)
                if unreadable:
                    plan_faults(client, [(Fault.WITHOUT_CONTENT, "changes")])
                    plan_faults(client, [(Fault.NONSENSE, "get")])
            if forgets:
                client.faults.clear()
                store.forget_cursors()
            await client.sync()

        with watched(client, check), suppress(Crash):
            asyncio.run(run())
        client.close()
        again = make()
        assert covered(again, store)
        again.time.now += 1000
        asyncio.run(again.run_cycles(3))
        assert again.contents() == store.contents()


@QUICK
@given(
    histories=st.tuples(edits, edits),
    write_faults=st.lists(
        st.sampled_from(sorted(set(Fault) - {Fault.HANG_AFTER, Fault.HANG_BEFORE})), max_size=4
    ),
    faults=read_faults,
)
def test_a_base_is_always_what_the_store_acknowledged(histories, write_faults, faults):
    with world() as (store, make):
        client = make()
        acknowledged = acknowledged_to(client.remote)

        def check():
            for note_id in client.cache.notes.etags():
                base, note = client.cache.notes.base(note_id), client.note(note_id)
                if (base.id, base.etag, base.content, base.raw) not in acknowledged:
                    raise Violation
                if note.content != base.content:
                    raise Violation

        async def run():
            happen(store, histories[0])
            await client.sync()
            for fault in (Fault.RACE, *write_faults):
                client.faults.plan(fault, on="push")
                for note_id in list(client.contents())[:2]:
                    note = client.note(note_id)
                    with suppress(NotariumError):
                        await client.change(note, f"mine\n{note.text}")
            happen(store, histories[1])
            plan_faults(client, faults)
            await client.run_cycles(3)

        with watched(client, check):
            asyncio.run(run())


@QUICK
@given(history=edits, faults=read_faults, forgets=st.booleans(), loses=st.booleans())
def test_applying_remote_changes_never_overwrites_pending_text(history, faults, forgets, loses):
    with world() as (store, make):
        for number in range(6):
            store.put(f"n{number}", f"{number}\n")
        holder, client = make(), make()

        def held():
            notes = client.cache.notes
            return client.cache.journal.in_flight(), notes.base("n1"), notes.get("n1")

        async def run():
            await client.sync()
            holder.faults.plan(Fault.TIMEOUT, on="push")
            holder.writer._journal.release = lambda _write: None  # it is still busy with it
            with suppress(OutcomeUnknown):
                await holder.change(holder.note("n1"), "mine, on its way\n")
            before = held()
            happen(store, history)
            if forgets:
                store.forget_cursors()
            if loses and "n1" in store.ids():
                store.remove("n1")
            plan_faults(client, faults)
            for _ in range(3):
                await client.sync()
                assert held() == before
            client.faults.clear()
            client.time.now += 1000
            await client.run_cycles(4)

        asyncio.run(run())
        assert client.contents() == store.contents()
        assert any("mine, on its way\n" in c.text for c in store.contents().values())


@QUICK
@given(
    faults=st.lists(
        st.sampled_from(
            [Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.NONSENSE, Fault.UNAVAILABLE, Fault.RACE]
        ),
        max_size=5,
    ),
    others_edit=st.lists(st.booleans(), min_size=6, max_size=6),
    new=st.booleans(),
)
def test_a_retry_carries_the_same_write_id(faults, others_edit, new):
    with world() as (store, make):
        client, sent = make(), []
        push = client.remote.push

        async def recording(write):
            sent.append((write.note_id, write.write_id))
            return await push(write)

        async def run():
            note = None if new else await client.create("first\nlast\n")
            client.remote.push = recording
            for fault in (Fault.TIMEOUT, *faults):
                client.faults.plan(fault, on="push")
            with suppress(OutcomeUnknown):
                await client.writer.save(note=note, content=Content("first\nmine\nlast\n"))
            (intent,) = client.cache.journal.all()
            for number, edited in enumerate(others_edit):
                if edited and intent.note_id in store.ids():
                    store.edit(intent.note_id, lambda text, n=number: f"{n}\n{text}")
                await client.sync()
            client.faults.clear()
            await client.run_cycles(2)
            return intent

        intent = asyncio.run(run())
        assert {pair for pair in sent if pair[0] == intent.note_id} == {
            (intent.note_id, intent.write_id)
        }
        assert client.cache.journal.all() == []
        assert store.text(intent.note_id).count("mine\n") == 1
        assert client.contents() == store.contents()


@QUICK
@given(
    size=st.sampled_from([1, 2, 5, 12, 40, 120]),
    removed=st.integers(0, 14),
    unlisted=st.integers(0, 14),
    trouble=st.sampled_from(["none", "none", "none", "no listing", "no second page", "no reads"]),
)
@example(size=40, removed=0, unlisted=10, trouble="none")
@example(size=40, removed=11, unlisted=0, trouble="none")
@example(size=5, removed=5, unlisted=0, trouble="none")
@example(size=40, removed=3, unlisted=0, trouble="no second page")
def test_removal_needs_a_tombstone_or_a_full_listing_and_a_mass_loss_halts(
    size, removed, unlisted, trouble
):
    names = [f"n{number:03}" for number in range(size)]
    with world() as (store, make):
        client = make()
        for note_id in names:
            store.put(note_id, "x\n")

        async def run():
            await client.sync()
            known = set(client.contents())
            gone, hidden = set(names[:removed]), set(names[removed:][:unlisted])
            for note_id in gone:
                store.remove(note_id)
            client.faults.plan(Fault.CURSOR_LOST, on="changes")
            _hide(client, hidden, trouble)
            state = await client.sync()
            lost = known - set(client.contents())
            assert lost <= gone, "what the store still has is never removed"
            limit = max(REMOVAL_COUNT, size // 10)
            if trouble != "none" or len(known & gone) > limit:
                assert lost == set()
                assert state in (State.HALTED, State.BACKING_OFF)
            else:
                assert lost == gone
                assert state is State.IDLE

        asyncio.run(run())


def _hide(client, hidden, trouble):
    list_page = client.remote.list_page

    async def hiding(**listing):
        if trouble == "no listing" or (trouble == "no second page" and listing["mark"]):
            client.faults.plan(Fault.UNAVAILABLE, on="list_page")
        page = await list_page(**listing)
        kept = tuple(entry for entry in page.entries if entry.id not in hidden)
        more = page.next_mark or ("0" if trouble == "no second page" else None)
        return ListingPage(kept, page.cursor, more, page.total)

    client.remote.list_page = hiding
    if trouble == "no reads":
        for method in ("get", "list_page"):
            client.faults.plan(Fault.UNAVAILABLE, on=method, times=1000)


@QUICK
@given(
    histories=st.tuples(edits, edits),
    faults=read_faults,
    mine=st.lists(note_ids, max_size=3),
    forgets=st.booleans(),
    pause=st.sampled_from([1000.0, 100_000.0]),
)
def test_a_second_cycle_without_outside_change_has_no_effect(
    histories, faults, mine, forgets, pause
):
    with world() as (store, make):
        client = make()

        async def run():
            happen(store, histories[0])
            await client.sync()
            for note_id in mine:
                if note_id in client.contents():
                    client.faults.plan(Fault.LOST_ANSWER, on="push")
                    with suppress(NotariumError):
                        await client.change(client.note(note_id), "mine\n")
            happen(store, histories[1])
            if forgets:
                store.forget_cursors()
            plan_faults(client, faults)
            await client.run_cycles(3)
            client.faults.clear()
            client.time.now += pause
            await client.sync()
            rows = client.rows()
            client.remote.calls.clear()
            assert await client.sync() is State.IDLE
            assert client.remote.calls == ["changes"]
            assert client.rows() == rows

        asyncio.run(run())


@settings(QUICK, max_examples=50)
@given(user_acts)
@example([("create", 0, None), ("replace", 0, Fault.TIMEOUT), ("their rewrite", 0, None)])
@example([("create", 0, None), ("replace", 0, Fault.LOST_ANSWER), ("their rewrite", 0, None)])
@example([("create", 0, None), ("edit", 0, Fault.TIMEOUT), ("removed", 0, None)])
@example([("create", 0, None), ("edit", 0, Fault.TIMEOUT), ("edit", 0, Fault.TIMEOUT)])
@example([("create", 0, Fault.LOST_ANSWER), ("theirs", 0, None), ("edit", 0, Fault.RACE)])
def test_no_user_text_is_lost(history):
    with world() as (store, make):
        client = make()
        user = User(client, store)

        async def run():
            for act in history:
                await user.act(*act)
            client.faults.clear()
            store.put("keeps the account from looking empty", "x\n")
            await client.run_cycles(4)

        asyncio.run(run())
        assert user.promised <= user.kept()
        assert client.contents() == store.contents()


@QUICK
@given(histories=st.tuples(edits, edits), data=st.data(), bare=st.booleans())
def test_any_order_of_one_pages_actions_ends_in_the_same_state(histories, data, bare):
    def shuffled(remotes):
        return tuple(data.draw(st.permutations(remotes)))

    outcomes = [
        asyncio.run(_take_in_a_page(histories, order, bare=bare))
        for order in (tuple, shuffled, shuffled)
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2]


async def _take_in_a_page(histories, order, *, bare):
    with world() as (store, make):
        client = make()
        happen(store, histories[0])
        await client.sync()
        happen(store, histories[1])
        if bare:
            client.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
        intake, ledger = client.scheduler._runner.applier, client.cache.progress
        read_cursor = client.cache.sync_state.cursor
        page = await client.remote.changes(
            read_cursor(), wait=False, base_of=client.cache.notes.base
        )
        batch = Batch(
            order(page.changes),
            ledger.index_version,
            lambda ledger: ledger.mark_cursor(page.cursor),
        )
        await intake.commit(await intake.fetch(batch, Tally()), Tally())
        ids = sorted(client.contents())
        notes = [(client.note(note_id), client.cache.notes.base(note_id)) for note_id in ids]
        return notes, read_cursor(), sorted(ledger.unresolved())
