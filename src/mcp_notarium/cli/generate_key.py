"""``mcp-notarium generate-key``: a random key, for a password manager or a file of mode 0600."""

from __future__ import annotations

import argparse
import sys

from mcp_notarium.cli.terminal import talk
from mcp_notarium.crypto import userkey


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose."""
    parser.epilog = (
        "The key goes to stdout, everything else to stderr: "
        "(umask 077; mcp-notarium generate-key > notarium.key), then "
        "DB_ENCRYPTION_KEY_FILE=/path/to/notarium.key"
    )


def run(args: argparse.Namespace) -> int:
    """Print one key; nothing is stored."""
    del args
    sys.stdout.write(userkey.generate().reveal_text() + "\n")
    sys.stdout.flush()
    talk(
        "Set this as DB_ENCRYPTION_KEY and keep a copy in a safe place: "
        "without it the cache cannot be opened (your notes stay at the note service)."
    )
    return 0
