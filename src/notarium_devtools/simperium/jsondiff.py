"""Compute differences between two JSON objects in the form of the change feed.

Texts become diff-match-patch deltas, lists are replaced whole, nested objects nest. It makes
differences and never applies them: the reader of the feed does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from diff_match_patch import diff_match_patch

Value = Mapping[str, Any]
"""A stored JSON object. Never changed in place once stored."""

Operations = dict[str, Any]

_BARE_IN_DELTAS = "!~*'();/?:@&=+$,# "
_DELETE, _INSERT = -1, 1


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; unlike Python, ``true`` is not 1 here."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def object_difference(before: Value, after: Value) -> Operations:
    """Return the operations, by key, that turn ``before`` into ``after``; empty if they are equal."""
    operations: Operations = {key: {"o": "-"} for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            operations[key] = {"o": "+", "v": value}
        elif not same(before[key], value):
            operations[key] = _changed(before[key], value)
    return operations


def text_delta(before: str, after: str) -> str:
    """Return a diff-match-patch delta; lengths count UTF-16 units, inserted text is percent-encoded."""
    matcher = diff_match_patch()
    steps = matcher.diff_main(before, after)
    if len(steps) > 2:  # noqa: PLR2004 - the library's own rule for when cleaning up pays
        matcher.diff_cleanupEfficiency(steps)
    return "\t".join(_step(kind, text) for kind, text in steps)


def _changed(before: Any, after: Any) -> Operations:
    if isinstance(before, str) and isinstance(after, str):
        return {"o": "d", "v": text_delta(before, after)}
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return {"o": "O", "v": object_difference(before, after)}
    return {"o": "r", "v": after}


def _step(kind: int, text: str) -> str:
    # Half a surrogate pair goes out percent-encoded as it is: real accounts hold such texts.
    if kind == _INSERT:
        return "+" + quote(text.encode("utf-8", "surrogatepass"), safe=_BARE_IN_DELTAS)
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return f"{'-' if kind == _DELETE else '='}{units}"
