"""Decide in which place a secret is found or stored.

The database's key comes from the settings (variable, then file), then from the keychain. The first source that is
present decides: the start is refused if its key is wrong, and no other source is tried. A key from an unnamed
``.env`` of the working folder comes last: somebody else may have put it there. The login token goes to the
keychain, else to the encrypted database, else it stays in memory.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from mcp_notarium.config import Config
from mcp_notarium.errors import LockedError
from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret
from mcp_notarium.storage.sync_state import SyncState

KEYCHAIN = "the system's keychain"
TYPED = "the typed passphrase"
"""The origin of a key that a person has typed."""


@dataclass(frozen=True, slots=True)
class FoundKey:
    """Hold a key and the name of its source."""

    passphrase: Secret
    origin: str
    from_working_folder: bool = False
    """It stood in a ``.env`` of the working folder that nobody named."""


def find_passphrase(settings: Config, *, system: Keychain | None = None) -> FoundKey | None:
    """Find the key of the first source present, or None.

    Raises ``LockedError`` (KEYCHAIN_UNUSABLE) if the keychain decides and cannot be used.
    """
    named, kept = None, None
    if settings.db_key is not None:
        origin = settings.db_key_origin or "DB_ENCRYPTION_KEY"
        named = FoundKey(settings.db_key, origin, from_working_folder=settings.db_key_yields)
        if not settings.db_key_yields:  # defence: key-source-no-fall-through
            return named
    if settings.keychain:
        kept = (system or keychain.system_keychain()).get(keychain.KEY, settings.owner_hash)
    return named if kept is None else FoundKey(kept, KEYCHAIN)


class StoredToken:
    """Store the login token of one owner. ``system`` None: the keychain is switched off.

    Each call decides which place is used; a token found in a worse place stays valid until a new one is
    stored. A token is as good as a password, so it never goes into an unencrypted file.
    """

    def __init__(self, rows: SyncState, *, owner: str, system: Keychain | None = None) -> None:
        self._rows = rows
        self._owner = owner
        self._system = system
        self._memory: Secret | None = None

    @property
    def persistent(self) -> bool:
        """Check whether a stored token outlives the process."""
        return self._keychain() is not None or self._rows.can_store_login

    def load(self) -> Secret | None:
        """Return the token, or None. A keychain that fails is skipped: a login can be repeated.

        A token in the database is newer than one in the keychain: storing in the keychain removes it.
        """
        stored = self._rows.login_token()
        system = self._keychain()
        if stored is None and system is not None:
            with suppress(LockedError):
                found = system.get(keychain.TOKEN, self._owner)
                if found is not None:
                    return found
        # Not from memory first: another process may have logged in since.
        return stored or self._memory

    def store(self, token: Secret) -> None:
        """Store the token in the best place there is, and remove it from the others."""
        self._memory, stored = None, False
        system = self._keychain()
        with suppress(LockedError):
            if system is not None:
                system.set(keychain.TOKEN, self._owner, token)
                stored = True
        if stored:
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

    def _keychain(self) -> Keychain | None:
        return self._system if self._system is not None and self._system.usable else None
