"""Change some words of a line of HTML, or some cells and rows of a table, byte-exact around them. Pure."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from os.path import commonprefix

from mcp_notarium.markup import markdown_to_html
from mcp_notarium.markup.html_losses import Losses, cut, find_losses
from mcp_notarium.markup.html_to_markdown import (
    BLOCKS,
    CANONICAL,
    COLLAPSED,
    Writer,
    code_parts,
    escape_heading,
    escape_lines,
    has_head,
    rows_of,
)
from mcp_notarium.markup.html_tree import Element, Node, Text, elements, parse
from mcp_notarium.markup.markdown_to_html import Known

_REFERENCE = r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)"
"""Text that is decoded as one; without a ``;``, it may stand for its first letters only."""
_WORD = re.compile(rf"(?:\s|&nbsp;)+|(?P<reference>{_REFERENCE})|[^\s&<>]+|[&<>]")
_CHUNK = re.compile(r"(?:\s|&nbsp;?)+|(?:(?!&nbsp)\S)+")
_CODE = re.compile(rf"{_REFERENCE}|[^&]+|&")
_SHOWN = 40
"""Characters of what is not understood that a refusal names, at most."""
_BREAK = "\\\n"
_WHOLE = frozenset({"code"})
"""Elements whose Markdown is not that of what is inside."""
Piece = tuple[Node, str]
"""A node and its Markdown."""


_MOST_COMPARED = 400
_LONGEST_COMPARED = 2_000


class WouldLose(Exception):
    """Report that an edit would lose something that its Markdown does not show, or meet what is not understood.

    ``what`` names it, with the place in the source where it first stands, or -1; ``lines`` the same for a person.
    """

    def __init__(self, what: Losses, *, broken: bool = False) -> None:
        super().__init__(", ".join(what))
        self.what = what
        self.broken = broken
        self.lines = {name: name for name in what}


@dataclass(frozen=True, slots=True)
class LineEditor:
    """Edit the lines of one note."""

    source: str
    known: Known
    writer: Writer
    faults: list[int]

    def require_sound(self, start: int, end: int) -> None:
        """Raise ``WouldLose`` if this part of the source may be read otherwise than it is here."""
        for place in self.faults:
            if start <= place < end:
                broken = self.source[place : place + _SHOWN].partition(">")[0]
                raise WouldLose({f"{broken.rstrip()}>": place}, broken=True)

    def code(self, one: Element, new: str) -> str | None:
        """Return an element of code, changed to read as ``new``; None if that cuts through an element in it."""
        self.require_sound(one.start, one.end)
        pieces = [piece for node, _ in code_parts(one) for piece in self._code_pieces(node)]
        old = "".join(text for _, _, text in pieces)
        new += "\n" if old.endswith("\n") else ""
        first = len(commonprefix([old, new]))  # noqa: RUF071 - of characters
        last = len(commonprefix([old[first:][::-1], new[first:][::-1]]))  # noqa: RUF071 - see above
        inserts = first + last == len(old)
        low, first = _reach(pieces, first, one.start + len(one.opening))
        backwards = [(-stop, -start, text) for start, stop, text in reversed(pieces)]
        high, last = _reach(backwards, last, -one.inner_end)
        high = low if inserts else -high
        for inner in elements(one.children):
            begin = inner.start + len(inner.opening)
            apart = inner.end <= low or high <= inner.start
            if not (apart or inner.tag == "br" or begin <= low <= high <= inner.inner_end):
                return None
        made = html.escape(new[first : len(new) - last], quote=False)
        return self.source[one.start : low] + made + self.source[high : one.end]

    def _code_pieces(self, node: Node) -> list[tuple[int, int, str]]:
        """Return the characters and references of a text, or a line break, with their places in the source."""
        if isinstance(node, Element):
            return [(node.start, node.end, "\n")]
        found = _CODE.finditer(self.source, node.start, node.end)
        return [(*one.span(), html.unescape(one[0])) for one in found]

    def edit(self, nodes: list[Node], old: str, new: str) -> str:
        """Return the source of nodes that read as ``old``, changed to read as ``new``. Raises ``WouldLose``."""
        if not nodes:
            return markdown_to_html.inline_html(new, self.known)
        self.require_sound(nodes[0].start, nodes[-1].end)
        plain = _stripped(list(self._pieces(nodes)))
        for pieces in (plain, _escaped(plain), _headed(plain), _flat(plain)):
            if "".join(part for _, part in pieces) == old:
                return self._between(pieces, new)
        self._require_lossless(nodes, old)
        return markdown_to_html.inline_html(new, self.known)

    def _pieces(self, nodes: list[Node]) -> Iterator[Piece]:
        """Yield elements and words, each with its Markdown."""
        for node, part in zip(nodes, self.writer.inline_parts(nodes), strict=True):
            yield from self._words(node, part) if isinstance(node, Text) else [(node, part)]

    def _words(self, node: Text, shown: str) -> list[Piece]:
        """Return the words of a text, in pieces as small as can be said without the others."""
        for spans in (self._spans(node.start, node.end), self._chunks(node)):
            texts = [Text(html.unescape(self.source[a:b]), a, b) for a, b in spans]
            pieces: list[Piece] = [(text, self.writer.text(text.text)) for text in texts]
            joined = "".join(part for _, part in pieces)
            if joined == f" {shown}":  # it follows a space
                pieces[0] = (texts[0], pieces[0][1][1:])
            if joined in (shown, f" {shown}"):
                return pieces
        return [(node, shown)]

    def _chunks(self, node: Text) -> Iterator[tuple[int, int]]:
        return (found.span() for found in _CHUNK.finditer(self.source, node.start, node.end))

    def _spans(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the places of words, spaces and references; of one without a ``;`` what is none of it follows."""
        for found in _WORD.finditer(self.source, start, end):
            begin, stop = found.span()
            if found["reference"] and not found[0].endswith(";"):
                middle = stop - _letters_after(found[0])
                yield begin, middle
                yield from self._spans(middle, stop)
            else:
                yield begin, stop

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
            made = markdown_to_html.inline_html(new[begin:end], self.known)
        return self.source[places[0] : places[low]] + made + self.source[places[high] : places[-1]]

    def _within(self, changed: list[Piece], new: str) -> str | None:
        """Return a single element with what is inside changed; None if the change is not inside of one."""
        one, part = changed[0] if len(changed) == 1 else (None, "")
        if not isinstance(one, Element) or not one.children:
            return None
        tag = CANONICAL.get(one.tag, one.tag)
        text = (
            markdown_to_html.code_span(new.strip(" "))
            if tag == "code" and one.all_text() in part
            else None
        )
        if text:
            return self.code(one, text)
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
        return one.opening + made + self.source[one.inner_end : one.end]

    def _require_lossless(self, nodes: list[Node], markdown: str) -> None:
        made = parse(markdown_to_html.inline_html(markdown, self.known)).nodes
        if losses := find_losses(nodes, made, inline=True):
            raise WouldLose(losses)


def _letters_after(reference: str) -> int:
    """Return how many letters at the end of a reference without a ``;`` are none of it."""
    word = html.unescape(reference)
    return len(commonprefix([reference[:0:-1], word[::-1]]))  # noqa: RUF071 - of characters


def _reach(pieces: list[tuple[int, int, str]], length: int, begin: int) -> tuple[int, int]:
    """Return where in the source so many characters end, and how many end there: none within a reference."""
    place, done = begin, 0
    for start, stop, text in pieces:
        if done + len(text) > length:
            if stop - start == len(text):
                return start + length - done, length
            break
        place, done = stop, done + len(text)
    return place, done


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


def _headed(pieces: list[Piece]) -> list[Piece]:
    """Escape what would end a heading."""
    last = max((number for number, (_, part) in enumerate(pieces) if part), default=-1)
    return [
        (node, escape_heading(part) if n == last else part) for n, (node, part) in enumerate(pieces)
    ]


def _flat(pieces: list[Piece]) -> list[Piece]:
    """Write line breaks as in a cell of a table."""
    flat: list[Piece] = []
    for node, part in pieces:
        line = " " if part == _BREAK else part
        after = bool(flat) and flat[-1][1].endswith(" ")
        flat.append((node, line.removeprefix(" ") if after else line))
    return flat


def _escaped(pieces: list[Piece]) -> list[Piece]:
    """Escape what would begin a block at the start of a line."""
    found: list[Piece] = []
    begins = True
    for node, part in pieces:
        found.append((node, escape_lines(part) if begins else part))
        begins = part == _BREAK or (begins and not part)
    return found


def pair(old: list[str], new: list[str]) -> tuple[dict[int, int], set[int]]:
    """Return the old place of each new part that has one, and the old parts that may be in others now.

    Places rise on both sides. An old part that is in neither was removed.
    """
    pairs: dict[int, int] = {}
    doubtful: set[int] = set()
    for kind, a, b, c, d in _aligned(old, new):
        if kind == "equal":
            pairs.update(zip(range(c, d), range(a, b), strict=True))
        elif kind == "replace":
            found = {c + j: a + i for j, i in _similar(old[a:b], new[c:d]).items()}
            pairs |= found
            doubtful |= set(range(a, b)) - set(found.values())
    return dict(sorted(pairs.items())), doubtful


def _aligned(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield what became of which parts, as ``SequenceMatcher`` does; first and last ones stay if they can."""
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


def _similar(old: list[str], new: list[str]) -> dict[int, int]:
    """Pair each part of the shorter side with the most similar one of the other; in order if they are as many."""
    if len(old) > len(new):
        return {j: i for i, j in _similar(new, old).items()}
    room = len(new) - len(old)
    if room * len(old) > _MOST_COMPARED:
        room = 0
    pairs, place = {}, 0
    for number, part in enumerate(old):
        choice = range(place, number + room + 1)
        best = max(choice, key=lambda one: _ratio(part, new[one])) if room else place
        pairs[best] = number
        place = best + 1
    return pairs


def _ratio(one: str, other: str) -> float:
    texts = one[:_LONGEST_COMPARED], other[:_LONGEST_COMPARED]
    return SequenceMatcher(None, *texts, autojunk=False).ratio()


Change = tuple[int, int, str]
"""Two places of the source, and the text that is to stand between them."""


def edit(lines: LineEditor, table: Element, markdown: str) -> str | None:
    """Return the table as ``markdown`` has it; None if it is to have another form. Raises ``WouldLose``."""
    rows, new = rows_of(table), markdown_to_html.table_rows(markdown)
    old = [[lines.writer.cell(cell) for cell in cells] for _, cells in rows]
    width, head = max(map(len, old)), has_head(table)
    if not head and any(new.pop(0)):
        return None
    old = [row + [""] * (width - len(row)) for row in old]
    pairs, doubtful = pair(["\n".join(row) for row in old], ["\n".join(row) for row in new])
    moved = len(pairs) < max(len(old), len(new))
    spans = any("rowspan" in cell.attributes for _, cells in rows for cell in cells)
    if doubtful or (moved and spans) or any(len(row) != width for row in new):
        return None
    if head and pairs.get(0) != 0:
        return None
    changes = [
        (row.start, row.end, "")
        for number, (row, _) in enumerate(rows)
        if number not in pairs.values()
    ]
    last = None
    for place, content in enumerate(new):
        held = pairs.get(place)
        if held is not None:
            last = held
            cells = rows[held][1]
            if any(content[len(cells) :]):
                return None
            for cell, was, now in zip(cells, old[held], content, strict=False):
                if was != now:
                    changes.append(_cell(lines, cell, was, now))
            continue
        where = _place_after(rows, last, head=head)
        if where is None:
            return None
        inner = (markdown_to_html.inline_html(text, lines.known) for text in content)
        row = "".join(f"<td>{text}</td>" for text in inner)
        changes.append((where, where, f"<tr>{row}</tr>"))
    return _apply(lines.source, table, changes)


def _place_after(
    rows: list[tuple[Element, list[Element]]], last: int | None, *, head: bool
) -> int | None:
    """Return where a row goes after the row ``last``: never among the head's."""
    if last is not None and not (head and last == 0):
        return rows[last][0].end
    following = 1 if head else 0
    return rows[following][0].start if following < len(rows) else None


def _cell(lines: LineEditor, cell: Element, old: str, new: str) -> Change:
    lines.require_sound(cell.start, cell.end)
    begin, end = cell.start + len(cell.opening), cell.inner_end
    blocks = cut(cell.children, lines.source, end, lines.writer)
    if not blocks:
        return begin, end, markdown_to_html.inline_html(new, lines.known)
    (block, *others), first = blocks, blocks[0].nodes[0]
    nodes = block.nodes
    if isinstance(first, Element) and first.tag == "p" and not others:
        nodes = first.children
    elif others or (isinstance(first, Element) and first.tag in BLOCKS):
        raise WouldLose({"several lines in a cell of a table": cell.start})
    made = lines.edit(nodes, old, new)
    return nodes[0].start, nodes[-1].end, made


def _apply(source: str, table: Element, changes: list[Change]) -> str:
    written, done = [], table.start
    for start, end, text in sorted(changes, key=lambda one: one[0]):
        written += [source[done:start], text]
        done = end
    return "".join([*written, source[done : table.end]])
