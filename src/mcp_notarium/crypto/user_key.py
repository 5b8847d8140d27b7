"""Parse a key as given (passphrase, raw key, recovery key), and refuse a weak passphrase.

A key is a passphrase, ``raw:`` and 64 hex digits, or a recovery key (see ``recovery_keys``). An
existing key may be weak: it opens or it does not.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mcp_notarium.crypto import recovery_keys
from mcp_notarium.crypto.errors import MalformedKey
from mcp_notarium.crypto.kdf import KEY_SIZE, normalise_passphrase
from mcp_notarium.secret import Secret

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
    if recovery_keys.is_recovery_key(text):
        return UserKey("recovery", recovery_keys.read(text))
    if not text.strip():
        raise MalformedKey("it is empty")
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
