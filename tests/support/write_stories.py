"""Play stories of one write: what others do at each moment of it, which request fails, where the process ends.

A story is a dictionary: ``store`` (a row of ``ROWS``, or "files" or "app" for a real vault and a real file of Memento), ``write``,
``caller`` and ``later`` (rules, before and after the process ends), ``acts`` (moment -> act of others), ``faults`` (number of the request ->
what becomes of it), ``stop`` (step at which the process ends), ``informed`` (the index of the caller has what others have done before the write), ``twin`` (another
process takes the entry while its push is under way, and sends it once more after the answer).
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.note import Content, Note, PendingWrite, WriteState
from mcp_notarium.domain.policy import EVERYTHING, Visibility
from mcp_notarium.errors import (
    NotariumError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
)
from mcp_notarium.library.history import History
from mcp_notarium.stores.contract import Acknowledgement, PushStatus, WriteGuard
from mcp_notarium.stores.memento.note_codec import made_of
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.sync.writer import Saved
from support.memento_file import MementoFile
from support.memory_client import ROWS, MemoryClient
from support.memory_store import MemoryStore
from support.sync_rig import Client, Crash, FlyingTime, until

BASE = "one\ntwo\nthree\nfour\nfive\n"
OURS = "words of ours"
RULES = {
    "all": EVERYTHING,
    "shown tags": Visibility(allowed_tags=("ai", "also"), untagged=False),
    "hidden tag": Visibility(hidden_tags=("secret",)),
    "hidden property": Visibility(hidden_properties=("pinned",)),
}
WRITES = {
    "top": {"text": f"{OURS}\n{BASE}"},
    "line": {"text": BASE.replace("one", OURS)},
    "fewer tags": {"text": f"{OURS}\n{BASE}", "tags": ("also",)},
    "unpinned": {"text": f"{OURS}\n{BASE}", "unpins": True},
    "unpinned line": {"text": BASE.replace("one", OURS), "unpins": True},
    "tags": {"tags": ("also",)},
    "rename": {"title": "New", "text": f"{OURS}\n{BASE}"},
    "same": {},
}
"""Changes of the note, by name; beside them a story may create, make a note again, remove or undo."""


_WITHOUT_TEXT = ("remove", "undo", "same", "tags")
_EDITS = ("line", "same line", "rewrite", "remove")


class Place:
    """Any store with the note that a story is about, as others see it."""

    note_id = "n1.md"
    named = True
    """Ids are names, which others can give a note of theirs."""

    def __init__(self, story: dict[str, Any]) -> None:
        self.story = story
        self.number = 0
        self.lines: set[str] = set()
        """What others have written and nobody has taken away on purpose."""
        self.seen: set[str] = set()
        """Texts that others have replaced or removed on purpose."""
        self.hides = False
        """Others have given the note the tag that hides it."""

    def line(self) -> str:
        self.number += 1
        line = f"{('their own', 'somebody', 'other hands')[self.number % 3]} says {self.number}"
        self.lines.add(line)
        return line

    def forgive(self, text: str) -> None:
        """Others take this text away and know that."""
        self.seen.add(text)
        self.lines = {line for line in self.lines if line not in text}

    def act(self, name: str, at: str) -> None:
        """Let others do something; ``at``: the note that is being written."""
        note_id = at if at in self.contents() else self.note_id
        held = self.contents().get(note_id)
        if name == "take":
            if at and at not in self.contents() and (self.named or self.story["write"] == "again"):
                self.put(at, self.line() + "\n")
        elif name == "bring back" and held is None:
            self.bring_back()
        elif name == "rewrite hub":
            self.act_otherwise(name, note_id)
        elif held is not None and name in _EDITS:
            self.hides &= "secret" in held.tags  # they have seen that it is not hidden
            self.edit(name, note_id, held.text)
        elif held is not None:
            self.act_otherwise(name, note_id)

    def edit(self, name: str, note_id: str, text: str) -> None:
        """Let others change the text, or remove the note."""
        first, _, rest = text.partition("\n")
        if name != "line":
            self.forgive(first if name == "same line" else text)
        if name == "remove":
            if any(moment.startswith("over") for moment in self.story["acts"]):
                self.lines.clear()  # they have written over each other's
            self.remove(note_id)
        elif name == "rewrite":
            self.put(note_id, f"{self.line()}\n" * 6)
        elif name == "line":
            self.put(note_id, f"{text}{self.line()}\n")
        else:
            self.put(note_id, f"{self.line()}\n{rest}")

    def act_otherwise(self, name: str, note_id: str) -> None:
        raise NotImplementedError(name)


class MemoryPlace(Place):
    """A store in memory, of any row."""

    def __init__(self, story: dict[str, Any], _folder: Path) -> None:
        super().__init__(story)
        self.traits = ROWS[story["store"]]
        self.store = MemoryStore()
        self.time = FlyingTime()
        self.last: dict[str, Any] = {}
        self.named = self.traits.ids.named
        trash = self.traits.trash and story["write"] == "remove"
        self.put(self.note_id, BASE, tags=("ai", "also"), trash=trash)
        if "pinned" in self.traits.properties:
            self.store.overwrite(self.note_id, self.last | {"properties": ["pinned"]})
        self.store.put("n2.md", BASE.replace("five", "of another note"), tags=["ai"])
        self.lines.add("of another note")

    def remote(self) -> MemoryClient:
        return MemoryClient(self.store, traits=self.traits, poll_seconds=0.01)

    def contents(self) -> dict[str, Content]:
        return self.store.contents()

    def put(self, note_id: str, text: str, *, tags: Any = None, trash: Any = None) -> None:
        held = self.contents().get(note_id)
        tags = (held.tags if held else ("ai",)) if tags is None else tags
        trash = (held.trash if held else False) if trash is None else trash
        self.time.now += 1
        self.store.put(note_id, text, tags=tags, trash=trash, now=self.time.now)
        if note_id == self.note_id:
            self.last = self.store.fields(note_id)

    def remove(self, note_id: str) -> None:
        self.store.remove(note_id)

    def bring_back(self) -> None:
        self.store.overwrite(self.note_id, self.last)

    def act_otherwise(self, name: str, note_id: str) -> None:
        held = self.contents()[note_id]
        if name == "hide":
            self.hides = note_id == self.note_id
            self.put(note_id, held.text, tags=(*held.tags, "secret"))
        elif name == "fewer tags":
            self.put(note_id, held.text, tags=tuple({*held.tags} - {"also"}))
        elif name == "no tags":
            self.hides = False
            self.put(note_id, held.text, tags=())
        elif name == "exchange" and self.traits.ids.named and "n2.md" in self.contents():
            self.store.exchange(note_id, "n2.md")
        elif name == "move" and self.traits.ids.named and "moved.md" not in self.contents():
            self.store.rename(note_id, "moved.md")


class FilesPlace(Place):
    """The files of a real vault: the note gets another path, and another note links to it."""

    def __init__(self, story: dict[str, Any], folder: Path) -> None:
        super().__init__(story)
        self.folder = folder / "vault"
        self.folder.mkdir()
        self.time = FlyingTime()
        self.put(self.note_id, BASE)
        self.put("hub.md", "[[n1]] and more\n")

    def remote(self) -> VaultStore:
        return VaultStore(self.folder)

    def contents(self) -> dict[str, Content]:
        files = sorted(self.folder.glob("*.md"))
        return {
            one.name: Content(one.read_text(), ("ai",), False, one.name.removesuffix(".md"))
            for one in files
        }

    def put(self, note_id: str, text: str) -> None:
        path = self.folder / note_id
        path.write_text(text)
        os.utime(path, (self.number + 1e9, self.number + 1e9))

    def remove(self, note_id: str) -> None:
        (self.folder / note_id).unlink()

    def bring_back(self) -> None:
        self.put(self.note_id, BASE)

    def act_otherwise(self, name: str, note_id: str) -> None:
        if name == "rewrite hub" and "hub.md" in self.contents():
            self.forgive(self.contents()["hub.md"].text)
            self.put("hub.md", f"{self.line()} of [[n1|it]]\n")
        elif name == "take name" and not (self.folder / "New.md").exists():
            self.put("New.md", self.line() + "\n")
        elif name == "move" and not (self.folder / "moved.md").exists():
            (self.folder / note_id).rename(self.folder / "moved.md")


class AppPlace(Place):
    """A real file of Memento's app; the write takes back a change of pictures."""

    note_id = "n1"

    def __init__(self, story: dict[str, Any], folder: Path) -> None:
        super().__init__(story)
        self.file = MementoFile(folder / "dev.db")
        self.time = FlyingTime()
        self.file.put(self.note_id, BASE, images='["a"]', labels='["ai"]')

    def remote(self) -> MementoStore:
        return MementoStore(self.file.path)

    def contents(self) -> dict[str, Content]:
        rows = self.file.run('SELECT "id", "content" FROM "Note"')
        return {row["id"]: Content(row["content"], ("ai",)) for row in rows}

    def put(self, note_id: str, text: str) -> None:
        self.file.put(note_id, text, **self.row())

    def row(self) -> dict[str, Any]:
        held = self.file.run('SELECT "images" FROM "Note" WHERE "id" = ?', (self.note_id,))
        return {"images": held[0]["images"] if held else '["a"]', "labels": '["ai"]'}

    def remove(self, note_id: str) -> None:
        self.file.remove(note_id)

    def bring_back(self) -> None:
        self.put(self.note_id, BASE)

    def act_otherwise(self, name: str, note_id: str) -> None:
        if name == "set":
            text = self.contents()[note_id].text
            self.file.put(note_id, text, **(self.row() | {"images": '["c"]'}))


_MOST = 40
"""Requests of a story, at most."""
_QUIET = 1000
"""Number of a request that no act or fault has."""
PLACES = {"files": FilesPlace, "app": AppPlace}


class Endless(BaseException):
    """Something is sent without end."""


class Player:
    """Play one story, and look afterwards what became of everything."""

    def __init__(self, story: dict[str, Any], folder: Path) -> None:
        self.story = story
        self.folder = folder / "account"
        self.folder.mkdir(mode=0o700)
        self.place = PLACES.get(story["store"], MemoryPlace)(story, folder)
        self.open = AsyncExitStack()
        self.requests = _QUIET
        traits = self.place.remote().traits
        self.overwrites = traits.write_guard is WriteGuard.LAST_WRITER
        self.arrived = False
        """Something was sent that the store took."""
        self.first_id = ""
        self.ended = False
        self.answered = asyncio.Event()
        self.twin: asyncio.Task[Any] | None = None
        self.error: NotariumError | None = None
        """What the caller was told."""
        self.refused: set[str] = set()
        """Write_ids that the store will never take."""
        self.promised = False
        self.cut = False
        """What a request has met died with the process, or with its answer."""

    def client(self, rules: str, **options: Any) -> Client:
        client = Client(
            self.folder,
            None,
            remote=self.place.remote(),
            time=self.place.time,
            rules=RULES[rules],
            owner_ended=lambda _owner: self.ended,
            **options,
        )
        self.open.callback(client.close)
        self.open.push_async_callback(client.remote.close)
        push, delete = client.remote.push, client.remote.delete

        async def pushing(write: PendingWrite) -> Acknowledgement:
            number = await self.begin(write.note_id, write.write_id)
            before = getattr(self.place, "store", None)
            held = before and self._fields(write.note_id)
            answer = await push(write)
            self.arrived = True
            if before is not None and held and self._act(f"over {number}") == "line":
                before.overwrite(
                    write.note_id, held | {"text": f"{held['text']}{self.place.line()}\n"}
                )
            self.act(f"after {number}", write.note_id)
            if self.fault(number) == "seen late":
                self.cut |= f"at {number}" in self.story["acts"]  # the answer tells of neither
                head = await client.remote.get(answer.revision.id)
                answer = replace(answer, revision=head, status=PushStatus.UNCHANGED, alone=False)
            self.end(number)
            return answer

        async def deleting(note_id: str, *, etag: str, write_id: str) -> None:
            number = await self.begin(note_id, write_id)
            # Where the last writer wins, nothing can be compared in the moment of a removal.
            self.cut |= self.overwrites and f"at {number}" in self.story["acts"]
            await delete(note_id, etag=etag, write_id=write_id)
            self.arrived = True
            self.act(f"after {number}", note_id)
            self.end(number)

        client.remote.push, client.remote.delete = pushing, deleting
        return client

    def _fields(self, note_id: str) -> dict[str, Any] | None:
        store = self.place.store
        return store.fields(note_id) if note_id in store.ids() else None

    def _act(self, moment: str) -> str:
        return self.story["acts"].get(moment, "")

    def act(self, moment: str, at: str = "") -> None:
        if name := self._act(moment):
            self.place.act(name, at)

    def fault(self, number: int) -> str:
        return self.story["faults"].get(number, "")

    async def begin(self, note_id: str, write_id: str) -> int:
        """Let happen what happens right before a request."""
        self.requests += 1
        if self.requests in (_MOST, _QUIET + _MOST):
            raise Endless
        assert write_id not in self.refused, "sent again"
        number, fault = self.requests, self.fault(self.requests)
        self.first_id = self.first_id or note_id
        if self.story["twin"] and number == 1:
            await self.begin_elsewhere()
        if self.twin is not None and number == 2:
            self.answered.clear()
            await self.answered.wait()
        self.act(f"at {number}", note_id)
        if fault == "unsent":
            raise StoreUnavailable("not now")
        if fault == "refused":
            self.refused.add(write_id)
            raise StoreRejected("never")
        if fault == "cut":
            raise OutcomeUnknown("no answer", details={"id": note_id})
        return number

    async def begin_elsewhere(self) -> None:
        """Let another process take the entry for that of one that has ended, and begin to send it."""
        self.ended = True
        self.answered.set()
        self.twin = asyncio.create_task(self.client(self.story["later"]).sync())
        await until(lambda: self.twin is None or self.twin.done() or not self.answered.is_set())

    def end(self, number: int) -> None:
        if self.fault(number) == "lost":
            raced = {f"at {number}", f"over {number}"} & self.story["acts"].keys()
            self.cut |= bool(raced) and self.overwrites
            raise OutcomeUnknown("no answer")

    def stop_at(self, step: str) -> None:
        if step == self.story["stop"] and self.requests < _QUIET:
            raise Crash

    def is_somewhere(self, client: Client) -> bool:
        texts = [one.text for one in self.place.contents().values()]
        texts += [write.content.text for write in client.cache.journal.all()]
        return any(OURS in text for text in texts)

    async def play(self) -> None:
        """Let the story happen: the caller's write, and whoever finishes it. Raises ``AssertionError``."""
        async with self.open:
            caller = self.client(self.story["caller"], on_step=self.stop_at)
            await caller.sync()
            note = caller.cache.notes.get(self.place.note_id)
            assert note is not None
            write = await self.prepare(caller, note)
            self.requests, self.arrived, self.first_id = 0, False, ""
            self.act("before")
            if self.story["informed"]:
                await caller.sync()
            self.place.time.now += 1
            await self.attempt(caller, write)
            await self.finish()

    async def prepare(self, client: Client, note: Note) -> Any:
        """Make what the caller wants to do."""
        kind, writer = self.story["write"], client.writer
        if kind in ("create", "create tagged"):
            return lambda: writer.save(note=None, content=Content(f"{OURS}\n", ("ai", "also")))
        if kind == "remove":
            return lambda: writer.remove(note)
        if kind == "again":
            await writer.remove(note)
            content = Content(f"{OURS}\n", note.tags)
            return lambda: writer.revive(note.id, content)
        if kind == "undo":
            base = client.cache.notes.base(note.id)
            await writer.save(note=note, content=made_of({"images": ["b"]}, base))
            history = History(client.cache, client.remote)
            replaced = await history.read_replaced(note.id, client=None)
            native = history.native_of(note.id, replaced, last=True)
            note = client.note(note.id)
            return lambda: writer.save(note=note, content=replace(replaced.content, native=native))
        change = dict(WRITES[kind])
        properties = note.properties
        if change.pop("unpins", False):
            properties = properties.having({}, without=set(properties))
        content = replace(note.content, properties=properties, **change)
        more: dict[str, Any] = {"exact": self.story["exact"]}
        more["change_id"] = "of many" if self.story["bulk"] else ""
        if kind == "rename":
            more["links"] = client.cache.notes.links.find_broken(note.id, "New.md")
        return lambda: writer.save(note=note, content=content, **more)

    async def attempt(self, caller: Client, write: Any) -> None:
        self.promised = has_text = self.story["write"] not in _WITHOUT_TEXT
        try:
            self.check_answer(await write())
        except OutcomeUnknown as error:
            self.error, self.promised = error, has_text
        except NotariumError as error:
            self.error, self.promised = error, False
            if not self.arrived:
                assert not self.is_somewhere(caller), "refused, and it is there"
                assert not caller.cache.journal.in_flight()
        except Crash:
            self.cut |= bool(self.story["acts"].keys() & {"at 1", "over 1", "at 2", "over 2"})
            self.promised = has_text and self.is_somewhere(caller)

    def check_answer(self, saved: Saved | None) -> None:
        """Compare what the caller was told with what the store holds, if nobody has written since."""
        if self.requests > 1 or any(
            one.startswith(("after", "over")) for one in self.story["acts"]
        ):
            return
        held = self.place.contents()
        if saved is None:
            assert not any("four\nfive" in one.text for one in held.values()), "said to be removed"
            return
        assert saved.note.id in held, "said to be saved, and it is not there"
        assert held[saved.note.id].text == saved.note.text, "said to be saved otherwise"
        if self.story["write"] == "rename":
            assert saved.note.id == "New.md", "said to be renamed"
        if isinstance(self.place, AppPlace):
            assert self.place.row()["images"] == '["a"]', "said to be undone"

    async def finish(self) -> None:
        """Let another process finish the write, and everything work again."""
        self.answered.set()
        if self.twin is not None:
            await self.twin
        later = self.client(self.story["later"])
        allowed = self.arrived
        self.act("between", self.first_id)
        self.ended = True
        for _ in range(4):
            await later.sync()
            self.place.time.now += 1000
        self.requests = _QUIET
        for _ in range(4):
            await later.sync()
            self.place.time.now += 1000
        self.judge(later)
        if self.story["later"] == "hidden property" and not allowed:
            assert not any(OURS in one.text for one in later.contents().values()), "it is shown"

    def judge(self, client: Client) -> None:
        """Raise ``AssertionError`` if a promise is not kept."""
        held, rules = self.place.contents(), RULES[self.story["later"]]
        left = client.cache.journal.all()
        assert not left or self.refused or rules.has_rules, "a write is rejected"
        assert all(write.state is WriteState.REJECTED for write in left), "a write is left"
        if isinstance(self.place, MemoryPlace):
            seen = {
                key: one for key, one in held.items() if rules.sees(key, one.tags, one.properties)
            }
            assert client.contents() == seen, "the index differs"
        texts = [one.text for one in held.values()]
        kept = texts + [write.content.text for write in left]
        gone = any(OURS in text for text in self.place.seen)
        if self.promised and not gone:
            assert any(OURS in text for text in kept), "our text is lost"
        ours = [text.startswith(MARK) for text in texts if OURS in text]
        # A name that a new note was to have may be somebody else's, of a similar text: both are kept.
        most = 2 if self.story["write"] == "create" and self.place.named else 1
        copies = 0 if self.story["write"] == "create" or not self.story["acts"] else 1
        assert ours.count(True) <= copies, "our text is in more conflict copies than it needs"
        assert ours.count(False) <= most, "our text is there twice"
        if not self.cut:
            missing = [line for line in self.place.lines if not any(line in text for text in kept)]
            assert not missing, f"their text is lost: {missing}"
            if self.place.hides and self.place.note_id in held and not self.refused:
                assert any("secret" in one.tags for one in held.values()), "a hiding tag is lost"
