"""Parse the HTML of a note into a tree that knows where each element stands in the source. Pure.

Trilium's editor writes well-formed fragments. Anything else is read as well as possible and marked, so that
nobody edits it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
# Possessive, so that no text makes them slow.
_TAG = re.compile(r"""<(/?)([A-Za-z][A-Za-z0-9:-]*+)((?:[^<>"']|"[^"]*"|'[^']*')*+)>""")
_ONE = r"""([^\s"'<>/=]++)(?:\s*+=\s*+("[^"]*"|'[^']*'|[^\s"'<>=]++))?+"""
_ATTRIBUTE = re.compile(_ONE)
_ATTRIBUTES = re.compile(rf"(?:\s++{_ONE})*+\s*+/?")
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


def elements(nodes: Iterable[Node]) -> Iterator[Element]:
    """Yield every element of these nodes, outer ones first."""
    for node in nodes:
        if isinstance(node, Element):
            yield node
            yield from elements(node.children)


def inner_end(source: str, one: Element) -> int:
    """Return where the end tag of a well-formed element begins."""
    return source.rindex("</", one.start, one.end)


@dataclass(frozen=True, slots=True)
class Fragment:
    """Hold what was parsed. ``well_formed``: every element ends, where its own end tag stands."""

    nodes: list[Node]
    well_formed: bool


def parse(source: str) -> Fragment:
    """Parse HTML, in time that grows with its length. Never raises."""
    parser = _Parser(source)
    parser.read()
    return Fragment(parser.root.children, parser.finish())


class _Parser:
    """Read tags and text. ``html.parser`` takes minutes for a few kilobytes of unfinished tags."""

    def __init__(self, source: str) -> None:
        self.root = Element("", {}, "", 0, len(source))
        self._source = source
        self._open = [self.root]
        self._well_formed = True

    def read(self) -> None:
        """Read the whole source. What begins like a tag and is none is text."""
        source, done, closing = self._source, 0, 0
        position = source.find("<")
        while position >= 0:
            tag = _TAG.match(source, position)
            end = tag.end() if tag else position + 1
            if tag is None:
                self._well_formed = False
                if source.startswith("<!--", position):
                    if 0 <= closing < end:  # else it is known from the comment before
                        closing = source.find("-->", position + 4)
                    if closing >= 0:
                        self._add_text(done, position)
                        done = end = closing + 3
            else:
                self._add_text(done, position)
                done = end
                self._read_tag(tag)
            position = source.find("<", end)
        self._add_text(done, len(source))

    def finish(self) -> bool:
        """Close what is still open; tell whether nothing was wrong."""
        for element in self._open[1:]:
            element.end = len(self._source)
        return self._well_formed and len(self._open) == 1

    def _read_tag(self, found: re.Match[str]) -> None:
        slash, name, rest = found.groups()
        if slash:
            self._well_formed = self._well_formed and not rest.strip()
            self._end(name.lower(), found.start(), found.end())
            return
        if _ATTRIBUTES.fullmatch(rest) is None:
            self._well_formed = False
        self._begin(name.lower(), found, empty=rest.rstrip().endswith("/"))

    def _begin(self, tag: str, found: re.Match[str], *, empty: bool) -> None:
        pairs = _ATTRIBUTE.findall(found[3])
        attributes = {name.lower(): html.unescape(_unquote(value)) for name, value in pairs}
        # In HTML the slash of <p/> means nothing: the element stays open.
        strange = len(attributes) != len(pairs) or (empty and tag not in VOID)
        self._well_formed = self._well_formed and not strange
        element = Element(tag, attributes, found[0], found.start(), found.end())
        self._open[-1].children.append(element)
        if tag in VOID or empty:
            return
        if len(self._open) > DEEPEST:
            self._well_formed = False
        else:
            self._open.append(element)

    def _end(self, tag: str, start: int, end: int) -> None:
        if len(self._open) > 1 and self._open[-1].tag == tag:
            self._open.pop().end = end
            return
        self._well_formed = False
        if any(element.tag == tag for element in self._open[1:]):
            while self._open[-1].tag != tag:
                self._open.pop().end = start
            self._open.pop().end = end

    def _add_text(self, start: int, end: int) -> None:
        if start < end:
            text = html.unescape(self._source[start:end])
            self._open[-1].children.append(Text(text, start, end))


def _unquote(value: str) -> str:
    return value[1:-1] if value[:1] in ('"', "'") else value
