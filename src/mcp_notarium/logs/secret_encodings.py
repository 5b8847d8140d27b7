"""Match every encoding of a secret in text: one regular expression per secret.

Encodings multiply (JSON in repr in JSON ...), so they are not listed. Instead each *character* of the
secret becomes a small alternation of its spellings; a text half quoted by one layer and half by
another still matches. Base64 (three alignments, both alphabets) and hexadecimal mix characters and
get a pattern each. All patterns are meant for ``re.IGNORECASE``.

It does not find secrets that were cut to fewer than ``HEAD_LENGTH`` characters, compressed,
encrypted or reversed.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterator

MINIMUM_LENGTH = 6
"""Shorter secrets are not searched for: they would redact ordinary words everywhere."""

HEAD_LENGTH = 12
"""The start of a secret of at least 16 characters is also searched for alone (truncated values)."""

_LONG_ENOUGH_FOR_HEAD = 16
_PERCENT = r"%(?:25){0,3}"
_SEMICOLON = rf"(?:;|{_PERCENT}3b)"
_AMPERSAND = rf"(?:&|{_PERCENT}26)(?:amp{_SEMICOLON}){{0,3}}"
_HASH = rf"(?:#|{_PERCENT}23)"
_BACKSLASH = rf"(?:\\|{_PERCENT}5c)"
# Atomic: two repetitions that could share one run of backslashes would try every split of it. Not
# written as possessive repetitions: in Python 3.11.2 (Debian 12) those of a group match wrongly.
_ESCAPES = rf"(?>{_BACKSLASH}{{0,15}})"
_SOME_ESCAPES = rf"(?>{_BACKSLASH}{{1,16}})"
_HTML_NAMES = {'"': "quot", "&": "amp", "'": "apos", "<": "lt", ">": "gt"}
_LETTER_ESCAPES = {"\n": "n", "\t": "t", "\r": "r", "\f": "f", "\b": "b", "\v": "v", "\0": "0"}
_JUNCTIONS = 3
_FIRST_ASTRAL = 0x10000
_FIRST_BEYOND_ASCII = 0x80


def build_pattern(secret: bytes) -> str:
    """Return a pattern for all spellings of ``secret``, or ``""`` if it is too short to search for."""
    if len(secret) < MINIMUM_LENGTH:
        return ""
    return "|".join(dict.fromkeys(_alternatives(secret)))


def _alternatives(secret: bytes) -> Iterator[str]:
    text = secret.decode("utf-8", "surrogateescape")
    for form in ("NFC", "NFD"):
        yield _text(unicodedata.normalize(form, text))
    yield _text(text)
    for shift in range(3):
        yield _base64(secret, shift)
    yield rf"(?:[:\s+-]|{_PERCENT}(?:20|3a))?".join(f"{byte:02x}" for byte in secret)
    if len(text) >= _LONG_ENOUGH_FOR_HEAD:
        yield _text(text[:HEAD_LENGTH]) + rf"[^\s\"'\\<>&]{{0,{len(text)}}}"
    if "\n" in text:  # standard error is read by lines
        yield from (_text(line) for line in text.splitlines() if len(line) >= MINIMUM_LENGTH)


def _text(text: str) -> str:
    runs = re.findall(r"\\+|'+|[^\\']", text, re.DOTALL)
    # Doubled quotes among backslashes can be read in many ways; a secret that alternates them
    # again and again (no person's does) is not searched for in its doubled form.
    doubling = len(re.findall(r"(?<=\\)'|(?<=')\\", text)) <= _JUNCTIONS
    return "".join(
        _run(run, after_backslash=before.endswith("\\"), doubling=doubling)
        for before, run in zip(["", *runs], runs, strict=False)
    )


def _run(run: str, *, after_backslash: bool, doubling: bool) -> str:
    count = len(run)
    if run[0] == "\\":
        entity = rf"{_AMPERSAND}{_HASH}(?:0{{0,4}}92|x0{{0,4}}5c){_SEMICOLON}"
        return rf"(?:(?>{_BACKSLASH}{{{count},{count * 16}}})|(?:{entity}){{{count}}})"
    one = _character(run[0], after_backslash=after_backslash)
    if run[0] == "'":  # SQL doubles it, each time it is quoted again
        return rf"(?:{one}){{{count},{count * 8 if doubling else count}}}"
    return one


def _character(char: str, *, after_backslash: bool) -> str:
    if char.isascii() and char.isalnum():
        return char
    # Regular expressions fold the case of a letter, but not of the letter an escape stands for.
    cases = [case for case in dict.fromkeys((char, char.lower(), char.upper())) if len(case) == 1]
    plain = "|".join(dict.fromkeys(form for case in cases for form in _plain(case)))
    escaped = "|".join(dict.fromkeys(form for case in cases for form in _escapes_of(case)))
    # A backslash of the secret's own has taken the ones of this escape with it.
    escapes = _ESCAPES if after_backslash else _SOME_ESCAPES
    return f"(?:{_ESCAPES}(?:{plain})|{escapes}(?:{escaped}))"


def _plain(char: str) -> Iterator[str]:
    """Yield the spellings of a character, with or without backslashes before it."""
    octets = char.encode("utf-8", "surrogateescape")
    yield re.escape(char)
    yield "".join(f"{_PERCENT}{octet:02x}" for octet in octets)
    if char == " ":
        yield rf"(?:\+|{_PERCENT}2b)"
    code = ord(char)
    yield rf"{_AMPERSAND}{_HASH}(?:0{{0,6}}{code}|x0{{0,6}}{code:x}){_SEMICOLON}"
    if char in _HTML_NAMES:
        yield f"{_AMPERSAND}{_HTML_NAMES[char]}{_SEMICOLON}"
    if code >= _FIRST_BEYOND_ASCII:
        yield re.escape(octets.decode("latin-1"))


def _escapes_of(char: str) -> Iterator[str]:
    """Yield the spellings of a character after at least one backslash."""
    code = ord(char)
    octets = char.encode("utf-8", "surrogateescape")
    if char in _LETTER_ESCAPES:
        yield _LETTER_ESCAPES[char]
    yield _SOME_ESCAPES.join(f"x{octet:02x}" for octet in octets)
    yield _unicode_escape(code)
    if code >= _FIRST_BEYOND_ASCII:
        yield rf"(?:x{code:02x}|u\{{0{{0,6}}{code:x}\}})"


def _unicode_escape(code: int) -> str:
    if code < _FIRST_ASTRAL:
        return rf"u(?:0000)?{code:04x}"
    high, low = divmod(code - _FIRST_ASTRAL, 0x400)
    return rf"(?:u{0xD800 + high:04x}{_SOME_ESCAPES}u{0xDC00 + low:04x}|u{code:08x})"


def _base64(secret: bytes, shift: int) -> str:
    """Return the characters of the encoding that depend on ``secret`` alone after ``shift`` other bytes."""
    encoded = base64.b64encode(b"\0" * shift + secret).decode()
    first = -(-shift * 8 // 6)
    last = (shift + len(secret)) * 8 // 6
    return "".join(map(_base64_character, encoded[first:last]))


def _base64_character(char: str) -> str:
    if char == "+":
        return rf"(?:[+-]|{_PERCENT}2b|{_SOME_ESCAPES}u002b)"
    if char == "/":
        return rf"(?:{_ESCAPES}/|_|{_PERCENT}2f)"
    return char
