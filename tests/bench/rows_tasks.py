"""Do fifteen everyday tasks as an agent does that has read only the tool list and the instructions.

Each task checks in the note service that it is done. One that cannot be done, or costs more than
``MOST`` tokens of requests and answers, ends the run.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.measure import Figure
from bench.processes import CONSOLE, HELLO, Json, Service, Speaker, WrongAnswer
from bench.rows_tokens import counts

MOST = 12_000
"""Tokens of one task."""
_LOG_LINES = 600
_LONG_LINES = 5_000
_HEDGEHOG = 3_812
_TAGS = 200
_DEADLINE = 120.0

_RECIPE = """Pancakes

- 200 g flour
- 3 eggs
- 400 ml milk
- a pinch of salt

Whisk flour, eggs, milk and salt until smooth. Let it rest for 20 minutes.
Fry in butter on medium heat, two minutes a side.
"""
_WEEKLY = """Template: weekly review

## What went well

## What did not

## Next week
"""


@dataclass
class Agent:
    """Call the tools of a server, and keep what a model writes and reads."""

    server: Speaker
    service: Service
    said: list[str] = field(default_factory=list)
    """Requests and answers in turn."""

    def call(self, tool: str, /, **arguments: Any) -> Json:
        """The answer, which may be an error."""
        asked = {"name": tool, "arguments": arguments}
        (block,) = self.server.ask("tools/call", asked)["content"]
        self.said += [json.dumps(asked, ensure_ascii=False), block["text"]]
        answer: Json = json.loads(block["text"])
        return answer

    def first(self, query: str, **options: Any) -> Json:
        """The first row that a query finds."""
        row: Json = self.call("list", query=query, limit=5, **options)["content"][0]
        return row

    def truth(self, note_id: str) -> Json:
        """The note as the service holds it; no call."""
        return self.service.order(note=note_id)


Task = Callable[[Agent], object]
"""Returns something true if the task is done."""


def _id(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _prepare(service: Service) -> None:
    """Write the notes that the tasks are about, as another device."""
    now = time.time()

    def put(name: str, content: str, *tags: str, days: float = 90, **fields: Any) -> None:
        date = now - days * 86_400
        service.order(
            put=_id(name),
            content=content,
            tags=list(tags),
            modificationDate=date,
            creationDate=date,
            **fields,
        )

    put("recipe", _RECIPE, "recipes")
    put(
        "log",
        "Ship's log\n" + "".join(f"{_day(n)} wind {n % 9}, fair\n" for n in range(_LOG_LINES)),
    )
    for number in range(5):
        put(f"old tag {number}", f"Garden plan {number}\n\nBeans and peas.\n", "gardn", "plans")
    for number, days in enumerate((2, 5, 30, 200)):
        put(
            f"boiler {number}",
            f"Boiler visit {number}\n\nThe pressure was {number + 1} bar.\n",
            days=days,
        )
    put("speech", "Speech\n\nDear friends,\nthank you all for coming.\n")
    put("long", _long_note(), "garden")
    for price in ("90 EUR", "95 EUR", "110 EUR"):
        put("rent", f"Garage rent\n\nThe rent is {price} a month.\n")
    put("trashed", "Packing list for Norway\n\n- tent\n- stove\n", deleted=True)
    put("template", _WEEKLY, "template")
    put("half one", "Reading list 2024\n\n- Middlemarch\n- Emma\n")
    put("half two", "Reading list, more\n\n- Ulysses\n- Walden\n")
    put("phone", "Phone numbers\n\nDoctor 555 0199\n")
    put("headings", "# Conference notes\n\n* keynote\n* panel\n")
    for number in range(3):
        put(f"same {number}", "Wifi of the cabin\n\nblue-lagoon-42\n")
    for number in range(_TAGS):
        put(f"tagged {number}", f"Errand {number}\n", f"errand-{number}")


def _day(number: int) -> str:
    return f"{datetime(2019, 3, 1, tzinfo=UTC) + timedelta(days=number):%Y-%m-%d}"


def _long_note() -> str:
    lines = [
        f"{_day(number)} Watered the beans, {number % 30} degrees, rain {number % 7} mm"
        for number in range(_LONG_LINES - 1)
    ]
    lines[_HEDGEHOG - 2] = f"{_day(_HEDGEHOG)} A hedgehog slept under the compost"
    return "Allotment diary\n" + "\n".join(lines) + "\n"


def _recipe(agent: Agent) -> object:
    row = agent.first("pancakes")
    agent.call("get", id=row["uuid"])
    agent.call("save", id=row["uuid"], find="200 g flour", replace="250 g flour")
    return agent.truth(_id("recipe"))["content"] == _RECIPE.replace("200 g", "250 g")


def _append(agent: Agent) -> object:
    row = agent.first("ship's log")
    agent.call("save", id=row["uuid"], append="2026-11-23 wind 4, rain")
    return agent.truth(_id("log"))["content"].endswith("fair\n2026-11-23 wind 4, rain\n")


def _meeting(agent: Agent) -> object:
    text = "Meeting with Ada, 23 November\n\n- budget agreed\n- next meeting in two weeks\n"
    answer = agent.call("save", text=text, tags=["meeting", "work"])
    note = agent.truth(answer["id"])
    return (note["content"], note["tags"]) == (text, ["meeting", "work"])


def _rename_tag(agent: Agent) -> object:
    asked = {"action": "rename_tag", "tag": "gardn", "new_tag": "garden"}
    agent.call("manage", **asked)  # is refused: the user must agree
    agent.call("manage", **asked, confirm=True)
    return all(
        agent.truth(_id(f"old tag {number}"))["tags"] == ["garden", "plans"] for number in range(5)
    )


def _last_week(agent: Agent) -> object:
    week = f"{datetime.now(UTC) - timedelta(days=7):%Y-%m-%d}"
    rows = agent.call("list", query="boiler", date_after=week)["content"]
    read = [agent.call("get", id=row["uuid"])["text"] for row in rows]
    return len(read) == 2 and all("pressure" in text for text in read)


def _bad_edit(agent: Agent) -> object:
    agent.call("save", id=_id("speech"), find="thank you all", replace="thanks")
    agent.said.clear()  # it was done before; what counts is taking it back
    agent.call("manage", action="undo", id=_id("speech"))  # is refused: the user must agree
    agent.call("manage", action="undo", id=_id("speech"), confirm=True)
    return "thank you all" in agent.truth(_id("speech"))["content"]


def _passage(agent: Agent) -> object:
    row = agent.first("hedgehog")
    lines = agent.call(
        "get", id=row["uuid"], range_line_start=row["match"]["line"] - 5, range_line_count=15
    )
    return "A hedgehog slept" in lines["text"]


def _long_part(agent: Agent) -> object:
    part = agent.call("get", id=agent.first("allotment diary")["uuid"])
    return part["text_is_partial"] and part["next_range_line_start"] > _LONG_LINES / 20


def _older_version(agent: Agent) -> object:
    note = agent.first("garage rent")["uuid"]
    rows = agent.call("manage", action="history", id=note)["history"]
    return "95 EUR" in agent.call("get", id=note, version=rows[1]["version"])["text"]


def _untrash(agent: Agent) -> object:
    row = agent.first("packing list Norway in:trash")
    agent.call("manage", action="untrash", id=row["uuid"], local_version=row["local_version"])
    return not agent.truth(_id("trashed"))["deleted"]


def _tag_counts(agent: Agent) -> object:
    answer = agent.call("manage", action="list_tags")
    return answer["total"] > _TAGS and answer["tags"]["errand-7"] == 1


def _template(agent: Agent) -> object:
    text = agent.call("get", id=agent.first("weekly review tag:template")["uuid"])["text"]
    filled = text.replace("Template: weekly review", "Weekly review, week 47")
    answer = agent.call("save", text=filled, tags=["review"])
    return agent.truth(answer["id"])["content"].endswith(_WEEKLY.partition("\n")[2])


def _merge(agent: Agent) -> object:
    rows = agent.call("list", query='"reading list"')["content"]
    (one,), (two,) = (
        [row for row in rows if row["uuid"] == _id(f"half {half}")] for half in ("one", "two")
    )
    agent.call("get", id=one["uuid"])
    text = agent.call("get", id=two["uuid"])["text"]
    agent.call("save", id=one["uuid"], append=text.partition("\n\n")[2].rstrip("\n"))
    agent.call("manage", action="trash", id=two["uuid"], local_version=two["local_version"])
    merged = "Reading list 2024\n\n- Middlemarch\n- Emma\n- Ulysses\n- Walden\n"
    done = agent.truth(_id("half one"))["content"] == merged
    return done and agent.truth(_id("half two"))["deleted"]


def _pin(agent: Agent) -> object:
    row = agent.first("phone numbers")
    agent.call("manage", action="pin", id=row["uuid"])
    return agent.truth(_id("phone"))["systemTags"] == ["pinned"]


def _markdown(agent: Agent) -> object:
    row = agent.first("conference notes")
    agent.call("save", id=row["uuid"], properties={"markdown": True})
    return agent.truth(_id("headings"))["systemTags"] == ["markdown"]


def _duplicates(agent: Agent) -> object:
    groups = agent.call("manage", action="find_duplicates")["duplicates"]
    (group,) = (group for group in groups if group["title"] == "Wifi of the cabin")
    for note in group["notes"][1:]:
        agent.call("manage", action="trash", id=note["id"], local_version=note["local_version"])
    return sum(agent.truth(_id(f"same {number}"))["deleted"] for number in range(3)) == 2


TASKS: dict[str, Task] = {
    "find a recipe and change a line": _recipe,
    "append to a log of 600 lines": _append,
    "write a meeting note": _meeting,
    "rename a tag on five notes": _rename_tag,
    "last week about a word": _last_week,
    "undo a bad edit": _bad_edit,
    "find a passage in 5,000 lines": _passage,
    "read 5,000 lines: first part": _long_part,
    "read an older version": _older_version,
    "restore from the trash": _untrash,
    "count notes by tag": _tag_counts,
    "note from a template": _template,
    "merge two notes": _merge,
    "pin": _pin,
    "set the Markdown flag": _markdown,
    "remove duplicates": _duplicates,
}
"""Reading 5,000 lines is two of them."""


def tasks(folder: Path, count: int, tokenizer: Path) -> Iterator[Figure]:
    """Rows of calls and tokens of each task beside ``count`` other notes."""
    done: dict[str, list[str]] = {}
    with Service(count, english=True) as service:
        _prepare(service)
        with Speaker(CONSOLE, service.settings(folder)) as server:
            server.ask("initialize", HELLO | {"capabilities": {}})
            server.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            _wait(server)
            for name, task in TASKS.items():
                agent = Agent(server, service)
                if not task(agent):
                    raise WrongAnswer(f"{name}: not done; {agent.said[-1][:500]}")
                done[name] = agent.said
    numbers, unit = counts(["\n".join(said) for said in done.values()], tokenizer)
    for (name, said), number in zip(done.items(), numbers, strict=True):
        if number > MOST:
            raise WrongAnswer(f"{name}: {number:.0f} {unit}")
        yield Figure("tasks", name, count, unit, number)
        yield Figure("tasks", f"{name}: calls", count, "calls", len(said) / 2)


def _wait(server: Speaker) -> None:
    """Wait until all notes are there."""
    deadline = time.monotonic() + _DEADLINE
    while True:
        stats = server.tool("manage", action="get_stats")["stats"]
        if stats["sync_complete"]:
            return
        if time.monotonic() > deadline:
            raise WrongAnswer(f"not complete: {stats['sync_state']}")
        time.sleep(0.05)
