"""Run ``--print-config-vars``: list every variable, its value, its source, and what is wrong.

Works with an incomplete or wrong configuration too: that is when people call it. Secrets appear
as their length, never in part.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from mcp_notarium import config, logs
from mcp_notarium.config import Setting
from mcp_notarium.logs.redaction_rules import one_line
from mcp_notarium.sandbox import confinement

HEADINGS = ("NAME", "VALUE", "FROM", "PURPOSE")
_WIDEST_VALUE = 40
_WIDEST_ORIGIN = 34


def run(args: argparse.Namespace) -> int:
    """Print the table (or JSON) to stdout and the warnings to stderr; exit code 0."""
    confinement.harden_process()
    logs.protect(*config.secrets_here())  # a secret may be in a wrong variable, too
    inspected = config.inspect_here(env_file=args.env_file)
    shown = _as_json(inspected.settings) + "\n" if args.json else table(inspected.settings)
    sys.stdout.write(logs.scrub_for_client(shown))
    problem = inspected.source_problem
    for note in [*([problem.message] if problem else []), *inspected.warnings]:
        sys.stderr.write(f"note: {logs.scrub_for_client(one_line(note))}\n")
    return 0


def table(settings: tuple[Setting, ...]) -> str:
    """Return the settings as aligned columns; a problem stands on a line of its own below its row."""
    rows = [(one.name, one_line(one.value) or "-", one.origin, one.purpose) for one in settings]
    limits = (len(max((row[0] for row in rows), key=len)), _WIDEST_VALUE, _WIDEST_ORIGIN)
    widths = [
        min(limit, max(len(row[column]) for row in (HEADINGS, *rows)))
        for column, limit in enumerate(limits)
    ]
    lines = [_line(HEADINGS, widths)]
    for row, one in zip(rows, settings, strict=True):
        lines.append(_line(row, widths))
        if one.problem:
            lines.append(f"  ! {one_line(one.problem)}")
    return "\n".join(lines) + "\n"


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
    return "  ".join([*padded, row[-1]])


def _as_json(settings: tuple[Setting, ...]) -> str:
    return json.dumps([asdict(setting) for setting in settings], indent=2)
