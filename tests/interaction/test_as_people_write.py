"""Names and places as people give them: in every store the call does what is meant, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.undo_places import PLACES, Place

pytestmark = pytest.mark.anyio

BLOCK = "---\nstatus: open\n---\n"
TODO = (
    '<ul class="todo-list"><li><label class="todo-list__label"><input type="checkbox" disabled="disabled">'
    '<span class="todo-list__label__description">buy <strong>oat</strong> milk</span></label></li></ul>'
)


@pytest.mark.parametrize(
    ("store", "body"),
    [("simplenote", "Plan\n\ntop\nbody\n"), ("local", "top\nPlan\n\nbody\n"),
     ("memento", "top\nPlan\n\nbody\n"), ("vault", "top\n\nPlan\n\nbody\n")],
)  # fmt: skip
async def test_what_comes_to_the_top_leaves_the_properties(
    store: str, body: str, tmp_path: Any
) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.append(place.put("one", f"{BLOCK}Plan\n\nbody\n", title="One"))
        ids.append(place.put("two", BLOCK, title="Two"))
        ids.append(place.put("three", "---\n\nsaid\n\n---\n", title="Three"))

    async with PLACES[store](tmp_path, put) as place:
        for note_id, text in zip(ids, (body, "top\n"), strict=False):
            answer = await place.call("save", id=note_id, prepend="top")
            assert answer["properties"]["status"] == "open", answer
            assert (await place.call("get", id=note_id))["text"] == BLOCK + text
        await place.call("save", id=ids[2], prepend="top")
        # Two lines across the page are no block of properties; in a file they are one.
        lines = (await place.call("get", id=ids[2]))["text"].split("\n")
        assert lines.index("top") == {"simplenote": 2, "vault": 5}.get(store, 0), lines


@pytest.mark.parametrize("store", ["simplenote", "local", "memento"])
async def test_a_mark_is_known_in_any_letter_case(store: str, tmp_path: Any) -> None:
    ids: list[str] = []
    async with PLACES[store](tmp_path, lambda place: ids.append(place.put("one", "x"))) as place:
        set_ = await place.call("save", id=ids[0], properties={"Pinned": "true"})
        assert set_["properties"] == {"pinned": True}
        gone = await place.call("save", id=ids[0], properties={"PINNED": False})
        assert "properties" not in gone, gone
        await place.call("save", id=ids[0], properties={"pinned": True})
        gone = await place.call("save", id=ids[0], properties={"Pinned": None})
        assert "properties" not in gone, gone


@pytest.mark.parametrize("store", ["local", "trilium"])
async def test_a_task_is_named_without_its_marks_of_markdown(store: str, tmp_path: Any) -> None:
    ids: list[str] = []
    text = TODO if store == "trilium" else "- [ ] buy **oat** milk\n- [ ] `C#` again\n"
    async with PLACES[store](tmp_path, lambda place: ids.append(place.put("one", text))) as place:
        answer = await place.call("save", id=ids[0], task="Buy oat milk")
        assert "[x] buy **oat** milk" in answer["changed"][0]["text"], answer
        assert '"tasks"' in (await place.call("save", id=ids[0], task="C++"))["error"]


async def test_notes_to_read_may_come_as_one_text(tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.extend(place.put(name, name, title=name) for name in ("one", "two"))

    async with PLACES["local"](tmp_path, put) as place:
        for asked, expected in {ids[0]: ids[:1], ", ".join(ids): ids, json.dumps(ids): ids}.items():
            answer = await place.call("get", ids=asked)
            assert [row["id"] for row in answer["notes"]] == expected
        assert "at most 20" in (await place.call("get", ids=",".join(ids * 11)))["error"]


async def test_values_of_labels_are_stored_as_they_are_said(tmp_path: Any) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        ids.append(place.put("one", "<p>x</p>", properties={"rating": "4", "due": "2026-12-01"}))

    async with PLACES["trilium"](tmp_path, put) as place:
        said: tuple[Any, ...] = (5, ["a", "b"], ["c", "b"], ["b", "c", "a"], ["a", "b", "c"], "x")
        for value in said:
            answer = await place.call("save", id=ids[0], properties={"rating": value})
            assert "note" not in answer, answer
            assert answer["properties"] == {"rating": value, "due": "2026-12-01"}
        answer = await place.call("save", id=ids[0], properties={"rating": ["d", "d"]})
        assert answer["properties"]["rating"] == "d"
        assert "note" not in answer
