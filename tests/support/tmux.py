"""Run a command of the program in tmux, type at it, and read the screen that a person would see."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from types import TracebackType
from typing import Self

from support.talker import SERVE
from support.whole import DEADLINE


class Tmux:
    """One window of so many columns, with a server of its own. The variables in ``env`` are all that the command gets.

    Below what the command leaves on the screen stands its exit code.
    """

    def __init__(
        self,
        env: dict[str, str],
        *arguments: str,
        width: int,
        height: int = 24,
        program: list[str] | None = None,
    ) -> None:
        self._socket = f"notarium-{os.getpid()}-{time.monotonic_ns()}"
        tmux = shutil.which("tmux")
        assert tmux is not None, "tmux is not installed (scripts/_packages)"
        self._tmux = tmux
        program = SERVE if program is None else program
        command = ["sh", "-c", '"$@"; echo "exit code $?"; read _', "sh", *program, *arguments]
        self._run(
            *("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height)),
            *("env", "-i", *(f"{name}={text}" for name, text in env.items())),
            *("TERM=tmux-256color", *command),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        subprocess.run(
            [self._tmux, "-L", self._socket, "kill-server"], check=False, capture_output=True
        )

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            [self._tmux, "-L", self._socket, *command],
            check=True,
            capture_output=True,
            text=True,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"},
        )
        return done.stdout

    @property
    def screen(self) -> str:
        """What is shown now."""
        return self._run("capture-pane", "-p")

    @property
    def coloured(self) -> str:
        """What is shown now, with the escape sequences of its colours."""
        return self._run("capture-pane", "-p", "-e")

    def type(self, *keys: str) -> None:
        """Type keys, by tmux's names of them."""
        self._run("send-keys", *keys)

    def shows(self, *texts: str) -> str:
        """Wait until all of these are on the screen; return it."""
        deadline = time.monotonic() + DEADLINE
        while not all(text in (screen := self.screen) for text in texts):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)
        return screen
