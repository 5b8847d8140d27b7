"""Every kind of change, in every store whose answers can get lost: finished once if its answer was not stored, and taken back whole."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mcp import MCPError

from interaction.test_undo_every_store import CHANGES, REWRITTEN, Change, change_note
from mcp_notarium.errors import CacheFull
from mcp_notarium.sync.journal import Journal
from mcp_notarium.sync.replay import Replay
from support.sync_rig import quick_folder
from support.undo_places import AGENT, PLACES, Place

pytestmark = [pytest.mark.anyio, pytest.mark.slow("makes all changes of a store")]
STORES = sorted(PLACES.keys() - {"local", "memory"})
"""Those that are not in the database of the index."""


@contextmanager
def unstored() -> Iterator[None]:
    """Let the store's answers find a full disk."""
    finish = Journal.finish

    def full(journal: Journal, write: Any, **how: Any) -> bool:
        if how.get("storing") is not None:
            raise CacheFull("the answer was not stored")
        return finish(journal, write, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "finish", full)
        yield


async def _change(place: Place, note_id: str, change: Change) -> str:
    with pytest.raises((AssertionError, MCPError), match="Do not repeat the write"):
        await change_note(place, note_id, change)
    return note_id


async def _undo(place: Place, note_id: str) -> None:
    answer = await place.call("manage", action="undo", id=note_id, confirm=True)
    assert "in_doubt" in answer.get("error", ""), answer


async def _judge(place: Place, note_id: str, before: Any) -> list[str]:
    note = await place.call("get", id=note_id)
    history = (await place.call("manage", action="history", id=note_id))["history"]
    faults = [] if place.raw(note["id"]) == before else [f"is {place.raw(note['id'])}"]
    by = [row.get("by") for row in history]
    return faults if by == [AGENT, AGENT, None] else [*faults, f"made by {by}"]


@pytest.mark.parametrize("store", STORES)
async def test_a_change_whose_answer_was_not_stored_is_made_once_and_taken_back(store: str) -> None:
    rewritten = REWRITTEN if store == "trilium" else {}
    changes, ids = CHANGES[store] | rewritten, dict[str, str]()

    def put(place: Place) -> None:
        ids.update({name: place.put(name, one.text, **one.more) for name, one in changes.items()})

    with quick_folder() as folder:
        async with PLACES[store](folder, put) as place:
            before = {name: place.raw(note_id) for name, note_id in ids.items()}
            with unstored():
                await asyncio.gather(*(_change(place, ids[name], changes[name]) for name in ids))
            for _ in range(2):
                await place.harness.sync()
            with unstored():
                await asyncio.gather(*(_undo(place, note_id) for note_id in ids.values()))
            for _ in range(2):
                await place.harness.sync()
            faults = {name: await _judge(place, ids[name], before[name]) for name in ids}
            assert {name: said for name, said in faults.items() if said} == {}


@pytest.mark.parametrize("store", STORES)
async def test_an_index_that_is_loaded_again_meanwhile_stops_neither_reads_nor_the_write(
    store: str,
) -> None:
    async def finish_none(_replay: Replay) -> Counter[Any]:
        return Counter()

    ids: list[str] = []
    text = "<p>milk</p>" if store == "trilium" else "milk\n"
    with quick_folder() as folder:
        async with PLACES[store](folder, lambda place: ids.append(place.put("a", text))) as place:
            before = place.raw(ids[0])
            with unstored():
                answer = await place.call("save", id=ids[0], append="eggs")
                assert "in_doubt" in answer["error"]
            place.harness.app.cache.sync_state.set("sync.codec_version", None)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Replay, "finish_all", finish_none)
                await place.harness.sync()
            assert "error" not in await place.call("get", id=ids[0])
            for _ in range(2):
                await place.harness.sync()
            stats = (await place.call("manage", action="get_stats"))["stats"]
            assert (stats["pending_writes"], stats.get("sync_last_error")) == (0, None)
            assert (await place.call("get", id=ids[0]))["text"].count("eggs") == 1
            history = (await place.call("manage", action="history", id=ids[0]))["history"]
            assert [row.get("by") for row in history] == [AGENT, None]
            await place.call("manage", action="undo", id=ids[0], confirm=True)
            assert place.raw(ids[0]) == before
