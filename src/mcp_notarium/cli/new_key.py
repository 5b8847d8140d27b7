"""Read a new key on the command line: from a prompt, a file, standard input, or generated.

Never from an argument: everybody on the machine can read those. A generated key is printed when
everything is ready and proven, just before it takes effect: not for a refused change, and never too late.
"""

from __future__ import annotations

import argparse
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcp_notarium.account.key_rotation import demand_strong
from mcp_notarium.cli.terminal import ask_secret, talk
from mcp_notarium.crypto import user_key
from mcp_notarium.crypto.slot_changes import Step
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.secret import Secret

_MOST = 64 * 1024
_OTHERS_READ = 0o044


@dataclass
class NewKey:
    """Hold a new key. ``made``: it was generated, and nobody has seen it yet."""

    secret: Secret
    made: bool = False
    _done: set[str] = field(default_factory=set)

    def at(self, step: str) -> None:
        """Handle a step of the change: print a generated key in time. Raises ``ConfigError`` before it takes effect."""
        if self.made and step == Step.VERIFY:
            self._show()
        self._done.add(step)

    @contextmanager
    def in_change(
        self, done: str = "the key is changed, and the new one is in force"
    ) -> Iterator[None]:
        """Run the change inside; if it fails, say whether it took effect anyway, by ``done``."""
        try:
            yield
        except BaseException:
            if Step.SWITCH in self._done:
                talk(f"note: {done} anyway.")
            elif self.made and Step.VERIFY in self._done:
                talk("note: the printed key is not valid; nothing was changed.")
            raise

    def _show(self) -> None:
        try:
            # Not through Python's buffer, which keeps bytes after a failure and writes them at the end.
            left = (self.secret.reveal_text() + "\n").encode()
            while left:
                left = left[os.write(sys.stdout.fileno(), left) :]
        except OSError as error:
            raise _unprintable(error.strerror) from None
        # In a file it must survive a power cut as the change itself does.
        with suppress(OSError, ValueError):
            os.fsync(sys.stdout.fileno())


def _unprintable(reason: str | None) -> ConfigError:
    return ConfigError(
        f"the new key cannot be printed ({reason}); nothing is changed",
        resolution_hint="Check where standard output goes, then run the command again.",
    )


def add_arguments(parser: argparse.ArgumentParser, *, rotating: bool = False) -> None:
    """Add the sources of a new key; ``rotating`` adds those that only a key change has."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--new-key-file", type=Path, metavar="PATH", help="read the new key from a file"
    )
    source.add_argument(
        "--new-key-stdin", action="store_true", help="read the new key from standard input"
    )
    source.add_argument(
        "--generate",
        action="store_true",
        help="generate a random key and print it on stdout; it is valid if the command succeeds",
    )
    if rotating:
        source.add_argument(
            "--ask-new",
            action="store_true",
            help="ask for the new key (the default, except with --reencrypt)",
        )
        source.add_argument(
            "--keep-key",
            action="store_true",
            help="keep the passphrase and change only its key derivation (with --kdf)",
        )
        source.add_argument(
            "--keychain",
            action="store_true",
            help="generate a random key that only the system's keychain holds",
        )
    add_allow_weak(parser)


def add_allow_weak(parser: argparse.ArgumentParser) -> None:
    """Add the option of every command that makes or sets a key."""
    parser.add_argument(
        "--allow-weak", action="store_true", help="accept a passphrase that can be guessed"
    )


def is_given(args: argparse.Namespace) -> bool:
    """Return whether an option asks for a new key; else ``--reencrypt`` keeps the old one."""
    return bool(
        args.generate or args.new_key_file is not None or args.new_key_stdin or args.ask_new
    )


def read(args: argparse.Namespace) -> NewKey:
    """Return the new key. Call it last: a person may have to type it twice."""
    if args.generate:
        if sys.stdout.closed:
            raise _unprintable("standard output is closed")
        return NewKey(user_key.generate(), made=True)
    if args.new_key_file is not None:
        return NewKey(_from_file(args.new_key_file))
    if args.new_key_stdin:
        return NewKey(_without_line_end(sys.stdin.buffer.read(_MOST)))
    new = ask_secret("New key: ")
    demand_strong(new, allow_weak=args.allow_weak)  # before it is typed a second time
    if ask_secret("New key, once more: ") != new:
        raise InvalidRequest(
            "the two entries differ; nothing is changed", resolution_hint="Start again."
        )
    return NewKey(new)


def _from_file(path: Path) -> Secret:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            found = _without_line_end(file.read(_MOST))
    except OSError as error:
        raise ConfigError(
            f"the new key's file cannot be read: {error.strerror}",
            resolution_hint="Check the path given to --new-key-file and its permissions.",
        ) from error
    if os.name == "posix" and stat.S_ISREG(mode) and mode & _OTHERS_READ:
        talk(
            f"note: others on this machine can read {path} (mode {stat.S_IMODE(mode):04o}); "
            f"`chmod 600 {shlex.quote(str(path))}` keeps them out."
        )
    return found


def _without_line_end(read: bytes) -> Secret:
    return Secret(read.removesuffix(b"\n").removesuffix(b"\r"))
