"""Decide which labels of a note stay and which are made, so that the values of each name have their order. Pure."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str, str]
"""Name and value of a label."""


def arrange(held: Sequence[Pair], wanted: Sequence[Pair]) -> tuple[list[int], list[Pair]]:
    """Return the places of the held labels that stay, and the labels to make.

    A new label comes behind all others. So of a name whose values change those stay that the wanted values begin with.
    """
    left = {
        name: list(dict.fromkeys(value for one, value in wanted if one == name))
        for name, _ in wanted
    }
    same = {
        name
        for name, values in left.items()
        if values == list(dict.fromkeys(value for one, value in held if one == name))
    }
    stay = []
    for place, (name, value) in enumerate(held):
        values = left.get(name, [])
        if name in same or values[:1] == [value]:
            stay.append(place)
            left[name] = [one for one in values if one != value]
    return stay, [(name, value) for name, values in left.items() for value in values]
