"""Run the contract with Trilium, against simulated servers over real HTTP: the oldest and the newest version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from contract.store_contract import (
    AttachmentsContract,
    Bench,
    KeepingContract,
    StoreContract,
    TreeContract,
)
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.markup.html_codec import to_markdown
from mcp_notarium.stores.trilium import note_codec
from notarium_devtools.trilium import TriliumSimulator
from support.trilium_client import open_trilium
from support.trilium_html import to_html


class TriliumBench:
    def __init__(self, sim: TriliumSimulator) -> None:
        self.sim = sim
        sim.etapi.shortest_id = 1  # the contract's notes are called n1
        self.store = open_trilium(sim)
        self.secrets = (sim.token,)

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        self.sim.write(note_id, "", to_html(text))
        self.sim.set_labels(note_id, *tags)

    async def remove(self, note_id) -> None:
        self.sim.document.delete(note_id)

    async def put_folder(self, folder_id, title, above) -> None:
        self.sim.write(folder_id, title, "")
        if above:
            await self.place(folder_id, above)

    async def place(self, note_id, folder_id) -> None:
        before = self.sim.document.parents(note_id)
        self.sim.document.place(note_id, folder_id)
        for branch in before:
            self.sim.document.unplace(branch)

    def folders_of(self, note_id) -> set[str]:
        return {branch.parent_id for branch in self.sim.document.parents(note_id)}

    async def publish(self, folder_id) -> None:
        self.sim.document.place(folder_id, "_share")

    async def text(self, note_id) -> str:
        return to_markdown(self.sim.document.notes[note_id].content.decode())

    def forget_cursors(self) -> None:
        """There are none."""

    def forget_versions(self, note_id) -> None:
        """There are none."""

    def refuse_login(self) -> None:
        self.sim.faults.clear()
        self.sim.etapi.tokens.clear()

    def answer(self, body) -> None:
        self.sim.faults.clear()
        self.sim.faults.status(200, body=body, times=99)

    def unreachable(self) -> None:
        self.sim.stop_listening()

    def lose_answers(self, times) -> None:
        self.sim.faults.clear()
        if times:
            for method, path in (("PUT", "*/content"), ("DELETE", "*"), ("POST", "*/create-note")):
                self.sim.faults.cut_after(method=method, path=path, times=times)
            # Those of a write: two comparisons are before it.
            self.sim.faults.cut_after(method="GET", path="*/notes/*", nth=3, times=times)

    def lose_requests(self, times) -> None:
        self.sim.faults.clear()
        if times:
            for method in ("PUT", "DELETE"):
                self.sim.faults.cut_before(method=method, times=times)

    def hang(self) -> None:
        self.sim.faults.delay(30, after=True, method="PUT")


class TestTrilium(StoreContract, TreeContract, AttachmentsContract, KeepingContract):
    version = "0.103.0"

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        async with TriliumSimulator(self.version).serving() as sim:
            bench = TriliumBench(sim)
            yield bench
            await bench.store.close()

    def as_stored(self, content):
        """Markdown in the form in which the server's HTML reads; a note without a title gets one."""
        made = note_codec.compose(None, content)
        return replace(note_codec.content_of(made), tags=content.tags)

    async def test_update_keeps_unknown_fields_and_the_creation_date(self, bench):
        base = await self.create(bench, "n1", "one\n")
        document = bench.sim.document
        document.set_attribute("rel1rel1", base.id, "relation", "template", "root")
        document.set_attribute("lab1lab1", base.id, "label", "priority", "high")
        base = await bench.store.get(base.id)
        content = replace(base.content, text="two\n")
        write = self.write(bench.store, base.id, content, base=base, write_id="0b")
        answer = await bench.store.push(write)
        assert answer.revision.content.tags == ("priority",)
        assert answer.revision.created_at == base.created_at
        assert [(one.name, one.value) for one in document.owned(base.id)] == [
            ("template", "root"),
            ("priority", "high"),
        ]

    async def test_a_revision_is_read_under_its_own_note_only(self, bench):
        note, other = await self.create(bench, "n1", "one"), await self.create(bench, "n2", "x")
        bench.sim.document.add_revision(bench.sim.document.notes[note.id])
        (old,) = await self.listed_versions(bench, note.id, note.etag, limit=9)
        assert (await bench.store.get(note.id, etag=old.etag)).content.text.strip() == "one"
        for asked in ((other.id, old.etag), (note.id, "unknown1"), (note.id, "../x")):
            with pytest.raises(NoteNotFound):
                await bench.store.get(asked[0], etag=asked[1])

    async def test_a_revision_without_text_is_not_listed(self, bench):
        note = await self.create(bench, "n1", "one")
        held = bench.sim.document.notes[note.id]
        held.type = "file"
        bench.sim.document.add_revision(held)
        held.type = "text"
        assert await self.listed_versions(bench, note.id, note.etag, limit=9) == []


class TestOldestTrilium(TestTrilium):
    version = "0.63.6"

    async def test_older_revisions_are_listed_newest_first_and_can_be_read(self, bench):
        """This version keeps them, and has no way to list them."""
        note = await self.create(bench, "n1", "one")
        bench.sim.document.add_revision(bench.sim.document.notes[note.id])
        assert await self.listed_versions(bench, note.id, note.etag, limit=9) == []

    async def test_a_revision_is_read_under_its_own_note_only(self, bench):
        with pytest.raises(NoteNotFound):
            await bench.store.get("n1", etag="unknown1")

    test_a_revision_without_text_is_not_listed = None


def test_a_title_is_made_of_the_first_words():
    assert note_codec.content_of(note_codec.compose(None, Content("\n# *Plan*\nb"))).title == "Plan"
