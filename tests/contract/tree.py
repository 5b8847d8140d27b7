"""Define the contract of stores with folders under ids (``traits.tree``): where notes stand, and how they move."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import cast

import pytest

from contract.bench import Bench, OnABench
from mcp_notarium.domain.note import Content, Note, PendingWrite
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import (
    InvalidRequest,
    LoginRequired,
    NoteLeft,
    NoteNotFound,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.library.native_reads import NativeIndex
from mcp_notarium.stores.extensions import MovingStore, PublishingStore, Replaced, TreeReads
from mcp_notarium.stores.kind import Tree
from support.sync_rig import open_cache, quick_folder

HIDDEN = Visibility(hidden_ids=("n1",))


class TreeContract(OnABench):
    """Folders are Work, Work/Plans and Home; ``n1`` lies in Plans, ``n2`` in Work."""

    @asynccontextmanager
    async def reads(
        self, bench: Bench, *, rules: Visibility | None = None
    ) -> AsyncIterator[tuple[TreeReads, NativeIndex]]:
        """The reads of the tree, and the index that judges them; it knows both notes."""
        for folder, title, above in (
            ("work", "Work", ""),
            ("plans", "Plans", "work"),
            ("home", "Home", ""),
        ):
            await bench.put_folder(folder, title, above)
        for note_id, folder in (("n1", "plans"), ("n2", "work")):
            await bench.put(note_id, "text\n")
            await bench.place(note_id, folder)
        with quick_folder() as place:
            cache = open_cache(place, rules or Visibility())
            index = NativeIndex(cache, bench.store)
            for note_id in ("n1", "n2"):
                await index.refresh(note_id)
            yield bench.store.native(index), index  # type: ignore[attr-defined] - by its trait
            cache.close()

    async def moving(
        self, bench: Bench, reads: TreeReads, index: NativeIndex, folder: str
    ) -> PendingWrite:
        """The write that takes ``n1`` to a folder."""
        note = index.get("n1")
        assert note is not None
        content = await reads.moved(note, note.content, await reads.find_place(folder), strict=True)
        assert content is not None
        return self.write(bench.store, "n1", content, base=index.base("n1"), write_id="0b")

    @staticmethod
    def note(index: NativeIndex) -> Note:
        found = index.get("n1")
        assert found is not None
        return found

    async def test_folders_are_listed_in_order_with_what_is_in_them(self, bench: Bench) -> None:
        inner = bench.store.traits.tree is Tree.NOTES  # Plans is itself a note below Work
        async with self.reads(bench) as (reads, _):
            found = {one.id: one for one in await reads.list_parents()}
            assert [one for one in found if one in ("work", "plans")] == ["work", "plans"]
            paths = [re.split(" > |/", found[one].path) for one in ("work", "plans")]
            assert paths == [["Work"], ["Work", "Plans"]]
            assert (found["work"].notes, found["work"].below) == (1 + inner, 2 + inner)
            assert (found["plans"].notes, found["plans"].below) == (1, 1)

    async def test_what_the_rules_hide_is_neither_listed_nor_counted(self, bench: Bench) -> None:
        inner = bench.store.traits.tree is Tree.NOTES
        async with self.reads(bench, rules=HIDDEN) as (reads, _):
            found = {one.id: one for one in await reads.list_parents()}
            assert {"plans", "home"}.isdisjoint(found)
            assert (found["work"].notes, found["work"].below) == (1 + inner, 1 + inner)

    async def test_a_place_is_found_by_its_id_and_by_its_path(self, bench: Bench) -> None:
        async with self.reads(bench) as (reads, _):
            paths = {one.id: one.path for one in await reads.list_parents()}
            for name in ("plans", paths["plans"]):
                place = await reads.find_place(name)
                assert place.id == "plans"
                assert {"plans", "work"} <= {*place.above}
                assert "home" not in place.above
            for name in ("nowhere", "Work/Nowhere", "Work > Nowhere", "../x"):
                with pytest.raises(InvalidRequest) as refused:
                    await reads.find_place(name)
                assert refused.value.resolution_hint

    async def test_a_note_moves_and_moves_back_with_all_that_it_says(self, bench: Bench) -> None:
        store = cast("MovingStore", bench.store)
        async with self.reads(bench) as (reads, index):
            before = await store.get("n1")
            write = await self.moving(bench, reads, index, "home")
            replaced = await store.find_replaced("n1", write.body)
            assert replaced is not None
            assert replaced.names == store.name_parts(replaced.native) != ()
            assert store.shown_form(replaced.native)
            assert store.revision_of("n1", write.body).content == before.content
            moved = (await store.push(write)).revision
            assert bench.folders_of("n1") == {"home"}
            assert moved == await store.get("n1")
            assert (moved.content, moved.etag != before.etag) == (before.content, True)
            assert await store.find_replaced("n1", write.body) == Replaced()
            await index.refresh("n1")
            home = await reads.find_place("home")
            note = self.note(index)
            assert await reads.moved(note, note.content, home, strict=True) is None

            back = await reads.moved_back(
                note, note.content, store.move_of(replaced.native), strict=True
            )
            write = self.write(store, "n1", back, base=index.base("n1"), write_id="0c")
            assert (await store.push(write)).revision.content == before.content
            assert bench.folders_of("n1") == {"plans"}

    async def test_a_body_says_its_move_and_another_one_none(self, bench: Bench) -> None:
        store = cast("MovingStore", bench.store)
        async with self.reads(bench) as (reads, index):
            write = await self.moving(bench, reads, index, "home")
            move = store.move_of(write.body)
            assert move == store.move_of(move.encode()) != ""
            longer = replace(self.note(index).content, text="text\nmore\n", native=move)
            again = self.write(store, "n1", longer, base=index.base("n1"), write_id="0c")
            assert store.move_of(again.body) == move
            stored = (await store.push(again)).revision
            assert "more" in stored.content.text
            assert bench.folders_of("n1") == {"home"}
            plain = self.write(store, "n1", Content("other\n"), base=stored, write_id="0d")
            assert await store.find_replaced("n1", plain.body) is None
            assert (store.move_of(plain.body), store.name_parts(b"")) == ("", ())
            await store.push(plain)
            assert bench.folders_of("n1") == {"home"}

    async def test_a_note_that_others_have_moved_stays_where_they_put_it(
        self, bench: Bench
    ) -> None:
        store = cast("MovingStore", bench.store)
        async with self.reads(bench) as (reads, index):
            write = await self.moving(bench, reads, index, "home")
            await bench.place("n1", "work")
            with pytest.raises(VersionConflict):
                await store.find_replaced("n1", write.body)
            with pytest.raises(VersionConflict):
                await store.push(write)
            assert bench.folders_of("n1") == {"work"}
            with pytest.raises(VersionConflict):  # the index still knows the place before
                await store.push(await self.moving(bench, reads, index, "home"))
            assert bench.folders_of("n1") == {"work"}

    async def test_a_note_that_is_gone_is_not_moved(self, bench: Bench) -> None:
        store = cast("MovingStore", bench.store)
        async with self.reads(bench) as (reads, index):
            write = await self.moving(bench, reads, index, "home")
            note, home = self.note(index), await reads.find_place("home")
            await bench.remove("n1")
            for call in (
                store.find_replaced("n1", write.body),
                store.find_inside("n1", None, ["work"]),
                store.push(write),
            ):
                with pytest.raises(NoteNotFound):
                    await call
            with pytest.raises((NoteLeft, NoteNotFound)):
                await reads.moved(note, note.content, home, strict=True)
            with pytest.raises(KeyError):
                await bench.text("n1")

    async def test_it_is_told_below_which_places_a_note_is_or_will_be(self, bench: Bench) -> None:
        store = cast("MovingStore", bench.store)
        tops = ("work", "plans", "home", "n1")
        async with self.reads(bench) as (reads, index):
            write = await self.moving(bench, reads, index, "home")
            plain = self.write(store, "n1", Content("other\n"), base=index.base("n1"))
            for body in (None, plain.body):
                assert {*await store.find_inside("n1", body, tops)} == {"work", "plans", "n1"}
            assert {*await store.find_inside("n1", write.body, tops)} == {"home"}
            new = self.write(store, "n3", Content("new\n"))
            assert not await store.find_inside("", new.body, tops)
            await bench.place("n1", "work")
            assert {*await store.find_inside("n1", None, tops)} == {"work", "n1"}

    async def test_a_tree_that_cannot_be_read_is_an_error(self, bench: Bench) -> None:
        async with self.reads(bench) as (reads, _):
            bench.refuse_login()
            with pytest.raises(LoginRequired):
                await reads.list_parents()
            bench.unreachable()
            with pytest.raises(StoreUnavailable):
                await reads.list_parents()

    async def test_a_note_becomes_public_only_by_a_body_that_says_so(self, bench: Bench) -> None:
        if not bench.store.traits.publishes:
            return
        store = cast("PublishingStore", bench.store)
        async with self.reads(bench) as (reads, index):
            base = await store.get("n1")
            assert await store.find_published(base, replace(base.content, text="other\n")) is None
            unasked = await self.moving(bench, reads, index, "home")
            await bench.publish("home")
            with pytest.raises(StoreRejected) as refused:
                await store.push(unasked)
            assert refused.value.subcategory == "public"
            assert bench.folders_of("n1") == {"plans"}
            note, home = self.note(index), await reads.find_place("home")
            content = await reads.moved(note, note.content, home, strict=True)
            assert content is not None
            published = await store.find_published(base, content)
            assert published is not None
            assert published.ids == {"n1"}
            write = self.write(store, "n1", content, base=index.base("n1"), write_id="0c")
            await store.push(write)
            assert bench.folders_of("n1") == {"home"}
            held = await store.get("n1")
            assert await store.find_published(held, replace(held.content, text="z\n")) is None
