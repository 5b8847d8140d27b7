"""Find the defences: a marker at a line of the source, or an entry of ``custom``, and its tests in ``defences.txt``.

A marker is ``# defence: NAME`` or ``# defence: NAME WORD`` behind the code of a line, or on a line of its own above it.
``mutations`` says what its word means.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from undefended.custom import CUSTOM
from undefended.mutations import Unfit, change, require_change

TOP = Path(__file__).resolve().parents[2]
PACKAGE = "src/mcp_notarium"
TABLE = Path(__file__).with_name("defences.txt")
LONGEST_MARKER = 45
MOST_CUSTOM = 25

_MARKER = re.compile(r"# defence: (?P<name>[a-z0-9-]+)(?: (?P<word>\S+))?$")
_MARKERS = re.compile(r"^ *# defence: .*\n|  # defence: .*$", re.MULTILINE)
_ROW = re.compile(r"(?P<name>[a-z0-9-]+)(?: \[(?P<numbers>[\d ]+)\])?: (?P<tests>\S.*)")


@dataclass(frozen=True, slots=True)
class Marker:
    """A marker: the file below the package, the line of code that it is about, and its word."""

    name: str
    file: str
    line: int
    word: str = ""

    def taken_out(self, text: str) -> str:
        """Return the file's text without the defence. Raises :class:`Unfit`."""
        return change(text, self.line, self.word)

    def require_fit(self, text: str) -> None:
        """Raise :class:`Unfit` unless the file's text has what the word changes."""
        require_change(text, self.line, self.word)


@dataclass(frozen=True, slots=True)
class Custom:
    """A defence without a marker: ``old`` stands once in the file, ``new`` is the text without the defence."""

    name: str
    file: str
    old: str
    new: str

    def taken_out(self, text: str) -> str:
        """Return the file's text without the defence, and without markers. Raises :class:`Unfit`."""
        bare = _MARKERS.sub("", text)
        if (found := bare.count(self.old)) != 1:
            raise Unfit(f"its text stands {found} times")
        return bare.replace(self.old, self.new)

    def require_fit(self, text: str) -> None:
        """Raise :class:`Unfit` unless the file's text has it once."""
        self.taken_out(text)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    ``tests`` are ``path::name`` below ``tests/``; each has to fail in at least one of its cases.
    ``numbers`` are those in ``docs/adversarial-tests.md`` that the defence answers.
    """

    name: str
    tests: tuple[str, ...]
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Defence:
    """A defence: where it stands, and the row of its tests."""

    place: Marker | Custom
    row: Row

    @property
    def name(self) -> str:
        """The name of the marker and of the row."""
        return self.row.name


def find_markers(top: Path = TOP) -> Iterator[Marker]:
    """Yield the markers of the package."""
    package = top / PACKAGE
    for file in sorted(package.rglob("*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if found := _MARKER.search(line):
                own = line.lstrip().startswith("#")
                about = _next_code(lines, number) if own else number
                name = file.relative_to(package).as_posix()
                yield Marker(found["name"], name, about, found["word"] or "")


def _next_code(lines: list[str], number: int) -> int:
    """Return the first line behind a line of its own that has code."""
    while number < len(lines) and lines[number].lstrip()[:1] in {"", "#"}:
        number += 1
    return number + 1


def read_table(table: str) -> list[Row]:
    """Return the rows of a table; lines with ``#`` are headings. Raises ``ValueError``."""
    rows = []
    for line in table.splitlines():
        if line.startswith("#") or not line:
            continue
        found = _ROW.fullmatch(line)
        if found is None:
            raise ValueError(f"not a row: {line}")
        numbers = tuple(map(int, (found["numbers"] or "").split()))
        rows.append(Row(found["name"], tuple(found["tests"].split()), numbers))
    return rows


def places(top: Path = TOP) -> list[Marker | Custom]:
    """Return where the defences stand."""
    return [*find_markers(top), *(Custom(name, *rest) for name, rest in CUSTOM.items())]


def defences(top: Path = TOP) -> tuple[Defence, ...]:
    """Return the defences that have a place and a row, in the order of the table."""
    by_name = {place.name: place for place in places(top)}
    rows = read_table(TABLE.read_text(encoding="utf-8"))
    return tuple(Defence(by_name[row.name], row) for row in rows if row.name in by_name)


def faults(there: list[Marker | Custom], rows: list[Row], top: Path = TOP) -> list[str]:
    """Return what is wrong: names without a place or row, or with two; changes and tests that do not fit."""
    named, listed = [one.name for one in there], [row.name for row in rows]
    found = [f"{name}: two places" for name in _repeated(named)]
    found += [f"{name}: two rows" for name in _repeated(listed)]
    found += [f"{name}: no row in {TABLE.name}" for name in sorted({*named} - {*listed})]
    found += [f"{name}: no marker" for name in sorted({*listed} - {*named})]
    for one in there:
        try:
            one.require_fit((top / PACKAGE / one.file).read_text(encoding="utf-8"))
        except (Unfit, OSError) as error:
            found.append(f"{one.name}: {one.file}: {error}")
        if (
            isinstance(one, Marker)
            and len(f"# defence: {one.name} {one.word}".strip()) > LONGEST_MARKER
        ):
            found.append(f"{one.name}: longer than {LONGEST_MARKER} characters")
    found += [
        f"{row.name}: no test {test}" for row in rows for test in row.tests if not exists(test, top)
    ]
    return found


@functools.cache
def names_of(path: Path) -> frozenset[str]:
    """Return the test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.name.startswith("test_")
    )


def exists(test: str, top: Path = TOP) -> bool:
    """Return whether ``path::name`` below ``tests/`` is a test function.

    One of a class, ``path::Class::name``, may be inherited from a module beside it.
    """
    path, _, node = test.partition("::")
    owner, _, name = node.rpartition("::")
    file = top / "tests" / path
    if not file.is_file():
        return False
    sources = file.parent.glob("*.py") if owner else [file]
    return any(name in names_of(source) for source in sources)


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
