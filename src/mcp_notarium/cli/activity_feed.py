"""Follow and describe acts of the audit log: for ``watch``, and as lines for ``audit tail``.

An act that changes something has two records. It is seen when it begins, and again under the same number when its outcome
is on record.

An act is one line, or two on a narrow terminal: no title and no name of a client falls off its edge.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.audit import export
from mcp_notarium.audit.chain import OPEN, Decision, Record
from mcp_notarium.cli import console
from mcp_notarium.cli.console import iso_time
from mcp_notarium.domain.diff import summarize_change
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report import words
from mcp_notarium.report.activity import Result, classify
from mcp_notarium.storage import note_rows

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.note import Content

_TOOL: Final = "tool."
_COMMAND: Final = "cli."
_DECIDING: Final = {"cli.approve", "cli.deny"}
_SHOWN: Final = (_TOOL, "resource.", _COMMAND)
_MOST_BEGUN: Final = 1000
_MOST_NAMED: Final = 3
_NEAR_SECONDS: Final = 0.002
"""Seconds by which the clock of a record may be rounded."""


_BEGUN = "begun"
_BAD = {Result.REFUSED, Result.FAILED, Result.UNSURE}
_UNSAID = {Decision.ALLOWED, Decision.REFUSED}
"""Decisions that the result says already."""
_TIME = 10
"""Columns of the time and what is behind it."""
_LEAST_ABOUT = 32
"""Columns that titles need; a terminal with fewer columns left shows them in a line of their own."""
_DIGEST = re.compile("[0-9a-f]{64}")
_DIGEST_SHOWN = 8
_WIDEST = 20
"""Columns that an act, an outcome or a client may take before it moves the rest of its line."""


@dataclass(frozen=True, slots=True)
class SeenAct:
    """Hold one act. Texts are made for a terminal: one line each, without control characters."""

    number: int
    at: float
    """Epoch seconds."""
    client: str
    profile: str
    act: str
    result: Result | None
    """None while nothing tells its end."""
    decision: str
    outcome: str
    notes: tuple[str, ...]
    """Ids of notes that are here."""
    about: str
    """Titles, or what the log calls the notes."""
    changed: str
    """Lines added and removed and the like, '' if that is not known."""
    approval: str = ""
    """The id of the question that was asked or answered, '' if there was none."""

    @property
    def does(self) -> str:
        """Return the act in a person's words."""
        if self.act.startswith(_COMMAND):
            command = self.act.removeprefix(_COMMAND)
            return words.COMMANDS.get(command, f"mcp-notarium {command}")
        return words.TOOLS.get(self.act, self.act)

    @property
    def ended(self) -> str:
        """Return how it ended in a person's words; '' if it was done as asked, and nobody was asked."""
        said = words.DECISIONS.get(Decision(self.decision), "") if self.decision else ""
        if self.result in (Result.READ, Result.CHANGED) or self.act in _DECIDING:
            return said
        why = words.REASONS.get(self.outcome, self.outcome)
        if self.decision == Decision.ASKED:
            return why or said
        name = "begun" if self.result is None else words.RESULTS[self.result]
        return "; ".join(filter(None, [name, why, said if said != why else ""]))

    def as_json(self) -> dict[str, Any]:
        """Return it as ``watch --json`` prints it."""
        result = None if self.result is None else self.result.value
        facts = {"at": iso_time(self.at), "profile": self.profile or None, "result": result}
        return {"type": "act", **asdict(self), **facts}


class ActivityFeed:
    """Read the acts of one account since a time, in epoch seconds. One thread only."""

    def __init__(self, app: App, *, since: float) -> None:
        self._app = app
        self._table = app.audit.table
        self._next = self._table.first_number_since(since)
        self._begun: dict[int, Record] = {}
        self._titles: dict[str, tuple[str, str]] = {}
        self._titles_are_new = False
        self.counts: Counter[Result] = Counter()
        """Acts by their results, of those that have one."""

    def poll(self) -> list[SeenAct]:
        """Return what came since the last call, oldest first. Raises ``CacheError``."""
        seen: dict[int, SeenAct] = {}
        records = list(self._table.records(first=self._next))
        self._titles_are_new = False  # what these records name was stored with them, or is gone
        for record in records:
            self._next = record.number + 1
            act = self._join(record)
            if act is not None:
                seen[act.number] = act
        return list(seen.values())

    def _join(self, record: Record) -> SeenAct | None:
        first = self._begun.pop(record.refers, None) if record.refers else record
        if first is None or not record.act.startswith(_SHOWN):
            return None
        if record.outcome == OPEN:
            self._begun[record.number] = record
            if len(self._begun) > _MOST_BEGUN:
                del self._begun[next(iter(self._begun))]
            return self._describe(record, record, None)
        # A decision is one record, and changes what waits.
        result = Result.CHANGED if first.act in _DECIDING else classify(first, record)
        # The same call comes again with the answer.
        if record.decision != Decision.ASKED and first.act not in _DECIDING:
            self.counts[result] += 1
        return self._describe(first, record, result)

    def _describe(self, first: Record, last: Record, result: Result | None) -> SeenAct:
        references = _texts(last.notes)
        known = [self._title(one) for one in references]
        ids = tuple(found[0] for found in known if found is not None)
        facts = json.loads(first.facts or "{}")
        client = "command line" if first.client == CLIENT else first.client
        changed = ""
        if (
            result is Result.CHANGED
            and first.act not in _DECIDING
            and len(ids) == len(references) == 1
        ):
            changed = self._changed(ids[0], first, last)
        return SeenAct(
            number=first.number,
            at=first.at_ms / 1000,
            client=one_line(client) or "a program without a name",
            profile=one_line(str(facts.get("profile", ""))),
            act=one_line(first.act.removeprefix(_TOOL)),
            result=result,
            decision="" if last.decision == Decision.ALLOWED else last.decision,
            outcome="" if result in (Result.READ, Result.CHANGED) else one_line(last.outcome),
            notes=ids,
            about=_named(
                found[1] if found is not None else one
                for one, found in zip(references, known, strict=True)
            ),
            changed=changed,
            approval=one_line(str(json.loads(last.facts or "{}").get("approval", ""))),
        )

    def _title(self, reference: str) -> tuple[str, str] | None:
        """Return id and title of the note that a record calls so; None if it is not here."""
        if reference not in self._titles and not self._titles_are_new:
            self._titles_are_new = True
            found = note_rows.read_titles(self._app.cache.database)
            self._titles = {
                self._app.audit.note_reference(note_id): (note_id, title)
                for note_id, title in found
            }
        return self._titles.get(reference)

    def _changed(self, note_id: str, first: Record, last: Record) -> str:
        """Return what a change did to a note, as far as its versions are kept here."""
        versions, note = self._app.cache.versions, self._app.library.get(note_id)
        newer = None if note is None else note.content
        begun, ended = first.at_ms / 1000 - _NEAR_SECONDS, last.at_ms / 1000 + _NEAR_SECONDS
        for one in versions.of(note_id):
            kept = versions.get(note_id, one.local_version)
            content = None if kept is None else kept[1]
            if one.replaced_at < begun:
                break
            if one.replaced_at <= ended and one.replaced_by == first.client:
                return _said(content, newer)
            newer = content
        created = begun - 1 <= note.created_at <= ended if note is not None else False
        return "new" if created else ""


def _said(old: Content | None, new: Content | None) -> str:
    return "" if old is None or new is None else one_line(summarize_change(old, new).facts)


def _texts(encoded: str) -> list[str]:
    found = json.loads(encoded or "[]")
    return [str(one) for one in found] if isinstance(found, list) else []


def _named(titles: Iterable[str]) -> str:
    named = [one_line(title) for title in titles]
    more = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


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
    yield _named(f"“{titles[str(one)]}”" if str(one) in titles else str(one) for one in notes)
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
