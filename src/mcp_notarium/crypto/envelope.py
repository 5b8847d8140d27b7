"""Wrap one key in another with AES-256-GCM; the AAD binds it to its place.

The caller gives a random nonce and uses it once. Every wrap has a new salt as well, so a wrapping key
wraps only once.
"""

from __future__ import annotations

from mcp_notarium.secret import Secret

NONCE_SIZE = 12
TAG_SIZE = 16


def wrap(wrapping_key: Secret, inner: Secret, *, nonce: bytes, aad: bytes) -> bytes:
    """Encrypt and authenticate the inner key; the result is ``TAG_SIZE`` bytes longer."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - start-up time

    return AESGCM(wrapping_key.reveal()).encrypt(nonce, inner.reveal(), aad)


def unwrap(wrapping_key: Secret, wrapped: bytes, *, nonce: bytes, aad: bytes) -> Secret | None:
    """Return the inner key; None if the wrapping key, the nonce, the AAD or any bit differs."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - start-up time
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - start-up time

    try:
        return Secret(AESGCM(wrapping_key.reveal()).decrypt(nonce, wrapped, aad))
    except InvalidTag:
        return None
