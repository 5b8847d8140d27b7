"""Compare the paths of notes, in stores whose ids are paths: parts with ``/`` between them. Pure.

Two spellings of a path are one path, as with tags (``path_key``): letter case and the form of composed letters do not
tell folders apart, because many file systems do not. A prefix ends where a part ends: ``Work`` covers
``Work/plan.md`` and ``work/a/b.md``, neither ``Workshop/plan.md`` nor ``Work.md``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from mcp_notarium.domain.characters import path_key

_ENDING_OR_DIGITS = re.compile(r"( [0-9a-f]{8})?(\.md|\.markdown)?\Z", re.IGNORECASE)


def with_digits(title: str, *, seed: str) -> str:
    """Return a title that no note has, in the place of digits that this has given it before."""
    digits = hashlib.sha256(f"{seed}/{title}".encode()).hexdigest()[:8]
    return f"{_ENDING_OR_DIGITS.sub('', title, count=1)} {digits}"


def clean_prefix(text: str) -> str | None:
    """Return a folder or note that a person has typed, without a slash at its end; None if it names neither."""
    prefix = text.removesuffix("/")
    parts = prefix.split("/")
    wrong = "\\" in prefix or any(ord(character) < ord(" ") for character in prefix)
    return None if wrong or any(part.strip() in ("", ".", "..") for part in parts) else prefix


class PathPrefixes:
    """Hold folders and notes, to be asked whether a path is one of them or below one."""

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._typed = {path_key(one): one for one in sorted(prefixes, reverse=True)}

    @property
    def keys(self) -> list[str]:
        """Return the keys of the prefixes, in order."""
        return sorted(self._typed)

    def find(self, path: str) -> str | None:
        """Return the shortest prefix, as typed, that covers the path; None: none does."""
        key = path_key(path)
        ends = [at for at, character in enumerate(key) if character == "/"]
        return next(
            (self._typed[key[:end]] for end in (*ends, len(key)) if key[:end] in self._typed), None
        )
