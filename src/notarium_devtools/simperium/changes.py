"""Describe changes of JSON objects: differences, the service's merge, and entries of the change feed.

Pure. It reproduces the service's own, dangerous merge (see docs/simulator.md): texts by fuzzy patching,
everything else by "the later poster wins". Differences of texts become diff-match-patch deltas, lists are
replaced whole, nested objects nest. The feed may come as a busy service sends it: repeated, reordered,
aggregated. A reader that follows the rules must survive that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from diff_match_patch import diff_match_patch

from notarium_devtools.http_faults import Faults, Rule

Value = Mapping[str, Any]
"""A stored JSON object. Never changed in place once stored."""

Operations = dict[str, Any]

_BARE_IN_DELTAS = "!~*'();/?:@&=+$,# "
_DELETE, _INSERT = -1, 1
_MISSING = object()


@dataclass(frozen=True, slots=True)
class Change:
    """Hold one step of one object; ``before`` or ``after`` is None if it did not exist."""

    id: str
    cv: str
    before: Value | None
    after: Value | None
    start_version: int
    end_version: int
    ccids: tuple[str, ...]
    clientid: str


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


def rebase(base: Value, posted: Value, head: Value) -> Value:
    """Apply the difference from ``base`` to ``posted`` to ``head``."""
    result = dict(head)
    for key in {**base, **posted}:
        merged = _merged(
            base.get(key, _MISSING), posted.get(key, _MISSING), head.get(key, _MISSING)
        )
        if merged is _MISSING:
            result.pop(key, None)
        else:
            result[key] = merged
    return result


def _merged(base: Any, posted: Any, head: Any) -> Any:
    if same(base, posted):
        return head
    if same(base, head):
        return posted
    if posted is _MISSING:
        # Removed here, edited there: the edit survives.
        return head
    if isinstance(base, str) and isinstance(posted, str) and isinstance(head, str):
        return _patched(base, posted, head)
    return posted


def _patched(base: str, posted: str, head: str) -> str:
    matcher = diff_match_patch()
    text, _applied = matcher.patch_apply(matcher.patch_make(base, posted), head)
    # Patches that found no place are dropped without a word, as the service does.
    return str(text)


@dataclass(frozen=True, slots=True)
class Distortions:
    """Hold what the feed does to its entries; the default is nothing."""

    aggregate: bool = False
    """All changes of one object become one entry that spans several versions."""
    duplicate: bool = False
    """Every entry comes twice."""
    reorder: bool = False
    """All entries but the last come in reverse order."""


def feed_entries(changes: Sequence[Change], distortions: Distortions) -> list[dict[str, Any]]:
    """Return the JSON array of a feed answer. The last entry always carries the newest cv."""
    if distortions.aggregate:
        changes = _aggregated(changes)
    entries = [_entry(change) for change in changes]
    if distortions.duplicate:
        entries = [entry for entry in entries for _ in range(2)]
    if distortions.reorder:
        entries = entries[-2::-1] + entries[-1:]
    return entries


def _entry(change: Change) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "clientid": change.clientid,
        "cv": change.cv,
        "ev": change.end_version,
        "id": change.id,
        "o": "-" if change.after is None else "M",
        "ccids": list(change.ccids),
    }
    if change.before is not None:
        entry["sv"] = change.start_version
    if change.after is not None:
        entry["v"] = object_difference(change.before or {}, change.after)
    return entry


def _aggregated(changes: Sequence[Change]) -> list[Change]:
    spans: dict[tuple[str, str], Change] = {}
    births: dict[str, str] = {}
    for change in changes:
        if change.before is None:
            # Made anew after a removal: its version count may have begun again.
            births[change.id] = change.cv
        life = (change.id, births.get(change.id, ""))
        # Popped and put back, so that a span stands where its last change stood.
        earlier = spans.pop(life, None)
        spans[life] = change if earlier is None else _span(earlier, change)
    return list(spans.values())


def _span(first: Change, last: Change) -> Change:
    return replace(
        last, before=first.before, start_version=first.start_version, ccids=first.ccids + last.ccids
    )


class SimperiumFaults(Faults):
    """Hold the active rules, and the form of the change feed."""

    def __init__(self) -> None:
        super().__init__()
        self.feed = Distortions()

    def forget_cv(self, *, nth: int = 1, times: int = 1) -> Rule:
        """Answer 404 to ``GET /changes`` as if the cv had aged out."""
        return self.status(404, method="GET", path="*/changes", nth=nth, times=times)

    def distort_feed(
        self, *, aggregate: bool = False, duplicate: bool = False, reorder: bool = False
    ) -> None:
        """Send such entries in the change feed from now on; without arguments, normal ones."""
        self.feed = Distortions(aggregate=aggregate, duplicate=duplicate, reorder=reorder)

    def clear(self) -> None:
        """Drop every rule and distortion."""
        super().clear()
        self.feed = Distortions()
