"""One record of the audit chain, and the one byte form that its MAC covers.

Content-free by construction: an argument is a keyed digest, a name is one of ours, a note is its id.
Whoever builds an :class:`Entry` keeps that promise; this module only bounds what comes from outside.
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
    """Whether it was let through, and by whom."""

    ALLOWED = "allowed"
    REFUSED = "refused"
    ASKED = "asked"
    CONFIRMED = "confirmed"
    BY_ARGUMENT = "by_argument"
    DECLINED = "declined"
    TIMED_OUT = "timed_out"


OK: Final = "ok"
UNKNOWN: Final = "unknown"
"""It was sent, and nobody knows yet whether it was done."""
OPEN: Final = ""
"""The outcome of a record that is followed by another one; after a crash it is not."""


class Act(StrEnum):
    """What the chain itself and the program do; tools and commands name their own."""

    BEGUN = "chain.begun"
    CARRIED = "chain.carried"
    PRUNED = "chain.pruned"
    GAP = "chain.gap"
    START = "server.start"
    STOP = "server.stop"
    UNKNOWN_TOOL = "tool.unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is to be recorded. ``at``: epoch seconds; ``bytes_out``: what the caller was given.

    ``refers`` is the number of the record whose outcome this one tells (or, without one, to which somebody
    agreed), 0 for none.
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
    """A stored entry: texts as they stand in the table. ``previous`` and ``mac`` are hex digits.

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
        """The bytes that the MAC covers beside the previous MAC, as if it had this ``number``."""
        return canonical_json.encode(
            [
                *(self.number if number is None else number, self.at_ms, self.client, self.act),
                *(self.digest, self.notes, self.decision, self.outcome, self.bytes_out),
                *(self.refers, self.facts),
            ]
        )


def make_record(entry: Entry, *, number: int, previous: str) -> Record:
    """The entry at its place in the chain, still without its MAC."""
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
    """The name of a client program in one short line, whatever it calls itself."""
    line = "".join(each if each.isprintable() else "?" for each in replace_surrogates(name))
    return line[:_LONGEST_CLIENT]
