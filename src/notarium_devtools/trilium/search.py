"""Answer searches of a simulated Trilium server: the part of its language that tests ask in.

As on a real server a query that cannot be understood finds everything or nothing, with status 200; and a
cycle cut off from the root makes every search fail.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

from notarium_devtools.trilium.document import HIDDEN, Document
from notarium_devtools.trilium.records import Note, utc_date

_TOKEN = re.compile(r'"((?:\\.|[^"\\])*)"|\'([^\']*)\'|(\S+)')
_COMPARISON = re.compile(
    r'^note\.([\w.]+)\s*(!=|>=|<=|\*=\*|=\*|\*=|%=|=|>|<)\s*("[^"]*"|\'[^\']*\'|\S+)(.*)$'
)
_LABEL = re.compile(r'^#(!?)([\w:]+)(?:\s*=\s*(?:"([^"]*)"|(\S*)))?\s*$')
_RELATIVE = re.compile(r"^(TODAY|NOW|MONTH|YEAR)([+-]\d+)?$")
_SECONDS = {"NOW": 1, "TODAY": 86_400, "MONTH": 86_400 * 31, "YEAR": 86_400 * 366}
Test = Callable[[Note], bool]


class Search:
    """Search one document as one version does. ``words``: ``=`` on properties means "has the word"."""

    def __init__(self, document: Document, *, words: bool) -> None:
        self._document = document
        self._words = words

    def find(self, query: str, *, fast: bool, archived: bool, below: str | None) -> list[Note]:
        """Return the notes that match. Raises ``RecursionError`` as the server overflows its stack."""
        document = self._document
        for note_id in document.notes:
            document.below_root(note_id)  # raises for a cycle
        test = self._test_of(query.strip(), fast=fast)
        found = [note for note in document.visible_notes() if test(note)]
        if not re.search(r"=\s*_hidden", query):
            found = [note for note in found if note.id != HIDDEN]
        if not archived:
            found = [note for note in found if not self._is_archived(note)]
        return found if below is None else [one for one in found if self._is_below(one.id, below)]

    def _is_archived(self, note: Note) -> bool:
        return any(one.name == "archived" for one in self._document.effective(note.id))

    def _is_below(self, note_id: str, ancestor: str) -> bool:
        if note_id == ancestor:
            return True
        return any(self._is_below(b.parent_id, ancestor) for b in self._document.parents(note_id))

    def _above(self, note_id: str) -> Iterator[str]:
        for branch in self._document.parents(note_id):
            yield branch.parent_id
            yield from self._above(branch.parent_id)

    def _test_of(self, query: str, *, fast: bool) -> Test:
        begins = re.search(
            r"(?<!\\)(?:#|~|note\.)", re.sub(r'"[^"]*"', lambda q: " " * len(q[0]), query)
        )
        if begins is None:
            return self._full_text(query, fast=fast)
        words, expression = query[: begins.start()].strip(), query[begins.start() :]
        test = self._expression(expression)
        if not words:
            return test
        text = self._full_text(words, fast=fast)
        return lambda note: text(note) and test(note)

    def _full_text(self, query: str, *, fast: bool) -> Test:
        tokens = [
            fold(re.sub(r"\\(.)", r"\1", a or b or c).removeprefix("="))
            for a, b, c in _TOKEN.findall(query)
        ]

        def test(note: Note) -> bool:
            labels = " ".join(
                f"{one.name} {one.value}" for one in self._document.effective(note.id)
            )
            flat = fold(f"{note.id} {self._document.visible_title(note)} {labels}")
            if not fast and note.is_text and not note.protected:
                flat += " " + fold(re.sub(r"<[^>]*>", "", note.content.decode("utf-8", "replace")))
            return all(token in flat for token in tokens)

        return test

    def _expression(self, expression: str) -> Test:
        label = _LABEL.match(expression)
        if label is not None:
            wanted = label[3] or label[4]
            return lambda note: (
                bool(label[1])
                != any(
                    one.name.lower() == label[2].lower() and (not wanted or one.value == wanted)
                    for one in self._document.effective(note.id)
                    if one.type == "label"
                )
            )
        compared = _COMPARISON.match(expression)
        if compared is None:
            # What it cannot read: everything for a bare property, nothing for a bad label.
            return lambda _note: expression.startswith("note.")
        name, operator, value, rest = compared.groups()
        first = self._comparison(name.lower(), operator, value)
        rest = rest.strip()
        if not rest.startswith("and "):
            return first
        second = self._expression(rest.removeprefix("and "))
        return lambda note: first(note) and second(note)

    def _comparison(self, name: str, operator: str, value: str) -> Test:
        read = self._property(name)
        if read is None:
            return lambda _note: True
        relative = _RELATIVE.match(value)
        if relative:
            shift = int(relative[2] or 0) * _SECONDS[relative[1]]
            value = utc_date(self._document.clock() + shift)
        wanted = fold(value.strip("\"'"))
        compare: dict[str, Callable[[str], bool]] = {
            "=": lambda held: held == wanted or (self._words and f" {wanted} " in f" {held} "),
            "!=": lambda held: held != wanted,
            ">=": lambda held: held >= wanted,
            "<=": lambda held: held <= wanted,
            ">": lambda held: held > wanted,
            "<": lambda held: held < wanted,
            "=*": lambda held: held.startswith(wanted),
            "*=": lambda held: held.endswith(wanted),
            "*=*": lambda held: wanted in held,
            "%=": lambda held: re.search(wanted, held) is not None,
        }
        return lambda note: any(compare[operator](fold(held)) for held in read(note))

    def _property(self, name: str) -> Callable[[Note], list[str]] | None:
        document = self._document
        known: dict[str, Callable[[Note], list[str]]] = {
            "noteid": lambda note: [note.id],
            "title": lambda note: [document.visible_title(note)],
            "type": lambda note: [note.type],
            "mime": lambda note: [note.mime],
            "utcdatemodified": lambda note: [utc_date(note.changed)],
            "datemodified": lambda note: [utc_date(note.changed)],
            "utcdatecreated": lambda note: [utc_date(note.created)],
            "parents.noteid": lambda note: [b.parent_id for b in document.parents(note.id)],
            "ancestors.noteid": lambda note: [*self._above(note.id)],
            "text": lambda note: [note.content.decode("utf-8", "replace")],
            "content": lambda note: [note.content.decode("utf-8", "replace")],
        }
        return known.get(name)


def fold(text: str) -> str:
    """Return text in lower case, without diacritics."""
    split = unicodedata.normalize("NFKD", text.lower())
    return "".join(letter for letter in split if not unicodedata.combining(letter))
