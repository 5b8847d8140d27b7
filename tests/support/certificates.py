"""Make an untrusted certificate for a server on loopback."""

from __future__ import annotations

import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.needs import programs


def own_certificate(folder: Path, *, address: str = "127.0.0.1") -> Path:
    """A file with a certificate for ``address`` that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made for a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def trusted_folder(certificate: Path) -> Path:
    """Its folder, made one in which OpenSSL finds the certificate by its name."""
    programs("openssl")
    asked = ["openssl", "x509", "-hash", "-noout", "-in", str(certificate)]
    known_as = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    (certificate.parent / f"{known_as}.0").symlink_to(certificate)
    return certificate.parent


def serving(path: Path) -> ssl.SSLContext:
    """What a server with this certificate speaks TLS by."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
