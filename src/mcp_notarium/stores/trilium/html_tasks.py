"""Tick the box of a task. Pure."""

from __future__ import annotations

import re

from mcp_notarium.stores.trilium.html_tree import Element

_CHECKED = re.compile(r"""\s+checked(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?""", re.IGNORECASE)
_TYPE = re.compile(r"""\stype\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)


def ticked(box: Element, checked: bool) -> str:  # noqa: FBT001 - a tick
    """Return the start tag of a box, ticked or not; its other attributes stay in their order."""
    if ("checked" in box.attributes) == checked:
        return box.opening
    bare = _CHECKED.sub("", box.opening)
    if not checked:
        return bare
    kind = _TYPE.search(bare)
    place = kind.end() if kind else len("<input")
    return bare[:place] + ' checked="checked"' + bare[place:]
