"""Implement what is the same on all systems, and answer for what most of them lack."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

from mcp_notarium.system.port import FileState


class Common:
    """Implement that part of the port."""

    can_confine = False
    flushes_fully = False
    limits_memory = False
    longest_path: int | None = None

    def is_group_private(self, _path: Path, _found: os.stat_result) -> bool:
        """Say no: only distributions of Linux have a group for each user."""
        return False

    def lock_holders(self, _path: Path, *, proc: Path = Path("/proc")) -> set[int]:  # noqa: ARG002 - a test gives it
        """Return none: only Linux tells."""
        return set()

    def is_held(self, _path: Path) -> bool:
        """Return False: only on Windows can a program do that."""
        return False

    def forbid_tracing(self) -> None:
        """Do nothing: POSIX has no such call, and the owner of a process of Windows can always give himself the rights on it."""

    def release_memory(self) -> bool:
        """Leave it to the C library."""
        return False

    def session_bus(self, _environ: Mapping[str, str]) -> Path | None:
        """Return nothing: only Linux has a fixed place, and the keychains of others need none."""
        return None

    def is_elsewhere(self, _found: FileState) -> bool:
        """Return False: only macOS and Windows tell."""
        return False

    def has_no_blocks(self, found: FileState) -> bool:
        """Read the number of blocks; Windows tells none."""
        return not getattr(found, "st_blocks", 1)

    def is_being_written(self, _descriptor: int) -> bool:
        """Return False: POSIX does not tell."""
        return False

    def read_attribute(self, _descriptor: int, _name: str) -> bytes | None:
        """Return None: POSIX has none, and NTFS' streams are no attributes that survive a copy."""
        return None

    def write_attribute(self, _descriptor: int, _name: str, _value: bytes) -> None:
        """Refuse the attribute."""
        raise OSError(errno.ENOTSUP, "no extended attributes")
