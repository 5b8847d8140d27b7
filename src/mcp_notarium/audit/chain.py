"""Define audit records, and chain them: each MAC covers its record and the MAC before it.

Records have no content: arguments are keyed digests, names are ours, a note is its id. The builder of
an :class:`AuditEntry` sees to that; this module only bounds what comes from outside.

MAC = HMAC-SHA256(subkey ``audit``, previous MAC ‖ canonical record). Without a data key (plain mode)
it is SHA-256 over a label and the same bytes: that finds accidents, but no attacker.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from mcp_notarium.crypto import canonical_json
from mcp_notarium.domain.characters import replace_surrogates
from mcp_notarium.secret import Secret

GENESIS: Final = "0" * 64
"""The MAC that the first record follows."""

_GENERATED_ID: Final = re.compile(
    r"[0-9a-f]{8}|[0-9a-fA-F-]{16,64}|(?=(?:[^0-9]*[0-9]){2})[0-9A-Za-z]{10,64}"
)
"""Hexadecimal, a UUID, or letters and digits in one piece."""
_HEAD: Final = re.compile(r"([0-9]{1,15}):([0-9a-f]{64})")
_KEYLESS: Final = b"mcp-notarium/v1/audit-without-a-key\n"
MOST_NOTES: Final = 200
_LONGEST_ID: Final = 256
_LONGEST_CLIENT: Final = 96

Facts = dict[str, Any]
"""Plain JSON values without fractions and without anybody's text: numbers, digests, names of ours."""


class Decision(StrEnum):
    """Name the decisions about an act, and who made them."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    ASKED = "asked"
    CONFIRMED = "confirmed"
    APPROVED = "approved"
    BY_ARGUMENT = "by_argument"
    DECLINED = "declined"
    TIMED_OUT = "timed_out"


OK: Final = "ok"
UNKNOWN: Final = "unknown"
"""It was sent, and nobody knows whether it was done."""
CANCELLED: Final = "cancelled"
"""The caller has taken it back, and nothing was done."""
FINISHED: Final = "finished"
"""The caller has taken it back; what was sent by then is done, and the rest is not begun."""
OPEN: Final = ""
"""The outcome of a record that a later record completes; after a crash none does."""


class ActName(StrEnum):
    """Name the acts of the chain and the program; tools and commands name their own."""

    BEGUN = "chain.begun"
    CARRIED = "chain.carried"
    PRUNED = "chain.pruned"
    GAP = "chain.gap"
    CUT = "chain.cut"
    ACCEPTED = "cli.audit.accept"
    START = "server.start"
    STOP = "server.stop"
    UNKNOWN_TOOL = "tool.unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """Hold an act to record."""

    at: float
    """Epoch seconds."""
    act: str
    client: str = ""
    digest: str = ""
    notes: tuple[str, ...] = ()
    decision: Decision = Decision.ALLOWED
    outcome: str = OK
    bytes_out: int = 0
    """Bytes the caller got."""
    refers: int = 0
    """The number of the record whose outcome this one tells, 0 for none."""
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Hold a stored entry: texts as they are in the table."""

    number: int
    at_ms: int
    """Epoch milliseconds."""
    client: str
    act: str
    digest: str
    notes: str
    """Canonical JSON; so are ``facts``."""
    decision: str
    outcome: str
    bytes_out: int
    refers: int
    facts: str
    previous: str
    """Hex digits; so is ``mac``."""
    mac: str = ""

    def mac_input(self, *, number: int | None = None) -> bytes:
        """Return the bytes that the MAC covers after the previous MAC, as if it had this ``number``."""
        return canonical_json.encode(
            [
                *(self.number if number is None else number, self.at_ms, self.client, self.act),
                *(self.digest, self.notes, self.decision, self.outcome, self.bytes_out),
                *(self.refers, self.facts),
            ]
        )


def make_record(entry: AuditEntry, *, number: int, previous: str) -> Record:
    """Make the record of an entry at its place in the chain, still without a MAC."""
    kept = [replace_surrogates(note)[:_LONGEST_ID] for note in entry.notes[:MOST_NOTES]]
    more = len(entry.notes) - len(kept)
    facts = entry.facts | {"notes_left_out": more} if more else entry.facts
    return Record(
        number=number,
        at_ms=int(entry.at * 1000),
        client=clean_client_name(entry.client),
        act=entry.act,
        digest=entry.digest,
        notes=canonical_json.encode(kept).decode(),
        decision=entry.decision.value,
        outcome=entry.outcome,
        bytes_out=entry.bytes_out,
        refers=entry.refers,
        facts=canonical_json.encode(facts).decode(),
        previous=previous,
    )


def clean_client_name(name: str) -> str:
    """Return the name of a client program as one short printable line."""
    line = "".join(each if each.isprintable() else "?" for each in replace_surrogates(name))
    return line[:_LONGEST_CLIENT]


@dataclass(frozen=True, slots=True)
class Head:
    """Hold the length of a chain and the MAC of its last record."""

    count: int = 0
    mac: str = GENESIS

    def __str__(self) -> str:
        return f"{self.count}:{self.mac}"

    @classmethod
    def parse(cls, text: str) -> Head | None:
        """Parse ``COUNT:MAC``; None if the text is not of that form."""
        found = _HEAD.fullmatch(text)
        return found and cls(int(found[1]), found[2])


def begin_mac(key: Secret | None) -> hmac.HMAC | None:
    """Begin an HMAC-SHA256 under a key; None without one. What is made of it needs the key no more."""
    return None if key is None else hmac.new(key.reveal(), digestmod=hashlib.sha256)


def end_mac(begun: hmac.HMAC, message: bytes) -> str:
    """Return the HMAC of a message as 64 hex digits; what was begun stays as it is."""
    mac = begun.copy()
    mac.update(message)
    return mac.hexdigest()


@dataclass(frozen=True, slots=True)
class ChainMac:
    """Make and verify MACs."""

    key: Secret | None
    """None: the database has no data key."""
    _begun: hmac.HMAC | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_begun", begin_mac(self.key))

    @property
    def keyed(self) -> bool:
        """Tell whether a valid MAC needs the key."""
        return self.key is not None

    def mac(self, previous: str, covered: bytes) -> str:
        """Return the MAC over the previous one and these bytes, as 64 hex digits."""
        message = bytes.fromhex(previous) + covered
        if self._begun is None:
            return hashlib.sha256(_KEYLESS + message).hexdigest()
        return end_mac(self._begun, message)

    def verifies(self, record: Record, *, number: int | None = None) -> bool:
        """Tell whether the record's MAC is valid, as if the record had this ``number``."""
        try:
            expected = self.mac(record.previous, record.mac_input(number=number))
        except ValueError:  # ``previous`` is no MAC at all
            return False
        return hmac.compare_digest(expected.encode(), record.mac.encode("utf-8", "replace"))

    def authenticate(self, record: Record) -> Record:
        """Return the record with its MAC."""
        return replace(record, mac=self.mac(record.previous, record.mac_input()))


@dataclass(frozen=True, slots=True)
class AuditKeys:
    """Hold the keys of a chain. None: plain mode."""

    chain: Secret | None = None
    """Of its MACs."""
    digests: Secret | None = None
    """Of digests in its records."""
    anchor: Secret | None = None
    """Of the anchor outside."""
    _digesting: hmac.HMAC | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_digesting", begin_mac(self.digests))

    @property
    def chain_mac(self) -> ChainMac:
        """Return what makes and verifies the MACs of the chain."""
        return ChainMac(self.chain)

    def digest(self, name: str, arguments: Any) -> str:
        """Return a keyed digest of a call: the same call has the same digest, in this database only.

        It is '' without a key: a digest that anybody can make would confirm a guessed query.
        """
        if self._digesting is None:
            return ""
        try:
            said = canonical_json.encode([name, arguments])
        except (TypeError, ValueError, RecursionError):
            said = repr((name, type(arguments).__name__)).encode()
        return end_mac(self._digesting, said)

    def note(self, note_id: str) -> str:
        """Return a note's id as it may stand in a record.

        An id made of words may tell what the note is about. It is replaced by a digest, or left out if
        there is no key.
        """
        if _GENERATED_ID.fullmatch(note_id):
            return note_id
        return f"id:{self.digest('note', note_id)[:16] or 'withheld'}"


def append_to_chain(entry: AuditEntry, head: Head, chain_mac: ChainMac) -> tuple[Record, Head]:
    """Make the entry the chain's next record; return the record and the new head."""
    record = chain_mac.authenticate(make_record(entry, number=head.count + 1, previous=head.mac))
    return record, Head(record.number, record.mac)


def rechain(record: Record, previous: str, chain_mac: ChainMac) -> Record:
    """Return the record with another previous MAC and a new MAC of its own."""
    return chain_mac.authenticate(replace(record, previous=previous))
