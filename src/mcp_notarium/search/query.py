"""What a search asks for, as frozen values. Knows neither how it was written nor how it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Trash = Literal["active", "trashed", "any"]
SortBy = Literal["modified_at", "created_at"]
SortOrder = Literal["ASC", "DESC"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written; with ``prefix`` also every word that begins with it."""

    text: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand next to each other in this order."""

    text: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """Notes with this tag, where a tag is one alternative of several."""

    tag: str


@dataclass(frozen=True, slots=True)
class Not:
    """Notes for which the condition does not hold."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of them; at least two."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them; at least two."""

    conditions: tuple[Condition, ...]


Condition = Word | Phrase | Tagged | Not | And | Or


@dataclass(frozen=True, slots=True)
class Query:
    """One search. The default is every note that is not in the trash, last changed first.

    ``tags``: all of them; ``any_tags``: at least one of them, if there are any (a policy's allowed
    tags); ``excluded_tags``: none of them; compared by ``query.fold.tag_key``.
    ``after`` and ``before`` are Unix epoch seconds: ``after <= modified_at < before``.
    With ``terms`` the best match comes first and the sort decides between equals.
    """

    terms: Condition | None = None
    tags: tuple[str, ...] = ()
    excluded_tags: tuple[str, ...] = ()
    any_tags: tuple[str, ...] = ()
    before: int | None = None
    after: int | None = None
    trash: Trash = "active"
    sort_by: SortBy = "modified_at"
    sort_order: SortOrder = "DESC"
