"""Parse a key as typed (passphrase, raw key, recovery key), make new ones, and refuse a weak passphrase. Pure.

A raw key is ``raw:`` and 64 hex digits. An existing key may be weak: it opens or it does not.

A recovery key is 160 random bits that a person can write on paper: nine groups of four letters of
Crockford's base 32 (no I, L, O, U). Eight groups are the key, and one is the checksum, so a typo differs
from a wrong key. Readers accept small letters, any separator, and the look-alikes I, L (one) and O (zero).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mcp_notarium.crypto.errors import MalformedKey
from mcp_notarium.crypto.kdf import KEY_SIZE, normalise_passphrase
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


def generate_recovery_key() -> Secret:
    """Make a new recovery key as it is shown: nine groups of four letters and digits, with hyphens."""
    return write_recovery_key(secrets.token_bytes(SIZE))


def write_recovery_key(material: bytes) -> Secret:
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
        read_recovery_key(text)
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
        read_recovery_key(text)
    except MalformedKey as error:
        return error.reason
    return ""


def read_recovery_key(text: str) -> Secret:
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


Kind = Literal["passphrase", "raw", "recovery"]

RAW_PREFIX = "raw:"
SHORTEST_NEW = 15
_LONGEST = 4096
_LEFT_OVER = 5
_SHORTEST_NAME = 4
"""A shorter name of an account would take letters out of any passphrase."""
_RUN = 4

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "1234567890", "qwertzuiop", "azertyuiop")
_WORDS = (
    "passphrase", "password", "passwort", "simplenote", "notarium", "letmein", "welcome",
    "changeme", "administrator", "admin", "iloveyou", "default", "example", "secret", "encryption",
    "database", "monkey", "dragon", "master", "login", "test", "pass", "word", "your", "here", "key",
    "my", "the",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UserKey:
    """Hold a key as read: ``material`` is the NFC passphrase or the random bytes."""

    kind: Kind
    material: Secret


def read(given: Secret) -> UserKey:
    """Read a key and tell its kind. Raises ``MalformedKey``; never echoes the key."""
    try:
        text = given.reveal_text()
    except UnicodeDecodeError:
        raise MalformedKey("it is not UTF-8 text") from None
    if text.startswith(RAW_PREFIX):
        return UserKey("raw", _raw(text.removeprefix(RAW_PREFIX)))
    if is_recovery_key(text):
        return UserKey("recovery", read_recovery_key(text))
    if not text.strip():
        raise MalformedKey("it is empty")
    if "\0" in text:  # defence: passphrase-without-zeros
        # HMAC pads with zeros: PBKDF2 takes "words" and "words\0" for the same.
        raise MalformedKey("it has a zero character")
    if len(text) > _LONGEST:
        raise MalformedKey(f"it is longer than {_LONGEST} characters")
    return UserKey("passphrase", normalise_passphrase(given))


def generate() -> Secret:
    """Make a new raw key as DB_ENCRYPTION_KEY takes it: ``raw:`` and 64 hex digits."""
    return Secret(RAW_PREFIX + secrets.token_hex(KEY_SIZE))


def weakness(given: Secret, *, account: str) -> str | None:
    """Return why a new key is too weak, or None. Random keys are never weak.

    ``account`` is the name of the account, an e-mail address: it is public, and so is each part of it.
    Raises ``MalformedKey`` like :func:`read`.
    """
    key = read(given)
    if key.kind != "passphrase":
        return None
    text = " ".join(key.material.reveal_text().split())
    if len(text) < SHORTEST_NEW:
        return f"it has fewer than {SHORTEST_NEW} characters"
    folded = text.casefold()
    if _repeats("".join(folded.split())):
        return "it repeats itself"
    if len(set(_without_patterns(folded, _WORDS))) < _LEFT_OVER:
        return "it is made of well-known words and sequences"
    names = [account.casefold(), *account.casefold().split("@")]
    public = [name for name in names if len(name) >= _SHORTEST_NAME]
    if len(set(_without_patterns(folded, (*public, *_WORDS)))) < _LEFT_OVER:
        return "it is made of the account's name and well-known words and sequences"
    return None


def _raw(digits: str) -> Secret:
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", digits):
        raise MalformedKey("after `raw:` there must be exactly 64 hexadecimal digits")
    return Secret(bytes.fromhex(digits))


def _repeats(text: str) -> bool:
    """Check whether it is one piece repeated; the last one may be cut short."""
    return any(text.startswith(text[size:]) for size in range(1, len(text) // 2 + 1))


def _without_patterns(text: str, words: Iterable[str]) -> str:
    """Return what is left of a passphrase without these words and any sequence."""
    for word in words:
        text = text.replace(word, "")
    kept: list[str] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or not _follows(text[end - 1], text[end]):
            run = text[start:end]
            kept.append(run if len(run) < _RUN else "")
            start = end
    return "".join(kept)


def _follows(one: str, other: str) -> bool:
    if abs(ord(one) - ord(other)) <= 1:
        return True
    pair = one + other
    return any(pair in row or pair in row[::-1] for row in _ROWS)
