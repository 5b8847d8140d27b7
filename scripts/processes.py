"""Nothing but what is listed starts a program or listens: looks at every name that could.

``python scripts/processes.py`` exits with 1 and names each import, attribute, built-in and string that
is there for starting a program, waiting for connections, calling the C library, running text as code or
importing what is not written out. What is let through stands in ``PERMITTED`` with the reason; one that
is not needed any more is named, too.

It knows names, whatever they are names of, and not what libraries do inside. A name that is put
together at run time is refused by ``mentions.py`` (``getattr``) and here (imports). So it finds
mistakes; it does not stop an author who hides a call. What a real server does is watched by
``tests/security/test_quiet_process.py``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sources import SOURCES, Fault, texts, told, unused

MODULES = {
    *("subprocess", "_posixsubprocess", "multiprocessing", "pty", "runpy", "webbrowser"),
    *("socketserver", "http.server", "xmlrpc", "wsgiref", "uvicorn"),
    *("ctypes", "_ctypes", "cffi", "builtins"),
    *("mcp.client.stdio", "anyio.to_process", "concurrent.futures.process"),
}
"""Modules that are there for it; what lies below them is meant, too."""
LOADERS = {"import_module", "__import__"}
"""What imports by name: the name has to be written out in the call."""
NAMES = {
    *("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "popen", "Popen", "startfile"),
    *("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe"),
    *("spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe"),
    *("openpty", "login_tty", "posix_openpt"),
    *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"),
    *("open_process", "run_process", "stdio_client", "ProcessPoolExecutor"),
    *("find_library", "getnode", "uuid1", "processor"),  # they ask other programs
    *("bind", "listen", "create_server", "create_unix_server", "start_server"),
    *("start_unix_server", "create_tcp_listener", "create_unix_listener"),
    *("create_datagram_endpoint", "create_udp_socket", "create_unix_datagram_socket"),
    *("exec_module", "load_module", "run_module", "run_path", "spec_from_file_location"),
    *("SourceFileLoader", "ExtensionFileLoader"),
}
"""Functions and methods, of whatever they are."""
BUILT_IN = {"exec", "eval", "compile", "__builtins__"}
_WORDS = NAMES | LOADERS | {name for name in MODULES if "." not in name}
_DOTTED = re.compile(r"\w+(?:[.:]\w+)*")

_A_KEYCHAIN = "the keychain of the system, a field"
_OURS = "a method of ours, which waits for changes of the service"
_A_TABLE = "from a table of constants there"
_KERNEL = "the C library, for calls that confine or harden the process"
PERMITTED = {
    "mcp_notarium.stores.registry: import_module(module)": _A_TABLE,
    "mcp_notarium.cli.main: import_module(verb.module)": _A_TABLE,
    "mcp_notarium.cli.rotate_key: options.system": _A_KEYCHAIN,
    "mcp_notarium.files.private_files: 'system.posix_acl_access'": "an attribute of a file",
    "mcp_notarium.account.key_changes: self.system": _A_KEYCHAIN,
    "mcp_notarium.sandbox.confinement: import ctypes": _KERNEL,
    "mcp_notarium.sandbox.landlock: import ctypes": _KERNEL,
    "mcp_notarium.account.reencryption: options.system": _A_KEYCHAIN,
    "mcp_notarium.sandbox.seccomp: 'execve'": "a call that is refused",
    "mcp_notarium.sandbox.seccomp: 'listen'": "a call that is refused",
    "mcp_notarium.sandbox.seccomp: import ctypes": _KERNEL,
    "mcp_notarium.protocol.startup_checks: import_module(name)": _A_TABLE,
    "mcp_notarium.sync.scheduler: self._runner.listen": _OURS,
    "mcp_notarium.sync.batch_apply: import ctypes": "asks the C library to give free memory back",
    "mcp_notarium.sync.cycle_runner: self.sources.listen": _OURS,
}
"""``module: what stands there`` -> why it may."""


class Rule:
    """The rule over one module after the other."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def faults(self, module: str, text: str) -> list[Fault]:
        """In no order. What is let through goes into ``used``. Raises ``SyntaxError``."""
        tree = ast.parse(text)
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        found = []
        for node in ast.walk(tree):
            for what in _named(node, calls.get(id(node))):
                if (place := f"{module}: {what}") in PERMITTED:
                    self.used.add(place)
                else:
                    found.append(Fault(module, getattr(node, "lineno", 0), what))
        return found


def _named(node: ast.AST, call: ast.Call | None) -> Iterator[str]:
    """What is refused of a node, as it is written; ``call`` is the call whose function it is."""
    match node:
        case ast.Import(names=names):
            yield from (f"import {one.name}" for one in names if _below(one.name))
        case ast.ImportFrom(module=source, names=names):
            yield from (f"from {source} import {one.name}" for one in names if _taken(source, one))
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in LOADERS:
            if call is None or not _written_out(call):
                yield ast.unparse(call or node)
        case ast.Attribute(attr=name) if name in _WORDS:
            yield ast.unparse(node)
        case ast.Name(id=name) if name in BUILT_IN:
            yield name
        case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
            if _below(text) or _WORDS.intersection(re.split("[.:]", text)):
                yield repr(text)


def _below(name: str) -> bool:
    """Whether a dotted name is one of ``MODULES`` or lies below one."""
    return any(name == one or name.startswith(f"{one}.") for one in MODULES)


def _taken(source: str | None, one: ast.alias) -> bool:
    """Whether ``from source import one`` brings in what is refused, or under a name nobody sees."""
    if one.name in LOADERS:
        return one.asname is not None
    if one.name == "*":
        return True
    return one.name in _WORDS or _below(f"{source}.{one.name}")


def _written_out(call: ast.Call) -> bool:
    """Whether a loader's call says what it imports."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant)


def look(sources: Path = SOURCES) -> list[Fault]:
    """Everything that is wrong below ``sources``."""
    rule = Rule()
    found = [fault for name, text in texts(sources) for fault in rule.faults(name, text)]
    return found + (stale(rule.used) if sources == SOURCES else [])


def stale(used: set[str]) -> list[Fault]:
    """What is let through for nothing."""
    return unused(PERMITTED, used)


def main() -> int:
    """Exit code 1 if anything is wrong."""
    return told(look(), well="processes: nothing but what is listed starts a program or listens")


if __name__ == "__main__":
    sys.exit(main())
