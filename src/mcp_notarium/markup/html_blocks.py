"""Cut the HTML of a note into blocks, each with its Markdown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mcp_notarium.markup import markdown_to_html
from mcp_notarium.markup.html_to_markdown import Writer, grouped
from mcp_notarium.markup.html_tree import Element, Node, Text, elements, parse
from mcp_notarium.markup.markdown_to_html import Known

_EMBEDDED = "embedded-image-"
_MARK = "\uffff"
"""A character that no text has."""


@dataclass(frozen=True, slots=True)
class Block:
    """Hold a block: its nodes, its source, its Markdown, and as ``tail`` what follows and shows nothing."""

    nodes: list[Node]
    source: str
    markdown: str
    tail: str

    @property
    def start(self) -> int:
        """Return its place in the source of the note."""
        return self.nodes[0].start


def to_markdown(source: str) -> str:
    """Return the Markdown of a note's HTML. Never raises."""
    nodes = parse(source).nodes
    return joined(cut(nodes, source, len(source), Writer(address_in(nodes))))


def line_of(source: str, place: int) -> int | None:
    """Return the line of a note's Markdown, from 1, in which what stands at a place of its source shows."""
    nodes = parse(source).nodes
    _mark(nodes, place)
    shown = joined(cut(nodes, source, len(source), Writer(address_in(nodes))))
    return shown.count("\n", 0, shown.index(_MARK)) + 1 if _MARK in shown else None


def _mark(nodes: list[Node], place: int) -> bool:
    """Put a mark where the node at a place shows."""
    for number, node in enumerate(nodes):
        if node.end <= place:
            continue
        if isinstance(node, Text):
            node.text = _MARK + node.text
            return True
        if _mark(node.children, place):
            return True
        nodes.insert(number, Text(_MARK, node.start, node.start))
        return True
    return False


def joined(blocks: Iterable[Block]) -> str:
    """Return the Markdown of blocks below each other."""
    return "\n\n".join(block.markdown for block in blocks)


def cut(nodes: list[Node], source: str, end: int, writer: Writer) -> list[Block]:
    """Cut nodes, up to ``end`` of the source, into blocks. What shows nothing belongs to the block before it."""
    blocks = list[Block]()
    groups = grouped(nodes)
    starts = [group[0].start for group in groups] + [end]
    for number, group in enumerate(groups):
        stop = group[-1].end
        tail = source[stop : starts[number + 1]]
        markdown = writer.block(group, below=blocks[-1].markdown if blocks else "")
        if not markdown:
            if blocks:
                shown = source[group[0].start : stop]
                blocks[-1] = replace(blocks[-1], tail=blocks[-1].tail + shown + tail)
            continue
        blocks.append(Block(group, source[group[0].start : stop], markdown, tail))
    return blocks


def address_in(nodes: list[Node]) -> Callable[[Element], str]:
    """Return what names images in the Markdown; one that is embedded by a number, for its bytes are its address."""
    images = (one for one in elements(nodes) if one.tag == "img")
    embedded = [one for one in images if one.attributes.get("src", "").startswith("data:")]
    names = {one.start: f"{_EMBEDDED}{number}" for number, one in enumerate(embedded, 1)}
    return lambda image: names.get(image.start) or image.attributes.get("src", "")


def known_in(nodes: list[Node]) -> Known:
    """Return the links and images of a note."""
    links: dict[str, str] = {}
    images: dict[tuple[str, str], str] = {}
    address_of = address_in(nodes)
    for element in elements(nodes):
        if element.tag == "a" and "href" in element.attributes:
            address = markdown_to_html.normal_address(element.attributes["href"])
            links.setdefault(address, element.opening)
        elif element.tag == "img":
            address = markdown_to_html.normal_address(address_of(element))
            images.setdefault((element.attributes.get("alt", ""), address), element.opening)
    return Known(links, images)
