"""Carry an edit of a note's Markdown back into its HTML, byte-exact where nothing was edited. Pure.

A note is a row of blocks. A block whose Markdown is the same after an edit keeps its bytes. In another one as
little as can be is written anew: some words of a line, an item of a list, a cell of a table. If that would
lose what Markdown does not show, :class:`WouldLose` says what. Removing something is no loss: it is what the
edit says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mcp_notarium.stores.trilium import html_table, markdown_reader
from mcp_notarium.stores.trilium.alignment import pair
from mcp_notarium.stores.trilium.html_blocks import (
    Block,
    address_in,
    cut,
    joined,
    known_in,
    to_markdown,
)
from mcp_notarium.stores.trilium.html_lines import LineEditor, WouldLose
from mcp_notarium.stores.trilium.html_losses import find_losses, find_stripped
from mcp_notarium.stores.trilium.html_tree import Element, Node, Text, inner_end, parse
from mcp_notarium.stores.trilium.markdown_reader import segments
from mcp_notarium.stores.trilium.markdown_writer import BLOCKS, Writer

__all__ = ["WouldLose", "edit"]
_LISTED_AT_MOST = 5
_HEADING = re.compile(r"(#{1,6}) (.+)")
_BOX = re.compile(r"\[([ xX])\](?: (.*))?", re.DOTALL)
_CHECKED = re.compile(r"""\s+checked(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?""", re.IGNORECASE)
_LISTS = {"ul": "bullet_list", "ol": "ordered_list"}
_LINES = frozenset({"paragraph", "math_block"})


def edit(source: str, markdown: str) -> str:
    """Return the HTML that makes ``markdown`` of ``source``. Raises ``WouldLose``."""
    shown = to_markdown(source)
    if shown == markdown:
        return source
    fragment = parse(source)
    if not fragment.well_formed:
        raise WouldLose(["HTML that is not well formed"])
    if any(map(markdown_reader.has_too_many_marks, (shown, markdown))):
        raise WouldLose([f"formatting: there are more than {markdown_reader.MOST_MARKS} marks"])
    lines = LineEditor(source, known_in(fragment.nodes), Writer(address_in(fragment.nodes)))
    try:
        made = _Editor(source, lines).rewrite(fragment.nodes, 0, len(source), markdown)
    finally:
        markdown_reader.forget()
    if lost := find_stripped(fragment.nodes, parse(made).nodes):
        raise WouldLose(lost[:_LISTED_AT_MOST])
    return made


@dataclass(frozen=True, slots=True)
class _Editor:
    """Edit the blocks of one note."""

    source: str
    lines: LineEditor

    @property
    def _writer(self) -> Writer:
        return self.lines.writer

    def rewrite(self, nodes: list[Node], start: int, end: int, markdown: str) -> str:
        """Return what stands between two places of the source, edited so that it reads as ``markdown``."""
        blocks = cut(nodes, self.source, end, self._writer)
        if joined(blocks) == markdown:
            return self.source[start:end]
        shown = [segments(block.markdown) for block in blocks]
        old = [one for ones in shown for one in ones]
        if not all(shown) or (len(blocks) > 1 and old != segments(joined(blocks))):
            raise WouldLose(["an order of blocks that Markdown cannot say"])
        new = segments(markdown)
        pairs, doubtful = pair(old, new)
        owners = [number for number, ones in enumerate(shown) for _ in ones]
        spans: dict[int, tuple[int, int]] = {}
        for place, held in pairs.items():
            spans[owners[held]] = (spans.get(owners[held], (place, 0))[0], place + 1)
        same = {block.markdown: block.source for block in reversed(blocks)}
        written = [self.source[start : blocks[0].start if blocks else end]]
        lost: list[str] = []
        done = 0
        for number, block in enumerate(blocks):
            if number not in spans:
                # One of several that look the same may have been edited, though another seems removed.
                twin = old.count(block.markdown) > 1 and len(new) >= len(old)
                fewer = new.count(block.markdown) < old.count(block.markdown)
                merged = any(owners[held] == number for held in doubtful)
                if fewer and (twin or merged):
                    lost += self._losses(block)
                continue
            first, last = spans[number]
            written += [same.get(one) or self._new(one) for one in new[done:first]]
            done = last
            try:
                written += [self._changed(block, shown[number], new[first:last]), block.tail]
            except WouldLose as refusal:
                lost += refusal.what
        if lost:
            raise WouldLose(list(dict.fromkeys(lost))[:_LISTED_AT_MOST])
        return "".join([*written, *(same.get(one) or self._new(one) for one in new[done:])])

    def _new(self, segment: str) -> str:
        return markdown_reader.to_html(segment, self.lines.known)

    def _losses(self, block: Block) -> list[str]:
        return find_losses(block.nodes, parse(self._new(block.markdown)).nodes)

    def _changed(self, block: Block, old: list[str], new: list[str]) -> str:
        """Return a block that reads as these segments. Raises ``WouldLose``."""
        if old == new:
            return block.source
        text, anew = "\n\n".join(new), "".join(map(self._new, new))
        made = self._spliced(block, text)
        if made is not None and to_markdown(made) in (text, to_markdown(anew)):
            return made
        if losses := self._losses(block):
            raise WouldLose(losses)
        return anew

    def _spliced(self, block: Block, text: str) -> str | None:  # noqa: C901, PLR0911 - one line a kind
        """Return a block with little of it changed; None if it became another kind of block."""
        one, kind = block.nodes[0], markdown_reader.kind_of(text)
        if len(block.nodes) > 1 or isinstance(one, Text) or one.tag not in BLOCKS:
            return self.lines.edit(block.nodes, block.markdown, text) if kind in _LINES else None
        match one.tag:
            case "p":
                return self._line(one, block.markdown, text) if kind in _LINES else None
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                held, now = _HEADING.fullmatch(block.markdown), _HEADING.fullmatch(text)
                if held is None or now is None or held[1] != now[1]:
                    return None
                return self._line(one, held[2], now[2])
            case "blockquote":
                lines = text.split("\n")
                if not all(line.startswith(">") for line in lines):
                    return None
                return self._inside(one, "\n".join(line[1:].removeprefix(" ") for line in lines))
            case "ul" | "ol":
                return self._list(one, text) if kind == _LISTS[one.tag] else None
            case "table":
                return html_table.edit(self.lines, one, text) if kind == "table" else None
            case "pre" | "hr":
                return None
            case "figure" if kind != "table" and segments(text)[0] != segments(block.markdown)[0]:
                return None  # beside an image nothing can be written
        return self._inside(one, text) if self._writer.blocks(one.children) else None

    def _line(self, one: Element, old: str, new: str) -> str:
        inner = self.lines.edit(one.children, old, new)
        return one.opening + inner + self.source[inner_end(self.source, one) : one.end]

    def _inside(self, one: Element, markdown: str) -> str:
        begin, end = one.start + len(one.opening), inner_end(self.source, one)
        inner = self.rewrite(one.children, begin, end, markdown)
        return one.opening + inner + self.source[end : one.end]

    def _list(self, one: Element, text: str) -> str | None:
        """Return a list with few of its items changed."""
        items = [child for child in one.children if isinstance(child, Element)]
        new = markdown_reader.list_items(text)
        if new is None or any(item.tag != "li" for item in items):
            return None
        end = inner_end(self.source, one)
        ends = [*(item.start for item in items[1:]), end]
        old = [self._writer.item(item).rstrip(" ") for item in items]
        pairs, doubtful = pair(old, new)
        if doubtful:
            return None
        same = {
            text: self.source[item.start : item.end] for text, item in zip(old, items, strict=True)
        }
        written = [self.source[one.start : items[0].start]]
        for place, content in enumerate(new):
            held = pairs.get(place)
            if held is None:
                made = same.get(content) or self._new_item(one, content)
                tail = ""
            else:
                item, tail = items[held], self.source[items[held].end : ends[held]]
                unchanged = content == old[held]
                made = (
                    self.source[item.start : item.end] if unchanged else self._item(item, content)
                )
            if made is None:
                return None
            written += [made, tail]
        return "".join([*written, self.source[end : one.end]])

    def _new_item(self, one: Element, content: str) -> str | None:
        """Return an item that is new in a list; None if the list would be of another kind."""
        marker = "- " if one.tag == "ul" else "1. "
        html = self._new(marker + content.replace("\n", "\n" + " " * len(marker)))
        made = parse(html).nodes[0]
        if not isinstance(made, Element) or made.tag != one.tag or len(made.children) != 1:
            return None
        if made.has_class("todo-list") != one.has_class("todo-list"):
            return None
        return html[len(made.opening) : inner_end(html, made)]

    def _item(self, item: Element, content: str) -> str | None:
        """Return an item of a list that reads as ``content``, its box ticked or not."""
        inner = [child for child in item.children if isinstance(child, Element)]
        label = inner[0] if inner and inner[0].tag == "label" else None
        box = (
            next((one for one in label.children if isinstance(one, Element)), None)
            if label
            else None
        )
        if label is None or box is None or box.tag != "input":
            return self._inside(item, content)
        found = _BOX.fullmatch(content)
        shown, parts = self._writer.block(label.children), segments(found[2] or "") if found else []
        if (
            found is None
            or not shown
            or not parts
            or markdown_reader.kind_of(parts[0]) not in _LINES
        ):
            return None
        rest = item.children[item.children.index(label) + 1 :]
        end = inner_end(self.source, item)
        checked = "" if found[1] == " " else ' checked="checked"'
        ticked = _CHECKED.sub("", box.opening)
        ticked = ticked[: len("<input")] + checked + ticked[len("<input") :]
        if ("checked" in box.attributes) == bool(checked):
            ticked = box.opening
        return "".join(
            [
                self.source[item.start : label.start],
                self._line(label, shown, parts[0]).replace(box.opening, ticked, 1),
                self.rewrite(rest, label.end, end, "\n\n".join(parts[1:])),
                self.source[end : item.end],
            ]
        )
