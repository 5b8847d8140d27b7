"""Check a database: page MACs without a connection, then with SQLite's own checks.

Opening a database changes it: SQLite replays and deletes a left-over WAL. ``sample`` reads a few pages of
the main file and checks the page MACs itself. It must run before this process has a connection to the
file: closing any descriptor of a file drops the locks SQLite holds on it.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mcp_notarium.errors import CacheBusy, CacheError, CacheFull
from mcp_notarium.files.private_files import open_regular
from mcp_notarium.secret import Secret
from mcp_notarium.storage.database import MOST_CHECKS, Database

PAGE_SIZE = 4096
SALT_SIZE = 16
_MAC_AT = PAGE_SIZE - 64  # HMAC-SHA512 fills the end of the 80-byte reserve, after the IV
_PLAIN_MAGIC = b"SQLite format 3\x00"

_SEARCH_REOPEN = "SELECT rowid FROM notes_fts WHERE notes_fts MATCH 'a' LIMIT 1"
"""FTS5 remembers its structure; a check after another process has merged segments would miss the old
ones. Opening the index makes it read the structure again."""
_SEARCH_CHECK = "INSERT INTO notes_fts(notes_fts, rank) VALUES ('integrity-check', 1)"


@dataclass(frozen=True, slots=True)
class PageSample:
    """Hold the result of a page check."""

    size: int
    """Bytes of the file."""
    salt_ok: bool = True
    """The file starts with its salt. A wrong one does no harm with a key of 160 digits."""
    good: int = 0
    """Number of pages read that have the right MAC."""
    bad: int = 0
    bad_pages: tuple[int, ...] = ()
    """Their numbers, from 1."""
    plaintext_magic: bool = False
    """The file starts as an unencrypted one. Nothing authenticates that: trust it only if ``good`` is 0."""

    @property
    def torn(self) -> bool:
        """Tell whether the file ends inside a page."""
        return self.size % PAGE_SIZE != 0


def sample(path: Path, mac_key: Secret, salt: bytes, *, every: bool = False) -> PageSample:
    """Check pages 1, 2, 3, the middle and the last one, or ``every`` page.

    Raises ``OSError`` if the file is missing, a symbolic link or not a regular file.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        count = size // PAGE_SIZE
        head = file.read(SALT_SIZE)
        chosen = range(1, count + 1) if every else _choose_pages(count)
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


def plain_sample(path: Path) -> PageSample:
    """Read size and first bytes of an unencrypted database. Raises as :func:`sample`."""
    with open_regular(path) as file:
        magic = file.read(SALT_SIZE) == _PLAIN_MAGIC
        return PageSample(size=os.fstat(file.fileno()).st_size, plaintext_magic=magic)


def _choose_pages(count: int) -> list[int]:
    return sorted({page for page in (1, 2, 3, count // 2, count) if 1 <= page <= count})


def _bad_pages(file: BinaryIO, pages: Iterable[int], mac_key: bytes) -> Iterable[int]:
    for number in pages:
        file.seek((number - 1) * PAGE_SIZE)
        page = file.read(PAGE_SIZE)
        start = SALT_SIZE if number == 1 else 0
        signed = page[start:_MAC_AT] + number.to_bytes(4, "little")
        if not hmac.compare_digest(hmac.digest(mac_key, signed, "sha512"), page[_MAC_AT:]):
            yield number


def check(database: Database) -> tuple[str, ...]:
    """Check the file; return its faults in technical words, empty if there are none.

    Move the WAL into the main file first: the page check does not know the WAL and would report
    false damage. Indexes are compared with their tables. A fault closes the connection. Raises
    ``CacheBusy`` or ``CacheFull`` if the WAL could not be moved.
    """
    questions = ["PRAGMA cipher_integrity_check"] if database.encrypted else []
    questions += ["PRAGMA integrity_check", _SEARCH_CHECK]
    return _faults(database, questions, move=True, checks=1)


def walk(database: Database, *, deep: bool = False) -> tuple[str, ...]:
    """Check a file that servers may be using: like :func:`check`, but nothing is moved.

    Read every page that is in use, in the file or in the WAL. A fault is checked again: a change by
    another process is no damage. Only ``deep`` compares the full-text index with the notes. Raises
    ``CacheBusy`` or ``CacheFull``.
    """
    questions = ["PRAGMA integrity_check" if deep else "PRAGMA quick_check"]
    if deep and not database.read_only:  # the statement that compares counts as one that writes
        questions.append(_SEARCH_CHECK)
    return _faults(database, questions, move=False, checks=MOST_CHECKS)


def _faults(
    database: Database, questions: Sequence[str], *, move: bool, checks: int
) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    try:
        if move:
            database.checkpoint()
        for _ in range(checks):
            found = _first_fault(database, questions)
            if not found:
                return ()
    except (CacheBusy, CacheFull):
        raise
    except CacheError as error:
        found = (error.message,)
    database.mark_damaged(found[0])
    return found


def _first_fault(database: Database, questions: Sequence[str]) -> tuple[str, ...]:
    database.rows(_SEARCH_REOPEN)
    for question in questions:
        found = tuple(str(line[0]) for line in database.rows(question) if line[0] != "ok")
        if found:  # after a bad page the other checks mean nothing
            return found
    return ()
