"""Read a new key from a prompt, a file or standard input, or generate one (``generate-key``).

A key is never an argument: everybody on the machine can read those. A changed key that was generated here
is printed just before it takes effect, so a refused change prints none.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcp_notarium.account.key_changes import require_strong
from mcp_notarium.cli import command_context
from mcp_notarium.cli.terminal import ask_secret, talk, typed_path
from mcp_notarium.config import Config
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.files import os_errors
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import create_private
from mcp_notarium.keys import keychain
from mcp_notarium.secret import Secret
from mcp_notarium.system import SYSTEM

_MOST = 64 * 1024
_LAST, _COMMITS = "verify", "switch"
"""Steps of ``private_files.replace_private``: the last one before the change counts, and the one that makes it count."""


@dataclass
class NewKey:
    """Hold a new key."""

    secret: Secret
    generated: bool = False
    """This command has made it; nobody has seen it yet."""
    _done: set[str] = field(default_factory=set)

    def at(self, step: str) -> None:
        """Print a generated key at the last step before the change takes effect. Raises ``ConfigError``."""
        if self.generated and step == _LAST:
            self._show()
        self._done.add(step)

    @contextmanager
    def in_change(
        self, done: str = "the key is changed, and the new one is active"
    ) -> Iterator[None]:
        """Run the change inside; if it fails, say whether it took effect anyway, by ``done``."""
        try:
            yield
        except BaseException:
            if _COMMITS in self._done:
                talk(f"note: {done} anyway.")
            elif self.generated and _LAST in self._done:
                talk("note: the printed key is not valid; nothing was changed.")
            raise

    def _show(self) -> None:
        try:
            # Not through Python's buffer, which keeps bytes after a failure and writes them at the end.
            left = (self.secret.reveal_text() + "\n").encode()
            while left:
                left = left[os.write(sys.stdout.fileno(), left) :]
        except OSError as error:
            raise _print_error(os_errors.describe(error)) from None
        # In a file it must survive a power cut as the change itself does.
        with suppress(OSError, ValueError):
            os.fsync(sys.stdout.fileno())


def _print_error(reason: str) -> ConfigError:
    return ConfigError(
        f"the new key cannot be printed ({reason}); nothing was changed",
        resolution_hint="Check where standard output goes, then run the command again.",
    )


def add_arguments(parser: argparse.ArgumentParser, *, rotating: bool = False) -> None:
    """Add the sources of a new key; ``rotating`` adds those that only a key change has."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--new-key-file", type=typed_path, metavar="PATH", help="read the new key from a file"
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
    command_context.options("--allow-weak")(parser)


def is_given(args: argparse.Namespace) -> bool:
    """Return whether an option asks for a new key; else ``--reencrypt`` keeps the old one."""
    return bool(
        args.generate or args.new_key_file is not None or args.new_key_stdin or args.ask_new
    )


def read(args: argparse.Namespace, *, account: str) -> NewKey:
    """Return the new key of ``account``. Call it last: a person may have to type it twice."""
    if args.generate:
        if sys.stdout.closed:
            raise _print_error("standard output is closed")
        return NewKey(user_key.generate(), generated=True)
    if args.new_key_file is not None:
        return NewKey(_read_file(args.new_key_file, "--new-key-file"))
    if args.new_key_stdin:
        return NewKey(_read_stdin())
    new = ask_new("New key: ", account=account, allow_weak=args.allow_weak)
    if new is None:
        raise InvalidRequest(
            "the two entries differ; nothing was changed", resolution_hint="Start again."
        )
    return NewKey(new)


def ask_new(prompt: str, *, account: str, allow_weak: bool) -> Secret | None:
    """Ask for a new key twice; return None if the entries differ. Raises as ``ask_secret`` and ``require_strong``."""
    new = ask_secret(prompt)
    # Before it is typed a second time.
    require_strong(new, account=account, allow_weak=allow_weak)
    return new if ask_secret("The same once more: ") == new else None


def read_secret(path: str, option: str) -> Secret:
    """Return the secret in a file, or with ``-`` on standard input. Raises ``ConfigError``."""
    found = _read_stdin() if path == "-" else _read_file(typed_path(path), option)
    try:
        empty = not found.reveal_text().strip()
    except UnicodeDecodeError:
        empty = True
    if empty:
        raise ConfigError(
            f"what `{option}` names holds no secret",
            resolution_hint="Put it there as one line of text, and nothing else.",
        )
    return found


def _read_stdin() -> Secret:
    return _without_line_end(sys.stdin.buffer.read(_MOST))


def _read_file(path: Path, option: str) -> Secret:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            access = SYSTEM.access(file.fileno(), status)
            found = _without_line_end(file.read(_MOST))
    except OSError as error:
        raise ConfigError(
            f"the file of `{option}` cannot be read: {os_errors.describe(error)}",
            resolution_hint="Check its path and its permissions.",
        ) from error
    if stat.S_ISREG(status.st_mode) and access.others_read:
        quoted = SYSTEM.quote(str(path))
        command = SYSTEM.explain_privacy(path, quoted, folder=False, reading=True)
        talk(f"note: others on this machine can read {path}; `{command}` keeps them out.")
    return found


def _without_line_end(read: bytes) -> Secret:
    return Secret(read.removesuffix(b"\n").removesuffix(b"\r"))


_IF_LOST = "Without it nobody can open the database: notes at a note store can be loaded again, others are lost."


def _add_generate_arguments(parser: argparse.ArgumentParser) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--file",
        type=typed_path,
        metavar="PATH",
        help="write it to a new file that only you can read, for DB_ENCRYPTION_KEY_FILE",
    )
    place.add_argument(
        "--keychain",
        action="store_true",
        help="keep it in the system's keychain for the configured account",
    )
    parser.epilog = "Without an option the key is printed on stdout, for a password manager."


def generate(args: argparse.Namespace) -> int:
    """Write one key to a new file, store it in an empty keychain entry, or print it."""
    if args.keychain:
        return _store_in_keychain(command_context.prepare(args))
    if args.file is not None:
        return _write_file(args.file.absolute())
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


COMMANDS = {"generate-key": (_add_generate_arguments, generate)}
