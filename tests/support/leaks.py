"""Find words in what a program has written, also in other encodings."""

from __future__ import annotations

import base64
import urllib.parse


def assert_clean(flow: str, output: bytes, words: list[str]) -> None:
    """Fail if one of the words is in an output, as it is or encoded."""
    for word in words:
        for form in _forms(word):
            at = output.find(form)
            around = output[max(0, at - 200) : at + 100]
            assert at < 0, f"{word} leaks in {flow}: ...{around!r}"


def _forms(word: str) -> list[bytes]:
    raw = word.encode()
    forms = [raw, raw.upper(), raw.hex().encode(), urllib.parse.quote(word, safe="").encode()]
    for shift in range(3):
        # Inside longer base64 text only the middle of a word has a fixed form.
        encoded = base64.b64encode(b"\0" * shift + raw + b"\0\0")
        forms.append(encoded[4 if shift else 0 : -8])
    return forms
