"""``mcp-notarium serve`` when it comes through the command line (``serve --help``, odd options)."""

from __future__ import annotations

import argparse

from mcp_notarium.server.run import serve


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``serve`` has no options beyond ``--env-file``."""
    del parser


def run(args: argparse.Namespace) -> int:
    """Serve until the client leaves."""
    return serve(env_file=args.env_file)
