"""Run ``--print-config-vars``: list every variable, its value, its source, and what is wrong.

Works with an incomplete or wrong configuration too: that is when people call it. Secrets appear
as their length, never in part.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from mcp_notarium import config, logs
from mcp_notarium.cli import console
from mcp_notarium.cli.terminal import print_data
from mcp_notarium.config import Setting
from mcp_notarium.logs.redaction import one_line

HEADINGS = ("NAME", "VALUE", "FROM", "PURPOSE")


def run(args: argparse.Namespace) -> int:
    """Print the table (or JSON) to stdout and the warnings to stderr; exit code 0."""
    logs.protect(*config.secrets_here())  # a secret may be in a wrong variable, too
    inspected = config.inspect_here(env_file=args.env_file, account=args.account)
    settings = inspected.settings
    facts = [asdict(one) for one in settings]
    print_data(
        logs.scrub_for_client(facts),
        _rendered(settings),
        as_json=args.json,
    )
    problem = inspected.source_problem
    for note in [*([problem.message] if problem else []), *inspected.warnings]:
        sys.stderr.write(f"note: {logs.scrub_for_client(one_line(note))}\n")
    return 0


def _rendered(settings: tuple[Setting, ...]) -> list[RenderableType]:
    """Return a paragraph for each setting at a terminal, else a table with a line for each."""
    if not sys.stdout.isatty():
        rows = [(one.name, _value(one), one.origin, _about(one)) for one in settings]
        return [console.table(HEADINGS, rows)]
    lines: list[RenderableType] = []
    for one in settings:
        name = Text.assemble((one.name, "bold"), " = ", _value(one), (f"  ({one.origin})", "dim"))
        lines += [name, Padding(Text(_about(one)), (0, 0, 0, 4))]
    return lines


def _value(one: Setting) -> str:
    return logs.scrub_for_client(one_line(one.value)) or "-"


def _about(one: Setting) -> str:
    problem = f"! {logs.scrub_for_client(one_line(one.problem))} " if one.problem else ""
    return f"{problem}{one.purpose}"
