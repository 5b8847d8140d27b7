"""Render the page: what a person should know first, the plot of acts by day, and the tables.

It is one file of HTML with its style and no script, which loads nothing from anywhere. Every value is
escaped, and what cannot be seen in it is shown by its code. The page's own security policy (CSP) permits its
style sheet, by hash, and nothing else. The plot is SVG without a view box, in percent of the width and pixels
of the height, so letters keep their size on a narrow screen.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from importlib import resources
from math import ceil
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from mcp_notarium.audit.chain import Decision
from mcp_notarium.audit.verification import Verification
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report import words
from mcp_notarium.report.activity import MOST_LATEST, Activity, NoteUse, Result
from mcp_notarium.report.words import Check, counted

BAD: Final = "bad"
WARN: Final = "warn"
INFO: Final = "info"
GOOD: Final = "ok"
_ORDER: Final = (BAD, WARN, INFO)
_MOST_NEW: Final = 5


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Hold the keys that open the account: type and label of each, and when they were made."""

    slots: tuple[tuple[str, str], ...]
    made: str
    changed: str
    """Day of their last change; '' if they are as they were made; no slot: there is no account yet."""


@dataclass(frozen=True, slots=True)
class Concern:
    """Hold one sentence for the top of the page, and what to do."""

    level: str
    """Bad, warn, info."""
    says: str
    hint: str = ""


def find_concerns(
    activity: Activity, chain: Verification, checks: Sequence[Check]
) -> list[Concern]:
    """Return all concerns, the worst first."""
    found = [*_about_chain(chain), *_about_activity(activity), *_about_checks(checks)]
    return sorted(found, key=lambda one: _ORDER.index(one.level))


def worst(concerns: Sequence[Concern]) -> str:
    """Return the level of the page: that of its worst concern; what is only new is no fault."""
    levels = {one.level for one in concerns}
    return next((level for level in (BAD, WARN) if level in levels), GOOD)


def _about_chain(chain: Verification) -> Iterator[Concern]:
    if not chain.whole:
        first = chain.faults[0]
        yield Concern(
            BAD,
            f"The audit log is not whole, so this page may not be complete or true. {first.kind.value} "
            f"at record {first.number}: {first.words}",
            "`mcp-notarium audit verify` lists all faults.",
        )


def _about_checks(checks: Sequence[Check]) -> Iterator[Concern]:
    for check in checks:
        if check.state in (BAD, WARN):
            yield Concern(check.state, f"{check.name.capitalize()}: {check.seen}", check.hint)


def _about_activity(activity: Activity) -> Iterator[Concern]:
    if activity.lost:
        yield Concern(
            WARN,
            f"{counted(activity.lost, 'act')} could not be recorded.",
            "The disk was full or the database was busy for long; only reads can be among them.",
        )
    unsure = activity.tally.results[Result.UNSURE]
    if unsure:
        yield Concern(
            WARN,
            f"{counted(unsure, 'change was', 'changes were')} begun without an outcome on record.",
            "A server ended in between, or is still at work. Sync finishes such a write by itself; "
            "`mcp-notarium history NOTE` shows what a note has now.",
        )
    if activity.late:
        yield Concern(
            WARN,
            f"{counted(activity.late, 'record')} of the log lie in the future and are not counted.",
            "The clock of this computer was changed.",
        )
    new = [program.name for program in activity.programs.values() if program.new]
    for name in new[:_MOST_NEW]:
        yield Concern(
            INFO,
            f"New: {name} used your notes, and has no older act in this log.",
            "If you do not know it, look for it in your MCP clients. `mcp-notarium uninstall` takes "
            "the server out of them.",
        )
    by_word = activity.decisions[Decision.BY_ARGUMENT]
    if by_word:
        yield Concern(
            INFO,
            f"For {counted(by_word, 'act')} you have only the assistant's word that you agreed.",
            "The assistant's program has no dialogue. With `NOTARIUM_DESTRUCTIVE=strict` such acts wait for "
            "your answer at a terminal.",
        )


HEIGHT: Final = 160
"""Pixels from the base line to the highest column."""
STACKED: Final = (Result.READ, Result.CHANGED, Result.REFUSED, Result.FAILED, Result.UNSURE)
_MOST_DAYS: Final = 45
_MOST_WEEKS: Final = 52 * 7
_MOST_LABELS: Final = 8
_MOST_NARROW_LABELS: Final = 4
_FILLED: Final = 0.76
"""Share of its place that a column fills."""
_WIDEST: Final = 9.0
"""Percent of the width that a column has at most."""
_MARGIN: Final = 9.0
"""Percent of the width that the numbers of the scale have."""


@dataclass(frozen=True, slots=True)
class Period:
    """Hold the acts of one day, week or month."""

    name: str
    weekday: str
    """Its day of the week; '' for the longer ones."""
    results: Counter[Result]


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold one rectangle: the place in percent and pixels, what it counts."""

    result: Result
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Label:
    """Hold a label of the time axis."""

    x: float
    text: str
    narrow: bool
    """A phone has room for it, too."""


@dataclass(frozen=True, slots=True)
class Plot:
    """Hold all parts of the plot."""

    pieces: tuple[Piece, ...]
    labels: tuple[Label, ...]
    lines: tuple[tuple[float, int], ...]
    """Height in pixels and number of each grid line."""


def divide(
    days: Mapping[date, Counter[Result]], since: date, until: date
) -> tuple[str, list[Period]]:
    """Return the days from ``since`` to ``until`` one by one, by week or by month, and which of these."""
    count = (until - since).days + 1
    unit = "day" if count <= _MOST_DAYS else "week" if count <= _MOST_WEEKS else "month"
    periods: dict[date, Period] = {}
    for number in range(count):
        day = since + timedelta(number)
        begins = _begin(day, unit)
        period = periods.setdefault(begins, Period(*_names(begins, unit), Counter()))
        period.results.update(days.get(day, {}))
    return unit, list(periods.values())


def draw(periods: list[Period]) -> Plot:
    """Return the columns of these periods."""
    top = round_up(max((one.results.total() for one in periods), default=0))
    place = (100 - _MARGIN) / max(len(periods), 1)
    width = min(place * _FILLED, _WIDEST)
    pieces = [
        piece
        for number, one in enumerate(periods)
        for piece in _stack(
            one.results, _MARGIN + place * (number + 0.5) - width / 2, width, HEIGHT / top
        )
    ]
    lines = tuple((HEIGHT - HEIGHT * part / 2, int(top * part / 2)) for part in (0, 1, 2))
    return Plot(tuple(pieces), tuple(_label(periods, place)), lines)


def round_up(most: int) -> int:
    """Return the number at the top of the scale: even, with one digit that counts, or 1 and a half."""
    scale = 1
    while True:
        for step in (2, 4, 6, 8, 10) if scale == 1 else (1.5, 2, 3, 4, 5, 6, 8, 10):
            if most <= step * scale:
                return int(step * scale)
        scale *= 10


def _stack(results: Counter[Result], x: float, width: float, unit: float) -> Iterator[Piece]:
    y = float(HEIGHT)
    for result in STACKED:
        if results[result]:
            height = max(results[result] * unit, 1.5)  # also one among thousands can be seen
            y -= height
            yield Piece(result, round(x, 3), round(y, 2), round(width, 3), round(height, 2))


def _label(periods: list[Period], place: float) -> Iterator[Label]:
    every = max(ceil(len(periods) / _MOST_LABELS), 1)
    narrow = every * ceil(ceil(len(periods) / every) / _MOST_NARROW_LABELS)
    for number, one in enumerate(periods):
        if number % every == 0:
            yield Label(round(_MARGIN + place * (number + 0.5), 3), one.name, number % narrow == 0)


def _begin(day: date, unit: str) -> date:
    if unit == "week":
        return day - timedelta(day.weekday())
    return day.replace(day=1) if unit == "month" else day


def _names(begins: date, unit: str) -> tuple[str, str]:
    if unit == "month":
        return f"{begins:%b %Y}", ""
    return f"{begins.day} {begins:%b}", f"{begins:%a}" if unit == "day" else ""


MARK: Final = b'<!doctype html>\n<html lang="en" data-made-by="mcp-notarium report">\n'
"""The first bytes of every report, and of no other file."""
_MOST_NOTES: Final = 15
_LONGEST_TITLE: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """Hold all that the page says."""

    account: str
    store: str
    version: str
    command: str
    made_at: float
    local: Callable[[float], datetime]
    """Turn epoch seconds into a time as clocks here show it."""
    since: date
    until: date
    activity: Activity
    chain: Verification
    checks: Sequence[Check]
    keys: KeyRing | None
    """None: the account is not encrypted."""
    titles: Mapping[str, str] | None
    """By references of notes; None: they were not asked for."""

    def concerns(self) -> list[Concern]:
        """Return what a person should know first, the worst first."""
        return find_concerns(self.activity, self.chain, self.checks)


def render(facts: PageFacts) -> bytes:
    """Return the bytes of the page."""
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    unit, periods = divide(facts.activity.days, facts.since, facts.until)
    concerns = facts.concerns()
    html = _environment(facts).get_template("page.html").render(
        facts=facts,
        activity=facts.activity,
        style=style,
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        concerns=concerns,
        state=worst(concerns),
        range=_describe_range(facts.since, facts.until),
        unit=unit,
        periods=periods,
        plot=draw(periods),
        shown=_shown_results(facts.activity),
        programs=sorted(facts.activity.programs.values(), key=lambda one: -one.tally.calls),
        most_latest=MOST_LATEST,
        notes=_most_used(facts.activity.notes),
        Result=Result,
        words=words,
    )  # fmt: skip
    return MARK + html.encode("utf-8", "replace") + b"\n"


def _environment(facts: PageFacts) -> Environment:
    made = Environment(
        loader=PackageLoader("mcp_notarium.report", "."),
        autoescape=True,  # defence: report-escapes-names =False
        finalize=_reveal,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "clock": lambda ms: words.clock(facts.local(ms / 1000)),
        "machine": lambda ms: facts.local(ms / 1000).isoformat(timespec="seconds"),
        "size": words.size,
        "title": lambda reference: _title(facts.titles, reference),
    }
    return made


def _reveal(value: Any) -> Any:
    """Show what cannot be seen, or turns the text around, by its code."""
    return one_line(value) if type(value) is str else value


def _title(titles: Mapping[str, str] | None, reference: str) -> str:
    found = (titles or {}).get(reference, "")
    return found if len(found) <= _LONGEST_TITLE else f"{found[: _LONGEST_TITLE - 1]}…"


def _shown_results(activity: Activity) -> list[Result]:
    """Return the results that have a column: those that are rare only where there are some."""
    always = (Result.READ, Result.CHANGED, Result.REFUSED)
    return [one for one in STACKED if one in always or activity.tally.results[one]]


def _most_used(notes: Mapping[str, NoteUse]) -> list[tuple[str, NoteUse]]:
    used = [(note, use) for note, use in notes.items() if use.changed or use.read]
    used.sort(key=lambda one: (-one[1].changed, -one[1].read, -one[1].listed, one[0]))
    return used[:_MOST_NOTES]


def _describe_range(since: date, until: date) -> str:
    if since == until:
        return f"{until.day} {until:%B %Y}"
    if since.year != until.year:
        return f"{since.day} {since:%B %Y} to {until.day} {until:%B %Y}"
    first = f"{since.day}" if since.month == until.month else f"{since.day} {since:%B}"
    return f"{first} to {until.day} {until:%B %Y}"
