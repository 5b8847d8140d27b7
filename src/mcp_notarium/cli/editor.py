"""Let a person edit a draft in the editor of their choice, and wait until it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mcp_notarium.cli.draft_files import Draft
from mcp_notarium.cli.terminal import can_ask, talk
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.system import SYSTEM

_HOW = "Set EDITOR to the command of your editor, such as `EDITOR=nano`, or `EDITOR='code --wait'`."
_AT_ONCE = 1.0
"""Seconds in which nobody has edited anything: the editor is a window of a program that goes on."""


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
            process = subprocess.Popen([*command, str(draft.path)], **options)  # noqa: S603 - the user's own
            code = process.wait()
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
        if shutil.which(name):
            return [name]
    raise ConfigError("no editor is set, and none was found", resolution_hint=_HOW)


def _split(name: str, words: str) -> list[str]:
    """Return the parts of a command. Raises ``ConfigError`` if it is none, or not here."""
    try:
        command = SYSTEM.split_command(words)
    except ValueError as error:
        raise ConfigError(f"{name} is no command: {error}", resolution_hint=_HOW) from None
    if not command or shutil.which(os.path.expanduser(command[0])) is None:  # noqa: PTH111 - '~' alone is a name
        raise ConfigError(
            f"there is no editor `{one_line(words)}`, which {name} names", resolution_hint=_HOW
        )
    return [os.path.expanduser(command[0]), *command[1:]]  # noqa: PTH111 - as above


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
