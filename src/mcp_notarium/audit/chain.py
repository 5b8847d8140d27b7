"""How records hang together: each MAC covers its record and the MAC before it.

MAC = HMAC-SHA256(subkey ``audit``, previous MAC ‖ canonical record). Without a data key (plain mode)
it is SHA-256 over the same bytes behind a label: that finds accidents, not somebody who can count.
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
"""What the first record follows."""

_GENERATED_ID: Final = re.compile(r"[0-9a-fA-F-]{16,64}|(?=(?:[^0-9]*[0-9]){2})[0-9A-Za-z]{10,64}")
"""Hexadecimal, a UUID, or letters and digits in one piece."""
_KEYLESS: Final = b"mcp-notarium/v1/audit-without-a-key\n"


@dataclass(frozen=True, slots=True)
class Head:
    """How long a chain is, and the MAC of its last record."""

    count: int = 0
    mac: str = GENESIS

    def __str__(self) -> str:
        return f"{self.count}:{self.mac}"


@dataclass(frozen=True, slots=True)
class Seal:
    """Makes and checks MACs. ``key`` None: the cache has no data key."""

    key: Secret | None

    @property
    def keyed(self) -> bool:
        """Whether only somebody with the key can make a MAC that fits."""
        return self.key is not None

    def mac(self, previous: str, covered: bytes) -> str:
        """64 hex digits over what came before and these bytes."""
        message = bytes.fromhex(previous) + covered
        if self.key is None:
            return hashlib.sha256(_KEYLESS + message).hexdigest()
        return hmac.new(self.key.reveal(), message, hashlib.sha256).hexdigest()

    def verifies(self, record: Record, *, number: int | None = None) -> bool:
        """Whether the record's MAC is ours, as if the record had this ``number``."""
        try:
            due = self.mac(record.previous, record.covered(number=number))
        except ValueError:  # what stands there as ``previous`` is no MAC at all
            return False
        return hmac.compare_digest(due.encode(), record.mac.encode("utf-8", "replace"))

    def seal_record(self, record: Record) -> Record:
        """The record with its MAC."""
        return replace(record, mac=self.mac(record.previous, record.covered()))


@dataclass(frozen=True, slots=True)
class AuditKeys:
    """The three keys of a chain: its MACs, the digests in it, the anchor outside. None: plain mode."""

    chain: Secret | None = None
    digests: Secret | None = None
    anchor: Secret | None = None

    @property
    def seal(self) -> Seal:
        """What binds the records."""
        return Seal(self.chain)

    def digest(self, name: str, arguments: Any) -> str:
        """Names a call without telling it: the same call has the same digest, in this cache only.

        '' without a key: whoever can guess a query could find it in a digest that anybody can make.
        """
        if self.digests is None:
            return ""
        try:
            said = canonical_json.encode([name, _encodable(arguments)])
        except (TypeError, ValueError, RecursionError):
            said = repr((name, type(arguments).__name__)).encode()
        return hmac.new(self.digests.reveal(), said, hashlib.sha256).hexdigest()

    def note(self, note_id: str) -> str:
        """A note's id as it may stand in a record: one made of words may tell what the note is about.

        Such a one is named by a digest, or where there is no key, not at all.
        """
        if _GENERATED_ID.fullmatch(note_id):
            return note_id
        return f"id:{self.digest('note', note_id)[:16] or 'withheld'}"


def append_to_chain(entry: Entry, head: Head, seal: Seal) -> tuple[Record, Head]:
    """The entry as the chain's next record, and the head it makes."""
    record = seal.seal_record(make_record(entry, number=head.count + 1, previous=head.mac))
    return record, Head(record.number, record.mac)


def reseal(record: Record, previous: str, seal: Seal) -> Record:
    """The same record behind another MAC, under another key."""
    return seal.seal_record(replace(record, previous=previous))


def _encodable(value: Any) -> Any:
    """The same value without halves of characters, which have no byte form."""
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
