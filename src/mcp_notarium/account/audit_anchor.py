"""Keep the end of the audit chain outside the database, in ``audit_anchor.json``.

A chain cannot prove that its tail was not cut; this file can. After each flush of the database the chain's
end is written over the old one, without a flush: the anchor may be behind the database, never ahead. It is written only
if the chain continues what it says: an anchor that does not fit is evidence and stays. It has a MAC under a
subkey of the data key, and the number of records instead of a time. It does not detect that both files were
replaced by copies of the same older day; a head that you noted elsewhere does.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mcp_notarium.audit.chain import AuditKeys, Head, begin_mac, end_mac
from mcp_notarium.crypto import canonical_json
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.errors import CacheError, NotariumError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import read_private, replace_private, temporary_pattern
from mcp_notarium.secret import Secret
from mcp_notarium.storage import write_ahead_log
from mcp_notarium.storage.audit_log import ANCHORED, AuditTable
from mcp_notarium.storage.database import Database
from mcp_notarium.system import SYSTEM

_FORMAT = "mcp-notarium-audit-anchor"
_MAX_BYTES = 1024
_LENGTH = 448
"""Bytes of the file, filled with line feeds: it is written over in place, and a disk writes 512 bytes at once."""
_MAC = re.compile(r"[0-9a-f]{64}")
_NUMBERS = ("count", "at", "begun", "checkpoint", "replaced", "met", "met_at")
_LOCK_TRIES, _LOCK_PAUSE = 20, 0.001
_READS, _PAUSE = 5, 0.002
"""Another process may be writing just when it is read."""


class AnchorUnusable(NotariumError):
    """Say that the anchor is missing, damaged or not ours; the message says which."""

    resolution_hint = (
        "If you know why (you put back an older copy of the folder, say), run `mcp-notarium audit accept`: "
        "it puts on record that you do, and makes a new anchor."
    )


def audit_keys(data_key: DataKey | None) -> AuditKeys:
    """Derive the keys of the audit chain from the data key; None: the database is not encrypted."""
    if data_key is None:
        return AuditKeys()
    return AuditKeys(
        chain=data_key.subkey("audit"),
        digests=data_key.subkey("audit-digests"),
        anchor=data_key.subkey("audit-anchor"),
    )


def find_chain_notice(notices: Iterable[str]) -> str | None:
    """Find the notice about the anchor among those of a start, if any."""
    return next((one for one in notices if one.endswith(LOOK)), None)


@dataclass(frozen=True, slots=True)
class Anchored:
    """Hold what the anchor says that the disk has. Times are epoch milliseconds."""

    head: Head
    at: int = 0
    """Time of the last record."""
    begun: int = 0
    """The number of the last record that a change began with, or of the last of all when the file was made."""
    checkpoint: int = 0
    """The lowest number that the main file has (``storage/write_ahead_log``)."""
    replaced: int = 0
    """Time at which another file was met in the place of the database; 0: never."""
    met: int = 0
    """The number of the last record in that file; 0: it could not be read."""
    met_at: int = 0
    """Time of that record."""

    def advanced(self, later: Anchored) -> Anchored:
        """Return the newer of each. One with ``replaced`` is never advanced."""
        end = later if later.head.count > self.head.count else self
        return Anchored(
            end.head,
            end.at,
            max(self.begun, later.begun),
            max(self.checkpoint, later.checkpoint),
            later.replaced,
            later.met,
            later.met_at,
        )


@dataclass(frozen=True, slots=True)
class Anchor:
    """Hold the anchor of one generation."""

    folder: AccountFolder
    generation: str
    """'' is the plain database."""
    key: Secret | None
    """None: it has none, and proves nothing."""
    _known: dict[bytes, Anchored] = field(default_factory=dict, compare=False, repr=False)
    """The last content that was proven authentic, or written here."""
    _begun: hmac.HMAC | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_begun", begin_mac(self.key))

    def read(self, database: Database) -> Anchored | None:
        """Read what it says; None if this chain has not been anchored yet.

        Raises ``AnchorUnusable`` if there should be an authentic one.
        """
        anchored = _was_anchored(database)
        for left in reversed(range(_READS)):
            try:
                raw = read_private(self.folder.audit_anchor, most=_MAX_BYTES)
            except OSError:
                raise AnchorUnusable("the anchor cannot be read") from None
            fields = None if raw is None else _decode(raw)
            if raw is None:
                if anchored:
                    raise AnchorUnusable("the anchor is missing, and there was one")
                return None
            if fields is not None and fields.get("generation") != self.generation and not anchored:
                return (
                    None  # of the database before this one; a crash came between switch and anchor
                )
            found = self._parse(raw)
            if found is not None:
                return found
            if left:
                time.sleep(_PAUSE)
        raise AnchorUnusable("the anchor was changed, or belongs to another cache")

    def read_alone(self) -> Anchored | None:
        """Read what it says without the database; None if that is nothing authentic."""
        with suppress(OSError):
            raw = read_private(self.folder.audit_anchor, most=_MAX_BYTES)
            return None if raw is None else self._parse(raw)
        return None

    def write(self, table: AuditTable, database: Database, *, begun: int = 0) -> bool:
        """Write the chain's end; False if that failed or must not be done. Never raises."""
        try:
            now = replace(_flush(table, database), begun=begun)
            with database.transaction():
                before = self.read(database)
                if before is not None:
                    # defence: unfit-anchor-told -continues
                    if before.replaced or not continues(table, before.head, now.head):
                        return False
                    self._advance(now)
                    return True
                self._replace(now, database)
        except (CacheError, AnchorUnusable, OSError):
            return False
        return True

    def begin(self, table: AuditTable, database: Database) -> None:
        """Write the first anchor of this chain, if there is none. Never raises."""
        with suppress(CacheError, AnchorUnusable):
            if self.read(database) is None:
                self.write(table, database)

    def note_replaced(self, at: float, *, met: int = 0, met_at: int = 0) -> None:
        """Record that another file was met in the database's place (epoch seconds); see :class:`Anchored`. Never raises."""
        self.advance(Anchored(Head(), replaced=int(at * 1000), met=met, met_at=met_at))

    def advance(self, now: Anchored) -> None:
        """Record what the disk has by now; the caller's chain continues what the anchor says. Never raises."""
        with suppress(OSError):
            self._advance(now)

    def accept(self, table: AuditTable, database: Database) -> None:
        """Write the chain's end, which the caller has recorded. Raises ``CacheError`` and ``OSError``."""
        now = _flush(table, database)
        with database.transaction():
            self._replace(now, database)

    def _advance(self, now: Anchored) -> None:
        def change(raw: bytes) -> bytes | None:
            before = self._parse(raw)
            if before is None or before.replaced:
                return None
            after = before.advanced(now)
            if after == before:
                return None
            content = self._content(after)
            self._keep(content, after)
            return content

        change_private(self.folder.audit_anchor, change)

    def _replace(self, now: Anchored, database: Database) -> None:
        pattern = temporary_pattern(self.folder.audit_anchor.name)
        for left in self.folder.path.glob(pattern):
            SYSTEM.remove(left)  # by a killed process: the caller's transaction keeps others out
        number = write_ahead_log.read_main(database) or 0
        now = replace(now, begun=now.head.count, checkpoint=number)
        replace_private(self.folder.audit_anchor, self._content(now))
        database.run(_MARK, (ANCHORED, str(now.head.count)))

    def _parse(self, raw: bytes) -> Anchored | None:
        """Return what an authentic anchor says; None if it is not."""
        known = self._known.get(raw)
        if known is not None:
            return known
        found = _read_fields(_decode(raw) or {})
        authentic = found is not None and hmac.compare_digest(raw, self._content(found))
        if found is None or not authentic:  # defence: anchor-authenticated -authentic
            return None
        self._keep(raw, found)
        return found

    def _keep(self, raw: bytes, said: Anchored) -> None:
        self._known.clear()
        self._known[raw] = said

    def _content(self, said: Anchored) -> bytes:
        fields: dict[str, Any] = {
            "format": _FORMAT,
            "version": 1,
            "generation": self.generation,
            "count": said.head.count,
            "head": said.head.mac,
            "at": said.at,
            "begun": said.begun,
            "checkpoint": said.checkpoint,
            "replaced": said.replaced,
            "met": said.met,
            "met_at": said.met_at,
        }
        covered = canonical_json.encode(fields)
        begun = self._begun
        mac = hashlib.sha256(covered).hexdigest() if begun is None else end_mac(begun, covered)
        return canonical_json.encode(fields | {"mac": mac}).ljust(_LENGTH, b"\n")


def _flush(table: AuditTable, database: Database) -> Anchored:
    """Flush the chain, whose records of reads were not flushed, and return its end.

    A power cut would look like a cut tail if the anchor reached the disk before what it names.
    """
    with database.transaction(durable=True):
        head, at = table.end()
        mark = str(head.count) if _was_anchored(database) else f"-{head.count}"
        database.run(_MARK, (ANCHORED, mark))  # something to flush, even if nothing else is new
    return Anchored(head, at)


def _decode(raw: bytes) -> dict[str, Any] | None:
    try:
        return canonical_json.decode(raw.rstrip(b"\n"))
    except KeyFileDamaged:
        return None


def _read_fields(fields: dict[str, Any]) -> Anchored | None:
    numbers = [fields.get(name) for name in _NUMBERS]
    mac = fields.get("head")
    if not isinstance(mac, str) or not _MAC.fullmatch(mac):
        return None
    if any(type(number) is not int or number < 0 for number in numbers):
        return None
    count, *others = numbers
    return Anchored(Head(count, mac), *others)  # type: ignore[arg-type]


def continues(table: AuditTable, before: Head, now: Head) -> bool:
    """Check whether the chain, which ends at ``now``, holds the anchor's record or has pruned it."""
    if before.count == 0:
        return True
    if before.count > now.count:
        return False
    found = next(table.records(first=before.count, last=before.count), None)
    if found is None:
        return next(table.records(), None) is not None
    return found.mac == before.mac


def _was_anchored(database: Database) -> bool:
    """Check whether an anchor was written; before the first one the mark is a negative number."""
    row = database.row("SELECT value FROM sync_metadata WHERE key = ?", (ANCHORED,))
    return row is not None and not str(row[0]).startswith("-")


LOOK = "Run `mcp-notarium audit verify`."
"""Last sentence of every notice about an anchor, and of no other notice."""
_MARK = "INSERT OR REPLACE INTO sync_metadata(key, value) VALUES (?, ?)"


def change_private(path: Path, change: Callable[[bytes], bytes | None]) -> None:
    """Write what ``change`` makes of a file's content over it, in place; None: it stays. Nothing is flushed.

    One process at a time does so. Another one that reads meanwhile may see a part of each.
    Raises ``OSError``; ``FileNotFoundError`` if the file is missing.
    """
    descriptor = SYSTEM.open_private(path, os.O_RDWR)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        _lock(descriptor)
        content = change(os.read(descriptor, _MAX_BYTES + 1))
        if content is not None:
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Take the lock of an open file until it is closed. Raises ``BlockingIOError`` if that takes too long."""
    for left in reversed(range(_LOCK_TRIES)):
        try:
            SYSTEM.lock(descriptor, exclusive=True)
        except BlockingIOError:
            if not left:
                raise
            time.sleep(_LOCK_PAUSE)
        else:
            return
