"""Describe acts of the audit log, as lines for ``audit tail``.

An act is one line, or two on a narrow terminal: no title and no name of a client falls off its edge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.audit import export
from mcp_notarium.audit.chain import OPEN, Decision, Record
from mcp_notarium.cli import console
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report import words
from mcp_notarium.report.activity import Result, classify

_BEGUN = "begun"
_BAD = {Result.REFUSED, Result.FAILED, Result.UNSURE}
_UNSAID = {Decision.ALLOWED, Decision.REFUSED}
"""Decisions that the result says already."""
_TIME = 10
"""Columns of the time and what is behind it."""
_LEAST_ABOUT = 32
"""Columns that titles need; a terminal with fewer columns left shows them in a line of their own."""
_MOST_NAMED = 3
_DIGEST = re.compile("[0-9a-f]{64}")
_DIGEST_SHOWN = 8
_WIDEST = 20
"""Columns that an act, an outcome or a client may take before it moves the rest of its line."""


@dataclass(frozen=True, slots=True)
class _Act:
    at: str
    act: str
    outcome: str
    bad: bool
    client: str
    about: str
    facts: str


def describe_records(
    records: Sequence[Record], titles: Mapping[str, str], *, width: int
) -> list[RenderableType]:
    """Return each act in local time, for ``width`` columns; an outcome is a later record, shown with its act."""
    outcomes = {record.refers: record for record in records if record.refers}
    begun = {record.number for record in records}
    acts = [
        _describe_act(record, outcomes.get(record.number, record), titles)
        for record in records
        if record.refers not in begun
    ]
    columns = zip(*((act.act, act.outcome, act.client) for act in acts), strict=True)
    widths = [_width(column) for column in columns]
    narrow = _TIME + sum(one + 2 for one in widths) + _LEAST_ABOUT > width
    lines: list[RenderableType] = []
    day = ""
    for act in acts:
        if day != act.at[:10]:
            day = act.at[:10]
            lines.append(Text(day, style="bold"))
        lines += _short_lines(act, widths[0]) if narrow else [_line(act, *widths)]
    return lines


def _describe_act(first: Record, last: Record, titles: Mapping[str, str]) -> _Act:
    result = classify(first, last)
    return _Act(
        at=console.local_time(first.at_ms / 1000, seconds=True),
        act=one_line(first.act),
        outcome=one_line(_describe_outcome(result, last)),
        bad=result in _BAD and last.outcome != OPEN,
        client="command line" if first.client == CLIENT else one_line(first.client),
        about=one_line("  ".join(filter(None, _about(last, titles)))),
        facts=one_line(_facts(last)),
    )


def _describe_outcome(result: Result, last: Record) -> str:
    said = [] if last.decision in _UNSAID else [last.decision]
    if last.outcome == OPEN:
        said.append(_BEGUN)
    elif result in (Result.READ, Result.CHANGED):
        said.append(last.outcome)
    elif last.decision == Decision.ASKED:
        said.append(last.outcome)  # nobody has answered yet
    else:
        why = last.outcome if result is not Result.UNSURE else ""
        said += [words.RESULTS[result], *filter(None, [why])]
    return ", ".join(said)


def _about(last: Record, titles: Mapping[str, str]) -> Iterable[str]:
    notes = export.as_json(last)["notes"]
    notes = notes if isinstance(notes, list) else [notes]
    named = [f"“{titles[str(one)]}”" if str(one) in titles else str(one) for one in notes]
    more = len(named) - _MOST_NAMED
    yield ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    yield f"{last.bytes_out:,} bytes" if last.bytes_out else ""


def _facts(last: Record) -> str:
    facts = export.as_json(last)["facts"]
    if not isinstance(facts, dict):
        return str(facts or "")
    shown = ((name.replace("_", " "), _value(value)) for name, value in facts.items())
    return ", ".join(f"{name}: {value}" for name, value in shown)


def _value(value: object) -> str:
    """Return a value without marks of a program; of a digest, its beginning."""
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    text = str(value)
    return f"{text[:_DIGEST_SHOWN]}…" if _DIGEST.fullmatch(text) else text


def _line(act: _Act, act_width: int, outcome_width: int, client_width: int) -> Text:
    return Text.assemble(
        *_start(act, act_width, _pad(act.outcome, outcome_width)),
        (_pad(act.client, client_width), "cyan"),
        "  ".join(filter(None, (act.about, act.facts))),
        no_wrap=True,
        overflow="ellipsis",
    )


def _short_lines(act: _Act, act_width: int) -> Iterator[RenderableType]:
    """Yield what was done, below it who did it to which notes, and what else is on record."""
    yield Text.assemble(*_start(act, act_width, act.outcome))
    if act.client or act.about:
        line = Text.assemble((act.client, "cyan"), "  " if act.client else "", act.about)
        yield Padding(line, (0, 0, 0, _TIME))
    if act.facts:
        yield Text(" " * _TIME + act.facts, no_wrap=True, overflow="ellipsis")


def _start(act: _Act, act_width: int, outcome: str) -> tuple[tuple[str, str], ...]:
    colour = "red" if act.bad else "green"
    return (f"{act.at[11:]}  ", "dim"), (_pad(act.act, act_width), ""), (outcome, colour)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text)) + "  " if width else ""


def _width(texts: Iterable[str]) -> int:
    return min(max(map(cell_len, texts), default=0), _WIDEST)
