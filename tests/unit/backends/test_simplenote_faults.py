"""Simplenote's own misfortunes, over real HTTP: what each does to reads, writes and the tag list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcp_notarium.backends.base import Answer, ChangePage, Entry
from mcp_notarium.backends.simplenote import reads
from mcp_notarium.backends.simplenote.client import SimplenoteBackend
from mcp_notarium.backends.simplenote.tags import deserves_object, tag_id
from mcp_notarium.errors import (
    BackendError,
    BackendProtocolError,
    BackendRejected,
    BackendTimeout,
    BackendUnavailable,
    CursorLost,
    NoteNotFound,
    OutcomeUnknown,
    RateLimited,
    VersionConflict,
)
from mcp_notarium.notes.note import Content, Revision
from mcp_notarium.notes.pending import PendingWrite, WriteKind
from mcp_notarium.simulator import Simulator
from support.simplenote_client import open_backend

Step = Callable[[Simulator, SimplenoteBackend], Awaitable[Any]]


def run(step: Step, *, timeout: float = 10.0, **options: Any) -> None:
    async def whole() -> None:
        async with Simulator(**options).serving() as sim:
            backend = open_backend(sim, timeout=timeout)
            try:
                await step(sim, backend)
            finally:
                await backend.close()

    asyncio.run(whole())


def pending(
    backend: SimplenoteBackend,
    content: Content,
    *,
    base: Revision | None = None,
    note_id: str = "n1",
    write_id: str = "0b",
) -> PendingWrite:
    return PendingWrite(
        write_id=write_id,
        note_id=note_id,
        kind=WriteKind.UPDATE if base else WriteKind.CREATE,
        base_etag=base.etag if base else None,
        content=content,
        body=backend.compose(base, content, now=1_700_000_000.0),
        created_at=0.0,
        owner="t",
        lease_until=0.0,
    )


# Reads


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_read_gets_over_a_short_outage(status: int) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="x")
        rule = sim.faults.status(status, path="*/note/i/*", times=2, body=b"<html>busy</html>")
        assert (await backend.get("n1")).content.text == "x"
        assert rule.fired == 2

    run(step)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_json_is_a_protocol_error(share: float) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="x")
        sim.faults.truncate(share=share, path="*/note/*", times=3)
        with pytest.raises(BackendProtocolError):
            await backend.get("n1")
        with pytest.raises(BackendProtocolError):
            await backend.list_page(since=None, mark=None, limit=5, with_content=True)
        with pytest.raises(BackendProtocolError):
            await backend.changes(sim.bucket().current, wait=False, base_of=lambda _: None)

    run(step)


def test_answer_cut_on_the_way_is_read_again() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="x" * 10_000)
        rule = sim.faults.cut_answer(path="*/note/index")
        page = await backend.list_page(since=None, mark=None, limit=5, with_content=True)
        assert len(page.entries) == 1
        assert rule.fired == 1

    run(step)


def test_slow_answer_is_a_timeout_and_the_next_page_smaller() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        for number in range(60):
            sim.put(f"n{number}", content="x")
        sim.faults.delay(20, path="*/note/index")
        with pytest.raises(BackendTimeout):
            await backend.list_page(since=None, mark=None, limit=100, with_content=True)
        page = await backend.list_page(since=None, mark=None, limit=100, with_content=True)
        assert len(page.entries) == 50
        assert page.next_mark

    run(step, timeout=1.0)


def test_page_over_the_size_cap_is_fetched_in_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        for number in range(8):
            sim.put(f"n{number}", content="x" * 10_000)
        sim.put("big", content="x" * 100_000)
        texts: dict[str, Any] = {}
        mark = None
        while True:
            page = await backend.list_page(since=None, mark=mark, limit=8, with_content=True)
            texts |= {entry.id: entry for entry in page.entries}
            mark = page.next_mark
            if mark is None:
                break
        assert set(texts) == {"big", *(f"n{number}" for number in range(8))}
        assert isinstance(texts["big"], Entry)
        assert all(isinstance(texts[f"n{number}"], Revision) for number in range(8))

    small = lambda *args, **kwargs: reads_request(*args, **{"largest": 50_000} | kwargs)  # noqa: E731 - a one-line stand-in
    reads_request = reads.Request
    monkeypatch.setattr(reads, "Request", small)
    run(step)


def test_feed_over_the_size_cap_is_a_lost_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        cursor = sim.bucket().current
        sim.put("n1", content="x" * 10_000)
        with pytest.raises(CursorLost):
            await backend.changes(cursor, wait=False, base_of=lambda _: None)

    request = reads.Request
    monkeypatch.setattr(reads, "Request", lambda *a, **k: request(*a, **k, largest=1000))
    run(step)


def test_redirect_to_another_host_is_refused() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="x")
        rule = sim.faults.status(302, path="*/note/i/*", times=9)
        with pytest.raises(BackendProtocolError):
            await backend.get("n1")
        assert rule.fired == 1

    run(step)


@pytest.mark.parametrize("status", [400, 404])
def test_place_in_the_feed_that_is_not_taken_is_a_lost_cursor(status: int) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.faults.status(status, path="*/changes", times=2)
        for wait in (False, True):
            with pytest.raises(CursorLost):
                await backend.changes(sim.bucket().current, wait=wait, base_of=lambda _: None)

    run(step)


@pytest.mark.parametrize(
    "distortion", [{"aggregate": True}, {"duplicate": True}, {"reorder": True}]
)
def test_distorted_feed_tells_the_same(distortion: dict[str, bool]) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="one\n")
        base = await backend.get("n1")
        cursor = sim.bucket().current
        for text in ("one\ntwo\n", "zero\none\ntwo\n", "zero\n"):
            sim.edit("n1", content=text)
        sim.faults.distort_feed(**distortion)
        page = await backend.changes(cursor, wait=False, base_of={"n1": base}.get)
        assert page.changes == (await backend.get("n1"),)
        assert page.cursor != cursor

    run(step)


# The long poll


def test_long_poll_that_ends_in_silence_says_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        cursor = sim.bucket().current
        for fault in (sim.faults.delay, lambda *_, **k: sim.faults.cut_answer(**k)):
            fault(30, path="*/changes")
            page = await backend.changes(cursor, wait=True, base_of=lambda _: None)
            assert page == ChangePage((), cursor)
            sim.faults.clear()

    monkeypatch.setattr(reads, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(reads, "SHORTEST_POLL_SECONDS", 0.15)
    run(step, poll_seconds=0.2)


@pytest.mark.parametrize("status", [502, 504])
def test_long_poll_broken_off_at_once_is_a_failure(status: int) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        rule = sim.faults.status(status, path="*/changes", times=9)
        with pytest.raises((BackendUnavailable, BackendTimeout)):
            await backend.changes(sim.bucket().current, wait=True, base_of=lambda _: None)
        assert rule.fired == 1

    run(step)


def test_long_poll_without_network_is_a_failure() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        await backend.list_page(since=None, mark=None, limit=1, with_content=False)
        sim.stop_listening()
        with pytest.raises(BackendUnavailable):
            await backend.changes(sim.bucket().current, wait=True, base_of=lambda _: None)

    run(step)


def test_empty_long_poll_is_never_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        backend._reads._sleep = sleep
        await backend.changes(sim.bucket().current, wait=True, base_of=lambda _: None)

    run(step, poll_seconds=0.01)
    assert len(pauses) == 1
    assert 0.5 < pauses[0] <= reads.SHORTEST_POLL_SECONDS


# Writes


@pytest.mark.parametrize("fault", ["cut_before", "cut_after", "cut_answer", "bad_gateway"])
def test_push_gets_over_one_broken_connection_with_one_effect(fault: str) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="a\n")
        base = await backend.get("n1")
        rule = getattr(sim.faults, fault)(method="POST", path="*/note/i/*")
        answer = await backend.push(pending(backend, Content("a\nb\n"), base=base))
        assert rule.fired == 1
        assert answer.revision.content.text == "a\nb\n" == sim.note("n1")["content"]
        assert sim.version("n1") == 2

    run(step)


def test_push_is_one_request_with_base_stamp_and_idempotency_key() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="a")
        base = await backend.get("n1")
        sim.reset_log()
        await backend.push(pending(backend, Content("b"), base=base, write_id="0b0b"))
        (logged,) = sim.requests
        assert logged.method == "POST"
        assert logged.path.endswith("/note/i/n1/v/1")
        assert logged.query == {"clientid": "mcp-notarium-test", "ccid": "0b0b", "response": "1"}

    run(step)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_push_whose_answer_is_broken_json_asks_for_the_note(share: float) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.faults.truncate(share=share, method="POST", path="*/note/i/*")
        answer = await backend.push(pending(backend, Content("a")))
        assert (answer.answer, answer.revision.etag) == (Answer.STORED, "1")
        assert answer.revision == await backend.get("n1")

    run(step)


def test_push_that_was_answered_but_not_shown_is_in_doubt() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        write = pending(backend, Content("a"))
        await backend.push(write)
        sim.faults.status(503, method="GET", path="*/note/i/*", times=9)
        with pytest.raises(OutcomeUnknown):
            await backend.push(write)

    run(step)


@pytest.mark.parametrize("status", [400, 413, 417, 440])
def test_body_that_will_never_be_taken_is_rejected(status: int) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        rule = sim.faults.status(status, method="POST", path="*/note/i/*", times=9)
        with pytest.raises(BackendRejected):
            await backend.push(pending(backend, Content("a")))
        assert rule.fired == (2 if status == 440 else 1)

    run(step)


def test_invalid_diff_is_got_over_by_sending_the_whole_again() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.faults.status(440, method="POST", path="*/note/i/*")
        assert (await backend.push(pending(backend, Content("a")))).answer is Answer.STORED

    run(step)


@pytest.mark.parametrize("status", [400, 401, 404, 405, 413, 418])
def test_refusal_after_a_lost_answer_proves_nothing(status: int) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="a")
        base = await backend.get("n1")
        sim.faults.cut_after(method="POST", path="*/note/i/*")
        sim.faults.status(status, method="POST", path="*/note/i/*", nth=2, times=9)
        with pytest.raises(OutcomeUnknown):
            await backend.push(pending(backend, Content("b"), base=base))
        assert sim.note("n1")["content"] == "b"

    run(step)


def test_too_large_note_is_rejected() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        with pytest.raises(BackendRejected) as caught:
            await backend.push(pending(backend, Content("canary" * 10_000)))
        assert "too large" in str(caught.value)
        assert "canary" not in str(caught.value)

    run(step, max_note_bytes=20_000)


def test_bad_version_is_a_conflict_or_a_missing_note() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="a")
        base = await backend.get("n1")
        sim.faults.status(405, method="POST", path="*/note/i/*", times=2)
        with pytest.raises(VersionConflict):
            await backend.push(pending(backend, Content("b"), base=base))
        sim.delete("n1")
        with pytest.raises(NoteNotFound):
            await backend.push(pending(backend, Content("b"), base=base))

    run(step)


@pytest.mark.parametrize("status", [404, 405, 409, 412])
def test_refused_delete_of_a_note_that_stands_is_no_success(status: int) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="a", deleted=True)
        old = (await backend.get("n1")).etag
        sim.faults.status(status, method="DELETE", path="*/note/i/*", times=9)
        with pytest.raises(BackendProtocolError):
            await backend.delete("n1", etag=old, write_id="0d")
        sim.edit("n1", content="b")
        with pytest.raises(VersionConflict):
            await backend.delete("n1", etag=old, write_id="0d")

    run(step)


def test_delete_whose_answer_is_lost_once_is_done() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("n1", content="a", deleted=True)
        etag = (await backend.get("n1")).etag
        sim.faults.cut_after(method="DELETE", path="*/note/i/*")
        await backend.delete("n1", etag=etag, write_id="0d")
        assert "n1" not in sim.notes()

    run(step)


def test_rate_limited_write_was_not_carried_out() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.faults.status(429, method="POST", path="*/note/i/*", times=9, retry_after="90")
        with pytest.raises(RateLimited) as caught:
            await backend.push(pending(backend, Content("a")))
        assert caught.value.retry_after == 90.0
        assert sim.notes() == {}

    run(step)


def test_dirty_notes_are_listed_and_written_back_with_their_junk() -> None:
    dirty = {
        "content": "x",
        "tags": None,
        "modificationDate": 1_600_000_000_000,
        "deleted": 1,
        "key": "junk",
        "version": 17,
    }

    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.put("agtzaW1.%@-odd", dirty)
        page = await backend.list_page(since=None, mark=None, limit=5, with_content=True)
        (base,) = page.entries
        assert isinstance(base, Revision)
        assert (base.modified_at, base.content.trash) == (1.6e9, True)
        write = pending(backend, Content("y", trash=True), base=base, note_id=base.id)
        answer = await backend.push(write)
        edits = {"content": "y", "modificationDate": 1_700_000_000.0}
        assert sim.note(base.id) == dirty | edits
        assert json.loads(answer.revision.raw) == dirty | edits

    run(step)


# The tag list


def tag_names(sim: Simulator) -> list[str]:
    return sorted(str(stored.value["name"]) for stored in sim.bucket("tag").all().values())


def test_added_tag_gets_its_object_and_known_ones_no_second() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.bucket("tag").force_write("random-id-of-old-times", {"name": "Known"})
        sim.put("n1", content="a", tags=["from elsewhere", "remote"])
        base = await backend.get("n1")
        tags = ("remote", "known", "Größe", "friend@example.com", "two words", "a-b")
        await backend.push(pending(backend, Content("a", tags), base=base))
        await backend.close()
        assert tag_names(sim) == ["Größe", "Known", "a-b"]
        assert {"gr%C3%B6%C3%9Fe", "a-b"} <= set(sim.bucket("tag").all())

    run(step)


def test_tag_list_out_of_order_does_not_touch_the_push() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.faults.status(500, path="*/tag/*", times=99)
        answer = await backend.push(pending(backend, Content("a", ("new",))))
        assert answer.answer is Answer.STORED
        await backend.close()
        assert tag_names(sim) == []

    run(step)


def test_close_does_not_wait_for_a_slow_tag_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        sim.faults.delay(20, path="*/tag/*", times=99)
        await backend.push(pending(backend, Content("a", ("new",))))
        async with asyncio.timeout(2):
            await backend.close()

    monkeypatch.setattr("mcp_notarium.backends.simplenote.tags._CLOSING_SECONDS", 0.1)
    run(step, timeout=15)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Work", "work"),
        ("a-b_c.d~", "a-b_c.d~"),
        ("É", "%C3%A9"),
        ("e\u0301", "%C3%A9"),
        ("100%", "100%25"),
        ("汉", "%E6%B1%89"),
    ],
)
def test_tag_id_is_the_hash_of_the_name(name: str, expected: str) -> None:
    assert tag_id(name) == expected


@pytest.mark.parametrize("name", ["", "a b", "a,b", "me@example.com", "汉" * 29, "x" * 257])
def test_some_tags_get_no_object(name: str) -> None:
    assert not deserves_object(name)


def test_every_failure_is_a_backend_error() -> None:
    async def step(sim: Simulator, backend: SimplenoteBackend) -> None:
        for status in [*range(300, 309), *range(400, 452), *range(500, 512)]:
            if status in (401, 403):
                continue
            sim.faults.clear()
            sim.faults.status(status, path="*/note/*", times=99)
            with pytest.raises((BackendError, NoteNotFound)):
                await backend.get("n1")

    run(step)
