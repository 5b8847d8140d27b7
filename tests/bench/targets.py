"""List the target of each row; targets are printed beside the figures and asserted nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bench import corpus
from bench.measure import Figure, exponent

ESTIMATED = "tokens (bytes / 3.5)"
"""The unit of tokens that nobody has counted; a target says nothing of it."""
Of = Literal["value", "ratio", "p99"]
LOGARITHMIC = 0.15
"""log n itself fits n^0.11 between 1,000 and 100,000; the rest is what noise adds."""
GROWING = frozenset({"first sync", "size", "local", "files"})
"""Groups that may grow with the notes."""
FLAT = frozenset(
    {
        ("first sync", "calls meanwhile"),
        ("first sync", "round trips before the first list"),
        *(("first sync", f"launch to the first list at {ms} ms") for ms in (0, 40)),
        *(("local", row) for row in ("list", "rare word", "save, new note", "save, new text")),
        ("local", "first list, warm"),
    }
)
"""Rows of those groups that may not."""
COUNTING = frozenset(
    {
        *(("calls", kind) for kind in corpus.questions(1000)),
        ("unsettled", "tag, after a save"),
        ("calls", "list, middle page"),
        ("calls", "list, last page"),
    }
)
"""Rows that go through a share of all notes, or count what they find."""


@dataclass(frozen=True, slots=True)
class Target:
    """At most ``limit``; ``at``: only with so many notes, None: with any number."""

    limit: float
    of: Of = "value"
    at: int | None = None
    reason: str = ""
    """Why it is not met, in one sentence; shown only where it is not."""

    def met(self, figure: Figure) -> bool | None:
        """None where it does not apply or was not measured."""
        if self.at is not None and figure.notes != self.at:
            return None
        if figure.unit == ESTIMATED:
            return None
        found = {
            "value": figure.value,
            "p99": figure.p99,
            "ratio": next(iter(figure.ratios.values()), None),
        }[self.of]
        # A difference below nothing was lost in the noise.
        return None if found is None or found < 0 else found <= self.limit

    def __str__(self) -> str:
        kind = {"value": "", "ratio": "x", "p99": "p99 "}[self.of]
        return f"≤ {kind}{self.limit:g}"


_CONFIGURED = (
    "The configuration is read and checked before the first answer, so that a wrong setting is refused there "
    "([decision 24](decisions/0024-one-request-path.md))."
)
_IMPORTED = (
    "The first call waits for the import of the SDK, which takes more than half of the time."
)
_DERIVED = "Deriving a key from a passphrase is meant to be slow, and the SDK's import runs at the same time."
_BEYOND_SQL = (
    "Beyond SQL and the round trip a call is validated, checked against the policy, marked as untrusted text, "
    "written as text and as structure, and recorded."
)
_SAVED = (
    "It is a target in milliseconds; *SDK, two transactions* in the table above says how much of it this machine "
    "needs for the call, the HTTP client and two flushes. The rest is mostly the index and the audit log."
)
_SMALLEST = "Beyond that server a save is checked, kept as a version, merged and audited."
_SHARED = "Two thirds of it are the server's own pages, which a copy shares."
_COUNTED = "All hits are counted, and up to 1,000 of them are ranked."


def _calls(*rows: str) -> dict[tuple[str, str], Target]:
    return {("calls", row): Target(1.5, "ratio", reason=_BEYOND_SQL) for row in rows}


# "About 60" and "about 80" tokens are up to a tenth more.
TARGETS: Mapping[tuple[str, str], Target] = {
    ("start", "initialize"): Target(1.5, "ratio", reason=_CONFIGURED),
    ("start", "tools/list"): Target(1.5, "ratio", reason=_CONFIGURED),
    ("start", "first list, warm"): Target(700, reason=_IMPORTED),
    ("start", "first list, warm: beyond the SDK's import"): Target(
        100, reason="Most of it is importing our own modules and opening the database."
    ),
    ("keys", "first list, warm, Argon2id"): Target(700, reason=_DERIVED),
    ("keys", "first list, warm, PBKDF2"): Target(700, reason=_DERIVED),
    ("memory", "before the first call"): Target(
        21,
        reason="Behind `initialized` the server opens the cache, syncs and imports the SDK, so that the first "
        "answer is fresh; Python with `asyncio` alone takes 19 MB.",
    ),
    ("memory", "after 100 calls"): Target(95, at=50_000),
    ("memory", "peak, first sync"): Target(150, at=50_000),
    ("memory", "after the first sync"): Target(90, at=50_000),
    ("memory", "at rest, after a get"): Target(
        90, reason="It is what the server has before the first call."
    ),
    ("transport", "echo"): Target(
        1.2,
        "ratio",
        reason="The shortest wire has no limit of a message's size, hears no signal, and just stops at the end.",
    ),
    **_calls("list", "get", "rare word", "two words"),
    ("calls", "common word"): Target(12, at=50_000, reason=_COUNTED),
    ("calls", "list, middle page"): Target(
        12, at=50_000, reason="A page in the middle walks half of the index."
    ),
    ("calls", "list, last page"): Target(12, at=50_000),
    ("encryption", "reads"): Target(1.15, "ratio", at=100_000),
    ("encryption", "save, new note"): Target(1.3, "ratio", at=100_000),
    ("encryption", "save, new text"): Target(1.3, "ratio", at=100_000),
    ("first sync", "round trips before the first list"): Target(1.5),
    ("first sync", "all notes at 40 ms"): Target(1.8, at=10_000),
    ("first sync", "all notes at 0 ms"): Target(
        7.5,
        at=50_000,
        reason="Two thirds of the time are SQL: an index of that many notes under SQLCipher alone takes 6.6 s.",
    ),
    ("first sync", "calls meanwhile"): Target(100, "p99", at=50_000),
    ("stalls", "ping, just synced"): Target(5, "p99"),
    ("stalls", "list, just synced"): Target(
        5,
        "p99",
        reason="A merged slice is committed by another connection, which empties the page cache of the one that "
        "answers: the next call reads its pages from the file again.",
    ),
    ("stalls", "list, without a pause"): Target(5, "p99"),
    ("idle", "requests a refresh"): Target(1),
    ("idle", "bytes a refresh"): Target(3000),
    ("idle", "change seen"): Target(2000),
    ("idle", "share of a core"): Target(
        0.1,
        reason="Once a second the server looks whether anything is due, in eight short reads of 1.2 to 1.5 ms together "
        "on the slowest machine so far. Why it was more at times is not known.",
    ),
    **{
        ("writes", row): Target(1.5, "ratio", reason=_SMALLEST)
        for row in ("save, new note", "save, new text")
    },
    ("writes", "save, new note: beyond the requests"): Target(5, reason=_SAVED),
    ("writes", "save, new text: beyond the requests"): Target(8, reason=_SAVED),
    ("writes", "eight new notes at once"): Target(
        50,
        "p99",
        reason="The last of eight has waited for the processor time of all, 4 to 5 ms each, and for their flushes.",
    ),
    ("files", "first index, 2,000 files"): Target(1.1, "ratio", at=1000),
    ("files", "first photo: processor time"): Target(0.5),
    ("files", "another photo: processor time"): Target(0.5),
    ("files", "first photo: memory of the copy"): Target(150, reason=_SHARED),
    ("files", "another photo: memory of the copy"): Target(150, reason=_SHARED),
    ("tokens", "tool list"): Target(1500),
    ("tokens", "a listed note"): Target(66),
    ("tokens", "a hit"): Target(88),
}

ALSO: Mapping[tuple[str, str], Target] = {
    ("calls", "list"): Target(1.6, at=50_000, reason=_BEYOND_SQL),
    ("calls", "get"): Target(1.1, at=50_000, reason=_BEYOND_SQL),
}
"""Second targets of rows that have one above."""


def targets_of(figure: Figure) -> list[Target]:
    """The targets of a row that apply to this figure and can be judged by it."""
    named = (mapping.get((figure.group, figure.row)) for mapping in (TARGETS, ALSO))
    return [one for one in named if one is not None and one.met(figure) is not None]


@dataclass(frozen=True, slots=True)
class Growth:
    """How a row grows with the number of notes: like ``notes ** exponent``."""

    group: str
    row: str
    exponent: float
    met: bool | None


def growths(figures: list[Figure]) -> list[Growth]:
    """The fitted exponent of every row that was measured at two sizes or more."""
    rows: dict[tuple[str, str], dict[int, float]] = {}
    for figure in figures:
        if figure.unit == "x" or figure.group == "search":  # a ratio of two figures, or a share
            continue
        rows.setdefault((figure.group, figure.row), {})[figure.notes] = figure.value
    found = []
    for (group, row), values in rows.items():
        slope = exponent(values)
        if slope is not None:
            grows = group in GROWING and (group, row) not in FLAT
            free = grows or (group, row) in COUNTING
            found.append(Growth(group, row, slope, None if free else slope <= LOGARITHMIC))
    return found
