"""Run ``generate-key``: write a random key to a new file of mode 0600, the keychain, or stdout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mcp_notarium.cli import command_context
from mcp_notarium.cli.terminal import talk
from mcp_notarium.config import Config
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import create_private
from mcp_notarium.keys import keychain

_IF_LOST = "Without it nobody can open the database: notes at a note store can be loaded again, others are lost."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the key goes."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--file",
        type=Path,
        metavar="PATH",
        help="write it to a new file that only you can read, for DB_ENCRYPTION_KEY_FILE",
    )
    place.add_argument(
        "--keychain",
        action="store_true",
        help="keep it in the system's keychain for the configured account",
    )
    parser.epilog = "Without an option the key is printed on stdout, for a password manager."


def run(args: argparse.Namespace) -> int:
    """Write one key to a new file, store it in an empty keychain entry, or print it."""
    if args.keychain:
        return _store_in_keychain(command_context.prepare(args))
    if args.file is not None:
        return _write_file(args.file.expanduser().absolute())
    sys.stdout.write(user_key.generate().reveal_text() + "\n")
    sys.stdout.flush()
    talk(f"Set this as DB_ENCRYPTION_KEY and keep a copy in a safe place. {_IF_LOST}")
    return 0


def _write_file(path: Path) -> int:
    """Write the key to a new file. An existing file may hold the only key of a database."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_private(path, user_key.generate().reveal() + b"\n")
    except FileExistsError:
        raise InvalidRequest(
            f"{display_path(path)} exists already; nothing was changed",
            resolution_hint="Use the key in it, or name another file.",
        ) from None
    except OSError as error:
        raise InvalidRequest(
            f"{display_path(path)} cannot be written: {os_errors.describe(error)}",
            resolution_hint="Name a file in a folder of yours.",
        ) from None
    talk(
        f"The key is in {display_path(path)}; only you can read it. Set DB_ENCRYPTION_KEY_FILE={path} and "
        f"keep a copy in a safe place. {_IF_LOST}"
    )
    return 0


def _store_in_keychain(config: Config) -> int:
    """Store the key in the keychain. An existing key may be the only one of a database."""
    system = keychain.system_keychain()
    if system.get(keychain.KEY, config.owner_hash) is not None:
        raise InvalidRequest(
            "the keychain already has a key for this account; nothing was changed",
            resolution_hint="To replace it, run `mcp-notarium rotate-key --keychain`.",
        )
    system.set(keychain.KEY, config.owner_hash, user_key.generate())
    talk(
        "The key is in the system's keychain; leave DB_ENCRYPTION_KEY unset. The keychain may "
        f"be lost. {_IF_LOST}"
    )
    return 0


COMMANDS = {"generate-key": (add_arguments, run)}
