"""Play the functions of Windows that the port calls, over a model in memory, by the rules of their pages on Microsoft Learn.

Each is a C function made by ctypes from the types that ``windows_kernel`` declares: a wrong number or kind of arguments
fails as it would there. Handles, locks and lists of rights are the model's; the content of files is on the real disk.

| rule | page |
|---|---|
| what another program has open and does not share: 32 | "CreateFileW function" |
| without FILE_FLAG_OPEN_REPARSE_POINT a link is followed | "CreateFileW function" |
| a folder is opened with FILE_FLAG_BACKUP_SEMANTICS only: 5 | "CreateFileW function" |
| a lock is a range of bytes of one handle; a second one over it fails with 33, of the same handle too | "LockFileEx function" |
| a file that is open cannot be replaced: 5; a folder replaces nothing | "MoveFileExW function" |
| a process that does not exist is a wrong argument: 87 | "OpenProcess function" |
"""
# ruff: noqa: N802, PLR0917 - names and arguments are those of Windows

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

from mcp_notarium.system.windows_kernel import (
    FUNCTIONS,
    AttributeTag,
    FileId,
    MemoryCounters,
    Overlapped,
    SecurityAttributes,
    SizeOfList,
)

USER = "S-1-5-21-1-2-3-1001"
EVERYBODY, ADMINS, SYSTEM_SID = "S-1-1-0", "S-1-5-32-544", "S-1-5-18"
_LETTERS = {"SY": SYSTEM_SID, "WD": EVERYBODY, "BA": ADMINS, "CO": "S-1-3-0"}
_RIGHTS = {"FA": 0x1F01FF, "FR": 0x120089, "FW": 0x120116, "GA": 0x10000000}
_ENTRY = re.compile(r"\((A|D);(\w*);(\w+);;;([\w-]+)\)")


class Simulated:
    """Stand for the libraries of Windows: ``held``: what other programs have open, by path, and for how many tries."""

    def __init__(self) -> None:
        self.faults: list[Exception] = []
        self.calls: list[tuple[str, tuple[object, ...]]] = []
        self.held: dict[str, int] = {}
        self.lists: dict[str, str] = {}
        self.links: dict[str, tuple[str, int]] = {}
        self.ended: set[int] = set()
        self.running: set[int] = {4711}
        self.console = 0x1F7
        self.typed = b"typed ahead"
        self._error = 0
        self._open: dict[int, tuple[int, str, bool]] = {}
        self._locks: dict[tuple[str, int], list[tuple[int, bool]]] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        self._next = 0x100

    def load(self, library: str) -> Simulated:
        self._library = library
        return self

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or name not in FUNCTIONS:
            raise AttributeError(name)
        library, result, types = FUNCTIONS[name]
        assert library == self._library
        play = getattr(self, f"_{name}")

        def called(*arguments: object) -> object:
            self.calls.append((name, arguments))
            try:
                return play(*arguments)
            except Exception as fault:
                self.faults.append(fault)
                raise

        made = ctypes.CFUNCTYPE(result, *types)(called)
        self._kept.append(made)
        return made

    def last_error(self) -> int:
        return self._error

    def handle(self, descriptor: int) -> int:
        return self._numbers.get(descriptor, descriptor + 0x10000)

    def descriptor(self, handle: int, _flags: int) -> int:
        number = self._open[handle][0]
        self._numbers[number] = handle
        return number

    def set_binary(self, descriptor: int) -> None:
        self.calls.append(("setmode", (descriptor,)))

    def close(self, descriptor: int) -> None:
        """Close a descriptor, and with it the handle and its locks."""
        os.close(descriptor)
        self._forget(self._numbers.pop(descriptor))

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _fail(self, code: int) -> int:
        self._error = code
        return 0

    def _plain(self, path: str) -> str:
        return path.removeprefix("\\\\?\\")

    def _is_held(self, *paths: str) -> bool:
        for path in paths:
            if self.held.get(path, 0):
                self.held[path] -= 1
                return True
        return False

    def _CreateFileW(self, path, access, share, attributes, how, flags, _template):
        path = self._plain(path)
        if self._is_held(path):
            return self._fail(32) or -1
        target, tag = self.links.get(path, (path, 0))
        real = path if flags & 0x00200000 else target
        if Path(real).is_dir() and not flags & 0x02000000:
            return self._fail(5) or -1
        there = os.path.lexists(real)
        if (how == 1 and there) or (how in (3, 5) and not there):
            return self._fail(80 if there else 2) or -1
        if not there:
            self.lists[real] = self._list_of(attributes) or f"O:{USER}(A;;FA;;;WD)"
        mode = os.O_RDWR if access & 0x40000000 else os.O_APPEND | os.O_WRONLY if access & 4 else 0
        number = os.open(real, mode | (os.O_CREAT if how in (1, 4) else 0), 0o600)
        self._next += 4
        self._open[self._next] = (number, real, bool(share & 4))
        if flags & 0x00200000 and tag:
            self._open[self._next] = (number, path, True)
        return self._next

    def _CloseHandle(self, handle):
        number = self._open[handle][0] if handle in self._open else None
        self._forget(handle)
        if number is not None:
            os.close(number)
        return 1

    def _forget(self, handle: int) -> None:
        self._open.pop(handle, None)
        for held in self._locks.values():
            held[:] = [one for one in held if one[0] != handle]

    def _list_of(self, attributes: int | None) -> str:
        if not attributes:
            return ""
        given = SecurityAttributes.from_address(attributes)
        assert given.nLength == ctypes.sizeof(SecurityAttributes)
        assert not given.bInheritHandle
        return ctypes.wstring_at(given.lpSecurityDescriptor)

    def _CreateDirectoryW(self, path, attributes):
        path = self._plain(path)
        if os.path.lexists(path):
            return self._fail(183)
        Path(path).mkdir()
        self.lists[path] = self._list_of(attributes)
        return 1

    def _MoveFileExW(self, old, new, flags):
        old, new = self._plain(old), self._plain(new)
        if self._is_held(old, new):
            return self._fail(5)
        if not os.path.lexists(old):
            return self._fail(2)
        if os.path.lexists(new) and (not flags & 1 or Path(old).is_dir()):
            return self._fail(5 if flags & 1 else 183)
        if any(
            path == new or (path == old and not shares) for _, path, shares in self._open.values()
        ):
            return self._fail(5)
        Path(old).replace(new)
        return 1

    def _GetFileType(self, handle):
        return 1 if handle in self._open else 2

    def _GetFileInformationByHandleEx(self, handle, what, found, size):
        number, path, _ = self._open[handle]
        if what == 9:
            assert size == ctypes.sizeof(AttributeTag)
            tag = AttributeTag.from_address(found)
            _, tag.ReparseTag = self.links.get(path, (path, 0))
            tag.FileAttributes = 0x400 if tag.ReparseTag else 0x20
        else:
            assert (what, size) == (18, ctypes.sizeof(FileId))
            FileId.from_address(found).FileId[:8] = os.fstat(number).st_ino.to_bytes(8, "little")
        return 1

    def _LockFileEx(self, handle, how, reserved, low, high, place):
        assert (reserved, low, high, how & 1) == (0, 1, 0, 1)
        at = Overlapped.from_address(place)
        held = self._locks.setdefault((self._open[handle][1], at.OffsetHigh << 32 | at.Offset), [])
        if any(exclusive or how & 2 for _, exclusive in held):
            return self._fail(33)
        held.append((handle, bool(how & 2)))
        return 1

    def _UnlockFileEx(self, handle, _reserved, _low, _high, place):
        at = Overlapped.from_address(place)
        held = self._locks.get((self._open[handle][1], at.OffsetHigh << 32 | at.Offset), [])
        ours = next((one for one in held if one[0] == handle), None)
        if ours is None:
            return self._fail(158)
        held.remove(ours)
        return 1

    def locked_offsets(self) -> set[int]:
        return {place for (_, place), held in self._locks.items() if held}

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

    def _LocalFree(self, _place):
        return None

    def _OpenProcessToken(self, _process, access, token):
        assert access == 8
        ctypes.c_void_p.from_address(token).value = 0x7777
        return 1

    def _GetTokenInformation(self, token, what, place, size, _needed):
        assert (token, what) == (0x7777, 1)
        assert size >= 64
        ctypes.c_void_p.from_address(place).value = self._text_at(USER)
        return 1

    def _text_at(self, text: str) -> int:
        held = ctypes.create_unicode_buffer(text)
        self._kept.append(held)
        return ctypes.addressof(held)

    def _ConvertSidToStringSidW(self, sid, text):
        # A SID of the model is its own text.
        ctypes.c_void_p.from_address(text).value = sid
        return 1

    def _ConvertStringSecurityDescriptorToSecurityDescriptorW(self, text, revision, made, _size):
        assert revision == 1
        assert re.fullmatch(r"O:S-[\d-]+D:P(\(A;\w*;FA;;;[\w-]+\))+", text), text
        ctypes.c_void_p.from_address(made).value = self._text_at(text)
        return 1

    def _GetSecurityDescriptorDacl(self, descriptor, present, entries, _defaulted):
        ctypes.c_int.from_address(present).value = 1
        ctypes.c_void_p.from_address(entries).value = descriptor
        return 1

    def _SetSecurityInfo(self, handle, kind, what, owner, group, entries, audit):
        assert (kind, what, owner, group, audit) == (1, 0x80000004, None, None, None)
        self.lists[self._open[handle][1]] = ctypes.wstring_at(entries)
        return 0

    def _GetNamedSecurityInfoW(self, path, kind, what, owner, group, entries, audit, descriptor):
        assert (kind, what, group, audit) == (1, 5, None, None)
        text = self.lists.get(path)
        if text is None:
            return 2
        ctypes.c_void_p.from_address(owner).value = self._text_at(
            re.search(r"O:(S-[\d-]+)", text)[1]
        )
        ctypes.c_void_p.from_address(entries).value = (
            None if "NO_ACCESS_CONTROL" in text else self._text_at(text)
        )
        ctypes.c_void_p.from_address(descriptor).value = self._text_at("whole")
        return 0

    def _GetSecurityInfo(self, handle, *others):
        return self._GetNamedSecurityInfoW(self._open[handle][1], *others)

    def _entries(self, place: int) -> list[tuple[str, str, str, str]]:
        return _ENTRY.findall(ctypes.wstring_at(place))

    def _GetAclInformation(self, entries, found, size, what):
        assert (what, size) == (2, ctypes.sizeof(SizeOfList))
        SizeOfList.from_address(found).AceCount = len(self._entries(entries))
        return 1

    def _GetAce(self, entries, number, entry):
        kind, flags, rights, who = self._entries(entries)[number]
        head = bytes([0 if kind == "A" else 1, 8 if "IO" in flags else 0, 0, 0])
        mask = _RIGHTS.get(rights) or int(rights, 16)
        sid = _LETTERS.get(who, who)
        held = ctypes.create_string_buffer(
            head + mask.to_bytes(4, "little") + f"{sid}\0".encode(_WIDE) + b"\0\0\0\0"
        )
        self._kept.append(held)
        ctypes.c_void_p.from_address(entry).value = ctypes.addressof(held)
        return 1


_WIDE = "utf-32-le" if ctypes.sizeof(ctypes.c_wchar) == 4 else "utf-16-le"
