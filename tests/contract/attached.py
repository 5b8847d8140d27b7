"""Define the contract of stores whose notes have files of their own (``traits.attachments``), and show pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from contract.bench import Bench, OnABench
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NoteNotFound, StoreUnavailable, VersionConflict
from mcp_notarium.markup.obsidian_links import find_targets
from mcp_notarium.stores.extensions import (
    AskingStore,
    AttachmentStore,
    KeepingStore,
    PictureStore,
    RevivingStore,
)

PICTURE = b"\x89PNG\r\n\x1a\n picture \x00\xff"
OTHER = b"\x89PNG\r\n\x1a\n another one"


class AttachmentsContract(OnABench):
    async def give(self, bench: Bench, note_id: str, data: bytes = PICTURE) -> str:
        """Let a note have a picture and show it; gives the id."""
        held = await bench.store.get(note_id)
        if bench.store.traits.adds_pictures:
            pictures = cast("PictureStore", bench.store)
            native, file_id = await pictures.with_picture(note_id, "image/png", data)
            content = replace(held.content, native=native)
        else:
            keeping = cast("KeepingStore", bench.store)
            kept = await keeping.keep_file(held, "a plan.png", "image/png", data)
            file_id, held = kept.id, await bench.store.get(note_id)
            content = replace(held.content, text=f"{held.content.text}\n\n{kept.link}\n")
        await bench.store.push(
            self.write(bench.store, note_id, content, held, write_id=f"show {file_id}")
        )
        return file_id

    async def test_the_files_that_a_note_shows_are_listed_and_read(self, bench: Bench) -> None:
        store = cast("AttachmentStore", bench.store)
        note = await self.create(bench, "n1", "a note\n")
        assert [*await store.list_attachments(note)] == []
        ids = [await self.give(bench, note.id, data) for data in (PICTURE, OTHER)]
        listed = await store.list_attachments(await store.get(note.id))
        assert [one.id for one in listed] == ids
        for one, data in zip(listed, (PICTURE, OTHER), strict=True):
            assert one.id.partition("/")[0].endswith(note.id)
            assert (one.kind, one.size in (None, len(data))) == ("image/png", True)
            told, read = await store.read_attachment(one, largest=len(data))
            assert (told.id, told.kind, read) == (one.id, "image/png", data)
            assert (await store.read_attachment(one, largest=len(data) - 1))[1] is None

    async def test_the_list_asks_no_network(self, bench: Bench) -> None:
        if not self.over_network:
            return
        store = cast("AttachmentStore", bench.store)
        note = await self.create(bench, "n1", "a note\n")
        file_id = await self.give(bench, note.id)
        held = await store.get(note.id)
        bench.unreachable()
        (found,) = await store.list_attachments(held)
        assert found.id == file_id
        with pytest.raises(StoreUnavailable):
            await store.read_attachment(found, largest=99)

    async def test_a_file_is_read_under_its_own_note_only(self, bench: Bench) -> None:
        store = cast("AttachmentStore", bench.store)
        for note_id in ("n1", "n2"):
            await self.create(bench, note_id, f"{note_id}\n", write_id=note_id)
        await self.give(bench, "n2")
        file_id = await self.give(bench, "n2", OTHER)
        (found, _) = await store.list_attachments(await store.get("n2"))
        name = file_id.partition("/")[2]
        for wrong in (f"n1/{name}", "n2/nothing", "n2/../x", f"unknown/{name}", "n2", "n2/", ""):
            with pytest.raises(NoteNotFound):
                await store.read_attachment(replace(found, id=wrong), largest=99)

    async def test_a_link_in_the_text_leads_to_the_file(self, bench: Bench) -> None:
        store = cast("AttachmentStore", bench.store)
        await self.create(bench, "n1", "a note\n")
        file_id = await self.give(bench, "n1")
        targets = find_targets((await store.get("n1")).content.text)
        assert bool(targets) != store.traits.adds_pictures
        assert {store.id_of_link("n1", one) for one in targets} <= {file_id}
        for other in ("https://example.org/a/plan.png", "mailto:a@example.org", "#a-heading", ""):
            assert store.id_of_link("n1", other) == ""

    async def test_a_picture_is_added_once_and_over_no_change_of_the_others(
        self, bench: Bench
    ) -> None:
        if not bench.store.traits.adds_pictures:
            return
        store = cast("PictureStore", bench.store)
        note = await self.create(bench, "n1", "a note\n")
        late, _ = await store.with_picture(note.id, "image/png", OTHER)
        first = await self.give(bench, note.id)
        native, again = await store.with_picture(note.id, "image/png", PICTURE)
        assert (native, again) == ("", first)
        held = await store.get(note.id)
        write = self.write(
            store, note.id, replace(held.content, native=late), held, write_id="late"
        )
        with pytest.raises(VersionConflict):
            await cast("RevivingStore", store).find_replaced(note.id, write.body)
        with pytest.raises(VersionConflict):
            await store.push(write)
        listed = await cast("AttachmentStore", store).list_attachments(await store.get(note.id))
        assert [one.id for one in listed] == [first]

    async def test_a_service_is_asked_for_the_files_that_no_text_shows(self, bench: Bench) -> None:
        if not bench.store.traits.asks_attachments:
            return
        store = cast("AskingStore", bench.store)
        note = await self.create(bench, "n1", "a note\n")
        shown = await self.give(bench, note.id)
        held = await store.get(note.id)
        more = await cast("KeepingStore", store).keep_file(held, "b.png", "image/png", OTHER)
        held = await store.get(note.id)
        assert [one.id for one in await store.list_attachments(held)] == [shown]
        told = await store.ask_attachments(held, seconds=5)
        assert [(one.id, one.size) for one in told] == [
            (shown, len(PICTURE)),
            (more.id, len(OTHER)),
        ]
        assert not store.is_file(held)
        await bench.remove(note.id)
        with pytest.raises(NoteNotFound):
            await store.ask_attachments(held, seconds=5)
        bench.unreachable()
        with pytest.raises(StoreUnavailable):
            await store.ask_attachments(held, seconds=5)

    async def test_it_is_told_whose_files_a_content_newly_names(self, bench: Bench) -> None:
        if not bench.store.traits.asks_attachments:
            return
        store = cast("AskingStore", bench.store)
        await self.create(bench, "n1", "a note\n")
        file_id = await self.give(bench, "n1")
        held = await store.get("n1")
        assert {*await store.find_owners(None, Content(held.content.text))} == {"n1"}
        assert not await store.find_owners(held, held.content)
        assert not await store.find_owners(None, Content("no file, [a page](https://e.org/x)\n"))
        name = file_id.partition("/")[2]
        other = held.content.text.replace(name, "nothing12345")
        assert {*await store.find_owners(held, Content(other))} == {""}
        bench.unreachable()
        with pytest.raises(StoreUnavailable):
            await store.find_owners(None, held.content)
