"""Define the contract of the notes of days: where an app would put one, or that a service makes one alone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import cast

import pytest

from contract.bench import Bench, OnABench
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import IdTaken
from mcp_notarium.stores.contract import Days
from mcp_notarium.stores.extensions import DayMakingStore, DayPlacingStore

DAY = datetime(2031, 6, 20, 15, 4, 5, tzinfo=UTC)


class DaysContract(OnABench):
    async def test_a_new_note_can_be_made_where_a_day_belongs_and_replaces_none(
        self, bench: Bench
    ) -> None:
        if bench.store.traits.days is not Days.PLACED:
            return
        store = cast("DayPlacingStore", bench.store)
        place = await store.place_day(DAY)
        assert await store.place_day(DAY) == place
        assert (await store.place_day(DAY.replace(day=21))).path != place.path
        note_id = place.path.removesuffix(".md")  # as the bench names notes
        await store.push(self.write(store, note_id, Content("a\n", title=place.title)))
        assert await bench.text(note_id) == "a\n"
        with pytest.raises(IdTaken):
            await store.push(self.write(store, note_id, Content("b\n"), write_id="0b"))
        assert await bench.text(note_id) == "a\n"
        assert await store.place_day(DAY) == place

    async def test_a_service_makes_one_note_of_a_day_and_none_by_looking(
        self, bench: Bench
    ) -> None:
        if bench.store.traits.days is not Days.MADE:
            return
        store = cast("DayMakingStore", bench.store)
        day, other = "2031-06-20", "2031-06-21"
        assert await store.find_day(day) is None
        assert await store.find_day(day) is None
        made = {*await asyncio.gather(*(store.make_day(day) for _ in range(3)))}
        assert made == {await store.find_day(day)}
        [note_id] = made
        assert await store.make_day(other) != note_id
        revision = await store.get(note_id)
        assert store.day_of(revision) == day
        assert store.day_tag in revision.content.tags
        assert day.encode() in revision.raw
        held = await self.create(bench, "n1", "no day\n")
        assert store.day_of(held) == ""
