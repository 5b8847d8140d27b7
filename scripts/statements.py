"""Check that every SQL statement in the sources is built from constants only.

``python scripts/statements.py`` exits with 1 and prints each place

* that calls a method that runs SQL with text that is not constant in the sources,
* that names such a method without calling it,
* that looks up an attribute by a name that is not a literal,
* that would change a database key in place.

Input of a person or an agent belongs into parameters. ``BUILDERS`` and the lists of ``mentions.py`` hold
the exceptions with their reasons; an unused exception is an error too.

The check knows methods by name and receivers by spelling (``NO_DATABASES``), and follows no value from
function to function. It finds mistakes; it does not stop an author who hides a statement.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mentions import BY_NAME, MENTIONED, SINKS, WRAPPERS, Mentions
from sources import SOURCES, Fault, report, texts, unused

_NAMES = re.compile(rf"\b({'|'.join([*SINKS, *(name for _, name in WRAPPERS)])})\b")
NO_DATABASES = {
    *(
        "anyio",
        "asyncio",
        "app.usage_limits",
        "cli",
        "print_config_vars",
        "self._session",
        "driver",
        "server",
        "event_loop",
    ),
    *("_Lines.of(base)", "_Matcher(first, second, budget=budget)"),
    "_Merge(_Lines.of(base), _Lines.of(mine), _Lines.of(theirs))",
}
"""Receivers other than databases that have a method of such a name."""

BUILDERS = {
    "mcp_notarium.storage.database:Database.rows": "hands its argument on",
    "mcp_notarium.storage.database:Database.row": "hands its argument on",
    "mcp_notarium.storage.database:Database.number": "hands its argument on",
    "mcp_notarium.storage.database:Database.run": "hands its argument on",
    "mcp_notarium.storage.database:Database._run_each": "hands its argument on",
    "mcp_notarium.storage.table_copy:_try_rows": "hands its argument on",
    "mcp_notarium.storage.integrity:_first_fault": "the constants of check and walk beside it",
    "mcp_notarium.storage.schema_version:create_tables": "the constants of the schema",
    "mcp_notarium.storage.table_copy:slices": "names of tables and columns from TABLES",
    "mcp_notarium.storage.table_copy:_insert": "names of tables from TABLES",
    "mcp_notarium.storage.table_copy:_copy_state_table": "names of tables and columns from TABLES",
    "mcp_notarium.storage.table_copy:_count": "names of tables from TABLES",
    "mcp_notarium.storage.table_copy:copy_into": "names of tables from TABLES",
    "mcp_notarium.account.repair:_replace.fill": "the constants of the stores' tables",
    "mcp_notarium.account.copies:read_last_change": "the constants of the stores' tables",
    "mcp_notarium.account.copies:read_file_cost": "the constants of the stores' tables",
    "mcp_notarium.storage.database_opener:_configure": "settings written out there, and two numbers it computes",
    "mcp_notarium.stores.memento.note_table:NoteTable._select": "names of columns, quoted",
    "mcp_notarium.stores.memento.note_table:NoteTable._change": "names of columns of the table, quoted",
    "mcp_notarium.stores.memento.note_table:read": "names of tables and columns of the file, quoted",
    "mcp_notarium.stores.memento.note_table:insert": "names of tables and columns of the file, quoted",
    "mcp_notarium.storage.property_table:find_tasks_of": "search/sql_builder.py, the builder of searches",
    "mcp_notarium.storage.note_search:SearchIndex.find_words": "search/sql_builder.py, the builder of searches",
    "mcp_notarium.storage.ranked_search:find_hits": "search/ranking_sql.py, the builder of ranked searches",
    "mcp_notarium.storage.ranked_search:_permitted": "search/ranking_sql.py, the builder of ranked searches",
    "mcp_notarium.storage.ranked_search:find_permitted": "search/ranking_sql.py, the builder of ranked searches",
    "mcp_notarium.storage.ranked_search:_newest": "search/ranking_sql.py and search/sql_builder.py",
    "mcp_notarium.storage.ranked_search:_counts": "search/ranking_sql.py, the builder of ranked searches",
    "mcp_notarium.storage.ranked_search:_number": "search/sql_builder.py, the builder of searches",
    "mcp_notarium.storage.spelling:Speller._read_some": "search/sql_builder.py, the builder of searches",
}
"""``module:function`` -> why its statements are fixed, although they are not constants."""


@dataclass(frozen=True)
class Module:
    """Hold one source file, its top-level bindings and its imports."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Raises ``SyntaxError``."""
        return ast.parse(self.text)

    @property
    def speaks(self) -> bool:
        """Return whether the text names a method that could reach a database."""
        return _NAMES.search(self.text) is not None

    @cached_property
    def values(self) -> Scope:
        """Return the bindings of names at the top level."""
        return bindings(self.tree.body)

    @cached_property
    def imported(self) -> dict[str, tuple[str, str]]:
        """Name -> module and name there."""
        nodes = (node for node in ast.walk(self.tree) if isinstance(node, ast.ImportFrom))
        return {
            alias.asname or alias.name: (node.module or "", alias.name)
            for node in nodes
            for alias in node.names
        }


Scope = dict[str, list[ast.expr | None]]
"""Name -> all values it is bound to; None is an unknown value."""


def bindings(body: list[ast.stmt]) -> Scope:
    """Return the names bound by these statements, with nested blocks, without functions and classes."""
    found: Scope = {}
    for node in _inside(body):
        for target, value in _bound(node):
            for part in ast.walk(target):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    found.setdefault(part.id, []).append(value if part is target else None)
    return found


def _inside(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield all nodes of a body, without those of functions and classes in it."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case ast.AnnAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.AugAssign(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=values) | ast.AsyncFor(target=target, iter=values):
            yield target, values
        case ast.comprehension(target=target, iter=values):
            yield target, values
        case ast.withitem(optional_vars=target) if target is not None:
            yield target, None
        case _:
            return


class Rule:
    """Apply the rule to a set of modules, which may import constants from each other."""

    def __init__(self, modules: list[Module]) -> None:
        self._modules = {module.name: module for module in modules}
        self.used: set[str] = set()

    def faults(self) -> list[Fault]:
        """Return every statement that is neither constant nor of a builder, in source order."""
        found = []
        for module in filter(lambda one: one.speaks, self._modules.values()):
            for place, scope, call in _calls(module):
                for what in self._of_call(module, scope, call):
                    if builder := _builder(place):
                        self.used.add(builder)
                    else:
                        found.append(Fault(place, call.lineno, what))
        return found

    def _of_call(self, module: Module, scope: Scope, call: ast.Call) -> Iterator[str]:
        at = _statement_at(module, call)
        if at is None:
            return
        if any(isinstance(argument, ast.Starred) for argument in call.args[: at + 1]):
            yield "the arguments of a statement are not written out"
        elif at >= len(call.args):
            named = [word.value for word in call.keywords if word.arg in {"sql", None}]
            if any(not self._fixed(module, scope, value) for value in named):
                yield f"not constant: {ast.unparse(named[0])}"
        elif not self._fixed(module, scope, call.args[at]):
            yield f"not constant: {ast.unparse(call.args[at])}"

    def _fixed(self, module: Module, scope: Scope, value: ast.expr | None) -> bool:
        """Return whether the value has only constants of the sources, or numbers."""
        match value:
            case ast.Constant(value=text):
                return isinstance(text, str | int)
            case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mult()):
                return True  # '?' so many times
            case ast.Call(func=ast.Name(id="int")):
                return True
            case ast.Name(id=name):
                return self._fixed_name(module, scope, name)
        parts = _parts_of(value)
        return parts is not None and all(self._fixed(module, scope, part) for part in parts)

    def _fixed_name(self, module: Module, scope: Scope, name: str) -> bool:
        values = scope.get(name)
        if values is None:
            values, scope = module.values.get(name), {}
        if values is None and name in module.imported:
            source, original = module.imported[name]
            other = self._modules.get(source)
            return other is not None and self._fixed_name(other, {}, original)
        inner = {known: bound for known, bound in scope.items() if known != name}
        return bool(values) and all(self._fixed(module, inner, value) for value in values or ())


def _parts_of(value: ast.expr | None) -> list[ast.expr] | None:
    """Return what a text is put together from; None: that cannot be told."""
    match value:
        case (
            ast.JoinedStr(values=parts)
            | ast.Tuple(elts=parts)
            | ast.List(elts=parts)
            | ast.Dict(values=parts)
        ):
            return parts
        case (
            ast.FormattedValue(value=part)
            | ast.Starred(value=part)
            | ast.Call(func=ast.Attribute(value=ast.Constant(), attr="join"), args=[part])
            | ast.Subscript(value=ast.Name() as part)  # one of a table of constants
        ):
            return [part]
        case (
            ast.BinOp(left=first, op=ast.Add(), right=second) | ast.IfExp(body=first, orelse=second)
        ):
            return [first, second]
    return None


def _calls(module: Module) -> Iterator[tuple[str, Scope, ast.Call]]:
    """Yield every call, its ``module:function``, and the names that the function binds."""

    def look(
        node: ast.AST, path: tuple[str, ...], scope: Scope
    ) -> Iterator[tuple[str, Scope, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            inner, names = path, scope
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    inner, names = (*path, child.name), scope | _of_function(child)
                case ast.ClassDef():
                    inner = (*path, child.name)
                case ast.Lambda():
                    names = scope | {argument.arg: [None] for argument in _arguments(child.args)}
                case ast.Call():
                    yield f"{module.name}:{'.'.join(path)}", scope, child
            yield from look(child, inner, names)

    yield from look(module.tree, (), {})


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Scope:
    return bindings(node.body) | {argument.arg: [None] for argument in _arguments(node.args)}


def _arguments(found: ast.arguments) -> list[ast.arg]:
    more = [one for one in (found.vararg, found.kwarg) if one is not None]
    return [*found.posonlyargs, *found.args, *found.kwonlyargs, *more]


def _statement_at(module: Module, call: ast.Call) -> int | None:
    """Return the position of the statement in the arguments; None if it is no call of a database."""
    match call.func:
        case ast.Name(id=name):
            return WRAPPERS.get((module.name, name))
        case ast.Attribute(value=receiver, attr=name) if name in SINKS:
            return None if ast.unparse(receiver) in NO_DATABASES else 0
        case _:
            return None


def _builder(place: str) -> str | None:
    return next((one for one in BUILDERS if place == one or place.startswith(f"{one}.")), None)


def key_changes(module: Module) -> list[Fault]:
    """Return places with the word for changing a key in place, which can destroy the database."""
    word = "re" + "key"
    lines = [
        number for number, line in enumerate(module.text.splitlines(), 1) if word in line.lower()
    ]
    return [Fault(module.name, number, f"`{word}`") for number in lines]


def find_faults(sources: Path = SOURCES) -> list[Fault]:
    """Return all faults below ``sources``."""
    modules, found, mentions = [], [], Mentions()
    for name, text in texts(sources):
        module = Module(name, text)
        modules.append(module)
        found += key_changes(module) + mentions.faults(name, module.tree)
    rule = Rule(modules)
    found += rule.faults()
    return found + (stale(rule.used | mentions.used) if sources == SOURCES else [])


def stale(used: set[str]) -> list[Fault]:
    """Return the exceptions that are not used any more."""
    return unused([*BUILDERS, *MENTIONED, *BY_NAME], used)


def main() -> int:
    """Print the faults; return 1 if there are any."""
    return report(find_faults(), well="statements: every SQL statement is constant in the sources")


if __name__ == "__main__":
    sys.exit(main())
