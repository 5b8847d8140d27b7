"""Find methods that run SQL and are named without a call, or looked up by a computed name.

Part of ``statements.py``, which can check a statement only in a direct call of such a method.
``MENTIONED`` and ``BY_NAME`` hold the exceptions with their reasons.
"""

from __future__ import annotations

import ast
import re

from sources import Fault

SINKS = {
    "execute",
    "executemany",
    "executescript",
    "rows",
    "row",
    "number",
    "run",
    "run_many",
}
"""Methods of the driver's connection and of ``Database`` whose first argument is a statement."""
WRAPPERS = {("mcp_notarium.storage.table_copy", "_try_rows"): 1}
"""Functions that pass a statement on, and its position in their arguments."""

_A_FIELD = "the number of a record of the audit chain, a field"
MENTIONED = {
    "mcp_notarium.audit.chain: record.number": _A_FIELD,
    "mcp_notarium.audit.export: record.number": _A_FIELD,
    "mcp_notarium.audit.chain: self.number": _A_FIELD,
    "mcp_notarium.audit.verification: fault.number": _A_FIELD,
    "mcp_notarium.audit.verification: other.number": _A_FIELD,
    "mcp_notarium.audit.verification: record.number": _A_FIELD,
    "mcp_notarium.account.chain_copy: fault.number": _A_FIELD,
    "mcp_notarium.storage.note_search: statements.rows": "a statement that search/sql_builder.py has built, a field",
    "mcp_notarium.cli.audit: fault.number": _A_FIELD,
    "mcp_notarium.cli.activity_feed: record.number": _A_FIELD,
    "mcp_notarium.report.activity: record.number": _A_FIELD,
    "mcp_notarium.report.page: first.number": _A_FIELD,
    "mcp_notarium.cli.activity_feed: act.number": _A_FIELD,
    "mcp_notarium.cli.activity_feed: first.number": _A_FIELD,
    "mcp_notarium.cli.watch_screen: act.number": _A_FIELD,
    "mcp_notarium.cli.watch_screen: one.number": _A_FIELD,
    "mcp_notarium.cli.signals: interrupt.number": "the number of a signal, a field",
    "mcp_notarium.cli.signals: self.number": "the number of a signal, a field",
    "mcp_notarium.threads: copy_context().run": "runs a function in a context",
}
"""``module: expression`` -> why a name of ``SINKS`` is there without a call."""

_A_FLAG = "a constant of the module, from names written out there; not every system has it"
BY_NAME = {
    "mcp_notarium.storage.audit_log: attrgetter(*_NAMES)": "columns of the audit table",
    "mcp_notarium.storage.journal_table: attrgetter(*_PATHS)": "columns of the journal, as fields of an entry",
    "mcp_notarium.cli.signals: getattr(signal, name, None)": _A_FLAG,
    "mcp_notarium.cli.policy: getattr(policy.limits, one.name)": "the fields of a dataclass",
    "mcp_notarium.stores.kind: getattr(kind, name)": "the fields of a dataclass",
    "mcp_notarium.cli.terminal: getattr(self._stream, name)": "a stream that stands for another",
    "mcp_notarium.logs.setup: getattr(self.stream, name)": "a stream that stands for another",
    "mcp_notarium.protocol.server: getattr(signal, name, None)": _A_FLAG,
    "mcp_notarium.system.windows_kernel: getattr(self.libraries.load(library), name)": "a function of the table",
}
"""``module: expression`` -> why it looks up an attribute by a name that is not a literal."""

_LOOKUPS = {"getattr": 1, "attrgetter": 0, "methodcaller": 0}
"""Functions that look up an attribute by name, and the position of their first name."""
_ROUNDABOUT = {"__getattribute__", "__dict__", "vars"}
_SINK = re.compile(rf"\b({'|'.join(SINKS)})\b")


class Mentions:
    """Find ways to a statement that ``statements.Rule`` cannot see."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def faults(self, name: str, tree: ast.Module) -> list[Fault]:
        """Return the faults, in no order; the exceptions that apply are added to ``used``."""
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        found = []
        for node in ast.walk(tree):
            what = _mentioned(name, node, called=id(node) in called) or _looked_up(node)
            if what is None:
                continue
            place = f"{name}: {ast.unparse(node)}"
            if place in MENTIONED or place in BY_NAME:
                self.used.add(place)
            else:
                found.append(Fault(name, getattr(node, "lineno", 0), what))
        return found


def _mentioned(  # noqa: PLR0911 - a table
    module: str, node: ast.AST, *, called: bool
) -> str | None:
    """Return the fault of naming a method that runs SQL, or a lookup function, without a call."""
    match node:
        case ast.ImportFrom(module=source, names=names):
            if any((source, one.name) in WRAPPERS for one in names):
                return "a function that runs SQL, taken elsewhere"
            if any(one.name in _LOOKUPS and one.asname for one in names):
                return "a lookup by name, under another name"
        case ast.MatchClass(kwd_attrs=names) if SINKS.intersection(names):
            return "a method that runs SQL, not called"
        case _ if called:
            return None
        case ast.Attribute(attr=name) if name in SINKS:
            return "a method that runs SQL, not called"
        case ast.Name(id=name) if (module, name) in WRAPPERS:
            return "a function that runs SQL, not called"
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _LOOKUPS:
            return "a lookup by name, not called"
    return None


def _looked_up(node: ast.AST) -> str | None:
    """Return the fault of looking up an attribute by name."""
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _LOOKUPS:
            given = [*node.args, *(word.value for word in node.keywords)][_LOOKUPS[name] :]
            names = given if name == "attrgetter" else given[:1]
            if not names or any(isinstance(one, ast.Starred) for one in node.args):
                return "looked up by a name that is not a literal"
            for one in names:
                if not (isinstance(one, ast.Constant) and isinstance(one.value, str)):
                    return "looked up by a name that is not a literal"
                if _SINK.search(one.value):
                    return "a method that runs SQL, by name"
            return None
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _ROUNDABOUT:
            return "looked up by a name that is not a literal"
        case _:
            return None
