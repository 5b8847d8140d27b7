"""Write Markdown as the HTML that the editor CKEditor 5 would write. Pure.

HTML in the Markdown stays text. A line break stays one, as in a plain text that is pasted into the editor. Items with a
box to tick and others are lists of their own, and ``*`` goes on a list of ``-`` right above it. An image is written only if the note has it already, or the server serves it
itself: of any other one only a link is made, for the server would fetch it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mcp_notarium.markup.html_to_markdown import ADMONITIONS, class_of, name_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

MOST_MARKS = 50_000
"""The parser takes up to 0.1 ms for each of them, and nothing else runs meanwhile."""
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKER = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)]) {1,4}(?! )|(?:[-*+]|\d{1,9}[.)])$")
_BULLET = re.compile(r"( {0,3})(?:[-*+]|(\d{1,9})[.)])")
_TASK = re.compile(r" {0,3}[-*+] {1,4}\[[ xX]\](?: |$)", re.MULTILINE)
_ONE_BLOCK = re.compile(r"(?:#{1,6} )?[^\W\d_][^\r\n]*")
"""A line that is a paragraph or a heading, whatever else is in it: to parse each line by itself takes most of an edit's time."""
_BOX = re.compile(r"\[([ xX])\](?: |$)")
_ADMONITION = re.compile(rf"\[!({'|'.join(ADMONITIONS)})\](?: +|(?=\n)|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Known:
    """Hold what the note has: start tags of links by address, images by alternative text and address."""

    links: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[tuple[str, str], str] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    """Beginnings of the addresses of images that the store itself serves; an image of another address becomes a link."""


def segments(markdown: str) -> list[str]:
    """Return the source of each top-level block, as it reads by itself."""
    if _ONE_BLOCK.fullmatch(markdown):
        return [markdown]
    return _segments(markdown)


def _segments(markdown: str) -> list[str]:
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")  # as the parser does
    found = list[str]()
    before: tuple[str, bool, int] | None = None
    for first, end, kind, marker in _parts(lines):
        segment = "\n".join(lines[first:end]).rstrip("\n")
        task = kind == "bullet_list" and _TASK.match(segment) is not None
        if not segment:
            continue
        if marker and before == (kind, task, first) and lines[first - 1].strip():
            found[-1] += "\n" + _with_marker(segment, found[-1])
        else:
            found.append(segment)
        before = (kind, task, end)
    return found


def _parts(lines: list[str]) -> Iterator[tuple[int, int, str, bool]]:
    """Yield the first line, the end and the kind of each block; of a list, of the items with a box and without.

    The last value tells whether it begins a list.
    """
    start, end, kind, task = 0, 0, "", False
    for token in _blocks(lines):
        if token.map is None or token.nesting < 0:
            continue
        if token.level == 0:
            if kind:
                yield start, end, kind, kind.endswith("_list")
            start, end = token.map
            kind, task = token.type.removesuffix("_open"), _TASK.match(lines[start]) is not None
        elif token.level == 1 and token.type == "list_item_open" and kind == "bullet_list":
            now = _TASK.match(lines[token.map[0]]) is not None
            if now != task:
                yield start, token.map[0], kind, True
                start, task = token.map[0], now
    if kind:
        yield start, end, kind, kind.endswith("_list")


def _with_marker(segment: str, above: str) -> str:
    """Return a list with the markers of the list above it."""
    marks = _BULLET.match(above)
    end, items = marks[0][-1] if marks else "-", _item_lines(segment)
    return "\n".join(
        _BULLET.sub(lambda found: found[1] + (found[2] or "") + end, line, count=1)
        if number in items
        else line
        for number, line in enumerate(segment.split("\n"))
    )


def _item_lines(segment: str) -> set[int]:
    items = (one for one in _tokens(segment) if one.type == "list_item_open" and one.level == 1)
    return {token.map[0] for token in items if token.map is not None}


def has_too_many_marks(markdown: str) -> bool:
    """Tell whether the text has more characters that mean something in Markdown than are parsed."""
    return sum(map(markdown.count, "[*_~`$")) > MOST_MARKS


def to_html(markdown: str, known: Known) -> str:
    """Return the HTML of Markdown, block after block; its lines as they are if it has too many marks."""
    if has_too_many_marks(markdown):
        lines = _ESCAPED.sub(r"\1", markdown).splitlines()
        return "".join(f"<p>{_text(line)}</p>" for line in lines if line.strip())
    return "".join(_block_html(segment, known) for segment in segments(markdown))


def _block_html(segment: str, known: Known) -> str:
    from markdown_it.tree import SyntaxTreeNode  # noqa: PLC0415 - only a save needs it

    return "".join(map(_Renderer(known).node, SyntaxTreeNode(_tokens(segment)).children))


def inline_html(markdown: str, known: Known) -> str:
    """Return the HTML of Markdown within a line; spaces around it stay."""
    from markdown_it.tree import SyntaxTreeNode  # noqa: PLC0415 - only a save needs it

    tree = SyntaxTreeNode(_parser().parseInline(markdown))
    return "".join(map(_Renderer(known).node, tree.children))


def kind_of(segment: str) -> str:
    """Return what a single block is, as the parser calls it; '' if it is several."""
    outer = [one for one in _tokens(segment) if one.level == 0 and one.nesting >= 0]
    return outer[0].type.removesuffix("_open") if len(outer) == 1 else ""


def code_of(segment: str) -> tuple[str, str] | None:
    """Return language and text of a code block; None if it is none."""
    outer = [one for one in _tokens(segment) if one.level == 0]
    if len(outer) != 1 or outer[0].type != "fence":
        return None
    return language_in(outer[0].info), outer[0].content.removesuffix("\n")


def code_span(markdown: str) -> str | None:
    """Return the text of code within a line; None if it is something else."""
    inner = _parser().parseInline(markdown)[0].children or []
    return inner[0].content if len(inner) == 1 and inner[0].type == "code_inline" else None


def language_in(info: str) -> str:
    """Return the name of the language that the first line of a code block gives, in the spelling used here."""
    return name_of(class_of(info.strip().split(" ")[0]))


def admonition_in(quoted: str) -> tuple[str, str] | None:
    """Return the type of an admonition and what it says; None if the text of this quote is none."""
    found = _ADMONITION.match(quoted)
    if found is None:
        return None
    title, said = titled(quoted[found.end() :])
    return found[1].lower(), f"{title}\n\n{said}" if title and said else title or said


def titled(content: str) -> tuple[str, str]:
    """Return the title that stands behind the type of an admonition, '' if there is none, and the text below it.

    The editor writes a title in bold. What has no text below it is no title.
    """
    title, _, said = content.partition("\n")
    said = said.strip("\n")
    return (f"**{title}**", said) if title and said else ("", title or said)


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
        found.append("\n".join([first[marker.end() :], *inner]).rstrip(" \n"))
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


def _blocks(lines: list[str]) -> list[Token]:
    """Parse the blocks alone: what is in their lines takes half of the time."""
    parser = _parser()
    found: list[Token] = []
    parser.block.parse("\n".join(lines), parser, {}, found)
    return found


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
            case "softbreak" | "hardbreak":
                return "<br>"
            case "code_inline":
                return f"<code>{_text(node.content)}</code>"
            case "math_inline":
                return f'<span class="math-tex">\\({_text(node.content)}\\)</span>'
            case "math_inline_double" | "math_block":
                content = _text(" ".join(node.content.split()))
                math = f'<span class="math-tex">\\[{content}\\]</span>'
                return f"<p>{math}</p>" if node.type == "math_block" else math
            case "strong" | "em" | "s":
                return f"<{node.type}>{self._inner(node)}</{node.type}>"
            case "blockquote":
                return self._quote(node)
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
                kind = _attribute(class_of(language_in(node.info)))
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
        if address.startswith(self._known.own):
            return f'<img alt="{_attribute(alt)}" src="{_attribute(address)}">'
        return f'<a href="{_attribute(address)}">{_text(alt or address)}</a>'

    def _quote(self, node: SyntaxTreeNode) -> str:
        """Return a quote, or the admonition that its first line makes of it."""
        first = node.children[0] if node.children else None
        content = (
            first.children[0].content if first is not None and first.type == "paragraph" else ""
        )
        found = _ADMONITION.match(content)
        if found is None:
            return f"<blockquote>{self._inner(node)}</blockquote>"
        lines = filter(None, titled(content[found.end() :]))
        inner = "".join(f"<p>{inline_html(one, self._known)}</p>" for one in lines)
        inner += "".join(map(self.node, node.children[1:]))
        return f'<aside class="admonition {found[1].lower()}">{inner or "<p></p>"}</aside>'

    def _list(self, node: SyntaxTreeNode) -> str:
        """Return a list; several if only some of its items have a box to tick."""
        start, written = node.attrs.get("start", 1), ""
        number = f' start="{start}"' if node.tag == "ol" and start != 1 else ""
        for boxed, items in groupby(map(self._item, node.children), key=lambda item: item[1]):
            kind = ' class="todo-list"' if boxed else number
            written += f"<{node.tag}{kind}>{''.join(item for item, _ in items)}</{node.tag}>"
        return written

    def _item(self, item: SyntaxTreeNode) -> tuple[str, bool]:
        """Return an item, and whether it has a box to tick."""
        first = item.children[0] if item.children else None
        bullet = item.parent is not None and item.parent.tag == "ul"
        content = first.children[0].content if first and first.type == "paragraph" else ""
        found = _BOX.match(content) if bullet else None
        if found is None:
            return f"<li>{self._inner(item)}</li>", False
        checked = "" if found[1] == " " else ' checked="checked"'
        rest = "".join(map(self.node, item.children[1:]))
        return (
            f"<li>{_box(inline_html(content[found.end() :], self._known), checked)}{rest}</li>",
            True,
        )

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
