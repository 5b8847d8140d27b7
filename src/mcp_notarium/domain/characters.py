"""Make text fit to be stored and compared, and find its invisible characters. Pure.

Normalising keeps everything it need not change; finding changes nothing. A person does not see an
invisible character, and a model does: it can hide instructions, or show a text in another order than it
has. What belongs to ordinary writing is not reported: an emoji's joiners and its choice of colour, and
joiners between two letters of a script that spells with them (Arabic and Indic scripts, Khmer, Mongolian
and more).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

_SURROGATE = re.compile("[\ud800-\udfff]")

_PICTURES = "\u00a9\u00ae\u2190-\u27ff\u2900-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINED = (
    "\u0620-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18af"
    "\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc"
)
"""Letters and marks between which a joiner or non-joiner is part of the spelling."""

# Each pattern stands behind its character: a pattern that begins with a set is searched fast.
_NO_ORDINARY_JOINER = (
    f"(?!(?<=[{_PICTURES}\ufe0f]\u200d)[{_PICTURES}]|(?<=[{_JOINED}][\u200c\u200d])[{_JOINED}])"
)
_NO_ORDINARY_COLOUR = f"(?!(?<=[{_PICTURES}][\ufe0e\ufe0f])|(?<=[0-9#*]\ufe0f)\u20e3)"

_NO_CHARACTERS = "".join(
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
"""The last two code points of each plane."""

_CONTROL_ASCII = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)")

KINDS: Final[dict[str, re.Pattern[str]]] = {
    "control": re.compile(
        f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufdd0-\ufdef{_NO_CHARACTERS}]|\r(?!\n)"
    ),
    "bidi": re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"),
    "zero_width": re.compile(
        "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065"
        "\u206a-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\U00016fe4\U0001d159\U00013430-\U0001343f"
        "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e00ff\U000e01f0-\U000e0fff]"
        + _NO_ORDINARY_JOINER
    ),
    "variation": re.compile(
        "[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]" + _NO_ORDINARY_COLOUR
    ),
    "tag": re.compile("[\U000e0000-\U000e007f]"),
}
"""The kinds, in the order they are reported. Each pattern matches one character."""


def escape_surrogates(text: str) -> str:
    """Return JSON with lone surrogates as escapes, as JavaScript writes them."""
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def replace_surrogates(text: str) -> str:
    """Replace every lone surrogate by U+FFFD, so that the text can be encoded as UTF-8.

    Any code point U+D800 .. U+DFFF in a Python string is a lone one, also two in a row.
    """
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def has_lone_surrogate(value: Any) -> bool:
    """Return whether a JSON value holds a lone surrogate, which no encoding can carry."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except RecursionError:
        return False
    return False


def tag_key(tag: str) -> str:
    """Return what two spellings of one tag have in common: NFC and case-folded."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", tag).casefold())


def path_key(path: str) -> str:
    """Return what two spellings of one path have in common: the same as of a tag."""
    return tag_key(path)


@dataclass(frozen=True, slots=True)
class InvisibleCharacters:
    """Count the invisible characters of a kind."""

    kind: str
    count: int
    first_line: int
    """The line of the first one, from 1."""


def find_invisible(text: str, *, first_line: int = 1) -> tuple[InvisibleCharacters, ...]:
    """Return the invisible characters of ``text``, one entry per kind. Takes linear time.

    ``first_line`` is the number of the text's first line.
    """
    found = []
    for kind, pattern in _patterns(text):
        first = pattern.search(text)
        if first is not None:
            line = first_line + text.count("\n", 0, first.start())
            found.append(InvisibleCharacters(kind, len(pattern.findall(text, first.start())), line))
    return tuple(found)


def find_invisible_kinds(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds that occur in any of the texts, each once."""
    found = {kind for text in texts for kind, pattern in _patterns(text) if pattern.search(text)}
    return tuple(kind for kind in KINDS if kind in found)


def _patterns(text: str) -> Iterable[tuple[str, re.Pattern[str]]]:
    return (("control", _CONTROL_ASCII),) if text.isascii() else KINDS.items()
