"""Keep the end of the audit chain outside the database, in ``audit_anchor.json``.

A chain cannot prove that its tail was not cut; this file can. Servers write it at a clean stop and a
re-encryption at its end, under the database's write lock, and only if the chain continues what it says:
an anchor that does not fit is evidence and stays. It has a MAC under a subkey of the data key, and the
number of records instead of a time. It does not detect that both files were replaced by copies of the
same older day; a head that you noted elsewhere does.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mcp_notarium.audit.chain import AuditKeys, Head
from mcp_notarium.crypto import canonical_json
from mcp_notarium.crypto.data_key import DataKey
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.errors import CacheError, NotariumError
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import (
    read_private,
    replace_private,
    temporary_pattern,
)
from mcp_notarium.secret import Secret
from mcp_notarium.storage.audit_table import ANCHORED, AuditTable
from mcp_notarium.storage.database import Database

_FORMAT = "mcp-notarium-audit-anchor"
_MAX_BYTES = 1024
_MAC = re.compile(r"[0-9a-f]{64}")


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
class Anchor:
    """Hold the anchor of one generation ('' is the plain database)."""

    folder: AccountFolder
    generation: str
    key: Secret | None

    def read(self, database: Database) -> Head | None:
        """Read the head it names; None if this chain has not been anchored yet.

        Raises ``AnchorUnusable`` if there should be an authentic one.
        """
        anchored = _was_anchored(database)
        try:
            raw = read_private(self.folder.audit_anchor, most=_MAX_BYTES)
            fields = None if raw is None else canonical_json.decode(raw)
        except (OSError, KeyFileDamaged):
            raise AnchorUnusable("the anchor cannot be read") from None
        if fields is None:
            if anchored:
                raise AnchorUnusable("the anchor is missing, and there was one")
            return None
        if fields.get("generation") != self.generation and not anchored:
            return None  # of the database before this one; a crash came between switch and anchor
        head = _parse_head(fields)
        if head is None or raw != self._content(head):
            raise AnchorUnusable("the anchor was changed, or belongs to another cache")
        return head

    def write(self, table: AuditTable, database: Database) -> bool:
        """Write the chain's end; False if that failed or must not be done. Never raises."""
        try:
            now = _flush(table, database)
            with database.transaction():
                before = self.read(database)
                if before == now or not _continues(table, before, now):
                    return before == now
                self._replace(now, database)
        except (CacheError, AnchorUnusable, OSError):
            return False
        return True

    def accept(self, table: AuditTable, database: Database) -> Head:
        """Write the chain's end, whatever the anchor says. The caller records that first.

        Raises ``CacheError`` and ``OSError``.
        """
        now = _flush(table, database)
        with database.transaction():
            self._replace(now, database)
        return now

    def _replace(self, now: Head, database: Database) -> None:
        pattern = temporary_pattern(self.folder.audit_anchor.name)
        for left in self.folder.path.glob(pattern):
            left.unlink(
                missing_ok=True
            )  # by a killed process: the caller's transaction keeps others out
        replace_private(self.folder.audit_anchor, self._content(now))
        database.run(_MARK, (ANCHORED, str(now.count)))

    def notice(self, table: AuditTable, database: Database) -> str | None:
        """Return the notice that the end of the chain is missing; else None.

        Checks the end only. Raises ``CacheError``.
        """
        try:
            before = self.read(database)
        except AnchorUnusable as error:
            return f"The end of the audit chain cannot be checked: {error.message}. {LOOK}"
        now = table.head()  # after the anchor: another server may be writing both
        if before is None or _continues(table, before, now):
            return None
        if before.count > now.count:
            gone = before.count - now.count
            return (
                f"The audit chain ends {gone:,} records before its anchor: an older copy of the "
                f"database was put back, or its newest writes are lost. {LOOK}"
            )
        return f"The audit chain is not the one that its anchor knows. {LOOK}"

    def _content(self, head: Head) -> bytes:
        fields: dict[str, Any] = {
            "format": _FORMAT,
            "version": 1,
            "generation": self.generation,
            "count": head.count,
            "head": head.mac,
        }
        covered = canonical_json.encode(fields)
        if self.key is None:
            mac = hashlib.sha256(covered).hexdigest()
        else:
            mac = hmac.new(self.key.reveal(), covered, hashlib.sha256).hexdigest()
        return canonical_json.encode(fields | {"mac": mac})


def _flush(table: AuditTable, database: Database) -> Head:
    """Flush the chain, whose records of reads were not flushed, and return its end.

    If the anchor reached the disk before what it names, a power cut would look like a cut tail.
    """
    with database.transaction(durable=True):
        head = table.head()
        mark = str(head.count) if _was_anchored(database) else f"-{head.count}"
        database.run(_MARK, (ANCHORED, mark))  # something to flush, even if nothing else is new
    return head


def _parse_head(fields: dict[str, Any]) -> Head | None:
    count, mac = fields.get("count"), fields.get("head")
    if type(count) is not int or count < 0 or not isinstance(mac, str) or not _MAC.fullmatch(mac):
        return None
    return Head(count, mac)


def _continues(table: AuditTable, before: Head | None, now: Head) -> bool:
    """Check whether the chain, which ends at ``now``, holds the anchor's record or has pruned it."""
    if before is None or before.count == 0:
        return now.count > 0
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
