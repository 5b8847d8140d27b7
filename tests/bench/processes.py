"""Run child processes (servers, floors, note service) and measure their cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]
TESTS = Path(__file__).resolve().parents[1]
MODULE = [sys.executable, "-m", "mcp_notarium"]
CONSOLE = [str(Path(sys.executable).with_name("mcp-notarium"))]
DEADLINE = 600.0
PATIENCE = 30.0
TICKS = 100
"""``USER_HZ``: how many of the kernel's ticks a second has for programs, whatever the kernel itself counts by."""
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"roots": {"listChanged": True}, "elicitation": {}},
    "clientInfo": {"name": "bench", "version": "1", "title": "Bench"},
}
NOTES_OF_A_HOST = {"claudecode/toolUseId": "toolu_01", "vscode.requestId": "1"}
"""What hosts add to a call beside a progress token."""


class WrongAnswer(Exception):
    """A figure of a wrong answer means nothing."""


def script(name: str, *arguments: str) -> list[str]:
    """The command of one of this package's modules, as a file: a module would be looked for first."""
    return [sys.executable, "-P", str(TESTS / "bench" / f"{name}.py"), *arguments]


def surroundings(**variables: str) -> dict[str, str]:
    """The environment of a child: nearly empty, and our modules importable."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(TESTS), **variables}


class Child:
    """A process that answers lines of JSON, one for one. Ends with its ``with`` block, after ``patience`` by force."""

    patience = 15.0

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=surroundings() if environment is None else environment,
            cwd=tempfile.gettempdir(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        try:
            self._process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def children(self) -> list[int]:
        """Return the numbers of the processes that its threads have started, and that run."""
        found: list[int] = []
        for thread in Path(f"/proc/{self._process.pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # it ends just now
                found += map(int, (thread / "children").read_text().split())
        return found

    @property
    def age(self) -> float:
        """Seconds since it was launched."""
        return time.perf_counter() - self.began

    def send(self, message: Json) -> None:
        """One line in."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def receive(self) -> Json:
        """The next line out. Raises ``WrongAnswer`` where the process has gone."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise WrongAnswer(f"{self._process.args!r} has ended")
        answer: Json = json.loads(line)
        return answer

    def memory(self, field: str = "VmRSS") -> float:
        """MB (1,000,000 bytes) resident; ``VmHWM`` is the most there ever was."""
        status = self.read_proc("status")
        return int(status.split(f"{field}:")[1].split()[0]) * 1024 / 1e6

    def cpu_ever(self, *, children: bool = False) -> float:
        """Seconds of a core used so far, also by threads that have ended, and by children that have; to a hundredth."""
        fields = self.read_proc("stat").rpartition(")")[2].split()
        return sum(int(ticks) for ticks in fields[11 : 15 if children else 13]) / TICKS

    def read_proc(self, name: str) -> str:
        """Return what the kernel says of the process in this file of ``/proc``."""
        return Path(f"/proc/{self._process.pid}/{name}").read_text()

    def cpu(self) -> float:
        """Seconds of a core used so far by all its threads that still run."""
        used = 0
        for task in Path(f"/proc/{self._process.pid}/task").glob("*/schedstat"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it ends just now
                used += int(task.read_text().split()[0])
        return used / 1e9


class Speaker(Child):
    """A child that speaks MCP."""

    _number = 0

    def ask(self, method: str, params: Json | None = None) -> Json:
        """One request; its result."""
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}})
        while (reply := self.receive()).get("id") != self._number:
            pass
        if "result" not in reply:
            raise WrongAnswer(str(reply.get("error")))
        result: Json = reply["result"]
        return result

    def greet(self) -> float:
        """The handshake; seconds from launch to the answer."""
        self.ask("initialize", HELLO)
        took = self.age
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return took

    def call(self, name: str, /, **arguments: Any) -> Json:
        """A tool call that must succeed; the whole result."""
        meta = NOTES_OF_A_HOST | {"progressToken": self._number}
        result = self.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
        if result.get("isError"):
            raise WrongAnswer(str(result["content"]))
        return result

    def call_at_once(self, name: str, calls: Sequence[Json]) -> list[float]:
        """Tool calls that must succeed, sent together; seconds until each answer."""
        began = time.perf_counter()
        taken: list[float] = []
        numbers = range(self._number + 1, self._number + 1 + len(calls))
        self._number += len(calls)
        for number, arguments in zip(numbers, calls, strict=True):
            params = {"name": name, "arguments": arguments}
            self.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        while len(taken) < len(calls):
            reply = self.receive()
            if reply.get("id") in numbers:
                taken.append(time.perf_counter() - began)
                if reply.get("result", {}).get("isError", True):
                    raise WrongAnswer(str(reply))
        return taken

    def tool(self, name: str, /, **arguments: Any) -> Json:
        """A tool call that must succeed; its structured content."""
        structured: Json = self.call(name, **arguments)["structuredContent"]
        return structured


class Service(Child):
    """The note service with its notes; see ``service.py``."""

    def __init__(self, count: int, *, english: bool = False) -> None:
        options = ["--english"] if english else []
        super().__init__(script("service", str(count), *options))
        self.count = count
        self.card = self.receive()

    def order(self, **order: Any) -> Json:
        """Have it do something; what it tells."""
        self.send(order)
        return self.receive()

    def settings(self, folder: Path, *, relayed: bool = False, **changes: str) -> dict[str, str]:
        """The environment of a server of this account whose cache is in ``folder``."""
        base = self.card["relay" if relayed else "url"]
        settings = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "NOTARIUM_DATA_DIR": str(folder / "cache"),
            "NOTARIUM_KEYCHAIN": "off",
            "SIMPLENOTE_USERNAME": self.card["username"],
            "SIMPLENOTE_PASSWORD": self.card["password"],
            "DB_ENCRYPTION_KEY": "raw:" + "5a" * 32,
            "LOG_LEVEL": "error",
            "SIMPERIUM_API_URL": f"{base}/1",
            "SIMPERIUM_AUTH_URL": f"{base}/1",
            "SIMPLENOTE_APP_URL": base,
            "SIMPERIUM_API_KEY": self.card["api_key"],
        } | changes
        return {name: value for name, value in settings.items() if value}
