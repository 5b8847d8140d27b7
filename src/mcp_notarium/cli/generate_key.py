"""Run ``mcp-notarium generate-key``: write a random key to a file of mode 0600, the keychain, or stdout."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mcp_notarium.cli import command_setup
from mcp_notarium.cli.terminal import talk
from mcp_notarium.config import Config
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import sync_folder
from mcp_notarium.keys import keychain
from mcp_notarium.sandbox import confinement

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)


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
        help="keep it in the system's keychain for SIMPLENOTE_USERNAME",
    )
    parser.epilog = "Without an option the key is printed on stdout, for a password manager."


def run(args: argparse.Namespace) -> int:
    """Write one key to a new file, store it in an empty keychain entry, or print it."""
    if args.keychain:
        return _keep(command_setup.prepare(args))
    confinement.harden_process()
    if args.file is not None:
        return _write(args.file.expanduser().absolute())
    sys.stdout.write(user_key.generate().reveal_text() + "\n")
    sys.stdout.flush()
    talk(
        "Set this as DB_ENCRYPTION_KEY and keep a copy in a safe place: "
        "without it the cache cannot be opened (your notes stay at the note store)."
    )
    return 0


def _write(path: Path) -> int:
    """Write the key to a new file. An existing file may hold the only key of a database."""
    content = user_key.generate().reveal_text().encode() + b"\n"
    made = False
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
            made = True
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(path.parent)
    except FileExistsError:
        raise InvalidRequest(
            f"{display_path(path)} exists already; nothing was changed",
            resolution_hint="Use the key in it, or name another file.",
        ) from None
    except OSError as error:
        if made:
            path.unlink(missing_ok=True)  # half a key opens nothing
        raise InvalidRequest(
            f"{display_path(path)} cannot be written: {error.strerror or type(error).__name__}",
            resolution_hint="Name a file in a folder of yours.",
        ) from None
    talk(
        f"The key is in {display_path(path)}; only you can read it. Set DB_ENCRYPTION_KEY_FILE={path} and "
        "keep a copy in a safe place: without it the cache cannot be opened (your notes stay at the "
        "note store)."
    )
    return 0


def _keep(config: Config) -> int:
    """Store the key in the keychain. An existing key may be the only one of a database."""
    system = keychain.system_keychain()
    if system.get(keychain.KEY, config.owner_hash) is not None:
        raise InvalidRequest(
            "the keychain already has a key for this account; nothing was changed",
            resolution_hint="To replace it, run `mcp-notarium rotate-key --keychain`.",
        )
    system.set(keychain.KEY, config.owner_hash, user_key.generate())
    talk(
        "The key is in the system's keychain; leave DB_ENCRYPTION_KEY unset. If the keychain is "
        "lost, so is the cache (your notes stay at the note store)."
    )
    return 0
