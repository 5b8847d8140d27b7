"""Check that no store is named outside its own package.

``python scripts/store_names.py`` exits with 1 and prints each line of the program that names a store or its
service elsewhere. ``PERMITTED`` holds the exceptions with their reasons; an unused exception is an error too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from sources import Fault, report, texts, unused

_NAMES = re.compile(r"simplenote|simperium", re.IGNORECASE)
_HOME = "mcp_notarium.stores.simplenote"

PERMITTED = {
    "mcp_notarium.stores.registry": "the list of stores, whose first is the default",
    "mcp_notarium.crypto.user_key": "one of the words that people take for passphrases",
}
"""Module -> why one line of it names a store."""


def find(modules: Iterator[tuple[str, str]]) -> Iterator[Fault]:
    """Yield the lines that name a store where they must not."""
    used: set[str] = set()
    for module, text in modules:
        if module == _HOME or module.startswith(f"{_HOME}."):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if not _NAMES.search(line):
                continue
            if module in PERMITTED and module not in used:
                used.add(module)
            else:
                yield Fault(module, number, f"names a store: {line.strip()}")
    yield from unused(PERMITTED, used)


def main() -> int:
    """Print the faults; return 1 if there are any."""
    return report([*find(texts())], well="store names: each store is named in its own package only")


if __name__ == "__main__":
    sys.exit(main())
