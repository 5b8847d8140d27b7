r"""Apply a line patch to a text. All line numbers are those of the given text; the first line is 1.

Deletions are applied first, from high to low; then modifications; then additions, from low to high.
Every number refers to the given text, so the order of the operations in the list matters only for
several additions at one line. The edges:

* An addition at line n stands before line n; n = total + 1 appends. Several additions at one line
  keep their given order. At a line that is deleted or modified they stand before its place.
* A value may hold several lines. One line end at the very end of it is only its end: ``x`` and
  ``x\n`` are the same one line, ``""`` is one empty line. Additions and modifications need a value;
  that of a deletion is ignored.
* New lines get the note's own line end (the more frequent one, ``\n`` if both are equally frequent),
  whatever ends stand in the value. A modified line keeps its end. Other lines stay byte for byte.
* The result ends with a line end exactly if the text did. The one exception is a result whose last
  line is empty: without its end it would not be a line.
* Deleting every line gives the empty text.

Versions are not compared here; the caller makes sure that the numbers refer to this text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_notarium.domain.lines import LF, content_of, end_of, newline_of, split_lines, with_end
from mcp_notarium.errors import PatchError

Kind = Literal["addition", "modification", "deletion"]


@dataclass(frozen=True, slots=True)
class Operation:
    """Hold one step of a patch. Every kind but a deletion needs a ``value``."""

    kind: Kind
    line: int
    value: str | None = None


def apply_patch(text: str, operations: Sequence[Operation]) -> str:
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
    patched = _replace_lines(lines, added, replaced, newline=newline_of(text))
    return _join(patched, final_end=text.endswith(LF))


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
    for number, line in enumerate(lines, start=1):
        patched += [with_end(content, newline) for content in added.get(number, ())]
        if (contents := replaced.get(number)) is None:
            patched.append(line)
        else:
            patched += [with_end(content, end_of(line) or newline) for content in contents]
    appended = added.get(len(lines) + 1, ())
    if appended and patched and not end_of(patched[-1]):
        patched[-1] = with_end(patched[-1], newline)
    return patched + [with_end(content, newline) for content in appended]


def _join(lines: list[str], *, final_end: bool) -> str:
    if lines and not final_end:
        lines[-1] = content_of(lines[-1]) or lines[-1]
    return "".join(lines)
