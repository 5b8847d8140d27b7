"""Define a record of the audit chain and the byte form that its MAC covers.

Records have no content: arguments are keyed digests, names are ours, a note is its id. The builder of
an :class:`Entry` keeps that promise; this module only bounds what comes from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mcp_notarium.crypto import canonical_json
from mcp_notarium.domain.text_normalization import replace_surrogates

MOST_NOTES: Final = 200
_LONGEST_ID: Final = 256
_LONGEST_CLIENT: Final = 96

Facts = dict[str, Any]
"""Plain JSON values without fractions and without anybody's text: numbers, digests, names of ours."""


class Decision(StrEnum):
    """Say whether an act was permitted, and by whom."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    ASKED = "asked"
    CONFIRMED = "confirmed"
    BY_ARGUMENT = "by_argument"
    DECLINED = "declined"
    TIMED_OUT = "timed_out"


OK: Final = "ok"
UNKNOWN: Final = "unknown"
"""It was sent, and nobody knows whether it was done."""
OPEN: Final = ""
"""The outcome of a record that a later record completes; after a crash none does."""


class Act(StrEnum):
    """Name the acts of the chain and the program; tools and commands name their own."""

    BEGUN = "chain.begun"
    CARRIED = "chain.carried"
    PRUNED = "chain.pruned"
    GAP = "chain.gap"
    START = "server.start"
    STOP = "server.stop"
    UNKNOWN_TOOL = "tool.unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Hold an act to record. ``at``: epoch seconds; ``bytes_out``: bytes the caller got.

    ``refers`` is the number of the record whose outcome this one tells (or, without an outcome, to which
    somebody agreed), 0 for none.
    """

    at: float
    act: str
    client: str = ""
    digest: str = ""
    notes: tuple[str, ...] = ()
    decision: Decision = Decision.ALLOWED
    outcome: str = OK
    bytes_out: int = 0
    refers: int = 0
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Hold a stored entry: texts as they are in the table. ``previous`` and ``mac`` are hex digits.

    ``at_ms``: epoch milliseconds; ``notes`` and ``facts`` are canonical JSON.
    """

    number: int
    at_ms: int
    client: str
    act: str
    digest: str
    notes: str
    decision: str
    outcome: str
    bytes_out: int
    refers: int
    facts: str
    previous: str
    mac: str = ""

    def covered(self, *, number: int | None = None) -> bytes:
        """Return the bytes that the MAC covers beside the previous MAC, as if it had this ``number``."""
        return canonical_json.encode(
            [
                *(self.number if number is None else number, self.at_ms, self.client, self.act),
                *(self.digest, self.notes, self.decision, self.outcome, self.bytes_out),
                *(self.refers, self.facts),
            ]
        )


def make_record(entry: Entry, *, number: int, previous: str) -> Record:
    """Make the record of an entry at its place in the chain, without its MAC."""
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
