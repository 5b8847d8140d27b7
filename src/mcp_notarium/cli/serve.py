"""Run ``serve`` through the command line."""

from __future__ import annotations

import argparse

from mcp_notarium.protocol.server import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--profile`` and ``--sandbox``."""
    parser.add_argument(
        "--profile",
        default="",
        metavar="NAME",
        help="narrow what agents may see and do to a profile of the policy file (default: "
        "NOTARIUM_PROFILE, else none)",
    )
    parser.add_argument(
        "--sandbox",
        choices=("auto", "require", "off"),
        help="block own access to unneeded files, ports and signals (Linux; default: "
        "NOTARIUM_SANDBOX, else auto)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    return serve(
        env_file=args.env_file,
        account=args.account or None,
        profile=args.profile,
        sandbox=args.sandbox,
    )


COMMANDS = {"serve": (add_arguments, run)}
