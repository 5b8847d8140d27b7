"""Write the pages and columns that are made from other files.

``python scripts/generated_pages.py`` writes the index of decisions from their titles, the tests of each attack
in docs/adversarial-tests.md from the marks ``@pytest.mark.attack(NUMBER)``, the rules of docs/simulated-systems.md from
``tests/support/system_rules.py`` and the marks ``@pytest.mark.rule(NAME)``, the tables of docs/sync.md from those of the code, and
what docs/tools.md says of each tool from the tools.
``scripts/documents.py`` refuses a page that differs, and a rule that no test rests on.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mcp_notarium.sync.cycle_states import TRANSITIONS
from mcp_notarium.sync.pull_decisions import CHANGES
from mcp_notarium.sync.write_decisions import DECISIONS as WRITES
from mcp_notarium.tools import answers
from mcp_notarium.tools.catalog import INSTRUCTIONS, TOOLS, flat_schema
from mcp_notarium.tools.tool import Tool

TOP = Path(__file__).resolve().parents[1]
DECISIONS = "docs/decisions/README.md"
ATTACKS = "docs/adversarial-tests.md"
SYNC, TOOL_PAGE = "docs/sync.md", "docs/tools.md"
SYSTEMS, RULES = "docs/simulated-systems.md", "tests/support/system_rules.py"
_HEAD = "# Decisions\n\nOne page for each decision that cost an argument.\n\n"
_TYPES = {"integer": "whole number", "number": "number", "boolean": "true, false", "string": "text"}
_ROW = re.compile(r"\| (\d+) \|")


def index_of_decisions(top: Path = TOP) -> str:
    """Return a page with one line and link for each decision."""
    found = sorted((top / "docs/decisions").glob("[0-9]*.md"))
    return _HEAD + "".join(f"* [{one.stem[:4]}: {title(one)}]({one.name})\n" for one in found)


def title(page: Path) -> str:
    """Return the title of a decision without its number."""
    first = page.read_text(encoding="utf-8").splitlines()[0]
    return re.sub(r"^#\s*(\d+[.:]?\s*)?", "", first)


def adversarial_tests(text: str, top: Path = TOP) -> str:
    """Return the page with the last cell of each attack made from the marks of the tests."""
    marked = attack_tests(top)
    return "".join(_with_tests(line, marked) for line in text.splitlines(keepends=True))


def _with_tests(line: str, marked: dict[int, list[str]]) -> str:
    if not (row := _ROW.match(line)):
        return line
    cells = line.rstrip("\n").removesuffix(" |").split(" | ")
    named = ", ".join(f"`{one}`" for one in marked.get(int(row[1]), []))
    return f"{' | '.join([*cells[:3], named])} |\n"


def attack_tests(top: Path = TOP) -> dict[int, list[str]]:
    """Return the marked tests by number of the attack, in order of their names."""
    return {int(number): tests for number, tests in marked_tests("attack", top).items()}


def marked_tests(mark: str, top: Path = TOP) -> dict[str, list[str]]:
    """Return the tests with a mark by each of its arguments, in order of their names."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((top / "tests").rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if f"pytest.mark.{mark}(" in source:
            for name, argument in _marks(ast.parse(source).body, f"pytest.mark.{mark}"):
                found[argument].append(f"{path.relative_to(top).as_posix()}::{name}")
    return {argument: sorted({*names}) for argument, names in found.items()}


def _marks(body: list[ast.stmt], mark: str, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the tests and the arguments of their marks, those of single parameters too."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _marks(node.body, mark, f"{before}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for call in (part for one in node.decorator_list for part in ast.walk(one)):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == mark:
                    for argument in call.args:
                        yield before + node.name, str(ast.literal_eval(argument))


def rules_of_systems(top: Path = TOP) -> dict[str, tuple[str, str, str]]:
    """Return the rules of the simulated systems: name -> system, what it does, and the page that says so."""
    rules: dict[str, tuple[str, str, str]] = runpy.run_path(str(top / RULES))["RULES"]
    return rules


def rule_table(top: Path = TOP) -> str:
    """Return each rule of the simulated systems with its page and the tests that rest on it."""
    marked = marked_tests("rule", top)
    rows = [
        (
            system,
            words.replace("|", "\\|"),
            page,
            "<br>".join(f"`{one}`" for one in marked.get(name, [])),
        )
        for name, (system, words, page) in sorted(rules_of_systems(top).items(), key=_by_system)
    ]
    return _table(("system", "what it does", "page", "tests that rest on it"), rows)


def _by_system(rule: tuple[str, tuple[str, str, str]]) -> str:
    return rule[1][0]


def change_table() -> str:
    """Return what is decided about a note that a page or the change feed tells of."""
    rows = [
        (ours.value, theirs.value, move.value, why)
        for (ours, theirs), (move, why) in CHANGES.items()
    ]
    return _table(("here", "the store says", "action", "why"), rows)


def write_table() -> str:
    """Return what is decided about a write."""
    rows = [
        (
            str(row.kind or "create, update"),
            row.attempt.value,
            row.held.value,
            row.fact.value if row.fact else "",
            row.step.value,
            row.why,
        )
        for row in WRITES
    ]
    return _table(("write", "attempt", "the store holds", "if", "step", "why"), rows)


def state_diagram() -> str:
    """Return the states of a cycle as a diagram."""
    lines = ["stateDiagram-v2", "    [*] --> IDLE"]
    lines += [
        f"    {state.name} --> {then.name}: {event.value}"
        for (state, event), then in TRANSITIONS.items()
    ]
    return "\n".join(("```mermaid", *lines, "```", ""))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |\n" for cells in (head, *rows)]
    return "".join((lines[0], "|---" * len(head) + "|\n", *lines[1:]))


def sync_page(text: str) -> str:
    """Return the page with its tables made from the code."""
    return _filled(
        text,
        {
            "change table": change_table(),
            "write table": write_table(),
            "state diagram": state_diagram(),
        },
    )


def tools_page(text: str) -> str:
    """Return the page with what clients are told, and the fields of each tool."""
    parts = {"instructions": f"```\n{INSTRUCTIONS}\n```\n"}
    for tool in TOOLS:
        models = {"argument": tool.request, "answer": tool.answer}
        if tool.answer is answers.ManageOutput:
            models["`stats`"] = answers.Stats
        parts[tool.name] = _told(tool)
        parts[f"fields of {tool.name}"] = "".join(_fields(*one) for one in models.items())
    return _filled(text, parts)


def _told(tool: Tool) -> str:
    hints = {
        "read-only": tool.read_only,
        "destructive": tool.destructive,
        "idempotent": tool.read_only or tool.idempotent,
        "open-world": tool.open_world,
    }
    said = ", ".join(f"{name} {'yes' if is_so else 'no'}" for name, is_so in hints.items())
    return f"> {tool.description}\n\nHints: {said}.\n"


def _fields(head: str, model: type[BaseModel]) -> str:
    schema = flat_schema(model, quiet=True)
    demanded = dict.fromkeys(
        schema.get("required", ()), "required" if head == "argument" else "always"
    )
    rows = [
        (
            f"`{name}`",
            _type(field),
            "; ".join([*([demanded[name]] if name in demanded else []), *_remarks(field)]),
        )
        for name, field in schema["properties"].items()
    ]
    return f"{_table((head, 'type', ''), rows)}\n"


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if field["type"] == "object":
        return f"{{ {', '.join(f'`{name}`' for name in field.get('properties', ['...']))} }}"
    return _TYPES[field["type"]]


def _remarks(field: dict[str, Any]) -> Iterator[str]:
    if "description" in field:
        yield field["description"].replace("|", "\\|")
    if "const" in field:
        yield f"always `{field['const']}`"
    elif "default" in field:
        yield f"default {field['default']}"
    if "minimum" in field:
        yield f"at least {field['minimum']}"
    if "maximum" in field:
        yield f"at most {field['maximum']}"


def _filled(text: str, parts: dict[str, str]) -> str:
    for name, made in parts.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(begin)
        if found:
            text = before + begin + made + end + rest.partition(end)[2]
    return text


def generated(top: Path = TOP) -> dict[str, str]:
    """Return the right text of each generated page."""
    attacks = (top / ATTACKS).read_text(encoding="utf-8")
    sync = (top / SYNC).read_text(encoding="utf-8")
    return {
        DECISIONS: index_of_decisions(top),
        ATTACKS: adversarial_tests(attacks, top),
        SYNC: sync_page(sync),
        TOOL_PAGE: tools_page((top / TOOL_PAGE).read_text(encoding="utf-8")),
        SYSTEMS: _filled((top / SYSTEMS).read_text(encoding="utf-8"), {"rules": rule_table(top)}),
    }


def faults(top: Path = TOP) -> list[str]:
    """Return pages that differ from what is generated, and marks without a row."""
    right = generated(top)
    wrong = [
        f"{file}: not as generated (python scripts/generated_pages.py)"
        for file, text in right.items()
        if not (top / file).is_file() or (top / file).read_text(encoding="utf-8") != text
    ]
    rows = {int(number) for number in re.findall(r"^\| (\d+) \|", right[ATTACKS], re.MULTILINE)}
    marked = attack_tests(top).keys()
    wrong += [f"{ATTACKS}: attack {one} has no row" for one in sorted(marked - rows)]
    wrong += [f"{ATTACKS}: attack {one} has no test" for one in sorted(rows - marked)]
    rules, rested_on = rules_of_systems(top).keys(), marked_tests("rule", top).keys()
    wrong += [f"{RULES}: there is no rule {one!r}" for one in sorted(rested_on - rules)]
    return wrong + [f"{RULES}: no test rests on {one!r}" for one in sorted(rules - rested_on)]


if __name__ == "__main__":
    for name, content in generated().items():
        (TOP / name).write_text(content, encoding="utf-8")
    sys.exit(0)
