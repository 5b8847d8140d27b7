"""Check page MACs of an encrypted database file without opening a connection.

Opening a database changes it: SQLite replays and deletes a left-over WAL. This reads a few pages of
the main file and checks the page MACs itself. It must run before this process has a connection to the
file: closing any descriptor of a file drops the locks SQLite holds on it.
"""

from __future__ import annotations

import errno
import hmac
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mcp_notarium.secret import Secret

PAGE_SIZE = 4096
SALT_SIZE = 16
_MAC_AT = PAGE_SIZE - 64  # HMAC-SHA512 fills the end of the 80-byte reserve, after the IV
_PLAIN_MAGIC = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class PageSample:
    """Hold what the main file looks like from outside. ``size`` in bytes; pages count from 1.

    ``good`` and ``bad`` count the pages that were read. ``salt_ok``: the file starts with the
    salt it should have (in the 160-digit key form a wrong one does no harm). ``plaintext_magic``
    is not authenticated: trust it only when ``good`` is 0.
    """

    size: int
    salt_ok: bool
    good: int
    bad: int
    bad_pages: tuple[int, ...]
    plaintext_magic: bool

    @property
    def torn(self) -> bool:
        """Tell whether the file ends inside a page."""
        return self.size % PAGE_SIZE != 0


def sample(path: Path, mac_key: Secret, salt: bytes, *, every: bool = False) -> PageSample:
    """Check pages 1, 2, 3, the middle and the last one, or ``every`` page.

    Raises ``OSError`` if the file is missing, a symbolic link or not a regular file.
    """
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        count = size // PAGE_SIZE
        head = file.read(SALT_SIZE)
        chosen = range(1, count + 1) if every else _chosen(count)
        key = mac_key.reveal()
        # Twice, because another process may have been writing a page just when it was read.
        bad = tuple(_bad_pages(file, tuple(_bad_pages(file, chosen, key)), key))
    return PageSample(
        size=size,
        salt_ok=head == salt,
        good=len(chosen) - len(bad),
        bad=len(bad),
        bad_pages=bad,
        plaintext_magic=head == _PLAIN_MAGIC,
    )


def _chosen(count: int) -> list[int]:
    return sorted({page for page in (1, 2, 3, count // 2, count) if 1 <= page <= count})


def _bad_pages(file: BinaryIO, pages: Iterable[int], mac_key: bytes) -> Iterable[int]:
    for number in pages:
        file.seek((number - 1) * PAGE_SIZE)
        page = file.read(PAGE_SIZE)
        start = SALT_SIZE if number == 1 else 0
        signed = page[start:_MAC_AT] + number.to_bytes(4, "little")
        if not hmac.compare_digest(hmac.digest(mac_key, signed, "sha512"), page[_MAC_AT:]):
            yield number


def _open(path: Path) -> BinaryIO:
    wanted = (
        "O_NOFOLLOW",
        "O_CLOEXEC",
        "O_NONBLOCK",
        "O_BINARY",
    )  # nonblock: never wait for a FIFO
    flags = sum(getattr(os, name, 0) for name in wanted)
    file = os.fdopen(os.open(path, os.O_RDONLY | flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    return file
