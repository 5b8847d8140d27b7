"""Find the lines of a text that a name of a section or of a block means, and the block that has an id. Pure.

A section is named by the words of its heading, by a path of headings (``A > B``, ``A#B``), by its number in the
outline (0: what stands above the first heading), or by its line (``line 12``). Words are compared exactly, then in any letter case, then by
their letters and digits alone; the first way that finds any decides. ``#`` before the words may be there, and several of them
followed by a blank are a level that is preferred. ``^id`` names the block with this id at its end or below it.

Raises ``PatchError`` if none or several fit. It names the nearest ones.

As Obsidian has it, an id (``^`` with letters, digits and hyphens) stands at the end of a paragraph or an item, or in a line
of its own below any block. An item is meant with its children; within a quote or a table all of that is meant.
What stands in code is no id.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING

from mcp_notarium.domain.lines import LF, split_lines, start_of
from mcp_notarium.errors import PatchError
from mcp_notarium.markup.heading_reader import markdown_parser
from mcp_notarium.markup.sections import Section, read_sections

if TYPE_CHECKING:
    from markdown_it.token import Token

MOST_NAMED = 5
"""Sections that an error names."""
_MOST_COMPARED = 2_000
_LONGEST = 160
_BLOCK = re.compile(r"#?\^([A-Za-z0-9-]+)")
_LINE = re.compile(r"line\s+(\d{1,9})", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,9}")
_MARKED = re.compile(r"(#{1,6})([ \t]*)(.+)")
_CUT = "…"


_MOST = 100
"""Places of one id that are looked at."""
_LONGEST_SECTION = 100_000
"""Characters of a section that are read for blocks: that takes a second at most, in a list."""
_CODE = ("fence", "code_block", "html_block")
_WHOLE = ("list_item_open", "blockquote_open", "table_open")


@dataclass(frozen=True, slots=True)
class Part:
    """Hold lines of a text, from 1. A section or a block says what they are."""

    line: int
    """The first."""
    body: int
    """The first of the body."""
    end: int
    """The first that is behind it."""
    section: Section | None = None
    block: Block | None = None


def find_part(text: str, name: str) -> Part:
    """Return the only part of the text that the name means."""
    asked, sections = name.strip(), read_sections(text)
    if (found := _BLOCK.fullmatch(asked)) is not None:
        return _find_block(text, sections, found[1])
    found_sections = {one.ordinal: one for one in _called(sections, asked)}
    found_sections |= {one.ordinal: one for one in _placed(sections, asked)}
    fitting = [*found_sections.values()]
    if len(fitting) != 1:
        raise _several_error(sections, fitting) if fitting else _none_error(sections, asked)
    [one] = fitting
    return Part(one.line, one.body, one.end, section=one)


def is_by_place(name: str) -> bool:
    """Tell whether a name counts headings or lines, so that it is right for the text that was read alone."""
    asked = name.strip()
    return asked != "0" and bool(_NUMBER.fullmatch(asked) or _LINE.fullmatch(asked))


def path_of(sections: Sequence[Section], one: Section) -> str:
    """Return the path of headings that leads to a section."""
    return " > ".join(sections[at].words for at in (*one.within, one.ordinal))[:_LONGEST]


def _placed(sections: Sequence[Section], asked: str) -> list[Section]:
    if _NUMBER.fullmatch(asked):
        return [*sections[int(asked) : int(asked) + 1]]
    found = _LINE.fullmatch(asked)
    line = int(found[1]) if found else 0
    return [one for one in sections[1:] if one.line <= line < one.body]


def _called(sections: Sequence[Section], asked: str) -> list[Section]:
    """Return the sections of this name; a name of one heading goes before a path."""
    marked = _MARKED.fullmatch(asked)
    ways: list[tuple[list[str], int]] = [([asked], 0)]
    if marked:
        ways.append(([marked[3]], len(marked[1]) if marked[2] else 0))
    ways += [(asked.strip(mark).split(mark), 0) for mark in (">", "#") if mark in asked.strip(mark)]
    called: dict[str, list[Section]] = {}
    for one in sections[1:]:
        called.setdefault(one.words, []).append(one)
    for parts, level in ways:
        names = [
            one.strip().lstrip("#").strip() if len(parts) > 1 else one.strip() for one in parts
        ]
        for key in (_exact, _folded, letters_of):
            *above, last = map(key, names)
            if not (last and all(above)):
                continue
            fitting = [one for words in called if key(words) == last for one in called[words]]
            if found := [one for one in fitting if _is_below(sections, one, above, key)]:
                return [one for one in found if one.level == level] or found
    if asked.endswith(_CUT):
        start = asked.removesuffix(_CUT)
        return [one for one in sections[1:] if one.shown == asked or one.words.startswith(start)]
    return []


def _is_below(
    sections: Sequence[Section], one: Section, wanted: list[str], key: Callable[[str], str]
) -> bool:
    """Tell whether headings above this one have these names, in this order."""
    above = iter(one.within)
    return all(any(key(sections[at].words) == name for at in above) for name in wanted)


def _exact(words: str) -> str:
    return words


def _folded(words: str) -> str:
    return " ".join(unicodedata.normalize("NFC", words).casefold().split())


def letters_of(words: str) -> str:
    """Return it as links may write it, without punctuation and marks of Markdown."""
    return " ".join(re.findall(r"\w+", _folded(words)))


def _find_block(text: str, sections: Sequence[Section], name: str) -> Part:
    found = find_blocks(text, sections, name, most=MOST_NAMED + 1)
    if len(found) == 1:
        [block] = found
        if block.section is not None:
            one = block.section
            return Part(one.line, one.body, one.end, section=one)
        return Part(block.start, block.start, block.end, block=block)
    lines = [one.id_line for one in found[:MOST_NAMED]]
    error = PatchError(
        f"The block id stands at {'several' if len(found) > MOST_NAMED else len(found)} blocks, at lines {', '.join(map(str, lines))}."
        if found
        else "No block of the note has this id.",
        subcategory="section",
        details={"found": len(found), "line_numbers": lines},
        resolution_hint="Use `text_patch` with line numbers."
        if found
        else "A block id stands at the end of a block as ` ^id`, or in a line of its own below it.",
    )
    error.tells_text = True
    raise error


def _several_error(sections: Sequence[Section], found: Sequence[Section]) -> PatchError:
    named = found[:MOST_NAMED]
    apart = len({path_of(sections, one) for one in named}) == len(named)
    return _error(
        f"{len(found)} sections fit `section`.",
        sections,
        found,
        count=len(found),
        hint=f"Name one by {'its path (`A > B`), or by ' if apart else ''}`line N` with `local_version`.",
    )


def _none_error(sections: Sequence[Section], asked: str) -> PatchError:
    if len(sections) == 1:
        return _error(
            "The note has no headings.", sections, [], count=0, hint="`section` 0 is all of it."
        )
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(_folded(asked.lstrip("#"))[:_LONGEST])

    def likeness(one: Section) -> float:
        matcher.set_seq1(_folded(one.words)[:_LONGEST])
        return matcher.quick_ratio()

    nearest = heapq.nlargest(MOST_NAMED, sections[1 : _MOST_COMPARED + 1], key=likeness)
    return _error(
        "No section of the note has this name.",
        sections,
        nearest,
        count=0,
        hint="`sections` of `details` has the nearest: give a heading, a path (`A > B`), `line N` or a number.",
    )


def _error(
    message: str, sections: Sequence[Section], named: Sequence[Section], *, count: int, hint: str
) -> PatchError:
    rows = [
        {
            "line": one.line,
            "heading": one.shown,
            "number": one.ordinal,
        }
        | ({"path": path_of(sections, one)} if one.within else {})
        for one in named[:MOST_NAMED]
    ]
    error = PatchError(
        message,
        subcategory="section",
        details={"found": count, "sections": rows},
        resolution_hint=hint,
    )
    error.tells_text = True
    return error


@dataclass(frozen=True, slots=True)
class Block:
    """Hold a block."""

    name: str
    kind: str
    start: int
    """Its first line, from 1; ``end`` is behind its last."""
    end: int
    id_line: int
    """The line with its id."""
    body: int = 1
    """First line of the body of its section."""
    own: bool = False
    """The id has a line of its own, below the block."""
    section: Section | None = None
    """The id is that of a heading."""


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
    if len(part) > _LONGEST_SECTION:
        raise PatchError(
            f"The section with this block id has {len(part)} characters; blocks are read in up to {_LONGEST_SECTION}.",
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
