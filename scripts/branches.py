"""Measure which branches the tests take, and fail if one is not taken where all must be.

``python scripts/branches.py`` measures all packages and writes the table of docs/testing.md; ``--check`` runs the tests of
:data:`WHOLE` only. Coverage sees the tests' own process: a server that a test starts is confined to its own files and system
calls, could store no measurement, and is often killed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[1]
PAGE = "docs/testing.md"
PACKAGE = "src/mcp_notarium"

WHOLE: Mapping[str, tuple[str, ...]] = {
    "decisions": (
        "sync/*_decisions.py",
        "sync/cycle_states.py",
        "domain/conflict_copy.py",
    ),
    "journal": ("sync/journal*.py", "storage/journal_table.py", "storage/kept_versions.py"),
    "writes": (
        "sync/write_attempt.py",
        "sync/head_reader.py",
        "sync/replay.py",
    ),
    "crypto": ("crypto/*.py",),
    "policy": ("domain/policy*.py", "config/policy_file.py"),
    "audit": ("audit/*.py", "storage/audit*.py"),
}
"""What must be whole: files below the package."""

CHECKED = tuple(
    f"tests/{name}"
    for name in (
        *("unit/crypto", "vectors/test_slot_vectors.py", "unit/audit"),
        "vectors/test_published_vectors.py",
        *("property/test_audit_chain.py", "unit/storage/test_audit_table.py"),
        *("unit/domain/test_policy.py", "unit/domain/test_policy_parser.py"),
        *("unit/domain/test_visibility.py", "unit/config/test_config_policy.py"),
        *("unit/domain/test_profiles.py", "interaction/test_write_scopes.py"),
        *("unit/files/test_private_files_groups.py", "unit/storage/test_journal_table.py"),
        "unit/account/test_slot_rotation.py::test_a_weak_new_passphrase_is_refused_unless_allowed",
        "unit/sync/test_note_fetch.py::test_many_unfinished_writes_that_take_long_leave_room_for_others",
        *("unit/sync/test_pull_decisions.py", "unit/sync/test_write_decisions.py"),
        *("unit/sync/test_cycle_states.py", "unit/domain/test_conflict_copy.py"),
        *("unit/sync/test_journal_replay.py", "unit/sync/test_entry_replay.py"),
        *("unit/sync/test_renamed_notes.py", "unit/sync/test_renamed_hidden_notes.py"),
        *("unit/sync/test_unlike_stores.py", "unit/sync/test_displaced_texts.py"),
        *("unit/sync/test_room_for_versions.py", "unit/sync/test_kept_texts.py"),
        *("unit/sync/test_versions.py", "unit/sync/test_revived_notes.py"),
        *("unit/sync/test_writer_saves.py", "unit/sync/test_writer_removes.py"),
        *("unit/sync/test_writer_interruptions.py", "unit/sync/test_saved_titles.py"),
        *("unit/sync/test_direct_write.py", "unit/sync/test_history.py"),
        *("unit/sync/test_foreseen_writes.py", "unit/sync/test_hidden_since.py"),
        *("unit/sync/test_several_processes.py", "unit/sync/test_note_fetch.py"),
        *("unit/sync/test_rare_turns.py", "unit/sync/test_waiting_links.py"),
        "unit/stores/test_trilium_writes.py::test_a_note_that_has_changed_is_read_and_merged",
        "unit/stores/test_trilium_writes.py::test_a_save_that_says_what_the_index_says_asks_the_server",
        *("interaction/test_tree_moves.py", "unit/transfer/test_note_import.py"),
    )
)
"""The tests of what must be whole."""

MEASURED = ("tests/unit", "tests/property", "tests/contract", "tests/vectors")
"""The tests whose product runs in their own process."""

_CONFIG = """[run]
branch = true
relative_files = true
{measured}
[report]
exclude_also = case _:\\n\\s+assert_never\\(
"""
"""The settings of coverage; mypy proves that nothing gets to the lines that are left out."""

_TABLE = re.compile(r"(?<=\n)\| package \| (?:.*\n)(?:\|.*\n)*")


@dataclass(frozen=True, slots=True)
class File:
    """The branches of one file: how many there are and how many were taken, and those that were not."""

    name: str
    branches: int
    taken: int
    missing: tuple[str, ...]


def read(report: Mapping[str, Any]) -> list[File]:
    """Return the files of a JSON report of coverage, by their names below the package.

    A statement that never ran is missing as well: it may be of a function without a branch.
    """
    found = []
    for path, one in sorted(report["files"].items()):
        name, sums = path.replace("\\", "/").removeprefix(f"{PACKAGE}/"), one["summary"]
        lines = [f"{line}" for line in one["missing_lines"]]
        branches = [
            f"{line}->{'exit' if to < 0 else to}"
            for line, to in one["missing_branches"]
            if line not in one["missing_lines"]
        ]
        found.append(
            File(name, sums["num_branches"], sums["covered_branches"], (*lines, *branches))
        )
    return found


def with_unread(files: Iterable[File]) -> list[File]:
    """Return them with the files that must be whole, and that no test has read."""
    known = {one.name: one for one in files}
    for pattern in (pattern for patterns in WHOLE.values() for pattern in patterns):
        for path in (TOP / PACKAGE).glob(pattern):
            name = path.relative_to(TOP / PACKAGE).as_posix()
            known.setdefault(name, File(name, 0, 0, ("all of it",)))
    return list(known.values())


def faults(files: Iterable[File]) -> Iterator[str]:
    """Yield the branches that are not taken where all must be, and patterns that no file fits."""
    known = list(files)
    for group, patterns in WHOLE.items():
        for pattern in patterns:
            fitting = [one for one in known if Path(one.name).match(pattern)]
            if not fitting:
                yield f"{group}: there is no {pattern}"
            for one in fitting:
                if one.missing:
                    yield f"{group}: {one.name}: never taken: {', '.join(one.missing)}"


def as_table(files: Iterable[File]) -> Iterator[str]:
    """Yield the table of docs/testing.md: what must be whole, and each package."""
    known = list(files)
    yield "| package | branches | taken |\n"
    yield "|---|--:|--:|\n"
    for group, patterns in WHOLE.items():
        fitting = [one for one in known if any(Path(one.name).match(each) for each in patterns)]
        yield _row(f"{group}: {', '.join(f'`{each}`' for each in patterns)}", fitting)
    for package in sorted({one.name.split("/")[0] for one in known if "/" in one.name}):
        yield _row(f"`{package}`", [one for one in known if one.name.startswith(f"{package}/")])
    yield _row("all", known)


def _row(name: str, files: Iterable[File]) -> str:
    known = list(files)
    branches, taken = sum(one.branches for one in known), sum(one.taken for one in known)
    share = f"{100 * taken / branches:.1f} %" if branches else ""
    return f"| {name} | {branches:,} | {share} |\n"


def measure(tests: Iterable[str], folder: Path, *, only_whole: bool) -> tuple[int, dict[str, Any]]:
    """Run these tests; return the exit code of pytest, and the report of coverage.

    ``only_whole``: measure the files that must be whole, which is several times as fast.
    """
    report, config = folder / "report.json", folder / "config"
    patterns = [pattern for group in WHOLE.values() for pattern in group]
    measured = "".join(f"\n    {PACKAGE}/{pattern}" for pattern in patterns)
    config.write_text(
        _CONFIG.format(
            measured=f"include ={measured}" if only_whole else "source_pkgs = mcp_notarium"
        ),
        encoding="utf-8",
    )
    jobs = os.environ.get("NOTARIUM_TEST_JOBS", "2")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", jobs, "--dist", "worksteal"),
            *("--cov", f"--cov-config={config}", f"--cov-report=json:{report}", *tests),
        ],
        cwd=TOP,
        env=os.environ | {"COVERAGE_FILE": str(folder / "coverage")},
        check=False,
    )
    found = json.loads(report.read_text(encoding="utf-8")) if report.is_file() else {"files": {}}
    return run.returncode, found


def main(arguments: list[str]) -> int:
    """Measure and tell; return 1 if a test fails, or a branch is not taken where all must be."""
    parser = argparse.ArgumentParser(prog="scripts/coverage", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only what must be whole")
    parser.add_argument(
        "--passed-over",
        action="store_true",
        help="print pytest's options that leave these tests out",
    )
    asked = parser.parse_args(arguments)
    if asked.passed_over:
        options = (f"--{'deselect' if '::' in one else 'ignore'}={one}" for one in CHECKED)
        sys.stdout.write("\n".join(options) + "\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        tests = CHECKED if asked.check else MEASURED
        code, report = measure(tests, Path(folder), only_whole=asked.check)
    files = read(report)
    wrong = list(faults(with_unread(files)))
    if not asked.check:
        table = "".join(as_table(files))
        sys.stdout.write(table)
        if code == 0:
            page = TOP / PAGE
            text = _TABLE.sub(lambda _old: table, page.read_text(encoding="utf-8"))
            page.write_text(text, encoding="utf-8")
    for one in wrong:
        sys.stderr.write(f"{one}\n")
    if not wrong and not code:
        sys.stdout.write(f"coverage: every branch of {', '.join(WHOLE)} is taken\n")
    return 1 if wrong or code else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
