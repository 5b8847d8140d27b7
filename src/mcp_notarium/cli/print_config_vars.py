"""Run ``--print-config-vars``: list every variable, its value, its source, and what is wrong.

Works with an incomplete or wrong configuration too: that is when people call it. Secrets appear
as their length, never in part.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from mcp_notarium import config, logs
from mcp_notarium.cli.terminal import columns, print_data
from mcp_notarium.config import Setting
from mcp_notarium.logs.redaction_rules import one_line
from mcp_notarium.sandbox import confinement

HEADINGS = ("NAME", "VALUE", "FROM", "PURPOSE")


def run(args: argparse.Namespace) -> int:
    """Print the table (or JSON) to stdout and the warnings to stderr; exit code 0."""
    confinement.harden_process()
    logs.protect(*config.secrets_here())  # a secret may be in a wrong variable, too
    inspected = config.inspect_here(env_file=args.env_file, account=args.account)
    settings = inspected.settings
    facts = [asdict(one) for one in settings]
    print_data(
        logs.scrub_for_client(facts),
        logs.scrub_for_client(format_table(settings)),
        as_json=args.json,
    )
    problem = inspected.source_problem
    for note in [*([problem.message] if problem else []), *inspected.warnings]:
        sys.stderr.write(f"note: {logs.scrub_for_client(one_line(note))}\n")
    return 0


def format_table(settings: tuple[Setting, ...]) -> str:
    """Return the settings as aligned columns; a problem stands on a line of its own below its row."""
    rows = [(one.name, one_line(one.value) or "-", one.origin, one.purpose) for one in settings]
    heading, *shown = columns([HEADINGS, *rows])
    lines = [heading]
    for line, one in zip(shown, settings, strict=True):
        lines += [line, f"  ! {one_line(one.problem)}"] if one.problem else [line]
    return "\n".join(lines)
