"""Add the pages outside docs/ to the site, as a hook of mkdocs, and correct the links between both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

TOP = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "SECURITY.md": "SECURITY.md",
    "threat-model.md": "threat-model.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""Page in the project to page of the site. The README is the first page."""


def on_config(config: Any) -> Any:
    """Order the pages as docs/README.md lists them."""
    parts = re.split(r"^## (.+)\n", (TOP / "docs/README.md").read_text("utf-8"), flags=re.MULTILINE)
    config.nav = ["index.md"]
    for heading, rows in zip(parts[1::2], parts[2::2], strict=True):
        names = re.findall(r"^\* \[[^\]]+\]\(([^)]+)\)", rows, re.MULTILINE)
        pages = [OUTSIDE.get(one.removeprefix("../"), one) for one in names]
        config.nav.append(
            {heading: [one for one in pages if one not in ("index.md", "decisions/README.md")]}
        )
    config.nav += [{"Decisions": "decisions/README.md"}, {"Changes": "CHANGELOG.md"}]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    files.remove(files.src_uris["README.md"])
    for name, page in OUTSIDE.items():
        text = (TOP / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_others: Any) -> str:
    """Correct links into docs/, and out of docs/."""
    here = page.file.src_uri
    if here in OUTSIDE.values():
        markdown = markdown.replace("](docs/README.md)", "](pages.md)").replace("](docs/", "](")
        markdown = markdown.replace("](README.md)", "](index.md)")
    for name, target in OUTSIDE.items():
        markdown = re.sub(rf"\]\((\.\./)?\.\./{re.escape(name)}", rf"](\g<1>{target}", markdown)
    return markdown
