"""Show the HTML of a note as Markdown, and tell what it does by itself. Pure.

``html_edit`` carries an edit of the Markdown back.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from mcp_notarium.markup import html_losses, markdown_to_html
from mcp_notarium.markup.html_edit import WouldLose, edit
from mcp_notarium.markup.html_losses import to_markdown
from mcp_notarium.markup.html_tree import Text, elements, parse
from mcp_notarium.markup.markdown_to_html import Known

__all__ = [
    "WouldLose",
    "edit",
    "find_active",
    "is_html",
    "loses_formatting",
    "to_html",
    "to_markdown",
]
_ACTIVE = frozenset(
    {
        "script", "style", "iframe", "frame", "object", "embed", "applet", "link", "meta", "base", "form",
        "svg", "math", "template", "textarea", "title", "xmp", "noscript", "noembed", "noframes", "plaintext",
    }
)  # fmt: skip
"""Elements that act, or that a browser takes for text up to the end tag: an element in one may be none, and the other way round."""
_FETCHED = frozenset({"src", "srcset", "poster", "background", "data", "action"})
_SOURCES = re.compile(r"""<img|>|\ssrc=['"]([^'">]+)['"]""", re.IGNORECASE)
_SCRIPT = re.compile(r"[\x00-\x20]*(?:javascript|vbscript|data):")


def to_html(markdown: str, *, images: tuple[str, ...] = ()) -> str:
    """Return the HTML of Markdown that belongs to no note yet; ``images``: see ``Known.own``."""
    try:
        return markdown_to_html.to_html(markdown, Known(own=images))
    finally:
        markdown_to_html.forget()


def is_html(text: str) -> bool:
    """Tell whether a text is HTML as a whole: elements that end, comments, and no text outside them.

    Within an element end tags may be missing that HTML does not ask for. Nothing may read otherwise in a browser.
    """
    text = text.removeprefix("\ufeff")
    if not text.lstrip().startswith("<"):
        return False
    fragment = parse(text)
    if fragment.faults or fragment.too_deep:
        return False
    return all(
        not node.text.strip() if isinstance(node, Text) else node.ends_itself
        for node in fragment.nodes
    )


def loses_formatting(held: str, made: str) -> bool:
    """Tell whether HTML lacks formatting of words that other HTML has too, and that Markdown does not show."""
    old, new = parse(held), parse(made)
    if old.too_deep or new.too_deep:
        return held != made
    if to_markdown(held) == to_markdown(made):
        return bool(html_losses.find_losses(old.nodes, new.nodes))
    return html_losses.loses_formatting(old.nodes, new.nodes)


def find_active(source: str, *, images: tuple[str, ...] = ()) -> set[str]:
    """Name what acts by itself where the HTML is stored or shown: scripts, and what another host is asked for.

    ``images``: see ``Known.own``.
    """
    harmless = (*images, "data:image/")
    found = {
        f"src of <img>: {address[:80]}"
        for address in map(html.unescape, _shown_to_the_server(source))
        if not "".join(address.split()).lower().startswith(harmless)
    }
    for element in elements(parse(source).nodes):
        if element.tag in _ACTIVE:
            found.add(f"<{element.tag}>")
        for name, value in element.attributes.items():
            address = "".join(value.split()).lower()
            if name.startswith("on") or name in ("srcdoc", "formaction"):
                found.add(f"{name} of <{element.tag}>")
            elif name in _FETCHED and not address.startswith(harmless):
                found.add(f"{name} of <{element.tag}>: {value[:80]}")
            elif "url(" in address and name == "style":
                found.add(f"style of <{element.tag}>: {value[:80]}")
            elif name in ("href", "xlink:href") and _SCRIPT.match(address):
                found.add(f"{name} of <{element.tag}>: {value[:80]}")
    return found


def _shown_to_the_server(source: str) -> Iterator[str]:
    """Yield the addresses of images that a server may fetch: one looks for them in comments and attributes, too."""
    within = False
    for found in _SOURCES.finditer(source):
        if found[1] is None:
            within = found[0] != ">"
        elif within:
            yield found[1]
