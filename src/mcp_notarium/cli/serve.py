"""Run ``mcp-notarium serve`` if it comes through the command line (``serve --help``, odd options)."""

from __future__ import annotations

import argparse

from mcp_notarium.protocol.server import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--sandbox`` beside ``--env-file``."""
    parser.add_argument(
        "--sandbox",
        choices=("auto", "require", "off"),
        help="block own access to unneeded files, ports and signals (Linux; default: "
        "NOTARIUM_SANDBOX, else auto)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    return serve(env_file=args.env_file, account=args.account or None, sandbox=args.sandbox)


COMMANDS = {"serve": (add_arguments, run)}
