"""Check that only listed code starts a program or listens for connections.

``python scripts/processes.py`` exits with 1 and prints each import, attribute, built-in and string that
serves to start a program, accept connections, call the C library, run text as code, or import a module
whose name is not a literal. ``PERMITTED`` holds the exceptions with their reasons; an unused exception is
an error too.

The check knows names only, and not what libraries do inside. ``mentions.py`` (``getattr``) and this script
(imports) refuse names that are computed at run time. The check finds mistakes; it does not stop an author
who hides a call. ``tests/security/test_quiet_process.py`` watches a real server.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sources import SOURCES, Fault, report, texts, unused

MODULES = {
    *("subprocess", "_posixsubprocess", "multiprocessing", "pty", "runpy", "webbrowser"),
    *("socketserver", "http.server", "xmlrpc", "wsgiref", "uvicorn"),
    *("ctypes", "_ctypes", "cffi", "builtins"),
    *("mcp.client.stdio", "anyio.to_process", "concurrent.futures.process"),
}
"""Modules for these purposes, with all modules below them."""
LOADERS = {"import_module", "__import__"}
"""Functions that import by name: the name must be a literal in the call."""
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
"""Names of functions and methods, of any object."""
BUILT_IN = {"exec", "eval", "compile", "__builtins__"}
_WORDS = NAMES | LOADERS | {name for name in MODULES if "." not in name}
_DOTTED = re.compile(r"\w+(?:[.:]\w+)*")

_A_KEYCHAIN = "the keychain of the system, a field"
_OURS = "a method of ours, which waits for changes of the service"
_A_TABLE = "from a table of constants there"
_KERNEL = "the C library, for calls that confine or harden the process"
_AS_A_CLIENT = "`install` starts the server as a client does; no server imports this module"
_A_PERSON = "the editor or pager of the person at the terminal; no server imports this module"
PERMITTED = {
    "mcp_notarium.cli.server_check: import subprocess": _AS_A_CLIENT,
    "mcp_notarium.cli.server_check: subprocess.Popen": _AS_A_CLIENT,
    "mcp_notarium.cli.draft_files: import subprocess": _A_PERSON,
    "mcp_notarium.cli.draft_files: subprocess.Popen": _A_PERSON,
    "mcp_notarium.cli.show: import subprocess": _A_PERSON,
    "mcp_notarium.cli.show: subprocess.Popen": _A_PERSON,
    "mcp_notarium.protocol.server: 'uvicorn'": "kept from being imported",
    "mcp_notarium.stores.registry: import_module(module)": _A_TABLE,
    "mcp_notarium.tools.toolsets: import_module(f'{__name__}.{module}')": _A_TABLE,
    "mcp_notarium.cli.main: import_module(f'mcp_notarium.cli.{module}')": _A_TABLE,
    "mcp_notarium.system.linux: 'system.posix_acl_access'": "an attribute of a file",
    "mcp_notarium.account.key_changes: self.system": _A_KEYCHAIN,
    "mcp_notarium.sandbox.confinement: import ctypes": _KERNEL,
    "mcp_notarium.system.forked: os.fork": "a copy of this process that decodes a file, and runs no program",
    "mcp_notarium.system.linux: import ctypes": _KERNEL,
    "mcp_notarium.system.macos: import ctypes": _KERNEL,
    "mcp_notarium.system.posix: import ctypes": "the C library: overwrites variables in the environment",
    "mcp_notarium.system.windows: import ctypes": _KERNEL,
    "mcp_notarium.system.windows: from ctypes import wintypes": _KERNEL,
    "mcp_notarium.system.windows_acl: import ctypes": _KERNEL,
    "mcp_notarium.system.windows_acl: from ctypes import wintypes": _KERNEL,
    "mcp_notarium.system.windows_shared_files: import ctypes": _KERNEL,
    "mcp_notarium.system.windows_handles: import ctypes": _KERNEL,
    "mcp_notarium.system.windows_private_files: import ctypes": _KERNEL,
    "mcp_notarium.system.windows_stat: import ctypes": _KERNEL,
    "mcp_notarium.system.windows_kernel: import ctypes": _KERNEL,
    "mcp_notarium.system.windows_kernel: from ctypes import wintypes": _KERNEL,
    "mcp_notarium.sandbox.landlock: import ctypes": _KERNEL,
    "mcp_notarium.account.reencryption: options.system": _A_KEYCHAIN,
    "mcp_notarium.sandbox.seccomp: 'execve'": "a call that is refused",
    "mcp_notarium.sandbox.seccomp: 'listen'": "a call that is refused",
    "mcp_notarium.sandbox.seccomp: import ctypes": _KERNEL,
    "mcp_notarium.protocol.server: import_module(name)": _A_TABLE,
    "mcp_notarium.sync.scheduler: self._runner.listen": _OURS,
    "mcp_notarium.sync.cycle_runner: self.sources.listen": _OURS,
    "mcp_notarium.clients.wsl: import subprocess": "setup asks wsl.exe, wslpath and cmd.exe for the folders of the other side",
}
"""``module: source text`` -> why it is permitted."""


class Rule:
    """Apply the rule to one module after the other."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def faults(self, module: str, text: str) -> list[Fault]:
        """Return the faults, in no order, and add exceptions that apply to ``used``. Raises ``SyntaxError``."""
        tree = ast.parse(text)
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        found = []
        for node in ast.walk(tree):
            for what in _refused_text(node, calls.get(id(node))):
                if (place := f"{module}: {what}") in PERMITTED:
                    self.used.add(place)
                else:
                    found.append(Fault(module, getattr(node, "lineno", 0), what))
        return found


def _refused_text(node: ast.AST, call: ast.Call | None) -> Iterator[str]:
    """Yield the refused source text of a node; ``call`` is the call whose function it is."""
    match node:
        case ast.Import(names=names):
            yield from (f"import {one.name}" for one in names if _is_below(one.name))
        case ast.ImportFrom(module=source, names=names):
            yield from (
                f"from {source} import {one.name}" for one in names if _is_refused(source, one)
            )
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in LOADERS:
            if call is None or not _is_literal(call):
                yield ast.unparse(call or node)
        case ast.Attribute(attr=name) if name in _WORDS:
            yield ast.unparse(node)
        case ast.Name(id=name) if name in BUILT_IN:
            yield name
        case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
            if _is_below(text) or _WORDS.intersection(re.split("[.:]", text)):
                yield repr(text)


def _is_below(name: str) -> bool:
    """Return whether a dotted name is one of ``MODULES`` or below one."""
    return any(name == one or name.startswith(f"{one}.") for one in MODULES)


def _is_refused(source: str | None, one: ast.alias) -> bool:
    """Return whether ``from source import one`` imports a refused name, or renames a loader."""
    if one.name in LOADERS:
        return one.asname is not None
    if one.name == "*":
        return True
    return one.name in _WORDS or _is_below(f"{source}.{one.name}")


def _is_literal(call: ast.Call) -> bool:
    """Return whether a call of a loader names the module as a literal."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant)


def find_faults(sources: Path = SOURCES) -> list[Fault]:
    """Return all faults below ``sources``."""
    rule = Rule()
    found = [fault for name, text in texts(sources) for fault in rule.faults(name, text)]
    return found + (stale(rule.used) if sources == SOURCES else [])


def stale(used: set[str]) -> list[Fault]:
    """Return the exceptions that are not used any more."""
    return unused(PERMITTED, used)


def main() -> int:
    """Print the faults; return 1 if there are any."""
    return report(find_faults(), well="processes: only listed code starts a program or listens")


if __name__ == "__main__":
    sys.exit(main())
