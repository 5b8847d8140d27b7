"""Reading from Simplenote over real HTTP: what each misfortune does to it."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import (
    CursorLost,
    NoteNotFound,
    StoreError,
    StoreProtocolError,
    StoreTimeout,
    StoreUnavailable,
)
from mcp_notarium.stores.contract import ChangePage, Entry
from mcp_notarium.stores.http import Reply
from mcp_notarium.stores.json_answers import DEEPEST
from mcp_notarium.stores.simplenote import note_codec
from mcp_notarium.stores.simplenote import store as simplenote_store
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from notarium_devtools.simperium import Simulator
from support.simplenote_client import with_simulator


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_read_gets_over_a_short_outage(status: int) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="x")
        rule = sim.faults.status(status, path="*/note/i/*", times=2, body=b"<html>busy</html>")
        assert (await store.get("n1")).content.text == "x"
        assert rule.fired == 2

    with_simulator(step)


def test_one_false_word_that_a_note_is_gone_is_not_believed() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="x")
        rule = sim.faults.status(404, path="*/note/i/*")
        assert (await store.get("n1")).content.text == "x"
        assert rule.fired == 1
        sim.reset_log()
        with pytest.raises(NoteNotFound):
            await store.get("n2")
        assert len(sim.requests) == 2
        sim.reset_log()
        with pytest.raises(NoteNotFound):
            await store.get("n1", etag="7")
        assert len(sim.requests) == 1, "an old version that is gone loses nothing"

    with_simulator(step)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_json_is_a_protocol_error(share: float) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="x")
        sim.faults.truncate(share=share, path="*/note/*", times=3)
        with pytest.raises(StoreProtocolError):
            await store.get("n1")
        with pytest.raises(StoreProtocolError):
            await store.list_page(since=None, mark=None, limit=5, with_content=True)
        with pytest.raises(StoreProtocolError):
            await store.changes(sim.bucket().current, wait=False, base_of=lambda _: None)

    with_simulator(step)


def test_answer_cut_on_the_way_is_read_again() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="x" * 10_000)
        rule = sim.faults.cut_answer(path="*/note/index")
        page = await store.list_page(since=None, mark=None, limit=5, with_content=True)
        assert len(page.entries) == 1
        assert rule.fired == 1

    with_simulator(step)


def test_slow_answer_is_a_timeout_and_the_next_page_smaller() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        for number in range(60):
            sim.put(f"n{number}", content="x")
        sim.faults.delay(20, path="*/note/index")
        with pytest.raises(StoreTimeout):
            await store.list_page(since=None, mark=None, limit=100, with_content=True)
        page = await store.list_page(since=None, mark=None, limit=100, with_content=True)
        assert len(page.entries) == 50
        assert page.next_mark

    with_simulator(step, timeout=1.0)


def test_pages_grow_again_once_they_come_quickly() -> None:
    """An outage that looked like a slow line would else make every later load a slow one."""

    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        for number in range(100):
            sim.put(f"n{number}", content="x")
        sim.faults.delay(20, path="*/note/index", times=2)
        for _ in range(2):
            with pytest.raises(StoreTimeout):
                await store.list_page(since=None, mark=None, limit=100, with_content=True)
        sizes = []
        for _ in range(4):
            page = await store.list_page(since=None, mark=None, limit=100, with_content=True)
            sizes.append(len(page.entries))
        assert sizes == [25, 50, 100, 100]

    with_simulator(step, timeout=1.0)


def test_pages_stay_small_while_they_come_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        for number in range(60):
            sim.put(f"n{number}", content="x")
        sim.faults.delay(20, path="*/note/index")
        with pytest.raises(StoreTimeout):
            await store.list_page(since=None, mark=None, limit=60, with_content=True)
        monkeypatch.setattr(simplenote_store, "QUICK_SECONDS", 0.0)
        for _ in range(2):
            page = await store.list_page(since=None, mark=None, limit=60, with_content=True)
            assert len(page.entries) == 30

    with_simulator(step, timeout=1.0)


def test_page_over_the_size_cap_is_fetched_in_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        for number in range(8):
            sim.put(f"n{number}", content="x" * 10_000)
        sim.put("big", content="x" * 100_000)
        texts: dict[str, Any] = {}
        mark = None
        while True:
            page = await store.list_page(since=None, mark=mark, limit=8, with_content=True)
            texts |= {entry.id: entry for entry in page.entries}
            mark = page.next_mark
            if mark is None:
                break
        assert set(texts) == {"big", *(f"n{number}" for number in range(8))}
        assert isinstance(texts["big"], Entry)
        assert all(isinstance(texts[f"n{number}"], Revision) for number in range(8))

    small = lambda *args, **kwargs: reads_request(*args, **{"largest": 50_000} | kwargs)  # noqa: E731 - a one-line stand-in
    reads_request = simplenote_store.Request
    monkeypatch.setattr(simplenote_store, "Request", small)
    with_simulator(step)


@pytest.mark.parametrize("odd", ["NaN", "1e999", "9" * 5000, "[" * 500_000 + "]" * 500_000])
def test_one_note_with_a_value_that_cannot_be_taken_comes_without_content(
    monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    """The simulator answers no such JSON, so its answers are changed on the way."""
    value = simplenote_store._value

    def distorted(reply: Reply, *, deepest: int | None = DEEPEST) -> Any:
        body = reply.body.replace(b'"odd"', odd.encode())
        return value(replace(reply, body=body), deepest=deepest)

    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        for number in range(8):
            sim.put(f"n{number}", content="x", foreign="odd" if number == 3 else "even")
        cursor = sim.bucket().current
        found: dict[str, Any] = {}
        mark = None
        while not found or mark is not None:
            page = await store.list_page(since=None, mark=mark, limit=8, with_content=True)
            found |= {entry.id: type(entry) for entry in page.entries}
            mark = page.next_mark
        assert found == {f"n{n}": Entry if n == 3 else Revision for n in range(8)}
        with pytest.raises(StoreProtocolError):
            await store.get("n3")
        sim.put("n3", foreign=["odd"])
        with pytest.raises(CursorLost):
            await store.changes(cursor, wait=False, base_of=lambda _: None)

    monkeypatch.setattr(simplenote_store, "_value", distorted)
    with_simulator(step)


def test_feed_over_the_size_cap_is_a_lost_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        cursor = sim.bucket().current
        sim.put("n1", content="x" * 10_000)
        with pytest.raises(CursorLost):
            await store.changes(cursor, wait=False, base_of=lambda _: None)

    request = simplenote_store.Request
    monkeypatch.setattr(simplenote_store, "Request", lambda *a, **k: request(*a, **k, largest=1000))
    with_simulator(step)


@pytest.mark.attack(45)
def test_redirect_to_another_host_is_refused() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="x")
        rule = sim.faults.status(302, path="*/note/i/*", times=9)
        with pytest.raises(StoreProtocolError):
            await store.get("n1")
        assert rule.fired == 1

    with_simulator(step)


@pytest.mark.parametrize("status", [400, 404])
def test_place_in_the_feed_that_is_not_taken_is_a_lost_cursor(status: int) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.faults.status(status, path="*/changes", times=2)
        for wait in (False, True):
            with pytest.raises(CursorLost):
                await store.changes(sim.bucket().current, wait=wait, base_of=lambda _: None)

    with_simulator(step)


@pytest.mark.parametrize(
    "distortion", [{"aggregate": True}, {"duplicate": True}, {"reorder": True}]
)
def test_distorted_feed_tells_the_same(distortion: dict[str, bool]) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="one\n")
        base = await store.get("n1")
        cursor = sim.bucket().current
        for text in ("one\ntwo\n", "zero\none\ntwo\n", "zero\n"):
            sim.edit("n1", content=text)
        sim.faults.distort_feed(**distortion)
        page = await store.changes(cursor, wait=False, base_of={"n1": base}.get)
        assert page.changes == (await store.get("n1"),)
        assert page.cursor != cursor

    with_simulator(step)


# The long poll


def test_long_poll_that_ends_in_silence_says_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        cursor = sim.bucket().current
        for fault in (sim.faults.delay, lambda *_, **k: sim.faults.cut_answer(**k)):
            fault(30, path="*/changes")
            page = await store.changes(cursor, wait=True, base_of=lambda _: None)
            assert page == ChangePage((), cursor)
            sim.faults.clear()

    monkeypatch.setattr(simplenote_store, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(simplenote_store, "SHORTEST_POLL_SECONDS", 0.15)
    with_simulator(step, poll_seconds=0.2)


@pytest.mark.parametrize("status", [502, 504])
def test_long_poll_broken_off_at_once_is_a_failure(status: int) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        rule = sim.faults.status(status, path="*/changes", times=9)
        with pytest.raises((StoreUnavailable, StoreTimeout)):
            await store.changes(sim.bucket().current, wait=True, base_of=lambda _: None)
        assert rule.fired == 1

    with_simulator(step)


def test_long_poll_without_network_is_a_failure() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        await store.list_page(since=None, mark=None, limit=1, with_content=False)
        sim.stop_listening()
        with pytest.raises(StoreUnavailable):
            await store.changes(sim.bucket().current, wait=True, base_of=lambda _: None)

    with_simulator(step)


def test_empty_long_poll_is_never_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        monkeypatch.setattr(simplenote_store, "asyncio", SimpleNamespace(sleep=sleep))
        await store.changes(sim.bucket().current, wait=True, base_of=lambda _: None)

    with_simulator(step, poll_seconds=0.01)
    assert len(pauses) == 1
    assert 0.5 < pauses[0] <= simplenote_store.SHORTEST_POLL_SECONDS


def test_every_failure_is_a_backend_error() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        for status in [*range(300, 309), *range(400, 452), *range(500, 512)]:
            if status in (401, 403):
                continue
            sim.faults.clear()
            sim.faults.status(status, path="*/note/*", times=99)
            with pytest.raises((StoreError, NoteNotFound)):
                await store.get("n1")

    with_simulator(step)


@pytest.mark.parametrize("much", [True, False])
def test_much_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch, much: bool) -> None:
    threads: list[threading.Thread] = []
    page_from = note_codec.page_from

    def noting(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread())
        return page_from(*args, **kwargs)

    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="x" * (simplenote_store.THREAD_BYTES if much else 1000))
        page = await store.list_page(since=None, mark=None, limit=8, with_content=True)
        assert [entry.id for entry in page.entries] == ["n1"]
        assert (threads == [threading.current_thread()]) is not much
        assert len(threads) == 1

    monkeypatch.setattr(note_codec, "page_from", noting)
    with_simulator(step)


def test_versions_are_found_over_the_gaps_that_the_service_leaves() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        for number in range(90):
            sim.put("n1", content=f"text {number + 1}")
        kept = sorted(sim.bucket()._find("n1").versions, reverse=True)
        assert kept[59:] == [31, 21, 11, 1]
        place, found = "90", []
        while place is not None:
            page = await store.list_versions("n1", before=place, limit=10)
            found += page.revisions
            place = page.more
        assert [one.server_version for one in found] == kept[1:]
        assert [one.content.text for one in found][-1] == "text 1"

    with_simulator(step)


def test_a_history_that_the_service_has_forgotten_ends_after_few_requests() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.put("n1", content="x")
        entity = sim.bucket()._find("n1")
        entity.version, entity.versions = 50_000, {50_000: entity.head}
        sim.reset_log()
        page = await store.list_versions("n1", before="50000", limit=10)
        assert (page.revisions, page.more) == ((), None)
        asked = [one for one in sim.requests if "/v/" in one.path]
        assert len(asked) == simplenote_store.MISSING_VERSIONS
        assert await store.list_versions("n1", before="not of ours", limit=10) == page

    with_simulator(step)
