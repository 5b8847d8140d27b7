"""List the defences in places where no marker can stand or no mechanical change removes them."""

from __future__ import annotations

CUSTOM: dict[str, tuple[str, str, str]] = {}
"""Name -> file below the package, a text that is in it exactly once, the text without the defence."""
