"""Find the lines of a text that a name of a section or of a block means. Pure.

A section is named by the words of its heading, by a path of headings (``A > B``, ``A#B``), by its number in the
outline (0: what stands above the first heading), or by its line (``line 12``). Words are compared exactly, then in any letter case, then by
their letters and digits alone; the first way that finds any decides. ``#`` before the words may be there, and several of them
followed by a blank are a level that is preferred. ``^id`` names the block with this id at its end or below it.

Raises ``PatchError`` if none or several fit. It names the nearest ones.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from mcp_notarium.errors import PatchError
from mcp_notarium.markup.block_ids import Block, find_blocks
from mcp_notarium.markup.sections import Section, read_sections

MOST_NAMED = 5
"""Sections that an error names."""
_MOST_COMPARED = 2_000
_LONGEST = 160
_BLOCK = re.compile(r"#?\^([A-Za-z0-9-]+)")
_LINE = re.compile(r"line\s+(\d{1,9})", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,9}")
_MARKED = re.compile(r"(#{1,6})([ \t]*)(.+)")
_CUT = "…"


@dataclass(frozen=True, slots=True)
class Part:
    """Hold lines of a text: from ``line`` to before ``end``; the body begins at ``body``. One of the others says what they are."""

    line: int
    body: int
    end: int
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
