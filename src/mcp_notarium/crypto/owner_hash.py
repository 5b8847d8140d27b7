"""Whose cache this is: one normal form of a user name, and a hash that names folders and rows.

The hash keeps names out of paths and logs. It is not a secret: who knows the name can compute it.
"""

from __future__ import annotations

import hashlib
import unicodedata

_PROGRAM = "mcp-notarium/v1/owner-identity\n"


def normalise_username(username: str) -> str:
    """The name without outer spaces, in lower case, in Unicode form NFC."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", username.strip()).casefold())


def owner_hash(username: str) -> str:
    """64 hex digits: SHA-256 over a program constant and the normalised name."""
    return hashlib.sha256((_PROGRAM + normalise_username(username)).encode()).hexdigest()
