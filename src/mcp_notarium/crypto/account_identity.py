"""Hash the identity of an account: its store, the store's endpoint, its name there.

The hash keeps names out of paths and logs. It is no secret: who knows the three can compute it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

_PROGRAM = b"mcp-notarium/v1/owner-identity\n"


@dataclass(frozen=True, slots=True)
class AccountIdentity:
    """Name one account. Each string is in the form in which the store's kind knows it as the same."""

    kind: str
    endpoint: str
    name: str

    @property
    def shown(self) -> str:
        """Return what tells people this account from others of its kind: a server or file needs no name."""
        return self.name or self.endpoint

    @property
    def owner_hash(self) -> str:
        """Return SHA-256 over a program constant and the three strings, as 64 hex digits.

        Each string follows its length in bytes (8 bytes, big-endian), so that no two identities meet.
        """
        found = hashlib.sha256(_PROGRAM)
        for text in (self.kind, self.endpoint, self.name):
            data = text.encode("utf-8", "surrogateescape")
            found.update(len(data).to_bytes(8, "big") + data)
        return found.hexdigest()
