"""The contract of stores that keep files of notes (``traits.keeps_files``)."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import cast

import pytest

from contract.bench import Bench, OnABench
from mcp_notarium.errors import NoteNotFound, StoreRejected
from mcp_notarium.stores.extensions import (
    AttachmentStore,
    FolderStore,
    KeepingStore,
    KeptFile,
    Restored,
)

PICTURE = b"\x89PNG\r\n\x1a\n picture \x00\xff"
OTHER = b"\x89PNG\r\n\x1a\n another one"


class KeepingContract(OnABench):
    async def read_back(self, store: KeepingStore, note_id: str, kept: KeptFile) -> bytes | None:
        """What the store has of a file that the note shows, found as a reader finds it."""
        if store.traits.ids.paths:
            folders = cast("FolderStore", store)
            try:
                return (await folders.read_file(kept.id, largest=1 << 20))[1]
            except NoteNotFound:
                return None
        attached = cast("AttachmentStore", store)
        found = await attached.list_attachments(await store.get(note_id))
        for one in found:
            if one.id == kept.id:
                try:
                    return (await attached.read_attachment(one, largest=1 << 20))[1]
                except NoteNotFound:
                    return None
        return None

    async def shown(self, store: KeepingStore, note_id: str, kept: KeptFile) -> None:
        """Let the note show the file, as the caller does after ``keep_file``."""
        if kept.link:
            held = await store.get(note_id)
            content = replace(held.content, text=f"{held.content.text}\n\n{kept.link}\n")
            write = self.write(store, note_id, content, held, write_id=f"show {kept.id}")
            await store.push(write)

    async def test_a_kept_file_is_read_again(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        kept = await store.keep_file(note, "plan one.png", "image/png", PICTURE)
        assert kept.made
        await self.shown(store, note.id, kept)
        assert await self.read_back(store, note.id, kept) == PICTURE

    async def test_a_repeated_call_makes_no_second_file(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        first = await store.keep_file(note, "plan.png", "image/png", PICTURE)
        again = await store.keep_file(await store.get(note.id), "plan.png", "image/png", PICTURE)
        assert (again.id, again.link, again.made) == (first.id, first.link, False)

    async def test_a_taken_name_is_left_alone(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        first = await store.keep_file(note, "plan.png", "image/png", PICTURE)
        second = await store.keep_file(await store.get(note.id), "plan.png", "image/png", OTHER)
        assert first.id != second.id
        assert second.made
        third = await store.keep_file(await store.get(note.id), "plan.png", "image/png", OTHER)
        assert (third.id, third.made) == (second.id, False)
        for kept in (first, second):
            await self.shown(store, note.id, kept)
        assert await self.read_back(store, note.id, first) == PICTURE
        assert await self.read_back(store, note.id, second) == OTHER

    async def test_two_calls_at_once_make_one_file(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        call = (note, "plan.png", "image/png", PICTURE)
        made = await asyncio.gather(*(store.keep_file(*call) for _ in range(3)))
        assert len({one.id for one in made}) == 1

    async def test_no_file_of_a_note_that_is_gone(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        await bench.remove(note.id)
        with pytest.raises(NoteNotFound):
            await store.keep_file(note, "plan.png", "image/png", PICTURE)

    async def test_a_file_that_is_too_large_is_refused(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        monkeypatch.setattr(store, "largest_file", len(PICTURE) - 1)
        with pytest.raises(StoreRejected):
            await store.keep_file(note, "plan.png", "image/png", PICTURE)

    async def test_only_these_bytes_are_discarded(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        kept = await store.keep_file(note, "plan.png", "image/png", PICTURE)
        wrong, digest = (hashlib.sha256(one).hexdigest() for one in (OTHER, PICTURE))
        assert not await store.discard_file(kept.id, wrong)
        again = await store.keep_file(await store.get(note.id), "plan.png", "image/png", PICTURE)
        assert not again.made
        assert await store.discard_file(kept.id, digest)
        with pytest.raises(NoteNotFound):
            await store.discard_file(kept.id, digest)
        await self.shown(store, note.id, kept)
        assert await self.read_back(store, note.id, kept) is None

    async def test_a_discarded_file_comes_back_whole_or_not_at_all(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        kept = await store.keep_file(note, "plan.png", "image/png", PICTURE)
        wrong, digest = (hashlib.sha256(one).hexdigest() for one in (OTHER, PICTURE))
        assert await store.discard_file(kept.id, digest)
        assert await store.restore_file(kept.id, wrong) is Restored.LOST
        found = await store.restore_file(kept.id, digest)
        await self.shown(store, note.id, kept)
        there = found is Restored.BACK
        assert await self.read_back(store, note.id, kept) == (PICTURE if there else None)

    async def test_a_file_that_was_not_discarded_is_there(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        kept = await store.keep_file(note, "plan.png", "image/png", PICTURE)
        digest = hashlib.sha256(PICTURE).hexdigest()
        twins = store.traits.ids.paths or store.traits.in_database
        expected = (
            Restored.THERE if twins else Restored.BACK
        )  # ids of the server's are nobody else's
        assert await store.restore_file(kept.id, digest) is expected

    async def test_the_room_shrinks_by_what_is_kept(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        before = (await store.find_room()).left
        await store.keep_file(note, "plan.png", "image/png", PICTURE)
        after = (await store.find_room()).left
        assert after is None or (before is not None and after == before - len(PICTURE))

    async def test_texts_that_show_a_file_have_its_mark(self, bench: Bench) -> None:
        store = cast("KeepingStore", bench.store)
        note = await self.create(bench, "n1", "a note")
        kept = await store.keep_file(note, "plan one.png", "image/png", PICTURE)
        assert not kept.link or any(mark in kept.link for mark in store.marks_of(kept.id))
