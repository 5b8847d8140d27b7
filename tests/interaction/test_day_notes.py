"""Test the notes of days in every store, by a connected client."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.tools.note_lookup import find_note
from support.sample_files import picture
from support.tool_client import connected
from support.tool_harness import NOW, ToolHarness
from support.undo_places import PLACES, Place

pytestmark = [pytest.mark.anyio, pytest.mark.slow("each test opens an account of its own")]
DAY = "2025-06-20"
ID = f"daily:{DAY}"


def _nothing(_place: Place) -> None:
    """No note is there."""


@pytest.fixture(name="zone")
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def enter(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield enter
    monkeypatch.undo()
    time.tzset()


async def _refusal(place: Place, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await place.call(tool, **arguments)
    return dict(json.loads(answer["error"]))


async def _count(place: Place) -> int:
    return int((await place.call("list"))["total_items"])


@pytest.mark.parametrize("store", PLACES)
async def test_the_note_of_a_day_is_made_once_and_then_changed(store: str, tmp_path: Path) -> None:
    async with PLACES[store](tmp_path, _nothing) as place:
        missing = await _refusal(place, "get", id=ID)
        assert (missing["category"], missing["details"]["day"]) == ("NOT_FOUND", DAY)
        assert "`save`" in missing["resolution_hint"]
        before = await _count(place)
        made = await place.call("save", id=ID, append="milk")
        assert not made["id"].startswith("daily:")
        history = await place.call("manage", action="history", id=ID)
        assert history["history"][0]["by"].startswith("agent")
        after = await _count(place)
        again = await place.call("save", id=f" DAILY:{DAY}", append="bread")
        assert again["id"] == made["id"]
        read = await place.call("get", id=ID)
        assert read["id"] == made["id"]
        assert (await find_note(place.harness.app, ID)).id == made["id"]  # one id of several
        lines = [line for line in read["text"].split("\n") if line]
        titled = place.harness.app.library.traits.titles
        assert lines == (["milk", "bread"] if titled else [DAY, "milk", "bread"])
        assert await _count(place) == after
        # The calendar of Trilium has notes above that of a day.
        assert after - before == 1 or store == "trilium"
        replaced = await place.call(
            "save", id=ID, local_version=read["local_version"], find="milk", replace="tea"
        )
        assert "tea" in replaced["changed"][0]["text"]
        undone = await place.call("manage", action="undo", id=ID, confirm=True)
        assert (undone["status"], undone["id"]) == ("undone", made["id"])


@pytest.mark.parametrize("store", PLACES)
async def test_two_calls_at_once_make_one_note_and_lose_nothing(store: str, tmp_path: Path) -> None:
    async with PLACES[store](tmp_path, _nothing) as place:
        items = [f"item {number}" for number in range(4)]
        saved = await asyncio.gather(*(place.call("save", id=ID, append=item) for item in items))
        assert len({one["id"] for one in saved}) == 1
        text = (await place.call("get", id=ID))["text"]
        assert sorted(line for line in text.split("\n") if "item" in line) == items


@pytest.mark.parametrize("store", PLACES)
async def test_a_text_alone_is_the_whole_text_and_needs_no_version(
    store: str, tmp_path: Path
) -> None:
    async with PLACES[store](tmp_path, _nothing) as place:
        made = await place.call("save", id=ID, text="# Plan\n\nmilk")
        read = await place.call("get", id=ID)
        titled = place.harness.app.library.traits.titles
        assert read["id"] == made["id"]
        assert read["text"].rstrip("\n") == ("" if titled else f"{DAY}\n") + "# Plan\n\nmilk"
        refused = await _refusal(place, "save", id=ID, text="other")
        assert "local_version" in refused["message"]
        stale = await _refusal(place, "save", id="daily:2025-06-21", text="x", local_version=3)
        assert stale["category"] == "NOT_FOUND"
        assert "Leave the version out" in stale["resolution_hint"]


@pytest.mark.parametrize("store", PLACES)
async def test_tags_beside_the_first_text_are_added_to_those_of_the_app(
    store: str, tmp_path: Path
) -> None:
    async with PLACES[store](tmp_path, _nothing) as place:
        traits = place.harness.app.library.traits
        if not traits.tags:
            return
        made = await place.call("save", id=ID, text="milk #x", tags=["home"])
        assert {"home"} <= {*made["tags"]}
        assert (await place.call("get", id=ID))["id"] == made["id"]


@pytest.mark.parametrize("store", ["local", "memory", "vault", "trilium", "memento"])
async def test_a_file_alone_begins_the_note_of_a_day(store: str, tmp_path: Path) -> None:
    file = f"data:image/png;name=plan.png;base64,{base64.b64encode(picture('PNG')).decode()}"
    async with PLACES[store](tmp_path, _nothing) as place:
        if store == "vault":
            (tmp_path / "vault/.obsidian").mkdir()
            settings = {"template": "Day"}
            (tmp_path / "vault/.obsidian/daily-notes.json").write_text(json.dumps(settings))
            (tmp_path / "vault/Day.md").write_text("# Plan\n\n# Photos\n")
            await place.harness.sync()
        section = {"section": "Photos"} if store == "vault" else {}
        made = await place.call("save", id=ID, file=file, add_tags=["home"], **section)
        assert "unchanged" not in made
        read = await place.call("get", id=ID)
        assert (read["id"], read["local_version"]) == (made["id"], made["local_version"])
        assert "home" in read["tags"]
        assert [one["id"] for one in read["files"]] == [one["id"] for one in made["files"]]
        if store == "vault":
            assert read["text"].endswith("---\n# Plan\n\n# Photos\n![[plan.png]]\n")
        undone = await place.call("manage", action="undo", id=ID, confirm=True)
        assert undone["status"] == "undone"
        left = await place.call("get", id=ID)
        assert (left["id"], left.get("files")) == (made["id"], None)
        again = await place.call("save", id=ID, file=file, **section)
        assert again["id"] == made["id"]


async def test_a_file_that_the_store_does_not_take_begins_no_note(tmp_path: Path) -> None:
    file = f"data:text/plain;name=a.txt;base64,{base64.b64encode(b'x').decode()}"
    async with PLACES["memento"](tmp_path, _nothing) as place:
        for new in ({"id": ID}, {"text": "milk"}):
            assert (await _refusal(place, "save", file=file, **new))["subcategory"] == "no_files"
        assert await _count(place) == 0


async def test_a_first_line_that_is_the_date_is_not_doubled(tmp_path: Path) -> None:
    async with PLACES["simplenote"](tmp_path, _nothing) as place:
        for number, text in enumerate((f"{DAY}\nmilk", f"# {DAY}\nmilk", f"{DAY}1\nmilk"), 20):
            day = f"2025-06-{number}"
            said = text.replace(DAY, day)
            await place.call("save", id=f"daily:{day}", text=said)
            read = await place.call("get", id=f"daily:{day}")
            assert read["text"] == (said if number < 22 else f"{day}\n{said}")


@pytest.mark.parametrize("store", PLACES)
async def test_what_was_saved_is_recorded_under_the_id_of_the_note(
    store: str, tmp_path: Path
) -> None:
    async with PLACES[store](tmp_path, _nothing) as place:
        made = await place.call("save", id=ID, append="milk")
        await place.call("save", id=ID, append="bread")
        await place.call("get", id=ID)
        audit = place.harness.app.audit
        audit.flush(wait=True)
        acts = [one for one in audit.table.records() if one.act in ("tool.save", "tool.get")]
        done = [one for one in acts if one.outcome == "ok"]
        assert {one.act for one in done} == {"tool.save", "tool.get"}
        begun = [one for one in acts if one.outcome == ""][1:]  # the first had no id yet
        assert len(begun) == 1
        assert all(audit.note_reference(made["id"]) in one.notes for one in (*done, *begun))
        assert all("daily" not in one.notes + one.facts for one in acts)


@pytest.mark.parametrize(
    ("zone_name", "day"),
    [("UTC", "2025-06-15"), ("XYZ-12", "2025-06-16"), ("XYZ+20", "2025-06-14")],
)
async def test_a_day_is_one_of_the_local_time_zone(
    zone: Any, zone_name: str, day: str, tmp_path: Path
) -> None:
    zone(zone_name)
    assert datetime.fromtimestamp(NOW, UTC).date().isoformat() == "2025-06-15"
    async with PLACES["local"](tmp_path, _nothing) as place:
        for name in ("yesterday", "today", "Tomorrow"):
            await place.call("save", id=f"daily:{name}", append=name)
        found = await place.call("get", id=f"daily:{day}")
        assert (found["title"], found["text"]) == (day, "today")
        assert (await place.call("get", id="daily:Today"))["id"] == found["id"]
        assert await _count(place) == 3


async def test_a_day_that_there_is_not_is_refused_with_the_forms(tmp_path: Path) -> None:
    tools: dict[str, dict[str, Any]] = {
        "get": {},
        "save": {"append": "x"},
        "manage": {"action": "history"},
    }
    days = ("monday", "2025-02-30", "20250620", "", "2025-W25-5", "2025-06-20x", "٢٠٢٥-٠٦-٢٠")
    async with PLACES["local"](tmp_path, _nothing) as place:
        for tool, more in tools.items():
            for day in days:
                refused = await _refusal(place, tool, id=f"daily:{day}", **more)
                assert refused["subcategory"] == "day"
                assert "`daily:2026-11-28`" in refused["resolution_hint"]
        assert await _count(place) == 0


async def test_a_note_that_is_called_so_is_still_found_by_its_title(tmp_path: Path) -> None:
    def put(place: Place) -> None:
        place.put("a", "milk", title="Daily: standup")

    async with PLACES["local"](tmp_path, put) as place:
        read = await place.call("get", id="Daily: standup")
        assert read["text"] == "milk"


async def test_the_newest_of_several_notes_of_a_day_counts_and_none_in_the_trash(
    tmp_path: Path,
) -> None:
    async with PLACES["local"](tmp_path, _nothing) as place:
        first = await place.call("save", text=f"{DAY}\nfirst")
        await asyncio.sleep(1.1)
        second = await place.call("save", text=f"# {DAY}\nsecond")
        await place.call("save", text=f"{DAY} and more")
        assert (await place.call("get", id=ID))["id"] == second["id"]
        await place.call(
            "manage", action="trash", id=second["id"], local_version=second["local_version"]
        )
        assert (await place.call("get", id=ID))["id"] == first["id"]


async def test_a_note_of_a_day_in_the_trash_is_not_made_again_but_comes_back(
    tmp_path: Path,
) -> None:
    async with PLACES["local"](tmp_path, _nothing) as place:
        made = await place.call("save", id=ID, append="first")
        version = {"local_version": made["local_version"]}
        await place.call("manage", action="trash", id=made["id"], **version)
        read = await place.call("get", id=ID)
        assert (read["id"], read["trash"]) == (made["id"], True)
        refused = await _refusal(place, "save", id=ID, append="second")
        assert "is in the trash" in refused["message"]
        assert "`untrash`" in refused["resolution_hint"]
        version = {"local_version": read["local_version"]}
        await place.call("manage", action="untrash", id=ID, **version)
        await place.call("save", id=ID, append="second")
        assert (await place.call("get", id=ID))["text"] == "first\nsecond"
        assert await _count(place) == 1


async def test_while_notes_are_loading_no_second_note_of_a_title_is_made(tmp_path: Path) -> None:
    harness = ToolHarness(tmp_path)
    harness.store.put("a" * 32, f"{DAY}\ntheirs")
    async with connected(harness.opened) as client:
        for tool, more in (("save", {"append": "x"}), ("get", {})):
            refused = await client.call_tool(tool, {"id": ID, **more})
            assert json.loads(refused.content[0].text)["subcategory"] == "loading"
        await harness.sync()
        saved = await client.call_tool("save", {"id": ID, "append": "ours"})
        assert saved.structured_content["id"] == "a" * 32
    harness.close()


async def test_a_native_tool_takes_a_day_as_well(tmp_path: Path) -> None:
    async with PLACES["local"](tmp_path, _nothing) as place:
        made = await place.call("save", id=ID, append="milk")
        tools = {tool.name for tool in (await place.client.list_tools()).tools}
        name = next(one for one in tools if one.lower().replace("_", "").startswith("getnote"))
        answer = await place.call(name, id=ID)
        assert made["id"] in str(answer)


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
async def test_the_ends_of_the_calendar_are_days_too(day, tmp_path):
    async with PLACES["local"](tmp_path, lambda _place: None) as place:
        missing = await place.call("get", id=f"daily:{day}")
        assert "NOT_FOUND" in missing["error"]
        made = await place.call("save", id=f"daily:{day}", append="x")
        assert (await place.call("get", id=f"daily:{day}"))["id"] == made["id"]
