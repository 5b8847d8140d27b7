"""Read filters by tasks: ``task:open``, ``task:done``, ``task:due<2026-12-01``, ``task:scheduled:2026-12``. Pure.

Several filters mean one task that is all of it: ``task:open task:due<2026-12-01`` finds an open task that was due before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date

from mcp_notarium.search.property_filter import read_bounds, with_days
from mcp_notarium.search.query import HasTask

_STATES = {"doing": "doing", "cancelled": "cancelled", "canceled": "cancelled", "done": "done"}
_DAYS = re.compile(r"(?P<name>due|scheduled)(?P<colon>[:=])?(?P<bounds>.*)", re.IGNORECASE)
USAGE = "Write task:open, task:done, task:any, task:doing, task:cancelled, task:due<2026-12-31, task:due<=today or task:scheduled:2026-12."


def read_task_filter(value: str, today: date | None) -> HasTask | None:
    """Return the condition of a value; None if it is none."""
    known = value.casefold()
    if known in ("open", "any"):
        return HasTask(is_open=True if known == "open" else None)
    if known in _STATES:
        return HasTask(is_open=known == "doing", state=_STATES[known])
    found = _DAYS.fullmatch(value)
    dates = read_bounds(with_days(found["bounds"], today)).get("dates") if found else None
    if found is None or dates is None:
        return None
    due = found["name"].casefold() == "due"
    return HasTask(due=dates) if due else HasTask(scheduled=dates)


def joined(tasks: Iterable[HasTask]) -> list[HasTask]:
    """Join conditions that one task can meet; those that contradict each other mean several tasks."""
    found: list[HasTask] = []
    for task in tasks:
        given = {name: one for name, one in asdict(task).items() if one is not None}
        for at, other in enumerate(found):
            held = asdict(other)
            if all(held[name] is None for name in given):
                found[at] = HasTask(
                    task.is_open if other.is_open is None else other.is_open,
                    other.state or task.state,
                    other.due or task.due,
                    other.scheduled or task.scheduled,
                )
                break
        else:
            found.append(task)
    return found
