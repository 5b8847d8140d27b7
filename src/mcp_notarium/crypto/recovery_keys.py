"""Encode and decode recovery keys: 160 random bits that a person can write on paper. Pure.

Nine groups of four letters, Crockford's base 32 (no I, L, O, U): eight groups of key and one of
checksum, so that a typo differs from a wrong key. Spaces or dashes for hyphens, or nothing at all,
small letters, and the look-alikes I, L (one) and O (zero) are read as what they were meant to be.
"""

from __future__ import annotations

import hashlib
import re
import secrets

from mcp_notarium.crypto.errors import MalformedKey
from mcp_notarium.secret import Secret

SIZE = 20
"""Bytes of a recovery key."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_GROUP = 4
_LETTERS = 32
_CHECK_LETTERS = 4
_LABEL = b"mcp-notarium/v1/recovery-check"
_FORM = re.compile(r"(?:[0-9A-Z]{4}[-\u2010-\u2015\s]+){8}[0-9A-Z]{4}")
_BETWEEN = re.compile(r"[-\u2010-\u2015\s]+")
_MEANT = str.maketrans("ILO", "110")
_FEWEST, _MOST = 20, 48
_MOST_UNEVEN_GROUPS = 2
_AGAIN = "Compare each group with the paper, and type it again."


def generate() -> Secret:
    """Make a new recovery key as it is shown: nine groups of four letters and digits, with hyphens."""
    return write(secrets.token_bytes(SIZE))


def write(material: bytes) -> Secret:
    """Encode the 20 bytes as nine groups."""
    text = _letters(int.from_bytes(material, "big"), _LETTERS) + _check(material)
    return Secret("-".join(text[at : at + 4] for at in range(0, len(text), 4)))


def is_recovery_key(text: str) -> bool:
    """Check whether this text is a recovery key, not a passphrase.

    Nine groups of four are a recovery key even with a typing error. In any other grouping only a valid
    checksum tells it from 36 letters that somebody has chosen as a passphrase.
    """
    if _FORM.fullmatch(text.strip().upper()):
        return True
    try:
        read(text)
    except MalformedKey:
        return False
    return True


def explain_typo(text: str) -> str:
    """Return what is wrong with a text probably meant as a recovery key; '' if it was not.

    For a key that opened nothing as a passphrase: too short, too long, or mistyped.
    """
    upper = text.strip().upper()
    parts = _BETWEEN.split(upper)
    plain = "".join(parts)
    letters = plain.isascii() and plain.isalnum() and any(one.isdigit() for one in plain)
    if not letters or not _FEWEST <= len(plain) <= _MOST:
        return ""
    uneven = sum(len(part) != _GROUP for part in parts)
    in_groups = len(parts) * _GROUP >= _FEWEST and uneven <= _MOST_UNEVEN_GROUPS
    if not in_groups and len(plain) != _LETTERS + _CHECK_LETTERS:
        return ""
    try:
        read(text)
    except MalformedKey as error:
        return error.reason
    return ""


def read(text: str) -> Secret:
    """Decode what somebody typed into 20 bytes. Raises ``MalformedKey``; never echoes the text."""
    plain = _BETWEEN.sub("", text.strip().upper()).translate(_MEANT)
    letters, check = plain[:_LETTERS], plain[_LETTERS:]
    if len(plain) != _LETTERS + _CHECK_LETTERS or set(plain) - set(_ALPHABET):
        raise MalformedKey(
            "a recovery key has nine groups of four letters and digits", resolution_hint=_AGAIN
        )
    material = _bytes(letters)
    if check != _check(material):
        raise MalformedKey(
            "the recovery key has a typo: its last group does not match the others",
            resolution_hint=_AGAIN,
        )
    return Secret(material)


def _letters(number: int, count: int) -> str:
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(count)))


def _bytes(letters: str) -> bytes:
    number = 0
    for letter in letters:
        number = number << 5 | _ALPHABET.index(letter)
    return number.to_bytes(SIZE, "big")


def _check(material: bytes) -> str:
    # 20 of its bits: four letters.
    digest = hashlib.sha256(_LABEL + material).digest()
    return _letters(int.from_bytes(digest[:3], "big") >> 4, _CHECK_LETTERS)
