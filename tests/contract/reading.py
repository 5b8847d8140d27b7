"""Define the contract of reading: get, list, change feed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from typing import cast

import pytest

from contract.bench import Bench, OnABench, nothing_known
from mcp_notarium.domain.note import MARKS, Content, Revision, Tombstone
from mcp_notarium.errors import CursorLost, NoteNotFound
from mcp_notarium.stores.contract import (
    ChangePage,
    Changes,
    Entry,
    ListingPage,
    ListingStore,
    VersionPage,
    Versions,
    is_supported,
)


async def or_lost(asked: Awaitable[ChangePage]) -> ChangePage | None:
    """What is told of changes; None: everything must be listed."""
    with suppress(CursorLost):
        return await asked
    return None


class ReadingContract(OnABench):
    async def test_the_engine_is_tested_with_such_traits(self, bench: Bench) -> None:
        assert is_supported(bench.store.traits), "see SUPPORTED in stores/contract.py"
        assert bench.store.traits.properties <= {*MARKS}, "see MARKS in domain/note.py"

    @pytest.mark.parametrize("note_id", ["unknown", "", ".", "..", "../..", "a/b", "\ud800", "%2e"])
    async def test_missing_note_is_not_found(self, bench: Bench, note_id: str) -> None:
        await self.create(bench, "n1", "here")
        with pytest.raises(NoteNotFound):
            await bench.store.get(note_id)

    async def test_older_revision_can_be_read_where_there_are_versions(self, bench: Bench) -> None:
        if bench.store.traits.versions is not Versions.BY_ETAG:
            return
        old = await self.create(bench, "n1", "old")
        await bench.put(old.id, "new")
        assert (await bench.store.get(old.id, etag=old.etag)).content.text == "old"
        assert (await bench.store.get(old.id)).content.text == "new"
        for etag in ("9999", "not-one-of-ours"):
            with pytest.raises(NoteNotFound):
                await bench.store.get(old.id, etag=etag)

    async def listed_versions(
        self, bench: Bench, note_id: str, newest: str, *, limit: int
    ) -> list[Revision]:
        found: list[Revision] = []
        place: str | None = newest
        while place is not None:
            page: VersionPage = await bench.store.list_versions(  # type: ignore[attr-defined] - by its trait
                note_id, before=place, limit=limit
            )
            found += page.revisions
            place = page.more
        return found

    async def test_older_revisions_are_listed_newest_first_and_can_be_read(
        self, bench: Bench
    ) -> None:
        store = bench.store
        if store.traits.versions is Versions.NONE:
            return
        newest = await self.create(bench, "n1", "one")
        await bench.put("n2", "another note")
        for number, text in enumerate(("two", "three", "four")):
            content = replace(newest.content, text=text)
            write = self.write(store, newest.id, content, base=newest, write_id=f"0{number}")
            newest = (await store.push(write)).revision
        for limit in (1, 2, 99):
            found = await self.listed_versions(bench, newest.id, newest.etag, limit=limit)
            assert [one.content.text.strip() for one in found] == ["three", "two", "one"]
        assert [one.id for one in found] == [newest.id] * 3
        for one in found:
            read = await store.get(newest.id, etag=one.etag)
            assert (read.etag, read.content) == (one.etag, one.content)
            assert read.tags_understood == one.tags_understood
        bench.forget_versions(newest.id)
        left = await self.listed_versions(bench, newest.id, newest.etag, limit=2)
        assert len(left) in (0, 3)
        await bench.remove(newest.id)
        for gone in (newest.id, "unknown", "..", "a/b"):
            assert await self.listed_versions(bench, gone, newest.etag, limit=2) == []

    async def test_an_older_revision_is_found_by_its_words_and_date(self, bench: Bench) -> None:
        if bench.store.traits.versions is not Versions.LISTED:
            return
        store = cast("ListingStore", bench.store)
        now = await self.create(bench, "n1", "one")
        for number, text in enumerate(("two", "three")):
            write = self.write(
                store, "n1", replace(now.content, text=text), base=now, write_id=f"0{number}"
            )
            now = (await store.push(write)).revision
        older = await self.listed_versions(bench, "n1", now.etag, limit=9)
        for one in older:
            for at in (one.modified_at, 7.0):
                assert await store.find_version("n1", one.content, at=at, now=now.content) == one
        if not older:
            return  # this version of the service lists none
        others = [replace(now.content, text="never"), replace(older[0].content, title="Never")]
        for content in others:
            at = older[0].modified_at
            assert await store.find_version("n1", content, at=at, now=now.content) is None
        assert await store.find_version("n2", older[0].content, at=1.0, now=now.content) is None

    async def test_listing_is_complete_newest_first_with_trash(self, bench: Bench) -> None:
        trash = bench.store.traits.trash
        for number in range(7):
            await bench.put(f"n{number}", f"text {number}", trash=trash and number == 3)
        for limit in (1, 2, 3, 7, 100):
            _, entries = await self.whole_listing(bench.store, limit=limit)
            assert [entry.id for entry in entries] == [f"n{number}" for number in range(6, -1, -1)]
        assert all(isinstance(entry, Revision) for entry in entries)
        assert [e.id for e in entries if e.content.trash] == (["n3"] if trash else [])

    async def test_a_listed_note_equals_the_fetched_one_and_is_counted(self, bench: Bench) -> None:
        for number in range(3):
            await bench.put(f"n{number}", f"text {number}\n", tags=("a",))
        page = await bench.store.list_page(since=None, mark=None, limit=2, with_content=True)
        assert (page.total in (None, 3), page.left_out) == (True, 0)
        _, entries = await self.whole_listing(bench.store, limit=2)
        assert entries == [await bench.store.get(one.id) for one in entries]

    async def test_listing_without_content_has_the_same_etags(self, bench: Bench) -> None:
        for number in range(3):
            await bench.put(f"n{number}", "text")
        _, whole = await self.whole_listing(bench.store, limit=2)
        _, bare = await self.whole_listing(bench.store, limit=2, with_content=False)
        assert all(isinstance(entry, Entry) for entry in bare)
        assert [(e.id, e.etag) for e in bare] == [(e.id, e.etag) for e in whole]

    async def identities(self, bench: Bench) -> dict[str, str | None]:
        """The identity of each note, which every answer tells alike."""
        _, bare = await self.whole_listing(bench.store, limit=2, with_content=False)
        _, whole = await self.whole_listing(bench.store, limit=2)
        found = {entry.id: entry.identity for entry in bare}
        assert found == {entry.id: entry.identity for entry in whole}
        for note_id, identity in found.items():
            assert (await bench.store.get(note_id)).identity == identity
        return found

    async def test_an_identity_stays_with_a_note_and_is_never_given_to_another(
        self, bench: Bench
    ) -> None:
        await bench.put("n1", "same text")
        await bench.put("n2", "same text")
        before = await self.identities(bench)
        if None in before.values():
            assert {*before.values()} == {None}
            return
        assert len({*before.values()}) == 2
        await asyncio.sleep(0.02)  # a file system counts time in steps of some milliseconds
        await bench.rename("n1", "n3")
        await bench.remove("n2")
        for number in range(4, 8):
            await bench.put(f"n{number}", "same text")
        after = await self.identities(bench)
        assert after.pop("n3") == before["n1"]
        assert len({*after.values(), *before.values()}) == 6

    async def test_the_answer_to_a_write_tells_the_identity(self, bench: Bench) -> None:
        made = await self.create(bench, "n1", "one\n")
        assert made.identity == (await bench.store.get(made.id)).identity
        write = self.write(bench.store, made.id, Content("two\n"), base=made, write_id="0b")
        changed = (await bench.store.push(write)).revision
        assert changed.identity == (await bench.store.get(made.id)).identity

    async def test_another_tag_is_another_etag(self, bench: Bench) -> None:
        if not bench.store.traits.tags:
            return
        await bench.put("n1", "text", tags=("a",))
        before = (await bench.store.get("n1")).etag
        await bench.put("n1", "text", tags=("b",))
        found = await bench.store.get("n1")
        assert (found.content.tags, found.etag != before) == (("b",), True)

    async def test_a_snapshot_has_every_write_that_was_answered(self, bench: Bench) -> None:
        if bench.store.traits.changes != Changes.SNAPSHOT:
            return
        made = [await self.create(bench, f"n{number}", f"{number}\n") for number in range(3)]
        for with_content in (True, False):
            _, listed = await self.whole_listing(bench.store, limit=9, with_content=with_content)
            assert {(e.id, e.etag) for e in listed} == {(e.id, e.etag) for e in made}

    async def test_change_during_a_listing_is_reported_after_the_first_cursor(
        self, bench: Bench
    ) -> None:
        for number in range(4):
            await bench.put(f"n{number}", "old")
        first = await bench.store.list_page(since=None, mark=None, limit=2, with_content=True)
        await bench.put("n0", "moved in front of the mark")
        rest = await bench.store.list_page(
            since=None, mark=first.next_mark, limit=10, with_content=True
        )
        found = await self.news_since(bench, first)
        seen = {entry.id for entry in (*first.entries, *rest.entries)} | found
        assert seen == {"n0", "n1", "n2", "n3"}
        assert "n0" in found

    async def news_since(self, bench: Bench, page: ListingPage) -> set[str]:
        if Changes.FEED in bench.store.traits.changes:
            news = await bench.store.changes(page.cursor, wait=False, base_of=nothing_known)
            return {change.id for change in news.changes}
        _, entries = await self.whole_listing(bench.store, limit=10, since=page.cursor)
        return {entry.id for entry in entries}

    async def test_listing_since_a_cursor_has_only_what_changed(self, bench: Bench) -> None:
        if Changes.DELTA not in bench.store.traits.changes:
            return
        for number in range(3):
            await bench.put(f"n{number}", "old")
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        _, nothing = await self.whole_listing(bench.store, limit=10, since=cursor)
        await bench.put("n1", "new")
        await bench.remove("n2")
        _, changed = await self.whole_listing(bench.store, limit=10, since=cursor)
        assert nothing == []
        assert [entry.id for entry in changed] == ["n1"]

    async def test_unknown_cursor_is_lost(self, bench: Bench) -> None:
        await bench.put("n1", "x")
        if Changes.FEED in bench.store.traits.changes:
            with pytest.raises(CursorLost):
                await bench.store.changes("feedfeed", wait=False, base_of=nothing_known)
        if Changes.DELTA in bench.store.traits.changes:
            with pytest.raises(CursorLost):
                await bench.store.list_page(
                    since="feedfeed", mark=None, limit=10, with_content=False
                )

    async def feed(self, bench: Bench, cursor: str, *known: Revision) -> ChangePage:
        bases = {revision.id: revision for revision in known}
        return await bench.store.changes(cursor, wait=False, base_of=bases.get)

    async def probe(self, bench: Bench, cursor: str) -> ChangePage | None:
        return await or_lost(self.feed(bench, cursor))

    async def require_told(
        self, bench: Bench, page: ChangePage | None, cursor: str, note_id: str | None
    ) -> None:
        """A SNAPSHOT store names the note that is new or has changed, or (None) has everything listed."""
        if page is None:
            return
        assert page.cursor != cursor
        assert note_id is not None, "only a full listing shows that a note is gone"
        (entry,) = page.changes
        assert isinstance(entry, Entry)
        assert (entry.id, entry.etag) == (note_id, (await bench.store.get(note_id)).etag)

    async def test_quiet_feed_is_empty_and_keeps_its_cursor(self, bench: Bench) -> None:
        if Changes.FEED not in bench.store.traits.changes:
            return
        await bench.put("n1", "x")
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        assert await self.feed(bench, cursor) == ChangePage((), cursor)

    async def test_feed_tells_each_note_once_with_its_newest_etag(self, bench: Bench) -> None:
        if Changes.FEED not in bench.store.traits.changes:
            return
        await bench.put("n1", "1")
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        for text in ("12", "123", "1234"):
            await bench.put("n1", text)
            await bench.put("n2", text)
        await bench.put("n1", "last")
        told: dict[str, str] = {}
        page = await self.feed(bench, cursor)
        while page.changes:
            ids = [change.id for change in page.changes]
            assert len({*ids}) == len(ids)
            assert not [one for one in page.changes if isinstance(one, Tombstone)]
            for change in page.changes:
                told.pop(change.id, None)
                told[change.id] = change.etag
            page = await self.feed(bench, page.cursor)
        assert page == ChangePage((), page.cursor)
        heads = {note_id: (await bench.store.get(note_id)).etag for note_id in ("n1", "n2")}
        assert [*told] == ["n2", "n1"], "the oldest comes first"
        assert all(told[note_id] in ("", heads[note_id]) for note_id in heads)

    async def test_revision_in_the_feed_equals_the_fetched_one(self, bench: Bench) -> None:
        if Changes.FEED not in bench.store.traits.changes:
            return
        base = await self.create(bench, "n1", "one 😀\ntwo\n")
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        await bench.put(base.id, "one 😁\n2\nthree\r\n", tags=("a", "b"), trash=True)
        page = await self.feed(bench, cursor, base)
        fetched = await bench.store.get(base.id)
        for change in page.changes:
            named = isinstance(change, Entry)
            assert named or change == fetched
            assert change.etag == fetched.etag or (named and change.etag == "")

    async def test_removed_and_recreated_note_is_reported_as_existing(self, bench: Bench) -> None:
        if Changes.FEED not in bench.store.traits.changes:
            return
        base = await self.create(bench, "n1", "first life")
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        await bench.remove(base.id)
        await bench.put(base.id, "second life")
        (change,) = (await self.feed(bench, cursor, base)).changes
        assert not isinstance(change, Tombstone)
        assert change.etag != base.etag

    async def test_aged_cursor_is_lost(self, bench: Bench) -> None:
        if Changes.FEED not in bench.store.traits.changes:
            return
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        await bench.put("n1", "x")
        bench.forget_cursors()
        with pytest.raises(CursorLost):
            await self.feed(bench, cursor)

    async def test_a_probe_is_quiet_until_something_changes(self, bench: Bench) -> None:
        if not bench.store.traits.probe:
            return
        await bench.put("n1", "x")
        await bench.put("n2", "y")

        async def settled() -> str:
            """Right after a change a store may say once more that something has changed."""
            for _ in range(100):
                cursor, _ = await self.whole_listing(bench.store, limit=1)
                if await self.probe(bench, cursor) == ChangePage((), cursor):
                    return cursor
                await asyncio.sleep(0.02)
            raise AssertionError("it is never quiet")

        for change, note_id in (
            (lambda: bench.put("n1", "z"), "n1"),
            (lambda: bench.put("n3", "x"), "n3"),
            (lambda: bench.remove("n2"), None),
        ):
            cursor = await settled()
            await change()
            await self.require_told(bench, await self.probe(bench, cursor), cursor, note_id)

    async def test_long_poll_wakes_on_a_change(self, bench: Bench) -> None:
        if not bench.store.traits.long_poll:
            return
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        poll = asyncio.create_task(bench.store.changes(cursor, wait=True, base_of=nothing_known))
        try:
            await bench.put("n1", "x")
            if bench.store.traits.changes is Changes.SNAPSHOT:
                told = await asyncio.wait_for(or_lost(poll), 5)
                await self.require_told(bench, told, cursor, "n1")
                return
            page = await asyncio.wait_for(poll, 5)
        finally:
            poll.cancel()
        assert [change.id for change in page.changes] == ["n1"]
