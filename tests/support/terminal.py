"""Run a command of the program at a pseudo-terminal and type at it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from support.preloaded import Preloaded, arguments_of, possible
from support.whole import DEADLINE, SERVE

# The new session's first terminal becomes the one that Ctrl+C is typed at. A job in the background
# ignores what a terminal sends; what is started at a terminal does not, whoever runs the tests.
_TAKE_TERMINAL = (
    "import fcntl, os, signal, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):\n"
    "    signal.signal(number, signal.SIG_DFL)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)
CTRL_C = "\x03"
CTRL_D = "\x04"


class Terminal:
    """``screen`` is everything shown so far; ``program`` is run at it, ours unless told.

    It is wide, so that lines are found whole. ``kind`` is what ``TERM`` says of it; '' sets none.
    """

    def __init__(
        self,
        env: dict[str, str],
        *arguments: str,
        program: Sequence[str] = SERVE,
        width: int = 400,
        kind: str = "dumb",
    ) -> None:
        self.screen = ""
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (50, width))
        env = env | ({"TERM": kind} if kind else {})
        words = arguments if program is SERVE else arguments_of([*program, *arguments])
        if words is not None and possible(env):
            self.process: Any = Preloaded(words, env=env, terminal=theirs)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _TAKE_TERMINAL, *program, *arguments],
                env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        if self._ours >= 0:
            os.close(self._ours)

    def shows(self, text: str) -> None:
        """Wait until the text is on the screen."""
        self.finds(re.escape(text))

    def finds(self, pattern: str) -> re.Match[str]:
        """Wait until something on the screen matches."""
        deadline = time.monotonic() + DEADLINE
        while (found := re.search(pattern, self.screen)) is None:
            assert time.monotonic() < deadline, self.screen
            assert self._read(), self.screen
        return found

    def type(self, text: str) -> None:
        """Type it; a line ends with a newline."""
        self.type_bytes(text.encode())

    def type_bytes(self, typed: bytes) -> None:
        """Type what need not be text."""
        with suppress(OSError):  # the command has ended
            os.write(self._ours, typed)

    def echoes(self) -> bool:
        """Whether what is typed is shown."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ECHO)

    def hang_up(self) -> None:
        """Close the terminal, as closing its window does."""
        os.close(self._ours)
        self._ours = -1

    def ends(self, *, within: float = DEADLINE) -> int:
        """The exit code of a command that ends by itself."""
        deadline = time.monotonic() + within
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.screen
            self._read() if self._ours >= 0 else time.sleep(0.02)
        while self._ours >= 0 and self._read(wait=0):
            pass
        return self.process.returncode

    def _read(self, *, wait: float = 0.2) -> bool:
        """Take what is shown; False once nobody is there to show anything."""
        if not select.select([self._ours], [], [], wait)[0]:
            return wait > 0
        try:
            found = os.read(self._ours, 4096)
        except OSError:  # the other side is closed
            return False
        self.screen += found.decode(errors="replace")
        return bool(found)
