"""Standard streams that do not work: closed by whoever called us, or going to a disk that is full.

Where one is closed Python has none, and the next file that is opened takes its number. A command that prints
nothing works all the same; one that has something to print says that it cannot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from mcp_notarium.errors import NotariumError
from mcp_notarium.protocol import stdio


class Unprinted(NotariumError):
    """What a command had to print could not be printed."""


class Output:
    """Standard output whose failures say what they are; None: it is closed.

    A reader that has gone (``BrokenPipeError``) is nobody's failure.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def closed(self) -> bool:
        """Whether nothing can be printed."""
        return self._stream is None or self._stream.closed

    def write(self, text: str) -> int:
        """Raises ``Unprinted``."""
        if self._stream is None:
            raise Unprinted("standard output is closed, so nothing can be printed")
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritten(error) from None

    def flush(self) -> None:
        """Raises ``Unprinted``."""
        if self._stream is None:
            return
        try:
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritten(error) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def working() -> Iterator[None]:
    """Inside there are all three, whatever is closed. Enter it before anything is opened."""
    stdio.fill()
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


def _unwritten(error: OSError) -> Unprinted:
    why = (error.strerror or type(error).__name__).lower()
    return Unprinted(f"what there was to print could not be written: {why}")
