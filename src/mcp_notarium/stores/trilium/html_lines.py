"""Change some words of a line of HTML, byte-exact around them. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mcp_notarium.stores.trilium import markdown_reader
from mcp_notarium.stores.trilium.html_losses import find_losses
from mcp_notarium.stores.trilium.html_tree import Element, Node, Text, inner_end, parse
from mcp_notarium.stores.trilium.markdown_reader import Known
from mcp_notarium.stores.trilium.markdown_writer import CANONICAL, COLLAPSED, Writer, escape_lines

_WORD = re.compile(r"(?:\s|&nbsp;)+|&(?:\w+|#\w+);|[^\s&]+|&")
_BREAK = "\\\n"
_WHOLE = frozenset({"code"})
"""Elements whose Markdown is not that of what is inside."""
Piece = tuple[Node, str]
"""A node and its Markdown."""


class WouldLose(Exception):
    """An edit would lose something that its Markdown does not show; ``what`` names it."""

    def __init__(self, what: list[str]) -> None:
        super().__init__(", ".join(what))
        self.what = what


@dataclass(frozen=True, slots=True)
class LineEditor:
    """Edit the lines of one note."""

    source: str
    known: Known
    writer: Writer

    def edit(self, nodes: list[Node], old: str, new: str) -> str:
        """Return the source of nodes that read as ``old``, changed to read as ``new``. Raises ``WouldLose``."""
        plain = _stripped(list(self._pieces(nodes)))
        for pieces in (plain, _escaped(plain)):
            if "".join(part for _, part in pieces) == old:
                return self._between(pieces, new)
        self._require_lossless(nodes, old)
        return markdown_reader.inline_html(new, self.known)

    def _pieces(self, nodes: list[Node]) -> Iterator[Piece]:
        """Yield elements and words, each with its Markdown."""
        for node, part in zip(nodes, self.writer.inline_parts(nodes), strict=True):
            words = list(self._words(node)) if isinstance(node, Text) else []
            same = words and part == "".join(text for _, text in words)
            yield from words if same else [(node, part)]

    def _words(self, node: Text) -> Iterator[Piece]:
        for found in _WORD.finditer(self.source, node.start, node.end):
            word = html.unescape(found[0])
            yield Text(word, found.start(), found.end()), self.writer.text(word)

    def _between(self, pieces: list[Piece], new: str) -> str:
        """Change what stands between the pieces that are the same at both ends."""
        low, high = 0, len(pieces)
        begin, end = 0, len(new)
        while low < high and new.startswith(pieces[low][1], begin):
            begin += len(pieces[low][1])
            low += 1
        while low and not pieces[low - 1][1] and begin:
            low -= 1  # what shows nothing stays with what follows
        while high > low and new.endswith(pieces[high - 1][1], begin, end):
            end -= len(pieces[high - 1][1])
            high -= 1
        while low < high and not pieces[low][1]:
            low += 1
        changed = pieces[low:high]
        places = [*(node.start for node, _ in pieces), pieces[-1][0].end]
        made = self._within(changed, new[begin:end])
        if made is None:
            if new[begin:end].strip():
                held = "".join(part for _, part in changed)
                self._require_lossless([node for node, _ in changed], held)
            made = markdown_reader.inline_html(new[begin:end], self.known)
        return self.source[places[0] : places[low]] + made + self.source[places[high] : places[-1]]

    def _within(self, changed: list[Piece], new: str) -> str | None:
        """Return a single element with what is inside changed; None if the change is not inside of one."""
        one, part = changed[0] if len(changed) == 1 else (None, "")
        if not isinstance(one, Element) or not one.children:
            return None
        tag = CANONICAL.get(one.tag, one.tag)
        with self.writer.inside(tag) as mark:
            pieces = _stripped(list(self._pieces(one.children)))
            inner = "".join(text for _, text in pieces)
            begin = part[: len(part) - len(part.lstrip(" "))] + ("[" if tag == "a" else mark)
            end = part[len(begin) + len(inner) :]
            changed_inner = new[len(begin) : len(new) - len(end)]
            if (
                tag in _WHOLE
                or part != begin + inner + end
                or new != begin + changed_inner + end
                or not changed_inner.strip()
            ):
                return None
            made = self._between(pieces, changed_inner)
        return one.opening + made + self.source[inner_end(self.source, one) : one.end]

    def _require_lossless(self, nodes: list[Node], markdown: str) -> None:
        made = parse(markdown_reader.inline_html(markdown, self.known)).nodes
        if losses := find_losses(nodes, made, inline=True):
            raise WouldLose(losses)


def _stripped(pieces: list[Piece]) -> list[Piece]:
    """Leave out the spaces and breaks at both ends, which show nothing."""
    parts = [part for _, part in pieces]
    for number, part in enumerate(parts):
        parts[number] = part.lstrip(COLLAPSED)
        if parts[number]:
            break
    for number in reversed(range(len(parts))):
        parts[number] = "" if parts[number] == _BREAK else parts[number].rstrip(COLLAPSED)
        if parts[number]:
            break
    return [(node, part) for (node, _), part in zip(pieces, parts, strict=True)]


def _escaped(pieces: list[Piece]) -> list[Piece]:
    """Escape what would begin a block at the start of a line."""
    found: list[Piece] = []
    begins = True
    for node, part in pieces:
        found.append((node, escape_lines(part) if begins else part))
        begins = part == _BREAK or (begins and not part)
    return found
