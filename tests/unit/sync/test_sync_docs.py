"""docs/sync.md shows the tables as they are."""

from pathlib import Path

import pytest

import mcp_notarium
from mcp_notarium.sync.cycle_states import TRANSITIONS
from mcp_notarium.sync.pull_decisions import CHANGES, REMOVAL_COUNT, SWEEP_SHARE
from mcp_notarium.sync.write_decisions import DECISIONS

TEXT = (Path(mcp_notarium.__file__).parents[2] / "docs" / "sync.md").read_text()


def part(name):
    return TEXT.split(f"<!-- {name} -->\n")[1].split("<!-- end -->")[0]


def change_table():
    lines = ["| here | the store says | action | why |", "|---|---|---|---|"]
    lines += [
        f"| {ours.value} | {theirs.value} | {row.move.value} | {row.why} |"
        for (ours, theirs), row in CHANGES.items()
    ]
    return "\n".join(lines) + "\n"


def push_table():
    lines = ["| write | attempt | the store holds | step | why |", "|---|---|---|---|---|"]
    lines += [
        f"| {kind} | {attempt.value} | {held.value} | {row.step.value} | {row.why} |"
        for (kind, attempt, held), row in DECISIONS.items()
    ]
    return "\n".join(lines) + "\n"


def state_diagram():
    lines = ["stateDiagram-v2", "    [*] --> IDLE"]
    lines += [
        f"    {state.name} --> {step.state.name}: {event.value} / {step.effect.value}"
        for (state, event), step in TRANSITIONS.items()
    ]
    return "\n".join(lines) + "\n"


def test_the_change_table_is_the_planners():
    assert part("change table") == change_table()


def test_the_push_table_is_the_writers():
    assert part("push table") == push_table()


def test_the_diagram_is_the_cycles():
    assert part("state diagram") == f"```mermaid\n{state_diagram()}```\n"


def test_the_numbers_of_the_removal_limit_are_the_codes():
    assert (
        f"more than {REMOVAL_COUNT} active notes, or {SWEEP_SHARE:.0%}".replace("%", " %") in TEXT
    )


@pytest.mark.parametrize("number", range(1, 9))
def test_each_invariant_is_tested_under_its_name(number):
    invariants = TEXT.split("## Invariants")[1].split("## What is decided")[0]
    sentence = invariants.split(f"\n{number}. **")[1].split("**")[0]
    words = sentence.lower().replace(",", "").rstrip(".:").split()
    tests = (Path(__file__).parents[2] / "property" / "test_sync_invariants.py").read_text()
    assert any(
        all(word.replace("page's", "pages") in name for word in words)
        for name in tests.split("def test_")
    )
