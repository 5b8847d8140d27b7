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
    """Hold what a number lies between: ``least <= number < below``."""

    least: float | None = None
    below: float | None = None


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
    """Match notes with a task that is all of this. ``due`` and ``scheduled``: within these days, in epoch seconds."""

    is_open: bool | None = None
    state: str | None = None
    due: Bounds | None = None
    scheduled: Bounds | None = None


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
    """Hold one search. The default is every note outside the trash, last changed first.

    ``tags``: all of them; ``excluded_tags``: none of them; compared by ``characters.tag_key``. ``folders`` and
    ``excluded_folders`` likewise, in a store with paths, compared by ``path_key``.
    ``after`` and ``before`` are Unix epoch seconds: ``after <= modified_at < before``; ``created_after``
    and ``created_before`` likewise for ``created_at``.
    Words and phrases are also looked for in tags if ``in_tags``.
    With ``terms`` the best match comes first and the sort decides between equals.
    """

    terms: Condition | None = None
    tags: tuple[str, ...] = ()
    excluded_tags: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    excluded_folders: tuple[str, ...] = ()
    before: int | None = None
    after: int | None = None
    created_before: int | None = None
    created_after: int | None = None
    in_tags: bool = True
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
