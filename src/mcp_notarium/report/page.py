"""Render the page: one file of HTML with its style and no script, which loads nothing from anywhere.

Every value is escaped, and what cannot be seen in it is shown by its code. The page's own security policy
(CSP) permits its style sheet, by hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from mcp_notarium.audit.verification import Verification
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report import plots, words
from mcp_notarium.report.activity import MOST_LATEST, Activity, NoteUse, Result
from mcp_notarium.report.concerns import Check, Concern, KeyRing, find_concerns, worst

MARK: Final = b'<!doctype html>\n<html lang="en" data-made-by="mcp-notarium report">\n'
"""The first bytes of every report, and of no other file."""
_MOST_NOTES: Final = 15
_LONGEST_TITLE: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """Hold all that the page says.

    ``titles`` by references of notes; None: they were not asked for. ``local`` turns epoch seconds into a time as
    clocks here show it. ``keys`` None: the account is not encrypted.
    """

    account: str
    store: str
    version: str
    command: str
    made_at: float
    local: Callable[[float], datetime]
    since: date
    until: date
    activity: Activity
    chain: Verification
    checks: Sequence[Check]
    keys: KeyRing | None
    titles: Mapping[str, str] | None

    def concerns(self) -> list[Concern]:
        """Return what a person should know first, the worst first."""
        return find_concerns(self.activity, self.chain, self.checks)


def render(facts: PageFacts) -> bytes:
    """Return the bytes of the page."""
    style = resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    unit, periods = plots.divide(facts.activity.days, facts.since, facts.until)
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
        plot=plots.draw(periods),
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
        autoescape=True,
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
    return [one for one in plots.STACKED if one in always or activity.tally.results[one]]


def _most_used(notes: Mapping[str, NoteUse]) -> list[tuple[str, NoteUse]]:
    """Return the notes that were changed or read most."""
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
