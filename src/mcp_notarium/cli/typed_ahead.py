"""Drop what was typed before a question stood on the screen: it was meant for something else.

A person may have pressed Enter once too often, and a program may have filled the terminal's queue in advance. Neither has
seen the question.
"""

from __future__ import annotations

import sys
from contextlib import suppress


def drop_typed_ahead() -> None:
    """Empty the queue of the terminal that standard input is, right before a question. A file or pipe stays as it is."""
    with suppress(OSError, ValueError):  # closed, or the terminal is gone
        if not sys.stdin.isatty():
            return
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - Windows only

            while msvcrt.kbhit():
                msvcrt.getwch()
        else:
            import termios  # noqa: PLC0415 - POSIX only

            with suppress(termios.error):
                # defence: typed-ahead-dropped
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
