"""Normalise a user name and hash it, to name folders and rows.

The hash keeps names out of paths and logs. It is no secret: who knows the name can compute it.
"""

from __future__ import annotations

import hashlib
import unicodedata

_PROGRAM = "mcp-notarium/v1/owner-identity\n"


def normalise_username(username: str) -> str:
    """Return the name without outer spaces, in lower case, in Unicode form NFC."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", username.strip()).casefold())


def owner_hash(username: str) -> str:
    """Return SHA-256 over a program constant and the normalised name, as 64 hex digits."""
    return hashlib.sha256((_PROGRAM + normalise_username(username)).encode()).hexdigest()
