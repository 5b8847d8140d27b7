"""Pair the parts of an edited table with those it had, and change some of its cells or rows, byte-exact around them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from mcp_notarium.markup import markdown_to_html
from mcp_notarium.markup.html_blocks import cut
from mcp_notarium.markup.html_line_edit import LineEditor, WouldLose
from mcp_notarium.markup.html_to_markdown import BLOCKS, has_head, rows_of
from mcp_notarium.markup.html_tree import Element

_MOST_COMPARED = 400
_LONGEST_COMPARED = 2_000


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
"""What stands between two places of the source, and what is to stand there."""


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
