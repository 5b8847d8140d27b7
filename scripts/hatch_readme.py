"""Make the links of the README work where it is shown alone, as at PyPI; a metadata hook of hatchling."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ReadmeHook(MetadataHookInterface):
    """Write the README with addresses of this version in the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the text that the package shows."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        place = f"{metadata['urls']['Source']}/%s/v{metadata['version']}/"
        text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\1{place % 'raw'}", text)
        text = re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\1{place % 'blob'}", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
