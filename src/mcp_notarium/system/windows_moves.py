"""Move files on Windows, and exchange two.

Windows has no exchange. ``ReplaceFileW`` gives the replaced file a spare name; moving it to the temporary file's name completes
what looks like one. A process that ends in between leaves the spare name behind, which tells the name that is missing.

Sources (Microsoft Learn): "ReplaceFileW function", "MoveFileExW function", "FileRenameInformation" ([MS-FSCC] 2.4.42).
"""

from __future__ import annotations

import errno

from mcp_notarium.system.windows_handles import (
    LOOK,
    LOOK_FLAGS,
    OPEN_EXISTING,
    PAUSE,
    TRIES,
    Elsewhere,
    WindowsHandles,
)
from mcp_notarium.system.windows_kernel import (
    ACCESS_DENIED,
    SHARING_VIOLATION,
    UNABLE_TO_MOVE_REPLACEMENT,
    UNABLE_TO_MOVE_REPLACEMENT_2,
    UNABLE_TO_REMOVE_REPLACED,
    UNSUPPORTED,
    windows_error,
)

_REPLACE, _WRITE_THROUGH = 0x1, 0x8
_AGAIN = {ACCESS_DENIED, SHARING_VIOLATION, UNABLE_TO_REMOVE_REPLACED, UNABLE_TO_MOVE_REPLACEMENT}
"""Codes after which both files have their names."""


class WindowsMoves(WindowsHandles):
    """Implement the port's moves; a second goes by while another program has one of the files open."""

    def rename(
        self,
        old_folder: int,
        old: str,
        new_folder: int,
        new: str,
        *,
        exchange: bool,
        spare: str = "",
    ) -> bool:
        """Use ``MoveFileEx``, or for an exchange ``ReplaceFile`` first; both try again while a program has one of them open."""
        one, other = self._below(old_folder, old), self._below(new_folder, new)
        if not exchange:
            self._patiently(lambda: self._move_inside(old_folder, one, new_folder, other))
            return True
        if not self.takes_name(spare):  # too long
            return False
        between = self._below(new_folder, spare)
        if not self._replace(one, other, between):
            return False
        self._patiently(lambda: self._move(between, one))
        return True

    def _move_inside(self, old_folder: int, old: str, new_folder: int, new: str) -> None:
        """Move a file, and back if the new path led elsewhere. Raises ``NotADirectoryError`` for a path that does."""
        handle = self.create(old, LOOK, OPEN_EXISTING, LOOK_FLAGS)
        moved = False
        try:
            self._demand_inside(old_folder, handle, old.rpartition("\\")[2])
            self._move(old, new)
            moved = True
            self._demand_inside(new_folder, handle, new.rpartition("\\")[2])
        except Elsewhere as error:
            if moved:
                self._move(self._final_path(handle), old)
            raise NotADirectoryError(errno.ENOTDIR, error.strerror, new) from None
        finally:
            self._kernel.call("CloseHandle", handle)

    def _replace(self, new: str, name: str, spare: str) -> bool:
        """Put a new file in the place of another, which gets the spare name; False if the file system cannot."""
        for left in reversed(range(TRIES)):
            if self._kernel.call("ReplaceFileW", name, new, spare, 0, None, None):
                return True
            code = self._kernel.libraries.last_error()
            if code in UNSUPPORTED:
                return False
            if code == UNABLE_TO_MOVE_REPLACEMENT_2:  # defence: half-replacement-undone =False
                self._patiently(lambda: self._move(spare, name))
            elif code not in _AGAIN or not left:
                raise windows_error(code, name)
            self._pause(PAUSE)
        raise windows_error(UNABLE_TO_MOVE_REPLACEMENT_2, name)

    def replace(self, folder: int, old: str, new: str) -> None:
        """Use ``MoveFileEx``."""
        one, other = self._below(folder, old), self._below(folder, new)
        self._patiently(lambda: self._move(one, other, replaces=True))

    def _move(self, old: str, new: str, *, replaces: bool = False) -> int:
        flags = _WRITE_THROUGH | (_REPLACE if replaces else 0)
        return self._kernel.demand("MoveFileExW", old, new, flags, path=new)
