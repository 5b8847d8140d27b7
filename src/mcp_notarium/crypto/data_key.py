"""Hold the data key, 256 random bits: derive a subkey for each purpose, wrap it in another key.

Wrapping is AES-256-GCM; the AAD binds the wrapped key to its place. The caller gives a random nonce and
uses it once. Every wrap has a new salt as well, so a wrapping key wraps only once.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, NoReturn, final

from mcp_notarium.crypto.kdf import KEY_SIZE, SALT_SIZE, hkdf
from mcp_notarium.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_SIZE = 12
TAG_SIZE = 16
_LABEL = "mcp-notarium/v1/"
_PURPOSE = re.compile(r"[a-z][a-z0-9-]*")


@final
class DataKey:
    """Hold the data key and derive subkeys; like a Secret it is never printed, pickled or hashed.

    Purposes in use: ``db-enc``, ``db-mac``, ``key-file-mac``, ``owner``; ``audit``,
    ``audit-digests`` and ``audit-anchor`` for the audit chain.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: Secret) -> None:
        if len(secret) != KEY_SIZE:
            raise ValueError("a data key has 32 bytes")
        self._secret = secret

    @classmethod
    def generate(cls) -> DataKey:
        """Make a new random data key."""
        return cls(Secret(secrets.token_bytes(KEY_SIZE)))

    def secret(self) -> Secret:
        """Return the key itself, only for wrapping it."""
        return self._secret

    def subkey(self, purpose: str) -> Secret:
        """Derive 32 bytes for one purpose (a lower-case word of ASCII letters, digits and hyphens)."""
        if not _PURPOSE.fullmatch(purpose):
            raise ValueError("a purpose is a lower-case ASCII word")
        return hkdf(self._secret, label=(_LABEL + purpose).encode())

    def database_key(self, salt: bytes) -> Secret:
        """Return SQLCipher's raw form ``x'<160 hex>'``: encryption key, page MAC key, 16-byte salt.

        With all three SQLCipher derives nothing, and a damaged salt in the file does no harm.
        """
        if len(salt) != SALT_SIZE:
            # A shorter string would silently be taken as a passphrase by SQLCipher.
            raise ValueError("a database salt has 16 bytes")
        encryption, mac = self.subkey("db-enc"), self.page_mac_key()
        return Secret(f"x'{encryption.reveal().hex()}{mac.reveal().hex()}{salt.hex()}'")

    def page_mac_key(self) -> Secret:
        """Return the key of the HMAC at the end of every database page."""
        return self.subkey("db-mac")

    def __eq__(self, other: object) -> bool:
        return self._secret == other._secret if isinstance(other, DataKey) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal by value and secret: never a dict key

    def __repr__(self) -> str:
        return "DataKey('***')"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DataKey is not pickled")


def wrap_key(wrapping_key: Secret, inner: Secret, *, nonce: bytes, aad: bytes) -> bytes:
    """Encrypt and authenticate the inner key; the result is ``TAG_SIZE`` bytes longer.

    Raises ``ValueError`` for a wrapping key or a nonce of another size than ours.
    """
    return _cipher(wrapping_key, nonce).encrypt(nonce, inner.reveal(), aad)


def unwrap_key(wrapping_key: Secret, wrapped: bytes, *, nonce: bytes, aad: bytes) -> Secret | None:
    """Return the inner key; None if the wrapping key, the nonce, the AAD or any bit differs. Raises as :func:`wrap_key`."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - start-up time

    try:
        return Secret(_cipher(wrapping_key, nonce).decrypt(nonce, wrapped, aad))
    except InvalidTag:
        return None


def _cipher(wrapping_key: Secret, nonce: bytes) -> AESGCM:
    """Return AES-256-GCM. Other sizes are permitted by GCM, and weaker: a short nonce leaks the authentication key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - start-up time

    # defence: wrapping-sizes
    if len(wrapping_key) != KEY_SIZE or len(nonce) != NONCE_SIZE:
        raise ValueError("a key is wrapped under 32 bytes with a nonce of 12")
    return AESGCM(wrapping_key.reveal())
