"""Replace standard streams that are closed, and report output that fails.

Python has no stream object for a closed one, and the next opened file takes its number. A command that
prints nothing works anyway; one that has something to print reports that it cannot.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from mcp_notarium.errors import NotariumError
from mcp_notarium.files import os_errors
from mcp_notarium.protocol import stdio


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
