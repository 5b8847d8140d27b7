"""Hold the first sixteen everyday tasks (``rows_tasks``) as other servers can do them: notes, judges, and a script for each server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.everyday_scripts import Caller, Script

Notes = dict[str, str]
Judge = Callable[[Notes, Notes, str], str]
_LOG_LINES, _LONG_LINES, _HEDGEHOG = 600, 5_000, 3_812
_WEATHER = "2026-11-23 wind 4, rain"
_RECIPE = (
    "# Pancakes\n\n- 200 g flour\n- 3 eggs\n- 400 ml milk\n\nWhisk, rest, and fry in butter.\n"
)
_MEETING = "# Meeting with Ada\n\n- budget agreed\n- next meeting in two weeks\n"
_MERGED = "# Reading list\n\n- Middlemarch\n- Emma\n- Ulysses\n- Walden\n"
_WIFI = ("Wifi", "Wifi-again", "Wifi-once-more")
_BOILERS = (2, 5, 30, 200)
"""Days since each visit was written down."""
GARDENS = tuple(f"Garden-plan-{number}" for number in range(5))
RENTS = ("90 EUR", "95 EUR", "110 EUR")
AGES: Mapping[str, float] = {f"Boiler-{number}": days for number, days in enumerate(_BOILERS)}
"""Name to the days since the note was changed; all others: 90."""
TRASHED = "Packing"
OF_SIMPLENOTE = ("read an older version", "pin", "set the Markdown flag")
"""Tasks that the notes of a vault have nothing for."""


def _date(number: int) -> str:
    return f"{datetime(2013, 3, 1, tzinfo=UTC) + timedelta(days=number):%Y-%m-%d}"


def _tagged(text: str, *tags: str) -> str:
    return "---\ntags:\n" + "".join(f"  - {tag}\n" for tag in tags) + f"---\n{text}"


def basic_notes() -> Notes:
    """Return the notes by name, with the one that is in the trash."""
    log = "".join(f"{_date(number)} wind {number % 9}, fair\n" for number in range(_LOG_LINES))
    lines = [
        f"{_date(number)} Watered the onions, {number % 30} degrees"
        for number in range(_LONG_LINES)
    ]
    lines[_HEDGEHOG] = f"{_date(_HEDGEHOG)} A hedgehog slept under the compost"
    found = {
        "Pancakes": _tagged(_RECIPE, "recipes"),
        "Log": f"# Ship's log\n\n{log}",
        "Speech": "# Speech\n\nDear friends,\nthank you all for coming.\n",
        "Allotment": "# Allotment\n\n" + "\n".join(lines) + "\n",
        TRASHED: "# Packing list for Norway\n\n- tent\n- stove\n",
        "Reading-one": "# Reading list\n\n- Middlemarch\n- Emma\n",
        "Reading-two": "# Reading list, more\n\n- Ulysses\n- Walden\n",
        "Phone": "# Phone numbers\n\nDoctor 555 0199\n",
        "Conference": "# Conference notes\n\n* keynote\n* panel\n",
        "Rent": f"# Garage rent\n\nThe rent is {RENTS[-1]} a month.\n",
    }
    found |= {
        name: _tagged(f"# {name}\n\nOnions and peas.\n", "gardn", "allotments") for name in GARDENS
    }
    for number in range(len(_BOILERS)):
        text = f"# Boiler visit {number}\n\nThe pressure was {number + 1} bar.\n"
        found[f"Boiler-{number}"] = text
    return found | dict.fromkeys(_WIFI, "# Wifi of the cabin\n\nblue-lagoon-42\n")


# Judges: they get the notes that are not in the trash.


def _others(before: Notes, after: Notes, *but: str) -> str:
    names = before.keys() | after.keys()
    changed = sorted(name for name in names if before.get(name) != after.get(name))
    others = [name for name in changed if name not in but]
    return f"damaged: changes {others[0]}" if others else ""


def _parts(text: str) -> tuple[set[str], str]:
    """Return the tags of a note, and its text without blank lines."""
    found = re.match(r"---\n(.*?)^---\n", text, re.DOTALL | re.MULTILINE)
    front, body = (found[1], text[found.end() :]) if found else ("", text)
    tags = re.search(r"^tags:(.*(?:\n[ -].*)*)", front, re.MULTILINE)
    return {*re.findall(r"[\w/-]*\w", tags[1] if tags else "")}, re.sub(r"\n+", "\n", body).strip()


def _becomes(name: str, text: Callable[[str], str]) -> Judge:
    def judge(before: Notes, after: Notes, said: str) -> str:
        del said
        if name not in after:
            return f"not done: {name} is gone"
        wanted, found = text(before[name]), after[name]
        wrong = "not done" if found == before[name] else "damaged"
        return _others(before, after, name) or (
            "" if _parts(found) == _parts(wanted) else f"{wrong}: another text"
        )

    return judge


def _tells(*words: str, never: str = "") -> Judge:
    def judge(before: Notes, after: Notes, said: str) -> str:
        told = all(word in said for word in words) and not (never and never in said)
        return _others(before, after) or ("" if told else "not done: not in the answers")

    return judge


def _met(before: Notes, after: Notes, said: str) -> str:
    del said
    new = [name for name in after if name not in before]
    if len(new) != 1:
        return "not done: no note"
    tags, text = _parts(after[new[0]])
    same = text.removeprefix("# Meeting with Ada\n") == _parts(_MEETING)[1].partition("\n")[2]
    whole = same and {"meeting", "work"} <= tags
    return _others(before, after, *new) or ("" if whole else "damaged: another text")


def _retagged(before: Notes, after: Notes, said: str) -> str:
    del said
    for name in GARDENS:
        tags, text = _parts(after[name])
        if tags != {"garden", "allotments"} or text != _parts(before[name])[1]:
            return f"not done: {name}"
    return _others(before, after, *GARDENS)


def _put_back(before: Notes, after: Notes, said: str) -> str:
    del said
    new = [name for name in after if name not in before]
    return "" if len(new) == 1 and "tent" in after[new[0]] else "not done: not there"


def _merged(before: Notes, after: Notes, said: str) -> str:
    del said
    if "Reading-two" in after:
        return "not done: both are there"
    done = _parts(after["Reading-one"])[1] == _parts(_MERGED)[1]
    return _others(before, after, "Reading-one", "Reading-two") or (
        "" if done else "damaged: another text"
    )


def _single(before: Notes, after: Notes, said: str) -> str:
    del said
    left = [name for name in _WIFI if name in after]
    return _others(before, after, *_WIFI) or ("" if len(left) == 1 else f"not done: {len(left)}")


def _flagged(name: str, flag: str) -> Judge:
    return _becomes(name, lambda text: f"---\nflags: [{flag}]\n---\n{text}")


JUDGES: Mapping[str, Judge] = {
    "find a recipe and change a line": _becomes(
        "Pancakes", lambda text: text.replace("200 g", "250 g")
    ),
    "append to a log of 600 lines": _becomes("Log", lambda text: f"{text.rstrip()}\n{_WEATHER}\n"),
    "write a meeting note": _met,
    "rename a tag on five notes": _retagged,
    "last week about a word": _tells("was 1 bar", "was 2 bar", never="was 4 bar"),
    "undo a bad edit": _becomes("Speech", lambda text: text.replace("thanks", "thank you all")),
    "find a passage in 5,000 lines": _tells("A hedgehog slept", _date(_HEDGEHOG - 2)),
    "read the first part of 5,000 lines": _tells(_date(0), _date(200)),
    "read an older version": _tells(RENTS[1]),
    "restore from the trash": _put_back,
    "count notes by tag": _tells("gardn", "recipes"),
    "merge two notes": _merged,
    "pin": _flagged("Phone", "pinned"),
    "set the Markdown flag": _flagged("Conference", "markdown"),
    "remove duplicates": _single,
}
"""All but the note from a template, which has a task of its own."""


def _json(text: str) -> Any:
    return json.loads(text)


def _week() -> str:
    return f"{datetime.now(UTC) - timedelta(days=7):%Y-%m-%d}"


# Ours


def _row(call: Caller, query: str, **more: Any) -> Any:
    return _json(call("list", query=query, limit=5, **more))["content"][0]


def _ours_recipe(call: Caller) -> None:
    note = _row(call, "pancakes")["uuid"]
    call("get", id=note)
    call("save", id=note, find="200 g flour", replace="250 g flour")


def _ours_rename(call: Caller) -> None:
    asked = {"action": "rename_tag", "tag": "gardn", "new_tag": "garden"}
    call("manage", **asked)  # is refused: the user must agree
    call("manage", **asked, confirm=True)


def _ours_week(call: Caller) -> None:
    rows = _json(call("list", query="boiler", date_after=_week()))["content"]
    call("get", ids=[row["uuid"] for row in rows])


def _ours_undo(call: Caller) -> None:
    note = _row(call, "speech")["uuid"]
    call("save", id=note, find="thank you all", replace="thanks")
    call.begin()  # it was done before; what counts is taking it back
    call("manage", action="undo", id=note)
    call("manage", action="undo", id=note, confirm=True)


def _ours_passage(call: Caller) -> None:
    row = _row(call, "hedgehog")
    start = row["match"]["line"] - 5
    call("get", id=row["uuid"], range_line_start=start, range_line_count=15)


def _ours_version(call: Caller) -> None:
    note = _row(call, "garage rent")["uuid"]
    rows = _json(call("manage", action="history", id=note))["history"]
    call("get", id=note, version=rows[1]["version"])


def _ours_trashed(call: Caller, row: Any, action: str) -> None:
    call("manage", action=action, id=row["uuid"], local_version=row["local_version"])


def _ours_merge(call: Caller) -> None:
    rows = _json(call("list", query='"reading list"'))["content"]
    (two,) = (row for row in rows if "more" in row["text"])
    (one,) = (row for row in rows if row is not two)
    call("get", ids=[one["uuid"], two["uuid"]])
    call("save", id=one["uuid"], append="- Ulysses\n- Walden")
    _ours_trashed(call, two, "trash")


def _ours_single(call: Caller) -> None:
    groups = _json(call("manage", action="find_duplicates"))["duplicates"]
    (group,) = (group for group in groups if "Wifi" in group["title"])
    for note in group["notes"][1:]:
        call("manage", action="trash", id=note["id"], local_version=note["local_version"])


OURS: dict[str, Script] = {
    "find a recipe and change a line": _ours_recipe,
    "append to a log of 600 lines": lambda call: call(
        "save", id=_row(call, "ship's log")["uuid"], append=_WEATHER
    ),
    "write a meeting note": lambda call: call("save", text=_MEETING, tags=["meeting", "work"]),
    "rename a tag on five notes": _ours_rename,
    "last week about a word": _ours_week,
    "undo a bad edit": _ours_undo,
    "find a passage in 5,000 lines": _ours_passage,
    "read the first part of 5,000 lines": lambda call: call(
        "get", id=_row(call, "allotment")["uuid"]
    ),
    "read an older version": _ours_version,
    "restore from the trash": lambda call: _ours_trashed(
        call, _row(call, "packing list Norway in:trash"), "untrash"
    ),
    "count notes by tag": lambda call: call("manage", action="list_tags"),
    "merge two notes": _ours_merge,
    "pin": lambda call: call("manage", action="pin", id=_row(call, "phone numbers")["uuid"]),
    "set the Markdown flag": lambda call: call(
        "save", id=_row(call, "conference notes")["uuid"], properties={"markdown": True}
    ),
    "remove duplicates": _ours_single,
}

# mcpvault


def _vault_found(call: Caller, query: str, **more: Any) -> list[str]:
    return [row["p"] for row in _json(call("search_notes", query=query, limit=20, **more))]


def _vault_recipe(call: Caller) -> None:
    note = _vault_found(call, "pancakes")[0]
    call("read_note", path=note)
    call("patch_note", path=note, oldString="200 g flour", newString="250 g flour")


def _vault_rename(call: Caller) -> None:
    for note in _vault_found(call, "gardn", searchFrontmatter=True, searchContent=False):
        call("manage_tags", path=note, operation="add", tags=["garden"])
        call("manage_tags", path=note, operation="remove", tags=["gardn"])


def _vault_week(call: Caller) -> None:
    rows = _json(call("get_notes_info", paths=_vault_found(call, "boiler")))
    rows = sorted(
        rows if isinstance(rows, list) else rows["notes"], key=lambda row: row["modified"]
    )
    call("read_multiple_notes", paths=[row["path"] for row in rows[-2:]])


def _vault_passage(call: Caller) -> None:
    row = _json(call("search_notes", query="hedgehog"))[0]
    line = row["ln"] if "ln" in row else _HEDGEHOG + 3
    call("read_note_lines", path=row["p"], startLine=line - 5, endLine=line + 9)


def _vault_remove(call: Caller, note: str) -> None:
    call("delete_note", path=note, confirmPath=note)


def _vault_merge(call: Caller) -> None:
    call("read_multiple_notes", paths=_vault_found(call, "reading list"))
    call("write_note", path="Reading-one.md", content="- Ulysses\n- Walden\n", mode="append")
    _vault_remove(call, "Reading-two.md")


def _vault_single(call: Caller) -> None:
    found = _vault_found(call, "wifi")
    call("read_multiple_notes", paths=found)
    for note in found[1:]:
        _vault_remove(call, note)


MCPVAULT: dict[str, Script] = {
    "find a recipe and change a line": _vault_recipe,
    "append to a log of 600 lines": lambda call: call(
        "write_note",
        path=_vault_found(call, "ship's log")[0],
        content=f"{_WEATHER}\n",
        mode="append",
    ),
    "write a meeting note": lambda call: call(
        "write_note",
        path="Meeting with Ada.md",
        content=_MEETING,
        frontmatter={"tags": ["meeting", "work"]},
    ),
    "rename a tag on five notes": _vault_rename,
    "last week about a word": _vault_week,
    "find a passage in 5,000 lines": _vault_passage,
    "read the first part of 5,000 lines": lambda call: call(
        "read_note_lines", path=_vault_found(call, "allotment")[0], startLine=1, endLine=300
    ),
    "restore from the trash": lambda call: call(
        "move_note", oldPath=f".trash/{TRASHED}.md", newPath=f"{TRASHED}.md"
    ),
    "count notes by tag": lambda call: call("list_all_tags"),
    "merge two notes": _vault_merge,
    "remove duplicates": _vault_single,
}

# basic-memory


def _memory_recipe(call: Caller) -> None:
    call("search_notes", query="pancakes")
    call("cat", identifier="Pancakes")
    asked = {"operation": "find_replace", "find_text": "200 g flour", "content": "250 g flour"}
    call("edit_note", identifier="Pancakes", **asked)


def _memory_append(call: Caller) -> None:
    call("search_notes", query="ship log")
    call("edit_note", identifier="Log", operation="append", content=f"{_WEATHER}\n")


def _memory_rename(call: Caller) -> None:
    call("search_notes", tags=["gardn"])
    for note in GARDENS:
        asked = {
            "operation": "append",
            "content": "",
            "metadata": {"tags": ["garden", "allotments"]},
        }
        call("edit_note", identifier=note, **asked)


def _memory_week(call: Caller) -> None:
    call("search_notes", query="boiler", after_date="7d")
    for number in range(2):
        call("read_note", identifier=f"Boiler-{number}")


def _memory_merge(call: Caller) -> None:
    call("search_notes", query="reading list")
    for note in ("Reading-one", "Reading-two"):
        call("cat", identifier=note)
    asked = {"operation": "append", "content": "- Ulysses\n- Walden\n"}
    call("edit_note", identifier="Reading-one", **asked)
    call("delete_note", identifier="Reading-two")


def _memory_single(call: Caller) -> None:
    call("search_notes", query="wifi")
    for note in _WIFI:
        call("cat", identifier=note)
    for note in _WIFI[1:]:
        call("delete_note", identifier=note)


BASIC_MEMORY: dict[str, Script] = {
    "find a recipe and change a line": _memory_recipe,
    "append to a log of 600 lines": _memory_append,
    "write a meeting note": lambda call: call(
        *("write_note",),
        title="Meeting with Ada",
        directory="/",
        content=_MEETING,
        tags=["meeting", "work"],
    ),
    "rename a tag on five notes": _memory_rename,
    "last week about a word": _memory_week,
    "find a passage in 5,000 lines": lambda call: call("grep", pattern="hedgehog", context_lines=5),
    "read the first part of 5,000 lines": lambda call: call(
        "read_note", identifier="Allotment", start_line=1, end_line=300
    ),
    "merge two notes": _memory_merge,
    "remove duplicates": _memory_single,
}

# simplenote-mcp-server


def _simple_found(call: Caller, query: str, **more: Any) -> list[str]:
    found = call("search_notes", query=query, limit=5, **more)
    return re.findall(r'"id": ?"([^"]+)"', found)


def _simple_recipe(call: Caller) -> None:
    note = _simple_found(call, "pancakes")[0]
    text = str(_json(call("get_note", note_id=note))["content"])
    call("update_note", note_id=note, content=text.replace("200 g", "250 g"))


def _simple_week(call: Caller) -> None:
    for note in _simple_found(call, "boiler", modified_after=_week()):
        call("get_note", note_id=note)


def _simple_undo(call: Caller) -> None:
    note = _simple_found(call, "speech")[0]
    text = str(_json(call("get_note", note_id=note))["content"])
    call("update_note", note_id=note, content=text.replace("thank you all", "thanks"))
    call.begin()
    versions = re.findall(r'"version": ?"?(\d+)', call("get_note_versions", note_id=note))
    call("restore_version", note_id=note, version=max(map(int, versions)) - 1)


def _simple_restore(call: Caller) -> None:
    listed = call("list_notes", limit=100, include_deleted=True)
    assert TRASHED in listed
    call("restore_note", note_id=TRASHED)


def _simple_merge(call: Caller) -> None:
    for note in _simple_found(call, "reading list"):
        call("get_note", note_id=note)
    call("add_text", note_id="Reading-one", text="- Ulysses\n- Walden\n")
    call("delete_note", note_id="Reading-two")


def _simple_single(call: Caller) -> None:
    found = _simple_found(call, "wifi")
    for note in found:
        call("get_note", note_id=note)
    for note in found[1:]:
        call("delete_note", note_id=note)


SIMPLENOTE: dict[str, Script] = {
    "find a recipe and change a line": _simple_recipe,
    "append to a log of 600 lines": lambda call: call(
        "add_text", note_id=_simple_found(call, "ship's log")[0], text=f"{_WEATHER}\n"
    ),
    "write a meeting note": lambda call: call(
        "create_note", content=_MEETING, tags=["meeting", "work"]
    ),
    "rename a tag on five notes": lambda call: call(
        "rename_tag", old_tag="gardn", new_tag="garden"
    ),
    "last week about a word": _simple_week,
    "undo a bad edit": _simple_undo,
    "find a passage in 5,000 lines": lambda call: call(
        "get_note", note_id=_simple_found(call, "hedgehog")[0]
    ),
    "read the first part of 5,000 lines": lambda call: call(
        "get_note", note_id=_simple_found(call, "allotment")[0]
    ),
    "read an older version": lambda call: call(
        "get_note_versions", note_id=_simple_found(call, "garage rent")[0]
    ),
    "restore from the trash": _simple_restore,
    "count notes by tag": lambda call: call("list_tags"),
    "merge two notes": _simple_merge,
    "remove duplicates": _simple_single,
}
