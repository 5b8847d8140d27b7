"""Where a new key comes from on the command line: a prompt, a file, standard input, or made up.

Never an argument: everybody on the machine can read those.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mcp_notarium.cli.terminal import ask_secret
from mcp_notarium.crypto import userkey
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.secret import Secret

_MOST = 64 * 1024


def add_arguments(parser: argparse.ArgumentParser, *, into_keychain: bool = False) -> None:
    """Where the new key comes from; ``into_keychain`` offers that nobody sees it at all."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--new-key-file", type=Path, metavar="PATH", help="read the new key from a file"
    )
    source.add_argument(
        "--new-key-stdin", action="store_true", help="read the new key from standard input"
    )
    source.add_argument(
        "--generate", action="store_true", help="make a random key and print it on stdout"
    )
    if into_keychain:
        source.add_argument(
            "--keychain",
            action="store_true",
            help="make a random key that only the system's keychain holds",
        )
    parser.add_argument(
        "--allow-weak", action="store_true", help="accept a passphrase that can be guessed"
    )


def is_given(args: argparse.Namespace) -> bool:
    """Whether an option says where the new key comes from; else it would be asked for."""
    return bool(args.generate or args.new_key_file is not None or args.new_key_stdin)


def read(args: argparse.Namespace) -> Secret:
    """The new key. One that is made up is printed at once: only the key file would know it else."""
    if args.generate:
        made = userkey.generate()
        sys.stdout.write(made.reveal_text() + "\n")
        sys.stdout.flush()
        return made
    if args.new_key_file is not None:
        return _from_file(args.new_key_file)
    if args.new_key_stdin:
        return Secret(sys.stdin.buffer.read(_MOST).removesuffix(b"\n").removesuffix(b"\r"))
    new = ask_secret("New key: ")
    if ask_secret("New key, once more: ") != new:
        raise InvalidRequest("the two entries differ", resolution_hint="Start again.")
    return new


def _from_file(path: Path) -> Secret:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as file:
            return Secret(file.read(_MOST).removesuffix(b"\n").removesuffix(b"\r"))
    except OSError as error:
        raise ConfigError(
            f"the new key's file cannot be read: {error.strerror}",
            resolution_hint="Check the path given to --new-key-file and its permissions.",
        ) from error
