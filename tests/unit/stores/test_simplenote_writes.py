"""Writing to Simplenote over real HTTP: what each answer, and each missing one, means."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import (
    DateRefused,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    StoreProtocolError,
    StoreRejected,
    VersionConflict,
)
from mcp_notarium.stores.contract import PushStatus
from mcp_notarium.stores.simplenote.note_codec import fields_of
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from notarium_devtools.simperium import Simulator
from support.simplenote_client import pending, with_simulator


@pytest.mark.parametrize("fault", ["cut_before", "cut_after", "cut_answer", "bad_gateway"])
def test_push_gets_over_one_broken_connection_with_one_effect(fault: str) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a\n")
        base = await store.get("n1")
        rule = getattr(sim.faults, fault)(method="POST", path="*/note/i/*")
        answer = await store.push(pending(store, Content("a\nb\n"), base=base))
        assert rule.fired == 1
        assert answer.revision.content.text == "a\nb\n" == sim.note("n1")["content"]
        assert sim.version("n1") == 2

    with_simulator(step)


def test_push_is_one_request_with_base_stamp_and_idempotency_key() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a")
        base = await store.get("n1")
        sim.reset_log()
        await store.push(pending(store, Content("b"), base=base, write_id="0b0b"))
        (logged,) = sim.requests
        assert logged.method == "POST"
        assert logged.path.endswith("/note/i/n1/v/1")
        assert logged.query == {"clientid": "mcp-notarium-test", "ccid": "0b0b", "response": "1"}

    with_simulator(step)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_push_whose_answer_is_broken_json_asks_for_the_note(share: float) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.faults.truncate(share=share, method="POST", path="*/note/i/*")
        answer = await store.push(pending(store, Content("a")))
        assert (answer.status, answer.revision.etag) == (PushStatus.STORED, "1")
        assert answer.revision == await store.get("n1")

    with_simulator(step)


def test_push_that_was_answered_but_not_shown_is_in_doubt() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        write = pending(store, Content("a"))
        await store.push(write)
        sim.faults.status(503, method="GET", path="*/note/i/*", times=9)
        with pytest.raises(OutcomeUnknown):
            await store.push(write)

    with_simulator(step)


@pytest.mark.parametrize("status", [400, 413, 417, 440])
def test_body_that_will_never_be_taken_is_rejected(status: int) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        rule = sim.faults.status(status, method="POST", path="*/note/i/*", times=9)
        with pytest.raises(StoreRejected):
            await store.push(pending(store, Content("a")))
        assert rule.fired == (2 if status == 440 else 1)

    with_simulator(step)


@pytest.mark.parametrize("new", [True, False])
def test_date_from_a_clock_that_is_far_off_is_refused_as_that(new: bool) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        base = None
        if not new:
            sim.put("n1", content="a")
            base = await store.get("n1")
        write = pending(store, Content("b"), base=base)
        body = store.compose(base, Content("b"), now=time.time() + 4 * 366 * 86_400)
        with pytest.raises(DateRefused) as caught:
            await store.push(replace(write, body=body))
        assert "clock" in str(caught.value.resolution_hint)

    with_simulator(step)


def test_invalid_diff_is_got_over_by_sending_the_whole_again() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.faults.status(440, method="POST", path="*/note/i/*")
        assert (await store.push(pending(store, Content("a")))).status is PushStatus.STORED

    with_simulator(step)


@pytest.mark.parametrize("status", [400, 401, 404, 405, 413, 418])
def test_refusal_after_a_lost_answer_proves_nothing(status: int) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a")
        base = await store.get("n1")
        sim.faults.cut_after(method="POST", path="*/note/i/*")
        sim.faults.status(status, method="POST", path="*/note/i/*", nth=2, times=9)
        with pytest.raises(OutcomeUnknown):
            await store.push(pending(store, Content("b"), base=base))
        assert sim.note("n1")["content"] == "b"

    with_simulator(step)


def test_too_large_note_is_rejected() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        with pytest.raises(StoreRejected) as caught:
            await store.push(pending(store, Content("canary" * 10_000)))
        assert "too large" in str(caught.value)
        assert "canary" not in str(caught.value)

    with_simulator(step, max_note_bytes=20_000)


def test_bad_version_is_a_conflict_or_a_missing_note() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a")
        base = await store.get("n1")
        sim.faults.status(405, method="POST", path="*/note/i/*", times=2)
        with pytest.raises(VersionConflict):
            await store.push(pending(store, Content("b"), base=base))
        sim.delete("n1")
        with pytest.raises(NoteNotFound):
            await store.push(pending(store, Content("b"), base=base))

    with_simulator(step)


def test_a_write_that_was_done_before_its_base_was_made_is_answered_with_that() -> None:
    """It was given a newer base, because nobody had heard of it: it would never be finished."""

    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a\n")
        first = await store.get("n1")
        await store.push(pending(store, Content("a\nb\n"), base=first, write_id="0b0b"))
        sim.edit("n1", content="theirs\n")
        newer = await store.get("n1")
        again = pending(store, Content("theirs\nb\n"), base=newer, write_id="0b0b")
        with pytest.raises(OutcomeUnknown):  # whoever says so of this base does not tell the truth
            await store.push(again)
        answer = await store.push(replace(again, first_etag=first.etag))
        assert (answer.status, answer.alone) == (PushStatus.REPEATED, False)
        assert answer.revision == newer

    with_simulator(step)


@pytest.mark.parametrize("status", [404, 405, 409, 412])
def test_refused_delete_of_an_existing_note_is_no_success(status: int) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a", deleted=True)
        old = (await store.get("n1")).etag
        sim.faults.status(status, method="DELETE", path="*/note/i/*", times=9)
        with pytest.raises(StoreProtocolError):
            await store.delete("n1", etag=old, write_id="0d")
        sim.edit("n1", content="b")
        with pytest.raises(VersionConflict):
            await store.delete("n1", etag=old, write_id="0d")

    with_simulator(step)


def test_delete_answered_by_somebody_in_between_is_no_success() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a", deleted=True)
        etag = (await store.get("n1")).etag
        page = b"<html>Please log in to the hotel's network</html>"
        sim.faults.status(200, method="DELETE", path="*/note/i/*", body=page)
        with pytest.raises(StoreProtocolError):
            await store.delete("n1", etag=etag, write_id="0d")
        assert (await store.get("n1")).etag == etag

    with_simulator(step)


def test_delete_whose_answer_is_lost_once_is_done() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="a", deleted=True)
        etag = (await store.get("n1")).etag
        sim.faults.cut_after(method="DELETE", path="*/note/i/*")
        await store.delete("n1", etag=etag, write_id="0d")
        assert "n1" not in sim.notes()

    with_simulator(step)


def test_rate_limited_write_was_not_carried_out() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.faults.status(429, method="POST", path="*/note/i/*", times=9, retry_after="90")
        with pytest.raises(RateLimited) as caught:
            await store.push(pending(store, Content("a")))
        assert caught.value.retry_after == 90.0
        assert sim.notes() == {}

    with_simulator(step)


def test_dirty_notes_are_listed_and_written_back_with_their_junk() -> None:
    dirty = {
        "content": "x",
        "tags": None,
        "modificationDate": 1_600_000_000_000,
        "deleted": 1,
        "key": "junk",
        "version": 17,
    }

    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("agtzaW1.%@-odd", dirty)
        page = await store.list_page(since=None, mark=None, limit=5, with_content=True)
        (base,) = page.entries
        assert isinstance(base, Revision)
        assert (base.modified_at, base.content.trash) == (1.6e9, True)
        write = pending(store, Content("y", trash=True), base=base, note_id=base.id)
        answer = await store.push(write)
        edits = {"content": "y", "modificationDate": 1_700_000_000.0}
        assert sim.note(base.id) == dirty | edits
        assert fields_of(answer.revision) == dirty | edits

    with_simulator(step)
