"""What every backend must do, as tests: subclass ``BackendContract`` and give it a bench.

A bench is a store under test with a client of it and the hand of another device. Tests that need
something a store need not have ask ``capabilities`` and nothing else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Protocol

import pytest

from mcp_notarium.backends.base import Answer, Backend, ChangePage, Entry, ListingPage
from mcp_notarium.errors import (
    BackendRejected,
    BackendTimeout,
    BackendUnavailable,
    CursorLost,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    VersionConflict,
)
from mcp_notarium.notes.note import Content, Revision, Tombstone
from mcp_notarium.notes.pending import PendingWrite, WriteKind

SECRET_TEXT = "canary-7f3a in the text"
TEXTS = [
    "",
    "a",
    "no final newline",
    "ends with one\n",
    "windows\r\nlines\r\n",
    "lone\rreturn",
    "tab\tand\x00nul and \x0b",
    "línea ñandú ł đ ø",
    "e\u0301 and é are two",
    "汉字 かな 한글 ไทย",
    "flags 🇩🇪 family 👨‍👩‍👧 \U0001f600",
    "separators \u2028 \u2029 \x85",
    'quotes " \\ / <b> %41 ' + "&amp;",
    "\ufeffbyte order mark",
    "x" * 100_000,
]


class Bench(Protocol):
    """One store under test."""

    backend: Backend

    async def put(
        self, note_id: str, text: str, *, tags: tuple[str, ...] = (), trash: bool = False
    ) -> None:
        """Another device creates or overwrites a note."""

    async def remove(self, note_id: str) -> None:
        """Another device deletes a note for good."""

    async def text(self, note_id: str) -> str:
        """The text the store holds. ``KeyError`` if the note is gone."""

    def forget_cursors(self) -> None:
        """The store no longer knows any cursor given out so far."""

    def forget_versions(self, note_id: str) -> None:
        """The store no longer knows any version of a note but the newest."""

    def refuse_login(self) -> None:
        """No login works from now on."""

    def unreachable(self) -> None:
        """Nothing sent from now on arrives."""

    def lose_answers(self, times: int) -> None:
        """The next ``times`` requests are carried out and not answered."""

    def lose_requests(self, times: int) -> None:
        """The next ``times`` requests arrive and are cut off before anything is done."""

    def hang(self) -> None:
        """The next write is not answered for a long while."""


def nothing_known(_note_id: str) -> Revision | None:
    return None


class BackendContract:
    """Subclass, give ``bench``, inherit the tests."""

    pytestmark = pytest.mark.anyio

    def open_bench(self) -> AbstractAsyncContextManager[Bench]:
        """A fresh store with a client; what it opens it closes."""
        raise AssertionError("a contract needs a bench")

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def bench(self, anyio_backend: str) -> AsyncIterator[Bench]:
        async with self.open_bench() as bench:
            yield bench

    # Words

    @staticmethod
    def write(
        backend: Backend,
        note_id: str,
        content: Content,
        *,
        base: Revision | None = None,
        write_id: str = "00aa",
        now: float = 1_700_000_000.0,
    ) -> PendingWrite:
        return PendingWrite(
            write_id=write_id,
            note_id=note_id,
            kind=WriteKind.UPDATE if base else WriteKind.CREATE,
            base_etag=base.etag if base else None,
            content=content,
            body=backend.compose(base, content, now=now),
            created_at=now,
            owner="test",
            lease_until=now + 60,
        )

    @classmethod
    async def create(
        cls, bench: Bench, note_id: str, text: str, *, write_id: str = "c1", trash: bool = False
    ) -> Revision:
        content = Content(text, trash=trash)
        write = cls.write(bench.backend, note_id, content, write_id=write_id)
        return (await bench.backend.push(write)).revision

    @staticmethod
    async def whole_listing(
        backend: Backend, *, limit: int, since: str | None = None, with_content: bool = True
    ) -> tuple[str, list[Revision | Entry]]:
        entries: list[Revision | Entry] = []
        first = page = await backend.list_page(
            since=since, mark=None, limit=limit, with_content=with_content
        )
        for _ in range(100):
            entries += page.entries
            if page.next_mark is None:
                return first.cursor, entries
            page = await backend.list_page(
                since=since, mark=page.next_mark, limit=limit, with_content=with_content
            )
        raise AssertionError("the listing never ends")

    # Text

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    async def test_text_comes_back_byte_for_byte(self, bench: Bench, text: str) -> None:
        pushed = await self.create(bench, "n1", text)
        assert pushed.content.text == text
        assert (await bench.backend.get("n1")).content.text == text
        assert await bench.text("n1") == text

    async def test_lone_surrogates_become_replacement_characters(self, bench: Bench) -> None:
        pushed = await self.create(bench, "n1", "half \ud83d of a pair")
        assert pushed.content.text == "half \ufffd of a pair"
        assert await bench.text("n1") == "half \ufffd of a pair"

    async def test_tags_keep_order_and_case(self, bench: Bench) -> None:
        content = Content("t", tags=("Zeta", "alpha", "ÄÖ", "zeta2"))
        answer = await bench.backend.push(self.write(bench.backend, "n1", content))
        assert answer.revision.content == content
        assert (await bench.backend.get("n1")).content == content

    # Pushing

    async def test_created_note_is_listed_and_told_in_the_feed(self, bench: Bench) -> None:
        cursor, before = await self.whole_listing(bench.backend, limit=10)
        assert before == []
        revision = await self.create(bench, "n1", "hello")
        _, after = await self.whole_listing(bench.backend, limit=10)
        assert [entry.id for entry in after] == ["n1"]
        assert after[0].etag == revision.etag
        if bench.backend.capabilities.change_feed:
            page = await bench.backend.changes(cursor, wait=False, base_of=nothing_known)
            assert [change.id for change in page.changes] == ["n1"]

    async def test_update_keeps_unknown_fields_and_the_creation_date(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "one\n")
        raw = json.loads(base.raw) | {"savedate": 17, "syncdate": 1.5, "junk": {"a": [1, None]}}
        extended = replace(base, raw=json.dumps(raw))
        write = self.write(
            bench.backend, "n1", Content("two\n"), base=extended, write_id="0b", now=1_700_000_500
        )
        answer = await bench.backend.push(write)
        kept = json.loads(answer.revision.raw)
        assert (kept["savedate"], kept["syncdate"], kept["junk"]) == (17, 1.5, {"a": [1, None]})
        assert answer.revision.created_at == base.created_at
        assert answer.revision.modified_at == 1_700_000_500

    async def test_etag_changes_with_every_stored_push(self, bench: Bench) -> None:
        one = await self.create(bench, "n1", "one")
        write = self.write(bench.backend, "n1", Content("two"), base=one, write_id="0b")
        two = await bench.backend.push(write)
        assert two.answer is Answer.STORED
        assert two.revision.etag != one.etag

    async def test_composed_body_reads_as_what_is_stored(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "one\n")
        content = Content("two\r\n", tags=("x",), trash=True)
        write = self.write(bench.backend, "n1", content, base=base, write_id="0b")
        expected = bench.backend.revision_of("n1", write.body)
        stored = (await bench.backend.push(write)).revision
        assert expected.etag == ""
        assert expected.content == content == stored.content
        assert expected.modified_at == stored.modified_at

    async def test_repeated_write_id_has_no_second_effect(self, bench: Bench) -> None:
        if not bench.backend.capabilities.idempotent_push:
            return
        base = await self.create(bench, "n1", "a\n")
        write = self.write(bench.backend, "n1", Content("a\nb\n"), base=base, write_id="0b")
        first = await bench.backend.push(write)
        again = await bench.backend.push(write)
        assert again.answer is Answer.REPEATED
        assert again.revision == first.revision
        assert await bench.text("n1") == "a\nb\n"

    async def test_repeated_create_makes_no_second_note(self, bench: Bench) -> None:
        if not bench.backend.capabilities.idempotent_push:
            return
        write = self.write(bench.backend, "n1", Content("a"))
        await bench.backend.push(write)
        assert (await bench.backend.push(write)).answer is Answer.REPEATED
        _, entries = await self.whole_listing(bench.backend, limit=10)
        assert len(entries) == 1

    async def test_push_that_changes_nothing_says_so(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "same")
        write = self.write(bench.backend, "n1", base.content, base=base, write_id="0b", now=2e9)
        answer = await bench.backend.push(write)
        assert answer.answer is Answer.UNCHANGED
        assert answer.revision.etag == base.etag
        assert answer.revision.modified_at == base.modified_at

    async def test_stale_base_is_refused_or_merged_as_the_capabilities_say(
        self, bench: Bench
    ) -> None:
        base = await self.create(bench, "n1", "b")
        await bench.put("n1", "bc")
        write = self.write(bench.backend, "n1", Content("bd"), base=base, write_id="0b")
        if bench.backend.capabilities.detects_stale_base:
            with pytest.raises(VersionConflict):
                await bench.backend.push(write)
            assert await bench.text("n1") == "bc"
        else:
            answer = await bench.backend.push(write)
            assert answer.answer is Answer.STORED
            assert answer.revision.content.text == "bcd" == await bench.text("n1")

    async def test_base_that_the_store_forgot_is_a_conflict(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "b")
        await bench.put("n1", "bc")
        bench.forget_versions("n1")
        write = self.write(bench.backend, "n1", Content("bd"), base=base, write_id="0b")
        with pytest.raises(VersionConflict):
            await bench.backend.push(write)
        assert await bench.text("n1") == "bc"

    async def test_foreign_etag_is_a_conflict(self, bench: Bench) -> None:
        base = replace(await self.create(bench, "n1", "b"), etag="not-one-of-ours")
        write = self.write(bench.backend, "n1", Content("bd"), base=base, write_id="0b")
        with pytest.raises(VersionConflict):
            await bench.backend.push(write)
        assert await bench.text("n1") == "b"

    async def test_push_to_a_note_that_is_gone_finds_nothing(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "b")
        await bench.remove("n1")
        write = self.write(bench.backend, "n1", Content("bd"), base=base, write_id="0b")
        with pytest.raises(NoteNotFound):
            await bench.backend.push(write)

    # Getting

    @pytest.mark.parametrize("note_id", ["unknown", "", ".", "..", "../..", "a/b", "\ud800", "%2e"])
    async def test_missing_note_is_not_found(self, bench: Bench, note_id: str) -> None:
        await self.create(bench, "n1", "here")
        with pytest.raises(NoteNotFound):
            await bench.backend.get(note_id)

    async def test_older_revision_can_be_read_where_there_are_versions(self, bench: Bench) -> None:
        if not bench.backend.capabilities.has_versions:
            return
        old = await self.create(bench, "n1", "old")
        await bench.put("n1", "new")
        assert (await bench.backend.get("n1", etag=old.etag)).content.text == "old"
        assert (await bench.backend.get("n1")).content.text == "new"
        for etag in ("9999", "not-one-of-ours"):
            with pytest.raises(NoteNotFound):
                await bench.backend.get("n1", etag=etag)

    # Deleting

    async def test_deleted_note_is_gone_and_leaves_a_tombstone(self, bench: Bench) -> None:
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        revision = await self.create(bench, "n1", "x", trash=True)
        await bench.backend.delete("n1", etag=revision.etag, write_id="0d")
        with pytest.raises(NoteNotFound):
            await bench.backend.get("n1")
        _, entries = await self.whole_listing(bench.backend, limit=10)
        assert entries == []
        if bench.backend.capabilities.change_feed:
            page = await bench.backend.changes(cursor, wait=False, base_of=nothing_known)
            assert page.changes == (Tombstone("n1"),)

    async def test_delete_of_a_changed_note_is_a_conflict(self, bench: Bench) -> None:
        revision = await self.create(bench, "n1", "x", trash=True)
        await bench.put("n1", "somebody edits", trash=True)
        with pytest.raises(VersionConflict):
            await bench.backend.delete("n1", etag=revision.etag, write_id="0d")
        assert await bench.text("n1") == "somebody edits"

    async def test_delete_of_a_note_that_is_gone_is_done(self, bench: Bench) -> None:
        revision = await self.create(bench, "n1", "x", trash=True)
        await bench.backend.delete("n1", etag=revision.etag, write_id="0d")
        await bench.backend.delete("n1", etag=revision.etag, write_id="0d")
        await bench.backend.delete("n1", etag=revision.etag, write_id="0e")
        await bench.backend.delete("never-was", etag=revision.etag, write_id="0f")

    async def test_note_outside_the_trash_is_not_deleted(self, bench: Bench) -> None:
        if not bench.backend.capabilities.trash_before_delete:
            return
        revision = await self.create(bench, "n1", "x")
        with pytest.raises(BackendRejected):
            await bench.backend.delete("n1", etag=revision.etag, write_id="0d")
        assert await bench.text("n1") == "x"

    # Listing

    async def test_listing_is_complete_newest_first_with_trash(self, bench: Bench) -> None:
        for number in range(7):
            await bench.put(f"n{number}", f"text {number}", trash=number == 3)
        for limit in (1, 2, 3, 7, 100):
            _, entries = await self.whole_listing(bench.backend, limit=limit)
            assert [entry.id for entry in entries] == [f"n{number}" for number in range(6, -1, -1)]
        assert all(isinstance(entry, Revision) for entry in entries)
        assert [entry.id for entry in entries if entry.content.trash] == ["n3"]

    async def test_listing_without_content_has_the_same_etags(self, bench: Bench) -> None:
        for number in range(3):
            await bench.put(f"n{number}", "text")
        _, whole = await self.whole_listing(bench.backend, limit=2)
        _, bare = await self.whole_listing(bench.backend, limit=2, with_content=False)
        assert all(isinstance(entry, Entry) for entry in bare)
        assert [(e.id, e.etag) for e in bare] == [(e.id, e.etag) for e in whole]

    async def test_change_during_a_listing_is_told_after_the_first_cursor(
        self, bench: Bench
    ) -> None:
        for number in range(4):
            await bench.put(f"n{number}", "old")
        first = await bench.backend.list_page(since=None, mark=None, limit=2, with_content=True)
        await bench.put("n0", "moved in front of the mark")
        rest = await bench.backend.list_page(
            since=None, mark=first.next_mark, limit=10, with_content=True
        )
        found = await self.news_since(bench, first)
        seen = {entry.id for entry in (*first.entries, *rest.entries)} | found
        assert seen == {"n0", "n1", "n2", "n3"}
        assert "n0" in found

    async def news_since(self, bench: Bench, page: ListingPage) -> set[str]:
        if bench.backend.capabilities.change_feed:
            news = await bench.backend.changes(page.cursor, wait=False, base_of=nothing_known)
            return {change.id for change in news.changes}
        _, entries = await self.whole_listing(bench.backend, limit=10, since=page.cursor)
        return {entry.id for entry in entries}

    async def test_listing_since_a_cursor_has_only_what_changed(self, bench: Bench) -> None:
        if not bench.backend.capabilities.delta_listing:
            return
        for number in range(3):
            await bench.put(f"n{number}", "old")
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        _, nothing = await self.whole_listing(bench.backend, limit=10, since=cursor)
        await bench.put("n1", "new")
        await bench.remove("n2")
        _, changed = await self.whole_listing(bench.backend, limit=10, since=cursor)
        assert nothing == []
        assert [entry.id for entry in changed] == ["n1"]

    async def test_unknown_cursor_is_lost(self, bench: Bench) -> None:
        await bench.put("n1", "x")
        if bench.backend.capabilities.change_feed:
            with pytest.raises(CursorLost):
                await bench.backend.changes("feedfeed", wait=False, base_of=nothing_known)
        if bench.backend.capabilities.delta_listing:
            with pytest.raises(CursorLost):
                await bench.backend.list_page(
                    since="feedfeed", mark=None, limit=10, with_content=False
                )

    # The feed

    async def feed(self, bench: Bench, cursor: str, *known: Revision) -> ChangePage:
        bases = {revision.id: revision for revision in known}
        return await bench.backend.changes(cursor, wait=False, base_of=bases.get)

    async def test_quiet_feed_is_empty_and_keeps_its_cursor(self, bench: Bench) -> None:
        if not bench.backend.capabilities.change_feed:
            return
        await bench.put("n1", "x")
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        assert await self.feed(bench, cursor) == ChangePage((), cursor)

    async def test_feed_tells_each_note_once_with_its_newest_etag(self, bench: Bench) -> None:
        if not bench.backend.capabilities.change_feed:
            return
        await bench.put("n1", "1")
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        for text in ("12", "123", "1234"):
            await bench.put("n1", text)
            await bench.put("n2", text)
        page = await self.feed(bench, cursor)
        heads = {note_id: (await bench.backend.get(note_id)).etag for note_id in ("n1", "n2")}
        assert {change.id: change.etag for change in page.changes} == heads
        assert len(page.changes) == 2
        assert await self.feed(bench, page.cursor) == ChangePage((), page.cursor)

    async def test_revision_in_the_feed_equals_the_fetched_one(self, bench: Bench) -> None:
        if not bench.backend.capabilities.change_feed:
            return
        base = await self.create(bench, "n1", "one 😀\ntwo\n")
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        await bench.put("n1", "one 😁\n2\nthree\r\n", tags=("a", "b"), trash=True)
        page = await self.feed(bench, cursor, base)
        fetched = await bench.backend.get("n1")
        for change in page.changes:
            assert isinstance(change, Entry) or change == fetched
            assert change.etag == fetched.etag

    async def test_removed_and_made_again_is_told_as_alive(self, bench: Bench) -> None:
        if not bench.backend.capabilities.change_feed:
            return
        base = await self.create(bench, "n1", "first life")
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        await bench.remove("n1")
        await bench.put("n1", "second life")
        (change,) = (await self.feed(bench, cursor, base)).changes
        assert not isinstance(change, Tombstone)
        assert change.etag != base.etag

    async def test_aged_cursor_is_lost(self, bench: Bench) -> None:
        if not bench.backend.capabilities.change_feed:
            return
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        await bench.put("n1", "x")
        bench.forget_cursors()
        with pytest.raises(CursorLost):
            await self.feed(bench, cursor)

    async def test_long_poll_wakes_on_a_change(self, bench: Bench) -> None:
        if not bench.backend.capabilities.long_poll:
            return
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        poll = asyncio.create_task(bench.backend.changes(cursor, wait=True, base_of=nothing_known))
        try:
            await bench.put("n1", "x")
            page = await asyncio.wait_for(poll, 5)
        finally:
            poll.cancel()
        assert [change.id for change in page.changes] == ["n1"]

    # Failing

    async def test_refused_login_is_asked_for_everywhere(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "x", trash=True)
        cursor, _ = await self.whole_listing(bench.backend, limit=10)
        bench.refuse_login()
        write = self.write(bench.backend, "n1", Content("y"), base=base, write_id="0b")
        for call in (
            bench.backend.get("n1"),
            bench.backend.list_page(since=None, mark=None, limit=5, with_content=True),
            bench.backend.changes(cursor, wait=False, base_of=nothing_known),
            bench.backend.push(write),
            bench.backend.delete("n1", etag=base.etag, write_id="0d"),
        ):
            with pytest.raises(LoginRequired):
                await call
        assert await bench.text("n1") == "x"

    async def test_unreachable_store_promises_that_nothing_was_written(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "x", trash=True)
        bench.unreachable()
        write = self.write(bench.backend, "n1", Content("y"), base=base, write_id="0b")
        with pytest.raises(BackendUnavailable):
            await bench.backend.get("n1")
        with pytest.raises(BackendUnavailable):
            await bench.backend.push(write)
        with pytest.raises(BackendUnavailable):
            await bench.backend.delete("n1", etag=base.etag, write_id="0d")
        assert await bench.text("n1") == "x"

    async def test_lost_answer_leaves_the_outcome_unknown(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "x")
        write = self.write(bench.backend, "n1", Content("y"), base=base, write_id="0b")
        bench.lose_answers(99)
        with pytest.raises(OutcomeUnknown):
            await bench.backend.push(write)
        assert await bench.text("n1") == "y"

    async def test_write_in_doubt_is_finished_by_its_write_id(self, bench: Bench) -> None:
        if not bench.backend.capabilities.idempotent_push:
            return
        base = await self.create(bench, "n1", "a\n")
        write = self.write(bench.backend, "n1", Content("a\nb\n"), base=base, write_id="0b")
        bench.lose_answers(99)
        with pytest.raises(OutcomeUnknown):
            await bench.backend.push(write)
        bench.lose_answers(0)
        answer = await bench.backend.push(write)
        assert answer.answer is Answer.REPEATED
        assert answer.revision.content.text == "a\nb\n" == await bench.text("n1")

    async def test_lost_request_leaves_the_outcome_unknown(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "x", trash=True)
        write = self.write(bench.backend, "n1", Content("y"), base=base, write_id="0b")
        bench.lose_requests(99)
        with pytest.raises(OutcomeUnknown):
            await bench.backend.push(write)
        with pytest.raises(OutcomeUnknown):
            await bench.backend.delete("n1", etag=base.etag, write_id="0d")
        with pytest.raises((BackendUnavailable, BackendTimeout)):
            await bench.backend.get("n1")
        assert await bench.text("n1") == "x"

    async def test_lost_answer_of_a_delete_is_found_out(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "x", trash=True)
        bench.lose_answers(99)
        with pytest.raises(OutcomeUnknown):
            await bench.backend.delete("n1", etag=base.etag, write_id="0d")
        bench.lose_answers(0)
        await bench.backend.delete("n1", etag=base.etag, write_id="0d")
        with pytest.raises(NoteNotFound):
            await bench.backend.get("n1")

    async def test_cancelled_write_is_whole_or_absent(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", "a\n")
        write = self.write(bench.backend, "n1", Content("a\nb\n"), base=base, write_id="0b")
        bench.hang()
        push = asyncio.create_task(bench.backend.push(write))
        done, _ = await asyncio.wait([push], timeout=0.05)
        push.cancel()
        with pytest.raises(asyncio.CancelledError):
            await push
        assert not done
        assert await bench.text("n1") in ("a\n", "a\nb\n")
        assert (await bench.backend.get("n1")).content.text == await bench.text("n1")

    async def test_no_error_quotes_the_note(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", SECRET_TEXT, trash=True)
        write = self.write(bench.backend, "n1", Content(SECRET_TEXT + "!"), base=base)
        errors: list[NotariumError] = []
        for spoil in (lambda: bench.lose_answers(99), bench.refuse_login, bench.unreachable):
            spoil()
            for call in (
                bench.backend.get("n1"),
                bench.backend.push(replace(write, write_id=f"0{len(errors)}")),
                bench.backend.delete("n1", etag=base.etag, write_id="0d"),
            ):
                try:
                    await call
                except NotariumError as error:
                    errors.append(error)
        assert len(errors) >= 6
        assert not [e for e in errors if "canary" in f"{e} {e!r} {e.to_dict()} {e.__cause__!r}"]

    async def test_close_may_be_called_twice(self, bench: Bench) -> None:
        await bench.backend.close()
        await bench.backend.close()
