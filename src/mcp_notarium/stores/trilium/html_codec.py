"""Show the HTML of a note as Markdown, and carry an edit of that back, byte-exact where nothing was edited. Pure.

A note is a row of blocks. A block whose Markdown is the same after an edit keeps its bytes. A block that was
edited is written anew, unless that would lose what its Markdown does not show: then :class:`WouldLose` says
what. Removing a whole block is no loss: it is what the edit says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from mcp_notarium.stores.trilium import markdown_reader
from mcp_notarium.stores.trilium.html_tree import Element, Fragment, Node, Text, parse
from mcp_notarium.stores.trilium.markdown_reader import Known
from mcp_notarium.stores.trilium.markdown_writer import (
    BLOCKS,
    CANONICAL,
    COLLAPSED,
    Writer,
    grouped,
    language_of,
)

_IGNORED = frozenset({"data-list-item-id"})
"""Attributes that the editor makes anew."""
_TEXT_BLOCKS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6"})
_EMBEDDED = "embedded-image-"
_LISTED_AT_MOST = 5
_ACTIVE = frozenset(
    {
        "script", "style", "iframe", "frame", "object", "embed", "applet", "link", "meta", "base", "form",
        "svg", "math", "template",
    }
)  # fmt: skip
_FETCHED = frozenset({"src", "srcset", "poster", "background", "data", "action"})
_OWN_ADDRESSES = ("api/attachments/", "api/images/", "data:image/")
_SCRIPT = re.compile(r"[\x00-\x20]*(?:javascript|vbscript|data):")
Run = tuple[str, frozenset[str]]
"""Text, and the formats that it has."""


class WouldLose(Exception):
    """An edit would lose something that its Markdown does not show; ``what`` names it."""

    def __init__(self, what: list[str]) -> None:
        super().__init__(", ".join(what))
        self.what = what


@dataclass(frozen=True, slots=True)
class Block:
    """Hold a block: its nodes, its source, its Markdown, and as ``tail`` what follows and shows nothing."""

    nodes: list[Node]
    source: str
    markdown: str
    tail: str


def to_markdown(source: str) -> str:
    """Return the Markdown of a note's HTML. Never raises."""
    fragment = parse(source)
    return "\n\n".join(block.markdown for block in _blocks(fragment) if block.markdown)


def to_html(markdown: str) -> str:
    """Return the HTML of Markdown that belongs to no note yet."""
    return markdown_reader.to_html(markdown, Known())


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
    for element in _elements(parse(source).nodes):
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


def edit(source: str, markdown: str) -> str:
    """Return the HTML that makes ``markdown`` of ``source``. Raises ``WouldLose``."""
    fragment = parse(source)
    blocks = _blocks(fragment)
    if "\n\n".join(block.markdown for block in blocks if block.markdown) == markdown:
        return source
    known = _known(fragment.nodes)
    old = [block.markdown for block in blocks]
    _require_editable(fragment, old, markdown)
    new = markdown_reader.segments(markdown)
    by_markdown = {block.markdown: block for block in reversed(blocks)}
    written = [source[: _start_of(blocks, source)]]
    lost: list[str] = []
    for kind, first, last, begin, end in _aligned(old, new):
        replaced = blocks[first:last]
        if kind == "equal":
            written += [block.source + block.tail for block in replaced]
            continue
        for number, segment in enumerate(new[begin:end]):
            same = by_markdown.get(segment)
            written.append(same.source if same else markdown_reader.to_html(segment, known))
            written += [block.tail for block in replaced[number : number + 1]]
        for block in replaced:
            # One of several that look the same may have been edited, though another seems removed.
            count = old.count(block.markdown)
            twin = count > 1 and len(new) >= len(old)
            if (kind == "replace" or twin) and new.count(block.markdown) < count:
                lost += _losses(block, known)
    if lost:
        raise WouldLose(list(dict.fromkeys(lost))[:_LISTED_AT_MOST])
    return "".join(written)


def _require_editable(fragment: Fragment, old: list[str], new: str) -> None:
    """Raise ``WouldLose`` for a note that cannot be edited block by block, or not in a bearable time."""
    if not fragment.well_formed:
        raise WouldLose(["HTML that is not well formed"])
    whole = "\n\n".join(old)
    if any(map(markdown_reader.has_too_many_marks, (whole, new))):
        raise WouldLose([f"formatting: there are more than {markdown_reader.MOST_MARKS} marks"])
    if old != markdown_reader.segments(whole):
        raise WouldLose(["an order of blocks that Markdown cannot say"])


def _aligned(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield what became of which blocks, as ``SequenceMatcher`` does; first and last blocks stay if they can."""
    shorter = min(len(old), len(new))
    first = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    last = next((n for n in range(shorter - first) if old[-1 - n] != new[-1 - n]), shorter - first)
    inner = SequenceMatcher(
        None, old[first : len(old) - last], new[first : len(new) - last], autojunk=False
    )
    yield "equal", 0, first, 0, first
    for kind, a, b, c, d in inner.get_opcodes():
        yield kind, first + a, first + b, first + c, first + d
    yield "equal", len(old) - last, len(old), len(new) - last, len(new)


def _blocks(fragment: Fragment) -> list[Block]:
    """Cut a note into blocks. What shows nothing belongs to the block before it."""
    writer, blocks = Writer(_Addresses().address_of), list[Block]()
    groups = grouped(fragment.nodes)
    starts = [group[0].start for group, _ in groups] + [len(fragment.source)]
    marker, before = 0, ""
    for number, (group, _) in enumerate(groups):
        end = group[-1].end
        tail = fragment.source[end : starts[number + 1]]
        tag = group[0].tag if isinstance(group[0], Element) else ""
        same_list = bool(blocks) and tag in ("ul", "ol") and tag == before
        markdown = writer.block(group, marker=1 - marker if same_list else 0)
        if not markdown:
            if blocks:
                shown = fragment.source[group[0].start : end]
                blocks[-1] = replace(blocks[-1], tail=blocks[-1].tail + shown + tail)
            continue
        marker = 1 - marker if same_list else 0
        before = tag
        blocks.append(Block(group, fragment.source[group[0].start : end], markdown, tail))
    return blocks


def _start_of(blocks: list[Block], source: str) -> int:
    return blocks[0].nodes[0].start if blocks else len(source)


class _Addresses:
    """Name images for the Markdown; one that is embedded by a number, for its bytes are its address."""

    def __init__(self) -> None:
        self._count = 0

    def address_of(self, image: Element) -> str:
        address = image.attributes.get("src", "")
        if not address.startswith("data:"):
            return address
        self._count += 1
        return f"{_EMBEDDED}{self._count}"


def _known(nodes: list[Node]) -> Known:
    links: dict[str, str] = {}
    images: dict[tuple[str, str], str] = {}
    addresses = _Addresses()
    for element in _elements(nodes):
        if element.tag == "a" and "href" in element.attributes:
            address = markdown_reader.normal_address(element.attributes["href"])
            links.setdefault(address, element.opening)
        elif element.tag == "img":
            address = markdown_reader.normal_address(addresses.address_of(element))
            images.setdefault((element.attributes.get("alt", ""), address), element.opening)
    return Known(links, images)


def _elements(nodes: Iterable[Node]) -> Iterator[Element]:
    for node in nodes:
        if isinstance(node, Element):
            yield node
            yield from _elements(node.children)


def _losses(block: Block, known: Known) -> list[str]:
    """Name what a block would lose if it were written anew from its Markdown."""
    made = parse(markdown_reader.to_html(block.markdown, known)).nodes
    if _shape(block.nodes) == _shape(made):
        return []
    held, kept = _names(block.nodes), _names(made)
    return sorted(held - kept) or ["formatting that Markdown cannot say"]


def _names(nodes: list[Node]) -> set[str]:
    """Name each element and attribute, in words that tell a person what it is."""
    names = set()
    for element in _elements(nodes):
        tag = CANONICAL.get(element.tag, element.tag)
        names.add(f"<{tag}>")
        for name in element.attributes.keys() - _IGNORED:
            names.add(f"{name} of <{tag}>")
    return names


def _shape(nodes: Iterable[Node]) -> list[object]:
    """Return what a note means: blocks, and runs of text with their formats. Spaces count once."""
    shape: list[object] = []
    for group, _ in grouped(list(nodes)):
        first = group[0]
        if isinstance(first, Element) and first.tag in BLOCKS:
            shape.append(_block_shape(first))
        else:
            shape.append(("p", (), _runs(group)))
        if isinstance(shape[-1], tuple) and shape[-1][0] in _TEXT_BLOCKS and not shape[-1][2]:
            shape.pop()  # it shows nothing
    return shape


def _block_shape(one: Element) -> object:
    attributes = {name: value for name, value in one.attributes.items() if name not in _IGNORED}
    inner = [child for child in one.children if isinstance(child, Element)]
    match one.tag:
        case "figure" if attributes == {"class": "table"} and len(inner) == 1:
            return _block_shape(inner[0])
        case "pre":
            code = inner[0] if inner else None
            others = len(inner) > 1 or any(True for _ in _elements(code.children if code else ()))
            extra = code is not None and (code.tag != "code" or len(code.attributes) > 1)
            language = language_of(code) if code else ""
            return (
                "pre",
                language,
                one.all_text().removesuffix("\n"),
                attributes if others or extra else {},
            )
        case tag if tag in _TEXT_BLOCKS:
            return (one.tag, tuple(sorted(attributes.items())), _runs(one.children))
    children = _shape(one.children)
    if one.tag == "li" and any(isinstance(c, Element) and c.tag == "label" for c in one.children):
        children = [("label", _find_box(one)), *children]
    return (one.tag, tuple(sorted(attributes.items())), children)


def _find_box(item: Element) -> str:
    boxes = [one for one in _elements(item.children) if one.tag == "input"]
    return "checked" if boxes and "checked" in boxes[0].attributes else ""


def _runs(nodes: Iterable[Node]) -> list[Run]:
    """Return runs of text: neighbours of the same formats are one, spaces have no format."""
    runs: list[Run] = []
    for text, formats in _pieces(nodes, frozenset()):
        in_code = "code" in formats
        for letter in text:
            space = letter in COLLAPSED
            bare = letter.isspace() and not in_code
            piece = (" " if space else letter, frozenset[str]() if bare else formats)
            if space and (not runs or runs[-1][0].endswith((" ", "\n"))):
                continue
            if runs and runs[-1][1] == piece[1]:
                runs[-1] = (runs[-1][0] + piece[0], piece[1])
            else:
                runs.append(piece)
    while runs and runs[-1][0].strip(" \n") == "":
        runs.pop()
    if runs:
        runs[-1] = (runs[-1][0].rstrip(" \n"), runs[-1][1])
    return runs


def _pieces(nodes: Iterable[Node], formats: frozenset[str]) -> Iterator[Run]:
    for node in nodes:
        if isinstance(node, Text):
            yield node.text, formats
            continue
        tag = CANONICAL.get(node.tag, node.tag)
        attributes = sorted(node.attributes.items())
        if tag == "br":
            yield "\N{RETURN SYMBOL}", formats
        elif tag in ("label", "input") or node.has_class("todo-list__label__description"):
            yield from _pieces(node.children, formats)
        elif tag == "img" or (not node.children and tag not in ("strong", "em", "s", "a", "code")):
            yield "\N{OBJECT REPLACEMENT CHARACTER}", formats | {f"{tag} {attributes}"}
        else:
            named = tag if not attributes else f"{tag} {attributes}"
            yield from _pieces(node.children, formats | {named})
