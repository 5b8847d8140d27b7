"""Define a defence: the change that removes it, and the tests that must fail."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PACKAGE = "src/mcp_notarium"


@dataclass(frozen=True, slots=True)
class Defence:
    """``old`` stands exactly once in ``file`` (below the package); ``new`` is the code without it.

    ``tests`` are ``path::name`` below ``tests/``; each has to fail in at least one of its cases.
    ``items`` are the numbers in ``docs/adversarial-tests.md`` that the defence answers.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    items: tuple[int, ...] = ()

    def taken_out(self, text: str) -> str:
        """The file's text without the defence. Raises :class:`Stale`."""
        found = text.count(self.old)
        if found != 1:
            raise Stale(f"its text stands {found} times in {self.file}")
        return text.replace(self.old, self.new)


class Stale(Exception):
    """The source has changed and the entry has not."""


@functools.cache
def names_of(path: Path) -> frozenset[str]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.name.startswith("test_")
    )


def faults(defences: tuple[Defence, ...], top: Path = TOP) -> list[str]:
    """What is stale: entries whose text does not stand once, tests that do not exist, equal names."""
    found = [f"{name}: two entries" for name in _repeated([one.name for one in defences])]
    for one in defences:
        try:
            one.taken_out((top / PACKAGE / one.file).read_text(encoding="utf-8"))
        except (Stale, OSError) as error:
            found.append(f"{one.name}: {error}")
        found += [f"{one.name}: no test {test}" for test in one.tests if not exists(test, top)]
        if not one.tests:
            found.append(f"{one.name}: no test")
    return found


def exists(test: str, top: Path = TOP) -> bool:
    """Whether ``path::name`` below ``tests/`` is a test function.

    One of a class, ``path::Class::name``, may be inherited from a module beside it.
    """
    path, _, node = test.partition("::")
    owner, _, name = node.rpartition("::")
    file = top / "tests" / path
    if not file.is_file():
        return False
    places = file.parent.glob("*.py") if owner else [file]
    return any(name in names_of(place) for place in places)


def _repeated(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
