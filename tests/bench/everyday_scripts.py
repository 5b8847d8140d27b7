"""Hold what an agent does with the tools of each server for the everyday tasks, by what their descriptions say.

Each is the shortest way that reads what it changes. A task without a script cannot be done with the tools of that server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any, Protocol

Script = Callable[["Caller"], object]
FRUITS = ("Apples", "Pears", "Plums")
TODAY = f"{date.today():%Y-%m-%d}"  # noqa: DTZ011 - the day of the person
_BOOTS = "The ground is wet.\nBring boots."
_OPEN, _DONE = "- [ ] order timber 📅 2026-11-30", "- [x] order timber 📅 2026-11-30"
_SWEPT, _UNSWEPT = "- [x] sweep the yard ✅ 2026-11-20", "- [ ] sweep the yard"
_PAGE = f"# Visit to the mill\n\nOn {TODAY}.\n\nAll fine.\n"


class Caller(Protocol):
    """Calls a tool; what is said from ``begin`` on counts."""

    def __call__(self, tool: str, /, **arguments: Any) -> str: ...

    def begin(self) -> None: ...


def _json(text: str) -> Any:
    return json.loads(text)


# Ours


def _first(call: Caller, query: str) -> str:
    return str(_json(call("list", query=query, limit=3))["content"][0]["uuid"])


def _ours_tick(call: Caller, query: str, **more: Any) -> None:
    (row,) = _json(call("list", query=query))["content"]
    call("save", id=row["uuid"], task=row["tasks"][0]["text"], **more)


def _ours_rewrite(call: Caller) -> None:
    note = _first(call, "diary beans")
    version = _json(call("get", id=note, section="Week 41"))["local_version"]
    call("save", id=note, section="Week 41", text="It was dry.", local_version=version)


def _ours_three(call: Caller) -> None:
    rows = _json(call("list", query="harvest"))["content"]
    call("get", ids=[row["uuid"] for row in rows])


def _ours_many(call: Caller, **change: Any) -> str:
    asked = {"action": "change", "query": "harvest", **change}
    call("manage", **asked, dry_run=True)
    return str(_json(call("manage", **asked, confirm=True))["change_id"])


def _ours_back(call: Caller) -> None:
    change = _ours_many(call, add_tags=["y2026"])
    call.begin()
    call("manage", action="undo", change_id=change, confirm=True)


def _ours_day(call: Caller) -> None:
    call("save", id="daily:today", append="Planted garlic.")
    call("save", id="daily:today", append="Watered it.")


def _ours_move(call: Caller) -> None:
    call("manage", action="list_folders")
    asked = {"action": "move_folder", "folder": "Fruit", "new_folder": "Old/Fruit"}
    call("manage", **asked, confirm=True)


OURS: dict[str, Script] = {
    "append below a heading": lambda call: call(
        "save", id=_first(call, "timber"), section="Notes", append="Bring boots."
    ),
    "read one section of ninety": lambda call: call(
        "get", id=_first(call, "diary beans"), section="Week 41"
    ),
    "rewrite a section": _ours_rewrite,
    "rename a heading": lambda call: call(
        "save", id=_first(call, "diary beans"), section="Week 3", heading="Week three"
    ),
    "tick the task that is due": lambda call: _ours_tick(call, "task:open task:due<2026-12-05"),
    "reopen a task": lambda call: _ours_tick(call, "task:done", done=False),
    "read three notes at once": _ours_three,
    "one tag comes, one goes": lambda call: call(
        "save", id=_first(call, "apples"), add_tags=["eaten"], remove_tags=["stored"]
    ),
    "tag all that a search finds": lambda call: _ours_many(call, add_tags=["y2026"]),
    "take all of that back": _ours_back,
    "write into today's note, twice": _ours_day,
    "set properties": lambda call: call(
        "save", id=_first(call, "apples"), properties={"status": "sold", "price": 12.5}
    ),
    "find by properties": lambda call: call("list", query="status:sold price:>=10"),
    "remove a property": lambda call: call(
        "save", id=_first(call, "apples"), properties={"price": None}
    ),
    "count properties in use": lambda call: call("manage", action="list_properties"),
    "set a property of many notes": lambda call: call(
        *("manage",),
        action="change",
        query="harvest",
        properties={"season": "autumn"},
        confirm=True,
    ),
    "find what hangs loose": lambda call: call("manage", action="find_problems"),
    "begin a note from a template": lambda call: call(
        "save", template="Visit", title="Visit to the mill", text="All fine."
    ),
    "move a folder with its links": _ours_move,
}

# mcpvault


def _vault_find(call: Caller, query: str, **more: Any) -> str:
    return str(_json(call("search_notes", query=query, **more))[0]["p"])


def _vault_part(call: Caller, week: int) -> tuple[str, str]:
    """Read one section: its note and its text."""
    note = _vault_find(call, "diary beans")
    rows = _json(call("get_note_outline", path=note))
    at = next(n for n, row in enumerate(rows) if row["text"] == f"Week {week}")
    lines = {"startLine": rows[at]["line"], "endLine": rows[at + 1]["line"] - 1}
    return note, call("read_note_lines", path=note, **lines)


def _vault_patch(call: Caller, query: str, old: str, new: str) -> None:
    note = _vault_find(call, query)
    call("read_note", path=note)
    call("patch_note", path=note, oldString=old, newString=new)


def _vault_rewrite(call: Caller) -> None:
    note, read = _vault_part(call, 41)
    text = read if read.startswith("## ") else str(_json(read)["content"])
    call(
        "patch_note", path=note, oldString=text.rstrip("\n"), newString="## Week 41\n\nIt was dry."
    )


def _vault_rename(call: Caller) -> None:
    note = _vault_find(call, "diary beans")
    call("get_note_outline", path=note)
    call("patch_note", path=note, oldString="## Week 3\n", newString="## Week three\n")


def _vault_tick(call: Caller, state: str, name: str, old: str, new: str) -> None:
    call("search_notes", query=state, limit=20)
    call("read_note", path=name)
    call("patch_note", path=name, oldString=old, newString=new)


def _vault_harvest(call: Caller) -> list[str]:
    return [row["p"] for row in _json(call("search_notes", query="harvest", limit=20))]


def _vault_three(call: Caller) -> None:
    call("read_multiple_notes", paths=_vault_harvest(call))


def _vault_tags(call: Caller) -> None:
    note = _vault_find(call, "apples")
    call("manage_tags", path=note, operation="add", tags=["eaten"])
    call("manage_tags", path=note, operation="remove", tags=["stored"])


def _vault_tag_all(call: Caller) -> None:
    for note in _vault_harvest(call):
        call("manage_tags", path=note, operation="add", tags=["y2026"])


def _vault_back(call: Caller) -> None:
    _vault_tag_all(call)
    call.begin()
    for fruit in FRUITS:
        call("manage_tags", path=f"{fruit}.md", operation="remove", tags=["y2026"])


def _vault_day(call: Caller) -> None:
    call("list_directory", path="Days")
    for line in ("Planted garlic.\n", "Watered it.\n"):
        call("write_note", path=f"Days/{TODAY}.md", content=line, mode="append")


def _vault_by_value(call: Caller) -> None:
    asked = {"searchFrontmatter": True, "searchContent": False, "limit": 20}
    rows = _json(call("search_notes", query="sold", **asked))
    call("read_multiple_notes", paths=[row["p"] for row in rows], includeContent=False)


def _vault_count(call: Caller) -> None:
    """Read the front matter of every note: it is as many calls as there are folders, and tens of notes."""
    paths = []
    for folder in ("", "Days", "Fruit", "Templates"):
        listed = _json(call("list_directory", path=folder or "/"))
        paths += [f"{folder}/{file}".lstrip("/") for file in listed["files"]]
    for at in range(0, len(paths), 10):
        call("read_multiple_notes", paths=paths[at : at + 10], includeContent=False)


def _vault_set_all(call: Caller) -> None:
    for note in _vault_harvest(call):
        call("update_frontmatter", path=note, frontmatter={"season": "autumn"})


def _vault_loose(call: Caller) -> None:
    """Look at all links by their brackets, and follow those that are of names."""
    for mark in ("[[", "]("):
        call("search_notes", query=mark, limit=20)
    call("read_note", path="Linking.md")
    call("wiki_link", document="Nowhere")


def _vault_template(call: Caller) -> None:
    call("list_directory", path="Templates")
    call("read_note", path="Templates/Visit.md")
    call("write_note", path="Visit to the mill.md", content=_PAGE)


def _vault_move(call: Caller) -> None:
    for file in _json(call("list_directory", path="Fruit"))["files"]:
        call("move_note", oldPath=f"Fruit/{file}", newPath=f"Old/Fruit/{file}")
    note = _vault_find(call, "Fruit/", limit=20)
    call("read_note", path=note)
    call("patch_note", path=note, oldString="(Fruit/", newString="(Old/Fruit/")


MCPVAULT: dict[str, Script] = {
    "append below a heading": lambda call: _vault_patch(
        call, "timber", "The ground is wet.", _BOOTS
    ),
    "read one section of ninety": lambda call: _vault_part(call, 41),
    "rewrite a section": _vault_rewrite,
    "rename a heading": _vault_rename,
    "tick the task that is due": lambda call: _vault_tick(call, "- [ ]", "Plan.md", _OPEN, _DONE),
    "reopen a task": lambda call: _vault_tick(call, "- [x]", "Chores.md", _SWEPT, _UNSWEPT),
    "read three notes at once": _vault_three,
    "one tag comes, one goes": _vault_tags,
    "tag all that a search finds": _vault_tag_all,
    "take all of that back": _vault_back,
    "write into today's note, twice": _vault_day,
    "set properties": lambda call: call(
        "update_frontmatter",
        path=_vault_find(call, "apples"),
        frontmatter={"status": "sold", "price": 12.5},
    ),
    "find by properties": _vault_by_value,
    "remove a property": lambda call: _vault_patch(call, "apples", "price: 8\n", ""),
    "count properties in use": _vault_count,
    "set a property of many notes": _vault_set_all,
    "find what hangs loose": _vault_loose,
    "begin a note from a template": _vault_template,
    "move a folder with its links": _vault_move,
}

# basic-memory


def _memory_replace(call: Caller, name: str, old: str, new: str) -> None:
    asked = {"operation": "find_replace", "find_text": old, "content": new}
    call("edit_note", identifier=name, **asked)


def _memory_append(call: Caller) -> None:
    call("search_notes", query="timber")
    call("cat", identifier="Plan", section="Notes")
    _memory_replace(call, "Plan", "The ground is wet.", _BOOTS)


def _memory_part(call: Caller) -> None:
    call("search_notes", query="diary beans")
    call("cat", identifier="Diary", section="Week 41")


def _memory_rewrite(call: Caller) -> None:
    _memory_part(call)
    asked = {"operation": "replace_section", "section": "## Week 41"}
    call("edit_note", identifier="Diary", content="It was dry.", **asked)


def _memory_rename(call: Caller) -> None:
    call("search_notes", query="diary beans")
    _memory_replace(call, "Diary", "## Week 3\n", "## Week three\n")


def _memory_tick(call: Caller, words: str, name: str, old: str, new: str) -> None:
    """Find the line by a word of it: the mark of a task is no word for its search."""
    call("grep", pattern=words, context_lines=0)
    _memory_replace(call, name, old, new)


def _memory_three(call: Caller) -> None:
    call("search_notes", query="harvest")
    for fruit in FRUITS:
        call("read_note", identifier=fruit)


def _memory_set(call: Caller, name: str, /, **values: Any) -> None:
    call("edit_note", identifier=name, operation="append", content="", metadata=values)


def _memory_tags(call: Caller) -> None:
    call("search_notes", query="apples")
    call("read_note", identifier="Apples", output_format="json", include_content=False)
    _memory_set(call, "Apples", tags=["eaten"])


def _memory_tag_all(call: Caller) -> None:
    call("search_notes", query="harvest")
    for fruit in FRUITS:
        call("read_note", identifier=fruit, output_format="json", include_content=False)
        _memory_set(call, fruit, tags=["stored", "y2026"])


def _memory_back(call: Caller) -> None:
    _memory_tag_all(call)
    call.begin()
    for fruit in FRUITS:
        _memory_set(call, fruit, tags=["stored"])


def _memory_day(call: Caller) -> None:
    call("ls", path="Days")
    call("write_note", title=TODAY, directory="Days", content="Planted garlic.\n")
    asked = {"operation": "append", "content": "Watered it.\n"}
    call("edit_note", identifier=f"Days/{TODAY}", **asked)


def _memory_values(call: Caller) -> None:
    call("search_notes", query="apples")
    _memory_set(call, "Apples", status="sold", price=12.5)


def _memory_remove(call: Caller) -> None:
    """Replace its line: neither merged properties nor a note written anew remove one."""
    call("search_notes", query="apples")
    call("cat", identifier="Apples")
    _memory_replace(call, "Apples", "price: 8\n", "")


def _memory_set_all(call: Caller) -> None:
    call("search_notes", query="harvest")
    for fruit in FRUITS:
        _memory_set(call, fruit, season="autumn")


def _memory_template(call: Caller) -> None:
    call("ls", path="Templates")
    call("cat", identifier="Templates/Visit")
    call("write_note", title="Visit to the mill", directory="/", content=_PAGE)


def _memory_move(call: Caller) -> None:
    call("ls", path="/")
    call("move_note", identifier="Fruit", destination_path="Old/Fruit", is_directory=True)
    call("grep", pattern="Fruit", context_lines=0)
    _memory_replace(call, "Linking", "(Fruit/", "(Old/Fruit/")


BASIC_MEMORY: dict[str, Script] = {
    "append below a heading": _memory_append,
    "read one section of ninety": _memory_part,
    "rewrite a section": _memory_rewrite,
    "rename a heading": _memory_rename,
    "tick the task that is due": lambda call: _memory_tick(call, "timber", "Plan", _OPEN, _DONE),
    "reopen a task": lambda call: _memory_tick(call, "sweep", "Chores", _SWEPT, _UNSWEPT),
    "read three notes at once": _memory_three,
    "one tag comes, one goes": _memory_tags,
    "tag all that a search finds": _memory_tag_all,
    "take all of that back": _memory_back,
    "write into today's note, twice": _memory_day,
    "set properties": _memory_values,
    "find by properties": lambda call: call("find", meta=["status=sold", "price>=10"]),
    "remove a property": _memory_remove,
    "set a property of many notes": _memory_set_all,
    "begin a note from a template": _memory_template,
    "move a folder with its links": _memory_move,
}

# simplenote-mcp-server


def _simple_find(call: Caller, query: str) -> str:
    return str(re.findall(r'"id": ?"([^"]+)"', call("search_notes", query=query, limit=3))[0])


def _simple_rewrite(call: Caller, query: str, old: str, new: str) -> None:
    """Read the note, and write it as a whole: no tool changes less than a section."""
    note = _simple_find(call, query)
    text = str(_json(call("get_note", note_id=note))["content"])
    call("update_note", note_id=note, content=text.replace(old, new, 1))


def _simple_section(call: Caller, query: str, header: str, text: str) -> None:
    note = _simple_find(call, query)
    call("get_note", note_id=note)
    call("replace_section", note_id=note, header=header, new_content=text)


def _simple_harvest(call: Caller) -> list[str]:
    found = call("search_notes", query="harvest", limit=5)
    return re.findall(r'"id": ?"([^"]+)"', found)


def _simple_tags(call: Caller) -> None:
    note = _simple_find(call, "apples")
    call("add_tags", note_id=note, tags=["eaten"])
    call("remove_tags", note_id=note, tags=["stored"])


def _simple_bulk(call: Caller) -> list[str]:
    notes = _simple_harvest(call)
    call("bulk_tag", note_ids=notes, action="add", tags=["y2026"])
    return notes


def _simple_back(call: Caller) -> None:
    notes = _simple_bulk(call)
    call.begin()
    call("bulk_tag", note_ids=notes, action="remove", tags=["y2026"])


def _simple_day(call: Caller) -> None:
    for line in ("Planted garlic.", "Watered it."):
        call("append_to_daily_note", text=line)


SIMPLENOTE: dict[str, Script] = {
    "append below a heading": lambda call: _simple_section(call, "timber", "Notes", _BOOTS),
    "read one section of ninety": lambda call: call(
        "get_note", note_id=_simple_find(call, "diary beans")
    ),
    "rewrite a section": lambda call: _simple_section(
        call, "diary beans", "Week 41", "It was dry."
    ),
    "rename a heading": lambda call: _simple_rewrite(
        call, "diary beans", "## Week 3\n", "## Week three\n"
    ),
    "tick the task that is due": lambda call: _simple_rewrite(call, "timber", _OPEN, _DONE),
    "reopen a task": lambda call: _simple_rewrite(call, "sweep", _SWEPT, _UNSWEPT),
    "read three notes at once": lambda call: call(
        "export_notes", note_ids=",".join(_simple_harvest(call))
    ),
    "one tag comes, one goes": _simple_tags,
    "tag all that a search finds": _simple_bulk,
    "take all of that back": _simple_back,
    "write into today's note, twice": _simple_day,
}
