"""Describe acts of the audit log for ``audit tail``: one line each, who did what to which note."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.audit import export
from mcp_notarium.audit.chain import OK, Decision, Record
from mcp_notarium.cli import console
from mcp_notarium.logs.redaction_rules import one_line

_BEGUN = "begun"
_REFUSED = {Decision.REFUSED, Decision.DECLINED, Decision.TIMED_OUT}
_MOST_NAMED = 3
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


def describe_records(records: Sequence[Record], titles: Mapping[str, str]) -> list[Text]:
    """Return one line for each act, in local time; its outcome is a later record, which has no line of its own."""
    outcomes = {record.refers: record for record in records if record.refers}
    begun = {record.number for record in records}
    acts = [
        _describe_act(record, outcomes.get(record.number, record), titles)
        for record in records
        if record.refers not in begun
    ]
    columns = zip(*((act.act, act.outcome, act.client) for act in acts), strict=True)
    widths = [_width(column) for column in columns]
    lines, day = [], ""
    for act in acts:
        if day != act.at[:10]:
            day = act.at[:10]
            lines.append(Text(day, style="bold"))
        lines.append(_line(act, *widths))
    return lines


def _describe_act(first: Record, last: Record, titles: Mapping[str, str]) -> _Act:
    outcome = last.outcome or _BEGUN
    asked = "" if last.decision == Decision.ALLOWED else f"{last.decision}, "
    return _Act(
        at=console.local_time(first.at_ms / 1000, seconds=True),
        act=one_line(first.act),
        outcome=one_line(asked + outcome),
        bad=outcome not in {OK, _BEGUN} or last.decision in _REFUSED,
        client="command line" if first.client == CLIENT else one_line(first.client),
        about=one_line("  ".join(filter(None, _about(last, titles)))),
    )


def _about(last: Record, titles: Mapping[str, str]) -> Iterable[str]:
    """Yield what it was about: notes, bytes of the answer, facts."""
    shown = export.as_json(last)
    notes = shown["notes"] if isinstance(shown["notes"], list) else [shown["notes"]]
    named = [f"“{titles[str(one)]}”" if str(one) in titles else str(one) for one in notes]
    more = len(named) - _MOST_NAMED
    yield ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    yield f"{last.bytes_out:,} bytes" if last.bytes_out else ""
    yield json.dumps(shown["facts"]) if shown["facts"] else ""


def _line(act: _Act, act_width: int, outcome_width: int, client_width: int) -> Text:
    return Text.assemble(
        (f"{act.at[11:]}  ", "dim"),
        _pad(act.act, act_width),
        (_pad(act.outcome, outcome_width), "red" if act.bad else "green"),
        (_pad(act.client, client_width), "cyan"),
        act.about,
        no_wrap=True,
        overflow="ellipsis",
    )


def _pad(text: str, width: int) -> str:
    """Return the text as a column of this width; '' for an empty column."""
    return text + " " * (width - cell_len(text)) + "  " if width else ""


def _width(texts: Iterable[str]) -> int:
    return min(max(map(cell_len, texts), default=0), _WIDEST)
