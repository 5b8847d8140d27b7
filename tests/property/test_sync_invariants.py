"""The eight invariants of sync (docs/sync.md), each under its own name.

Every test lets Hypothesis make up a history: what another device does to the store, what goes wrong
on the way, where the process ends. Examples are derived from the test itself, so that every run is
the same run.
"""

import asyncio
import tempfile
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.backends.base import ListingPage
from mcp_notarium.errors import NotariumError, OutcomeUnknown
from mcp_notarium.notes.note import Content, Revision
from mcp_notarium.sync.batch import Batch
from mcp_notarium.sync.conflict import MARK
from mcp_notarium.sync.cycle import State
from mcp_notarium.sync.intake import Tally
from mcp_notarium.sync.planner import BRAKE_COUNT
from support.memory_backend import Fault
from support.memory_store import MemoryStore
from support.sync_rig import Client, Crash, FlyingTime

QUICK = settings(max_examples=30, deadline=None, derandomize=True, database=None)

note_ids = st.sampled_from([f"n{number}" for number in range(6)])
edits = st.lists(
    st.tuples(st.sampled_from(["put", "edit", "trash", "remove"]), note_ids), max_size=12
)
read_faults = st.lists(
    st.tuples(
        st.sampled_from(
            [
                Fault.UNAVAILABLE,
                Fault.TIMEOUT,
                Fault.NONSENSE,
                Fault.CURSOR_LOST,
                Fault.STALE,
                Fault.WITHOUT_CONTENT,
                Fault.LOST_ANSWER,
            ]
        ),
        st.sampled_from(["list_page", "changes", None]),
    ),
    max_size=5,
)


def happen(store, history):
    """Another device does this."""
    for number, (what, note_id) in enumerate(history):
        there = note_id in store.ids()
        if what == "put" or not there:
            store.put(note_id, f"{note_id} put {number}\n")
        elif what == "edit":
            store.edit(note_id, lambda text, number=number: f"{text}edit {number}\n")
        elif what == "trash":
            store.put(note_id, store.text(note_id), trash=True)
        elif len(store.ids()) > 1:
            store.remove(note_id)


@contextmanager
def world(**options):
    """A store, a time and a maker of clients on one cache folder."""
    with tempfile.TemporaryDirectory() as folder:
        store, time, made = MemoryStore(), FlyingTime(), []

        def client(**more):
            made.append(Client(Path(folder).resolve(), store, time=time, **options | more))
            return made[-1]

        try:
            yield store, client
        finally:
            for each in made:
                each.close()


def plan(client, faults):
    for kind, on in faults:
        client.faults.plan(kind, on=on)


def covered(client, store):
    """Whether everything up to the cursor is in the cache, or written down as still to be asked.

    Removals that polling could not see are written down as a sweep that is due.
    """
    cursor = client.cache.sync_state.cursor()
    if cursor is None:
        return True
    sequence = next(n for n in range(len(store._log), -1, -1) if store._cursor_at(n) == cursor)
    excused = set(client.driver._ledger.doubts())
    excused |= {write.note_id for write in client.cache.pending.all()}
    last = {logged.note_id: logged for logged in store._log[:sequence]}
    for note_id, logged in last.items():
        note = client.cache.notes.get(note_id)
        if note_id in excused:
            continue
        if logged.after is not None and (note is None or note.server_version < logged.after):
            removed_since = any(
                later.note_id == note_id and later.after is None for later in store._log[sequence:]
            )
            if note is not None or not removed_since:
                return False
        still_here = note is not None and note.server_version <= logged.before
        if logged.after is None and still_here and not client.driver._ledger.sweep_due(feed=True):
            return False
    return True


class Violation(BaseException):
    """An invariant does not hold. Not an ``Exception``: the engine survives those."""


@contextmanager
def watched(client, after_commit):
    """``after_commit`` is called after every transaction of the client."""
    transaction = client.cache.transaction

    @contextmanager
    def watching(**options):
        with transaction(**options):
            yield
        after_commit()

    client.cache.transaction = watching
    try:
        yield
    except Violation:
        raise AssertionError from None
    finally:
        client.cache.transaction = transaction


@QUICK
@given(edits, edits, edits, read_faults, read_faults, st.integers(1, 30), st.booleans())
def test_the_cursor_moves_only_in_the_transaction_that_stores_what_it_covers(
    before, meanwhile, after, first_faults, later_faults, crash_at, forgets
):
    with world() as (store, make):
        happen(store, before)
        client = make()
        commits = []

        def check():
            commits.append(1)
            if not covered(client, store):
                raise Violation
            if len(commits) == crash_at:
                raise Crash

        async def history():
            plan(client, first_faults)
            await client.sync()
            happen(store, meanwhile)
            plan(client, later_faults)
            await client.sync()
            if forgets:
                store.forget_cursors()
            happen(store, after)
            await client.sync()

        with watched(client, check):
            try:
                asyncio.run(history())
            except Crash:
                client.close()
        again = make()
        assert covered(again, store)
        asyncio.run(again.settle(3))
        assert again.contents() == store.contents()
        assert covered(again, store)


@QUICK
@given(edits, edits, st.lists(st.sampled_from(list(Fault)), max_size=4), read_faults)
def test_a_base_is_always_what_the_backend_acknowledged(before, after, write_faults, faults):
    with world() as (store, make):
        client = make()
        acknowledged = set()

        def note(revision):
            if isinstance(revision, Revision):
                acknowledged.add((revision.id, revision.etag, revision.content, revision.raw))

        for name in ("list_page", "changes", "get", "push"):
            _listen_to(client.backend, name, note)

        def check():
            for note_id in client.cache.notes.etags():
                base = client.cache.notes.base(note_id)
                if (base.id, base.etag, base.content, base.raw) not in acknowledged:
                    raise Violation
                if client.note(note_id).content != base.content:
                    raise Violation

        async def history():
            happen(store, before)
            await client.sync()
            hanging = (Fault.HANG_BEFORE, Fault.HANG_AFTER)
            for fault in write_faults:
                if fault not in hanging:
                    client.faults.plan(fault, on="push")
                for note_id in list(client.contents())[:2]:
                    try:
                        await client.change(client.note(note_id), "mine\n")
                    except NotariumError:
                        continue
            happen(store, after)
            plan(client, faults)
            await client.settle(3)

        with watched(client, check):
            asyncio.run(history())
        check()


def _listen_to(backend, name, note):
    method = getattr(backend, name)

    async def listening(*args, **options):
        answer = await method(*args, **options)
        for revision in (
            *getattr(answer, "entries", ()),
            *getattr(answer, "changes", ()),
            getattr(answer, "revision", None),
            answer,
        ):
            note(revision)
        return answer

    setattr(backend, name, listening)


@QUICK
@given(edits, read_faults, st.booleans(), st.booleans())
def test_applying_remote_changes_never_overwrites_pending_text(history, faults, forgets, loses):
    with world() as (store, make):
        for number in range(6):
            store.put(f"n{number}", f"{number}\n")
        holder, client = make(), make()

        async def scenario():
            await client.sync()
            holder.faults.plan(Fault.TIMEOUT, on="push")
            holder.writer._intents.release = lambda _write: None
            try:
                await holder.change(holder.note("n1"), "mine, on its way\n")
            except OutcomeUnknown:
                pass
            before = _held(client, "n1")
            happen(store, history)
            if forgets:
                store.forget_cursors()
            if loses and "n1" in store.ids():
                store.remove("n1")
            plan(client, faults)
            for _ in range(3):
                await client.sync()
                assert _held(client, "n1") == before
            client.faults.clear()
            await client.settle(4)

        asyncio.run(scenario())
        assert client.contents() == store.contents()
        texts = [content.text for content in store.contents().values()]
        assert any("mine, on its way\n" in text for text in texts)


def _held(client, note_id):
    return (
        client.cache.pending.for_note(note_id),
        client.cache.notes.base(note_id),
        client.cache.notes.get(note_id),
    )


@QUICK
@given(
    st.lists(
        st.sampled_from(
            [Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.NONSENSE, Fault.UNAVAILABLE, Fault.RACE]
        ),
        max_size=5,
    ),
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.booleans(),
)
def test_a_retry_carries_the_same_write_id(faults, others_edit, new):
    with world() as (store, make):
        client = make()
        sent = []
        push = client.backend.push

        async def recording(write):
            sent.append((write.note_id, write.write_id))
            return await push(write)

        client.backend.push = recording

        async def scenario():
            note = None if new else await client.create("first\nlast\n")
            sent.clear()
            client.faults.plan(Fault.TIMEOUT, on="push")
            for fault in faults:
                client.faults.plan(fault, on="push")
            try:
                await client.writer.save(note=note, content=Content("first\nmine\nlast\n"))
            except OutcomeUnknown:
                pass
            (intent,) = client.cache.pending.all()
            for number, edited in enumerate(others_edit):
                if edited and intent.note_id in store.ids():
                    store.edit(intent.note_id, lambda text, n=number: f"{n}\n{text}")
                await client.sync()
            client.faults.clear()
            await client.settle(2)
            return intent

        intent = asyncio.run(scenario())
        assert {pair for pair in sent if pair[0] == intent.note_id} == {
            (intent.note_id, intent.write_id)
        }
        assert client.cache.pending.all() == []
        assert store.text(intent.note_id).count("mine\n") == 1
        assert client.contents() == store.contents()


@QUICK
@given(
    st.integers(1, 40),
    st.sets(st.integers(0, 39)),
    st.sets(st.integers(0, 39)),
    st.sampled_from(["whole", "no listing", "second page fails", "reads fail"]),
)
def test_removal_needs_a_tombstone_or_a_completed_sweep_and_a_mass_loss_halts(
    size, removed, unlisted, trouble
):
    with world() as (store, make):
        client = make()
        for number in range(size):
            store.put(f"n{number:02}", "x\n")

        async def scenario():
            await client.sync()
            known = set(client.contents())
            gone = {f"n{number:02}" for number in removed} & store.ids()
            for note_id in gone:
                store.remove(note_id)
            store.forget_cursors()
            client.faults.plan(Fault.CURSOR_LOST, on="changes")
            hidden = {f"n{number:02}" for number in unlisted}
            _hide(client, hidden, trouble)
            state = await client.sync()
            left = set(client.contents())
            lost, absent = known - left, known & (gone | hidden)
            assert lost <= gone, "what the store still has is never removed"
            halts = len(absent) > BRAKE_COUNT or absent == known
            if trouble != "whole" or halts:
                assert lost == set()
                assert state in (State.HALTED, State.BACKING_OFF)
            else:
                assert lost == gone
                assert state is State.IDLE

        asyncio.run(scenario())


def _hide(client, hidden, trouble):
    list_page = client.backend.list_page

    async def hiding(**listing):
        if trouble == "no listing" or (trouble == "second page fails" and listing["mark"]):
            client.faults.plan(Fault.UNAVAILABLE, on="list_page")
        page = await list_page(**listing)
        kept = tuple(entry for entry in page.entries if entry.id not in hidden)
        more = page.next_mark or ("0" if trouble == "second page fails" else None)
        return ListingPage(kept, page.cursor, more, page.total)

    client.backend.list_page = hiding
    if trouble == "reads fail":
        client.faults.plan(Fault.UNAVAILABLE, on="get", times=1000)
        client.faults.plan(Fault.UNAVAILABLE, on="list_page", times=1000)


@QUICK
@given(edits, edits, read_faults, st.lists(note_ids, max_size=3), st.booleans())
def test_a_second_cycle_without_outside_change_has_no_effect(before, after, faults, mine, forgets):
    with world() as (store, make):
        client = make()

        async def scenario():
            happen(store, before)
            await client.sync()
            for note_id in mine:
                if note_id in client.contents():
                    client.faults.plan(Fault.LOST_ANSWER, on="push")
                    try:
                        await client.change(client.note(note_id), "mine\n")
                    except NotariumError:
                        pass
            happen(store, after)
            if forgets:
                store.forget_cursors()
            plan(client, faults)
            await client.settle(3)
            client.faults.clear()
            client.time.now += 1000
            await client.sync()
            rows = client.rows()
            client.backend.calls.clear()
            assert await client.sync() is State.IDLE
            assert client.backend.calls == ["changes"]
            assert client.rows() == rows

        asyncio.run(scenario())


writes = st.lists(
    st.tuples(
        st.sampled_from(["edit", "edit", "create", "theirs", "their rewrite", "removed", "sync"]),
        st.integers(0, 5),
        st.sampled_from(
            [None, None, Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.RACE, Fault.UNAVAILABLE]
        ),
    ),
    max_size=14,
)


@settings(QUICK, max_examples=60)
@given(writes)
def test_no_user_text_is_lost(history):
    with world() as (store, make):
        client = make()
        promised = {}

        async def write(number, at, fault):
            line = f"line {number} of the user"
            notes = sorted(client.contents())
            note = client.note(notes[at % len(notes)]) if notes else None
            text = f"{line}\n{note.text if note else ''}"
            if fault:
                client.faults.plan(fault, on="push", edit=lambda old: f"{number} theirs\n{old}")
            try:
                saved = await client.writer.save(note=note, content=Content(text))
            except OutcomeUnknown as unknown:
                promised[line] = unknown.details["id"]
            except NotariumError:
                return
            else:
                promised[line] = saved.note.id

        async def scenario():
            for number, (what, at, fault) in enumerate(history):
                there = sorted(store.ids())
                target = there[at % len(there)] if there else None
                if what == "create" or (what == "edit" and not client.contents()):
                    line = f"line {number} of the user"
                    client.faults.clear()
                    if fault:
                        client.faults.plan(fault, on="push")
                    try:
                        promised[line] = (await client.create(f"{line}\n")).id
                    except OutcomeUnknown as unknown:
                        promised[line] = unknown.details["id"]
                    except NotariumError:
                        continue
                elif what == "edit":
                    client.faults.clear()
                    await write(number, at, fault)
                elif what == "sync":
                    client.faults.clear()
                    await client.sync()
                elif target and what == "theirs":
                    store.edit(target, lambda text, n=number: f"{text}{n} theirs\n")
                elif target and what == "their rewrite":
                    _forgive(promised, store.text(target))
                    store.edit(target, lambda _, n=number: f"{n} all theirs\n")
                elif target and what == "removed":
                    _forgive(promised, store.text(target))
                    store.remove(target)
            client.faults.clear()
            store.put("keeps the account from looking empty", "x\n")
            await client.settle(4)

        asyncio.run(scenario())
        kept = {
            line.removeprefix(MARK)
            for content in store.contents().values()
            for line in content.text.split("\n")
        }
        assert set(promised) <= kept
        assert client.contents() == store.contents()


def _forgive(promised, text):
    """Somebody deleted these lines after they had arrived: that is no loss."""
    for line in text.split("\n"):
        promised.pop(line.removeprefix(MARK), None)


@QUICK
@given(edits, edits, st.data(), st.booleans())
def test_any_order_of_one_pages_actions_ends_in_the_same_state(before, after, data, bare):
    outcomes = []
    for shuffled in (False, True, True):
        with world() as (store, make):
            client = make()

            async def scenario(store=store, client=client, shuffled=shuffled):
                happen(store, before)
                await client.sync()
                happen(store, after)
                if bare:
                    client.faults.plan(Fault.WITHOUT_CONTENT, on="changes")
                page = await client.backend.changes(
                    client.cache.sync_state.cursor(), wait=False, base_of=client.cache.notes.base
                )
                remotes = page.changes
                if shuffled:
                    remotes = tuple(data.draw(st.permutations(remotes)))
                return await _take_in(client, remotes, page.cursor)

            outcomes.append(asyncio.run(scenario()))
    assert outcomes[0] == outcomes[1] == outcomes[2]


async def _take_in(client, remotes, cursor):
    intake, ledger = client.driver._engine._intake, client.driver._ledger
    batch = Batch(remotes, ledger.epoch, lambda: ledger.mark_cursor(cursor))
    await intake.commit(await intake.fetch(batch, Tally()), Tally())
    ids = sorted(client.contents())
    notes = [(client.note(note_id), client.cache.notes.base(note_id)) for note_id in ids]
    return notes, ledger.cursor, sorted(ledger.doubts())
