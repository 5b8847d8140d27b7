"""Build a bill of materials as a CycloneDX 1.6 JSON value. Knows no file and no package.

The tests check the result against the official schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_NOT_IN_A_NAME = re.compile(r"[-_.]+")
_LONGEST_LICENCE = 64


@dataclass(frozen=True, slots=True)
class Component:
    """Describe one component. ``ref`` is unique in a bill; ``needs`` are names of other refs.

    Unknown fields are empty and left out. ``licence`` is an SPDX expression or a name; ``properties``
    are further facts by their name.
    """

    ref: str
    name: str
    version: str
    kind: str = "library"
    purl: str = ""
    cpe: str = ""
    licence: str = ""
    sha256: str = ""
    files: tuple[str, ...] = ()
    """SHA-256 digests of the files that a package index may serve for it."""
    properties: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()


def package(name: str, version: str, **facts: Any) -> Component:
    """Return a Python distribution, named as the package index does."""
    plain = _NOT_IN_A_NAME.sub("-", name).lower()
    ref = f"pkg:pypi/{plain}@{version}"
    return Component(ref=ref, name=plain, version=version, purl=ref, **facts)


def native(name: str, version: str, *, vendor: str, inside: str, **facts: Any) -> Component:
    """Return a native library inside ``inside``, which hides it from package scanners."""
    return Component(
        ref=f"native:{name}@{version}#{inside}",
        name=name,
        version=version,
        purl=f"pkg:generic/{name}@{version}",
        cpe=f"cpe:2.3:a:{vendor}:{name}:{version}:*:*:*:*:*:*:*",
        properties={"mcp-notarium:inside": inside},
        **facts,
    )


def bill(
    main: Component, parts: Iterable[Component], *, phase: str, serial: str, timestamp: str = ""
) -> dict[str, Any]:
    """Return the whole document. ``phase`` is a CycloneDX lifecycle, ``serial`` a UUID."""
    listed = sorted(parts, key=lambda part: part.ref)
    known = {part.ref for part in listed}
    metadata: dict[str, Any] = {"timestamp": timestamp} if timestamp else {}
    metadata |= {"lifecycles": [{"phase": phase}], "component": _form(main)}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": metadata,
        "components": [_form(part) for part in listed],
        "dependencies": [
            {"ref": part.ref, "dependsOn": sorted(known.intersection(part.needs))}
            for part in (main, *listed)
        ],
    }


def _form(part: Component) -> dict[str, Any]:
    form: dict[str, Any] = {
        "type": part.kind,
        "bom-ref": part.ref,
        "name": part.name,
        "version": part.version,
        "purl": part.purl,
        "cpe": part.cpe,
        "licenses": _licences(part.licence),
        "hashes": [_digest(part.sha256)] if part.sha256 else [],
        "externalReferences": _downloads(part),
        "properties": [
            {"name": name, "value": value} for name, value in sorted(part.properties.items())
        ],
    }
    return {key: value for key, value in form.items() if value}


def _licences(text: str) -> list[dict[str, Any]]:
    if not text or len(text) > _LONGEST_LICENCE or "\n" in text:
        return []
    if re.fullmatch(r"[\w.+-]+( (AND|OR|WITH) [\w.+-]+)*", text):
        return [{"expression": text}]
    return [{"license": {"name": text}}]


def _downloads(part: Component) -> list[dict[str, Any]]:
    if not part.files:
        return []
    return [
        {
            "type": "distribution",
            "url": part.purl,
            "hashes": [_digest(digest) for digest in part.files],
        }
    ]


def _digest(sha256: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": sha256}
