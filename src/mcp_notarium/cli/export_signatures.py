"""Sign exports with detached Ed25519 signatures: base64 in a separate file beside the export.

Keys are PEM files, as ``openssl genpkey -algorithm ed25519`` and ``openssl pkey -pubout`` make them.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mcp_notarium.errors import ConfigError

_LARGEST = 1 << 16


def private_key(path: Path) -> Ed25519PrivateKey:
    """Return the key in a PEM file without a passphrase. Raises ``ConfigError``."""
    try:
        key = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _no_key("private", "openssl genpkey -algorithm ed25519 -out FILE") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key("private", "openssl genpkey -algorithm ed25519 -out FILE")
    return key


def signature(key: Ed25519PrivateKey, content: bytes) -> bytes:
    """Return the signature as one line of base64."""
    return base64.b64encode(key.sign(content)) + b"\n"


def is_signed(content: bytes, signature_file: Path, public_file: Path) -> bool:
    """Return whether the key signed these bytes. Raises ``ConfigError``."""
    try:
        key = serialization.load_pem_public_key(_read(public_file))
    except (ValueError, UnsupportedAlgorithm):
        raise _no_key("public", "openssl pkey -in FILE -pubout") from None
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key("public", "openssl pkey -in FILE -pubout")
    try:
        key.verify(base64.b64decode(_read(signature_file).strip(), validate=True), content)
    except (InvalidSignature, binascii.Error):
        return False
    return True


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError as error:
        raise ConfigError(
            f"a file cannot be read ({error.strerror})",
            resolution_hint=f"Look at {path}.",
        ) from None


def _no_key(kind: str, made_by: str) -> ConfigError:
    return ConfigError(
        f"that file holds no {kind} Ed25519 key in PEM form without a passphrase",
        resolution_hint=f"`{made_by}` makes one.",
    )
