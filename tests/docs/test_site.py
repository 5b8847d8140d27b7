"""Test the site: it builds without a broken link, with every page, and fetches nothing from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
OUTSIDE = {"pages", "SECURITY", "threat-model", "CHANGELOG"}


@pytest.mark.slow("builds the whole site")
def test_site_has_every_page_and_fetches_nothing_from_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path],
        cwd=TOP,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = {page.relative_to(tmp_path).parent.as_posix() for page in tmp_path.rglob("index.html")}
    sources = (TOP / "docs").rglob("*.md")
    wanted = {one.relative_to(TOP / "docs").with_suffix("").as_posix() for one in sources}
    assert pages == (wanted - {"README", "decisions/README"} | OUTSIDE | {".", "decisions"})
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "mcp-notarium setup" in first
    used = first.index("To use it")
    assert used < first.index('href="installing/"', used) < first.index("To work on it")
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=\"?(https?:[^\s\">]+)",
            page.read_text(),
        )
        assert not fetched, page
