"""Find the key: in the settings (variable, then file), then in the keychain.

The first source that is present decides. If its key is wrong, the start is refused; no other source is
tried. A key from an unnamed ``.env`` of the working folder comes last: somebody else may have put it there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret

KEYCHAIN = "the system's keychain"


class KeySettings(Protocol):
    """Hold the settings that say where a key may come from."""

    @property
    def db_key(self) -> Secret | None:
        """Return the value of DB_ENCRYPTION_KEY, or of the file that DB_ENCRYPTION_KEY_FILE names."""

    @property
    def db_key_origin(self) -> str:
        """Return which of the two it was."""

    @property
    def db_key_yields(self) -> bool:
        """Return whether a key in the keychain comes before it."""

    @property
    def keychain(self) -> bool:
        """Return whether the keychain may be asked."""


@dataclass(frozen=True, slots=True)
class FoundKey:
    """Hold a key and the name of its source.

    ``from_working_folder``: it stood in a ``.env`` of the working folder that nobody named.
    """

    passphrase: Secret
    origin: str
    from_working_folder: bool = False


def find_passphrase(
    settings: KeySettings, owner: str, *, system: Keychain | None = None
) -> FoundKey | None:
    """Find the key of the first source present, or None. ``owner`` is the owner hash.

    Raises ``LockedError`` (KEYCHAIN_UNUSABLE) if the keychain decides and cannot be used.
    """
    given = _given(settings)
    if given is not None and not settings.db_key_yields:
        return given
    return _kept(settings, owner, system) or given


def _given(settings: KeySettings) -> FoundKey | None:
    if settings.db_key is None:
        return None
    origin = settings.db_key_origin or "DB_ENCRYPTION_KEY"
    return FoundKey(settings.db_key, origin, from_working_folder=settings.db_key_yields)


def _kept(settings: KeySettings, owner: str, system: Keychain | None) -> FoundKey | None:
    if not settings.keychain:
        return None
    kept = (system or keychain.system_keychain()).get(keychain.KEY, owner)
    return None if kept is None else FoundKey(kept, KEYCHAIN)
