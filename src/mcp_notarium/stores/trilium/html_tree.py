"""Parse the HTML of a note into a tree that knows where each element stands in the source. Pure.

Trilium's editor writes well-formed fragments. Anything else is read as well as possible and marked, so that
nobody edits it.
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
DEEPEST = 60
"""Levels of elements; what is nested deeper is read as if it stood there."""


@dataclass(slots=True)
class Text:
    """Hold decoded text between ``start`` and ``end`` of the source."""

    text: str
    start: int
    end: int


@dataclass(slots=True)
class Element:
    """Hold an element; ``opening`` is its start tag as it was written."""

    tag: str
    attributes: dict[str, str]
    opening: str
    start: int
    end: int
    children: list[Element | Text] = field(default_factory=list)

    def has_class(self, name: str) -> bool:
        """Tell whether the element has this class."""
        return name in self.attributes.get("class", "").split()

    def all_text(self) -> str:
        """Return the text of the element and everything in it."""
        return "".join(
            child.text if isinstance(child, Text) else child.all_text() for child in self.children
        )


Node = Element | Text


@dataclass(frozen=True, slots=True)
class Fragment:
    """Hold a parsed source. ``well_formed``: every element ends, where its own end tag stands."""

    source: str
    nodes: list[Node]
    well_formed: bool


def parse(source: str) -> Fragment:
    """Parse HTML. Never raises."""
    parser = _Parser(source)
    parser.feed(source)
    parser.close()
    return Fragment(source, parser.root.children, parser.finish())


class _Parser(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self.root = Element("", {}, "", 0, len(source))
        self._source = source
        self._open = [self.root]
        self._well_formed = True
        self._line_starts = [0]
        for position, letter in enumerate(source):
            if letter == "\n":
                self._line_starts.append(position + 1)

    def finish(self) -> bool:
        """Close what is still open; tell whether nothing was wrong."""
        for element in self._open[1:]:
            element.end = len(self._source)
        return self._well_formed and len(self._open) == 1

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin(tag, attrs, closed=tag in VOID)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # In HTML the slash of <p/> means nothing: the element stays open.
        self._well_formed = self._well_formed and tag in VOID
        self._begin(tag, attrs, closed=True)

    def handle_endtag(self, tag: str) -> None:
        start = self._position()
        end = self._source.find(">", start) + 1 or len(self._source)
        if len(self._open) > 1 and self._open[-1].tag == tag:
            self._open.pop().end = end
            return
        self._well_formed = False
        if any(element.tag == tag for element in self._open[1:]):
            while self._open[-1].tag != tag:
                self._open.pop().end = start
            self._open.pop().end = end

    def handle_data(self, data: str) -> None:
        self._add_text(data, len(data))

    def handle_entityref(self, name: str) -> None:
        self._add_reference(f"&{name}")

    def handle_charref(self, name: str) -> None:
        self._add_reference(f"&#{name}")

    def handle_comment(self, data: str) -> None:
        del data
        self._well_formed = False

    def handle_decl(self, decl: str) -> None:
        del decl
        self._well_formed = False

    def unknown_decl(self, data: str) -> None:
        del data
        self._well_formed = False

    def handle_pi(self, data: str) -> None:
        del data
        self._well_formed = False

    def _add_reference(self, text: str) -> None:
        end = self._position() + len(text)
        text += ";" if self._source[end : end + 1] == ";" else ""
        self._add_text(html.unescape(text), len(text))

    def _add_text(self, text: str, length: int) -> None:
        start = self._position()
        siblings = self._open[-1].children
        last = siblings[-1] if siblings else None
        if isinstance(last, Text) and last.end == start:
            last.text, last.end = last.text + text, start + length
        else:
            siblings.append(Text(text, start, start + length))

    def _begin(self, tag: str, attrs: list[tuple[str, str | None]], *, closed: bool) -> None:
        start, opening = self._position(), self.get_starttag_text() or ""
        attributes = {name: value or "" for name, value in attrs}
        self._well_formed = self._well_formed and len(attributes) == len(attrs)
        element = Element(tag, attributes, opening, start, start + len(opening))
        self._open[-1].children.append(element)
        if closed:
            return
        if len(self._open) > DEEPEST:
            self._well_formed = False
        else:
            self._open.append(element)

    def _position(self) -> int:
        line, column = self.getpos()
        return self._line_starts[line - 1] + column
