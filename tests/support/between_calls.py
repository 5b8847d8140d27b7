"""Run another program's act right before the n-th system call of a block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

CALLS = (
    "open", "stat", "fstat", "read", "dup", "lseek", "listdir", "scandir", "write", "fsync", "unlink", "rename",
    "link", "mkdir", "fchmod", "close",
)  # fmt: skip


@dataclass
class Counted:
    """How many calls the block has made, and whether the act has run."""

    calls: int = 0
    acted: bool = False


@contextmanager
def acting_before(number: int, act: Callable[[], object]) -> Iterator[Counted]:
    """Patch ``os``; ``act`` itself sees the real functions."""
    counted = Counted()
    real = {name: getattr(os, name) for name in CALLS}

    def watched(name: str) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if counted.calls == number and not counted.acted:
                counted.acted = True
                with pytest.MonkeyPatch.context() as away:
                    for one, function in real.items():
                        away.setattr(os, one, function)
                    act()
            counted.calls += 1
            return real[name](*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, watched(name))
        yield counted
