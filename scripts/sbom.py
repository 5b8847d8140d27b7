"""Writes the bill of materials of the lock file: CycloneDX 1.6, the same bytes for the same lock.

./scripts/sbom [PATH]    default dist/mcp-notarium.cdx.json; held against the official schema
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from locked import pins

from mcp_notarium import __version__
from mcp_notarium.cli.cyclonedx import bill, package

TOP = Path(__file__).resolve().parent.parent
LOCK = TOP / "requirements.lock"


def made() -> str:
    """The document's text."""
    parts = [
        package(
            pin.name,
            pin.version,
            files=pin.sha256,
            properties={"mcp-notarium:marker": pin.marker} if pin.marker else {},
        )
        for pin in pins(LOCK)
    ]
    main = package(
        "mcp-notarium",
        __version__,
        kind="application",
        licence="MIT",
        needs=tuple(part.ref for part in parts),
    )
    serial = uuid.uuid5(uuid.NAMESPACE_URL, LOCK.read_text(encoding="utf-8") + __version__)
    return json.dumps(bill(main, parts, phase="build", serial=str(serial)), indent=1) + "\n"


def check(text: str) -> None:
    """Raises ``ValueError`` if the official schema refuses it."""
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ValueError(f"not CycloneDX 1.6: {problem}")


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "dist" / "mcp-notarium.cdx.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = made()
    check(text)
    path.write_text(text, encoding="utf-8")
    print(
        f"sbom: {len(json.loads(text)['components'])} packages in {path.name}, valid CycloneDX 1.6"
    )
