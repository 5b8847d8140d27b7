"""Tell which part of a text became which part of its edited form. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

_MOST_COMPARED = 400
_LONGEST_COMPARED = 2_000


def pair(old: list[str], new: list[str]) -> tuple[dict[int, int], set[int]]:
    """Return the old place of each new part that has one, and the old parts that may be in others now.

    Places rise on both sides. An old part that is in neither was removed.
    """
    pairs: dict[int, int] = {}
    doubtful: set[int] = set()
    for kind, a, b, c, d in _aligned(old, new):
        if kind == "equal":
            pairs.update(zip(range(c, d), range(a, b), strict=True))
        elif kind == "replace":
            found = {c + j: a + i for j, i in _similar(old[a:b], new[c:d]).items()}
            pairs |= found
            doubtful |= set(range(a, b)) - set(found.values())
    return dict(sorted(pairs.items())), doubtful


def _aligned(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield what became of which parts, as ``SequenceMatcher`` does; first and last ones stay if they can."""
    shorter = min(len(old), len(new))
    first = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    last = next((n for n in range(shorter - first) if old[-1 - n] != new[-1 - n]), shorter - first)
    inner = SequenceMatcher(
        None, old[first : len(old) - last], new[first : len(new) - last], autojunk=False
    )
    yield "equal", 0, first, 0, first
    for kind, a, b, c, d in inner.get_opcodes():
        yield kind, first + a, first + b, first + c, first + d
    yield "equal", len(old) - last, len(old), len(new) - last, len(new)


def _similar(old: list[str], new: list[str]) -> dict[int, int]:
    """Pair each part of the shorter side with the most similar one of the other; in order if they are as many."""
    if len(old) > len(new):
        return {j: i for i, j in _similar(new, old).items()}
    room = len(new) - len(old)
    if room * len(old) > _MOST_COMPARED:
        room = 0
    pairs, place = {}, 0
    for number, part in enumerate(old):
        choice = range(place, number + room + 1)
        best = max(choice, key=lambda one: _ratio(part, new[one])) if room else place
        pairs[best] = number
        place = best + 1
    return pairs


def _ratio(one: str, other: str) -> float:
    texts = one[:_LONGEST_COMPARED], other[:_LONGEST_COMPARED]
    return SequenceMatcher(None, *texts, autojunk=False).ratio()
