"""What a regular expression can cost, read off its parts instead of a clock."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import inf
from re import _constants as code  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_ALPHABET = frozenset(map(chr, range(0x250)))
_MANY = 64
_REPEATS = {code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT}
_LOOKS = {code.ASSERT, code.ASSERT_NOT}
_CATEGORIES = {
    code.CATEGORY_SPACE: str.isspace,
    code.CATEGORY_DIGIT: str.isdigit,
    code.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
}


def length_of_a_match(pattern: re.Pattern[str]) -> float:
    """The most characters a match may have; ``inf`` if there is no end to it."""
    longest = parser.parse(pattern.pattern, pattern.flags).getwidth()[1]
    return inf if longest >= parser.MAXWIDTH else longest


def ways_to_match(pattern: re.Pattern[str]) -> float:
    """In how many ways the repeats can share out the text from one place on; 1 if what follows
    a repeat never begins like what it repeats. Times the length of a match that bounds the steps
    from each place, so that the time is linear in the length of the text.
    """
    whole = parser.parse(pattern.pattern, pattern.flags)
    return _ways(whole, frozenset(), caseless=bool(whole.state.flags & re.IGNORECASE))


def _ways(parts: Iterable[Any], after: frozenset[str], *, caseless: bool) -> float:
    product, items = 1.0, list(parts)
    for number, (kind, given) in enumerate(items):
        follows = _first([*items[number + 1 :]], after, caseless=caseless)
        if kind in _REPEATS:
            least, most, body = given
            begins = _first(body, frozenset(), caseless=caseless)
            if most is code.MAXREPEAT:
                return inf
            if most > least and begins & follows:
                product *= most - least + 1
            # The last part of the body is followed by the body again.
            follows = follows | begins if most > 1 else follows
            inside = _ways(body, follows, caseless=caseless)
            product *= inf if inside > 1 and most > _MANY else inside**most
            continue
        for part in _insides(kind, given):
            product *= _ways(part, follows, caseless=caseless)
        if kind is code.BRANCH:
            product *= _alike(given[1], caseless=caseless)
    return product


def _alike(branches: list[Any], *, caseless: bool) -> int:
    """How many branches may begin with the same character; at least 1."""
    begins = [_first(branch, frozenset(), caseless=caseless) for branch in branches]
    return max(sum(one in begin for begin in begins) for one in _ALPHABET) or 1


def _insides(kind: Any, given: Any) -> list[Any]:
    if kind in _REPEATS:
        return [given[2]]
    if kind is code.SUBPATTERN:
        return [given[3]]
    if kind is code.BRANCH:
        return [*given[1]]
    return [given[1]] if kind in _LOOKS else []


def _first(parts: Iterable[Any], after: frozenset[str], *, caseless: bool) -> frozenset[str]:
    """The characters that may come next. Where a condition stands: any."""
    found: frozenset[str] = frozenset()
    for kind, given in parts:
        if kind in _LOOKS:
            return _ALPHABET
        if kind is code.AT:
            continue
        inside = [_first(one, frozenset(), caseless=caseless) for one in _insides(kind, given)]
        found = found.union(*inside) if inside else found | _set(kind, given, caseless=caseless)
        if not _may_be_empty(kind, given):
            return found
    return found | after


def _may_be_empty(kind: Any, given: Any) -> bool:
    if kind in _REPEATS and given[0] == 0:
        return True
    return bool(_insides(kind, given)) and any(
        all(_may_be_empty(*part) for part in inside) for inside in _insides(kind, given)
    )


def _set(kind: Any, given: Any, *, caseless: bool) -> frozenset[str]:
    if kind is code.IN:
        found = frozenset().union(*(_set(*one, caseless=caseless) for one in given))
        return _ALPHABET - found if given[0][0] is code.NEGATE else found
    if kind is code.LITERAL:
        found = frozenset({chr(given)})
    elif kind is code.RANGE:
        found = frozenset(map(chr, range(given[0], min(given[1], 0x24F) + 1)))
    elif kind is code.NEGATE:
        found = frozenset()
    elif kind is code.CATEGORY and given in _CATEGORIES:
        found = frozenset(filter(_CATEGORIES[given], _ALPHABET))
    else:
        return _ALPHABET
    return found | {one.swapcase() for one in found} if caseless else found
