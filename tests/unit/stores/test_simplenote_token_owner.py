"""Whose token it is: tried on notes of the cache before its first use, over the real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcp_notarium.errors import LoginRequired, OtherAccount, StoreUnavailable
from mcp_notarium.secret import Secret
from mcp_notarium.stores.simplenote.session import TokenOwner
from notarium_devtools.simperium import Simulator
from support.simplenote_client import (
    MemoryRecord,
    MemoryTokens,
    open_session,
    open_store,
    urls_of,
)

BORN = 1_600_000_000.25
NOTES = [(f"n{number}", BORN + number) for number in range(6)]
OTHERS = "other@example.com"


def _trying(step: Callable[[Simulator, Any], Awaitable[None]]) -> None:
    """Run ``step(simulator, belonging_of)``: the account has ``NOTES``, another has its own."""

    async def whole() -> None:
        async with Simulator().serving() as sim:
            sim.add_account(OTHERS, "another long password")
            for note_id, born in NOTES:
                sim.put(note_id, content="mine", creationDate=born)
                sim.device(OTHERS).put(f"o{note_id}", content="theirs", creationDate=born)
            session = open_session(sim)
            try:
                await step(sim, lambda r: TokenOwner(session=session, urls=urls_of(sim), record=r))
            finally:
                await session.close()

    asyncio.run(whole())


def _token(sim: Simulator, username: str | None = None) -> Secret:
    return Secret(sim.account(username or sim.username).token)


def test_a_token_of_another_account_is_never_used_and_not_remembered() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        record = MemoryRecord(NOTES)
        with pytest.raises(OtherAccount) as caught:
            await of(record).accepts(_token(sim, OTHERS), from_service=False)
        assert record.token is None
        assert {entry.method for entry in sim.requests} == {"GET"}
        assert isinstance(caught.value, LoginRequired)
        assert "mcp-notarium login" in str(caught.value.resolution_hint)

    _trying(step)


def test_the_accounts_own_token_is_proven_once_and_costs_nothing_afterwards() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        record = MemoryRecord(NOTES)
        assert await of(record).accepts(_token(sim), from_service=False)
        assert record.proven
        sim.reset_log()
        assert of(record).recognises(_token(sim))
        assert await of(record).accepts(_token(sim), from_service=False)
        assert not sim.requests

    _trying(step)


def test_some_notes_removed_elsewhere_do_not_prevent_the_proof() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        for note_id, _ in NOTES[::2]:
            sim.delete(note_id)
        assert await of(MemoryRecord(NOTES)).accepts(_token(sim), from_service=False)
        sim.delete(NOTES[1][0])
        with pytest.raises(OtherAccount):
            await of(MemoryRecord(NOTES)).accepts(_token(sim), from_service=False)

    _trying(step)


def test_an_id_that_both_accounts_have_is_no_proof() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        sim.device(OTHERS).put("welcome", content="hello", creationDate=BORN + 9)
        for record in (MemoryRecord([("welcome", BORN)]), MemoryRecord([("welcome", BORN + 9.2)])):
            judged = of(record).accepts(_token(sim, OTHERS), from_service=False)
            if record.notes[0][1] == BORN:
                with pytest.raises(OtherAccount):
                    await judged
            else:
                assert await judged

    _trying(step)


def test_a_login_given_by_the_service_needs_no_proof() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        record = MemoryRecord([("gone", BORN)])
        assert await of(record).accepts(_token(sim), from_service=True)
        assert record.proven
        assert not sim.requests

    _trying(step)


def test_what_was_taken_on_trust_is_proven_by_the_next_login() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        record = MemoryRecord()
        assert await of(record).accepts(_token(sim, OTHERS), from_service=False)
        assert record.on_trust
        record.notes = [(f"o{note_id}", born) for note_id, born in NOTES]
        with pytest.raises(OtherAccount):
            await of(record).accepts(_token(sim), from_service=True)
        assert record.on_trust
        assert await of(record).accepts(_token(sim, OTHERS), from_service=True)
        assert record.proven

    _trying(step)


def test_with_nothing_to_try_it_on_a_token_does_not_follow_a_proven_one() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        record = MemoryRecord()
        record.remember(_token(sim), on_trust=False)
        with pytest.raises(OtherAccount):
            await of(record).accepts(_token(sim, OTHERS), from_service=False)
        record.remember(Secret("mistyped"), on_trust=True)
        record.unfinished = True
        with pytest.raises(OtherAccount):
            await of(record).accepts(_token(sim), from_service=False)
        record.unfinished = False
        assert await of(record).accepts(_token(sim), from_service=False)

    _trying(step)


def test_a_refused_token_is_not_tried_on_notes_and_the_password_is_used_instead() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        assert not await of(MemoryRecord(NOTES)).accepts(Secret("of nobody"), from_service=False)
        record, tokens = MemoryRecord(NOTES), MemoryTokens()
        store = open_store(sim, tokens=tokens, token="stale", record=record)
        try:
            assert (await store.get("n1")).content.text == "mine"
        finally:
            await store.close()
        assert record.recognises(_token(sim))
        assert tokens.stored == 1

    _trying(step)


def test_a_token_that_cannot_be_checked_now_is_neither_accepted_nor_called_foreign() -> None:
    async def step(sim: Simulator, of: Any) -> None:
        record = MemoryRecord(NOTES)
        sim.stop_listening()
        with pytest.raises(StoreUnavailable):
            await of(record).accepts(_token(sim), from_service=False)
        assert record.token is None

    _trying(step)
