"""Standard input and output, taken for the protocol alone before anything else can use them.

After :func:`claim` a stray ``print``, a library's warning or a child process writes to stderr, and
whoever reads standard input finds it empty. Imports nothing but the standard library's smallest
modules: it runs before everything else.
"""

from __future__ import annotations

import os
import sys

_STDIN, _STDOUT, _STDERR = 0, 1, 2


def fill() -> None:
    """Let there be a standard error, and no file of ours under the number of a standard stream.

    Python has no ``sys.stderr`` where the parent left it closed, and the next file that is opened would
    be what a library writes its complaints to.
    """
    for fd in (_STDIN, _STDOUT, _STDERR):
        try:
            os.fstat(fd)
        except OSError:
            _divert(fd, None)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")  # noqa: PTH123, SIM115 - for the whole process, without pathlib


def claim() -> tuple[int, int]:
    """Private descriptors for reading and writing the protocol; 0 and 1 are diverted.

    A descriptor that the parent left closed is replaced by the null device, so that the process
    sees the end of input, and never a file of its own as standard output.
    """
    fill()
    incoming = _duplicate(_STDIN, os.O_RDONLY)
    outgoing = _duplicate(_STDOUT, os.O_WRONLY)
    _divert(_STDIN, None)
    _divert(_STDOUT, _STDERR)
    return incoming, outgoing


def _duplicate(fd: int, mode: int) -> int:
    """A copy above 2 that children do not inherit."""
    try:
        copy = os.dup(fd)
    except OSError:
        copy = os.open(os.devnull, mode)
    low = []
    while copy <= _STDERR:  # a closed stdin or stdout would otherwise be taken by the copy itself
        low.append(copy)
        copy = os.dup(copy)
    for spare in low:
        os.close(spare)
    if sys.platform != "win32":
        os.set_blocking(copy, True)  # or "nothing yet" would look like the end
    _binary(copy)
    return copy


def _divert(fd: int, target: int | None) -> None:
    """Let ``fd`` point to ``target``, or to the null device."""
    try:
        if target is not None:
            os.dup2(target, fd)
            return
    except OSError:  # stderr itself is closed
        pass
    null = os.open(os.devnull, os.O_RDWR)
    if null == fd:
        os.set_inheritable(fd, True)  # noqa: FBT003 - the system call takes it by position
        return
    os.dup2(null, fd)
    os.close(null)


def _binary(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - exists on Windows only

        msvcrt.setmode(fd, os.O_BINARY)


def write_all(fd: int, content: bytes) -> None:
    """Write everything, waiting as long as the reader takes. Raises ``OSError`` when it is gone."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]
