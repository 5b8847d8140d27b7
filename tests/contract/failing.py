"""Define the contract of errors: what each failure may and may not mean."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from contract.bench import Bench, OnABench, nothing_known
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import (
    CursorLost,
    LoginRequired,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreProtocolError,
    StoreUnavailable,
)
from mcp_notarium.stores.contract import (
    WITHDRAWN,
    Changes,
    PushStatus,
    Retry,
    VersionedStore,
    Versions,
)

SECRET_TEXT = "canary-7f3a in the text"
HOSTILE = [
    b"",
    b"{",
    b"null",
    b"7",
    b'"note"',
    b"{}",
    b'{"items": []}',
    b"\xff\xfe",
    b"[" * 100_000,
    b"<html>502</html>",
]


class FailingContract(OnABench):
    async def test_refused_login_is_asked_for_everywhere(self, bench: Bench) -> None:
        if not self.over_network:
            return
        base = await self.create(bench, "n1", "x", trash=True)
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        bench.refuse_login()
        write = self.write(bench.store, base.id, Content("y"), base=base, write_id="0b")
        calls = [
            bench.store.get(base.id),
            bench.store.list_page(since=None, mark=None, limit=5, with_content=True),
            bench.store.push(write),
            bench.store.delete(base.id, etag=base.etag, write_id="0d"),
        ]
        if Changes.FEED in bench.store.traits.changes:
            calls.append(bench.store.changes(cursor, wait=False, base_of=nothing_known))
        for call in calls:
            with pytest.raises(LoginRequired):
                await call
        assert await bench.text(base.id) == "x"

    async def test_unreachable_store_promises_that_nothing_was_written(self, bench: Bench) -> None:
        if bench.store.traits.in_database:
            return  # it is there as long as the caller is
        base = await self.create(bench, "n1", "w")
        write = self.write(bench.store, base.id, replace(base.content, text="x"), base=base)
        base = (await bench.store.push(write)).revision
        bench.unreachable()
        write = self.write(bench.store, base.id, Content("y"), base=base, write_id="0b")
        with pytest.raises(StoreUnavailable):
            await bench.store.get(base.id)
        for with_content in (True, False):
            with pytest.raises(StoreUnavailable):
                await self.whole_listing(bench.store, limit=9, with_content=with_content)
        if bench.store.traits.versions is not Versions.NONE:
            with pytest.raises(StoreUnavailable):
                await cast("VersionedStore", bench.store).list_versions(
                    base.id, before=base.etag, limit=9
                )
        with pytest.raises(StoreUnavailable):
            await bench.store.push(write)
        with pytest.raises(StoreUnavailable):
            await bench.store.delete(base.id, etag=base.etag, write_id="0d")
        assert await bench.text(base.id) == "x"

    async def test_an_answer_that_makes_no_sense_is_an_error(self, bench: Bench) -> None:
        if not self.over_network:
            return
        base = await self.create(bench, "n1", "x", trash=True)
        cursor, _ = await self.whole_listing(bench.store, limit=10)
        write = self.write(bench.store, base.id, Content("y"), base=base, write_id="0b")
        for body in HOSTILE:
            bench.answer(body)
            calls = [
                bench.store.get(base.id),
                bench.store.list_page(since=None, mark=None, limit=5, with_content=True),
                bench.store.list_page(since=None, mark=None, limit=5, with_content=False),
            ]
            for call in calls:
                with pytest.raises(StoreProtocolError):
                    await call
            if Changes.FEED in bench.store.traits.changes:
                with pytest.raises((StoreProtocolError, CursorLost)):  # or: list everything
                    await bench.store.changes(cursor, wait=False, base_of=nothing_known)
            with pytest.raises((StoreProtocolError, OutcomeUnknown)):
                await bench.store.push(write)

    async def test_lost_answer_leaves_the_outcome_unknown(self, bench: Bench) -> None:
        if bench.store.traits.in_database:
            return
        base = await self.create(bench, "n1", "x")
        write = self.write(bench.store, base.id, Content("y"), base=base, write_id="0b")
        bench.lose_answers(99)
        with pytest.raises(OutcomeUnknown):
            await bench.store.push(write)
        assert await bench.text(base.id) == "y"

    async def test_write_in_doubt_is_finished_by_its_write_id(self, bench: Bench) -> None:
        traits = bench.store.traits
        if traits.retry is not Retry.IDEMPOTENT or traits.in_database:
            return
        base = await self.create(bench, "n1", "a\n")
        write = self.write(bench.store, base.id, Content("a\nb\n"), base=base, write_id="0b")
        bench.lose_answers(99)
        with pytest.raises(OutcomeUnknown):
            await bench.store.push(write)
        bench.lose_answers(0)
        answer = await bench.store.push(write)
        assert answer.status is PushStatus.REPEATED
        assert answer.revision.content.text == "a\nb\n" == await bench.text(base.id)

    async def test_lost_request_leaves_the_outcome_unknown(self, bench: Bench) -> None:
        if not self.over_network:
            return
        base = await self.create(bench, "n1", "x", trash=True)
        write = self.write(bench.store, base.id, Content("y"), base=base, write_id="0b")
        bench.lose_requests(99)
        with pytest.raises(OutcomeUnknown):
            await bench.store.push(write)
        with pytest.raises(OutcomeUnknown):
            await bench.store.delete(base.id, etag=base.etag, write_id="0d")
        assert await bench.text(base.id) == "x"

    async def test_lost_answer_of_a_delete_is_found_out(self, bench: Bench) -> None:
        if bench.store.traits.in_database:
            return
        base = await self.create(bench, "n1", "x", trash=True)
        bench.lose_answers(99)
        with pytest.raises(OutcomeUnknown):
            await bench.store.delete(base.id, etag=base.etag, write_id="0d")
        bench.lose_answers(0)
        await bench.store.delete(base.id, etag=base.etag, write_id="0d")
        with pytest.raises(NoteNotFound):
            await bench.store.get(base.id)

    async def test_cancelled_write_is_whole_or_absent(self, bench: Bench) -> None:
        if bench.store.traits.in_database:
            return  # it does not wait, so nothing cancels it
        base = await self.create(bench, "n1", "a\n")
        write = self.write(bench.store, base.id, Content("a\nb\n"), base=base, write_id="0b")
        bench.hang()
        push = asyncio.create_task(bench.store.push(write))
        done, _ = await asyncio.wait([push], timeout=0.05)
        push.cancel()
        with pytest.raises(asyncio.CancelledError):
            await push
        assert not done
        possible = {self.as_stored(Content(text)).text for text in ("a\n", "a\nb\n")}
        assert await bench.text(base.id) in possible
        assert (await bench.store.get(base.id)).content.text == await bench.text(base.id)

    async def test_a_write_that_is_withdrawn_before_it_leaves_is_not_made(
        self, bench: Bench
    ) -> None:
        base = await self.create(bench, "n1", "a\n", trash=True)
        write = self.write(bench.store, base.id, Content("b\n"), base=base, write_id="0b")
        new = self.write(bench.store, "n2", Content("c\n"), write_id="0c")
        withdrawn = WITHDRAWN.set(lambda: True)
        try:
            for call in (
                bench.store.push(write),
                bench.store.push(new),
                bench.store.delete(base.id, etag=base.etag, write_id="0d"),
            ):
                with pytest.raises(StoreUnavailable):
                    await call
        finally:
            WITHDRAWN.reset(withdrawn)
        assert await bench.store.get(base.id) == base
        assert await bench.text(base.id) == self.as_stored(base.content).text
        with pytest.raises(NoteNotFound):
            await bench.store.get(new.note_id)

    async def test_no_error_quotes_the_note_or_a_secret(self, bench: Bench) -> None:
        base = await self.create(bench, "n1", SECRET_TEXT, trash=True)
        write = self.write(bench.store, base.id, Content(SECRET_TEXT + "!"), base=base)
        errors: list[NotariumError] = []
        assert bool(bench.secrets) == self.over_network
        quoting = f'{{"note": "{SECRET_TEXT}", "token": "{"".join(bench.secrets)}"'.encode()
        for spoil in (
            lambda: bench.lose_answers(99),
            lambda: bench.answer(quoting),
            bench.refuse_login,
            bench.unreachable,
        ):
            spoil()
            for call in (
                bench.store.get(base.id),
                bench.store.push(replace(write, write_id=f"0{len(errors)}")),
                bench.store.delete(base.id, etag=base.etag, write_id="0d"),
            ):
                try:
                    await call
                except NotariumError as error:
                    errors.append(error)
        assert len(errors) >= (1 if bench.store.traits.in_database else 6)
        for error in errors:
            told = f"{error} {error!r} {error.to_dict()} {error.__cause__!r}"
            assert not [one for one in ("canary", *bench.secrets) if one in told]

    async def test_close_may_be_called_twice(self, bench: Bench) -> None:
        await bench.store.close()
        await bench.store.close()
