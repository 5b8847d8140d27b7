"""Merge a write that was made from an older version, as the service does.

It reproduces the service's own, dangerous merge (see docs/simulator.md): texts by fuzzy patching,
everything else by "the later poster wins". It knows no versions and no storage.
"""

from __future__ import annotations

from typing import Any

from diff_match_patch import diff_match_patch

from notarium_devtools.simperium.jsondiff import Value, same

_MISSING = object()


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
