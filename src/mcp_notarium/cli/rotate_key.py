"""``mcp-notarium rotate-key``: a new passphrase (or KDF, or cost) for the cache.

Rewrites the key file only: running servers go on. The old key comes from where it lives now; the
new one from a prompt, a file or standard input, or is made up. Never from the command line.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mcp_notarium.cli import settings
from mcp_notarium.cli.terminal import ask_secret, talk
from mcp_notarium.config import Config
from mcp_notarium.crypto import userkey
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.keys import keychain, rotate
from mcp_notarium.keys.changing import Given
from mcp_notarium.secret import Secret

_MOST = 64 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the new key comes from."""
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
    parser.add_argument(
        "--ask-old", action="store_true", help="ask for the old key instead of the configured one"
    )
    parser.add_argument(
        "--allow-weak", action="store_true", help="accept a passphrase that can be guessed"
    )


def run(args: argparse.Namespace) -> int:
    """Rotate; exit code 0 when the new key is in place and the old one opens nothing here."""
    config = settings.prepare(args)
    old = ask_secret("Old key: ") if args.ask_old else None
    new = _new_key(args)
    if args.generate:
        # Shown before the switch: a key that only the key file knew would be a lost cache.
        sys.stdout.write(new.reveal_text() + "\n")
        sys.stdout.flush()
    done = rotate.rotate_passphrase(
        config, new=new, allow_weak=args.allow_weak, given=Given(old=old)
    )
    if _from_keychain(config, args):
        keychain.system_keychain().set(keychain.KEY, config.owner_hash, new)
        talk("The new key is in the system's keychain, in the place of the old one.")
    talk(f"The key of this cache is changed (key file number {done.sequence}).")
    if not done.proven:
        talk("note: another process is busy with the database; it was not opened as a proof.")
    for notice in done.notices:
        talk(f"note: {notice}")
    return 0


def _from_keychain(config: Config, args: argparse.Namespace) -> bool:
    """Whether the keychain gave the old key, and so would give it to the next start."""
    if args.ask_old or config.db_key is not None or not config.keychain:
        return False
    return keychain.system_keychain().get(keychain.KEY, config.owner_hash) is not None


def _new_key(args: argparse.Namespace) -> Secret:
    if args.generate:
        return userkey.generate()
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
