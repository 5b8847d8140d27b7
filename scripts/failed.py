"""Print the tests that failed in the last run of pytest, one a line, for ``scripts/test``.

Prints nothing if something else failed as well, such as an import.
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
