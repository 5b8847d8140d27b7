"""One key wrapped in another: AES-256-GCM, bound to the place it belongs to by its AAD.

The caller gives a nonce that is random and used once; every wrap makes a new salt as well, so a
wrapping key wraps once.
"""

from __future__ import annotations

from mcp_notarium.secret import Secret

NONCE_SIZE = 12
TAG_SIZE = 16


def wrap(wrapping_key: Secret, inner: Secret, *, nonce: bytes, aad: bytes) -> bytes:
    """The inner key, encrypted and authenticated; ``TAG_SIZE`` bytes longer than it was."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - start-up time

    return AESGCM(wrapping_key.reveal()).encrypt(nonce, inner.reveal(), aad)


def unwrap(wrapping_key: Secret, wrapped: bytes, *, nonce: bytes, aad: bytes) -> Secret | None:
    """The inner key, or None if the wrapping key, the nonce, the AAD or a bit is not the same."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - start-up time
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - start-up time

    try:
        return Secret(AESGCM(wrapping_key.reveal()).decrypt(nonce, wrapped, aad))
    except InvalidTag:
        return None
