"""Run pip-audit over every package of the lock files, and report packages without an answer.

If the index has no advisories (many mirrors have none), pip-audit succeeds and calls the packages
"skipped". This script counts and prints them. It exits with 1 if a vulnerability is known, or if an
answer is missing and NOTARIUM_AUDIT=required is set, as in the workflows.
Arguments go to pip-audit: scripts/audit.py -s osv
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from locked import LOCKS, Pin, pins

TOP = Path(__file__).resolve().parent.parent
PATIENCE = 120
"""Longest duration of pip-audit, in seconds."""


@dataclass
class Outcome:
    """Hold names of packages with and without an answer, and a sentence for each vulnerability."""

    answered: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    weak: list[str] = field(default_factory=list)


def rounds(locked: list[Pin]) -> list[list[Pin]]:
    """Split the pins into lists without a repeated name, which pip-audit refuses."""
    found: list[dict[str, Pin]] = []
    for name, version in dict.fromkeys((pin.name, pin.version) for pin in locked):
        pin = next(pin for pin in locked if (pin.name, pin.version) == (name, version))
        into = next((one for one in found if name not in one), None)
        if into is None:
            found.append(into := {})
        into[name] = pin
    return [list(one.values()) for one in found]


def read_report(report: dict[str, Any] | None, wanted: list[Pin]) -> Outcome:
    """Read a report of pip-audit about the wanted packages; None is no report."""
    outcome = Outcome(unanswered={pin.name for pin in wanted})
    for said in (report or {}).get("dependencies", ()):
        if "skip_reason" in said or "vulns" not in said:
            continue
        outcome.answered.add(said["name"])
        for weakness in said["vulns"]:
            fixed = ", ".join(weakness.get("fix_versions") or ()) or "no version yet"
            outcome.weak.append(
                f"{said['name']} {said['version']}: {weakness['id']}, fixed in {fixed}"
            )
    outcome.unanswered -= outcome.answered
    return outcome


def ask(wanted: list[Pin], arguments: list[str]) -> dict[str, Any] | None:
    """Return the report of pip-audit, or None without network or in time."""
    with tempfile.TemporaryDirectory() as folder:
        listed, report = Path(folder) / "requirements.txt", Path(folder) / "report.json"
        listed.write_text(
            "".join(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256[0]}\n" for pin in wanted)
        )
        command = [sys.executable, "-m", "pip_audit", "--require-hashes", "--disable-pip"]
        command += ["--progress-spinner", "off", "--desc", "off", "--format", "json"]
        command += ["--requirement", str(listed), "--output", str(report), *arguments]
        try:
            done = subprocess.run(
                command, timeout=PATIENCE, check=False, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            print(f"audit: no end within {PATIENCE} seconds", file=sys.stderr)
            return None
        try:
            answer: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            print(f"audit: pip-audit gave no report: {last[:300]}", file=sys.stderr)
            return None
        return answer


def conclude(outcome: Outcome, *, required: bool) -> int:
    """Print the outcome; return the exit code."""
    for sentence in sorted(outcome.weak):
        print(f"audit: KNOWN VULNERABILITY in {sentence}")
    if outcome.unanswered:
        total = len(outcome.unanswered) + len(outcome.answered)
        print(
            f"audit: NOT AUDITED: no answer about {len(outcome.unanswered)} of {total} packages; "
            "this index gives no advisories. NOTARIUM_AUDIT=required makes that a failure."
        )
    if not outcome.weak and outcome.answered:
        print(f"audit: nothing known against {len(outcome.answered)} packages")
    return 1 if outcome.weak or (required and outcome.unanswered) else 0


def main(arguments: list[str]) -> int:
    """Audit all lock files together."""
    whole = Outcome()
    for wanted in rounds([pin for lock in LOCKS for pin in pins(TOP / lock)]):
        found = read_report(ask(wanted, arguments), wanted)
        whole.answered |= found.answered
        whole.unanswered |= found.unanswered
        whole.weak += found.weak
    return conclude(whole, required=os.environ.get("NOTARIUM_AUDIT") == "required")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
