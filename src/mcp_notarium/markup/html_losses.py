"""Cut the HTML of a note into blocks, and tell what a part would lose if it were made again from its Markdown. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from mcp_notarium.markup import markdown_to_html
from mcp_notarium.markup.html_to_markdown import (
    AUTOMATIC,
    BLOCKS,
    CANONICAL,
    COLLAPSED,
    DESCRIPTION,
    PREFIX,
    Writer,
    code_element,
    code_parts,
    grouped,
    task_of,
)
from mcp_notarium.markup.html_tree import COMMENT, Element, Node, Text, elements, parse
from mcp_notarium.markup.markdown_to_html import Known

_IGNORED = frozenset({"data-list-item-id"})
"""Attributes that the editor makes again."""
_TEXT_BLOCKS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6"})
_UNSHOWN = frozenset({"u", "mark", "sub", "sup", "small", "big", "font", "kbd", "ins"})
_BREAK = "\N{RETURN SYMBOL}"
_SIZES = ("text-tiny", "text-small", "text-big", "text-huge")
"""Classes of a span that is larger or smaller than other text."""
_MOST_LOOKED_FOR = 100
_LONGEST_WORD = 100
_WORD_END, _WORD_START = re.compile(r"\w+\Z"), re.compile(r"\w+")
_EMPTY = frozenset({"strong", "em", "s", "code"})
"""Elements that are nothing if they are empty."""
_SAID = BLOCKS | _EMPTY | {"a", "br", "col", "input", "label", "span", "tbody"}
"""Elements that Markdown shows, or that say nothing without attributes."""
Run = tuple[str, frozenset[str]]
"""Text, and the formats that it has."""
Losses = dict[str, int]
"""Lost things, each with the place in the source where it first stands."""


_EMBEDDED = "embedded-image-"
_MARK = "\uffff"
"""A character that no text has."""


def find_losses(held: Sequence[Node], made: Sequence[Node], *, inline: bool = False) -> Losses:
    """Name what ``made`` lacks of what is held; ``inline``: both stand within a line."""
    shape = _runs if inline else _shape
    if shape(held) == shape(made):
        return {}
    names, kept = _names(held), _names(made)
    lost = {name: names[name] for name in sorted(names.keys() - kept.keys())}
    return lost or {"formatting that Markdown cannot say": held[0].start}


def loses_formatting(held: Sequence[Node], made: Sequence[Node]) -> bool:
    """Tell whether ``made``, which has the lines of what is held, lacks formatting of these that Markdown does not say."""
    kept = _unsaid(made)
    return any(number > kept[one] for one, number in _unsaid(held).items())


def _unsaid(nodes: Iterable[Node]) -> Counter[object]:
    """Count the elements and attributes that the Markdown of their words does not show."""
    found = Counter[object]()
    for one in elements(nodes):
        tag = CANONICAL.get(one.tag, one.tag)
        attributes = {name: value for name, value in one.attributes.items() if name not in _IGNORED}
        if (tag, attributes) == ("figure", {"class": "table"}):
            continue
        if attributes or tag not in _SAID:
            inner = elements(one.children)
            words = "" if any(it.tag in BLOCKS for it in inner) else one.all_text()
            found[tag, tuple(sorted(attributes.items())), " ".join(words.split())] += 1
    return found


def find_stripped(held: Sequence[Node], made: Sequence[Node]) -> Losses:
    """Name the formatting that is gone from words which are still there, as often as before."""
    names = _names(held)
    return {name: names.get(name, 0) for name in _stripped(held, made)}


def _stripped(held: Sequence[Node], made: Sequence[Node]) -> list[str]:
    (text, formatted), (new, kept) = _formatted(held), _formatted(made)
    lost = []
    for name, words in list(formatted - kept)[:_MOST_LOOKED_FOR]:
        found = re.compile(rf"(?<!\w){re.escape(words)}(?!\w)")
        before, after = (len(found.findall(one)) for one in (text, new))
        grown = any(name == other and found.search(more) for other, more in kept)
        if 0 < before <= after and not grown:
            lost.append(name)
    return lost


def _formatted(nodes: Iterable[Node]) -> tuple[str, Counter[tuple[str, str]]]:
    """Return the text, and count what is formatted in it as Markdown does not show.

    That is the name of the format, and the words that have it, with the letters next to them in the same word.
    """
    parts, spans = list[str](), list[tuple[str, int, int]]()
    _read(nodes, parts, spans)
    text, places = "".join(parts), [0, *accumulate(map(len, parts))]
    found = Counter[tuple[str, str]]()
    for name, first, last in spans:
        start, end = places[first], places[last]
        before = _WORD_END.search(text[max(0, start - _LONGEST_WORD) : start])
        after = _WORD_START.match(text[end : end + _LONGEST_WORD])
        words = f"{before[0] if before else ''}{text[start:end]}{after[0] if after else ''}".split()
        if text[start:end].strip():
            found[name, " ".join(words)] += 1
    return " ".join(text.split()), found


def _read(nodes: Iterable[Node], parts: list[str], spans: list[tuple[str, int, int]]) -> None:
    """Add the parts of the text, and which of them are formatted."""
    for node in nodes:
        if isinstance(node, Text):
            parts.append(node.text)
            continue
        apart = " " * (node.tag in BLOCKS or node.tag == "br")
        parts.append(apart)
        first = len(parts)
        _read(node.children, parts, spans)
        if "style" in node.attributes:
            spans.append((f"style of <{node.tag}>", first, len(parts)))
        elif node.tag in _UNSHOWN or (node.tag == "span" and any(map(node.has_class, _SIZES))):
            spans.append((f"<{node.tag}>", first, len(parts)))
        parts.append(apart)


def _names(nodes: Iterable[Node]) -> Losses:
    """Name each element and attribute, in words that tell a person what it is."""
    names: Losses = {}
    for element in elements(nodes):
        tag = CANONICAL.get(element.tag, element.tag)
        names.setdefault("a comment of the HTML" if tag == COMMENT else f"<{tag}>", element.start)
        for name in sorted(element.attributes.keys() - _IGNORED):
            names.setdefault(f"{name} of <{tag}>", element.start)
    return names


def _shape(nodes: Iterable[Node]) -> list[object]:
    """Return what a note means: blocks, and runs of text with their formats. Spaces count once."""
    shape: list[object] = []
    for group in grouped(list(nodes)):
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
            text = "".join(part for _, part in code_parts(one)).removesuffix("\n")
            code = code_element(one)
            language = code.attributes.get("class", "") if code else ""
            bare = len(inner) < 2 and not any(elements(code.children if code else ()))  # noqa: PLR2004
            plain = bare and (code is None or (code.tag == "code" and len(code.attributes) < 2))  # noqa: PLR2004
            return "pre", language or PREFIX + AUTOMATIC, text, {} if plain else attributes
        case tag if tag in _TEXT_BLOCKS:
            return (one.tag, tuple(sorted(attributes.items())), _runs(one.children))
    children = _shape([shown for child in one.children for shown in _unlabelled(child)])
    if one.tag == "li" and any(isinstance(c, Element) and c.tag == "label" for c in one.children):
        children = [("label", _find_box(one)), *children]
    return (one.tag, tuple(sorted(attributes.items())), children)


def _unlabelled(node: Node) -> list[Node]:
    """Return what stands below a task in its label behind the words, not in them."""
    if isinstance(node, Text) or node.tag != "label":
        return [node]
    task = task_of(node)
    return [*task.line, *task.below] if task.words.has_class(DESCRIPTION) else [node]


def _find_box(item: Element) -> str:
    boxes = [one for one in elements(item.children) if one.tag == "input"]
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
            if space and (not runs or runs[-1][0].endswith((" ", "\n", _BREAK))):
                continue
            if letter == _BREAK and runs and runs[-1][0].endswith(" "):
                runs[-1] = (runs[-1][0][:-1], runs[-1][1])
            if runs and runs[-1][1] == piece[1]:
                runs[-1] = (runs[-1][0] + piece[0], piece[1])
            else:
                runs.append(piece)
    while runs and runs[-1][0].strip(" \n") == "":
        runs.pop()
    if runs:
        runs[-1] = (runs[-1][0].rstrip(" \n"), runs[-1][1])
    return [run for run in runs if run[0]]


def _pieces(nodes: Iterable[Node], formats: frozenset[str]) -> Iterator[Run]:
    for node in nodes:
        if isinstance(node, Text):
            yield node.text, formats
            continue
        tag = CANONICAL.get(node.tag, node.tag)
        attributes = sorted(node.attributes.items())
        if tag == "br":
            yield _BREAK, formats
        elif tag in ("label", "input") or node.has_class(DESCRIPTION):
            yield from _pieces(node.children, formats)
        elif tag == "img" or not (node.children or tag in _EMPTY or "href" in node.attributes):
            yield "\N{OBJECT REPLACEMENT CHARACTER}", formats | {f"{tag} {attributes}"}
        else:
            named = tag if not attributes else f"{tag} {attributes}"
            yield from _pieces(node.children, formats | {named})


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
