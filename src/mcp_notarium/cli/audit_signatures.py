"""Read the keys and signatures of exported audit logs: PEM files, and base64 beside the export."""

from __future__ import annotations

import base64
import binascii
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mcp_notarium.errors import ConfigError
from mcp_notarium.files import os_errors


def private_key(path: Path) -> Ed25519PrivateKey:
    """Return the key in a PEM file without a passphrase. Raises ``ConfigError``."""
    content = read(path)
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = serialization.load_pem_private_key(content, password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise _key_error("private", "openssl genpkey -algorithm ed25519 -out FILE")


def public_key(path: Path) -> Ed25519PublicKey:
    """Return the public key in a PEM file. Raises ``ConfigError``."""
    content = read(path)
    with suppress(ValueError, UnsupportedAlgorithm):
        key = serialization.load_pem_public_key(content)
        if isinstance(key, Ed25519PublicKey):
            return key
    raise _key_error("public", "openssl pkey -in FILE -pubout")


def is_signed(content: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    """Tell whether this is the signature of the content."""
    try:
        key.verify(base64.b64decode(signature.strip(), validate=True), content)
    except (InvalidSignature, binascii.Error):
        return False
    return True


def read(path: Path) -> bytes:
    """Return the content of a file. Raises ``ConfigError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"a file cannot be read ({os_errors.describe(error)})",
            resolution_hint=f"Check that {path} exists and that you may read it.",
        ) from None


def _key_error(kind: str, made_by: str) -> ConfigError:
    return ConfigError(
        f"that file holds no {kind} Ed25519 key in PEM form without a passphrase",
        resolution_hint=f"`{made_by}` makes one.",
    )


def signature_path(path: Path) -> Path:
    """Return where the signature of an export lies."""
    return path.with_name(path.name + ".sig")
