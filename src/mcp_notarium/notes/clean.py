"""Make text from outside fit to be stored and compared. Keeps everything it need not change."""

from __future__ import annotations

import re
import unicodedata

_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate as U+FFFD, so that it can be encoded as UTF-8.

    Any code point U+D800 .. U+DFFF in a Python string is a lone one, also two in a row.
    """
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def tag_key(tag: str) -> str:
    """What two spellings of one tag have in common: NFC and case-folded."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", tag).casefold())
