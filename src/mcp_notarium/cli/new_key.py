"""Where a new key comes from on the command line: a prompt, a file, standard input, or made up.

Never an argument: everybody on the machine can read those. A key that is made up is printed when
everything is ready and proven, just before it counts: not for a change that is refused, and never
too late.
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
from mcp_notarium.crypto.rotation_steps import Step
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.secret import Secret

_MOST = 64 * 1024
_OTHERS_READ = 0o044


@dataclass
class NewKey:
    """A new key. ``made``: nobody has seen it yet."""

    secret: Secret
    made: bool = False
    _done: set[str] = field(default_factory=set)

    def at(self, step: str) -> None:
        """What the change is to call at its steps. Raises ``ConfigError`` before it counts."""
        if self.made and step == Step.VERIFY:
            self._show()
        self._done.add(step)

    @contextmanager
    def in_change(
        self, done: str = "the key is changed, and the new one is in force"
    ) -> Iterator[None]:
        """Around the change: if it fails, say whether it counts all the same, by ``done``."""
        try:
            yield
        except BaseException:
            if Step.SWITCH in self._done:
                talk(f"note: {done} all the same.")
            elif self.made and Step.VERIFY in self._done:
                talk("note: the key that was printed does not count; nothing is changed.")
            raise

    def _show(self) -> None:
        try:
            # Past the buffer of Python: what that keeps after a failure is written at the end.
            left = (self.secret.reveal_text() + "\n").encode()
            while left:
                left = left[os.write(sys.stdout.fileno(), left) :]
        except OSError as error:
            raise _unprintable(error.strerror) from None
        # On a disk it must not be lost by a power cut that the change itself survives.
        with suppress(OSError, ValueError):
            os.fsync(sys.stdout.fileno())


def _unprintable(reason: str | None) -> ConfigError:
    return ConfigError(
        f"the new key cannot be printed ({reason}); nothing is changed",
        resolution_hint="Nobody would have it. Look where standard output goes.",
    )


def add_arguments(parser: argparse.ArgumentParser, *, rotating: bool = False) -> None:
    """Where the new key comes from; ``rotating`` offers what only a change of key can do."""
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
        help="make a random key and print it on stdout; it counts if the command ends well",
    )
    if rotating:
        source.add_argument(
            "--ask-new",
            action="store_true",
            help="ask for the new key (what is done anyway, except with --reencrypt)",
        )
        source.add_argument(
            "--keep-key",
            action="store_true",
            help="keep the passphrase and change only how it is stretched (with --kdf)",
        )
        source.add_argument(
            "--keychain",
            action="store_true",
            help="make a random key that only the system's keychain holds",
        )
    add_allow_weak(parser)


def add_allow_weak(parser: argparse.ArgumentParser) -> None:
    """The option of every command that makes or sets a key."""
    parser.add_argument(
        "--allow-weak", action="store_true", help="accept a passphrase that can be guessed"
    )


def is_given(args: argparse.Namespace) -> bool:
    """Whether an option of ``rotating`` asks for a new key; else ``--reencrypt`` keeps the old one."""
    return bool(
        args.generate or args.new_key_file is not None or args.new_key_stdin or args.ask_new
    )


def read(args: argparse.Namespace) -> NewKey:
    """The new key. Call it when nothing else can be wrong: a person may be asked to type it twice."""
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
