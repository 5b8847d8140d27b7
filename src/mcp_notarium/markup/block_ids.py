"""Find the block of a Markdown text that has a block id. Pure.

As Obsidian has it, an id (``^`` with letters, digits and hyphens) stands at the end of a paragraph or an item, or in a line
of its own below any block. An item is meant with its children; within a quote or a table all of that is meant.
What stands in code is no id.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from mcp_notarium.domain.lines import LF, split_lines, start_of
from mcp_notarium.errors import PatchError
from mcp_notarium.markup.heading_reader import markdown_parser
from mcp_notarium.markup.sections import Section

if TYPE_CHECKING:
    from markdown_it.token import Token

_MOST = 100
"""Places of one id that are looked at."""
_LONGEST = 100_000
"""Characters of a section that are read for blocks: that takes a second at most, in a list."""
_CODE = ("fence", "code_block", "html_block")
_WHOLE = ("list_item_open", "blockquote_open", "table_open")


@dataclass(frozen=True, slots=True)
class Block:
    """Hold a block: its lines from ``start`` to before ``end``, its ``kind``, and the line with its id.

    ``body``: where the body of its section begins. ``own``: the id has a line of its own, below the block. ``section``: the id
    is that of a heading.
    """

    name: str
    kind: str
    start: int
    end: int
    id_line: int
    body: int = 1
    own: bool = False
    section: Section | None = None


def id_pattern(name: str) -> re.Pattern[str]:
    """Return what finds this id at the end of a line."""
    return re.compile(rf"(?:^|[ \t])\^{re.escape(name)}[ \t]*\r?$", re.MULTILINE)


def find_blocks(text: str, sections: Sequence[Section], name: str, *, most: int) -> list[Block]:
    """Return the blocks with this id, and no more than ``most``. Raises ``PatchError`` for a section that is too long."""
    found: list[Block] = []
    parsed: dict[int, tuple[str, list[Token]]] = {}
    lines = [one.line for one in sections]
    apart = [one for one in sections if not one.in_item]
    starts = [one.line for one in apart]
    for place in islice(id_pattern(name).finditer(text), _MOST):
        line = text.count(LF, 0, place.end()) + 1
        above = sections[max(0, bisect_right(lines, line) - 1)]
        if above.ordinal and above.line <= line < above.body:
            found.append(Block(name, "heading", line, line + 1, line, section=above))
        else:
            at = max(0, bisect_right(starts, line) - 1)
            above = apart[at]
            if above.ordinal not in parsed:
                part = _own_part(text, above, apart[at + 1 : at + 2])
                parsed[above.ordinal] = part, _parse(part)
            if block := _read(*parsed[above.ordinal], above, line, name):
                found.append(block)
        if len(found) == most:
            break
    return found


def _own_part(text: str, within: Section, following: Sequence[Section]) -> str:
    """Return what stands in a section above the heading that follows."""
    start = start_of(text, within.body)
    stop = start_of(text, following[0].line) if following else len(text)
    return text[start:stop].replace("\r\n", LF)


def _parse(part: str) -> list[Token]:
    if len(part) > _LONGEST:
        raise PatchError(
            f"The section with this block id has {len(part)} characters; blocks are read in up to {_LONGEST}.",
            subcategory="section",
            details={"characters": len(part)},
            resolution_hint="Use `find` with `replace`, or `text_patch`.",
        )
    tokens: list[Token] = []
    parser = markdown_parser()
    parser.block.parse(part, parser, {}, tokens)
    return tokens


def _read(
    part: str, tokens: Sequence[Token], within: Section, line: int, name: str
) -> Block | None:
    """Return the block whose id stands in this line, if it is one."""
    at = line - within.body
    blocks = [one for one in tokens if one.map and one.nesting >= 0]
    around = [one for one in blocks if one.map and one.map[0] <= at < one.map[1]]
    if not around or any(one.type in _CODE for one in around):
        return None
    lines = split_lines(part)
    own = lines[at].strip() == f"^{name}"
    meant = next((one for one in reversed(around) if one.type in _WHOLE), around[0])
    below = False
    paragraph = next((one for one in around if one.type == "paragraph_open"), None)
    if own and paragraph is not None and paragraph.map == [at, at + 1]:
        sibling = _above(blocks, paragraph)
        if sibling is None and meant is paragraph:
            return (
                Block(name, "heading", line, line + 1, line, section=within)
                if within.ordinal
                else None
            )
        below = sibling is not None
        meant = sibling or meant
    start, end = meant.map or [at, at + 1]
    end = at if below and end > at else end
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return Block(
        name,
        meant.type.removesuffix("_open"),
        within.body + start,
        within.body + end,
        line,
        body=within.body,
        own=below,
    )


def _above(blocks: Sequence[Token], paragraph: Token) -> Token | None:
    """Return the block right above a paragraph, in the same quote or item."""
    found = None
    for one in blocks:
        if one is paragraph:
            break
        if one.level == paragraph.level:
            found = one
        elif one.level < paragraph.level:
            found = None
    return found
