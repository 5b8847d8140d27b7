"""Change one section or one block of a Markdown text; no byte outside of it changes. Pure.

* Lines are appended at the end of the whole section, below its subsections and above the blank lines before the next heading;
  of a block: below it. They are prepended right below the heading and the blank lines that follow it; of a block: above it.
* A new text replaces all below the heading, subsections too, and leaves the blank lines at both ends. It may begin with the heading as it is,
  as it is read.
* Below a heading in an item stand its children: what is added becomes such items, indented as those that are there. They are
  prepended above the first child. A new text leaves the properties of the item (``key:: value``).
* A new heading keeps level, form (``#`` or underlined) and line.
* A new text of a block keeps its id; of an item, quote or task also the mark before it, if it has none itself.

Raises ``PatchError`` for a name that none or several sections have (:mod:`section_names`), ``InvalidRequest`` for words that
would be no heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.lines import LF, content_of, end_of, split_lines, start_of
from mcp_notarium.domain.patch import replace_lines, replace_once
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.section_names import Block, Part, find_part, id_pattern
from mcp_notarium.markup.sections import Section, read_sections

LONGEST_HEADING = 1000
_ATX = re.compile(r"([ \t]*(?:- )?#{1,6})([ \t]*)(.*?)((?:[ \t]+#+)?[ \t]*\r?\n?)\Z", re.DOTALL)
_MARKED = re.compile(r"#{1,6}[ \t]+")
_INDENTED = re.compile(r"[ \t]*")
_ITEM = re.compile(r"([ \t]*)((?:[-+*]|\d{1,9}[.)])[ \t]+)(\[.\][ \t]+)?")


_BULLET = re.compile(r"[ \t]*[-+*](?:[ \t]|\r?$)")
_PROPERTY = re.compile(r"[ \t]*[\w./-]+::(?:[ \t]|\r?$)")
_FENCE = re.compile(r"[ \t]*(?:[-+*][ \t]+)?(`{3,}|~{3,})")
_BLANKS = re.compile(r"[ \t]*")
_TAB = 4
_NESTS = range(2, 6)
"""By how many columns a child of ``-`` is indented: with more it is code."""
_WITHIN = "  "
"""Prefix of further lines of an item."""


@dataclass(frozen=True, slots=True)
class SectionChange:
    """Hold what becomes of a section: at most one of the first four, and a new ``heading``."""

    section: str
    append: str | None = None
    prepend: str | None = None
    text: str | None = None
    replacing: tuple[str, str] | None = None
    """Text that is found once, and its replacement."""
    heading: str | None = None


def change_section(
    text: str, change: SectionChange, *, form: Form = Form.LINES, titles: bool = True
) -> str:
    """Return the changed text; ``titles`` False: its first line is the title, and stays the first line."""
    part = find_part(text, change.section)
    if change.heading is not None and part.section is None:
        raise _no_heading("A block has no heading.")
    changed = _change(text, part, change, form=form, titles=titles)
    if change.heading is None or part.section is None:
        return changed
    return _rename(changed, part.section, change.heading)


def _change(text: str, part: Part, change: SectionChange, *, form: Form, titles: bool) -> str:
    if change.replacing is not None:
        within = (start_of(text, part.line), start_of(text, part.end))
        return replace_once(text, *change.replacing, within=within)
    if part.block is not None:
        return _change_block(text, part.block, change, form=form)
    if part.section is not None and part.section.in_item:
        return _change_children(text, part, change, form=form)
    return _change_body(text, part, change, form=form, titles=titles)


def _change_body(text: str, part: Part, change: SectionChange, *, form: Form, titles: bool) -> str:
    lines, ended = split_lines(text), part.body - 1
    first, last = _filled(lines, part)
    value = change.append if change.prepend is None else change.prepend
    if value is not None:
        at = last
        if change.prepend is not None:
            has_title = not titles and part.section is not None and not part.section.ordinal
            above = Part(first + 1, first + 1, part.end)
            at = _filled(lines, above)[0] if has_title and first < last else first
        return replace_lines(text, at, at, value, form=form, ended=ended)
    if change.text is None:
        return text
    value = _without_heading(lines, part, change.text).strip("\r\n")
    if value.strip():
        return replace_lines(text, first, last, value, form=form, ended=ended)
    return replace_lines(text, first, part.end if first > part.body else last, "")


def _change_children(text: str, part: Part, change: SectionChange, *, form: Form) -> str:
    """Change what stands below a heading that is the first line of an item."""
    lines, value = split_lines(text), change.append
    _, last = _filled(lines, part)
    own = find_own_end(lines, part.line, last)
    if change.prepend is not None:
        value, last = change.prepend, own
    first = last
    if value is None and change.text is not None:
        value, first = _without_heading(lines, part, change.text), part.body
        while first < last and is_property(lines[first - 1]):
            first += 1
        held = [line.strip() for line in lines[part.body - 1 : first - 1]]
        given = split_lines(value)
        if [line.strip() for line in given[: len(held)]] == held:
            value = "".join(given[len(held) :])
    if value is None:
        return text
    indent = child_indent(lines, part.line, part.end, first=change.prepend is not None)
    children = LF.join(as_children(value, indent)) if value.strip() else ""
    return replace_lines(text, first, last, children, form=form)


def _filled(lines: list[str], part: Part) -> tuple[int, int]:
    """Return from which line to before which the body is, without blank lines at its ends; of an empty body its beginning."""
    first, last = part.body, part.end
    while first < last and not lines[first - 1].strip():
        first += 1
    if first == last:
        return part.body, part.body
    while not lines[last - 2].strip():
        last -= 1
    return first, last


def _without_heading(lines: list[str], part: Part, value: str) -> str:
    """Return the new body without the heading, if it begins with that. Raises ``InvalidRequest`` if it begins with another one."""
    section = part.section
    if section is None or not section.ordinal:
        return value
    given = split_lines(value.lstrip("\r\n"))
    heading = [_bare(line) for line in lines[part.line - 1 : part.body - 1]]
    if [_bare(line) for line in given[: len(heading)]] == heading:
        return "".join(given[len(heading) :]).strip("\r\n")
    begins = read_sections("".join(given[:2]))[1:2]
    if begins and begins[0].line == 1 and begins[0].level == section.level:
        raise _no_heading("`text` begins with another heading than that of the section.")
    return value


def _bare(line: str) -> str:
    """Return a line of a heading without blanks at its ends and the mark of an item."""
    return line.strip().removeprefix("- ").lstrip()


def _rename(text: str, section: Section, words: str) -> str:
    """Return the text with other words in the heading."""
    if not section.ordinal:
        raise _no_heading("The part above the first heading has no heading.")
    said = (
        _MARKED.sub("", words.strip(), count=1) if words.strip().startswith("#") else words.strip()
    )
    if not said or LF in said or "\r" in said or len(said) > LONGEST_HEADING:
        raise _no_heading(
            f"`heading` is not one line with 1 to {LONGEST_HEADING} characters of words."
        )
    start, stop = start_of(text, section.line), start_of(text, section.body)
    lines = split_lines(text[start:stop])
    if len(lines) == 1:
        mark = _ATX.match(lines[0])
        if mark is None:
            raise _no_heading("The heading cannot be read.")
        new = [f"{mark[1]}{mark[2] or ' '}{said}{mark[4]}"]
    else:
        blanks = _INDENTED.match(lines[0])
        new = [f"{blanks[0] if blanks else ''}{said}{end_of(lines[0])}", lines[-1]]
    changed = text[:start] + "".join(new) + text[stop:]
    before, after = read_sections(text), read_sections(changed)
    one = after[section.ordinal] if len(after) == len(before) else None
    meant = " ".join(said.split())
    if one is None or (one.level, one.line, " ".join(one.words.split())) != (
        section.level,
        section.line,
        meant,
    ):
        raise _no_heading("`heading` would not be the words of a heading.")
    return changed


def _no_heading(message: str) -> InvalidRequest:
    return InvalidRequest(
        message,
        subcategory="section",
        resolution_hint="Give the new words of a heading as `heading`, without `#`; what stands below it as `text`.",
    )


def _change_block(text: str, block: Block, change: SectionChange, *, form: Form) -> str:
    below, ended = (block.id_line + 1 if block.own else block.end), block.body - 1
    if change.append is not None:
        return replace_lines(text, below, below, change.append, form=form, ended=ended)
    if change.prepend is not None:
        return replace_lines(text, block.start, block.start, change.prepend, form=form, ended=ended)
    if change.text is None:
        return text
    if not change.text.strip():
        raise InvalidRequest(
            "A block cannot become empty.",
            subcategory="section",
            resolution_hint="Remove its lines with `text_patch`.",
        )
    lines = split_lines(text)[block.start - 1 : block.end - 1]
    value = [content_of(line) for line in split_lines(change.text.strip("\r\n"))]
    if block.kind == "list_item":
        value = _as_item(content_of(lines[0]), value)
    elif block.kind == "blockquote" and not any(line.lstrip().startswith(">") for line in value):
        value = [f"> {line}".rstrip() for line in value]
    if not block.own and not id_pattern(block.name).search(LF.join(value)):
        at = 0 if block.kind == "list_item" else len(value) - 1
        value[at] = f"{value[at].rstrip()} ^{block.name}"
    return replace_lines(text, block.start, block.end, LF.join(value), form=form, ended=ended)


def _as_item(first: str, value: list[str]) -> list[str]:
    """Return the lines as an item with the mark of ``first``."""
    mark = _ITEM.match(first)
    if mark is None:
        return value
    if _ITEM.match(value[0]):
        if not mark[1] or value[0].startswith(mark[1]):
            return value
        return [mark[1] + line if line.strip() else line for line in value]
    indent = mark[1] + " " * len(mark[2])
    rest = [indent + line if line.strip() and not line[0].isspace() else line for line in value[1:]]
    return [mark[0] + value[0].strip(), *rest]


def is_property(line: str) -> bool:
    """Tell whether a line is a property of the item that it stands in."""
    return bool(_PROPERTY.match(line))


def find_own_end(lines: Sequence[str], line: int, last: int) -> int:
    """Return where the children begin of the item that begins at ``line``, or ``last`` if it has none."""
    return next(_items(lines, line + 1, last), last)


def child_indent(lines: Sequence[str], line: int, end: int, *, first: bool) -> str:
    """Return what stands before the children of the item that begins at ``line``, or would stand before one.

    ``first``: before the first of them; otherwise before the least indented one, which one more child can follow.
    """
    children = [_blanks(lines[number - 1]) for number in _items(lines, line + 1, end)]
    if children:
        return children[0] if first else min(children, key=_width)
    others = (_blanks(one) for one in lines if one[:1] in " \t" and _BULLET.match(one))
    step = next((one for one in others if _width(one) in _NESTS), "\t")
    return _blanks(lines[line - 1]) + step


def as_children(value: str, indent: str) -> list[str]:
    """Return the lines of a text as items with this indentation: each paragraph that is no item becomes one."""
    given = [content_of(line) for line in split_lines(value.strip("\r\n"))]
    common = min((_width(_blanks(line)) for line in given if line.strip()), default=0)
    made: list[str] = []
    fence, goes_on, deeper = "", False, ""
    for line in (_less_indented(line, common) for line in given):
        at_start = line[:1] not in ("", " ", "\t")
        item = not fence and at_start and bool(_BULLET.match(line))
        if not line.strip():
            made.append("")
        elif item or not (fence or goes_on or not at_start):
            while made and not made[-1]:
                made.pop()
            made.append(indent + line if item else f"{indent}- {line}")
            deeper = "" if item else _WITHIN
        else:
            made.append(indent + (_WITHIN if at_start else deeper) + line)
        fence = _fence_after(fence, line)
        goes_on = bool(line.strip())
    return made


def _items(lines: Sequence[str], start: int, end: int) -> Iterator[int]:
    """Yield which of these lines begin an item, outside code."""
    fence = ""
    for number in range(start, end):
        if not fence and _BULLET.match(lines[number - 1]):
            yield number
        fence = _fence_after(fence, lines[number - 1])


def _fence_after(fence: str, line: str) -> str:
    """Return the marks of the code that is open after this line; '': none is."""
    found = _FENCE.match(line)
    if fence:
        return "" if found and found[1].startswith(fence) else fence
    return found[1] if found else ""


def _blanks(line: str) -> str:
    found = _BLANKS.match(line)
    return found[0] if found else ""


def _width(blanks: str) -> int:
    return len(blanks.expandtabs(_TAB))


def _less_indented(line: str, width: int) -> str:
    """Return a line without so many columns of its indentation."""
    blanks = _blanks(line)
    at = next((at for at in range(len(blanks) + 1) if _width(blanks[:at]) >= width), len(blanks))
    return " " * max(0, _width(blanks[:at]) - width) + line[at:]
