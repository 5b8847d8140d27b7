"""Check that no store is named outside its own package.

``python scripts/store_names.py`` exits with 1 and prints each line of the program that names a store or its
service elsewhere. ``PERMITTED`` holds the exceptions with their reasons; an unused exception is an error too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from sources import SOURCES, Fault, report, texts, unused

_REGISTRY = SOURCES / "mcp_notarium" / "stores" / "registry.py"
_ORDINARY = {"local", "memory", "vault"}
"""Names of stores that are words of other things, too, and so cannot be looked for."""
_TOOLSETS = "mcp_notarium.tools.toolsets"
"""Each native toolset is called as its store is."""
_SERVICES = ("simperium", "etapi")
"""Names by which the services call what a store talks to."""

PERMITTED = {
    "mcp_notarium.stores.registry": "the list of stores",
    "mcp_notarium.crypto.user_key": "one of the words that people take for passphrases",
    "mcp_notarium.markup.html_to_markdown": "a class of code blocks whose language the editor guesses",
}
"""Module -> why it names a store, on one line for each store at most."""


def stores(registry: str) -> dict[str, str]:
    """Return the stores that the text of the registry lists, each with its package; not the ordinary names."""
    listed = re.findall(r'^    "(\w+)": "([\w.]+)\.\w+",$', registry, re.MULTILINE)
    return {name: package for name, package in listed if name not in _ORDINARY}


def find(modules: Iterator[tuple[str, str]], registry: str | None = None) -> Iterator[Fault]:
    """Yield the lines that name a store of the registry where they must not."""
    packages = stores(registry or _REGISTRY.read_text(encoding="utf-8"))
    names = re.compile("|".join((*packages, *_SERVICES)), re.IGNORECASE)
    used: set[tuple[str, str]] = set()
    for module, text in modules:
        if any(f"{module}.".startswith(f"{home}.") for home in (*packages.values(), _TOOLSETS)):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            named = names.search(line)
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
