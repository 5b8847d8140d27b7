"""Make files and folders of Windows the user's alone, and read who else may use them.

Only the user and SYSTEM (backups, antivirus) are listed for what is created, and nothing is inherited from above. Of what
is there already, administrators count as root does elsewhere: they can take any file anyway.

Sources (Microsoft Learn): "Security Descriptor String Format", "ACE Strings", "Well-known SIDs", "File Access Rights
Constants", "ACCESS_ALLOWED_ACE structure", "ACE_HEADER structure", "TOKEN_USER structure", "GetSecurityInfo function", "SetSecurityInfo function".
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import wintypes as w

from mcp_notarium.system.port import Access
from mcp_notarium.system.windows_kernel import DWORD, Kernel, SecurityAttributes, SizeOfList

_TOKEN_QUERY, _TOKEN_USER = 0x8, 1
_SDDL_REVISION, _FILE_OBJECT, _SIZE_INFORMATION = 1, 1, 2
_OWNER, _DACL, _PROTECTED_DACL = 0x1, 0x4, 0x80000000
_ALLOWED = {0, 9, 5, 11}  # ACCESS_ALLOWED_ACE, its callback form, and both for objects
_OF_OBJECTS = {5, 11}
_INHERIT_ONLY = 0x8
_HEADER, _MASK = 4, 4
_MOST_TOKEN = 256
_DELETE = 0x10000
_READ = 0x80000000 | 0x10000000 | 0x1  # GENERIC_READ, GENERIC_ALL, FILE_READ_DATA
_CHANGE = (
    0x40000000  # GENERIC_WRITE
    | 0x10000000  # GENERIC_ALL
    | 0x40000  # WRITE_DAC
    | 0x80000  # WRITE_OWNER
    | _DELETE
)
_ADD = 0x2 | 0x4  # FILE_WRITE_DATA or FILE_ADD_FILE, FILE_APPEND_DATA or FILE_ADD_SUBDIRECTORY
_REPLACE = _CHANGE | 0x40  # FILE_DELETE_CHILD; who only adds an entry changes none of ours

EVERYBODY = ("S-1-1-0", "S-1-5-11", "S-1-5-32-545")
"""Everyone, Authenticated Users, Users."""
SYSTEM_SID = "S-1-5-18"
_ADMINS = re.compile(
    r"S-1-5-18|S-1-5-32-(544|551)"  # SYSTEM; Administrators, Backup Operators
    r"|S-1-5-21(-\d+){3}-(500|512|519)"  # Administrator, Domain Admins, Enterprise Admins
    r"|S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"  # TrustedInstaller
)
_WHOEVER_OWNS = {"S-1-3-0", "S-1-3-4"}
"""CREATOR OWNER and OWNER RIGHTS: they stand for the owner, who is looked at anyway."""


class AccessLists:
    """Make and read the access lists of files."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._user = ""

    @property
    def user(self) -> str:
        """Return the security identifier (SID) of this process's user."""
        if not self._user:
            self._user = self._find_user()
        return self._user

    def _find_user(self) -> str:
        kernel, token, size = self._kernel, w.HANDLE(), w.DWORD()
        process = kernel.call("GetCurrentProcess")
        kernel.demand("OpenProcessToken", process, _TOKEN_QUERY, ctypes.byref(token))
        try:
            held = (ctypes.c_void_p * _MOST_TOKEN)()  # aligned as pointers are
            kernel.demand(
                "GetTokenInformation",
                token,
                _TOKEN_USER,
                ctypes.byref(held),
                ctypes.sizeof(held),
                ctypes.byref(size),
            )
            return self._text(held[0])
        finally:
            kernel.call("CloseHandle", token)

    def _text(self, sid: int | None) -> str:
        found = ctypes.c_void_p()
        self._kernel.demand("ConvertSidToStringSidW", sid, ctypes.byref(found))
        try:
            return ctypes.wstring_at(found.value or 0)
        finally:
            self._kernel.call("LocalFree", found)

    @contextmanager
    def attributes(self, *, folder: bool) -> Iterator[SecurityAttributes]:
        """Give the attributes of something new: for the user and SYSTEM, and so what comes to be in a folder."""
        with self._descriptor(folder=folder) as descriptor:
            yield SecurityAttributes(ctypes.sizeof(SecurityAttributes), descriptor, False)  # noqa: FBT003 - a field

    @contextmanager
    def _descriptor(self, *, folder: bool) -> Iterator[ctypes.c_void_p]:
        flags = "OICI" if folder else ""
        # The owner is named: of what an elevated process creates it would be the administrators' group.
        text = f"O:{self.user}D:P(A;{flags};FA;;;{self.user})(A;{flags};FA;;;SY)"
        made = ctypes.c_void_p()
        self._kernel.demand(
            "ConvertStringSecurityDescriptorToSecurityDescriptorW",
            text,
            _SDDL_REVISION,
            ctypes.byref(made),
            None,
        )
        try:
            yield made
        finally:
            self._kernel.call("LocalFree", made)

    def make_private(self, handle: int) -> None:
        """Put the list of a new file in the place of an open file's own."""
        present, defaulted, entries = w.BOOL(), w.BOOL(), ctypes.c_void_p()
        with self._descriptor(folder=False) as descriptor:
            self._kernel.demand(
                "GetSecurityDescriptorDacl",
                descriptor,
                ctypes.byref(present),
                ctypes.byref(entries),
                ctypes.byref(defaulted),
            )
            self._kernel.demand_success(
                "SetSecurityInfo",
                handle,
                _FILE_OBJECT,
                _DACL | _PROTECTED_DACL,
                None,
                None,
                entries,
                None,
            )

    def read(self, handle: int, *, is_drive: bool = False) -> Access:
        """Read who may use what a handle has open. Nobody renames a drive, whatever its list permits."""
        owner, entries, descriptor = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._kernel.demand_success(
            "GetSecurityInfo",
            handle,
            _FILE_OBJECT,
            _OWNER | _DACL,
            ctypes.byref(owner),
            None,
            ctypes.byref(entries),
            None,
            ctypes.byref(descriptor),
        )
        try:
            rights = self._rights_of_others(entries) if entries else ~0  # no list: everybody
            belongs_to = self._text(owner.value)
        finally:
            self._kernel.call("LocalFree", descriptor)
        admin = bool(_ADMINS.fullmatch(belongs_to))
        return Access(
            owner="user" if belongs_to == self.user else "admin" if admin else "other",
            is_private=not rights,
            others_read=bool(rights & _READ),
            others_change=bool(rights & (_CHANGE | _ADD)),
            others_replace=bool(rights & (_REPLACE & ~_DELETE if is_drive else _REPLACE)),
        )

    def _rights_of_others(self, entries: ctypes.c_void_p) -> int:
        """Return all rights that somebody else is given; what is denied them elsewhere is not subtracted."""
        size, rights = SizeOfList(), 0
        self._kernel.demand(
            "GetAclInformation",
            entries,
            ctypes.byref(size),
            ctypes.sizeof(size),
            _SIZE_INFORMATION,
        )
        for number in range(size.AceCount):
            entry = ctypes.c_void_p()
            self._kernel.demand("GetAce", entries, number, ctypes.byref(entry))
            rights |= self._rights(entry.value or 0)
        return rights

    def _rights(self, entry: int) -> int:
        kind, flags = ctypes.string_at(entry, 2)
        if kind not in _ALLOWED or flags & _INHERIT_ONLY:
            return 0
        mask: int = DWORD.from_address(entry + _HEADER).value
        if kind in _OF_OBJECTS:
            return mask  # files have none; whom it means is not looked at
        sid = self._text(entry + _HEADER + _MASK)
        known = sid == self.user or sid in _WHOEVER_OWNS or _ADMINS.fullmatch(sid)
        return 0 if known else mask
