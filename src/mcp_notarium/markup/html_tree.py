"""Parse the HTML of a note into a tree that knows where each element stands in the source. Pure.

An editor writes well-formed fragments. Anything else is read as a browser would as far as that is simple; the
places where it is not are faults, and nobody edits what stands around one.
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
_MARKUP = re.compile(r"<[A-Za-z/!?]")
DEEPEST = 60
"""Levels of elements; what is nested deeper is read as if it stood there."""
_ODD_COMMENT = re.compile(r"<!---?>|.*--!>", re.DOTALL)
"""A comment that a browser ends earlier."""
COMMENT = "!--"
"""The tag of a comment, which is an element without anything in it."""
_ENDS = (
    dict.fromkeys(
        (
            "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "blockquote", "pre", "hr", "table", "figure",
            "figcaption", "div", "section", "aside", "details", "summary", "article", "header", "footer", "main",
            "nav", "address", "form", "fieldset",
        ),
        ("p",),
    )
    | dict.fromkeys(("td", "th"), ("td", "th"))
    | dict.fromkeys(("dt", "dd"), ("dt", "dd"))
    | {"li": ("li",), "tr": ("tr", "td", "th")}
)  # fmt: skip
"""Elements that a start tag ends: those that need no end tag."""
_OPTIONAL = frozenset({"p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot"})
_HOLDS = frozenset(
    {"ul", "ol", "dl", "table", "div", "section", "aside", "details", "blockquote", "figure"}
)
"""Elements that keep a start tag in them from ending one around them."""

_CHECKED = re.compile(r"""\s+checked(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?""", re.IGNORECASE)
_TYPE = re.compile(r"""\stype\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)


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
    inner_end: int
    """Start of its end tag."""
    children: list[Element | Text] = field(default_factory=list)

    def has_class(self, name: str) -> bool:
        """Tell whether the element has this class."""
        return name in self.attributes.get("class", "").split()

    @property
    def ends_itself(self) -> bool:
        """Tell whether it has an end tag, or needs none."""
        return self.inner_end < self.end or self.tag in VOID or self.tag == COMMENT

    def all_text(self) -> str:
        """Return the text of the element and everything in it."""
        return "".join(
            child.text if isinstance(child, Text) else child.all_text() for child in self.children
        )


Node = Element | Text


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


def elements(nodes: Iterable[Node]) -> Iterator[Element]:
    """Yield every element of these nodes, outer ones first."""
    for node in nodes:
        if isinstance(node, Element):
            yield node
            yield from elements(node.children)


@dataclass(frozen=True, slots=True)
class Fragment:
    """Hold what was parsed."""

    nodes: list[Node]
    well_formed: bool
    """Every element ends where its own end tag stands, and there is no comment."""
    faults: list[int]
    """Places where a browser may read the source otherwise."""
    too_deep: bool
    """It is nested too deeply to be a tree."""


def parse(source: str) -> Fragment:
    """Parse HTML, in time that grows with its length. Never raises."""
    return _Parser(source).read()


class _Parser:
    """Read tags and text. ``html.parser`` takes minutes for a few kilobytes of unfinished tags."""

    def __init__(self, source: str) -> None:
        self._root = Element("", {}, "", 0, len(source), len(source))
        self._source = source
        self._open = [self._root]
        self._well_formed = True
        self._too_deep = False
        self._faults: list[int] = []

    def read(self) -> Fragment:
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
                        self._add_comment(position, end)
                        if _ODD_COMMENT.match(source, position, end):
                            self._faults.append(position)
                if done != end and _MARKUP.match(source, position):
                    self._faults.append(position)
            else:
                self._add_text(done, position)
                done = end
                self._read_tag(tag)
            position = source.find("<", end)
        self._add_text(done, len(source))
        self._close(1, len(source))
        return Fragment(self._root.children, self._well_formed, self._faults, self._too_deep)

    def _read_tag(self, found: re.Match[str]) -> None:
        slash, name, rest = found.groups()
        if slash:
            if rest.strip():
                self._fault(found.start())
            self._end(name.lower(), found.start(), found.end())
            return
        if _ATTRIBUTES.fullmatch(rest) is None:
            self._fault(found.start())
        self._begin(name.lower(), found, empty=rest.rstrip().endswith("/"))

    def _begin(self, tag: str, found: re.Match[str], *, empty: bool) -> None:
        self._end_before(tag, found.start())
        pairs = _ATTRIBUTE.findall(found[3])
        attributes = {name.lower(): html.unescape(_unquote(value)) for name, value in pairs}
        # In HTML the slash of <p/> means nothing: the element stays open.
        if len(attributes) != len(pairs) or (empty and tag not in VOID):
            self._fault(found.start())
        element = Element(tag, attributes, found[0], found.start(), found.end(), found.end())
        self._open[-1].children.append(element)
        if tag in VOID or empty:
            return
        if len(self._open) > DEEPEST:
            self._well_formed, self._too_deep = False, True
        else:
            self._open.append(element)

    def _end_before(self, tag: str, start: int) -> None:
        """End the elements that a start tag ends, up to the outermost of them."""
        ended, level = _ENDS.get(tag, ()), 0
        for number in range(len(self._open) - 1 if ended else 0, 0, -1):
            one = self._open[number].tag
            if one in ended:
                level = number
            elif one in _HOLDS:
                break
        if level:
            self._close(level, start)

    def _close(self, level: int, end: int) -> None:
        """End all open elements from this level on that have no end tag."""
        for element in self._open[level:]:
            element.end = element.inner_end = end
            self._well_formed = False
            if element.tag not in _OPTIONAL:
                self._faults.append(element.start)
        del self._open[level:]

    def _end(self, tag: str, start: int, end: int) -> None:
        levels = (
            number for number in range(len(self._open) - 1, 0, -1) if self._open[number].tag == tag
        )
        level = next(levels, 0)
        if not level:
            self._fault(start)
            return
        self._close(level + 1, start)
        element = self._open.pop()
        element.inner_end, element.end = start, end

    def _fault(self, position: int) -> None:
        self._well_formed = False
        self._faults.append(position)

    def _add_comment(self, start: int, end: int) -> None:
        opening = self._source[start:end]
        self._open[-1].children.append(Element(COMMENT, {}, opening, start, end, end))

    def _add_text(self, start: int, end: int) -> None:
        if start < end:
            text = html.unescape(self._source[start:end])
            self._open[-1].children.append(Text(text, start, end))


def _unquote(value: str) -> str:
    return value[1:-1] if value[:1] in ('"', "'") else value
