"""Define the contract of stores that make a removed note again with all that it had (``traits.revives``)."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from contract.bench import Bench, OnABench
from mcp_notarium.domain.note import flags
from mcp_notarium.errors import NoteNotFound, VersionConflict
from mcp_notarium.stores.extensions import AttachmentStore, PictureStore, RevivingStore


class RevivingContract(OnABench):
    async def test_a_removed_note_comes_back_with_all_that_the_store_held(
        self, bench: Bench
    ) -> None:
        store = cast("RevivingStore", bench.store)
        await bench.put("n1", "one\n", tags=("a", "b"))
        before, kept = await store.get("n1"), await store.full_copy("n1")
        await store.delete("n1", etag=before.etag, write_id="0d")
        content = replace(before.content, native=kept.decode())
        write = self.write(store, "n1", content, write_id="0b")
        made = (await store.push(write)).revision
        assert made.content == before.content == store.revision_of("n1", write.body).content
        assert made.created_at == before.created_at
        assert await store.full_copy("n1") == kept

    async def test_only_what_was_seen_is_replaced(self, bench: Bench) -> None:
        store = cast("RevivingStore", bench.store)
        base = await self.create(bench, "n1", "one\n")
        content = replace(base.content, text="two\n")
        write = self.write(store, "n1", content, base=base, write_id="0b")
        seen = (await store.find_replaced("n1", write.body)).native
        assert seen
        with pytest.raises(VersionConflict):
            await store.push(replace(write, replaced=seen + b" "))
        assert await bench.text("n1") == "one\n"
        await store.push(replace(write, replaced=seen))
        assert await bench.text("n1") == "two\n"

    async def test_changes_are_taken_back_together(self, bench: Bench) -> None:
        store = cast("RevivingStore", bench.store)
        names = sorted(store.traits.properties)
        await bench.put("n1", "one\n", tags=("a",))
        first = held = await store.get("n1")
        natives: list[str] = []
        changes = [
            replace(first.content, text="two\n", properties=flags(*names)),
            replace(first.content, text="three\n", tags=("b",)),
        ]
        for number, content in enumerate(changes):
            if store.traits.adds_pictures:
                data = b"\x89PNG %d" % number
                pictures = cast("PictureStore", store)
                native, _ = await pictures.with_picture("n1", "image/png", data)
                content = replace(content, native=native)  # noqa: PLW2901
            write = self.write(store, "n1", content, base=held, write_id=f"0{number}")
            replaced = await store.find_replaced("n1", write.body)
            natives.insert(0, replaced.native.decode())
            held = (await store.push(write)).revision
        back = replace(first.content, native=store.overlay(natives))
        write = self.write(store, "n1", back, base=held, write_id="0c")
        assert store.revision_of("n1", write.body).content == first.content
        assert (await store.push(write)).revision.content == first.content
        now = await store.get("n1")
        assert now.content == first.content
        if store.traits.attachments:
            assert [*await cast("AttachmentStore", store).list_attachments(now)] == []

    async def test_a_note_that_is_gone_has_nothing_to_copy_or_replace(self, bench: Bench) -> None:
        store = cast("RevivingStore", bench.store)
        base = await self.create(bench, "n1", "one\n")
        content = replace(base.content, text="two\n")
        write = self.write(store, "n1", content, base=base, write_id="0b")
        await bench.remove("n1")
        for call in (store.full_copy("n1"), store.find_replaced("n1", write.body)):
            with pytest.raises(NoteNotFound):
                await call
