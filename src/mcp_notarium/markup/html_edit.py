"""Carry an edit of a note's Markdown back into its HTML, byte-exact where nothing was edited. Pure.

A note is a row of blocks. A block whose Markdown is the same after an edit keeps its bytes. In another one as little as
can be is rewritten: some words of a line, an item of a list, a cell of a table. :class:`WouldLose` names what would
be lost because Markdown does not show it. Removing something is no loss: it is what the edit says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from mcp_notarium.markup import html_line_edit, markdown_to_html
from mcp_notarium.markup.html_line_edit import LineEditor, WouldLose, pair
from mcp_notarium.markup.html_losses import (
    Block,
    Losses,
    address_in,
    cut,
    find_losses,
    find_stripped,
    joined,
    known_in,
    line_of,
    to_markdown,
)
from mcp_notarium.markup.html_to_markdown import (
    BLOCKS,
    DESCRIPTION,
    Task,
    Writer,
    admonition_of,
    code_element,
    items_of,
    name_of,
    task_of,
)
from mcp_notarium.markup.html_tree import DEEPEST, Element, Node, Text, parse, ticked
from mcp_notarium.markup.markdown_to_html import Known, segments

__all__ = ["WouldLose", "edit"]
_LISTED_AT_MOST = 5
_HEADING = re.compile(r"(#{1,6}) (.+)")
_BOX = re.compile(r"\[([ xX])\](?:(?: |\n+)(.*))?", re.DOTALL)
_ITEM_ID = re.compile(r"""\sdata-list-item-id=(?:"[^"]*"|'[^']*'|[^\s"'>]+)""")
_NUMBER = re.compile(r"^\d{1,9}(?=[.)])", re.MULTILINE)
_MARKER = re.compile(r"^(?:\*|(\d{1,9})\))(?=[ \n]|$)", re.MULTILINE)
"""Beginning of an item in a list right below another one."""
_LISTS = {"ul": "bullet_list", "ol": "ordered_list"}
_LINES = frozenset({"paragraph", "math_block"})


def edit(source: str, markdown: str, *, images: tuple[str, ...] = ()) -> str:
    """Return the HTML that makes ``markdown`` of ``source``; ``images``: see ``Known.own``.

    Raises ``WouldLose``, with the lines of what it names.
    """
    try:
        return _edit(source, markdown, images)
    except WouldLose as refusal:
        for name, place in refusal.what.items():
            line = line_of(source, place) if place >= 0 else None
            refusal.lines[name] = f"{name} in line {line}" if line else name
        raise
    finally:
        markdown_to_html.forget()


def _edit(source: str, markdown: str, images: tuple[str, ...]) -> str:
    shown = to_markdown(source)
    if shown == markdown:
        return source
    fragment = parse(source)
    if fragment.too_deep:
        raise WouldLose({f"elements nested more than {DEEPEST} deep": -1}, broken=True)
    if any(map(markdown_to_html.has_too_many_marks, (shown, markdown))):
        most = markdown_to_html.MOST_MARKS
        raise WouldLose({f"formatting: there are more than {most} marks": -1})
    writer = Writer(address_in(fragment.nodes))
    known = replace(known_in(fragment.nodes), own=images)
    lines = LineEditor(source, known, writer, fragment.faults)
    made = _Editor(source, lines).rewrite(fragment.nodes, 0, len(source), markdown)
    if lost := find_stripped(fragment.nodes, parse(made).nodes):
        raise WouldLose(_few(lost))
    if not fragment.well_formed and _reads(to_markdown(made), known) != _reads(markdown, known):
        lines.require_sound(0, len(source))
        raise WouldLose({"an element without an end": len(source) - 1}, broken=True)
    return made


def _reads(markdown: str, known: Known) -> list[str]:
    """Return the blocks of a text as they read once they are stored."""
    return segments(to_markdown(markdown_to_html.to_html(markdown, Known(own=known.own))))


def _few(losses: Losses) -> Losses:
    return dict(list(losses.items())[:_LISTED_AT_MOST])


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
            raise WouldLose({"an order of blocks that Markdown cannot say": start})
        new = [one.rstrip(" ") for one in segments(markdown)]
        pairs, doubtful = pair(old, new)
        owners = [number for number, ones in enumerate(shown) for _ in ones]
        spans: dict[int, tuple[int, int]] = {}
        for place, held in pairs.items():
            spans[owners[held]] = (spans.get(owners[held], (place, 0))[0], place + 1)
        made = self._made(
            blocks,
            old,
            new,
            {new[place] for place, held in pairs.items() if new[place] == old[held]},
        )
        written = [self.source[start : blocks[0].start if blocks else end]]
        lost: Losses = {}
        done = 0
        for number, block in enumerate(blocks):
            if number not in spans:
                # One of several that look the same may have been edited, though another seems removed.
                twin = old.count(block.markdown) > 1 and len(new) >= len(old)
                fewer = new.count(block.markdown) < old.count(block.markdown)
                merged = any(owners[held] == number for held in doubtful)
                if fewer and (twin or merged):
                    lost |= self._losses(block)
                continue
            first, last = spans[number]
            written += map(made, new[done:first])
            done = last
            try:
                written += [self._changed(block, shown[number], new[first:last]), block.tail]
            except WouldLose as refusal:
                if refusal.broken:
                    raise
                lost = refusal.what | lost
        if lost:  # defence: losing-edit-refused
            raise WouldLose(_few(lost))
        return "".join([*written, *map(made, new[done:])])

    def _made(
        self, blocks: list[Block], old: list[str], new: list[str], kept: set[str]
    ) -> Callable[[str], str]:
        """Return what makes the HTML of a block that is new in its place: of one that stood elsewhere its own.

        The same holds for the items of a list. What stays where it was, too, is copied without ids.
        """
        same = {block.markdown: block.source for block in reversed(blocks)}
        lists = [
            one
            for block in blocks
            for one in block.nodes
            if isinstance(one, Element) and one.tag in _LISTS
        ]
        items = {
            self._key(one, self._writer.item(item)): (one, item)
            for one in lists
            for item in items_of(one)
        }
        before, now = ("\n".join(texts) for texts in (old, new))

        def make(segment: str) -> str:
            if block := same.get(segment):
                return _ITEM_ID.sub("", block) if segment in kept else block
            html, contents = self._new(segment), markdown_to_html.list_items(segment)
            made = parse(html).nodes[0] if contents and items else None
            if not isinstance(made, Element) or len(made.children) != len(contents or ()):
                return html
            opening, written = made.opening, list[str]()
            for child, content in zip(made.children, contents or (), strict=True):
                held = items.get(self._key(made, content))
                text = html[child.start : child.end]
                if held is not None:
                    owner, item = held
                    if "start" not in owner.attributes.keys() | made.attributes.keys():
                        opening = owner.opening
                    text = self.source[item.start : item.end]
                    text = (
                        _ITEM_ID.sub("", text)
                        if now.count(content) > before.count(content)
                        else text
                    )
                written.append(text)
            return "".join([opening, *written, html[made.inner_end :]])

        return make

    @staticmethod
    def _key(one: Element, content: str) -> tuple[str, bool, str]:
        return one.tag, one.has_class("todo-list"), content.rstrip(" ")

    def _new(self, segment: str) -> str:
        return markdown_to_html.to_html(segment, self.lines.known)

    def _losses(self, block: Block) -> Losses:
        return find_losses(block.nodes, parse(self._new(block.markdown)).nodes)

    def _changed(self, block: Block, old: list[str], new: list[str]) -> str:
        """Return a block that reads as these segments. Raises ``WouldLose``."""
        if old == new:
            return block.source
        text, anew = "\n\n".join(new), "".join(map(self._new, new))
        made = self._spliced(block, text)
        if made is not None and self._agrees(block, to_markdown(made), text, to_markdown(anew)):
            return made
        self.lines.require_sound(block.start, block.nodes[-1].end)
        if losses := self._losses(block):
            raise WouldLose(losses)
        return anew

    @staticmethod
    def _agrees(block: Block, shown: str, text: str, anew: str) -> bool:
        """Tell whether a block reads as it should; a list keeps the number of its first item below a new one."""
        if shown in (text, anew, _MARKER.sub(_usual, text)):
            return True
        first = [(markdown_to_html.list_items(one) or [""])[0] for one in (block.markdown, text)]
        return first[0] != first[1] and _NUMBER.sub("1", shown) == _NUMBER.sub("1", anew)

    def _spliced(self, block: Block, text: str) -> str | None:  # noqa: C901, PLR0911 - one line a kind
        """Return a block with little of it changed; None if it became another kind of block."""
        one, kind = block.nodes[0], markdown_to_html.kind_of(text)
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
                inner = _unquoted(text)
                return (
                    None
                    if inner is None or markdown_to_html.admonition_in(inner)
                    else self._inside(one, inner)
                )
            case "aside" if one.has_class("admonition"):
                return self._admonition(one, text)
            case "ul" | "ol":
                return self._list(one, text) if kind == _LISTS[one.tag] else None
            case "table":
                return html_line_edit.edit(self.lines, one, text) if kind == "table" else None
            case "pre":
                return self._code(one, text)
            case "hr":
                return None
            case "figure" if (
                not _has_table(one) and segments(text)[0] != segments(block.markdown)[0]
            ):
                return None  # next to an image nothing can be written
        return self._inside(one, text) if self._writer.blocks(one.children) else None

    def _code(self, one: Element, text: str) -> str | None:
        """Return a code block with its text changed; None if its language is another now."""
        found = markdown_to_html.code_of(text)
        code = code_element(one)
        language = name_of(code.attributes.get("class", "")) if code else ""
        if found is None or found[0] != language:
            return None
        if code is None or code.tag != "code":
            return self.lines.code(one, found[1])
        made = self.lines.code(code, found[1])
        return made and self.source[one.start : code.start] + made + self.source[code.end : one.end]

    def _admonition(self, one: Element, text: str) -> str | None:
        """Return an admonition with little of it changed, its type included; None if it is none any more."""
        inner = _unquoted(text)
        found = None if inner is None else markdown_to_html.admonition_in(inner)
        if found is None:
            return None
        held, now = admonition_of(one), found[0]
        made = self._inside(one, found[1])
        if held == now:
            return made
        if not one.has_class(held):
            return None
        opening = re.sub(rf"(?<=[\s\"']){held}(?=[\s\"'])", now, one.opening, count=1)
        return opening + made.removeprefix(one.opening)

    def _line(self, one: Element, old: str, new: str) -> str:
        self.lines.require_sound(one.start, one.end)
        inner = self.lines.edit(one.children, old, new)
        return one.opening + inner + self.source[one.inner_end : one.end]

    def _inside(self, one: Element, markdown: str) -> str:
        begin, end = one.start + len(one.opening), one.inner_end
        inner = self.rewrite(one.children, begin, end, markdown)
        return one.opening + inner + self.source[end : one.end]

    def _list(self, one: Element, text: str) -> str | None:
        """Return a list with few of its items changed."""
        items = items_of(one)
        new = markdown_to_html.list_items(text)
        if new is None or any(item.tag != "li" for item in items):
            return None
        end = one.inner_end
        ends = [*(item.start for item in items[1:]), end]
        old = [self._writer.item(item).rstrip(" ") for item in items]
        pairs, doubtful = pair(old, new)
        if doubtful:
            return None
        same = {
            text: self.source[item.start : item.end] for text, item in zip(old, items, strict=True)
        }
        kept = {new[place] for place, held in pairs.items() if new[place] == old[held]}
        same |= {text: _ITEM_ID.sub("", same[text]) for text in kept}
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
        return html[len(made.opening) : made.inner_end]

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
        if found is None:
            return None
        task = task_of(label)
        rest = item.children[item.children.index(label) + 1 :]
        begin, end = label.end, item.inner_end
        if task.below:
            if self._writer.blocks(rest):
                return None
            rest, begin, end = task.below, task.below[0].start, task.words.inner_end
        words, others = self._words(task, rest, found[2] or "")
        if words is None:
            return None
        head = self.source[item.start : task.start] + words + self.source[task.end : begin]
        return "".join(
            [
                head.replace(box.opening, ticked(box, found[1] != " "), 1),
                self.rewrite(rest, begin, end, others),
                self.source[end : item.end],
            ]
        )

    def _words(self, task: Task, rest: list[Node], content: str) -> tuple[str | None, str]:
        """Return the words of a task as they read now, None if they cannot; and what stands below them, as ``rest`` does."""
        self.lines.require_sound(task.start, task.end)
        shown, parts = self._writer.block(task.line) if task.line else "", segments(content)
        fills = bool(parts) and markdown_to_html.kind_of(parts[0]) in _LINES
        if not shown and not (fills and self._is_apart(task, rest)):
            return self.source[task.start : task.end], content  # the item says nothing in its label
        if not fills:
            return None, ""
        return self.lines.edit(task.line, shown, parts[0]), "\n\n".join(parts[1:])

    def _is_apart(self, task: Task, rest: list[Node]) -> bool:
        """Tell whether what stands below an empty task is none of its words."""
        below = self._writer.blocks(rest)
        return task.words.has_class(DESCRIPTION) and (
            not below or markdown_to_html.kind_of(segments(below)[0]) not in _LINES
        )


def _usual(marker: re.Match[str]) -> str:
    return f"{marker[1]}." if marker[1] else "-"


def _unquoted(text: str) -> str | None:
    """Return what is in a quote; None if it is none."""
    lines = text.split("\n")
    quoted = all(line.startswith(">") for line in lines)
    return "\n".join(line[1:].removeprefix(" ") for line in lines) if quoted else None


def _has_table(figure: Element) -> bool:
    return any(isinstance(child, Element) and child.tag == "table" for child in figure.children)
