"""Accounts of every store, as real as they can be here, with a client of an agent's program connected to each.

``put`` makes a note as another program makes one, before the first sync; ``raw`` is all that the store holds of it,
but for what every write changes: dates and numbers.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import Implementation

from mcp_notarium.account.generation import open_in_memory
from mcp_notarium.config import Config
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.toolsets import find_toolset
from notarium_devtools.jotter.simulator import JotterSimulator
from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from notarium_devtools.trilium.records import Attachment
from support.cache_room import make
from support.jotter_client import open_jotter
from support.local_notebook import OtherProcess
from support.memento_file import MementoFile
from support.simplenote_client import open_store
from support.simplenote_settings import simplenote
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.trilium_client import open_trilium

AGENT = "agent 1"
LONG_AGO = 1_600_000_000
"""When the notes were made, where another program can say so."""


class Place:
    """One account, and the client; ``note_id`` of ``put`` names the note for the tests alone."""

    store = ""
    toolset = "notarium"
    client: Client
    harness: ToolHarness

    @abstractmethod
    def put(self, name: str, text: str, **more: Any) -> str:
        """Make a note as another program does; return its id."""

    @abstractmethod
    def raw(self, note_id: str) -> Any:
        """Everything that the store holds of it."""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool of ours, or a native one; return its answer, or its error."""
        result = await self.client.call_tool(tool, arguments)
        if result.structured_content is not None:
            return dict(result.structured_content)
        text = next(part.text for part in result.content if part.type == "text")
        if result.is_error:
            return {"error": text}
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        return value if isinstance(value, dict) else {"text": value}

    async def version(self, note_id: str) -> int:
        answer = await self.call("get", id=note_id)
        return int(answer["local_version"])


class Simplenote(Place):
    store = "simplenote"

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim

    def put(self, name: str, text: str, **more: Any) -> str:
        note_id = name.replace(" ", "-").replace(":", "")
        tags, pinned, trash = more.get("tags", []), more.get("pinned", False), more.get("trash")
        extra = {"systemTags": ["pinned"] * pinned + ["unknown"], "deleted": bool(trash)}
        extra |= {"creationDate": LONG_AGO, "modificationDate": LONG_AGO, "extra": {"a": [1]}}
        self.sim.put(note_id, content=text, tags=list(tags), **extra)
        return note_id

    def raw(self, note_id: str) -> Any:
        found = dict(self.sim.bucket().read(note_id).value)
        found.pop("modificationDate")
        return found | {"systemTags": sorted(found["systemTags"])}  # a set, to every client


class Notebook(Place):
    store, toolset = "local", "plain_pascal_both"

    def __init__(self, cache: Cache) -> None:
        self.other = OtherProcess(cache)

    def put(self, name: str, text: str, **more: Any) -> str:
        note_id = hashlib.sha256(name.encode()).hexdigest()[:8]
        options = {key: more[key] for key in ("tags", "trash") if key in more}
        self.other.put(note_id, text, title=more.get("title", "Plan"), **options)
        properties = {"pinned": True} if more.get("pinned") else more.get("properties", {})
        if properties:
            self.other.cache.database.run(
                "UPDATE notebook_notes SET properties = ? WHERE id = ?",
                (json.dumps(properties, sort_keys=True), note_id),
            )
        return note_id

    def raw(self, note_id: str) -> Any:
        row = self.other.cache.database.row(
            "SELECT id, created_at, trash, tags, properties, title, text FROM notebook_notes WHERE id = ?",
            (note_id,),
        )
        assert row is not None
        return tuple(row)


class Vault(Place):
    store, toolset = "vault", "with_paths"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, name: str, text: str, **more: Any) -> str:
        place = "c-" + "".join(one if one.isalnum() else "-" for one in name)
        note_id = f"{place}/{more.get('title', 'Plan')}.md"
        base = self.folder / ".trash" if more.get("trash") else self.folder
        path = base / note_id
        path.parent.mkdir(parents=True)
        if tags := more.get("tags"):
            text = f"---\ntags: [{', '.join(tags)}]\n---\n{text}"
        if values := more.get("properties"):
            lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
            text = f"---\n{lines}---\n{text}"
        path.write_bytes(text.encode())
        if link := more.get("linked"):
            (self.folder / place / "Other.md").write_text(link)
        return note_id

    def raw(self, note_id: str) -> Any:
        place = note_id.partition("/")[0]
        files = [
            *self.folder.glob(f"{place}/**/*.md"),
            *self.folder.glob(f".trash/{place}/**/*.md"),
        ]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in files}


class Jotter(Place):
    store, toolset = "jotter", "titled"

    def __init__(self, sim: JotterSimulator) -> None:
        self.sim = sim

    def put(self, name: str, text: str, **more: Any) -> str:
        note_id = "".join(one if one.isalnum() else "-" for one in name)
        dates = dict.fromkeys(("user_created_time", "user_updated_time"), LONG_AGO * 1000)
        deleted = LONG_AGO * 1000 if more.get("trash") else 0
        title = more.get("title", "Plan")
        self.sim.write(note_id, body=text, title=title, deleted_time=deleted, extra=[1], **dates)
        return note_id

    def raw(self, note_id: str) -> Any:
        found = dict(self.sim.notes[note_id])
        del found["updated_time"], found["user_updated_time"]
        return found | {"deleted_time": found["deleted_time"] > 0}


class Trilium(Place):
    store, toolset = "trilium", "trilium_both"

    def __init__(self, sim: TriliumSimulator) -> None:
        self.sim = sim
        self.number = 0

    def put(self, name: str, text: str, **more: Any) -> str:
        del name
        self.number += 1
        note_id = f"Note{self.number:06}"
        attached = Attachment(
            f"Att{self.number:07}",
            note_id,
            "image",
            "image/png",
            "p.png",
            10,
            b"png",
            self.sim.document.clock(),
        )
        text = text.replace("NOTE", note_id)
        if "ATTACHED" in text:
            self.sim.document.attachments[attached.id] = attached
            text = text.replace("ATTACHED", attached.id)
        self.sim.write(note_id, more.get("title", "Plan"), text)
        labels = [(tag, "") for tag in more.get("tags", [])] + [*more.get("properties", {}).items()]
        for number, (label, value) in enumerate(labels):
            self.sim.document.set_attribute(f"{note_id}{number}", note_id, "label", label, value)
        return note_id

    def raw(self, note_id: str) -> Any:
        note = self.sim.document.notes[note_id]
        owned = [one for one in self.sim.document.attributes.values() if one.note_id == note_id]
        # Their ids are made anew, and the server keeps a relation for each link of the text.
        labels = sorted(
            (one.type, one.name, one.value) for one in owned if one.name != "internalLink"
        )
        attached = sorted(
            (one.id, one.title, one.content)
            for one in self.sim.document.attachments.values()
            if one.owner_id == note_id and one.unused_since is None  # others are erased
        )
        return note.title, note.type, note.mime, note.content.decode(), labels, attached


class Memento(Place):
    store, toolset = "memento", "memento_both"

    def __init__(self, app: MementoFile) -> None:
        self.app = app

    def put(self, name: str, text: str, **more: Any) -> str:
        note_id = "c" + "".join(one if one.isalnum() else "0" for one in name)
        columns = dict(more.get("columns", {}))
        columns |= {"title": more.get("title", "Plan"), "createdAt": LONG_AGO * 1000}
        if "tags" in more:
            columns["labels"] = json.dumps(list(more["tags"]), separators=(",", ":"))
        if more.get("pinned"):
            columns["isPinned"] = 1
        self.app.put(note_id, text, **columns)
        return note_id

    def raw(self, note_id: str) -> Any:
        row = dict(self.app.row(note_id))
        del row["updatedAt"], row["embedding"]
        return row


Put = Callable[[Place], None]


@asynccontextmanager
async def _client(
    place: Place,
    folder: Path,
    remote: Any,
    cache: Cache | None,
    put: Put,
    *,
    policy: Policy,
) -> AsyncIterator[Place]:
    harness = ToolHarness(folder, remote=remote, cache=cache, policy=policy)
    place.harness = harness
    harness.ticking = True
    put(place)
    await harness.sync()
    name, _, version = AGENT.partition(" ")
    info = Implementation(name=name, version=version)
    toolset = find_toolset(place.toolset)
    try:
        async with connected(
            harness.opened, toolset=toolset, seconds=120, client_info=info
        ) as client:
            place.client = client
            yield place
    finally:
        await remote.close()
        harness.close()


@asynccontextmanager
async def _simplenote(folder: Path, put: Put, policy: Policy = PERMISSIVE) -> AsyncIterator[Place]:
    async with (
        Simulator().serving() as sim,
        _client(Simplenote(sim), folder, open_store(sim), None, put, policy=policy) as place,
    ):
        yield place


@asynccontextmanager
async def _local(folder: Path, put: Put, policy: Policy = PERMISSIVE) -> AsyncIterator[Place]:
    cache = make(folder, key=None, name="cache.sqlite", rules=policy.visibility)
    remote = LocalStore(cache.database)
    async with _client(Notebook(cache), folder, remote, cache, put, policy=policy) as place:
        yield place


@asynccontextmanager
async def _memory(folder: Path, put: Put, policy: Policy = PERMISSIVE) -> AsyncIterator[Place]:
    cache = Cache(
        open_in_memory(
            Config(**simplenote("user@example.org"), data_dir=folder, policy=policy)
        ).database,
        policy.visibility,
    )
    remote = LocalStore(cache.database)
    async with _client(Notebook(cache), folder, remote, cache, put, policy=policy) as place:
        yield place


@asynccontextmanager
async def _vault(folder: Path, put: Put, policy: Policy = PERMISSIVE) -> AsyncIterator[Place]:
    (folder / "vault").mkdir()
    remote = VaultStore(folder / "vault")
    async with _client(Vault(folder / "vault"), folder, remote, None, put, policy=policy) as place:
        yield place


@asynccontextmanager
async def _jotter(folder: Path, put: Put, policy: Policy = PERMISSIVE) -> AsyncIterator[Place]:
    async with (
        JotterSimulator().serving() as sim,
        _client(Jotter(sim), folder, open_jotter(sim), None, put, policy=policy) as place,
    ):
        yield place


@asynccontextmanager
async def _trilium(folder: Path, put: Put, policy: Policy = PERMISSIVE) -> AsyncIterator[Place]:
    async with (
        TriliumSimulator().serving() as sim,
        _client(Trilium(sim), folder, open_trilium(sim), None, put, policy=policy) as place,
    ):
        yield place


@asynccontextmanager
async def _memento(folder: Path, put: Put, policy: Policy = PERMISSIVE) -> AsyncIterator[Place]:
    app = MementoFile(folder / "dev.db")
    async with _client(
        Memento(app), folder, MementoStore(app.path), None, put, policy=policy
    ) as place:
        yield place


PLACES: dict[str, Callable[..., AbstractAsyncContextManager[Place]]] = {
    "simplenote": _simplenote,
    "local": _local,
    "memory": _memory,
    "vault": _vault,
    "jotter": _jotter,
    "trilium": _trilium,
    "memento": _memento,
}
