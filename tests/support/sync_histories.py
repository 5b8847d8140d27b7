"""Made-up histories of an account: what another device does, what goes wrong, what is looked at.

Strategies for Hypothesis and the hands that carry out what they draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from hypothesis import strategies as st

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content, Note, Revision
from mcp_notarium.errors import NotariumError, OutcomeUnknown
from support.memory_client import Fault, MemoryClient
from support.memory_store import MemoryStore
from support.sync_rig import Client, FlyingTime, quick_folder

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
user_acts = st.lists(
    st.tuples(
        st.sampled_from(
            ["edit", "replace", "create", "theirs", "their rewrite", "removed", "sync"]
        ),
        st.integers(0, 5),
        st.sampled_from(
            [None, None, Fault.TIMEOUT, Fault.LOST_ANSWER, Fault.RACE, Fault.UNAVAILABLE]
        ),
    ),
    max_size=14,
)


class Violation(BaseException):
    """An invariant does not hold. Not an ``Exception``: the engine survives those."""


@contextmanager
def world() -> Iterator[tuple[MemoryStore, Callable[[], Client]]]:
    """A store and a maker of clients that share one cache."""
    store, time, made = MemoryStore(), FlyingTime(), []
    with quick_folder() as folder:

        def client() -> Client:
            made.append(Client(folder, store, time=time))
            return made[-1]

        try:
            yield store, client
        finally:
            for each in made:
                each.close()


def happen(store: MemoryStore, history: Iterable[tuple[str, str]]) -> None:
    """Another device does this."""
    for number, (what, note_id) in enumerate(history):
        if what == "put" or note_id not in store.ids():
            store.put(note_id, f"{note_id} put {number}\n")
        elif what == "edit":
            store.edit(note_id, lambda text, number=number: f"{text}edit {number}\n")
        elif what == "trash":
            store.put(note_id, store.text(note_id), trash=True)
        elif len(store.ids()) > 1:
            store.remove(note_id)


def plan_faults(client: Client, faults: Iterable[tuple[Fault, str | None]]) -> None:
    """These calls of the client will fail."""
    store = client.remote.store
    for kind, on in faults:
        if kind is not Fault.STALE or store.cursor(lag=True) != store.cursor():
            client.faults.plan(kind, on=on)
        # Otherwise a listing would lag and its cursor would not: nobody could tell.


@contextmanager
def watched(client: Client, after_commit: Callable[[], None]) -> Iterator[None]:
    """``after_commit`` is called after every transaction; its ``Violation`` fails the test."""
    transaction = client.cache.transaction

    @contextmanager
    def watching(**options: bool) -> Iterator[None]:
        with transaction(**options):
            yield
        after_commit()

    client.cache.transaction = watching
    try:
        yield
    except Violation as violation:
        raise AssertionError(*violation.args) from None
    finally:
        client.cache.transaction = transaction


def acknowledged_to(remote: MemoryClient) -> set[tuple[str, str, Content, str]]:
    """Fills with every revision that the store has acknowledged to this client."""
    acknowledged: set[tuple[str, str, Content, str]] = set()

    def listen(name: str) -> None:
        method = getattr(remote, name)

        async def listening(*args: object, **options: object) -> object:
            answer = await method(*args, **options)
            several = (*getattr(answer, "entries", ()), *getattr(answer, "changes", ()))
            for one in (*several, getattr(answer, "revision", answer)):
                if isinstance(one, Revision):
                    acknowledged.add((one.id, one.etag, one.content, one.raw))
            return answer

        setattr(remote, name, listening)

    for name in ("list_page", "changes", "get", "push"):
        listen(name)
    return acknowledged


def covered(client: Client, store: MemoryStore) -> bool:
    """Whether everything up to the cursor is in the cache, or written down as still to be asked.

    What listings have told since is there as well, but for removals.
    """
    ledger, cursor = client.cache.progress, client.cache.sync_state.cursor()
    if cursor is None:
        return True
    places = range(len(store._log), -1, -1)
    told = next(n for n in places if store.cursor_at(n) == cursor)
    sequence = next(n for n in places if store.cursor_at(n) == ledger.polled)
    excused = {*ledger.unresolved(), *(write.note_id for write in client.cache.journal.all())}
    removed_later = {logged.note_id for logged in store._log[sequence:] if logged.after is None}
    last = {logged.note_id: logged for logged in store._log[:sequence]}
    for note_id in last.keys() - excused:
        logged, note = last[note_id], client.cache.notes.get(note_id)
        held = note.server_version if note else None
        if logged.after is None:
            stays = held is not None and held <= logged.before
            if stays and logged in store._log[:told]:
                return False
        elif held is None and note_id in removed_later:
            continue
        elif held is None or held < logged.after:
            return False
    return True


class User:
    """Somebody who writes lines, and remembers which of them were promised to be kept."""

    def __init__(self, client: Client, store: MemoryStore) -> None:
        self.client = client
        self.store = store
        self.promised: set[str] = set()
        self.number = 0

    async def act(self, what: str, at: int, fault: Fault | None) -> None:
        """One step; nothing goes wrong in it but ``fault``."""
        self.number += 1
        self.client.faults.clear()
        notes = sorted(self.client.contents())
        if what == "sync":
            await self.client.sync()
        elif what in ("create", "edit", "replace"):
            note = self.client.note(notes[at % len(notes)]) if notes and what != "create" else None
            await self._write(note, fault, replacing=what == "replace")
        else:
            self._others(what, at)

    async def _write(self, note: Note | None, fault: Fault | None, *, replacing: bool) -> None:
        line, old = f"line {self.number} of the user", note.text if note else ""
        if replacing:
            first, _, old = old.partition("\n")
            self._forgive(first)
        if fault:
            self.client.faults.plan(fault, on="push", edit=lambda old: f"{self.number}\n{old}")
        text = f"{line}\n{old}"
        with suppress(NotariumError):
            try:
                await self.client.writer.save(note=note, content=Content(text))
            except OutcomeUnknown:
                self.promised.add(line)
            else:
                self.promised.add(line)

    def _others(self, what: str, at: int) -> None:
        there = sorted(self.store.ids())
        if not there:
            return
        target = there[at % len(there)]
        if what == "theirs":
            self.store.edit(target, lambda text: f"{text}{self.number} theirs\n")
            return
        self._forgive(self.store.text(target))
        if what == "removed":
            self.store.remove(target)
        else:
            self.store.edit(target, lambda _: f"{self.number} all theirs\n")

    def _forgive(self, text: str) -> None:
        """Somebody deleted these lines after they had arrived: that is no loss."""
        self.promised -= {line.removeprefix(MARK) for line in text.split("\n")}

    def kept(self) -> set[str]:
        """Every line that is in the store."""
        return {
            line.removeprefix(MARK)
            for content in self.store.contents().values()
            for line in content.text.split("\n")
        }
