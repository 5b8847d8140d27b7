"""Prints the tests that failed in the last run of pytest here, one a line.

Nothing if anything but a test failed: a file that cannot be imported, a run that fell apart.
"""

from __future__ import annotations

import json
from pathlib import Path

RECORD = Path(__file__).resolve().parent.parent / ".pytest_cache/v/cache/lastfailed"

if __name__ == "__main__":
    if RECORD.exists():
        failed = json.loads(RECORD.read_text(encoding="utf-8"))
        if all("::" in name for name in failed):
            print("\n".join(failed))
