"""Play the functions of Windows for access lists: a list is its own text, as is a SID."""
# ruff: noqa: N802, PLR0917 - names and arguments are those of Windows

from __future__ import annotations

import ctypes
import os
import re

from mcp_notarium.system.windows_kernel import SizeOfList
from support.windows_files import UNKNOWN, USER

EVERYBODY, ADMINS, SYSTEM_SID = "S-1-1-0", "S-1-5-32-544", "S-1-5-18"
_LETTERS = {"SY": SYSTEM_SID, "WD": EVERYBODY, "BA": ADMINS, "CO": "S-1-3-0"}
_RIGHTS = {"FA": 0x1F01FF, "FR": 0x120089, "FW": 0x120116, "GA": 0x10000000}
_ENTRY = re.compile(r"\((A|D);(\w*);(\w+);;;([\w-]+)\)")
_WIDE = "utf-32-le" if ctypes.sizeof(ctypes.c_wchar) == 4 else "utf-16-le"


class Security:
    """Play them; part of ``simulated_windows.Simulated``. ``lists``: the access list of what is at a path."""

    def __init__(self) -> None:
        self._kept: list[object] = []

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
        self.lists[self._open[handle].path] = ctypes.wstring_at(entries)
        return 0

    def _GetSecurityInfo(self, handle, kind, what, owner, group, entries, audit, descriptor):
        assert (kind, what, group, audit) == (1, 5, None, None)
        one = self._open.get(handle)
        place = os.readlink(f"/proc/self/fd/{handle - UNKNOWN}") if one is None else one.path
        text = self.list_of(place)
        ctypes.c_void_p.from_address(owner).value = self._text_at(
            re.search(r"O:(S-[\d-]+)", text)[1]
        )
        ctypes.c_void_p.from_address(entries).value = (
            None if "NO_ACCESS_CONTROL" in text else self._text_at(text)
        )
        ctypes.c_void_p.from_address(descriptor).value = self._text_at("whole")
        return 0

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
