"""Prints the tests that failed in the last run of pytest here, one a line."""

from __future__ import annotations

import json
from pathlib import Path

RECORD = Path(__file__).resolve().parent.parent / ".pytest_cache/v/cache/lastfailed"

if __name__ == "__main__":
    if RECORD.exists():
        print("\n".join(json.loads(RECORD.read_text(encoding="utf-8"))))
