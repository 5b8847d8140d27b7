"""Run ``./scripts/mutants [--count N] [--minutes M]``: change random lines and check that a test fails.

The lines are drawn from what must not be wrong: keys, audit log, policy, journal and the decisions of sync.
``NOTARIUM_TEST_SEED`` decides the sample. Prints the changes that no test has noticed. Exit 1: they are more than
:data:`SHARE` of those that were tried.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from support.long import SEED, dice
from undefended.defence import PACKAGE, TOP, Marker
from undefended.mutations import words
from undefended.trial import Copy

SHARE = 1 / 3
"""Part of the changes that may stay unnoticed: some change nothing that can be seen."""

SECONDS = 180.0
"""Longer does no run of the tests take: a change may never end."""

GROUPS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("crypto/*.py",): (
        "unit/crypto",
        "vectors/test_keyfile_vectors.py",
        "vectors/test_published_vectors.py",
        "vectors/test_slot_vectors.py",
        "property/test_keyfile_properties.py",
    ),
    ("audit/*.py",): (
        "unit/audit",
        "unit/storage/test_audit_table.py",
        "property/test_audit_chain.py",
    ),
    ("domain/policy*.py",): (
        "unit/domain/test_policy.py",
        "unit/domain/test_policy_parser.py",
        "unit/domain/test_visibility.py",
        "property/test_policy_differential.py",
    ),
    ("sync/*_decisions.py",): (
        "unit/domain/test_conflict_copy.py",
        *(
            f"unit/sync/test_{name}.py"
            for name in (
                *("pull_decisions", "write_decisions", "properties", "news_and_sweeps"),
                *("journal_replay", "writer_saves", "renamed_notes"),
            )
        ),
    ),
    ("sync/journal*.py", "storage/journal_table.py", "storage/kept_versions.py"): (
        "unit/sync",
        "unit/storage",
    ),
}
"""Files below the package, and the tests that must notice a change of them."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change, and the tests that must notice it."""

    place: Marker
    tests: tuple[str, ...]
    source: str

    def __str__(self) -> str:
        """Name the line and the word."""
        return f"{self.place.file}:{self.place.line} {self.place.word or 'removed'}: {self.source}"


def main(arguments: list[str]) -> int:
    """Try as many changes as fit into the time; the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10)
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.minutes * 60
    print(f"mutants: NOTARIUM_TEST_SEED={SEED}")  # noqa: T201
    tried, survivors = 0, []
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        Path(place).chmod(0o755)  # some tests run as another user
        copy = Copy(Path(place) / "0")
        for mutant in draw(dice("mutants"), asked.count):
            if time.monotonic() > end:
                break
            with copy.without(mutant.place):
                survives = copy.passes(mutant.tests, seconds=SECONDS)
            tried += 1
            if survives:
                survivors.append(mutant)
                print(f"SURVIVED  {mutant}", flush=True)  # noqa: T201
    print(f"{tried - len(survivors)} of {tried} changes are noticed")  # noqa: T201
    return 1 if len(survivors) > SHARE * tried else 0


def draw(chance: Random, count: int) -> Iterator[Mutant]:
    """Yield so many changes, of each group in turn."""
    groups = [(lines, tests) for files, tests in GROUPS.items() if (lines := list(_lines(files)))]
    for number in range(count):
        lines, tests = groups[number % len(groups)]
        file, line = chance.choice(lines)
        text = (TOP / PACKAGE / file).read_text(encoding="utf-8")
        word = chance.choice(words(text, line))
        yield Mutant(Marker("", file, line, word), tests, text.splitlines()[line - 1].strip())


def _lines(files: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the first lines of the statements in functions that decide or do something."""
    package = TOP / PACKAGE
    for path in sorted(path for pattern in files for path in package.glob(pattern)):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if _does_something(node):
                    yield path.relative_to(package).as_posix(), node.lineno


def _does_something(node: ast.AST) -> bool:
    """Return whether this is a condition, a result or a call; not a docstring or the words of an error."""
    match node:
        case ast.If() | ast.While() | ast.Return(value=ast.expr()):
            return True
        case ast.Expr(value=ast.Constant()):
            return False
        case ast.Expr():
            return True
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
