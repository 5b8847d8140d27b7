"""Run another program's act right before the n-th system call of a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from mcp_notarium.stores.vault import file_writer

CALLS = (
    "open", "stat", "fstat", "read", "dup", "lseek", "listdir", "scandir", "write", "fsync", "unlink", "rename",
    "link", "mkdir", "fchmod", "fchown", "listxattr", "close",
)  # fmt: skip
PLACES = (*((os, name) for name in CALLS if hasattr(os, name)), (file_writer, "rename"))
"""The last one exchanges files, or renames them without overwriting any: Python has no call for it."""


@dataclass
class Counted:
    """How many calls the block has made, and whether the act has run. ``ended``: what ended the process in it."""

    calls: int = 0
    acted: bool = False
    ended: BaseException | None = None


@contextmanager
def acting_before(number: int, act: Callable[[], object]) -> Iterator[Counted]:
    """Patch ``os``; ``act`` itself sees the real functions.

    If it raises, the process has ended: all later calls of the block raise the same, except to close a file.
    """
    counted = Counted()
    real = {place: getattr(*place) for place in PLACES}

    def watched(place: tuple[object, str]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if counted.ended is not None and place != (os, "close"):
                raise counted.ended
            if counted.calls == number and not counted.acted:
                counted.acted = True
                with pytest.MonkeyPatch.context() as away:
                    for one, function in real.items():
                        away.setattr(*one, function)
                    try:
                        act()
                    except BaseException as error:
                        counted.ended = error
                        raise
            counted.calls += 1
            return real[place](*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for place in PLACES:
            patch.setattr(*place, watched(place))
        yield counted
