"""Rank the notes that have any of the bare words of a query: decide what is looked for, and build the SQL. Pure.

A note scores the sum of what each word scores in it: bm25 (rarer words more, long notes less), and a word in the heading
or in a tag more than one in the text. Notes whose title is the query come first, then those whose title has
all the words. Stop words (``search/stop_words.py``) are not looked for if there are others, nor are words that
more than half of the notes have.

Scoring takes a millisecond for some thousand notes, so the rarest words choose which ones are scored: words
are added, the rarest first, until ``MOST_RANKED`` notes have them. The commoner words only add to the score of these. If
even the rarest word is in more notes, those with all words are taken, without the commonest words one after the other
until a few notes are left. A query with filters scores all notes that the filters leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from mcp_notarium.search.folding import is_searchable
from mcp_notarium.search.fts_expression import build_match, match_any
from mcp_notarium.search.query import And, Condition, Query, Ranked, Word
from mcp_notarium.search.query_expansion import units_of
from mcp_notarium.search.snippets import Term, spelled
from mcp_notarium.search.stop_words import stop_words

MOST_RANKED = 1000
"""Notes that are ranked, about. Beyond that the newest come first."""
FEW = 10
"""With fewer notes than this that have a word, parts of words are looked for as well."""
FEWEST = 5
"""Notes with all of the common words that are enough of an answer."""
_FEW_WORDS = 3
"""Of so many words, notes that have all are enough of an answer if there are ``FEWEST``."""
_MOST_PIECES = 60
"""Most pieces that are looked for apart: each has a bit of a number."""
_PART_WEIGHT = 0.6
_INSIDE_WEIGHT = 0.3
_CORRECTED_WEIGHT = 0.8
_ENOUGH_PARTS = 0.6
_MOST_HELD = 0.5
_FEWEST_NOTES = 50


_MEANING_WEIGHT = 0.8
"""The weight of what a note means; that of its words is 1. With more, notes with a rare name or date fall behind."""
_FUSED_AT = 10
"""Added to each rank; the smaller, the more the first few of a ranking count. 5 to 60 found as much."""


class Kind(IntEnum):
    """Name what a piece is of its word."""

    WHOLE = 0
    PART = 1
    INSIDE = 2
    CORRECTED = 3


WEIGHTS = {
    Kind.WHOLE: 1.0,
    Kind.PART: _PART_WEIGHT,
    Kind.INSIDE: _INSIDE_WEIGHT,
    Kind.CORRECTED: _CORRECTED_WEIGHT,
}


class Grade(IntEnum):
    """Name what puts a note before others, whatever it scores."""

    OTHER = 0
    WHOLE = 1
    ALL_IN_TITLE = 2
    IS_TITLE = 3


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold an FTS5 expression that is looked for, and in how many notes of the index it is."""

    expression: str
    kind: Kind = Kind.WHOLE
    notes: int = 0


_Numbered = tuple[int, Piece]


@dataclass(frozen=True, slots=True)
class Sought:
    """Hold a word of the query, and what is looked for."""

    text: str
    """The word as typed."""
    pieces: tuple[Piece, ...]
    """Piece that finds the word itself, then those that find its parts."""
    spellings: tuple[str, ...]
    """The same in words; so is ``parts``."""
    parts: tuple[str, ...] = ()
    prefix: bool = False
    weight: float = 1.0
    """Weight of the word, by how rare it is."""

    @property
    def whole(self) -> Piece:
        """Return what finds the word itself."""
        return self.pieces[0]

    @property
    def notes(self) -> int:
        """Return in how many notes of the index the word is."""
        return self.whole.notes


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold which notes are ranked, and by what. Each piece has its number."""

    scored: tuple[tuple[int, Piece], ...] = ()
    """Pieces of which each brings its notes."""
    added: tuple[tuple[int, Piece], ...] = ()
    """Pieces that add to the score of these notes, which ``base`` finds."""
    held: tuple[int, ...] = ()
    """Pieces that all of these notes have; then ``base`` alone brings them."""
    base: str = ""
    newest: bool = False
    """The notes of ``base`` are too many to be ranked."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Hold what is known of a note that a part of the statement finds."""

    has: int
    """The numbers of the pieces that it has, as bits."""
    grade: Grade = Grade.OTHER
    weight: float = 1.0
    """Of its score."""
    adds: bool = False
    """Its score is that of a piece and of ``base`` together."""


@dataclass(slots=True)
class Scored:
    """Hold what is known of a note (pk) from all arms; the score that is less is better."""

    pk: int
    sorted: int
    has: int = 0
    grade: Grade = Grade.OTHER
    score: float = 0.0
    base: float = 0.0
    added: int = 0


def bare_words(query: Query) -> tuple[Word, ...]:
    """Return the words by which the notes are ranked; () if the query has none that an index can find."""
    match query.terms:
        case Word() as word:
            words: tuple[Word, ...] = (word,)
        case Ranked(words) | And((Ranked(words), *_)):
            pass
        case And((Word() as word, *_)):
            words = (word,)
        case _:
            words = ()
    return words if any(is_searchable(word.text) for word in words) else ()


def typed_words(query: Query) -> str:
    """Return the bare words in a row."""
    return " ".join(word.text for word in bare_words(query))


def strict_conditions(query: Query) -> tuple[Condition, ...]:
    """Return the conditions other than the bare words."""
    return query.terms.conditions[1:] if isinstance(query.terms, And) else ()


def significant_words(words: Sequence[Word]) -> list[Sought]:
    """Return what is looked for, without stop words, unless there are no others."""
    sought = list(_sought(words))
    idle = stop_words([word.text for word in words])
    return [one for one in sought if one.text not in idle] or sought


def _sought(words: Sequence[Word]) -> Iterator[Sought]:
    for word in words:
        if word.prefix and (expression := build_match(word)):
            yield Sought(f"{word.text}*", (Piece(expression),), (word.text,), prefix=True)
    for unit in units_of([word.text for word in words if not word.prefix]):
        if whole := match_any(unit.spellings):
            parts = filter(None, (match_any([part]) for part in unit.parts))
            found = (Piece(whole), *(Piece(part, Kind.PART) for part in parts))
            yield Sought(unit.text, found, unit.spellings, unit.parts)


def counted(sought: Sequence[Sought], counts: Sequence[int], notes: int) -> list[Sought]:
    """Return the words with the number of notes that have each whole one, of all ``notes``.

    Words that more than half of the notes have are left out, unless no other is in any note.
    """
    most = notes * _MOST_HELD if notes >= _FEWEST_NOTES else notes
    known = [
        replace(
            one,
            pieces=(replace(one.whole, notes=count), *one.pieces[1:]),
            weight=math.log1p(notes / (1 + count)) / math.log1p(notes or 1),
        )
        for one, count in zip(sought, counts, strict=True)
    ]
    rare = [one for one in known if one.notes <= most]
    return rare if any(one.notes for one in rare) else known


def places_of(sought: Sequence[Sought], *, inside: bool) -> list[Term]:
    """Return what shows in a text where the words stand; ``inside``: perhaps inside others."""
    return [
        term
        for one in sought
        for term in spelled(
            one.spellings,
            one.text,
            parts=one.parts,
            weight=one.weight,
            prefix=one.prefix,
            inside=inside,
        )
    ]


def choose(sought: Sequence[Sought], *, filtered: bool, count: Callable[[str], int]) -> Plan:
    """Choose the notes that are ranked. ``count`` tells how many notes an expression finds, without the trash."""
    pieces = [piece for one in sought for piece in one.pieces]
    known = [(number, piece) for number, piece in enumerate(pieces) if piece.notes]
    by_rarity = sorted(known[:_MOST_PIECES], key=lambda one: one[1].notes)
    if filtered and not (len(by_rarity) == 1 and by_rarity[0][1].notes > MOST_RANKED):
        return Plan(scored=tuple(by_rarity))
    chosen = list(_rarest(by_rarity))
    words_only = all(piece.kind is Kind.WHOLE for _, piece in by_rarity)
    if (
        chosen
        and words_only
        and 1 < len(by_rarity) <= _FEW_WORDS
        and (plan := _plan_held(by_rarity, (), count))
    ):
        return plan
    if chosen:
        base = " OR ".join(piece.expression for _, piece in chosen)
        return Plan(tuple(chosen), tuple(by_rarity[len(chosen) :]), base=f"({base})")
    for size in range(len(by_rarity), 1, -1):
        if plan := _plan_held(by_rarity[:size], by_rarity[size:], count):
            return plan
    return _plan_held(by_rarity[:1], by_rarity[1:], count) or Plan()


def _plan_held(
    held: Sequence[_Numbered], others: Sequence[_Numbered], count: Callable[[str], int]
) -> Plan | None:
    """Take the notes that have all of ``held``; None if they are too few."""
    if not held:
        return None
    base = f"({' AND '.join(piece.expression for _, piece in held)})"
    found = held[0][1].notes if len(held) == 1 else count(base)
    if found < FEWEST:
        return None
    numbers = tuple(number for number, _ in held)
    return Plan((), tuple(others), numbers, base, newest=found > MOST_RANKED)


def _rarest(by_rarity: Sequence[_Numbered]) -> Iterator[_Numbered]:
    total = 0
    for number, piece in by_rarity:
        total += piece.notes
        if total > MOST_RANKED:
            return
        yield number, piece


def in_order(
    rows: Iterable[tuple[int, int, int, float]], arms: Sequence[Arm], *, newest_first: bool
) -> list[Scored]:
    """Return each note once, the best first; ``rows``: its pk, its time, the number of an arm, the score there.

    ``newest_first`` decides between equals.
    """
    notes: dict[int, Scored] = {}
    for pk, time, number, score in rows:
        arm = arms[number]
        if (note := notes.get(pk)) is None:
            note = notes[pk] = Scored(pk, time)
        note.has |= arm.has
        if arm.grade:
            note.grade = max(note.grade, arm.grade)
        note.score += score * arm.weight
        if arm.adds:
            note.added += 1
        else:
            note.base += score
    for note in notes.values():
        if note.added:
            note.score -= note.added * note.base
    sign = -1 if newest_first else 1
    return sorted(
        notes.values(),
        key=lambda one: (-one.grade, one.score, sign * one.sorted, -sign * one.pk),
    )


def fuse(by_words: Sequence[int], by_meaning: Sequence[int]) -> list[int]:
    """Return the notes of two rankings in one, by reciprocal ranks (Cormack, Clarke and Buettcher, 2009)."""
    scores: dict[int, float] = {}
    for ranked, weight in ((by_words, 1.0), (by_meaning, _MEANING_WEIGHT)):
        for rank, pk in enumerate(ranked):
            scores[pk] = scores.get(pk, 0.0) + weight / (_FUSED_AT + rank)
    return sorted(scores, key=lambda pk: -scores[pk])


def missing_words(sought: Sequence[Sought], has: int) -> tuple[str, ...]:
    """Return the words that a note lacks; ``has``: the numbers of the pieces that it has, as bits."""
    missing, number = [], 0
    for one in sought:
        bits = [has >> at & 1 for at in range(number, number + len(one.pieces))]
        number += len(one.pieces)
        parts = [
            bit for bit, piece in zip(bits, one.pieces, strict=True) if piece.kind is Kind.PART
        ]
        whole = [
            bit for bit, piece in zip(bits, one.pieces, strict=True) if piece.kind is not Kind.PART
        ]
        if not (any(whole) or (parts and sum(parts) >= _ENOUGH_PARTS * len(parts))):
            missing.append(one.text)
    return tuple(missing)


def is_inside(sought: Sequence[Sought], has: int) -> bool:
    """Tell whether a note has one of the words only inside others."""
    number = 0
    for one in sought:
        kinds = {piece.kind for at, piece in enumerate(one.pieces, number) if has >> at & 1}
        number += len(one.pieces)
        if Kind.INSIDE in kinds and Kind.WHOLE not in kinds:
            return True
    return False
