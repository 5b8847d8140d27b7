"""Let a person edit a draft in their own editor, and keep its text until the store has it.

A draft is two private files in the account's folder: the text, and what it was made from. Nothing but :meth:`Draft.clear`
and :meth:`Draft.drop` remove them, so a refused save, Ctrl+C and a kill lose nothing. The editor holds the lock of the draft, too: it is in use
for as long as this program or the editor runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mcp_notarium.cli.terminal import can_ask, talk
from mcp_notarium.errors import ConfigError, InvalidRequest, NotariumError
from mcp_notarium.files import os_errors
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.files.private_files import disk_errors, read_private, replace_private
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.system import SYSTEM

_SUFFIX = ".md"
_MOST_BYTES = 64 * 1024 * 1024
_NAME_LENGTH = 40
_OTHER_SIGNS = re.compile(r"[^a-z0-9]+")


_HOW = "Set EDITOR to the command of your editor, such as `nano`, `notepad` or `code --wait`."
_AT_ONCE = 1.0
"""Seconds in which nobody has edited anything: the editor is a window of a program that goes on."""


class DraftInUse(InvalidRequest):
    """Report that the note is being edited in another window."""

    resolution_hint = "Save and leave the editor there; then run the command again."


class Draft:
    """Hold one draft, locked: see :func:`open_draft`.

    ``made_from`` is what :meth:`begin` was told; None: there is no text yet.
    """

    def __init__(self, folder: Path, name: str, descriptor: int) -> None:
        self._folder = folder
        self._name = name
        self._record = folder / f"{name}.json"
        self.descriptor = descriptor
        """The lock, for the editor to inherit."""
        self._is_dropped = False
        self.made_from = self._read_record()

    @property
    def path(self) -> Path:
        """Return where the text is."""
        return self._folder / str((self.made_from or {}).get("file", ""))

    @property
    def shown(self) -> str:
        """Return the path for a message."""
        return display_path(self.path)

    def begin(self, text: str, made_from: Mapping[str, Any], *, title: str) -> None:
        """Write the text for the editor. Raises ``CacheFull`` or ``LockedError`` if the disk does not take it."""
        ascii_title = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
        words = _OTHER_SIGNS.sub("-", ascii_title.lower())[:_NAME_LENGTH].strip("-")
        file = f"{self._name}.{words or 'note'}{_SUFFIX}"
        with disk_errors("the text for the editor cannot be written"):
            replace_private(self._folder / file, text.encode())
            # In place: another name for the file would be another lock.
            content = json.dumps({**made_from, "file": file}).encode()
            os.lseek(self.descriptor, 0, os.SEEK_SET)
            os.ftruncate(self.descriptor, 0)
            os.write(self.descriptor, content)
            SYSTEM.flush(self.descriptor)
        self.made_from = self._read_record()

    def read(self) -> str:
        """Return the text as it is now. Raises ``NotariumError`` if it is none."""
        try:
            content = read_private(self.path, most=_MOST_BYTES)
            if content is None:
                raise NotariumError(
                    "the editor has removed the text; nothing was changed",
                    resolution_hint="Run the command again.",
                )
            return content.decode()
        except OSError as error:
            raise NotariumError(
                f"the text cannot be read: {os_errors.describe(error)}; nothing was changed",
                resolution_hint=f"It is in {self.shown}.",
            ) from None
        except UnicodeDecodeError:
            raise NotariumError(
                "the editor has not written UTF-8; nothing was changed",
                resolution_hint=f"Save {self.shown} as UTF-8, and run the command again.",
            ) from None

    def clear(self) -> None:
        """Remove the text, with what the editor has left next to it; the draft can be begun again."""
        with suppress(OSError):
            for path in self._folder.iterdir():
                if f"{self._name}." in path.name and path != self._record:
                    SYSTEM.remove(path)
            os.ftruncate(self.descriptor, 0)
        self.made_from = None

    def drop(self) -> None:
        """Remove the draft for good. Its name may be another command's from then on."""
        if self._is_dropped:
            return
        self.clear()
        with suppress(OSError):
            SYSTEM.remove(self._record)
            self._folder.rmdir()  # if there is no other draft
        self._is_dropped = True

    def _read_record(self) -> dict[str, Any] | None:
        """Return what the draft was made from; None if there is none, or its text has gone."""
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self.descriptor), "rb") as file:
            content = file.read(2 * _MOST_BYTES)
        try:
            found: dict[str, Any] = json.loads(content)
            kept = (self._folder / found["file"]).exists()
        except (ValueError, KeyError, TypeError):
            return None  # it was cut off before the editor began
        return found if kept else None


@contextmanager
def open_draft(account_dir: Path, name: str) -> Iterator[Draft]:
    """Lock the draft of this name, see :func:`name_for`. Raises ``DraftInUse``.

    It stays, unless it is dropped, or has no text.
    """
    folder = AccountFolder(account_dir).drafts
    with disk_errors("the text for the editor cannot be written"):
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = _lock(folder / f"{name}.json")
    try:
        draft = Draft(folder, name, descriptor)
        try:
            yield draft
        finally:
            if draft.made_from is None:
                draft.drop()
    finally:
        os.close(descriptor)


def describe_kept(account_dir: Path) -> list[str]:
    """Return a sentence for each text that is not saved yet. Locks and changes nothing."""
    said = []
    for record in sorted(AccountFolder(account_dir).drafts.glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(record.read_bytes())
            text = (record.parent / found["file"]).read_bytes()
            if text != found["base"].encode():
                note = f"edit {SYSTEM.quote(found['id'])}" if "id" in found else "new"
                said.append(
                    f"A text that you have typed is not saved yet: `mcp-notarium {note}` goes on with it."
                )
    return said


def _lock(path: Path) -> int:
    while True:
        descriptor = SYSTEM.open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            SYSTEM.lock(descriptor, exclusive=True)
            with suppress(FileNotFoundError):
                ours, there = SYSTEM.look_at_open(descriptor), SYSTEM.look_at(path)
                if (ours.st_dev, ours.st_ino) == (there.st_dev, there.st_ino):
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise DraftInUse("this note is being edited in another window") from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner has just removed it


def name_for(note_id: str) -> str:
    """Return the name of the draft of a note: an id may be a path."""
    return hashlib.sha256(note_id.encode()).hexdigest()[:16]


def edit(draft: Draft) -> int:
    """Run the editor on the draft and return its exit code; below 0 for a signal. Raises ``ConfigError``."""
    command = editor_command()
    options: dict[str, Any] = {}
    if SYSTEM.can_pass_descriptors:
        options["pass_fds"] = (draft.descriptor,)
    if not sys.stdout.isatty() and sys.stderr.isatty():
        options["stdout"] = sys.stderr.fileno()  # `id=$(mcp-notarium new)`
    before, began = draft.path.read_bytes(), time.monotonic()
    with _ctrl_c_for_the_editor(), _terminal_as_it_was():
        try:
            # Nothing ends the editor if this command is ended: it still has a text of the user.
            process = subprocess.Popen(SYSTEM.command_line([*command, str(draft.path)]), **options)  # noqa: S603 - the user's own
            code = process.wait()
        except ValueError as error:
            raise ConfigError(
                f"the editor `{one_line(command[0])}` cannot be given {draft.shown}: {error}",
                resolution_hint="Set EDITOR to the program itself, which ends in .exe.",
            ) from None
        except OSError as error:
            raise ConfigError(
                f"the editor `{one_line(command[0])}` cannot be started: {error.strerror}",
                resolution_hint=_HOW,
            ) from None
    quick = time.monotonic() - began < _AT_ONCE
    if not code and quick and can_ask() and _content(draft) == before:
        talk("The editor has ended at once. If its window is still open: save the text there.")
        _wait_for_enter()
    return code


def editor_command() -> list[str]:
    """Return the command of the person's editor. Raises ``ConfigError`` if there is none."""
    for name in ("VISUAL", "EDITOR"):
        if words := os.environ.get(name, "").strip():
            return _split(name, words)
    for name in SYSTEM.editors:
        if found := SYSTEM.find_program(name):
            return [found]
    raise ConfigError("no editor is set, and none was found", resolution_hint=_HOW)


def _split(name: str, words: str) -> list[str]:
    """Return the parts of a command. Raises ``ConfigError`` if it is none, or not here."""
    try:
        command = SYSTEM.split_command(words)
    except ValueError as error:
        raise ConfigError(f"{name} is no command: {error}", resolution_hint=_HOW) from None
    found = SYSTEM.find_program(os.path.expanduser(command[0])) if command else None  # noqa: PTH111 - '~' alone is a name
    if found is None:
        raise ConfigError(
            f"there is no editor `{one_line(words)}`, which {name} names", resolution_hint=_HOW
        )
    return [found, *command[1:]]  # its whole name: Windows starts no `code.cmd` by `code`


def _content(draft: Draft) -> bytes:
    with suppress(OSError):
        return draft.path.read_bytes()
    return b""


def _wait_for_enter() -> None:
    from mcp_notarium.cli.terminal import ask_line  # noqa: PLC0415 - seldom needed

    with suppress(InvalidRequest):
        ask_line("Press Enter when that is done: ")


@contextmanager
def _ctrl_c_for_the_editor() -> Iterator[None]:
    """Leave Ctrl+C to the editor: it goes to every program at the terminal."""
    before = signal.getsignal(signal.SIGINT)
    if callable(before):  # a program that is started does not inherit a handler
        signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        if callable(before):
            signal.signal(signal.SIGINT, before)


@contextmanager
def _terminal_as_it_was() -> Iterator[None]:
    """Give the terminal its settings back: an editor that was killed cannot."""
    if not sys.stdin.isatty():
        yield
        return
    with SYSTEM.kept_terminal(sys.stdin.fileno()):
        yield
