"""Talk to a server process in raw lines, so that tests can send what no client library would."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from support.preloaded import Preloaded, arguments_of, possible

SERVE = [sys.executable, "-m", "mcp_notarium"]
FIXTURE = [sys.executable, str(Path(__file__).with_name("fixture_server.py"))]
DEADLINE = 20.0

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "talker", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "talker", "version": "1"},
}


def call(request_id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """A ``tools/call`` request."""
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def modern(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    """A request of the era without a handshake."""
    params = params | {"_meta": ENVELOPE}
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


class Talker:
    """One server process. Use it as a context manager; it ends the process it started."""

    def __init__(
        self, command: list[str], *, env: dict[str, str] | None = None, **options: Any
    ) -> None:
        self.process = self.start(command, env, **options)
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._read_out, daemon=True),
            threading.Thread(target=self._read_err, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def start(self, command: list[str], env: dict[str, str] | None, **options: Any) -> Any:
        """The process to talk to, preloaded where nothing is asked of it that only a new one has."""
        arguments = [] if command is SERVE else arguments_of(command)
        if arguments is not None and env and not options.keys() - {"cwd"} and possible(env):
            return Preloaded(arguments, env=env, **options)
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            bufsize=0,
            **options,
        )

    def _read_out(self) -> None:
        assert self.process.stdout
        buffer = b""
        with suppress(OSError, ValueError):
            while chunk := os.read(self.process.stdout.fileno(), 1 << 16):
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    self._lines.put(line)
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self.process.stderr
        with suppress(OSError, ValueError):
            while chunk := os.read(self.process.stderr.fileno(), 1 << 16):
                self._errors.append(chunk)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(DEADLINE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            with suppress(OSError):
                stream.close()

    def raw(self, line: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin
        rest = memoryview(line)
        while rest:
            rest = rest[self.process.stdin.write(rest) :]

    def send(self, *messages: Any) -> None:
        """Send messages, one a line."""
        self.raw(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def greet(self) -> dict[str, Any]:
        """The whole handshake; gives the answer to ``initialize``."""
        self.send(HELLO)
        answer = self.receive()
        self.send(INITIALIZED)
        return answer

    def receive(self, *, within: float = DEADLINE) -> Any:
        """The next message; fails if none comes or the server has gone."""
        line = self._lines.get(timeout=within)
        assert line is not None, f"the server left: {self.errors()}"
        return json.loads(line)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a request and give its answer, which must be the next message."""
        self.send(message)
        answer = self.receive()
        assert answer.get("id") == message["id"], answer
        return answer

    def rest(self) -> list[Any]:
        """Everything that still comes until the server has gone."""
        found = []
        while (line := self._lines.get(timeout=DEADLINE)) is not None:
            found.append(json.loads(line))
        return found

    def hang_up(self) -> None:
        """Close the server's standard input."""
        assert self.process.stdin
        self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process we started."""
        self.process.send_signal(number)

    def leave(self, *, within: float = DEADLINE) -> tuple[int, float]:
        """Wait for the end; gives exit code and how long it took."""
        began = time.monotonic()
        code = self.process.wait(timeout=within)
        seconds = time.monotonic() - began
        self._threads[1].join(DEADLINE)  # what was written last may not have been read yet
        return code, seconds

    def said(self, text: str, *, within: float = DEADLINE) -> bool:
        """Whether standard error holds the text; an answer may overtake the line about it."""
        end = time.monotonic() + within
        while text not in self.errors():
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True

    def errors(self) -> str:
        """Standard error so far."""
        return b"".join(self._errors).decode("utf-8", "replace")
