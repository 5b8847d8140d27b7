"""Stand for the libraries of Windows: play the functions that the port calls, by their pages on Microsoft Learn.

Each is a C function made by ctypes from the types that ``windows_kernel`` declares: a wrong number or kind of arguments
fails as it would there. ``windows_files`` and ``windows_security`` play those for files and access lists.
"""
# ruff: noqa: N802 - names and arguments are those of Windows

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

from mcp_notarium.system.windows_kernel import FUNCTIONS, MemoryCounters
from support.windows_files import UNKNOWN, USER, Files
from support.windows_names import Refused
from support.windows_security import ADMINS, EVERYBODY, Security

__all__ = ["ADMINS", "EVERYBODY", "USER", "Simulated"]


_TELL_CODES = {"GetSecurityInfo", "SetSecurityInfo"}
"""Functions that return the code of their error."""


class _Function:
    """A function of a library: what the model raises reaches whoever calls it, which ctypes would not let through."""

    def __init__(self, made: Any, raised: list[BaseException]) -> None:
        self.__dict__.update(made=made, raised=raised)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.made, name, value)

    def __call__(self, *arguments: object) -> object:
        result = self.made(*arguments)
        if self.raised:
            raise self.raised.pop()
        return result


class Simulated(Files, Security):
    """Stand for them. ``before`` is called before each function, and may act as another program, or raise: ``Refused`` fails it."""

    def __init__(self) -> None:
        Files.__init__(self)
        Security.__init__(self)
        self.calls: list[tuple[str, tuple[object, ...]]] = []
        self.before: Callable[[str], object] = lambda _name: None
        self.ended: set[int] = set()
        self.running: set[int] = {4711}
        self.console = 0x1F7
        self.typed = b"typed ahead"

    def load(self, library: str) -> Simulated:
        self._library = library
        return self

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name not in FUNCTIONS:
            raise AttributeError(name)
        library, result, types = FUNCTIONS[name]
        assert library == self._library
        play = getattr(self, f"_{name}", None)
        raised: list[BaseException] = []

        def called(*arguments: object) -> object:
            if name == "RtlGetLastNtStatus":
                return self.status
            self.calls.append((name, arguments))
            try:
                self.before(name)
                return play(*arguments)
            except Refused as refused:
                self._fail(refused.code, refused.status)
                return refused.code if name in _TELL_CODES else -1 if name == "CreateFileW" else 0
            except BaseException as fault:  # noqa: BLE001 - raised again behind ctypes
                raised.append(fault)
                return 0

        made = ctypes.CFUNCTYPE(result, *types)(called)
        self._kept.append(made)
        return _Function(made, raised)

    def last_error(self) -> int:
        return self._error

    def handle(self, descriptor: int) -> int:
        self.settle()
        known = (h for h, one in self._open.items() if one.number == descriptor)
        return next(known, descriptor + UNKNOWN)

    def descriptor(self, handle: int, _flags: int) -> int:
        return self._open[handle].number

    def set_binary(self, descriptor: int) -> None:
        self.calls.append(("setmode", (descriptor,)))

    def close(self, descriptor: int) -> None:
        """Close a descriptor, and with it the handle and its locks."""
        os.close(descriptor)
        self.settle()

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _OpenProcess(self, access, _inherit, pid):
        assert access == 0x101000
        if pid in self.running | self.ended:
            return pid
        return self._fail(5 if pid == 4 else 87)

    def _WaitForSingleObject(self, handle, milliseconds):
        assert milliseconds == 0
        return 0 if handle in self.ended else 0x102

    def _GetCurrentProcess(self):
        return -1

    def _K32GetProcessMemoryInfo(self, _process, found, size):
        counters = MemoryCounters.from_address(found)
        assert counters.cb == size
        counters.WorkingSetSize = 50 << 20
        return 1

    def _SetErrorMode(self, _mode):
        return 0

    def _WerSetFlags(self, _flags):
        return 0

    def _GetConsoleMode(self, _handle, mode):
        ctypes.c_uint32.from_address(mode).value = self.console
        return 1

    def _SetConsoleMode(self, _handle, mode):
        self.console = mode
        return 1

    def _FlushConsoleInputBuffer(self, _handle):
        self.typed = b""
        return 1
