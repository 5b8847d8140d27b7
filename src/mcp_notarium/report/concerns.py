"""Find what a person should know first: what is wrong, what needs a look, and what is new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mcp_notarium.audit.chain import Decision
from mcp_notarium.audit.verification import Verification
from mcp_notarium.report.activity import Activity, Result
from mcp_notarium.report.words import counted

BAD: Final = "bad"
WARN: Final = "warn"
INFO: Final = "info"
GOOD: Final = "ok"
_ORDER: Final = (BAD, WARN, INFO)
_MOST_NEW: Final = 5


@dataclass(frozen=True, slots=True)
class Check:
    """Hold one check of ``doctor``: ``ok``, ``warn``, ``bad`` or ``-``, what was seen, what to do."""

    name: str
    state: str
    seen: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Hold the keys that open the account: type and label of each, and when they were made.

    ``changed`` is '' if they are as they were made; no slot: there is no account yet.
    """

    slots: tuple[tuple[str, str], ...]
    made: str
    changed: str


@dataclass(frozen=True, slots=True)
class Concern:
    """Hold one sentence for the top of the page, and what to do. ``level``: bad, warn, info."""

    level: str
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
            "The assistant's program has no dialogue. `NOTARIUM_DESTRUCTIVE=elicit` refuses such acts.",
        )
