"""Let a vault lie on a simulated Windows or macOS, and let another program write the same files by that system's rules."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault import folder as folder_module
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.system import SYSTEM, windows
from mcp_notarium.system.linux import Linux
from mcp_notarium.system.windows_kernel import ACCESS_DENIED, Kernel, windows_error
from support import between_calls
from support.between_calls import Counted
from support.simulated_macos import MacOSModel, simulate_macos
from support.simulated_windows import Simulated
from support.windows_files import JUNCTION, SHARE_READ, SHARE_WRITE
from support.windows_names import LONGEST_PATH, PATH_NOT_FOUND, Refused

OLD = 1_600_000_000
"""A date that shows that nobody is writing a file."""


_READ_ATTRIBUTES = 0x80
_WSAEWOULDBLOCK = 10035  # Python takes numbers of sockets' errors from Winsock
_BY_PATH = ("stat", "lstat", "scandir", "listdir", "mkdir", "rmdir", "unlink", "rename", "utime")
_WHO = ("mcp_notarium.", "support.", "simulated.")
_NEVER_FAIL = ("CloseHandle", "LocalFree", "dup")
_FILE_APPEND_DATA, _GENERIC_WRITE, _CREATE_ALWAYS, _OPEN_ALWAYS = 0x4, 0x40000000, 2, 4


class Killed(BaseException):
    """The process ends here."""


class Other(Protocol):
    """Another program. A method raises ``OSError`` where its system refuses, with nothing done."""

    def append(self, path: Path, text: str) -> None: ...

    def save(self, path: Path, text: str) -> None:
        """Write a new file and put it in the place of the old one, as many editors do."""

    def rename(self, old: Path, new: Path) -> None: ...

    def replace(self, old: Path, new: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def link(self, path: Path, target: Path) -> None:
        """Make a link to a file or a folder; in the place of an empty folder, too."""


class System(Protocol):
    """A simulated system. ``fired``: the rules by which it has acted."""

    fired: set[str]
    other: Other

    def acting_before(
        self, number: int, act: Callable[[], object]
    ) -> AbstractContextManager[Counted]:
        """Run an act before the n-th call of a block."""

    def end_process(self, vault: Path) -> None:
        """Close what the process has open of a vault; what it has not written yet is lost."""

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

    def replace(self, old: Path, new: Path) -> None:
        old.replace(new)

    def remove(self, path: Path) -> None:
        path.unlink()

    def link(self, path: Path, target: Path) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            path.rmdir()
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

    def end_process(self, vault: Path) -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in [*Path("/proc/self/fd").iterdir()]:
            with suppress(OSError):
                if str(number.readlink()).startswith(str(vault)):
                    os.dup2(nowhere, int(number.name))
        os.close(nowhere)

    def settle(self) -> None:
        """Do nothing: what is open hinders nobody."""


class OnWindows:
    """Another program on Windows. Its files share all but deletion, as those of the C library do."""

    def __init__(self, model: Simulated) -> None:
        self._model = model

    def append(self, path: Path, text: str) -> None:
        self._write(path, text, _FILE_APPEND_DATA, _OPEN_ALWAYS)

    def save(self, path: Path, text: str) -> None:
        temporary = path.with_name("editor.tmp")
        self._write(temporary, text, _GENERIC_WRITE, _CREATE_ALWAYS)
        try:
            self._do(lambda: self._model.move(str(temporary), str(path), replace=True))
        except OSError:
            self.remove(temporary)
            raise

    def _write(self, path: Path, text: str, access: int, how: int) -> None:
        share = SHARE_READ | SHARE_WRITE
        open_ = partial(self._model.open, str(path), access, share, how, by="other")
        handle = self._do(open_)
        os.write(self._model.descriptor(handle, 0), text.encode())
        self._do(lambda: self._model.close_handle(handle))

    def rename(self, old: Path, new: Path) -> None:
        self._do(lambda: self._model.move(str(old), str(new), replace=False))

    def replace(self, old: Path, new: Path) -> None:
        self._do(lambda: self._model.move(str(old), str(new), replace=True))

    def remove(self, path: Path) -> None:
        self._do(lambda: self._model.delete(str(path)))

    def link(self, path: Path, target: Path) -> None:
        """Make a symbolic link to a file, or a junction, which every user may make."""
        if os.path.lexists(path) and not (target.is_dir() and path.is_dir()):
            raise FileExistsError
        if target.is_dir():
            if path.is_dir():
                self._model.rule("an empty folder becomes a link")
            path.mkdir(exist_ok=True)
            if [*path.iterdir()]:
                raise OSError(errno.ENOTEMPTY, "it is not empty")
            self._model.links[str(path)] = (str(target), JUNCTION)
        else:
            path.symlink_to(target)

    def _do(self, act: Callable[[], int]) -> int:
        try:
            return act()
        except Refused as refused:
            raise windows_error(refused.code) from None


class Windows:
    """A disk of Windows."""

    def __init__(self, model: Simulated) -> None:
        self.model = model
        self.fired = model.fired
        self.other: Other = OnWindows(model)
        self._before: Callable[[str], object] = lambda _call: None
        self.pause: Callable[[float], object] = lambda _seconds: None

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Make the page of Windows over the model; time goes by in ``pause`` alone."""
        system = windows.Windows(Kernel(self.model), pause=lambda seconds: self.pause(seconds))  # type: ignore[arg-type]  # noqa: PLW0108 - it changes
        # Events of Windows come some time after a change (tests/unit/system/test_folder_events.py); here they come at once.
        patch.setattr(system, "folder_events", Linux().folder_events)
        self.system = system
        patch.setattr(errno, "EWOULDBLOCK", _WSAEWOULDBLOCK)
        patch.setattr(os, "dup", self._called("dup", self.model.dup))
        patch.setattr(os, "fsync", self._called("fsync", self.model.flush))
        for name in ("read", "write"):
            patch.setattr(os, name, self._called(name, getattr(os, name)))
        for name in _BY_PATH:
            patch.setattr(os, name, self._short(getattr(os, name)))
        self.model.before = self.model.between = lambda call: self._before(call)  # noqa: PLW0108 - it changes

    def _called(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            self._before(name)
            return real(*arguments)

        return call

    def _short(self, real: Callable[..., object]) -> Callable[..., object]:
        """Refuse the program a path that Windows gives Python no file for, unless a setting of the system permits it."""

        def call(path: object, *rest: object, **options: object) -> object:
            if isinstance(path, str | os.PathLike) and len(os.fspath(path)) >= LONGEST_PATH:
                asks = sys._getframe(1)
                while not (name := asks.f_globals["__name__"]).startswith(_WHO) and asks.f_back:
                    asks = asks.f_back
                if name.startswith("mcp_notarium."):
                    self.model.rule("longest path")
                    raise windows_error(PATH_NOT_FOUND, path)
            return real(path, *rest, **options)

        return call

    @contextmanager
    def acting_before(self, number: int, act: Callable[[], object]) -> Iterator[Counted]:
        counted = Counted()

        def before(_call: str) -> None:
            if counted.ended is not None:
                raise counted.ended
            if counted.calls == number:
                counted.acted, self._before = True, lambda _call: None
                try:
                    act()
                except BaseException as error:
                    counted.ended = error
                    raise
                finally:
                    self._before = before
            counted.calls += 1

        self._before = before
        try:
            yield counted
        finally:
            self._before = lambda _call: None

    @contextmanager
    def failing_at(self, number: int, code: int, *, lasting: bool) -> Iterator[Counted]:
        """Let the n-th call fail, or all from it on.

        Closing never fails. Whoever may list a folder may read the attributes of what is in it ([MS-FSA] 2.1.5.1.2.1): that is
        denied only while a file is being deleted.
        """
        counted = Counted()

        def before(call: str) -> None:
            fails = counted.calls == number or (lasting and counted.calls > number)
            counted.calls += 1
            looks = call == "CreateFileW" and self.model.calls[-1][1][1] == _READ_ATTRIBUTES
            if fails and call not in _NEVER_FAIL and not (looks and code == ACCESS_DENIED):
                counted.acted = True
                if call[0].islower():  # of the C library
                    raise windows_error(code)
                raise Refused(code)

        self._before = before
        try:
            yield counted
        finally:
            self._before = lambda _call: None

    def end_process(self, vault: Path) -> None:
        del vault
        self.model.end_process()

    def settle(self) -> None:
        self.model.settle()


@contextmanager
def on_windows(
    *, package: str = "mcp_notarium.stores.vault", **switches: object
) -> Iterator[Windows]:
    """Simulate Windows for a package of the program. ``switches``: fields of the model."""
    model = Simulated()
    for name, value in switches.items():
        assert hasattr(model, name)
        setattr(model, name, value)
    with pytest.MonkeyPatch.context() as patch:
        system = Windows(model)
        system.install(patch)
        _exchange(SYSTEM, system.system, package)
        try:
            yield system
        finally:  # of modules, too, that were imported meanwhile
            _exchange(system.system, SYSTEM, package)


def _exchange(before: object, now: object, package: str) -> None:
    """Let the modules of a package, and those that will be imported, use another page of the port."""
    for name, module in [*sys.modules.items()]:
        if not f"{name}.".startswith(f"{package}."):
            continue
        for field, value in [*vars(module).items()]:
            if value is before:
                setattr(module, field, now)
            elif getattr(value, "__self__", None) is before:
                setattr(module, field, getattr(now, value.__name__))


@contextmanager
def macos(*, swaps: bool = True, renames_case: bool = False) -> Iterator[MacOS]:
    """Simulate macOS."""
    with pytest.MonkeyPatch.context() as patch:
        yield MacOS(simulate_macos(patch, swaps=swaps, renames_case=renames_case))


SYSTEMS: dict[str, Callable[[], AbstractContextManager[System]]] = {
    "macos": macos,
    "windows": on_windows,
    "windows-scanned": partial(on_windows, scanner=2, pending_code=303),
    "windows-posix-deletes": partial(on_windows, posix_deletes=True),
}
"""Name -> a simulated system."""
WINDOWS = [name for name in SYSTEMS if name.startswith("windows")]


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
