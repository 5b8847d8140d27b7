"""Count what assistants did, from the records of the audit chain.

:class:`ActivityCounter` takes any number of records in the order of their numbers. Its memory has a limit:
programs, notes and unfinished acts above it are counted together.
"""

from __future__ import annotations

import heapq
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Any, Final

from mcp_notarium.audit.chain import FINISHED, OK, OPEN, UNKNOWN, ActName, Decision, Record

MOST_PROGRAMS: Final = 100
MOST_TOOLS: Final = 100
MOST_NOTES: Final = 100_000
MOST_LATEST: Final = 25
OTHERS: Final = "other programs"
"""Stands for all programs above ``MOST_PROGRAMS``."""
UNNAMED: Final = "a program without a name"
_MOST_PENDING: Final = 10_000
_MOST_VERSIONS: Final = 20
_LONGEST_VERSION: Final = 32
_FAMILIES: Final = ("tool.", "resource.")
_MALFORMED: Final = {"arguments", "unknown_tool"}
"""Outcomes of calls that the program got wrong; nobody refused those."""
_AGAINST: Final = {Decision.REFUSED, Decision.DECLINED, Decision.TIMED_OUT}
_VERSION: Final = re.compile(r"(.*\S)\s+v?([0-9]\S*)")


class Result(StrEnum):
    """Name what became of an act."""

    READ = "read"
    """It was answered, and changed nothing."""
    CHANGED = "changed"
    REFUSED = "refused"
    FAILED = "failed"
    UNSURE = "unsure"
    """It was begun, and its outcome is not on record."""


@dataclass(slots=True)
class Tally:
    """Count acts by their results, and the bytes of the answers."""

    results: Counter[Result] = field(default_factory=Counter)
    bytes_out: int = 0
    last_ms: int = 0
    """The latest, in epoch ms."""

    @property
    def calls(self) -> int:
        """Return the number of all acts."""
        return self.results.total()

    def add(self, act: Act) -> None:
        """Count one act."""
        self.results[act.result] += 1
        self.bytes_out += act.bytes_out
        self.last_ms = max(self.last_ms, act.at_ms)


@dataclass(frozen=True, slots=True)
class Act:
    """Hold one finished act."""

    at_ms: int
    program: str
    version: str
    tool: str
    """The act's name in the log without ``tool.``."""
    result: Result
    decision: str
    outcome: str
    notes: tuple[str, ...]
    """References."""
    bytes_out: int


@dataclass(slots=True)
class Program:
    """Hold what one program did, by tool."""

    name: str
    new: bool = False
    """The log knows older acts, but none of this program."""
    versions: set[str] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    tools: dict[str, Tally] = field(default_factory=dict)


@dataclass(slots=True)
class NoteUse:
    """Count how often one note was listed among others, read alone, and changed."""

    listed: int = 0
    read: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class OwnAct:
    """Hold one act of the person at this computer, or of the server itself."""

    at_ms: int
    act: str
    outcome: str
    facts: dict[str, Any]


@dataclass(slots=True)
class Activity:
    """Hold what was counted."""

    tally: Tally = field(default_factory=Tally)
    days: dict[date, Counter[Result]] = field(default_factory=dict)
    programs: dict[str, Program] = field(default_factory=dict)
    decisions: Counter[str] = field(default_factory=Counter)
    """Answers to questions for consent, and the questions themselves."""
    reasons: Counter[tuple[Result, str]] = field(default_factory=Counter)
    """Outcomes of refused and failed acts."""
    notes: dict[str, NoteUse] = field(default_factory=dict)
    latest: list[Act] = field(default_factory=list)
    """Changes and refusals, newest first."""
    own: Counter[str] = field(default_factory=Counter)
    own_latest: deque[OwnAct] = field(default_factory=lambda: deque(maxlen=MOST_LATEST))
    lost: int = 0
    """Acts that could not be recorded."""
    early: int = 0
    """Acts before the days asked for."""
    early_ms: int = 0
    """Time of the last of these, in epoch milliseconds."""
    late: int = 0
    """Acts after the days asked for."""


class ActivityCounter:
    """Count the records from ``since_ms`` to before ``until_ms``. ``day_of`` tells the day of epoch milliseconds."""

    def __init__(self, since_ms: int, until_ms: int, day_of: Callable[[int], date]) -> None:
        self._since, self._until, self._day_of = since_ms, until_ms, day_of
        self._begun: dict[int, Record] = {}
        self._known: set[str] = set()
        self._counted = Activity()

    def feed(self, record: Record) -> None:
        """Take the next record."""
        counted = self._counted
        if record.at_ms < self._since:
            self._note_early(record)
        elif record.at_ms >= self._until:
            counted.late += 1
        elif record.act.startswith(_FAMILIES):
            self._join(record)
        else:
            self._count_own(record)

    def result(self) -> Activity:
        """Return what was counted; acts that were only begun are unsure."""
        for record in self._begun.values():
            self._count(record, record)
        self._begun.clear()
        self._counted.latest = _newest(self._counted.latest)
        return self._counted

    def _note_early(self, record: Record) -> None:
        if not record.act.startswith(_FAMILIES):
            return
        self._counted.early += 1
        self._counted.early_ms = max(self._counted.early_ms, record.at_ms)
        if len(self._known) < MOST_PROGRAMS:
            self._known.add(program_of(record)[0])

    def _join(self, record: Record) -> None:
        if record.refers:
            first = self._begun.pop(record.refers, None)
            if first is not None:
                self._count(first, record)
        elif record.outcome == OPEN:
            self._begun[record.number] = record
            if len(self._begun) > _MOST_PENDING:
                oldest = self._begun.pop(next(iter(self._begun)))
                self._count(oldest, oldest)
        else:
            self._count(record, record)

    def _count(self, first: Record, last: Record) -> None:
        counted = self._counted
        if last.decision not in (Decision.ALLOWED, Decision.REFUSED):
            counted.decisions[last.decision] += 1
        if last.decision == Decision.ASKED:
            return  # the same call comes again with the answer
        name, version = program_of(first)
        act = Act(
            first.at_ms, name, version, first.act.removeprefix("tool."),
            classify(first, last), last.decision, last.outcome, tuple(_note_references(last)),
            last.bytes_out,
        )  # fmt: skip
        counted.tally.add(act)
        counted.days.setdefault(self._day_of(act.at_ms), Counter())[act.result] += 1
        self._count_program(act)
        _count_notes(counted.notes, act)
        if act.result in (Result.REFUSED, Result.FAILED):
            counted.reasons[(act.result, act.outcome)] += 1
        if act.result in (Result.CHANGED, Result.REFUSED, Result.UNSURE):
            counted.latest.append(act)
            if len(counted.latest) > _MOST_PENDING:
                counted.latest = _newest(counted.latest)

    def _count_program(self, act: Act) -> None:
        programs = self._counted.programs
        name = act.program if act.program in programs or len(programs) < MOST_PROGRAMS else OTHERS
        program = programs.setdefault(name, Program(name))
        program.new = bool(self._known) and name not in self._known
        if act.version and len(program.versions) < _MOST_VERSIONS:
            program.versions.add(act.version)
        program.tally.add(act)
        if act.tool in program.tools or len(program.tools) < MOST_TOOLS:
            program.tools.setdefault(act.tool, Tally()).add(act)

    def _count_own(self, record: Record) -> None:
        counted = self._counted
        facts = _json(record.facts)
        facts = facts if isinstance(facts, dict) else {}
        if record.act == ActName.GAP and isinstance(facts.get("not_recorded"), int):
            counted.lost += facts["not_recorded"]
        if record.refers:
            return  # the act is counted by the record that began it
        if record.act in counted.own or len(counted.own) < MOST_TOOLS:
            counted.own[record.act] += 1
        if not record.act.startswith("server."):
            counted.own_latest.append(OwnAct(record.at_ms, record.act, record.outcome, facts))


def program_of(record: Record) -> tuple[str, str]:
    """Return name and version of the program that made a call; with the name goes the profile that it came under."""
    (name, version), facts = split_version(record.client), _json(record.facts)
    profile = facts.get("profile") if isinstance(facts, dict) else None
    return (f"{name} (profile {profile})" if isinstance(profile, str) else name), version


def split_version(client: str) -> tuple[str, str]:
    """Return name and version of a program, as it gave them in one text."""
    found = _VERSION.fullmatch(client.strip())
    if found is None:
        return client.strip() or UNNAMED, ""
    return found[1], found[2][:_LONGEST_VERSION]


def classify(first: Record, last: Record) -> Result:
    """Tell what became of an act that ``first`` began; ``last`` is the record of its outcome, or the same one."""
    if last.decision in _AGAINST:
        return Result.FAILED if last.outcome in _MALFORMED else Result.REFUSED
    if last.outcome in (OPEN, UNKNOWN):
        return Result.UNSURE
    if last.outcome not in (OK, FINISHED):
        return Result.FAILED
    return Result.READ if first is last else Result.CHANGED


def _newest(acts: Iterable[Act]) -> list[Act]:
    return heapq.nlargest(MOST_LATEST, acts, key=lambda act: act.at_ms)


def _count_notes(notes: dict[str, NoteUse], act: Act) -> None:
    if act.result not in (Result.READ, Result.CHANGED):
        return
    for note in act.notes:
        if note not in notes and len(notes) >= MOST_NOTES:
            continue
        use = notes.setdefault(note, NoteUse())
        if act.result is Result.CHANGED:
            use.changed += 1
        elif len(act.notes) == 1 and act.tool != "list":
            use.read += 1
        else:
            use.listed += 1


def _note_references(record: Record) -> Iterator[str]:
    notes = _json(record.notes)
    yield from (str(note) for note in notes) if isinstance(notes, list) else ()


def _json(text: str) -> Any:
    """Return the JSON value; None if somebody has made it none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
