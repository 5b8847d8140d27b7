"""Print data on stdout, and messages, progress and questions on stderr; standard streams may be closed.

Python has no stream object for a closed one, and the next opened file takes its number. Commands work
anyway, unless they have something to print: then they report that they cannot.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from mcp_notarium.cli.signals import wait_for_input
from mcp_notarium.errors import ConfigError, InvalidRequest, NotariumError
from mcp_notarium.files import os_errors
from mcp_notarium.keys.key_file_store import NOT_COPIED
from mcp_notarium.protocol import stdio
from mcp_notarium.secret import Secret
from mcp_notarium.system import SYSTEM

_NARROWEST = 20
_USUAL_WIDTH = 80
_OF_AN_ACCOUNT = re.compile(r"\bmcp-notarium (?!setup|accounts|completion|generate-key)(?=[a-z])")
account = ""
"""The account that commands of messages must name, if there are several."""


def typed_path(text: str) -> Path:
    """Return a path that was typed: not every shell of Windows puts the home folder in the place of `~`."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - there may be no home


def talk(text: str) -> None:
    """Tell the user something on stderr, wrapped at a terminal; a failure to print is ignored."""
    with suppress(OSError):
        print(fit(name_account(text), sys.stderr), file=sys.stderr, flush=True)


def name_account(text: str, name: str = "") -> str:
    """Add ``--account`` with this name to the commands of a message; '': that of ``account``, if there are several."""
    name = name or account
    named = f"mcp-notarium --account {SYSTEM.quote(name)} "
    return _OF_AN_ACCOUNT.sub(lambda _: named, text) if name else text


def print_data(facts: Any, text: str | list[Any], *, as_json: bool) -> None:
    """Print the result of a command on stdout: as JSON, as text, or as what rich renders."""
    if as_json:
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    elif isinstance(text, str):
        sys.stdout.write(fit(text, sys.stdout) + "\n")
    else:
        from mcp_notarium.cli import console  # noqa: PLC0415 - slow, and not every command renders

        console.show(text)


def fit(text: str, stream: TextIO) -> str:
    """Return the text with its lines wrapped at words to the width of a terminal; else as it is."""
    if not stream.isatty():
        return text
    width = columns(stream)
    return "\n".join(line for one in text.split("\n") for line in wrap(one, width))


def columns(stream: TextIO) -> int:
    """Return the width of a terminal, and the usual one if nobody knows."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def wrap(text: str, width: int) -> list[str]:
    """Break a text between words only, behind its indentation or arrow: no path or command is cut."""
    indent = " " * min(len(text) - len(text.lstrip(" →")), _NARROWEST)
    return textwrap.wrap(
        text,
        max(width, _NARROWEST),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def say_unless_copied(copied: bool) -> None:  # noqa: FBT001 - the one fact it is about
    """Tell that the copy of the key file is still to be written, if so."""
    if not copied:
        talk(f"note: {NOT_COPIED}")


def ask_secret(prompt: str) -> Secret:
    """Ask for a secret on the terminal, without echo.

    Raises ``ConfigError`` without a terminal, and ``InvalidRequest`` if nothing is typed (Ctrl+D, or
    the terminal is gone) or the input is not UTF-8 text.
    """
    return Secret(_ask(prompt, _read_hidden))


def ask_line(prompt: str) -> str:
    """Ask for one line on the terminal, stripped. Raises like :func:`ask_secret`."""
    return _ask(prompt, _read_shown).strip()


def input_is_ready() -> bool:
    """Tell without waiting whether there is input to read, or its end; False where that cannot be seen."""
    with suppress(OSError, ValueError):
        return bool(select.select([sys.stdin], [], [], 0)[0])
    return False


def read_line() -> str:
    """Read one line of standard input, wherever that comes from; empty at its end."""
    with _interruptible():
        return _next_line()


def show_once(words: str, secret: Secret) -> None:
    """Show a secret on the terminal and nowhere else. Raises like :func:`ask_secret`."""
    if not can_show():
        raise ConfigError(
            "there is no terminal to show it on", resolution_hint="Run the command in a terminal."
        )
    talk(f"{words}\n\n    {secret.reveal_text()}\n")


def forget_typed() -> None:
    """Drop what was typed before a question was shown: it was no answer to it."""
    with suppress(OSError, ValueError):
        if sys.stdin.isatty():
            SYSTEM.drop_typed(sys.stdin.fileno())


def ask_yes(question: str) -> bool:
    """Ask on the terminal; anything but yes is no, a terminal that is gone too. What was typed before does not count."""
    with _interruptible():
        forget_typed()
        talk(f"{question} [y/N] ")
        with suppress(OSError, ValueError):
            return sys.stdin.isatty() and _next_line().strip().lower() in {"y", "yes"}
        return False


def can_ask() -> bool:
    """Return whether somebody sits at a terminal who can be asked."""
    return sys.stdin.isatty()


def can_show() -> bool:
    """Return whether somebody sits at a terminal who can be shown a secret."""
    return can_ask() and sys.stderr.isatty()


def require_terminal(
    way: str = "Run the command in a terminal, or use the options that read a file.",
) -> None:
    """Raise ``ConfigError`` if nobody can be asked; ``way`` is what helps."""
    if not can_ask():
        raise ConfigError("there is no terminal to ask on", resolution_hint=way)


def _ask(prompt: str, read: Callable[[str], str]) -> str:
    require_terminal()
    with _interruptible(), _input_errors():
        line = read(prompt)
        line.encode()  # invalid bytes arrive as surrogates, depending on the locale
        if not line:
            raise EOFError
        return line.removesuffix("\n")


def _read_shown(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return _next_line()


def _next_line() -> str:
    wait_for_input(sys.stdin)
    return sys.stdin.readline()


def _read_hidden(prompt: str) -> str:
    with SYSTEM.hidden_input(sys.stdin.fileno()):
        line = _read_shown(prompt)
    talk("")
    return line


@contextmanager
def _input_errors() -> Iterator[None]:
    """Convert the other results of a read from the terminal to ``InvalidRequest``."""
    try:
        yield
    except UnicodeError:
        raise InvalidRequest(
            "the input is not UTF-8 text; nothing was changed",
            resolution_hint="Set the terminal to UTF-8, or use the options that read a file.",
        ) from None
    except (EOFError, OSError, ValueError):
        raise InvalidRequest(
            "no answer was given; nothing was changed",
            resolution_hint="Run the command again and answer its questions, or use the options that "
            "read a file.",
        ) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl+C end a question with ``KeyboardInterrupt``, also under ``asyncio.run``.

    There the event loop would only cancel its task, and the loop itself waits for the answer.
    Signals that are ignored stay ignored.
    """
    before = signal.getsignal(signal.SIGINT)
    ours = callable(before) and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


class OutputError(NotariumError):
    """Report that a command's output could not be printed."""

    resolution_hint = "Run the command again, with its output in a terminal or a file."


class Output:
    """Write to standard output, with errors that say what failed; stream None: it is closed.

    A reader that has gone (``BrokenPipeError``) is not an error.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def closed(self) -> bool:
        """Return whether nothing can be printed."""
        return self._stream is None or self._stream.closed

    def isatty(self) -> bool:
        """Return whether somebody reads it at a terminal."""
        return self._stream is not None and self._stream.isatty()

    def write(self, text: str) -> int:
        """Write the text. Raises ``OutputError``."""
        if self._stream is None:
            raise OutputError("standard output is closed, so nothing can be printed")
        with _output_errors():
            return self._stream.write(text)

    def flush(self) -> None:
        """Flush the stream. Raises ``OutputError``."""
        if self._stream is not None:
            with _output_errors():
                self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def usable_streams() -> Iterator[None]:
    """Provide all three streams, whatever is closed. Enter it before anything is opened."""
    stdio.open_missing_streams()
    stdin: TextIO | None = sys.stdin
    stdout: TextIO | None = sys.stdout
    with open(os.devnull, encoding="utf-8") as nothing:  # noqa: PTH123 - its name is no path
        sys.stdin, sys.stdout = stdin or nothing, cast("TextIO", Output(stdout))
        try:
            yield
            sys.stdout.flush()
        except SystemExit:  # of --help and --version
            sys.stdout.flush()
            raise
        finally:
            sys.stdin, sys.stdout = cast("TextIO", stdin), cast("TextIO", stdout)


@contextmanager
def _output_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the output could not be written: {os_errors.describe(error)}") from None
