"""Hold a question for a person, with what its answer is about: the notes before and after.

The phrasing of a question says whether what is agreed to can be taken back. What would change is read only where the answer
does not come at once (``protocol/elicitation.py``), for it may be of thousands of notes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mcp_notarium.domain.diff import find_changes
from mcp_notarium.domain.lines import longest, split_lines

if TYPE_CHECKING:
    from mcp_notarium.domain.note import Content, Note

CONTEXT: Final = 2
"""Unchanged lines that are shown around a change."""
MOST_CHARACTERS: Final = 400_000
"""Characters of all that is shown of a change."""
LONGEST_FIELD: Final = 500
"""Characters that are shown of a field in the store's own form."""
_AROUND: Final = 40
"""Characters of a field that are shown before and behind what differs."""
_LINE: Final = 40
"""Characters that a line counts for at least: a screen takes its time for each."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Hold one thing that is asked."""

    text: str
    irreversible: bool = False
    """No history has what it takes away, or others may have read it."""
    about: str = ""
    """A digest of what it is about and does not say; an answer is for that alone."""


@dataclass(frozen=True, slots=True)
class NoteChange:
    """Hold a note and what it becomes."""

    note: Note | None
    """None: a new one."""
    content: Content | None
    """None: it is removed."""


async def no_changes() -> AsyncIterator[NoteChange]:
    """Yield nothing: no note is changed."""
    nothing: tuple[NoteChange, ...] = ()
    for change in nothing:
        yield change


@dataclass(frozen=True, slots=True)
class Question:
    """Hold what a person is asked about one call, at once."""

    asks: tuple[Ask, ...]
    note_id: str = ""
    """The note that it is about; '' if it is not about one note."""
    changes: Callable[[], AsyncIterator[NoteChange]] = no_changes

    @property
    def text(self) -> str:
        """Return the whole question."""
        return " ".join(ask.text for ask in self.asks)

    @property
    def irreversible(self) -> bool:
        """Tell whether anything of it can never be taken back."""
        return any(ask.irreversible for ask in self.asks)


Form = Mapping[str, Any]
"""Note in the store's own form, by its own names."""
Forms = Callable[["Note | None", "Content | None"], Awaitable[tuple[Form, Form]]]
"""Read what a change replaces in the store's own form, and what it becomes there: ``Library.find_forms``."""


@dataclass(frozen=True, slots=True)
class ShownChanges:
    """Hold what would change."""

    diff: str
    """As lines."""
    digest: str
    """Of the notes before and after."""


async def show_changes(
    question: Question, find_forms: Forms, *, as_lines: bool = True
) -> ShownChanges:
    """Return what the question would change; beyond the limit only how much more. Raises what ``find_forms`` raises.

    ``as_lines`` False: only what an answer is bound to.
    """
    digest, lines, left, unseen = hashlib.sha256(), [], MOST_CHARACTERS, 0
    async for change in question.changes():
        forms = await find_forms(change.note, change.content)
        digest.update(_state_of(change, forms))
        for line in change_lines(change, forms) if as_lines else ():
            left -= max(len(line) + 1, _LINE)
            if left >= 0:
                lines.append(line)
            else:
                unseen += 1
    if unseen:
        lines.append(f"… and {unseen:,} more lines that are not shown")
    return ShownChanges("\n".join(lines), digest.hexdigest())


def _state_of(change: NoteChange, forms: tuple[Form, Form]) -> bytes:
    """Return what an answer is bound to: the version of the note, what it becomes, and both in the store's own form.

    Of a new note the arguments of the call say it, apart from a template that may name the time.
    """
    note, content = change.note, change.content
    before = note and (note.id, note.local_version, note.server_version, _fields(note.content))
    after = content and (_fields(content) if note else ())
    # defence: approval-bound-to-the-own-form =()
    said = forms if note else ()
    return repr((before, after, said)).encode("utf-8", "surrogatepass")


def _fields(content: Content) -> tuple[object, ...]:
    return (
        *(content.text, content.tags, content.trash, content.title),
        *(content.properties.json, content.native),
    )


def change_lines(change: NoteChange, forms: tuple[Form, Form]) -> Iterator[str]:
    """Yield a change as lines. Those of a note begin with ``+``, ``-`` or a space; no others do, so none can look like ours."""
    note, content = change.note, change.content
    old, new = note.content if note else None, content
    what = "removed for good" if new is None else "changed" if note else "made"
    yield f"@@ {f'note {_one_line(note.id)}' if note else 'a new note'}, {what} @@"
    for name, read in _PARTS.items():
        before, after = ("" if one is None else _one_line(read(one)) for one in (old, new))
        if before != after:
            yield f"@@ {name} @@"
            yield from (f"-{before}",) if before else ()
            yield from (f"+{after}",) if after else ()
    texts = (old.text if old else "", new.text if new else "")
    yield from _form_lines(*forms, besides=texts)
    yield from _text_lines(*texts)


_PARTS: Final[Mapping[str, Callable[[Content], str]]] = MappingProxyType(
    {
        "title": lambda one: one.title or "",
        "tags": lambda one: ", ".join(one.tags),
        "trash": lambda one: "in the trash" if one.trash else "",
        "properties": lambda one: one.properties.json if one.properties else "",
    }
)


def _form_lines(before: Form, after: Form, *, besides: tuple[str, str]) -> Iterator[str]:
    """Yield what differs in the store's own form, a field a line; of long ones the part that differs. ``besides``: shown elsewhere."""
    told = False
    for name in dict.fromkeys((*before, *after)):
        values = (before.get(name), after.get(name))
        if values[0] == values[1] or values == besides:
            continue
        if not told:
            yield "@@ in the store's own form @@"
            told = True
        texts = [_broken(one) if isinstance(one, str) else "" for one in values]
        if any("\n" in text for text in texts):
            yield f"@@ {name} @@"
            yield from _text_lines(*texts)
            continue
        shown = _differing(*(json.dumps(one, ensure_ascii=False) for one in values))
        for sign, form, text in zip("-+", (before, after), shown, strict=True):
            yield from (_one_line(f"{sign}{name}: {text}"),) if name in form else ()


def _broken(text: str) -> str:
    """Return HTML with an element a line, for all of a note may stand on one."""
    return text.replace("><", ">\n<") if text.startswith("<") else text


def _differing(*values: str) -> list[str]:
    """Return texts without what many of their characters begin and end with alike, and cut."""
    one, other = values
    head = longest(lambda size: one.startswith(other[:size]), min(len(one), len(other)))
    most = min(len(one), len(other)) - head
    tail = longest(lambda size: one.endswith(other[len(other) - size :]), most)
    head, tail = max(0, head - _AROUND), max(0, tail - _AROUND)
    shown = []
    for text in values:
        part = text[head : len(text) - tail]
        more = len(part) - LONGEST_FIELD
        rest = f" … and {more:,} more characters" if more > 0 else "…" if tail else ""
        shown.append(f"{'…' if head else ''}{part[:LONGEST_FIELD]}{rest}")
    return shown


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _text_lines(before: str, after: str) -> Iterator[str]:
    """Yield the changed lines of a text, each change with a few lines around it."""
    old, new = split_lines(before), split_lines(after)
    changes = find_changes(old, new)
    shown = 0
    for number, change in enumerate(changes):
        start = max(shown, change.low - CONTEXT)
        if start > shown or not number:
            yield f"@@ line {start + 1} @@"
        yield from _marked(" ", old[start : change.low])
        yield from _marked("-", old[change.low : change.high])
        yield from _marked("+", new[change.start : change.stop])
        following = changes[number + 1].low if number + 1 < len(changes) else len(old)
        shown = min(following, change.high + CONTEXT)
        yield from _marked(" ", old[change.high : shown])


def _marked(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.rstrip("\r\n")
