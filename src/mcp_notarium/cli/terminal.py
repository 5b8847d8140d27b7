"""Talk on the terminal: progress, questions and verdicts. Data goes to stdout by other ways."""

from __future__ import annotations

import getpass
import io
import select
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from mcp_notarium.cli.prompt_signals import hearing
from mcp_notarium.errors import ConfigError, InvalidRequest
from mcp_notarium.keys.key_file import NOT_COPIED
from mcp_notarium.secret import Secret

_WIDTH = 96


class Screen:
    """What the demo prints, and whether everything it claimed was true."""

    def __init__(self) -> None:
        self._steps = 0
        self._failed = 0
        self._checks = 0
        self._started = time.perf_counter()

    def title(self, text: str) -> None:
        """The first line."""
        self._line(f"\n{text}\n{'=' * len(text)}")

    def step(self, text: str) -> None:
        """The heading of an act."""
        self._steps += 1
        self._line(f"\n{self._steps}. {text}")

    def say(self, text: str) -> None:
        """One remark."""
        self._line(textwrap.fill(text, _WIDTH, initial_indent="   ", subsequent_indent="   "))

    def quote(self, text: str) -> None:
        """Some lines of a note, as they are."""
        for line in text.splitlines():
            self._line(f"   │ {line[: _WIDTH - 5]}")

    def check(self, true: bool, claim: str) -> None:  # noqa: FBT001 - reads as a sentence
        """A claim, marked as kept or broken."""
        self._checks += 1
        self._failed += not true
        self._line(f"   {'✓' if true else '✗ NOT TRUE:'} {claim}")

    def close(self) -> int:
        """The last line; the exit code."""
        took = time.perf_counter() - self._started
        kept = self._checks - self._failed
        self._line(f"\n{kept} of {self._checks} claims kept, in {took:.0f} s.\n")
        return 1 if self._failed else 0

    def _line(self, text: str) -> None:
        print(text, flush=True)


class Progress:
    """How far something long is: a line on stderr at most once a second, with rate and time left."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._began = self._told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """So many of so many are done."""
        now = time.monotonic()
        if now - self._told < 1 or not done:
            return
        self._told = now
        rate = done / (now - self._began)
        left = (total - done) / rate
        talk(f"{done:,} of {total:,} {self._what} ({rate:,.0f} a second, {left:.0f} s left)")


def talk(text: str) -> None:
    """One line to the person, on stderr. Whether anybody reads it is nothing to stop for."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def say_unless_copied(copied: bool) -> None:  # noqa: FBT001 - the one fact it is about
    """Tell that the copy of the key file is still to be written, if so."""
    if not copied:
        talk(f"note: {NOT_COPIED}")


def ask_secret(prompt: str) -> Secret:
    """A secret typed on the terminal, unseen.

    Raises ``ConfigError`` where there is none, and ``InvalidRequest`` if nothing is typed (Ctrl+D, or
    the terminal is gone) or what is typed is no UTF-8 text.
    """
    demand_terminal()
    with _interruptible(), _typed():
        typed = getpass.getpass(prompt, stream=sys.stderr)
        typed.encode()  # bytes that are no text come as surrogates, depending on the locale
        return Secret(typed)


def ask_line(prompt: str) -> str:
    """One line typed on the terminal, without what surrounds it. Raises like :func:`ask_secret`."""
    demand_terminal()
    with _interruptible(), _typed():
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()


def read_line() -> str:
    """One line of standard input, wherever that comes from; empty at its end."""
    with _interruptible():
        return sys.stdin.readline()


def input_ended() -> bool:
    """Whether standard input is known to have nothing to give, without waiting for it."""
    if sys.stdin.closed:
        return True
    there = sys.stdin.buffer
    try:
        ready = bool(select.select([there], [], [], 0)[0])
    except (OSError, ValueError):  # of a kind that cannot be looked at so
        return False
    return ready and isinstance(there, io.BufferedReader) and not there.peek(1)


def show_once(words: str, secret: Secret) -> None:
    """Show a secret on the terminal and nowhere else. Raises like :func:`ask_secret`."""
    demand_terminal()
    if not sys.stderr.isatty():
        raise _no_terminal()
    talk(f"{textwrap.fill(words, _WIDTH)}\n\n    {secret.reveal_text()}\n")


def ask_yes(question: str) -> bool:
    """A yes-or-no question on the terminal; anything but yes is no, a terminal that is gone too."""
    with _interruptible():
        talk(f"{question} [y/N] ")
        with suppress(OSError, ValueError):
            return sys.stdin.isatty() and sys.stdin.readline().strip().lower() in {"y", "yes"}
        return False


def can_ask() -> bool:
    """Whether somebody sits at a terminal who can be asked."""
    return sys.stdin.isatty()


def demand_terminal() -> None:
    """Raises ``ConfigError`` where nobody can be asked."""
    if not can_ask():
        raise _no_terminal()


@contextmanager
def _typed() -> Iterator[None]:
    """Turn what a terminal can answer beside a line of text into ``InvalidRequest``."""
    try:
        yield
    except UnicodeError:
        raise InvalidRequest(
            "what was typed is no text in UTF-8; nothing was changed",
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
    """Ctrl+C ends what is asked inside with ``KeyboardInterrupt``, also under ``asyncio.run``.

    That would only have the event loop cancel its task, and the loop waits for the answer itself.
    Signals that are ignored stay ignored.
    """
    before = signal.getsignal(signal.SIGINT)
    ours = callable(before) and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with hearing():
            yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _no_terminal() -> ConfigError:
    return ConfigError(
        "there is no terminal to ask on",
        resolution_hint="Run the command in a terminal, or use the options that read a file.",
    )
