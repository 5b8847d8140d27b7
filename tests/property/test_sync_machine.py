"""Test two clients, another device and a flaky network in any order: in the end all agree.

A client may crash between any two steps of a save or of a cycle and is started again on the same
cache. After healing both caches equal the store, nothing is pending that the store would take, a
further cycle changes nothing, and every line a person was told is kept is somewhere.
"""

import asyncio
import sys
from contextlib import ExitStack, contextmanager

from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from mcp_notarium.domain.note import Content, WriteState
from mcp_notarium.errors import NotariumError, OutcomeUnknown
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.sync.cycle_states import State
from support.long import LONG, SEED
from support.memory_client import ROWS
from support.sync_rig import LEASE, Client, Crash, FlyingTime, quick_folder
from support.sync_worlds import READ_FAULTS, WRITE_FAULTS, LocalWorld, MemoryWorld, SimplenoteWorld

MOST_REMOVED = 6

names = st.sampled_from(["a", "b"])
positions = st.integers(0, 5)
write_faults = st.sampled_from([None, *WRITE_FAULTS])
read_faults = st.sampled_from([None, None, *READ_FAULTS])
steps = st.sampled_from([None, None, None, "recorded", "pushed", "committed"])


class SyncMachine(RuleBasedStateMachine):
    """See the module."""

    world_kind = MemoryWorld

    def __init__(self):
        super().__init__()
        self.open = ExitStack()
        self.folder = self.open.enter_context(quick_folder())
        self.runner = asyncio.Runner()
        self.world = self.make_world()
        self.time = FlyingTime()
        self.number = 0
        self.removed = 0
        self.ended = set()
        self.stop_at = None
        self.promised = set()
        self.raced = ""
        self.versions = {}
        self.clients = {name: self.start(name) for name in ("a", "b")}

    def make_world(self):
        return self.world_kind()

    def start(self, name):
        folder = self.folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
        return Client(
            folder,
            None,
            time=self.time,
            remote=self.world.remote(name),
            owner_ended=lambda owner: owner in self.ended,
            on_step=self.reached,
        )

    def restart(self, name):
        client = self.clients[name]
        self.ended.add(client.owner)
        client.close()
        self.clients[name] = self.start(name)

    def reached(self, step):
        if step == self.stop_at:
            self.stop_at = None
            raise Crash

    def teardown(self):
        try:
            if sys.exc_info()[0] is None:
                self.heals()
        finally:
            for client in self.clients.values():
                client.close()
            self.runner.run(self.world.close())
            self.runner.close()
            self.open.close()

    def line(self, who):
        self.number += 1
        return f"line number {self.number} by {who}"

    def promise(self, line):
        self.promised.add(line)
        self.raced = line

    def forgive(self, text):
        """Somebody deleted this on purpose after it had arrived."""
        self.promised = {line for line in self.promised if line not in text}

    def is_somewhere(self, line, name):
        writes = self.clients[name].cache.journal.all()
        contents = [*self.world.contents().values(), *(write.content for write in writes)]
        return any(line in content.text for content in contents)

    def some_note(self, name, at):
        ids = sorted(self.clients[name].cache.notes.etags())
        return self.clients[name].note(ids[at % len(ids)]) if ids else None

    @initialize(count=st.integers(1, 3))
    def begins(self, count):
        for number in range(count):
            self.world.put(f"old-{number}", f"old title {number}\nold line {number}\n")
        for client in self.clients.values():
            self.runner.run(client.sync())

    # Another device.

    @rule(at=positions, how=st.sampled_from(["top", "end", "rewrite", "rewrite", "trash"]))
    def another_device_changes(self, at, how):
        contents = self.world.contents()
        if not contents:
            return
        note_id = sorted(contents)[at % len(contents)]
        text, line = contents[note_id].text, self.line("them")
        match how:
            case "top":
                self.world.edit(note_id, lambda text: f"{line}\n{text}")
            case "end":
                self.world.edit(note_id, lambda text: f"{text}{line}\n")
            case "rewrite":
                self.forgive(text)
                self.world.edit(note_id, lambda _: f"{line}\n")
            case _ if self.world.has_trash:
                self.world.put(note_id, text, trash=True)

    @rule(at=positions, removes=st.booleans())
    def another_device_creates_or_removes(self, at, removes):
        contents = self.world.contents()
        if removes and self.removed < MOST_REMOVED and len(contents) > 1:
            self.removed += 1
            note_id = sorted(contents)[at % len(contents)]
            self.forgive(contents[note_id].text)
            self.world.remove(note_id)
        else:
            self.world.put(f"other-{self.number}", self.line("them") + "\n")

    @rule(everything=st.booleans())
    def the_store_forgets(self, everything):
        if everything:
            self.world.forget()
        else:
            self.world.forget_cursors()

    # Clients.

    def write(self, name, note, content, line, *, fault, step=None):
        """A save with its misfortunes; what it promises is remembered."""
        if fault in self.world.write_faults:
            self.world.plan_write(name, fault, self.forgive, self.promise)
        self.stop_at, self.raced = step, ""
        # No two devices date a write alike, and Simplenote's are known by that.
        self.time.now += 0.001
        try:
            saved = self.runner.run(self.clients[name].writer.save(note=note, content=content))
        except OutcomeUnknown:
            self.promised |= {line} - {None}
        except NotariumError:
            return
        except Crash:
            self.restart(name)
            # The one loss: what a push has overwritten, if only this process knew it.
            self.promised.discard(self.raced)
            # It may have ended while an earlier write of the note was being finished.
            if line and self.is_somewhere(line, name):
                self.promised.add(line)
        else:
            assert self.clients[name].note(saved.note.id) == saved.note
            self.promised |= {line} - {None}
        finally:
            self.stop_at = None
            self.world.clear_faults()

    @rule(
        name=names,
        at=positions,
        how=st.sampled_from(["top", "end", "first line", "new"]),
        fault=write_faults,
        step=steps,
    )
    def writes(self, name, at, how, fault, step):
        self.change(name, at, how, fault=fault, step=step)

    @rule(name=names, at=positions, fault=write_faults)
    def writes_the_title(self, name, at, fault):
        self.change(name, at, "first line", fault=fault)

    def change(self, name, at, how, *, fault, step=None):
        note, line = self.some_note(name, at), self.line(name)
        if note is None or how == "new":
            self.write(name, None, Content(f"{line}\nsecond line\n"), line, fault=fault, step=step)
            return
        text = {"top": f"{line}\n{note.text}", "end": f"{note.text}{line}\n"}.get(how)
        if text is None:
            first, _, rest = note.text.partition("\n")
            self.forgive(first)
            text = f"{line}\n{rest}"
        self.write(name, note, Content(text, note.tags, note.trash), line, fault=fault, step=step)

    @rule(name=names, at=positions, fault=write_faults, trash=st.booleans())
    def tags_and_trashes(self, name, at, fault, trash):
        note = self.some_note(name, at)
        if note is not None:
            tags = tuple(dict.fromkeys((*note.tags, f"tag{self.number % 3}")))
            trash = trash and self.world.has_trash
            self.write(name, note, Content(note.text, tags, trash), None, fault=fault)

    @rule(name=names, at=positions)
    def removes(self, name, at):
        note = self.some_note(name, at)
        if note is None or self.removed >= MOST_REMOVED or note.trash != self.world.has_trash:
            return
        self.removed += 1
        there = self.world.contents().get(note.id)
        try:
            self.runner.run(self.clients[name].writer.remove(note))
        except NotariumError:
            return
        self.forgive(note.text)
        if there:
            self.forgive(there.text)

    @rule(name=names, first=read_faults, second=read_faults, write=write_faults)
    def syncs(self, name, first, second, write):
        for fault in (first, second):
            if fault in self.world.read_faults:
                self.world.plan_read(name, fault)
            if write in self.world.write_faults:
                self.world.plan_write(name, write, self.forgive, self.promise)
            self.runner.run(self.clients[name].sync())
            self.world.clear_faults()

    @rule(name=names, nth=st.integers(1, 6), torn=st.booleans())
    def crashes_in_a_cycle(self, name, nth, torn):
        client = self.clients[name]
        with _ends_at(client, nth, torn=torn):
            try:
                self.runner.run(client.sync())
            except Crash:
                self.restart(name)

    @rule(name=names, empties=st.booleans())
    def is_restarted_or_reset(self, name, empties):
        if empties:
            self.runner.run(self.clients[name].scheduler.reset())
        else:
            self.restart(name)

    @rule(seconds=st.sampled_from([LEASE, 2 * 3600.0, 25 * 3600.0]))
    def time_passes(self, seconds):
        self.time.now += seconds

    @rule(seconds=st.sampled_from([-366 * 86400.0, -LEASE, 0.0, LEASE, 366 * 86400.0]))
    def somebody_sets_the_clock(self, seconds):
        """To the right time and so many seconds; what measures durations goes on."""
        self.time.set_by = seconds

    # What must hold.

    @invariant()
    def a_version_number_never_stands_for_two_texts(self):
        for name, client in self.clients.items():
            for note_id in client.cache.notes.etags():
                note = client.note(note_id)
                seen = self.versions.setdefault((name, note_id, note.local_version), note.content)
                assert seen == note.content

    @invariant()
    def a_note_has_at_most_one_write_in_flight(self):
        for client in self.clients.values():
            flying = [w.note_id for w in client.cache.journal.all() if w.state == "in_flight"]
            assert len(flying) == len(set(flying))

    def heals(self):
        """Everything works again; a few cycles later everybody agrees."""
        self.world.clear_faults()
        if not self.world.contents():
            self.world.put("the last one", self.line("them") + "\n")
        self.time.now += 1000
        for _ in range(3):
            for client in self.clients.values():
                self.runner.run(_sync_or_reset(client))
                self.time.now += LEASE + 1
        truth = self.world.contents()
        kept = [content.text for content in truth.values()]
        for client in self.clients.values():
            assert client.contents() == truth
            writes = client.cache.journal.all()
            assert all(write.state is WriteState.REJECTED for write in writes)
            kept += [write.content.text for write in writes]
            rows = client.rows()
            assert self.runner.run(client.sync()) is State.IDLE
            assert client.rows() == rows
        assert [line for line in self.promised if line not in "".join(kept)] == []


async def _sync_or_reset(client):
    if await client.sync() is State.HALTED:
        await client.scheduler.reset()


@contextmanager
def _ends_at(client, nth, *, torn):
    """The process ends at its nth transaction: before its commit (``torn``) or after it."""
    transaction = client.cache.transaction
    begun = []

    @contextmanager
    def ending(**options):
        begun.append(1)
        with transaction(**options):
            yield
            if torn and len(begun) == nth:
                raise Crash
        if len(begun) == nth:
            raise Crash

    client.cache.transaction = ending
    yield
    client.cache.transaction = transaction


def machine_like(row):
    """The same in a store of another row, in a new history every day."""
    world = type(f"{row.title()}World", (MemoryWorld,), {"traits": ROWS[row]})
    machine = type(f"{row.title()}Machine", (SyncMachine,), {"world_kind": world})
    seed(f"{SEED} {row}")(machine)
    machine.TestCase.settings = settings(
        max_examples=200 if LONG else 15, stateful_step_count=25, deadline=None, database=None
    )
    return machine.TestCase


class SimplenoteMachine(SyncMachine):
    """The same with the real store and the embedded service."""

    world_kind = SimplenoteWorld


class LocalMachine(SyncMachine):
    """The same with the local notebook: two processes have one database open."""

    def make_world(self):
        return LocalWorld(self.folder)

    def start(self, name):
        return Client(
            self.folder,
            None,
            time=self.time,
            remote=LocalStore,
            owner_ended=lambda owner: owner in self.ended,
            on_step=self.reached,
        )

    @invariant()
    def a_save_is_in_the_notebook_and_in_the_index_at_once(self):
        assert not self.clients["a"].cache.journal.all()
        held = self.clients["a"].cache.notes.etags()
        assert held == self.clients["b"].cache.notes.etags()
        ours = self.world.written_by_clients()
        assert ours.items() >= {note_id: held[note_id] for note_id in held.keys() & ours}.items()


TestSyncMachine = SyncMachine.TestCase
TestSyncMachine.settings = settings(
    max_examples=80 if LONG else 40,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
)
TestLikeLocal = machine_like("local")
TestLikeVault = machine_like("vault")
TestLikeTrilium = machine_like("trilium")
TestLikeMemento = machine_like("memento")
TestLikeExample = machine_like("example")
TestLikeEvents = machine_like("events")
TestLocalMachine = LocalMachine.TestCase
TestLocalMachine.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, derandomize=True, database=None
)
TestSimplenoteMachine = SimplenoteMachine.TestCase
TestSimplenoteMachine.settings = settings(
    max_examples=6, stateful_step_count=25, deadline=None, derandomize=True, database=None
)
