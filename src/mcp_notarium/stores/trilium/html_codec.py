"""Show the HTML of a note as Markdown, and tell what it does by itself. Pure.

``html_edit`` carries an edit of the Markdown back.
"""

from __future__ import annotations

import re

from mcp_notarium.stores.trilium import markdown_reader
from mcp_notarium.stores.trilium.html_blocks import to_markdown
from mcp_notarium.stores.trilium.html_edit import WouldLose, edit
from mcp_notarium.stores.trilium.html_tree import Text, elements, parse
from mcp_notarium.stores.trilium.markdown_reader import Known

__all__ = ["WouldLose", "edit", "find_active", "is_html", "to_html", "to_markdown"]
_ACTIVE = frozenset(
    {
        "script", "style", "iframe", "frame", "object", "embed", "applet", "link", "meta", "base", "form",
        "svg", "math", "template",
    }
)  # fmt: skip
_FETCHED = frozenset({"src", "srcset", "poster", "background", "data", "action"})
_OWN_ADDRESSES = ("api/attachments/", "api/images/", "data:image/")
_SCRIPT = re.compile(r"[\x00-\x20]*(?:javascript|vbscript|data):")


def to_html(markdown: str) -> str:
    """Return the HTML of Markdown that belongs to no note yet."""
    try:
        return markdown_reader.to_html(markdown, Known())
    finally:
        markdown_reader.forget()


def is_html(text: str) -> bool:
    """Tell whether a text is well-formed HTML as a whole: elements, and no text beside them."""
    if not text.lstrip().startswith("<"):
        return False
    fragment = parse(text)
    beside = (node for node in fragment.nodes if isinstance(node, Text) and node.text.strip())
    return fragment.well_formed and not any(beside)


def find_active(source: str) -> set[str]:
    """Name what acts by itself where the HTML is stored or shown: scripts, and what another host is asked for."""
    found = set()
    for element in elements(parse(source).nodes):
        if element.tag in _ACTIVE:
            found.add(f"<{element.tag}>")
        for name, value in element.attributes.items():
            address = "".join(value.split()).lower()
            if name.startswith("on") or name in ("srcdoc", "formaction"):
                found.add(f"{name} of <{element.tag}>")
            elif name in _FETCHED and not address.startswith(_OWN_ADDRESSES):
                found.add(f"{name} of <{element.tag}>: {value[:80]}")
            elif "url(" in address and name == "style":
                found.add(f"style of <{element.tag}>: {value[:80]}")
            elif name in ("href", "xlink:href") and _SCRIPT.match(address):
                found.add(f"{name} of <{element.tag}>: {value[:80]}")
    return found
