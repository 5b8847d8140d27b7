"""Change some cells or rows of a table, byte-exact around them. Pure."""

from __future__ import annotations

from mcp_notarium.stores.trilium import markdown_reader
from mcp_notarium.stores.trilium.alignment import pair
from mcp_notarium.stores.trilium.html_blocks import cut
from mcp_notarium.stores.trilium.html_lines import LineEditor, WouldLose
from mcp_notarium.stores.trilium.html_tree import Element
from mcp_notarium.stores.trilium.markdown_writer import BLOCKS, has_head, rows_of

Change = tuple[int, int, str]
"""What stands between two places of the source, and what is to stand there."""


def edit(lines: LineEditor, table: Element, markdown: str) -> str | None:
    """Return the table as ``markdown`` has it; None if it is to have another form. Raises ``WouldLose``."""
    rows, new = rows_of(table), markdown_reader.table_rows(markdown)
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
        inner = (markdown_reader.inline_html(text, lines.known) for text in content)
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
        return begin, end, markdown_reader.inline_html(new, lines.known)
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
