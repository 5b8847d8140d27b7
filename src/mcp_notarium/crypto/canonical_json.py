"""Encode and decode canonical JSON: one byte form per value, and a strict reader.

Keys are sorted; there are no spaces, only ASCII and integers. Reading refuses duplicate keys, fractions,
NaN, huge numbers, deep nesting and more than ``LARGEST`` bytes. The caller checks whether bytes *are*
canonical by encoding again.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from mcp_notarium.crypto.errors import KeyFileDamaged

LARGEST = 65_536
_DIGITS = 16
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def encode(value: Any) -> bytes:
    """Return the one byte form of a JSON value without fractions."""
    return _ENCODER.encode(value).encode("ascii")


def decode(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in these bytes. Raises ``KeyFileDamaged`` and nothing else."""
    if len(raw) > LARGEST:  # defence: key-file-size
        raise KeyFileDamaged("it is larger than 64 KiB")
    try:
        value = json.loads(
            raw.decode("ascii"),
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=_refuse,
            parse_constant=_refuse,
        )
    # defence: key-file-depth -RecursionError
    except (ValueError, RecursionError):  # defence: key-file-not-json -ValueError
        raise KeyFileDamaged("it is not the JSON that was written") from None
    if not isinstance(value, dict):
        raise KeyFileDamaged("it is not a JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # defence: key-file-no-name-twice
        raise ValueError("a name stands twice")
    return found


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:  # defence: key-file-no-huge-number
        raise ValueError("a number is too long")
    return int(digits)


def _refuse(_text: str) -> NoReturn:
    raise ValueError("only whole numbers are written")
