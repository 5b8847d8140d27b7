"""Decide whether a new text drops most of the old one. Pure.

Kept is what both texts contain: whole lines in any order, or runs of three words. So sorting a list,
indenting, and rewording here and there keep a text; writing something else over it does not.
"""

from __future__ import annotations

import re
from collections import Counter

SMALL = 500
"""Texts up to this many characters may be overwritten without asking."""

KEPT_AT_LEAST = 0.1

# Scripts without spaces count by character: Thai to Myanmar, Khmer, kana, Han, Hangul.
_WORDS = re.compile(r"[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+")


def drops_most(old: str, new: str) -> bool:
    """Return whether ``new`` loses more than nine tenths of a text that is worth asking about."""
    if len(old) <= SMALL or not old.strip():
        return False
    return _kept_lines(old, new) < KEPT_AT_LEAST and _kept_runs(old, new) < KEPT_AT_LEAST


def _kept_lines(old: str, new: str) -> float:
    """Return the part of the old lines, by length, that the new text has too."""
    before, after = Counter(_stripped(old)), Counter(_stripped(new))
    whole = sum(len(line) * times for line, times in before.items())
    kept = sum(len(line) * times for line, times in (before & after).items())
    return kept / whole


def _stripped(text: str) -> list[str]:
    return [stripped for line in text.splitlines() if (stripped := line.strip())]


def _kept_runs(old: str, new: str) -> float:
    """Return the part of the old runs of three words that the new text has too."""
    before, after = _runs(old), _runs(new)
    return (before & after).total() / before.total() if before else 0.0


def _runs(text: str) -> Counter[tuple[str, str, str]]:
    words = _WORDS.findall(text)
    return Counter(zip(words, words[1:], words[2:], strict=False))
