"""Read filters by properties (``status:active``, ``due:<2026-12-01``) and by tasks (``task:open``). Pure.

A value is compared as text in any letter case; one of a list is enough. With a sign or a range it is compared as a
number or as a date, whichever both are, also if it stands in quotes in the note. A year, a month or a day stands for all of it:
``due:2026-12``. ``today``, ``tomorrow``, ``yesterday``, ``+7d`` and ``-2w`` are days. ``yes`` is ``true``, and ``no`` is ``false``.

Several filters mean one task that is all of it: ``task:open task:due<2026-12-01`` finds an open task that was due before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date, timedelta

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.properties import shown_value, typed
from mcp_notarium.errors import QueryError
from mcp_notarium.search.query import Bounds, HasProperty, HasTask

_NAMED = re.compile(
    r"""(?P<minus>-)?(?:"(?P<quoted>[^"]+)"|(?P<name>[^\s":<>()\[\]{}*/-][^\s":<>()\[\]{}*/]*)):
        (?:"(?P<text>[^"]*)"|(?P<bare>[^\s":][^\s]*))""",
    re.VERBOSE,
)
_COMPARED = re.compile(r"(?P<sign>[<>]=?)(?P<bound>.+)|(?P<first>.*?)\.\.(?P<last>.*)", re.DOTALL)
_PERIOD = re.compile(r"(?P<year>[0-9]{4})(?:-(?P<month>[0-9]{2})(?:-(?P<day>[0-9]{2}))?)?")
_NAMED_DAY = re.compile(
    r"(?P<edge>\A|[<>=]|\.\.)(?:(?P<word>today|tomorrow|yesterday)|(?P<count>[+-][0-9]{1,4})(?P<unit>[dw]))(?=\.\.|\Z)",
    re.IGNORECASE,
)
_LINK = re.compile(r"\[\[(?P<target>[^\[\]|#]+)(?:[#|][^\[\]]*)?\]\]")
_DAYS_OF = {"yesterday": -1, "today": 0, "tomorrow": 1, "d": 1, "w": 7}
_YES_NO = {"yes": "true", "no": "false"}
EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400
_MONTHS = 12


_STATES = {"doing": "doing", "cancelled": "cancelled", "canceled": "cancelled", "done": "done"}
_DAYS = re.compile(r"(?P<name>due|scheduled)(?P<colon>[:=])?(?P<bounds>.*)", re.IGNORECASE)
TASK_USAGE = "Write task:open, task:done, task:any, task:doing, task:cancelled, task:due<2026-12-31, task:due<=today or task:scheduled:2026-12."


def match_filter(typed_text: str, position: int) -> re.Match[str] | None:
    """Return what may be a filter by a property at this place."""
    return _NAMED.match(typed_text, position)


def name_of(found: re.Match[str]) -> str:
    """Return the name of the property that a match would mean."""
    return (found["quoted"] or found["name"]).strip()


def read_filter(found: re.Match[str], today: date | None) -> HasProperty:
    """Return the condition of a match, without its minus. Raises ``QueryError`` for a comparison with a text."""
    name = name_of(found)
    if found["bare"] is None:
        return HasProperty(name, value=found["text"])
    value = found["bare"]
    if not _COMPARED.fullmatch(value):
        return HasProperty(name, value=value, dates=_span(with_days(value, today)))
    bounds = read_bounds(with_days(value, today))
    if not bounds:
        raise _usage_error(name)
    return HasProperty(name, numbers=bounds.get("numbers"), dates=bounds.get("dates"))


def with_days(value: str, today: date | None) -> str:
    """Return what a value is compared with, with the days in it as YYYY-MM-DD that it names from today."""
    if today is None:
        return value
    return _NAMED_DAY.sub(lambda found: found["edge"] + _day_of(found, today), value)


def _day_of(found: re.Match[str], today: date) -> str:
    count = int(found["count"] or 1) * _DAYS_OF[(found["word"] or found["unit"]).lower()]
    return (today + timedelta(days=count)).isoformat()


def read_bounds(value: str) -> dict[str, Bounds]:
    """Return what a value lies between, as ``numbers`` and as ``dates``; nothing if it is neither."""
    compared = _COMPARED.fullmatch(value)
    if compared is None:
        return _ends(value)
    if compared["sign"]:
        return {
            kind: _beyond(compared["sign"], end) for kind, end in _ends(compared["bound"]).items()
        }
    first, last = (_ends(compared[part]) if compared[part] else {} for part in ("first", "last"))
    if (compared["first"] and not first) or (compared["last"] and not last):
        return {}
    kinds = first.keys() & last.keys() if first and last else first.keys() | last.keys()
    return {
        kind: Bounds(
            first[kind].least if kind in first else None, last[kind].below if kind in last else None
        )
        for kind in kinds
    }


def value_key(value: str) -> str:
    """Return what tells values apart that are compared as texts. A link counts as the name of the note that it leads to."""
    link = _LINK.fullmatch(value.strip())
    said = link["target"] if link else value
    key = tag_key(shown_value(typed(said.strip())).strip())
    return _YES_NO.get(key, key)


def day_number(day: date) -> float:
    """Return the epoch seconds at which a day begins, as an index keeps dates."""
    return float((day.toordinal() - EPOCH) * _DAY)


def _ends(text: str) -> dict[str, Bounds]:
    """Return a bound as a number and as a date, as far as it is one."""
    ends: dict[str, Bounds] = {}
    number = typed(text)
    if isinstance(number, int | float) and not isinstance(number, bool):
        ends["numbers"] = Bounds(float(number), math.nextafter(number, math.inf))
    if (span := _span(text)) is not None:
        ends["dates"] = span
    return ends


def _beyond(sign: str, end: Bounds) -> Bounds:
    match sign:
        case ">":
            return Bounds(least=end.below)
        case ">=":
            return Bounds(least=end.least)
        case "<":
            return Bounds(below=end.least)
        case _:
            return Bounds(below=end.below)


def _span(text: str) -> Bounds | None:
    """Return the time of a year, month or day; None for any other text."""
    found = _PERIOD.fullmatch(text)
    if found is None:
        return None
    year, month, day = int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)
    try:
        start = date(year, month, day)
        if found["day"]:
            return Bounds(day_number(start), day_number(start) + _DAY)
        if found["month"]:
            end = date(year + month // _MONTHS, month % _MONTHS + 1, 1)
        else:
            end = date(year + 1, 1, 1)
    except ValueError:
        return None
    return Bounds(day_number(start), day_number(end))


def _usage_error(name: str) -> QueryError:
    return QueryError(
        f"The filter `{name[:60]}:` compares with something that is no number and no date.",
        resolution_hint=f"Write {name[:60]}:>=4, {name[:60]}:3..5, {name[:60]}:<2026-12-31, "
        f"{name[:60]}:<today, or a text without a sign. To search for the text itself, put it in quotes.",
    )


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
