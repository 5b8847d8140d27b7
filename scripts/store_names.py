"""Check that no store is named outside its own package.

``python scripts/store_names.py`` exits with 1 and prints each line of the program that names a store or its
service elsewhere. ``PERMITTED`` holds the exceptions with their reasons; an unused exception is an error too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from sources import Fault, report, texts, unused

_NAMES = re.compile(r"simplenote|simperium|trilium|etapi", re.IGNORECASE)
_HOMES = ("mcp_notarium.stores.simplenote", "mcp_notarium.stores.trilium")

PERMITTED = {
    "mcp_notarium.stores.registry": "the list of stores",
    "mcp_notarium.crypto.user_key": "one of the words that people take for passphrases",
}
"""Module -> why it names a store, on one line for each store at most."""


def find(modules: Iterator[tuple[str, str]]) -> Iterator[Fault]:
    """Yield the lines that name a store where they must not."""
    used: set[tuple[str, str]] = set()
    for module, text in modules:
        if any(module == home or module.startswith(f"{home}.") for home in _HOMES):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            named = _NAMES.search(line)
            if named is None:
                continue
            name = (module, named[0].lower())
            if module in PERMITTED and name not in used:
                used.add(name)
            else:
                yield Fault(module, number, f"names a store: {line.strip()}")
    yield from unused(PERMITTED, {module for module, _ in used})


def main() -> int:
    """Print the faults; return 1 if there are any."""
    return report([*find(texts())], well="store names: each store is named in its own package only")


if __name__ == "__main__":
    sys.exit(main())
