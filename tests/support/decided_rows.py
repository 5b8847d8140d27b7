"""A plugin of pytest: which rows of the write table each test has reached, for which kind of write; a file gets them when the run ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcp_notarium.sync import write_attempt, write_commit, write_decisions
from mcp_notarium.sync.write_decisions import DECISIONS, Case, Step

_reached: dict[str, set[tuple[int, str]]] = {}
_current = [""]


def _decide(case: Case) -> Step:
    number = next(number for number, row in enumerate(DECISIONS) if row.covers(case))
    _reached.setdefault(_current[0], set()).add((number, case.kind.value))
    return write_decisions.decide(case)


write_attempt.decide = write_commit.decide = _decide


def pytest_runtest_setup(item: pytest.Item) -> None:
    _current[0] = item.nodeid.rpartition("/")[2]


def pytest_sessionfinish() -> None:
    rows = {name: sorted(halves) for name, halves in _reached.items()}
    Path(os.environ["DECIDED_ROWS"]).write_text(json.dumps(rows))
