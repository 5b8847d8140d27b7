"""Make text from outside fit to be stored and compared. Keeps everything it need not change."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")


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
