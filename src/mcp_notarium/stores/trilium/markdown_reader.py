"""Write Markdown as the HTML that Trilium's editor would write. Pure.

HTML in the Markdown stays text. An image is written only if the note has it already, or the server serves it
itself: of any other one only a link is made, for the server would fetch it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from mcp_notarium.stores.trilium.markdown_writer import AUTOMATIC, LANGUAGE

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

_OWN_IMAGES = ("api/attachments/", "api/images/")
MOST_MARKS = 50_000
"""The parser takes up to 0.1 ms for each of them, and nothing else runs meanwhile."""
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKER = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)]) {1,4}(?! )|(?:[-*+]|\d{1,9}[.)])$")
_WRAPPED = {"strong": "strong", "em": "em", "s": "s", "blockquote": "blockquote"}


@dataclass(frozen=True, slots=True)
class Known:
    """Hold what the note has: start tags of links by address, images by alternative text and address."""

    links: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[tuple[str, str], str] = field(default_factory=dict)


def segments(markdown: str) -> list[str]:
    """Return the source of each top-level block."""
    lines = markdown.split("\n")
    found = (
        "\n".join(lines[token.map[0] : token.map[1]]).rstrip("\n")
        for token in _tokens(markdown)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    )
    return [segment for segment in found if segment]


def has_too_many_marks(markdown: str) -> bool:
    """Tell whether the text has more characters that mean something in Markdown than are parsed."""
    return sum(map(markdown.count, "[*_~`$")) > MOST_MARKS


def to_html(markdown: str, known: Known) -> str:
    """Return the HTML of Markdown, block after block; its lines as they are if it has too many marks."""
    if has_too_many_marks(markdown):
        lines = _ESCAPED.sub(r"\1", markdown).splitlines()
        return "".join(f"<p>{_text(line)}</p>" for line in lines if line.strip())
    from markdown_it.tree import SyntaxTreeNode  # noqa: PLC0415 - only a save needs it

    return "".join(map(_Renderer(known).node, SyntaxTreeNode(_tokens(markdown)).children))


def inline_html(markdown: str, known: Known) -> str:
    """Return the HTML of Markdown within a line; spaces around it stay."""
    from markdown_it.tree import SyntaxTreeNode  # noqa: PLC0415 - only a save needs it

    tree = SyntaxTreeNode(_parser().parseInline(markdown))
    return "".join(map(_Renderer(known).node, tree.children))


def kind_of(segment: str) -> str:
    """Return what a single block is, as the parser calls it; '' if it is several."""
    outer = [one for one in _tokens(segment) if one.level == 0 and one.nesting >= 0]
    return outer[0].type.removesuffix("_open") if len(outer) == 1 else ""


def list_items(segment: str) -> list[str] | None:
    """Return the Markdown of each item of a list, without its marker; None if one is written loosely."""
    lines, found = segment.split("\n"), list[str]()
    for token in _tokens(segment):
        if token.type != "list_item_open" or token.level != 1 or token.map is None:
            continue
        first, *rest = lines[token.map[0] : token.map[1]]
        marker = _MARKER.match(first)
        if marker is None or any(line[: marker.end()].strip() for line in rest):
            return None
        inner = [line[marker.end() :] for line in rest]
        found.append("\n".join([first[marker.end() :], *inner]).rstrip("\n"))
    return found


def table_rows(segment: str) -> list[list[str]]:
    """Return the Markdown of each cell of a table, its head first; ``|`` is not escaped."""
    rows = list[list[str]]()
    for token in _tokens(segment):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(token.content)
    return rows


def normal_address(address: str) -> str:
    """Return an address as the parser returns it."""
    return _parser().normalizeLink(address)


@lru_cache(maxsize=16)
def _tokens(markdown: str) -> list[Token]:
    """Parse; an edit asks several things of the same text."""
    return _parser().parse(markdown)


def forget() -> None:
    """Forget the texts of an edit."""
    _tokens.cache_clear()


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - only a save needs it
    from mdit_py_plugins.dollarmath import dollarmath_plugin  # noqa: PLC0415 - see above

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.disable(["reference", "html_block", "html_inline"])
    return parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)


class _Renderer:
    def __init__(self, known: Known) -> None:
        self._known = known

    def node(self, node: SyntaxTreeNode) -> str:  # noqa: C901, PLR0911, PLR0912 - one line a kind
        match node.type:
            case "text":
                return _text(node.content)
            case "softbreak":
                return " "
            case "hardbreak":
                return "<br>"
            case "code_inline":
                return f"<code>{_text(node.content)}</code>"
            case "math_inline":
                return f'<span class="math-tex">\\({_text(node.content)}\\)</span>'
            case "math_inline_double" | "math_block":
                content = _text(" ".join(node.content.split()))
                math = f'<span class="math-tex">\\[{content}\\]</span>'
                return f"<p>{math}</p>" if node.type == "math_block" else math
            case "strong" | "em" | "s" | "blockquote":
                return f"<{_WRAPPED[node.type]}>{self._inner(node)}</{_WRAPPED[node.type]}>"
            case "link":
                return self._link(node)
            case "image":
                return self._image(node)
            case "heading":
                return f"<{node.tag}>{self._inner(node)}</{node.tag}>"
            case "paragraph":
                return self._inner(node) if node.hidden else f"<p>{self._inner(node)}</p>"
            case "hr":
                return "<hr>"
            case "fence" | "code_block":
                language = node.info.strip().split(" ")[0] if node.type == "fence" else ""
                kind = _attribute(LANGUAGE + (language or AUTOMATIC))
                code = _text(node.content.removesuffix("\n"))
                return f'<pre><code class="{kind}">{code}</code></pre>'
            case "bullet_list" | "ordered_list":
                return self._list(node)
            case "table":
                return f'<figure class="table"><table>{self._rows(node)}</table></figure>'
        return self._inner(node)

    def _inner(self, node: SyntaxTreeNode) -> str:
        return "".join(map(self.node, node.children))

    def _link(self, node: SyntaxTreeNode) -> str:
        address = str(node.attrs.get("href", ""))
        opening = self._known.links.get(address) or f'<a href="{_attribute(address)}">'
        return f"{opening}{self._inner(node)}</a>"

    def _image(self, node: SyntaxTreeNode) -> str:
        address, alt = str(node.attrs.get("src", "")), _plain(node)
        known = self._known.images.get((alt, address))
        if known is not None:
            return known
        if address.startswith(_OWN_IMAGES):
            return f'<img alt="{_attribute(alt)}" src="{_attribute(address)}">'
        return f'<a href="{_attribute(address)}">{_text(alt or address)}</a>'

    def _list(self, node: SyntaxTreeNode) -> str:
        items = [self._item(item) for item in node.children]
        start = node.attrs.get("start", 1)
        kind = f' start="{start}"' if node.tag == "ol" and start != 1 else ""
        if any(box for _, box in items):
            kind = ' class="todo-list"'
        return f"<{node.tag}{kind}>{''.join(item for item, _ in items)}</{node.tag}>"

    def _item(self, item: SyntaxTreeNode) -> tuple[str, bool]:
        """Return an item, and whether it has a box to tick."""
        inner = self._inner(item)
        if item.parent is None or item.parent.tag != "ul":
            return f"<li>{inner}</li>", False
        for box, checked in (
            ("[ ] ", ""),
            ("[x] ", ' checked="checked"'),
            ("[X] ", ' checked="checked"'),
        ):
            first = item.children[0] if item.children else None
            if (
                first is not None
                and first.type == "paragraph"
                and inner.removeprefix("<p>").startswith(box)
            ):
                text = self._inner(first).removeprefix(box)
                rest = "".join(map(self.node, item.children[1:]))
                return f"<li>{_box(text, checked)}{rest}</li>", True
        return f"<li>{inner}</li>", False

    def _rows(self, table: SyntaxTreeNode) -> str:
        written = ""
        for part in table.children:
            rows = [[self._inner(cell) for cell in row.children] for row in part.children]
            if part.type == "thead" and not any(rows[0]):
                continue
            cell = "th" if part.type == "thead" else "td"
            inner = "".join(
                f"<tr>{''.join(f'<{cell}>{text}</{cell}>' for text in row)}</tr>" for row in rows
            )
            written += f"<{part.type}>{inner}</{part.type}>"
        return written


def _box(text: str, checked: str) -> str:
    return (
        f'<label class="todo-list__label"><input type="checkbox"{checked} disabled="disabled">'
        f'<span class="todo-list__label__description">{text}</span></label>'
    )


def _plain(node: SyntaxTreeNode) -> str:
    parts: list[Any] = [
        child.content if not child.children else _plain(child) for child in node.children
    ]
    return "".join(parts)


def _text(text: str) -> str:
    return html.escape(text, quote=False)


def _attribute(text: str) -> str:
    return html.escape(text)
