"""Chain audit records: each MAC covers its record and the MAC before it.

MAC = HMAC-SHA256(subkey ``audit``, previous MAC ‖ canonical record). Without a data key (plain mode)
it is SHA-256 over a label and the same bytes: that finds accidents, but no attacker.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp_notarium.audit.record import Entry, Record, make_record
from mcp_notarium.crypto import canonical_json
from mcp_notarium.domain.text_normalization import replace_surrogates
from mcp_notarium.secret import Secret

GENESIS: Final = "0" * 64
"""The MAC that the first record follows."""

_GENERATED_ID: Final = re.compile(r"[0-9a-fA-F-]{16,64}|(?=(?:[^0-9]*[0-9]){2})[0-9A-Za-z]{10,64}")
"""Hexadecimal, a UUID, or letters and digits in one piece."""
_KEYLESS: Final = b"mcp-notarium/v1/audit-without-a-key\n"


@dataclass(frozen=True, slots=True)
class Head:
    """Hold the length of a chain and the MAC of its last record."""

    count: int = 0
    mac: str = GENESIS

    def __str__(self) -> str:
        return f"{self.count}:{self.mac}"


@dataclass(frozen=True, slots=True)
class Seal:
    """Make and verify MACs. ``key`` None: the database has no data key."""

    key: Secret | None

    @property
    def keyed(self) -> bool:
        """Tell whether a valid MAC needs the key."""
        return self.key is not None

    def mac(self, previous: str, covered: bytes) -> str:
        """Return the MAC over the previous one and these bytes, as 64 hex digits."""
        message = bytes.fromhex(previous) + covered
        if self.key is None:
            return hashlib.sha256(_KEYLESS + message).hexdigest()
        return hmac.new(self.key.reveal(), message, hashlib.sha256).hexdigest()

    def verifies(self, record: Record, *, number: int | None = None) -> bool:
        """Tell whether the record's MAC is valid, as if the record had this ``number``."""
        try:
            due = self.mac(record.previous, record.covered(number=number))
        except ValueError:  # ``previous`` is no MAC at all
            return False
        return hmac.compare_digest(due.encode(), record.mac.encode("utf-8", "replace"))

    def seal_record(self, record: Record) -> Record:
        """Return the record with its MAC."""
        return replace(record, mac=self.mac(record.previous, record.covered()))


@dataclass(frozen=True, slots=True)
class AuditKeys:
    """Hold the keys of a chain: its MACs, its digests, the anchor outside. None: plain mode."""

    chain: Secret | None = None
    digests: Secret | None = None
    anchor: Secret | None = None

    @property
    def seal(self) -> Seal:
        """Return the seal of the chain."""
        return Seal(self.chain)

    def digest(self, name: str, arguments: Any) -> str:
        """Return a keyed digest of a call: the same call has the same digest, in this database only.

        It is '' without a key: a digest that anybody can make would confirm a guessed query.
        """
        if self.digests is None:
            return ""
        try:
            said = canonical_json.encode([name, _encodable(arguments)])
        except (TypeError, ValueError, RecursionError):
            said = repr((name, type(arguments).__name__)).encode()
        return hmac.new(self.digests.reveal(), said, hashlib.sha256).hexdigest()

    def note(self, note_id: str) -> str:
        """Return a note's id as it may stand in a record.

        An id made of words may tell what the note is about. It is replaced by a digest, or left out if
        there is no key.
        """
        if _GENERATED_ID.fullmatch(note_id):
            return note_id
        return f"id:{self.digest('note', note_id)[:16] or 'withheld'}"


def append_to_chain(entry: Entry, head: Head, seal: Seal) -> tuple[Record, Head]:
    """Make the entry the chain's next record; return the record and the new head."""
    record = seal.seal_record(make_record(entry, number=head.count + 1, previous=head.mac))
    return record, Head(record.number, record.mac)


def reseal(record: Record, previous: str, seal: Seal) -> Record:
    """Return the record after another previous MAC, under another key."""
    return seal.seal_record(replace(record, previous=previous))


def _encodable(value: Any) -> Any:
    """Return the value without lone surrogates, which have no byte form."""
    match value:
        case str():
            return replace_surrogates(value)
        case dict():
            return {replace_surrogates(str(name)): _encodable(part) for name, part in value.items()}
        case list() | tuple():
            return [_encodable(part) for part in value]
        case float():
            return repr(value)
        case _:
            return value
