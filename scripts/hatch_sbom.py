"""Put the bill of materials of ``scripts/sbom`` into the wheel (PEP 770), as a build hook of hatchling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BILL = "sbom/mcp-notarium.cdx.json"


class SbomHook(BuildHookInterface[Any]):
    """Add the bill of materials, if there is one: an installation from a checkout has none."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Name the file for ``.dist-info/sboms/``."""
        if (Path(self.root) / BILL).is_file():
            build_data["sbom_files"].append(BILL)
