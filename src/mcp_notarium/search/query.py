"""Define a search query as frozen values, apart from its syntax and its SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

Trash = Literal["active", "trashed", "any"]
SortBy = Literal["modified_at", "created_at"]
SortOrder = Literal["ASC", "DESC"]


@dataclass(frozen=True, slots=True)
class Word:
    """Match a word as written; with ``prefix`` also every word that begins with it."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Ranked:
    """Match notes with any of at least two words; those with more and rarer ones come first."""

    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Phrase:
    """Match words next to each other in this order."""

    text: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """Match notes with this tag, as one of several alternatives."""

    tag: str


@dataclass(frozen=True, slots=True)
class InFolder:
    """Match notes at this path or below it, as one of several alternatives."""

    path: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """Hold what a number lies between."""

    least: float | None = None
    """No number is less. None: no bound."""
    below: float | None = None
    """Every number is less. None: no bound."""


@dataclass(frozen=True, slots=True)
class HasProperty:
    """Match notes with this property: of any value, or with the value, or with one within any of the bounds."""

    name: str
    value: str | None = None
    numbers: Bounds | None = None
    dates: Bounds | None = None
    """Epoch seconds, of a time without a zone as if it were UTC."""


@dataclass(frozen=True, slots=True)
class HasTags:
    """Match notes with any tag."""


@dataclass(frozen=True, slots=True)
class HasTask:
    """Match notes with a task that is all of this."""

    is_open: bool | None = None
    state: str | None = None
    due: Bounds | None = None
    """Within these days, in epoch seconds."""
    scheduled: Bounds | None = None
    """The same."""


@dataclass(frozen=True, slots=True)
class Not:
    """Match notes for which the condition does not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """Match all of at least two conditions."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Match any of at least two conditions."""

    conditions: tuple[Condition, ...]


Narrow = InFolder | HasProperty | HasTags | HasTask
"""A condition whose notes an index of its own finds."""
Condition = Word | Ranked | Phrase | Tagged | Narrow | Not | And | Or


@dataclass(frozen=True, slots=True)
class Query:
    """Hold one search. The default is every note outside the trash, last changed first. Times are Unix epoch seconds."""

    terms: Condition | None = None
    """With these the best match comes first, and the sort decides between equals."""
    tags: tuple[str, ...] = ()
    """All of these, compared by ``characters.tag_key``."""
    excluded_tags: tuple[str, ...] = ()
    """None of these."""
    folders: tuple[str, ...] = ()
    """All of these, in a store with paths, compared by ``path_key``."""
    excluded_folders: tuple[str, ...] = ()
    """None of these."""
    before: int | None = None
    """``after <= modified_at < before``."""
    after: int | None = None
    created_before: int | None = None
    """The same of ``created_at``."""
    created_after: int | None = None
    in_tags: bool = True
    """Words and phrases are looked for in tags, too."""
    trash: Trash = "active"
    sort_by: SortBy = "modified_at"
    sort_order: SortOrder = "DESC"


def with_all_words(query: Query) -> Query:
    """Return the query that demands all of its bare words instead of ranking by them."""
    match query.terms:
        case Ranked(words):
            return replace(query, terms=And(words))
        case And((Ranked(words), *others)):
            return replace(query, terms=And((*words, *others)))
        case _:
            return query


def conditions_in(condition: Condition | None, *, excluded: bool = True) -> Iterator[Condition]:
    """Yield each condition that is not made of others; ``excluded``: also what must not hold."""
    match condition:
        case Ranked(conditions) | And(conditions) | Or(conditions):
            for one in conditions:
                yield from conditions_in(one, excluded=excluded)
        case Not(inner):
            if excluded:
                yield from conditions_in(inner)
        case None:
            return
        case _:
            yield condition
