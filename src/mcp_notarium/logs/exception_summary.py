"""Describe an exception as plain values: its type, where it was raised, what caused it.

Reads neither local variables nor source lines. A message is kept only if its words are the
program's or the system's own. Any other message may quote what it was raised about (a note, a tag, a
password) and is replaced by its length.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from mcp_notarium.errors import NotariumError

MAXIMUM_FRAMES = 30
MAXIMUM_CHAIN = 6
MAXIMUM_MEMBERS = 5


def describe(error: BaseException, *, depth: int = 0) -> dict[str, Any]:
    """Return ``{"type", "message", "frames", ...}`` of plain strings; never raises on a hostile error."""
    described: dict[str, Any] = {"type": type(error).__qualname__, "message": message_of(error)}
    if frames := _frames(error.__traceback__):
        described["frames"] = frames
    if depth < MAXIMUM_CHAIN:
        described |= _related(error, depth=depth + 1)
    return described


def message_of(error: BaseException) -> str:
    """Return the message if it is ours or the operating system's, else its length."""
    if isinstance(error, NotariumError):
        return error.message
    if isinstance(error, OSError) and isinstance(error.strerror, str):
        return f"[errno {error.errno}] {error.strerror}"
    return f"[withheld: {_length(error)} characters]"


def _length(error: BaseException) -> int:
    try:
        return len(str(error))
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything at all
        return 0


def _related(error: BaseException, *, depth: int) -> dict[str, Any]:
    related: dict[str, Any] = {}
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        related["cause"] = describe(cause, depth=depth)
    if isinstance(error, BaseExceptionGroup):
        members = error.exceptions[:MAXIMUM_MEMBERS]
        related["members"] = [describe(member, depth=depth) for member in members]
    return related


def _frames(trace: TracebackType | None) -> list[str]:
    frames: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{_place(code.co_filename)}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    return frames[-MAXIMUM_FRAMES:]


def _place(filename: str) -> str:
    """Return the last two parts of a path: enough to find the module, without a home folder."""
    return "/".join(filename.replace("\\", "/").rsplit("/", 2)[-2:])
