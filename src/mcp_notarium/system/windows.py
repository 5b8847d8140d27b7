"""Implement what Windows does in its own way.

Sources (Microsoft Learn): "OpenProcess function", "WaitForSingleObject function", "GetProcessMemoryInfo function", "SetErrorMode
function", "WerSetFlags function", "SetConsoleMode function", "FlushConsoleInputBuffer function", "Maximum Path Length
Limitation", "KNOWNFOLDERID", "cmd". What is not offered: locks on /proc, Landlock, seccomp; a process of the same user may read this one's memory.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import wintypes as w
from pathlib import Path
from typing import Literal

from mcp_notarium.system.common import quote_windows
from mcp_notarium.system.port import FolderEvents
from mcp_notarium.system.windows_kernel import INVALID_PARAMETER, MemoryCounters
from mcp_notarium.system.windows_private_files import WindowsPrivateFiles
from mcp_notarium.system.windows_shared_files import WindowsSharedFiles

_SYNCHRONIZE, _QUERY_LIMITED = 0x100000, 0x1000
_SIGNALLED = 0
_NO_FAULT_BOX = 0x1 | 0x2  # SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX
_NO_HEAP = 0x1
_ECHO = 0x4
_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
_SCRIPTS = {".bat", ".cmd"}
_PROGRAMS = (".com", ".exe", *sorted(_SCRIPTS))


class Windows(WindowsSharedFiles, WindowsPrivateFiles):
    """Implement the port by the Windows API."""

    has_modes = False
    has_drives = True
    program_suffix = ".exe"
    move_program = "move"
    editors = ("notepad",)
    can_pass_descriptors = False
    can_select_streams = False
    longest_path = 259

    def machine(self) -> str:
        """Return what the variable says."""
        return os.environ.get("PROCESSOR_ARCHITECTURE", "")

    def forbid_dumps(self) -> None:
        """Let Windows Error Reporting neither ask nor take the heap along."""
        with suppress(OSError, AttributeError):
            self._kernel.call("SetErrorMode", _NO_FAULT_BOX)
            self._kernel.call("WerSetFlags", _NO_HEAP)

    def overwrite_variables(self, _names: Iterable[str]) -> None:
        """Do nothing: a variable that Python removes is removed from the process's own block."""

    def memory_used(self) -> int | None:
        """Return the working set."""
        found = MemoryCounters(cb=ctypes.sizeof(MemoryCounters))
        try:
            process = self._kernel.call("GetCurrentProcess")
            self._kernel.demand(
                "K32GetProcessMemoryInfo", process, ctypes.byref(found), ctypes.sizeof(found)
            )
        except OSError:
            return None
        return int(found.WorkingSetSize)

    def has_ended(self, pid: int) -> bool:
        """Open the process: one that has ended may still have its number, and is signalled."""
        handle = self._kernel.call("OpenProcess", _SYNCHRONIZE | _QUERY_LIMITED, False, pid)  # noqa: FBT003 - by position
        if not handle:
            return self._kernel.libraries.last_error() == INVALID_PARAMETER
        try:
            return bool(self._kernel.call("WaitForSingleObject", handle, 0) == _SIGNALLED)
        finally:
            self._kernel.call("CloseHandle", handle)

    def run_apart(
        self,
        work: Callable[[], Iterable[bytes]],
        *,
        confine: Callable[[], None],
        seconds: float,
        memory: int,
        most: int,
    ) -> tuple[bytes, bool]:
        """Run it here: Windows copies no process. Time is asked for between two parts."""
        del confine, memory, most  # it is our own code that yields here
        end, parts = time.monotonic() + seconds, bytearray()
        for part in work():
            parts += part
            if time.monotonic() > end:
                return bytes(parts), False
        return bytes(parts), True

    def quote(self, word: str) -> str:
        """Quote it for PowerShell, and for cmd where that can be."""
        return quote_windows(word)

    def split_command(self, words: str) -> list[str]:
        """Split at blanks outside double quotes; a backslash is part of a path, and so is an apostrophe."""
        if words.count('"') % 2:
            raise ValueError("No closing quotation mark")
        return [one.replace('"', "") for one in _WORD.findall(words)]

    def find_program(self, name: str, *, path: str | None = None) -> str | None:
        """Search whole paths alone: Windows, and Python, begin with the working folder, where anybody may have put a program."""
        listed = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
        # defence: no-program-from-here -is_absolute
        folders = [folder for folder in map(Path, listed) if folder.is_absolute()]
        if Path(name).name != name:
            folders = [Path()]
        endings = os.environ.get("PATHEXT", os.pathsep.join(_PROGRAMS)).lower().split(os.pathsep)
        if Path(name).suffix.lower() in endings:
            endings = [""]
        places = (folder / f"{name}{ending}" for folder in folders for ending in endings)
        return next((str(place) for place in places if place.is_file()), None)

    def command_line(self, words: list[str]) -> list[str] | str:
        """Quote each word for a script: ``cmd`` runs it, and would take `&` for the end of the command.

        Nothing keeps ``cmd`` from reading a variable between two `%`, not even quotes. Raises ``ValueError`` for them.
        """
        if Path(words[0]).suffix.lower() not in _SCRIPTS:
            return words
        if "".join(words).count("%") > 1:  # defence: no-variable-in-script =False
            raise ValueError(
                "a .cmd or .bat file would read a variable between two % of its command"
            )
        return " ".join(f'"{word}"' for word in words)

    def app_folder(self, environ: Mapping[str, str]) -> Path:
        """Return the folder of settings that roam."""
        return Path(environ.get("APPDATA", "").strip() or Path.home() / "AppData" / "Roaming")

    def user_folder(self, _what: Literal["config", "data"], _environ: Mapping[str, str]) -> Path:
        """Return one folder that is not below AppData: a packaged client's servers are shown a copy of what is there."""
        return Path.home() / ".mcp-notarium"

    def prepare_stream(self, descriptor: int) -> None:
        """Let line ends pass as they are."""
        self._kernel.libraries.set_binary(descriptor)

    def folder_events(self, root: Path) -> FolderEvents:
        """Use ``ReadDirectoryChangesW`` by a library."""
        from mcp_notarium.system.folder_events import TreeEvents  # noqa: PLC0415 - for a vault alone

        return TreeEvents(root)

    def drop_typed(self, descriptor: int) -> None:
        """Empty the console's buffer of input."""
        handle = self._kernel.libraries.handle(descriptor)
        self._kernel.demand("FlushConsoleInputBuffer", handle)

    @contextmanager
    def hidden_input(self, descriptor: int) -> Iterator[None]:
        """Switch the console's echo off."""
        with self.kept_terminal(descriptor):
            handle = self._kernel.libraries.handle(descriptor)
            self._kernel.demand("SetConsoleMode", handle, self._console_mode(handle) & ~_ECHO)
            yield

    @contextmanager
    def kept_terminal(self, descriptor: int) -> Iterator[None]:
        """Give the console its mode back."""
        handle = self._kernel.libraries.handle(descriptor)
        before = self._console_mode(handle)
        try:
            yield
        finally:
            self._kernel.call("SetConsoleMode", handle, before)

    def _console_mode(self, handle: int) -> int:
        mode = w.DWORD()
        self._kernel.demand("GetConsoleMode", handle, ctypes.byref(mode))
        return int(mode.value)
