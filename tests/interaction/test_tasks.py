"""Tasks of notes through a client: found by state and days, shown in their rows, ticked and reopened in their place."""

from __future__ import annotations

from typing import Any

import pytest

from support.undo_places import PLACES, Place

pytestmark = pytest.mark.anyio

BOXES = (
    "Plan\n\n- [ ] milk 📅 2026-12-01\n- [x] bread ✅ 2026-11-01\n- [/] eggs ⏳ 2026-12-05\n"
    "- [ ] cheese [due:: 2027-01-02]\n- [-] wine\n"
)
HTML = (
    '<p>Plan</p><ul class="todo-list"><li><label class="todo-list__label"><input type="checkbox" disabled="disabled">'
    '<span class="todo-list__label__description">milk 📅 2026-12-01</span></label></li><li><label class="todo-list__label">'
    '<input type="checkbox" checked="checked" disabled="disabled"><span class="todo-list__label__description">bread</span>'
    "</label></li></ul>"
)
ITEMS = (
    '[{"id":"i1","text":"milk 📅 2026-12-01","checked":false},'
    '{"id":"i2","text":"bread","checked":true}]'
)
KINDS = ("simplenote", "local", "vault", "trilium", "memento")


def with_tasks(place: Place) -> str:
    if place.store == "trilium":
        return place.put("plan", HTML, title="Plan")
    if place.store == "memento":
        return place.put("plan", "", columns={"type": "checklist", "checkItems": ITEMS})
    return place.put("plan", BOXES, title="Plan")


async def tasks_of(place: Place, query: str) -> list[tuple[str, str]]:
    answer = await place.call("list", query=query)
    assert "error" not in answer, answer
    return [(one["text"], one["state"]) for row in answer["content"] for one in row["tasks"]]


@pytest.mark.parametrize("store", KINDS)
async def test_tasks_are_found_by_state_and_due_day(store: str, tmp_path: Any) -> None:
    def put(place: Place) -> None:
        with_tasks(place)
        place.put("none", "task:open is a word\n", title="None")

    async with PLACES[store](tmp_path, put) as place:
        [milk] = await tasks_of(place, "task:open task:due<=2026-12-01")
        assert milk == ("milk", "open")
        assert ("bread", "done") in await tasks_of(place, "task:done")
        assert (await place.call("list", query="task:open task:due<2026-12-01"))["total_items"] == 0
        assert "note" not in await place.call("list", query="task:done task:due<-9999w")
        assert "note" not in await place.call("list", query="task:done task:due:today")
        assert (await place.call("list", query="-task:any"))["total_items"] == 1
        assert (await place.call("list", query='"task:open"'))["total_items"] == 1
        [row] = (await place.call("list", query="task:due:2026-12"))["content"]
        assert row["tasks"][0]["due"] == "2026-12-01"
        text = (await place.call("get", id=row["uuid"]))["text"]
        assert "milk" in text.splitlines()[row["tasks"][0]["line"] - 1]


async def test_one_task_is_all_of_a_search(tmp_path: Any) -> None:
    def put(place: Place) -> None:
        with_tasks(place)
        place.put("other", "- [x] late 📅 2026-11-01\n- [ ] soon 📅 2027-05-05\n", title="Other")

    async with PLACES["vault"](tmp_path, put) as place:
        assert await tasks_of(place, "task:open task:due<2026-12-15") == [("milk", "open")]
        assert await tasks_of(place, "task:open task:due>=2027 milk") == [("cheese", "open")]
        assert await tasks_of(place, "task:doing") == [("eggs", "doing")]
        assert await tasks_of(place, "task:scheduled:2026-12") == [("eggs", "doing")]
        assert await tasks_of(place, "task:cancelled") == [("wine", "cancelled")]
        both = await place.call("list", query="task:open task:done")
        assert both["total_items"] == 2
        refused = await place.call("list", query="task:soon")
        assert "task:due<2026-12-31" in refused["error"]


@pytest.mark.parametrize("store", KINDS)
async def test_a_task_is_ticked_and_reopened_by_its_words(store: str, tmp_path: Any) -> None:
    ids: list[str] = []
    async with PLACES[store](tmp_path, lambda place: ids.append(with_tasks(place))) as place:
        before = place.raw(ids[0])
        ticked = await place.call("save", id=ids[0], task="MILK")
        assert "error" not in ticked, ticked
        done = [one for one in await tasks_of(place, "task:done") if one[0] == "milk"]
        assert done == [("milk", "done")]
        assert (await place.call("save", id=ids[0], task="milk"))["unchanged"]
        reopened = await place.call("save", id=ids[0], task="milk", done=False)
        assert "error" not in reopened, reopened
        assert place.raw(ids[0]) == before
        await place.call("save", id=ids[0], task="milk")
        undone = await place.call("manage", action="undo", id=ids[0], confirm=True)
        assert undone["status"] == "undone"
        assert place.raw(ids[0]) == before


async def test_the_day_is_written_as_the_note_writes_it(tmp_path: Any) -> None:
    ids: list[str] = []
    async with PLACES["vault"](tmp_path, lambda place: ids.append(with_tasks(place))) as place:
        await place.call("save", id=ids[0], task="milk")
        await place.call("save", id=ids[0], task="cheese")
        lines = (await place.call("get", id=ids[0]))["text"].splitlines()
        assert lines[2].startswith("- [x] milk 📅 2026-12-01 ✅ 20")
        assert lines[5].startswith("- [x] cheese [due:: 2027-01-02]  [completion:: 20")


async def test_a_line_needs_the_version_and_words_must_be_of_one_task(tmp_path: Any) -> None:
    ids: list[str] = []
    async with PLACES["local"](tmp_path, lambda place: ids.append(with_tasks(place))) as place:
        note = await place.call("get", id=ids[0])
        version = note["local_version"]
        for named, done, box in ((3, "true", "[x]"), ("Line 3", False, "[ ]")):
            unread = await place.call("save", id=ids[0], task=named)
            assert "without `local_version`" in unread["error"]
            line = await place.call("save", id=ids[0], task=named, local_version=version, done=done)
            assert f"{box} milk" in line["changed"][0]["text"]
            version = line["local_version"]
        refused = await place.call("save", id=ids[0], task="e")
        assert "tasks of the note are called so" in refused["error"]
        assert '"text":"bread"' in refused["error"]
        refused = await place.call("save", id=ids[0], task="nothing")
        assert '"state":"doing"' in refused["error"]
        refused = await place.call("save", id=ids[0], task="milk", section="Plan")
        assert "without a `section`" in refused["error"]
        refused = await place.call("save", id=ids[0], done=True)
        assert "without `task`" in refused["error"]
        made = await place.call("save", text="no box here")
        refused = await place.call("save", id=made["id"], task="box")
        assert "The note has no tasks." in refused["error"]


async def test_a_task_that_comes_again_is_told(tmp_path: Any) -> None:
    ids: list[str] = []
    text = "- [ ] water the plants 🔁 every week 📅 2026-12-01\n"
    async with PLACES["vault"](tmp_path, lambda place: ids.append(place.put("n", text))) as place:
        assert "comes again" in (await place.call("save", id=ids[0], task="water"))["note"]
