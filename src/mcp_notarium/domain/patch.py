r"""Patch a text by lines, at its ends, or where it says something. Line numbers are those of the original text, from 1.

Deletions are applied first, from high to low; then modifications; then additions, from low to high.
Every number refers to the original text, so the order of the list matters only for
several additions at one line. The edges:

* An addition at line n stands before line n; n = total + 1 appends. Several additions at one line
  keep their order. At a line that is deleted or modified they stand before its place.
* A value may hold several lines. One line end at the very end of it is only its end: ``x`` and
  ``x\n`` are the same one line, ``""`` is one empty line. Additions and modifications need a value;
  that of a deletion is ignored.
* New lines get the note's own line end (the more frequent one, ``\n`` if both are equally frequent),
  whatever ends stand in the value. A modified line keeps its end. Other lines stay byte for byte.
* The result ends with a line end exactly if the text did. The one exception is a result whose last
  line is empty: without its end it would not be a line.
* Deleting every line gives the empty text.

``append`` and ``prepend`` are additions; neither stands above front matter, nor above a block of properties in other
texts. ``replace_once`` is exact; new lines get the note's own line end, and ``\n`` finds that, too. ``form`` Markdown: additions are kept apart from the blocks next to them (:mod:`block_gaps`), but for
those at a line that is deleted or modified, or right below one; none stands above front matter.

Versions are not compared here; the caller makes sure that the numbers refer to this text.

Characters that look alike are compared as one: blanks and line ends, quotation marks, hyphens. A refusal names the
line that is most like the first one of the search text, else the line with a part that is most like it.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from mcp_notarium.domain.block_gaps import Form, find_text, set_apart
from mcp_notarium.domain.lines import (
    CRLF,
    LF,
    content_of,
    count_lines,
    end_of,
    newline_of,
    split_lines,
    with_end,
)
from mcp_notarium.errors import PatchError
from mcp_notarium.markup.front_block import looks_like_block, text_start

Kind = Literal["addition", "modification", "deletion"]
_NAMED = 10
"""Lines that an error names, at most."""
_MOST_PLACES = 10_000
"""Places of a text that are counted; an error says where there are more."""
_WORD = re.compile(r"\S")


_BLANKS = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000\t"
_SINGLE, _DOUBLE = (
    "\u2018\u2019\u201a\u201b\u2032\u00b4`",
    "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb",
)
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_ALIKE = str.maketrans(
    {
        **dict.fromkeys(_BLANKS, " "),
        **dict.fromkeys(_SINGLE, "'"),
        **dict.fromkeys(_DOUBLE, '"'),
        **dict.fromkeys(_HYPHENS, "-"),
        **dict.fromkeys("\r\n\u2028", " "),
    }
)
"""One character for one, so that places stay."""
_LONGEST = 1_048_576
"""Characters of a text that is compared: a longer one cannot be saved, either."""
_MOST_LINES = 1_000
_MOST_CHARACTERS = 300
_LIKE = 0.6
_COMPARED = 3
"""Lines that are compared exactly: that takes long."""
_PART_LIKE = 0.8
_SHORTEST_PART = 4
_SAME = "begins as `find` does; what follows differs"
_PAIRS = 4_000_000
"""Characters of a text, times those looked for, that are searched for a part that is alike: less than half a second."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Hold one step of a patch."""

    kind: Kind
    line: int
    """From 1."""
    value: str | None = None
    """None: a deletion, which needs none."""


def apply_patch(text: str, operations: Sequence[Operation], *, form: Form = Form.LINES) -> str:
    """Apply the operations to the text by the rules above.

    Raises ``PatchError`` for an empty list, a line outside the note (naming how many lines it
    has), a missing value, and two operations that cannot both hold at one line.
    """
    if not operations:
        raise PatchError(
            "The patch has no operations.",
            resolution_hint="Give at least one addition, modification or deletion.",
        )
    lines = split_lines(text)
    added: dict[int, list[str]] = {}
    replaced: dict[int, list[str]] = {}
    for operation in operations:
        adds, line = operation.kind == "addition", operation.line
        _check_line(operation, last=len(lines) + adds, total=len(lines))
        contents = [] if operation.kind == "deletion" else _contents(operation)
        if adds:
            added.setdefault(line, []).extend(contents)
        elif line not in replaced:
            replaced[line] = contents
        else:
            raise PatchError(
                f"Line {line} is modified or deleted twice.",
                details={"line_number": line},
                resolution_hint="Name each line in at most one modification or deletion.",
            )
    if form is not Form.LINES:
        front = find_text(text, form)
        if front and 1 in added:
            added[front + 1] = added.pop(1) + added.get(front + 1, [])
        for line in added.keys() - replaced.keys() - {number + 1 for number in replaced}:
            added[line] = set_apart(lines, line - 1, added[line], front=front)
    patched = _replace_lines(lines, added, replaced, newline=newline_of(text))
    return _join(patched, final_end=text.endswith(LF))


def append(text: str, value: str, *, form: Form = Form.LINES) -> str:
    """Return the text with these lines after its last one."""
    operation = Operation("addition", count_lines(text) + 1, value)
    return apply_patch(text, [operation], form=form)


def prepend(text: str, value: str, *, below_title: bool, form: Form = Form.LINES) -> str:
    """Return the text with these lines before its first one below front matter.

    ``below_title``: the first line that is not blank is the title, so they stand below that and the blank
    lines after it.
    """
    front = text_start(text) if form is Form.FILE or looks_like_block(text) else 0
    title = _WORD.search(text, front) if below_title else None
    if title is None:
        line = count_lines(text[:front]) + 1
        return apply_patch(text, [Operation("addition", line, value)], form=form)
    ends = text.find(LF, title.start()) + 1 or len(text)
    following = _WORD.search(text, ends)
    above = text.count(LF, 0, following.start()) if following else count_lines(text)
    return apply_patch(text, [Operation("addition", above + 1, value)], form=form)


def replace_lines(
    text: str, first: int, after: int, value: str, *, form: Form = Form.LINES, ended: int = 0
) -> str:
    """Return the text with these lines in the place of those from ``first`` to before ``after``; '' removes them.

    ``ended``: so many lines at its top end with a block that nothing carries on, such as a heading.
    """
    lines = split_lines(text)
    kept = lines[: first - 1] + lines[after - 1 :]
    added = _contents(Operation("addition", first, value)) if value else []
    if form is not Form.LINES:
        front = max(find_text(text, form), ended)
        added = set_apart(kept, first - 1, added, front=front)
    patched = _replace_lines(kept, {first: added} if added else {}, {}, newline=newline_of(text))
    return _join(patched, final_end=text.endswith(LF))


def replace_once(
    text: str, find: str, replacement: str, *, within: tuple[int, int] | None = None
) -> str:
    """Return the text with ``replacement`` in the one place where it says ``find``.

    ``within``: from which character to before which it is looked for. Raises ``PatchError`` if ``find`` is empty, nowhere,
    or in several places (naming their lines).
    """
    begin, stop = within or (0, len(text))
    part, above = text[begin:stop], text.count(LF, 0, begin)
    found = [(start, start + len(find)) for start in _places(part, find)]
    if not found and LF in find and CRLF in part:
        found = _places_of_lines(part, find)
    if len(found) == 1:
        start, end = (begin + place for place in found[0])
        newline = newline_of(text[start:end] if LF in text[start:end] else text)
        return text[:start] + _with_ends(replacement, newline) + text[end:]
    where = "note" if within is None else "section"
    lines = [above + part.count(LF, 0, start) + 1 for start, _ in found[:_NAMED]]
    raise (
        _not_once_error(len(found), lines, where)
        if found
        else _nowhere_error(part, find, above, where)
    )


def _places_of_lines(text: str, find: str) -> list[tuple[int, int]]:
    """Return from where to where the lines of ``find`` stand, whatever their ends; of several only how many there are."""
    plain, find = text.replace(CRLF, LF), find.replace(CRLF, LF)
    places = _places(plain, find)
    if len(places) != 1:
        return [(_place_in(text, plain, at) if n < _NAMED else 0, 0) for n, at in enumerate(places)]
    [at] = places
    return [(_place_in(text, plain, at), _place_in(text, plain, at + len(find)))]


def _place_in(text: str, plain: str, at: int) -> int:
    """Return the place in the text of a place in it without returns at its line ends."""
    above = plain.count(LF, 0, at)
    start = sum(len(line) + 1 for line in text.split(LF, above)[:above])
    return start + at - (plain.rfind(LF, 0, at) + 1)


def _nowhere_error(text: str, find: str, above: int, where: str) -> PatchError:
    near = find_near_miss(text, find)
    said = f" Line {above + near.line} {near.differs}." if near else ""
    error = PatchError(
        f"`find` is nowhere in the {where}.{said}",
        details={"found": 0, "line_numbers": []}
        | ({"nearest_line": above + near.line, "nearest_text": near.text} if near else {}),
        resolution_hint="Give the exact text, with its blanks and line ends, as `get` returns it.",
    )
    error.tells_text = True
    return error


def _not_once_error(count: int, lines: Sequence[int], where: str) -> PatchError:
    named = ", ".join(map(str, lines)) + (f" and {count - _NAMED} more" if count > _NAMED else "")
    at_least = "at least " * (count > _MOST_PLACES)
    error = PatchError(
        f"`find` is in the {where} {at_least}{count} times, from lines {named}.",
        details={"found": count, "line_numbers": list(lines)},
        resolution_hint="Give more of the text around the one place, or use `text_patch`.",
    )
    error.tells_text = True
    return error


def _places(text: str, find: str) -> list[int]:
    """Return where ``find`` begins, places that overlap included; one more than ``_MOST_PLACES`` at most."""
    if not find:
        raise PatchError("`find` is empty.", resolution_hint="Give the text to be replaced.")
    places: list[int] = []
    start = text.find(find)
    while start >= 0 and len(places) <= _MOST_PLACES:
        places.append(start)
        start = text.find(find, start + 1)
    return places


def _with_ends(value: str, newline: str) -> str:
    return value.replace(CRLF, LF).replace(LF, newline)


def _check_line(operation: Operation, *, last: int, total: int) -> None:
    if not 1 <= operation.line <= last:
        raise PatchError(
            f"The {operation.kind} at line {operation.line} is outside the note, "
            f"which has {total} lines.",
            details={"line_number": operation.line, "total_lines": total},
            resolution_hint=f"Line numbers are those of the note as it is now, 1 to {total}; "
            f"an addition at line {total + 1} appends."
            if total
            else "The note is empty; an addition at line 1 is its first line.",
        )


def _contents(operation: Operation) -> list[str]:
    """Return the lines of the value without their ends; at least one."""
    if operation.value is None:
        raise PatchError(
            f"The {operation.kind} at line {operation.line} has no value.",
            details={"line_number": operation.line},
            resolution_hint="Give the new line or lines as `value`; an empty line is an empty one.",
        )
    return [content_of(line) for line in split_lines(operation.value)] or [""]


def _replace_lines(
    lines: list[str],
    added: Mapping[int, list[str]],
    replaced: Mapping[int, list[str]],
    *,
    newline: str,
) -> list[str]:
    """Return the new lines; those that were the text's last may still lack an end."""
    patched: list[str] = []
    at = 1
    for number in sorted({*added, *replaced} - {len(lines) + 1}):
        patched += lines[at - 1 : number - 1]
        patched += [with_end(content, newline) for content in added.get(number, ())]
        end, at = end_of(lines[number - 1]) or newline, number
        if (contents := replaced.get(number)) is not None:
            patched += [with_end(content, end) for content in contents]
            at += 1
    patched += lines[at - 1 :]
    appended = added.get(len(lines) + 1, ())
    if appended and patched and not end_of(patched[-1]):
        patched[-1] = with_end(patched[-1], newline)
    return patched + [with_end(content, newline) for content in appended]


def _join(lines: list[str], *, final_end: bool) -> str:
    if lines and not final_end:
        lines[-1] = content_of(lines[-1]) or lines[-1]
    return "".join(lines)


@dataclass(frozen=True, slots=True)
class NearMiss:
    """Hold the line that says nearly what was looked for."""

    line: int
    """Its number, from 1."""
    text: str
    differs: str
    """First character that differs, in words."""


def find_near_miss(text: str, wanted: str) -> NearMiss | None:
    """Return where ``text`` nearly says ``wanted``, or None. It does not say it exactly."""
    if len(text) > _LONGEST:
        return None
    text, wanted = text.replace("\r\n", "\n"), wanted.replace("\r\n", "\n")
    folded, sought = text.translate(_ALIKE), wanted.translate(_ALIKE)
    start = folded.find(sought)
    if start < 0 and len(folded.lower()) == len(folded):
        start = folded.lower().find(sought.lower())
    fits = start >= 0 and text[start : start + len(wanted)] != wanted
    return _told(text, wanted, start) if fits else _nearest(text, wanted)


def _told(text: str, wanted: str, start: int) -> NearMiss:
    there = text[start : start + len(wanted)]
    differs, at = _differ(there, wanted)
    return NearMiss(text.count("\n", 0, start + at) + 1, _line_at(text, start + at), differs)


def _differ(there: str, wanted: str) -> tuple[str, int]:
    """Return which character differs first, and its place."""
    pairs = enumerate(zip(there, wanted, strict=False))
    at = next((n for n, (one, other) in pairs if one != other), min(len(there), len(wanted)))
    one, other = (_name(text[at]) if at < len(text) else "nothing" for text in (there, wanted))
    return f"has {one} where `find` has {other}", at


def _nearest(text: str, wanted: str) -> NearMiss | None:
    """Return the line that is most like the first one that was looked for."""
    first = next((line.strip() for line in wanted.split("\n") if line.strip()), "")
    if not first or len(first) > _MOST_CHARACTERS:
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(first)

    def likeness(line: str, *, exactly: bool = False) -> float:
        matcher.set_seq1(line.strip()[:_MOST_CHARACTERS])
        if exactly:
            return matcher.ratio()
        return matcher.quick_ratio() if matcher.real_quick_ratio() >= _LIKE else 0.0

    lines = _numbered(text)
    rough = heapq.nlargest(_COMPARED, lines, key=lambda one: likeness(one[1]))
    number, line = max(rough, key=lambda one: likeness(one[1], exactly=True))
    if likeness(line, exactly=True) < _LIKE:
        return _nearest_part(text[: _PAIRS // len(first)], first)
    stripped = line.strip()[:_MOST_CHARACTERS]
    differs = _SAME if stripped == first else _differ(stripped, first)[0]
    return NearMiss(number, line[:_MOST_CHARACTERS], differs)


def _nearest_part(text: str, wanted: str) -> NearMiss | None:
    """Return the line that has a part which is most like ``wanted``, however long the line is."""
    if len(wanted) < _SHORTEST_PART:
        return None
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    best: tuple[float, int, str, int] = (_PART_LIKE, 0, "", 0)
    for number, line in _numbered(text):
        matcher.set_seq1(line)
        same = matcher.find_longest_match()
        if same.size * _COMPARED < len(wanted):
            continue
        begin = max(0, same.a - same.b)
        matcher.set_seq1(line[begin : begin + len(wanted)])
        best = max(best, (matcher.ratio(), number, line, begin), key=lambda one: one[0])
    _, number, line, begin = best
    if not number:
        return None
    return NearMiss(number, _line_at(line, begin), _differ_in(line, wanted, begin))


def _differ_in(line: str, wanted: str, begin: int) -> str:
    """Return which character differs first between ``wanted`` and the part of the line near ``begin``."""
    slack = len(wanted) // 4 + 1
    start = max(0, begin - slack)
    part = line[start : begin + len(wanted) + slack]
    matcher = SequenceMatcher(None, part, wanted, autojunk=False)
    changes = [one for one in matcher.get_opcodes() if one[0] != "equal"]
    outside = ("delete", 0), ("delete", len(wanted))
    inside = [one for one in changes if (one[0], one[3]) not in outside]
    if not inside:
        return _SAME
    _, there, there_end, here, here_end = inside[0]
    if not here:  # of what stands before, as much as is wanted
        there = max(there, there_end - here_end)
    return _differ(part[there:], wanted[here:])[0]


def _numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.split("\n", _MOST_LINES)[:_MOST_LINES], start=1))


def _line_at(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    line = text[start : len(text) if end < 0 else end]
    begin = max(0, place - start - _MOST_CHARACTERS // 2)
    return line[begin : begin + _MOST_CHARACTERS]


def _name(character: str) -> str:
    if character == "\n":
        return "a line end"
    if character == "\t":
        return "a tab"
    name = unicodedata.name(character, "").lower()
    code = f"U+{ord(character):04X}"
    return f"{name} ({code})" if name else code
