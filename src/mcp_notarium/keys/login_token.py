"""Store the login token: in the keychain, else in the encrypted database, else in memory only.

A token is as good as a password, so it never goes into an unencrypted file. Each call decides which
place is used; a token found in a worse place stays valid until a new one is stored.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from mcp_notarium.errors import LockedError
from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret


class TokenRows(Protocol):
    """Describe the part of ``SyncState`` that can keep a token."""

    @property
    def can_store_login(self) -> bool:
        """Return whether the database is encrypted."""

    def login_token(self) -> Secret | None:
        """Return the token in the database, or None."""

    def set_login_token(self, token: Secret | None) -> None:
        """Store the token, or remove it (None)."""


class StoredToken:
    """Hold the login token of one owner. ``system`` None: the keychain is switched off."""

    def __init__(self, rows: TokenRows, *, owner: str, system: Keychain | None = None) -> None:
        self._rows = rows
        self._owner = owner
        self._system = system
        self._memory: Secret | None = None

    @property
    def persistent(self) -> bool:
        """Check whether a stored token outlives the process."""
        return self._keychain() is not None or self._rows.can_store_login

    def load(self) -> Secret | None:
        """Return the token, or None. A keychain that fails is skipped: a login can be repeated."""
        system = self._keychain()
        if system is not None:
            with suppress(LockedError):
                found = system.get(keychain.TOKEN, self._owner)
                if found is not None:
                    return found
        # Not from memory first: another process may have logged in anew.
        return self._rows.login_token() or self._memory

    def store(self, token: Secret) -> None:
        """Store the token in the best place there is, and remove it from the others."""
        self._memory = None
        if self._store_in_keychain(token):
            self._rows.set_login_token(None)
        elif self._rows.can_store_login:
            self._rows.set_login_token(token)
        else:
            self._memory = token

    def forget(self) -> None:
        """Remove the token from every place it may be in.

        Raises ``LockedError`` (KEYCHAIN_UNUSABLE) if the keychain may still hold one; the token is
        gone from every other place then.
        """
        self._memory = None
        self._rows.set_login_token(None)
        system = self._keychain()
        if system is not None:
            system.delete(keychain.TOKEN, self._owner)

    def _store_in_keychain(self, token: Secret) -> bool:
        system = self._keychain()
        if system is None:
            return False
        try:
            system.set(keychain.TOKEN, self._owner, token)
        except LockedError:
            return False
        return True

    def _keychain(self) -> Keychain | None:
        return self._system if self._system is not None and self._system.usable else None
