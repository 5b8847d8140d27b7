"""Test that the demo shows what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(150)
@pytest.mark.slow("the whole demo")
def test_demo_keeps_its_claims_and_shows_the_progress_of_the_first_sync(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "notarium_devtools.demo", "--notes", "150"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the stop left a verified copy" in done.stdout
    assert "loaded 100 notes" in done.stdout
    assert "✓ while it loaded, it said how many notes are here" in done.stdout
    assert "NOT TRUE" not in done.stdout
    kept = re.search(r"(\d+) of (\d+) claims kept", done.stdout)
    assert kept
    assert kept[1] == kept[2]
