"""Apply Simperium's ``jsondiff`` differences to the very object they were made from. Pure.

A difference is only ever applied exactly. Whatever is ambiguous, does not fit or looks like broken text
raises ``DoesNotFit``, and the caller fetches the whole object instead: a guess would be a note that
silently differs from the service's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

_REPLACEMENT = "\ufffd"

Operation = Mapping[str, Any]


class DoesNotFit(Exception):
    """The difference cannot be applied with certainty."""


def apply_to_object(before: Mapping[str, Any], operations: Any) -> dict[str, Any]:
    """Make a new object: ``before`` with ``operations`` (key to operation) applied.

    Raises ``DoesNotFit``; ``before`` is not changed.
    """
    after = dict(before)
    for key, operation in _mapping(operations).items():
        _apply_to_key(after, key, _mapping(operation))
    return after


def _apply_to_key(after: dict[str, Any], key: str, operation: Operation) -> None:
    kind = operation.get("o")
    if kind == "+":
        after[key] = _value(operation)
        return
    if key not in after:
        raise DoesNotFit
    if kind == "-":
        del after[key]
    else:
        after[key] = _changed(after[key], operation)


def _changed(old: Any, operation: Operation) -> Any:
    kind = operation.get("o")
    if kind == "r":
        return _value(operation)
    change = _CHANGES.get(kind) if isinstance(kind, str) else None
    if change is None:
        raise DoesNotFit
    return change(old, _value(operation))


def _text(old: Any, delta: Any) -> str:
    """Apply ``d``: a diff-match-patch delta; its lengths count UTF-16 units and must add up."""
    if not isinstance(old, str) or not isinstance(delta, str):
        raise DoesNotFit
    from diff_match_patch import diff_match_patch  # noqa: PLC0415 - only texts need it

    engine = diff_match_patch()
    try:
        new = str(engine.diff_text2(engine.diff_fromDelta(old, delta)))
    except (ValueError, IndexError):  # UnicodeError is a ValueError
        raise DoesNotFit from None
    # Half a surrogate pair in the delta comes out of the library as a replacement character.
    if new.count(_REPLACEMENT) > old.count(_REPLACEMENT):
        raise DoesNotFit
    return new


def _increment(old: Any, step: Any) -> int:
    # A sum of floats need not be the number that was meant.
    if type(old) is not int or type(step) is not int:
        raise DoesNotFit
    return old + step


def _object(old: Any, operations: Any) -> dict[str, Any]:
    return apply_to_object(_mapping(old), operations)


def _list(old: Any, operations: Any) -> list[Any]:
    """Apply ``L``: index to operation; the indexes are those of the old list."""
    if not isinstance(old, list):
        raise DoesNotFit
    steps = {_index(key): _mapping(step) for key, step in _mapping(operations).items()}
    added = [index for index, step in steps.items() if step.get("o") == "+"]
    others = steps.keys() - set(added)
    removes = any(step.get("o") == "-" for step in steps.values())
    # Implementations shift indexes differently; only where nothing shifts is it certain.
    if added and (removes or min(added) < max(others, default=-1)):
        raise DoesNotFit
    new = list(old)
    for index in sorted(steps, reverse=removes):
        _apply_to_item(new, index, steps[index])
    return new


def _apply_to_item(new: list[Any], index: int, step: Operation) -> None:
    kind = step.get("o")
    if index >= len(new) + (kind == "+"):
        raise DoesNotFit
    if kind == "+":
        new.insert(index, _value(step))
    elif kind == "-":
        del new[index]
    else:
        new[index] = _changed(new[index], step)


def _lines(old: Any, delta: Any) -> list[Any]:
    """Apply ``dL``: a text delta over the items, each as a line of JSON."""
    if not isinstance(old, list) or not all(isinstance(item, str) for item in old):
        raise DoesNotFit
    before = "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in old)
    try:
        after = [json.loads(line) for line in _text(before, delta).split("\n") if line]
    except ValueError:
        raise DoesNotFit from None
    if not all(isinstance(item, str) for item in after):
        raise DoesNotFit
    return after


_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "d": _text,
    "I": _increment,
    "O": _object,
    "L": _list,
    "dL": _lines,
}


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise DoesNotFit
    return value


def _value(operation: Operation) -> Any:
    if "v" not in operation:
        raise DoesNotFit
    return operation["v"]


def _index(key: str) -> int:
    if not (key.isascii() and key.isdecimal()):
        raise DoesNotFit
    return int(key)
