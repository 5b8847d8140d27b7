"""Simplenote's tag list is kept complete, and never in the way."""

from __future__ import annotations

import asyncio

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.stores.contract import PushStatus
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from mcp_notarium.stores.simplenote.writes import is_listed, tag_id
from notarium_devtools.simperium import Simulator
from support.simplenote_client import pending, with_simulator


def tag_names(sim: Simulator) -> list[str]:
    return sorted(str(stored.value["name"]) for stored in sim.bucket("tag").all().values())


def test_added_tag_gets_its_object_and_known_ones_no_second() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.bucket("tag").force_write("random-id-of-old-times", {"name": "Known"})
        sim.put("n1", content="a", tags=["from elsewhere", "remote"])
        base = await store.get("n1")
        tags = ("remote", "known", "Größe", "friend@example.com", "two words", "a-b")
        await store.push(pending(store, Content("a", tags), base=base))
        await store.close()
        assert tag_names(sim) == ["Größe", "Known", "a-b"]
        assert {"gr%C3%B6%C3%9Fe", "a-b"} <= set(sim.bucket("tag").all())

    with_simulator(step)


def test_tag_list_out_of_order_does_not_touch_the_push() -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.faults.status(500, path="*/tag/*", times=99)
        answer = await store.push(pending(store, Content("a", ("new",))))
        assert answer.status is PushStatus.STORED
        await store.close()
        assert tag_names(sim) == []

    with_simulator(step)


@pytest.mark.parametrize("index", ["5", "true", '"text"', '{"a": 1}', "[5, null, {}]", "null"])
def test_tag_list_that_is_none_ends_nothing(index: str) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.faults.status(200, path="*/tag/index", body=f'{{"index": {index}}}'.encode())
        await store.push(pending(store, Content("a", ("new",))))
        task = store._tags._task
        assert task is not None
        await task
        assert tag_names(sim) == ["new"]

    with_simulator(step)


def test_close_does_not_wait_for_a_slow_tag_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async def step(sim: Simulator, store: SimplenoteStore) -> None:
        sim.faults.delay(20, path="*/tag/*", times=99)
        await store.push(pending(store, Content("a", ("new",))))
        async with asyncio.timeout(2):
            await store.close()

    monkeypatch.setattr("mcp_notarium.stores.simplenote.writes._CLOSING_SECONDS", 0.1)
    with_simulator(step, timeout=15)


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
    assert not is_listed(name)
