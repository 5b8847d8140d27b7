"""Let a vault lie on a simulated Windows or macOS, and let another program write the same files by that system's rules."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault import folder as folder_module
from mcp_notarium.stores.vault.store import VaultStore
from support import between_calls
from support.between_calls import Counted
from support.simulated_macos import MacOSModel, simulate_macos

OLD = 1_600_000_000
"""A date that shows that nobody is writing a file."""


class Killed(BaseException):
    """The process ends here."""


class Other(Protocol):
    """Another program. A method raises ``OSError`` where its system refuses, with nothing done."""

    def append(self, path: Path, text: str) -> None: ...

    def save(self, path: Path, text: str) -> None:
        """Write a new file and put it in the place of the old one, as many editors do."""

    def rename(self, old: Path, new: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def link(self, path: Path, target: Path) -> None:
        """Make a link to a file or a folder."""


class System(Protocol):
    """A simulated system. ``fired``: the rules by which it has acted."""

    fired: set[str]
    other: Other

    def acting_before(
        self, number: int, act: Callable[[], object]
    ) -> AbstractContextManager[Counted]:
        """Run an act before the n-th call of a block."""

    def end_process(self) -> None:
        """Close what the process has open."""

    def settle(self) -> None:
        """Let come what comes when nothing is open any more."""


class Posix:
    """Another program where a file that is open hinders nobody."""

    def append(self, path: Path, text: str) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)

    def save(self, path: Path, text: str) -> None:
        temporary = path.with_name("editor.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(path)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def link(self, path: Path, target: Path) -> None:
        path.symlink_to(target)


class MacOS:
    """A disk of macOS."""

    def __init__(self, model: MacOSModel) -> None:
        self.model = model
        self.fired = model.fired
        self.other: Other = Posix()

    def acting_before(
        self, number: int, act: Callable[[], object]
    ) -> AbstractContextManager[Counted]:
        return between_calls.acting_before(number, act)

    def end_process(self) -> None:
        """Do nothing: what is open hinders nobody."""

    def settle(self) -> None:
        """Do nothing, as above."""


@contextmanager
def macos(*, swaps: bool = True, renames_case: bool = False) -> Iterator[MacOS]:
    """Simulate macOS."""
    with pytest.MonkeyPatch.context() as patch:
        yield MacOS(simulate_macos(patch, swaps=swaps, renames_case=renames_case))


SYSTEMS: dict[str, Callable[[], AbstractContextManager[System]]] = {"macos": macos}
"""Name -> a simulated system."""


def put(path: Path, text: str) -> None:
    """Write a file that was left alone for long, as it is before a test begins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (OLD, OLD))


def texts(place: Path) -> dict[str, str]:
    """Return the text of each file below a folder."""
    return {
        path.relative_to(place).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@contextmanager
def opened(place: Path) -> Iterator[VaultStore]:
    """Open a vault, and close it."""
    store = VaultStore(place)
    try:
        yield store
    finally:
        asyncio.run(store.close())


def hasten(patch: pytest.MonkeyPatch) -> None:
    """Let nothing wait, and let what is left behind be found at once."""
    patch.setattr(folder_module, "SETTLED", 0.0)
    patch.setattr(file_writer, "LEFT_BEHIND", -1.0)
