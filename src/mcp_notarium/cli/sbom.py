"""Run ``mcp-notarium doctor --sbom``: list what is installed and loaded here, as CycloneDX JSON.

Packages come from the installed metadata. Native libraries name themselves at run time: no package list
says which SQLCipher, SQLite and OpenSSL a wheel carries. On Linux every shared object that the process
has mapped is listed with its SHA-256. Needs no account and no key, opens no database, asks nobody.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import ssl
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from mcp_notarium.cli.cyclonedx import Component, bill, native, package
from mcp_notarium.storage import driver

PROGRAM = "mcp-notarium"

_MAPS = Path("/proc/self/maps")
_SERVED_WITH = (
    "mcp_notarium.protocol.sdk_server",
    "mcp_notarium.protocol.server",
    "mcp_notarium.app",
    "mcp_notarium.stores.simplenote",
    "cryptography.hazmat.bindings._rust",
    "argon2.low_level",
)
"""Modules a running server has loaded; loading them makes the list of mapped files that of a server."""


def run() -> int:
    """Print the bill. Raises ``LockedError`` (exit code 21) if the driver cannot be used."""
    sys.stdout.write(json.dumps(made(), indent=1, ensure_ascii=False) + "\n")
    return 0


def made() -> dict[str, Any]:
    """Return the bill as a JSON value."""
    for module in _SERVED_WITH:
        import_module(module)
    packages = dict(_packages(PROGRAM))
    main = packages.pop(PROGRAM)
    return bill(
        main,
        [*packages.values(), *_native(), *_mapped()],
        phase="operations",
        serial=str(uuid.uuid4()),
        timestamp=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _packages(root: str) -> Iterator[tuple[str, Component]]:
    """Return the installed distributions that ``root`` needs, itself included, by their plain names.

    A requirement that is not installed is one that this system does not need.
    """
    found: dict[str, metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        waiting += _required(found[name])
    refs = {name: package(name, one.version).ref for name, one in found.items()}
    for name, one in found.items():
        yield (
            name,
            package(
                name,
                one.version,
                kind="application" if name == root else "library",
                licence=_licence(one),
                needs=tuple(refs[other] for other in _required(one) if other in refs),
            ),
        )


def _required(one: metadata.Distribution) -> list[str]:
    """Return plain names of what a distribution requires, without its extras."""
    names = []
    for line in one.requires or ():
        wanted, _, marker = line.partition(";")
        head = re.match(r"[\w.-]+", wanted)
        if head is not None and not re.search(r"\bextra\b", marker):
            names.append(re.sub(r"[-_.]+", "-", head[0]).lower())
    return names


def _licence(one: metadata.Distribution) -> str:
    # Indexing a missing field warns in newer versions of the library.
    said = one.metadata
    return next((said[key] for key in ("License-Expression", "License") if key in said), "")


def _native() -> Iterator[Component]:
    """Return the libraries that no package list shows, as they name themselves."""
    yield Component(
        ref="platform:python",
        name=platform.python_implementation().lower(),
        version=platform.python_version(),
        kind="platform",
        cpe=f"cpe:2.3:a:python:python:{platform.python_version()}:*:*:*:*:*:*:*",
        properties={"mcp-notarium:system": f"{platform.system()} {platform.machine()}"},
    )
    yield _openssl(ssl.OPENSSL_VERSION, inside="python")
    facts = driver.facts()
    inside = facts.distribution.split()[0]
    yield native("sqlcipher", _number(facts.cipher_version), vendor="zetetic", inside=inside)
    sqlite = ".".join(map(str, facts.sqlite_version))
    yield native("sqlite", sqlite, vendor="sqlite", inside=inside)
    yield _openssl(facts.provider, inside=inside)
    rust = import_module("cryptography.hazmat.bindings._rust")
    yield _openssl(rust.openssl.openssl_version_text(), inside="cryptography")
    # The library says which Argon2 it computes (0x13 is 1.3), not its own version.
    algorithm = import_module("argon2.low_level").ARGON2_VERSION
    yield Component(
        ref="native:argon2",
        name="argon2",
        version="",
        properties={
            "mcp-notarium:inside": "argon2-cffi-bindings",
            "mcp-notarium:algorithm": f"{algorithm:#x}",
        },
    )


def _openssl(said: str, *, inside: str) -> Component:
    name = "libressl" if "libressl" in said.lower() else "openssl"
    return native(name, _number(said), vendor="openssl", inside=inside)


def _number(said: str) -> str:
    """Return ``3.0.15`` of ``OpenSSL 3.0.15 3 Sep 2024``; the whole text if it has no number."""
    found = re.search(r"\d+(\.\d+)+[a-z]?", said)
    return found[0] if found else said or "unknown"


def _mapped() -> Iterator[Component]:
    """Return every shared object of this process with its digest (Linux; nothing elsewhere)."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    paths = {parts[5] for line in lines if len(parts := line.split(maxsplit=5)) > 5}  # noqa: PLR2004
    for path in sorted(path for path in paths if re.search(r"\.so(\.[\d.]+)?$", path)):
        try:
            digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        except OSError:
            continue
        yield Component(
            ref=f"file:{path}",
            name=Path(path).name,
            version="",
            kind="file",
            sha256=digest,
            properties={"mcp-notarium:path": path},
        )
