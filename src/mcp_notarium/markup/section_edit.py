"""Change one section or one block of a Markdown text; no byte outside of it changes. Pure.

* Lines are appended at the end of the whole section, below its subsections and above the blank lines before the next heading;
  of a block: below it. They are prepended right below the heading, and below blank lines that follow it; of a block: above it.
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
from dataclasses import dataclass

from mcp_notarium.domain.block_gaps import Form
from mcp_notarium.domain.lines import LF, content_of, end_of, split_lines, start_of
from mcp_notarium.domain.patch import replace_lines, replace_once
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.block_ids import Block, id_pattern
from mcp_notarium.markup.outline_items import as_children, child_indent, find_own_end, is_property
from mcp_notarium.markup.section_names import Part, find_part
from mcp_notarium.markup.sections import Section, read_sections

LONGEST_HEADING = 1000
_ATX = re.compile(r"([ \t]*(?:- )?#{1,6})([ \t]*)(.*?)((?:[ \t]+#+)?[ \t]*\r?\n?)\Z", re.DOTALL)
_MARKED = re.compile(r"#{1,6}[ \t]+")
_INDENTED = re.compile(r"[ \t]*")
_ITEM = re.compile(r"([ \t]*)((?:[-+*]|\d{1,9}[.)])[ \t]+)(\[.\][ \t]+)?")


@dataclass(frozen=True, slots=True)
class SectionChange:
    """Hold what becomes of a section: at most one of the first four, and a new ``heading``."""

    section: str
    append: str | None = None
    prepend: str | None = None
    text: str | None = None
    replacing: tuple[str, str] | None = None
    """What is found once, and what stands there afterwards."""
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
    value = _without_heading(lines, part, change.text)
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
    """Return the lines as the item whose first line is given."""
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
