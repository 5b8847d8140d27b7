"""The demo shows what it says, and says so itself."""

import os
import re
from pathlib import Path

import pytest

from support.whole import run


@pytest.mark.timeout(150)
def test_demo_keeps_its_claims_and_shows_the_progress_of_the_first_sync(tmp_path: Path) -> None:
    done = run({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, "demo", "--notes", "150")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loaded 100 of 150 notes" in done.stdout
    assert "✓ while it loaded, it said how many of how many are here" in done.stdout
    assert "NOT TRUE" not in done.stdout
    kept = re.search(r"(\d+) of (\d+) claims kept", done.stdout)
    assert kept
    assert kept[1] == kept[2]
