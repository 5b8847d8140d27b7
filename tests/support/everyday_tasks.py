"""Do everyday tasks in every store that has them, as an agent does that has read only the tool list, and keep what is said.

Each task looks at the store itself to see that it is done.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.undo_places import PLACES, Place, Trilium

EVERY = ("simplenote", "local", "vault", "trilium", "memento")
VALUES: dict[str, dict[str, Any]] = {
    "simplenote": {"pinned": True, "markdown": True},
    "memento": {"pinned": True, "color": "red"},
}
"""Properties of a note in stores that have no others than these; the second one is what many notes get."""
ANY_VALUES = {"status": "sold", "price": 12.5}
PLAN = "# Plan\n\n## Steps\n\n- [ ] order timber 📅 2026-11-30\n- [ ] dig a hole\n\n## Notes\n\nThe ground is wet.\n"
PLAN_HTML = (
    '<h2>Steps</h2><ul class="todo-list"><li><label class="todo-list__label"><input type="checkbox" disabled="disabled">'
    '<span class="todo-list__label__description">order timber 📅 2026-11-30</span></label></li></ul>'
    "<h2>Notes</h2><p>The ground is wet.</p>"
)
LONG = "# Diary\n\n" + "".join(
    f"## Week {week}\n\n" + "Rain on most days, the beans grow slowly.\n" * 20 for week in range(90)
)


@dataclass
class Agent:
    """Call tools of one account, and keep what a model writes and reads."""

    place: Place
    ids: dict[str, str]
    asked: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.place.call(tool, **arguments)
        assert "error" not in answer, answer["error"]
        request = {"name": tool, "arguments": arguments}
        self.asked.append(json.dumps(request, ensure_ascii=False))
        self.answered.append(json.dumps(answer, ensure_ascii=False))
        return answer

    async def first(self, query: str) -> str:
        answer = await self("list", query=query, limit=3)
        return str(answer["content"][0]["uuid"])

    async def text(self, name: str) -> str:
        """What the note says; not counted."""
        return str((await self.place.call("get", id=self.ids[name]))["text"])

    async def values(self, name: str) -> dict[str, Any]:
        """The properties of the note; not counted."""
        return dict((await self.place.call("get", id=self.ids[name])).get("properties", {}))


Task = Callable[[Agent], Awaitable[object]]


async def _append_below_a_heading(agent: Agent) -> object:
    await agent("save", id=await agent.first("timber"), section="Notes", append="Bring boots.")
    text = await agent.text("plan")
    return text.index("The ground is wet.") < text.index("Bring boots.")


async def _read_one_section_of_many(agent: Agent) -> object:
    note = await agent.first("diary beans")
    answer = await agent("get", id=note, section="Week 41")
    return answer["text"].startswith("## Week 41") and "Week 42" not in answer["text"]


async def _rewrite_a_section(agent: Agent) -> object:
    note = await agent.first("diary beans")
    read = await agent("get", id=note, section="Week 41")
    version = read["local_version"]
    await agent("save", id=note, section="Week 41", text="It was dry.", local_version=version)
    answer = await agent.place.call("get", id=note, section="Week 41")
    return "It was dry." in answer["text"] and "Rain" not in answer["text"]


async def _rename_a_heading(agent: Agent) -> object:
    await agent("save", id=await agent.first("diary beans"), section="Week 3", heading="Week three")
    return "## Week three\n" in await agent.text("long")


async def _tick_a_task(agent: Agent) -> object:
    [row] = (await agent("list", query="task:open task:due<2026-12-05"))["content"]
    await agent("save", id=row["uuid"], task=row["tasks"][0]["text"])
    return (await agent.text("plan")).count("[x]") == 1


async def _reopen_a_task(agent: Agent) -> object:
    [row] = (await agent("list", query="task:done"))["content"]
    await agent("save", id=row["uuid"], task=row["tasks"][0]["text"], done=False)
    return "[x]" not in await agent.text("plan")


async def _read_three_at_once(agent: Agent) -> object:
    rows = (await agent("list", query="harvest"))["content"]
    notes = (await agent("get", ids=[row["uuid"] for row in rows]))["notes"]
    return len(notes) == 3 and all("harvest" in note["text"] for note in notes)


async def _one_tag_comes_and_one_goes(agent: Agent) -> object:
    note = await agent.first("apples")
    answer = await agent("save", id=note, add_tags=["eaten"], remove_tags=["stored"])
    return set(answer["tags"]) >= {"eaten"} and "stored" not in answer["tags"]


async def _tag_all_that_a_search_finds(agent: Agent) -> object:
    tried = await agent(
        "manage", action="change", query="harvest", add_tags=["y2026"], dry_run=True
    )
    done = await agent("manage", action="change", query="harvest", add_tags=["y2026"], confirm=True)
    agent.made["change"] = done["change_id"]
    found = await agent.place.call("list", query="tag:y2026")
    return (tried["notes"], done["notes"], found["total_items"]) == (3, 3, 3)


async def _take_that_back(agent: Agent) -> object:
    await agent("manage", action="undo", change_id=agent.made["change"], confirm=True)
    return (await agent.place.call("list", query="tag:y2026"))["total_items"] == 0


async def _write_into_today(agent: Agent) -> object:
    await agent("save", id="daily:today", append="Planted garlic.")
    again = await agent("save", id="daily:today", append="Watered it.")
    note = await agent.place.call("get", id="daily:today")
    return note["id"] == again["id"] and "garlic" in note["text"] and "Watered" in note["text"]


def _filter(name: str, value: Any) -> str:
    """The filter that finds a value, or a number as large."""
    if isinstance(value, float):
        return f"{name}:>={value - 2.5:g}"
    return f"{name}:{'yes' if value is True else value}"


async def _set_a_property(agent: Agent) -> object:
    note, values = await agent.first("apples"), VALUES.get(agent.place.store, ANY_VALUES)
    await agent("save", id=note, properties=values)
    return (await agent.values("apples")).items() >= values.items()


async def _find_by_properties(agent: Agent) -> object:
    values = VALUES.get(agent.place.store, ANY_VALUES)
    rows = (await agent("list", query=" ".join(map(_filter, values, values.values()))))["content"]
    return [row["uuid"] for row in rows] == [agent.ids["apples"]]


async def _remove_a_property(agent: Agent) -> object:
    (name, value), (gone, was) = VALUES.get(agent.place.store, ANY_VALUES).items()
    removed = {gone: False if was is True else None}
    await agent("save", id=await agent.first(_filter(name, value)), properties=removed)
    return (await agent.values("apples")).get(gone) != was


async def _count_properties(agent: Agent) -> object:
    answer = await agent("manage", action="list_properties")
    name = next(iter(VALUES.get(agent.place.store, ANY_VALUES)))
    return {row["name"] for row in answer["properties"]} >= {name}


async def _set_a_property_of_many(agent: Agent) -> object:
    name, value = [*VALUES.get(agent.place.store, {"season": "autumn"}).items()][-1]
    asked = {"query": "harvest", "properties": {name: value}}
    await agent("manage", action="change", **asked, confirm=True)
    return (await agent.place.call("list", query=_filter(name, value)))["total_items"] == 3


async def _find_what_hangs_loose(agent: Agent) -> object:
    answer = await agent("manage", action="find_problems")
    return answer["totals"]["broken_link"] == 1


async def _begin_from_a_template(agent: Agent) -> object:
    titled = agent.place.store != "simplenote"
    new = {"title": "Visit to the mill"} if titled else {}
    made = await agent("save", template="Visit", text="All fine.", **new)
    text = (await agent.place.call("get", id=made["id"]))["text"]
    return re.search("On [0-9-]{10}[.]", text) and text.rstrip().endswith("All fine.")


async def _move_a_part_of_the_tree(agent: Agent) -> object:
    await agent("manage", action="list_folders")
    asked = {"action": "move_folder", "folder": "Fruit", "new_folder": "Old"}
    await agent("manage", **asked, confirm=True)
    rows = (await agent.place.call("manage", action="list_folders"))["folders"]
    return "Old > Fruit" in [row.get("title") for row in rows]


async def _move_a_folder(agent: Agent) -> object:
    await agent("manage", action="list_folders")
    asked = {"action": "move_folder", "folder": "Fruit", "new_folder": "Old/Fruit"}
    await agent("manage", **asked, confirm=True)
    linked = (await agent.place.call("get", id=agent.ids["linking"]))["text"]
    return "(Old/Fruit/Cider.md)" in linked


async def _move_a_folder_or_part(agent: Agent) -> object:
    return await (_move_a_folder if agent.place.store == "vault" else _move_a_part_of_the_tree)(
        agent
    )


TASKS: dict[str, tuple[Task, tuple[str, ...]]] = {
    "append below a heading": (_append_below_a_heading, EVERY),
    "read one section of ninety": (_read_one_section_of_many, EVERY),
    "rewrite a section": (_rewrite_a_section, EVERY),
    "rename a heading": (_rename_a_heading, EVERY),
    "tick the task that is due": (_tick_a_task, EVERY),
    "reopen a task": (_reopen_a_task, EVERY),
    "read three notes at once": (_read_three_at_once, EVERY),
    "one tag comes, one goes": (_one_tag_comes_and_one_goes, EVERY),
    "tag all that a search finds": (_tag_all_that_a_search_finds, EVERY),
    "take all of that back": (_take_that_back, EVERY),
    "write into today's note, twice": (_write_into_today, EVERY),
    "set properties": (_set_a_property, EVERY),
    "find by properties": (_find_by_properties, EVERY),
    "remove a property": (_remove_a_property, EVERY),
    "count properties in use": (_count_properties, EVERY),
    "set a property of many notes": (_set_a_property_of_many, EVERY),
    "find what hangs loose": (_find_what_hangs_loose, ("vault",)),
    "begin a note from a template": (_begin_from_a_template, EVERY),
    "move a folder with its links": (_move_a_folder_or_part, ("vault", "trilium")),
}


def _prepare(place: Place, ids: dict[str, str]) -> None:
    html = place.store == "trilium"

    def put(name: str, title: str, text: str, tags: tuple[str, ...] = ()) -> None:
        shown = text if not html or text.startswith("<") else _as_html(text)
        more = {"tags": list(tags)} if tags else {}
        ids[name] = place.put(name, shown, title=title, **more)

    put("plan", "Plan", PLAN_HTML if html else PLAN)
    put("long", "Diary", LONG)
    for fruit in ("apples", "pears", "plums"):
        put(fruit, fruit.title(), f"The harvest of {fruit} was good.\n", ("stored",))
    visit = "# {{title}}\n\nOn {{date}}.\n" if place.store == "vault" else "On {{date}}.\n"
    if place.store != "vault":
        first = "Visit\n" if place.store == "simplenote" else ""
        put("visit", "Visit", first + visit, ("template",))
    if isinstance(place, Trilium):
        for name, above in (("Old", "root"), ("Fruit", "root"), ("Cider", "Fruit")):
            place.sim.write(name, name, "<p>Press them.</p>")
            if above != "root":
                place.sim.document.place(name, above)
                place.sim.document.unplace(place.sim.document.branches[f"root_{name}"])
    if place.store == "vault":
        folder = Path(getattr(place, "folder"))  # noqa: B009 - only a vault has one
        (folder / ".obsidian").mkdir()
        (folder / ".obsidian/templates.json").write_text('{"folder": "Templates"}')
        (folder / "Templates").mkdir()
        (folder / "Templates/Visit.md").write_text(visit)
        (folder / "Fruit").mkdir()
        (folder / "Fruit/Cider.md").write_text("Press them.\n")
        (folder / "Linking.md").write_text("[cider](Fruit/Cider.md) [[Nowhere]]\n")
        ids["linking"] = "Linking.md"


def _as_html(text: str) -> str:
    """The text as Trilium's editor writes it."""
    blocks = []
    for line in filter(None, text.splitlines()):
        marks = len(line) - len(line.lstrip("#"))
        blocks.append(f"<h{marks}>{line[marks:].strip()}</h{marks}>" if marks else f"<p>{line}</p>")
    return "".join(blocks)


async def run(store: str, folder: Path) -> dict[str, Agent]:
    """Do all tasks of a store; return what each has said. One that is not done ends the run."""
    ids: dict[str, str] = {}
    done, made = dict[str, Agent](), dict[str, Any]()
    async with PLACES[store](folder, lambda place: _prepare(place, ids)) as place:
        for name, (task, stores) in TASKS.items():
            if store in stores:
                agent = done[name] = Agent(place, ids, made=made)
                assert await task(agent), name
    return done
