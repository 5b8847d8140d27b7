"""Check the pages against the sources and the tests.

``python scripts/documents.py`` exits with 1 and prints every row of the threat model, the promises and
the table of compliance without an existing test, every link and path without a target, and every unknown
verdict and variable. It cannot tell whether a test proves its row: people must read that.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "scripts"))

import generated_pages  # noqa: E402 - a script beside this one

TEST = re.compile(r"`(tests/[\w./-]+\.py)::([\w:]+)`")
_PATH = re.compile(r"`((?:tests|docs|src|scripts|\.github)/[^`\s]*)`")
_MODULE = re.compile(r"`([a-z_]+/[\w/]+\.py)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_VARIABLE = re.compile(
    r"\b((?:NOTARIUM|DB|SIMPLENOTE|SIMPERIUM|TRILIUM|SYNC|API|LOG)_[A-Z][A-Z_]*[A-Z])\b"
)
_VERDICT = re.compile(r"`([a-z]+(?:_[a-z]+)+)`[^.;|`]{0,20}exit code (\d+)")
_CODES = {"0", "1", "2", "3", "130"}

OTHERS = {
    "DB_OPERATION",
    "NOTARIUM_AUDIT",
    "NOTARIUM_LONG_TESTS",
    "NOTARIUM_TEST_MEANING_MODEL",
    "NOTARIUM_TEST_PART",
    "NOTARIUM_TEST_SEED",
    "NOTARIUM_TEST_JOBS",
    "NOTARIUM_TEST_TRILIUM_TOKEN",
    "NOTARIUM_TEST_TRILIUM_URL",
}
"""Names that look like settings: a kind of error, and variables of the scripts and tests."""

ARCHITECTURE = "docs/architecture.md"
MODEL, POLICY = "threat-model.md", "SECURITY.md"
_STATES = {"met", "partly", "not", "document"}
_RISK = re.compile(r"(low|medium|high) / (low|medium|high)")


@dataclass(frozen=True)
class Row:
    """Hold one row of a table: file, line, heading, and cells by column."""

    file: str
    line: int
    heading: str
    cells: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def tests(self) -> list[tuple[str, str]]:
        """Return path and name of every test in the row."""
        return TEST.findall(" ".join(self.cells.values()))


def rows(file: str, text: str) -> Iterator[Row]:
    """Yield every row of every table. A row with too few or too many cells has the cell ``?``."""
    heading, head = "", None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            heading = line.lstrip("#").strip()
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if head is None:
            head = cells
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            wrong = {} if len(cells) == len(head) else {"?": str(len(cells))}
            yield Row(file, number, heading, dict(zip(head, cells, strict=False)) | wrong)


@cache
def functions(path: Path) -> frozenset[str]:
    """Return the tests of a file, those of classes as ``Class::test``; empty for a missing file."""
    if not path.is_file():
        return frozenset()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        before = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for one in inner:
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(before + one.name)
    return frozenset(name for name in found if name.split("::")[-1].startswith("test_"))


def without_test(found: Iterable[Row], top: Path = TOP) -> Iterator[str]:
    """Yield rows that name no test, and tests that do not exist."""
    for row in found:
        named = row.tests()
        if not named:
            yield f"{row}: no test"
        for path, name in named:
            if name not in functions(top / path):
                yield f"{row}: there is no {path}::{name}"


def model(text: str, top: Path = TOP) -> list[str]:
    """Return the faults of the threat model."""
    everything = list(rows(MODEL, text))
    threats = [row for row in everything if "threat" in row.cells]
    boundaries = {row.cells["boundary"] for row in everything if "boundary" in row.cells}
    wrong = [*without_test(threats, top), *_twice(threats, "id")]
    wrong += [
        f"{MODEL}: no rows under {kind}"
        for kind in ("STRIDE", "LINDDUN")
        if not any(kind in row.heading for row in threats)
    ]
    for row in threats:
        if missing := [name for name, cell in row.cells.items() if not cell or name == "?"]:
            wrong.append(f"{row}: nothing in {', '.join(missing)}")
        if not _RISK.fullmatch(row.cells.get("risk", "")):
            wrong.append(f"{row}: likelihood and impact are not given")
        wrong += [
            f"{row}: nobody is the owner"
            for owner in row.cells.get("owner", "").split(", ")
            if owner != "release" and not (top / "src" / "mcp_notarium" / owner).is_dir()
        ]
        named = set(re.findall(r"TB\d+", row.cells.get("where", "")))
        if not named or named - boundaries:
            wrong.append(f"{row}: no boundary, or one that is not listed")
    return wrong


def promises(text: str, tested: str, top: Path = TOP) -> list[str]:
    """Return the faults of the promises and verdicts of SECURITY.md, and of their tests in ``tested``."""
    everything = list(rows(POLICY, text))
    promised = [row for row in everything if "protected" in row.cells]
    shown = [row for row in rows(MODEL, tested) if "promise" in row.cells]
    if not promised:
        return [f"{POLICY}: no table of promises"]
    wrong = [*_twice(promised, "id"), *_twice(shown, "promise"), *without_test(shown, top)]
    ids, named = (
        {row.cells[key]: row for row in found}
        for found, key in ((promised, "id"), (shown, "promise"))
    )
    wrong += [f"{ids[one]}: {MODEL} names no test of {one}" for one in sorted(ids.keys() - named)]
    wrong += [f"{named[one]}: {POLICY} has no {one}" for one in sorted(named.keys() - ids)]
    return [*wrong, *_of_verdicts(everything)]


def _of_verdicts(everything: list[Row]) -> Iterator[str]:
    from mcp_notarium.errors import Verdict  # noqa: PLC0415 - only where it is installed

    named = [row.cells for row in everything if {"code", "verdict"} <= row.cells.keys()]
    told = Counter((cells["code"], cells["verdict"].strip("`")) for cells in named)
    known = Counter((str(int(one)), one.name.lower()) for one in Verdict)
    for code, name in ((known - told) + (told - known)).elements():
        yield f"{POLICY}: exit code {code} and verdict {name} are not those of the program"


def compliance(text: str, top: Path = TOP) -> list[str]:
    """Return the faults of the table of requirements."""
    asked = [row for row in rows(POLICY, text) if "requirement" in row.cells]
    if not asked:
        return [f"{POLICY}: no requirements"]
    wrong = _twice(asked, "requirement")
    for row in asked:
        state, evidence = row.cells.get("state", ""), row.cells.get("evidence", "")
        if state not in _STATES or "?" in row.cells or not evidence:
            wrong.append(f"{row}: state or evidence is missing")
        elif state == "document" and not _LINK.search(evidence):
            wrong.append(f"{row}: no document")
        elif state in {"met", "partly"}:
            wrong += without_test([row], top)
    return wrong


def _twice(found: Iterable[Row], column: str) -> list[str]:
    count = Counter(row.cells.get(column, "") for row in found)
    return [
        f"{column} {name!r} stands there {many} times" for name, many in count.items() if many > 1
    ]


def broken_links(file: str, text: str, top: Path = TOP) -> Iterator[str]:
    """Yield links and paths without a target."""
    folder = (top / file).parent
    for link in _LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = folder / path if path else top / file
        if not target.exists():
            yield f"{file}: {link} leads nowhere"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{file}: {link} names no heading"
    for path in _PATH.findall(text):
        pattern = path.split("::")[0].rstrip("/")
        if not any(top.glob(pattern)):
            yield f"{file}: there is no {path}"
    package = top / "src" / "mcp_notarium"
    for module in _MODULE.findall(text):
        first = module.split("/")[0]
        if (package / first).is_dir() and not (package / module).is_file():
            yield f"{file}: there is no module {module}"


def missing_packages(text: str, top: Path = TOP) -> list[str]:
    """Return the packages that the page about the architecture does not name."""
    package = top / "src" / "mcp_notarium"
    found = {path.parent.name for path in package.glob("*/__init__.py")}
    return [f"{ARCHITECTURE}: no {one}" for one in sorted(found) if f'{one}["{one}' not in text]


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def unknown_names(file: str, text: str, known: set[str]) -> Iterator[str]:
    """Yield unknown variables, and verdicts with the wrong exit code."""
    from mcp_notarium.errors import Verdict  # noqa: PLC0415 - only where it is installed

    for name in sorted(set(_VARIABLE.findall(text)) - known - OTHERS):
        yield f"{file}: the program knows no {name}"
    codes = {one.name.lower(): str(int(one)) for one in Verdict}
    for name, code in _VERDICT.findall(text):
        if code not in _CODES and codes.get(name) != code:
            yield f"{file}: {name} has not the exit code {code}"


def variables() -> set[str]:
    """Return the names of all settings."""
    from mcp_notarium.config.common_variables import known_variables  # noqa: PLC0415 - see above

    found = {one.name for one in known_variables()}
    return found | {one.file_name for one in known_variables() if one.has_file}


def undocumented(text: str, known: set[str]) -> list[str]:
    """Return the settings that docs/configuration.md does not name."""
    return [
        f"docs/configuration.md: no {name}" for name in sorted(known) if f"`{name}`" not in text
    ]


def pages(top: Path = TOP) -> list[str]:
    """Return all pages of the project."""
    return sorted(
        str(one.relative_to(top)) for one in (*top.glob("*.md"), *top.glob("docs/**/*.md"))
    )


def find_faults(top: Path = TOP) -> list[str]:
    """Return all faults."""
    known, wrong = variables(), []
    of_page: Mapping[str, Callable[[str, Path], list[str]]]
    tested = (top / MODEL).read_text(encoding="utf-8")
    of_page = {
        MODEL: model,
        POLICY: lambda text, top: [*promises(text, tested, top), *compliance(text, top)],
    }
    for file in pages(top):
        text = (top / file).read_text(encoding="utf-8")
        wrong += [*broken_links(file, text, top), *unknown_names(file, text, known)]
        if file in of_page:
            wrong += of_page[file](text, top)
    wrong += generated_pages.faults(top)
    missing = set(of_page) - set(pages(top))
    page = (top / "docs" / "configuration.md").read_text(encoding="utf-8")
    wrong += missing_packages((top / ARCHITECTURE).read_text(encoding="utf-8"), top)
    return wrong + [f"{file} is missing" for file in sorted(missing)] + undocumented(page, known)


def main() -> int:
    """Print the faults; return 1 if there are any."""
    found = find_faults()
    for one in found:
        sys.stderr.write(f"{one}\n")
    if not found:
        sys.stdout.write("documents: every row has its test, every link has its target\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
