"""Test stores that change what they are given: one save leaves at most two notes.

Whatever it makes of a text, wherever it does that, whatever gets lost on the way, and also after the
process has ended at any step: no copy of a copy is made, and in the end nothing more is sent.
"""

import asyncio
import unicodedata
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import NotariumError
from support.long import LONG
from support.memory_client import Fault, MemoryClient
from support.memory_store import MemoryStore
from support.sync_rig import LEASE, Client, Crash, FlyingTime, quick_folder

MOST_PUSHES = 12
"""Of one save, its copy and a repair, each of them tried again after every lost answer and crash."""
SAVES = 4
TEXT = "Cafe\u0301 the \0 last  \r\nthe second line \nÅ third"
TAGS = ("Tag", "tag two")


def counting() -> Callable[[str], str]:
    """Never the same twice."""
    calls: list[str] = []

    def stamped(text: str) -> str:
        calls.append(text)
        return f"{text}\nrewritten {len(calls)} times\n"

    return stamped


REWRITERS: dict[str, Callable[[], Callable[[str], str]]] = {
    "nul": lambda: lambda text: text.replace("\0", ""),
    "nfc": lambda: lambda text: unicodedata.normalize("NFC", text),
    "nfd": lambda: lambda text: unicodedata.normalize("NFD", text),
    "blanks": lambda: lambda text: "\n".join(line.rstrip() for line in text.split("\n")),
    "word": lambda: lambda text: text.replace("the", "teh"),
    "line ends": lambda: lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "upper": lambda: str.upper,
    "cut": lambda: lambda text: text[:9],
    "nothing": lambda: lambda _text: "",
    "footer": lambda: lambda text: f"{text}\nsent by a proxy\n",
    "header": lambda: lambda text: f"a proxy was here\n{text}",
    "other words": lambda: lambda _text: "something else altogether\n",
    "turned round": lambda: lambda text: "\n".join(reversed(text.split("\n"))),
    "twice": lambda: lambda text: text + text,
    "mark": lambda: lambda text: text.replace(MARK, ""),
    "counting": counting,
}
SECOND = "stores in a second version"
TWICE = "stores, and again in a second version"
DATED = "stores in a second version, with a date of its own in both"
PLACES = ("stores", SECOND, TWICE, DATED, "echoes", "reads")
rewriters = st.lists(st.sampled_from(sorted(REWRITERS)), min_size=1, max_size=2)
"""Carried out one after the other."""
on_tags = st.sampled_from(
    [
        lambda tags: tags,
        lambda tags: tuple(tag.lower() for tag in tags),
        lambda _tags: (),
        lambda tags: (*tags, "added"),
    ]
)


class Rewritten(MemoryClient):
    """A client to which something on the way tells other texts than the store holds."""

    echo: Callable[[Content], Content] = staticmethod(lambda content: content)
    reads: Callable[[Content], Content] = staticmethod(lambda content: content)

    async def push(self, write):
        answer = await super().push(write)
        revision = _with(answer.revision, lambda content: self.reads(self.echo(content)))
        return replace(answer, revision=revision)

    async def get(self, note_id, *, etag=None):
        return _with(await super().get(note_id, etag=etag), self.reads)

    async def list_page(self, **asked):
        page = await super().list_page(**asked)
        return replace(page, entries=tuple(_with(one, self.reads) for one in page.entries))

    async def changes(self, cursor, *, wait, base_of):
        page = await super().changes(cursor, wait=wait, base_of=base_of)
        return replace(page, changes=tuple(_with(one, self.reads) for one in page.changes))


def _with(one, change):
    return replace(one, content=change(one.content)) if isinstance(one, Revision) else one


class World:
    """A store that rewrites at one place, and clients of it that may end at any step."""

    def __init__(self, folder, *, names, tags, place, lost):
        self.folder, self.time, self.store = folder, FlyingTime(), MemoryStore()
        self.texts = [REWRITERS[name]() for name in names]
        self.tags, self.place, self.lost = tags, place, lost
        self.steps = 0
        self.crash_at = None

    def rewrite(self, content):
        text = content.text
        for change in self.texts:
            text = change(text)
        return Content(text, self.tags(content.tags), content.trash)

    def begin(self):
        """From now on it rewrites."""

        def on_fields(fields):
            new = self.rewrite(Content(fields["text"], tuple(fields["tags"])))
            return fields | {"text": new.text, "tags": list(new.tags)}

        if self.place in ("stores", TWICE):
            self.store.rewrite = on_fields
        if self.place in (SECOND, TWICE):
            self.store.afterwards = on_fields
        if self.place == DATED:
            self.store.rewrite = lambda fields: fields | {"modified": 7.0}
            self.store.afterwards = lambda fields: on_fields(fields) | {"modified": 8.0}

    def client(self):
        remote = Rewritten(self.store, poll_seconds=0.01)
        remote.echo = self.rewrite if self.place == "echoes" else remote.echo
        remote.reads = self.rewrite if self.place == "reads" else remote.reads
        client = Client(
            self.folder,
            None,
            time=self.time,
            remote=remote,
            owner_ended=lambda _owner: True,
            on_step=self.reached,
        )
        remote.faults.plan(Fault.LOST_ANSWER, on="push", times=self.lost)
        if not self.lost:
            remote.faults.clear()
        return client

    def reached(self, _step):
        self.steps += 1
        if self.steps == self.crash_at:
            raise Crash


async def one_save(world, *, new, wanted, crash_at):
    """Save once, then let everything be finished, in the process after a crash if there is one."""
    client = world.client()
    try:
        if not new:
            world.store.put("n1", "Cafe\u0301 the old\nthe second line \nÅ third", tags=("Tag",))
            await client.sync()
        world.begin()
        world.crash_at = world.steps + crash_at if crash_at else None
        try:
            saved = await client.writer.save(
                note=None if new else client.note("n1"), content=wanted
            )
        except (NotariumError, Crash):
            saved = None
        pushes = 0
        for _ in range(3):
            pushes += client.remote.calls.count("push")
            client.close()
            client = world.client()
            try:
                await client.run_cycles(4)
            except Crash:
                world.time.now += LEASE + 1
        pushes += client.remote.calls.count("push")
        client.remote.calls.clear()
        await client.run_cycles(2)
        assert client.remote.calls.count("push") == 0
        assert client.cache.journal.all() == []
        if world.place.startswith("stores"):
            assert client.contents() == world.store.contents()
        return saved, pushes
    finally:
        client.close()


@pytest.mark.parametrize("place", PLACES)
@settings(
    max_examples=60 if LONG else 25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    names=rewriters,
    tags=on_tags,
    new=st.booleans(),
    lost=st.integers(0, 2),
    crash_at=st.integers(0, 7),
    wanted=st.sampled_from(
        [Content(TEXT, TAGS), Content("the word\n", TAGS), Content(f"{MARK}the\0 copy\n")]
    ),
)
@example(names=["counting"], tags=tuple, new=False, lost=0, crash_at=0, wanted=Content(TEXT, TAGS))
@example(
    names=["other words"], tags=tuple, new=False, lost=1, crash_at=0, wanted=Content(TEXT, TAGS)
)
def test_one_save_leaves_at_most_two_notes(*, place, names, tags, new, lost, crash_at, wanted):
    with quick_folder() as folder:
        world = World(folder, names=names, tags=tags, place=place, lost=lost)
        _, pushes = asyncio.run(one_save(world, new=new, wanted=wanted, crash_at=crash_at))
        assert len(world.store.ids()) <= 2
        assert pushes <= MOST_PUSHES


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize("name", sorted(set(REWRITERS) - {"mark"}))
def test_what_a_store_rewrites_is_reported_and_cached_as_it_is(name, new):
    with quick_folder() as folder:
        world = World(folder, names=[name], tags=tuple, place="stores", lost=0)
        wanted = Content(TEXT, TAGS)
        saved, pushes = asyncio.run(one_save(world, new=new, wanted=wanted, crash_at=0))
        assert (len(world.store.ids()), pushes) == (1, 1)
        assert (saved.copy_id, saved.merged) == (None, False)
        assert saved.differs.startswith("line")
        assert world.store.contents() == {saved.note.id: saved.note.content}


@pytest.mark.parametrize("place", [SECOND, TWICE, DATED])
@pytest.mark.parametrize("name", sorted(REWRITERS))
def test_saves_into_a_store_that_adds_a_version_of_its_own_make_no_copy_however_many(name, place):
    async def scenario(world):
        client = world.client()
        try:
            world.begin()
            note, differing = None, 0
            for number in range(SAVES):
                client.remote.calls.clear()
                wanted = Content(f"{TEXT}\nsave {number}\n", TAGS)
                saved = await client.writer.save(note=note, content=wanted)
                assert saved.copy_id is None
                changed = saved.note.content != wanted
                assert bool(saved.differs or saved.merged) is changed
                differing += bool(saved.differs)
                assert client.remote.calls.count("push") <= 1 + (place == DATED)
                note = saved.note
            await client.run_cycles(4)
            assert client.contents() == world.store.contents() == {note.id: note.content}
            assert client.cache.journal.all() == []
            assert client.cache.sync_state.differences().count == differing
        finally:
            client.close()

    with quick_folder() as folder:
        world = World(folder, names=[name], tags=lambda tags: tags, place=place, lost=0)
        asyncio.run(scenario(world))
