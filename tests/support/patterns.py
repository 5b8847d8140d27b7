"""What a regular expression can cost, read off its parts instead of a clock.

Reads the syntax itself: ``re`` shows its own parse tree under private names only. Which characters a
single item matches is asked of ``re``. Refuses what it does not know: backreferences, conditions,
flags for a part of the pattern, the verbose form.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

_TOKEN = re.compile(
    r"""(?P<one>\[\^?\]?(?:\\.|[^\]\\])*\]
           |\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}|\\[^0-9ABbNUuxZ]
           |[^\\\[()|*+?^$])
       |(?P<open>\((?:\?(?::|>|P<\w+>|(?P<look><?[=!])))?(?!\?))
       |(?P<close>\))
       |(?P<bar>\|)
       |(?P<edge>[\^$]|\\[ABbZ])""",
    re.VERBOSE | re.DOTALL,
)
_REPEAT = re.compile(r"(?:(?P<sign>[*+?])|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})[+?]?")
_SIGNS = {"*": (0, inf), "+": (1, inf), "?": (0, 1)}
_FLAGS = re.compile(r"\(\?[aims]+\)")
_MANY = 64


@dataclass(frozen=True)
class _Part:
    """An item and how often it is repeated: a character of ``one``, or a group of ``branches``.

    ``look``: it takes no character, and is a condition on what stands there.
    """

    one: frozenset[str] = frozenset()
    branches: tuple[tuple[_Part, ...], ...] = ()
    look: bool = False
    least: float = 1
    most: float = 1

    @property
    def longest(self) -> float:
        if self.look:
            return 0
        once = max((sum(part.longest for part in branch) for branch in self.branches), default=1)
        return self.most * once if once else 0

    @property
    def may_be_empty(self) -> bool:
        return (
            self.look
            or not self.least
            or any(all(part.may_be_empty for part in branch) for branch in self.branches)
        )


def length_of_a_match(pattern: re.Pattern[str]) -> float:
    """The most characters a match may have; ``inf`` if there is no end to it."""
    return _Reader(pattern).whole.longest


def ways_to_match(pattern: re.Pattern[str]) -> float:
    """In how many ways the repeats can share out the text from one place on; 1 if what follows
    a repeat never begins like what it repeats. Times the length of a match that bounds the steps
    from each place, so that the time is linear in the length of the text.
    """
    reader = _Reader(pattern)
    return _ways((reader.whole,), frozenset(), reader.alphabet)


class _Reader:
    """``whole``: a pattern as one group. ``alphabet``: the characters that stand for all."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        if pattern.flags & re.VERBOSE:
            raise ValueError("the verbose form is not read")
        self._flags = pattern.flags
        self._text = _FLAGS.sub("", pattern.pattern, count=1)
        near = {ord(one) + step for one in self._text for step in (-1, 0, 1)}
        codes = {*range(0x250)} | near
        self.alphabet = frozenset(chr(code) for code in codes if 0 <= code <= sys.maxunicode)
        self._every = "".join(sorted(self.alphabet))
        self._at = 0
        self.whole = _Part(branches=self._branches())
        if self._at < len(self._text):
            raise ValueError(f"no group is open at {self._text[self._at :]!r}")

    def _branches(self) -> tuple[tuple[_Part, ...], ...]:
        """What stands up to the end of the group, or of the pattern."""
        branches: list[list[_Part]] = [[]]
        while self._at < len(self._text):
            token = _TOKEN.match(self._text, self._at)
            if token is None:
                raise ValueError(f"not understood: {self._text[self._at :]!r}")
            if token["close"]:
                break
            self._at = token.end()
            if token["bar"]:
                branches.append([])
            elif not token["edge"]:
                branches[-1].append(self._part(token))
        return tuple(map(tuple, branches))

    def _part(self, token: re.Match[str]) -> _Part:
        one: frozenset[str] = frozenset()
        branches: tuple[tuple[_Part, ...], ...] = ()
        if token["open"]:
            branches = self._branches()
            self._at += 1
        else:
            one = frozenset(re.findall(token["one"], self._every, self._flags))
        least, most = self._repeat()
        return _Part(one, branches, look=bool(token["look"]), least=least, most=most)

    def _repeat(self) -> tuple[float, float]:
        found = _REPEAT.match(self._text, self._at)
        if found is None or not (found["sign"] or found["least"] or found["most"]):
            return 1, 1
        self._at = found.end()
        if found["sign"]:
            return _SIGNS[found["sign"]]
        least = int(found["least"] or 0)
        if not found["comma"]:
            return least, least
        return least, int(found["most"]) if found["most"] else inf


def _ways(parts: Sequence[_Part], after: frozenset[str], alphabet: frozenset[str]) -> float:
    product = 1.0
    for number, part in enumerate(parts):
        follows = _first(parts[number + 1 :], after, alphabet)
        begins = _first_once(part, alphabet)
        if part.most == inf:
            return inf
        if part.most > part.least and begins & follows:
            product *= part.most - part.least + 1
        # The last part of the body is followed by the body again.
        follows |= begins if part.most > 1 else frozenset()
        inside = prod(_ways(branch, follows, alphabet) for branch in part.branches)
        inside *= _alike(part.branches, alphabet)
        product *= inf if inside > 1 and part.most > _MANY else inside**part.most
    return product


def _alike(branches: Sequence[Sequence[_Part]], alphabet: frozenset[str]) -> int:
    """How many branches may begin with the same character; at least 1."""
    begins = [_first(branch, frozenset(), alphabet) for branch in branches]
    return max(sum(one in begin for begin in begins) for one in alphabet) or 1


def _first(
    parts: Sequence[_Part], after: frozenset[str], alphabet: frozenset[str]
) -> frozenset[str]:
    """The characters that may come next. Where a condition stands: any."""
    found: frozenset[str] = frozenset()
    for part in parts:
        if part.look:
            return alphabet
        found |= _first_once(part, alphabet)
        if not part.may_be_empty:
            return found
    return found | after


def _first_once(part: _Part, alphabet: frozenset[str]) -> frozenset[str]:
    """The characters that the item may begin with."""
    inside = (_first(branch, frozenset(), alphabet) for branch in part.branches)
    return part.one.union(*inside)
