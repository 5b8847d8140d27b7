"""Test that only listed code starts a program or listens, and test the rule itself."""

import pytest

from support.scripts import SCRIPTS, script


@pytest.fixture(scope="module")
def rule():
    with script("processes") as module:
        yield module


def found(rule, text, *, module="mcp_notarium.tools.sample"):
    return [fault.what for fault in rule.Rule().faults(module, text)]


def test_only_listed_code_starts_a_program_or_listens(rule, capsys):
    assert rule.main() == 0, capsys.readouterr().err


def test_the_check_runs_the_rule():
    assert "scripts/processes.py\n" in (SCRIPTS / "check").read_text(encoding="utf-8")


def test_everything_that_is_let_through_says_why(rule):
    assert all(reason.strip() for reason in rule.PERMITTED.values())


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasync def f(): await asyncio.create_subprocess_exec('ls')",
        "from asyncio import create_subprocess_shell as make",
        "import asyncio.subprocess\ndef f(): return asyncio.subprocess",
        "from asyncio import subprocess as programs",
        "async def f(loop, made): await loop.subprocess_exec(made, 'ls')",
        "import os\ndef f(): os.posix_spawn('/bin/ls', ['ls'], {})",
        "import os as system_\ndef f(): return system_.fork()",
        "import os\ndef f(): os.forkpty()",
        "import os\nact = os.execvpe",
        "import os\ndef f(): os.spawnlp(os.P_WAIT, 'ls')",
        "from os import system",
        "from os import *",
        "import os\ndef f(): os.popen('ls')",
        "import os\ndef f(): getattr(os, 'system')('ls')",
        "import pty",
        "def f():\n    import pty",
        "import multiprocessing.pool",
        "from concurrent.futures import ProcessPoolExecutor",
        "from concurrent import futures\ndef f(): return futures.ProcessPoolExecutor()",
        "from anyio import run_process",
        "import anyio\nasync def f(): await anyio.open_process('ls')",
        "from mcp.client.stdio import stdio_client",
        "import ctypes",
        "from ctypes import util",
        "import uuid\ndef f(): return uuid.getnode()",
        "import asyncio\nasync def f(): await asyncio.start_server(f)",
        "import asyncio\nasync def f(): await asyncio.start_unix_server(f)",
        "async def f(loop): await loop.create_server(f)",
        "async def f(loop): await loop.create_unix_server(f)",
        "import socket\ndef f(): socket.create_server(('', 0))",
        "def f(one): one.listen()",
        "def f(one): one.bind(('', 0))",
        "async def f(anyio): await anyio.create_tcp_listener()",
        "from http import server",
        "from http.server import HTTPServer",
        "from xmlrpc.server import SimpleXMLRPCServer",
        "__import__('subprocess')",
        "__import__('sub' + 'process')",
        "def f(name): __import__(name)",
        "from importlib import import_module\nimport_module('subprocess')",
        "from importlib import import_module\nimport_module('multiprocessing.pool')",
        "from importlib import import_module\ndef f(name): import_module(name)",
        "from importlib import import_module\nlook = import_module",
        "from importlib import import_module\nimport_module(name='json')",
        "from importlib import import_module as look",
        "import importlib\ndef f(name): importlib.import_module(name)",
        "import runpy",
        "import sys\nsys.modules['subprocess']",
        "import sys\nsys.modules.get('os.fork')",
        "import builtins",
        "def f(text): exec(text)",
        "def f(text): return eval(text)",
        "from mcp_notarium.cli.keys import subprocess as programs",
        "from mcp_notarium.cli import keys\ndef f(): return keys.subprocess",
    ],
)
def test_code_that_could_start_a_program_or_listen_is_found(rule, text):
    assert found(rule, text)


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio, os, socket\nfrom importlib import import_module\nimport_module('json')",
        "import re\nWORD = re.compile('listen to the system')",
        "class A:\n    async def listen(self): return 'it listens; then fork it'",
        "import os\ndef f(path): return os.open(path, os.O_RDONLY), os.kill(1, 0)",
        "import asyncio\nasync def f(): return await asyncio.open_connection('host', 443)",
        "import __future__\n# os.fork()",
    ],
)
def test_harmless_code_is_no_fault(rule, text):
    assert not found(rule, text)


def test_an_exception_for_one_module_does_not_apply_to_another(rule):
    text = "import ctypes"
    assert not found(rule, text, module="mcp_notarium.sandbox.landlock")
    assert found(rule, text, module="mcp_notarium.cli.main") == ["import ctypes"]


def test_a_module_of_any_package_is_looked_at(rule, tmp_path):
    for package in ("tools", "cli", "stores"):
        folder = tmp_path / "mcp_notarium" / package
        folder.mkdir(parents=True)
        (folder / "new.py").write_text("import pty")
    places = [f"mcp_notarium.{package}.new" for package in ("cli", "stores", "tools")]
    assert [fault.place for fault in rule.find_faults(tmp_path)] == places


def test_an_unused_exception_is_named(rule):
    gone = min(rule.PERMITTED)
    assert [fault.place for fault in rule.stale({*rule.PERMITTED} - {gone})] == [gone]
