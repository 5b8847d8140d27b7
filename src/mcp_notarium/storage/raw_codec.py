"""The note service's raw object without the note's text in it, and back. Pure.

A raw object repeats the text of its note. Cutting it out halves the database and the work of a
first load. It is cut only where putting it back gives the same characters again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from json.encoder import encode_basestring, encode_basestring_ascii

_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class StoredRaw:
    """``rest`` with the text missing at ``text_at`` (None: nothing was cut out).

    ``escaped`` tells which of JSON's two spellings the text had: all-ASCII or as it is.
    """

    rest: str
    text_at: int | None
    escaped: bool


def without_text(raw: str, text: str) -> StoredRaw:
    """Cut ``text`` out of ``raw`` if it stands there in a spelling that can be made again."""
    raw = _storable(raw)
    for escaped in (False, True):
        spelled = _spelled(text, escaped=escaped)
        at = raw.find(spelled)
        if at >= 0:
            return StoredRaw(raw[:at] + raw[at + len(spelled) :], at, escaped)
    return StoredRaw(raw, None, escaped=False)


def with_text(stored: StoredRaw, text: str) -> str:
    """The raw object again; ``text`` is the one it was cut from."""
    at = stored.text_at
    if at is None:
        return stored.rest
    return stored.rest[:at] + _spelled(text, escaped=stored.escaped) + stored.rest[at:]


def _spelled(text: str, *, escaped: bool) -> str:
    return encode_basestring_ascii(text) if escaped else encode_basestring(text)


def _storable(raw: str) -> str:
    """The same JSON with lone surrogates escaped: as UTF-8 they could not be stored."""
    try:
        raw.encode()
    except UnicodeEncodeError:
        return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", raw)
    return raw
