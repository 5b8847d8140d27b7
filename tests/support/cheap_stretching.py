"""Stretch passphrases at the lowest cost, in this process and in preloaded ones.

The parameters on disk stay those of the program, and other parameters still give another key. Only the time
is saved. With ``--all`` passphrases cost what they cost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from mcp_notarium.crypto import kdf
from mcp_notarium.secret import Secret
from support.cheap_costs import CHEAPEST
from support.long import LONG

_MARK = "CHEAP_STRETCHING"
MARKED = {} if LONG else {_MARK: "1"}
"""Add this to the environment of a preloaded program; the program does not see it."""

_argon2id = kdf.Argon2id.derive


def install(set_attribute: Callable[[Any, str, Any], None]) -> None:
    """Make ``crypto.kdf`` cheap in this process, by ``setattr`` or that of a ``MonkeyPatch``."""
    if not LONG:
        set_attribute(kdf.Argon2id, "derive", _cheap_argon2id)
        set_attribute(kdf, "hashlib", SimpleNamespace(pbkdf2_hmac=_cheap_pbkdf2))


def wanted(env: dict[str, str]) -> bool:
    """Take the mark out of an environment; return whether it was there."""
    return env.pop(_MARK, None) is not None


def _cheap_argon2id(parameters: kdf.Argon2id, passphrase: Secret, salt: bytes) -> Secret:
    salt = hashlib.sha256(salt + repr(parameters).encode()).digest()[: kdf.SALT_SIZE]
    return _argon2id(CHEAPEST, passphrase, salt)


def _cheap_pbkdf2(name: str, password: bytes, salt: bytes, rounds: int, size: int) -> bytes:
    return hashlib.pbkdf2_hmac(name, password, salt + str(rounds).encode(), 1, size)
