"""Run the whole program against the embedded note service: real processes, files and loopback."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from mcp_notarium.sandbox import landlock
from mcp_notarium.stores.simplenote.kind import API_URL, KIND, USERNAME
from notarium_devtools.simperium import Simulator
from support.preloaded import Preloaded, arguments_of, possible
from support.simplenote_settings import simplenote_settings
from support.talker import SERVE, Talker, call

RAW_KEY = "raw:" + "5a" * 32
DEADLINE = 30.0


def store_environment(folder: Path, store: str, **more: str) -> dict[str, str]:
    """The environment of a server of this store with its own folder and key, confined where the system can."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "NOTARIUM_DATA_DIR": str(folder / "data"),
        "NOTARIUM_KEYCHAIN": "off",
        "NOTARIUM_SANDBOX": "require" if landlock.version() else "off",
        "NOTARIUM_STORE": store,
        "DB_ENCRYPTION_KEY": RAW_KEY,
        **more,
    }


def environment(simulator: Simulator, folder: Path, **changes: str | None) -> dict[str, str]:
    """What an MCP client's configuration would set; a change of None leaves a variable out."""
    settings: dict[str, str | None] = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "NOTARIUM_DATA_DIR": str(folder / "cache"),
        "NOTARIUM_KEYCHAIN": "off",
        "SIMPLENOTE_USERNAME": simulator.username,
        "SIMPLENOTE_PASSWORD": simulator.password,
        "DB_ENCRYPTION_KEY": RAW_KEY,
        "LOG_LEVEL": "info",
        "SIMPERIUM_API_URL": simulator.api_url,
        "SIMPERIUM_AUTH_URL": simulator.auth_url,
        "SIMPLENOTE_APP_URL": simulator.app_url,
        "SIMPERIUM_API_KEY": simulator.api_key,
    }
    settings |= changes
    return {name: value for name, value in settings.items() if value is not None}


def account_folder(simulator: Simulator, folder: Path) -> Path:
    """Where the account's cache lies."""
    named = {USERNAME: simulator.username, API_URL: simulator.api_url}
    return folder / "cache" / folder_name(named)


def folder_name(env: Mapping[str, str]) -> str:
    """Name the folder of the account that the variables name."""
    settings = simplenote_settings(env[USERNAME], **{API_URL: env[API_URL]})
    return KIND.identity(settings).owner_hash[:16]


class Server(Talker):
    """The real server, greeted; tools by name."""

    def __init__(
        self, env: dict[str, str], *, command: list[str] | None = None, **options: Any
    ) -> None:
        super().__init__(command or SERVE, env=env, **options)
        self._number = 0
        self.greet()

    def result(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The whole result of a call, error or not."""
        self._number += 1
        return self.ask(call(self._number, tool, **arguments))["result"]

    def tool(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that must succeed."""
        result = self.result(tool, **arguments)
        assert not result.get("isError"), result
        return result["structuredContent"]

    def error(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The error of a call that must fail."""
        result = self.result(tool, **arguments)
        assert result.get("isError"), result
        assert "structuredContent" not in result
        return json.loads(result["content"][0]["text"])

    def leave(self) -> int:
        """Hang up as a client does; the exit code."""
        self.hang_up()
        return super().leave()[0]

    def loaded(self, count: int) -> None:
        """Wait until so many active notes are listed."""

        def listed() -> int | None:
            answer = self.result("list", limit=1).get("structuredContent")
            return answer["total_items"] if answer else None  # an error while nothing is loaded

        until(lambda: listed() == count)


def until(holds: Callable[[], bool], *, within: float = DEADLINE) -> None:
    """Look again until it holds; fails after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def run(
    env: dict[str, str],
    *arguments: str,
    stdin: str = "",
    cwd: str | os.PathLike[str] | None = None,
    command: list[str] = SERVE,
) -> subprocess.CompletedProcess[str]:
    """One command of the program, to its end."""
    with TemporaryFile() as out:
        code, errors = run_into(out, env, *arguments, stdin=stdin, cwd=cwd, command=command)
        out.seek(0)
        said = _text(out.read())
    return subprocess.CompletedProcess([*command, *arguments], code, said, errors)


def start(env: dict[str, str], *arguments: str) -> Any:
    """Start one command, with pipes of bytes."""
    if possible(env):
        return Preloaded(arguments, env=env)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*SERVE, *arguments], env=env, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe
    )


def run_into(
    out: IO[Any],
    env: dict[str, str],
    *arguments: str,
    stdin: str = "",
    cwd: str | os.PathLike[str] | None = None,
    command: list[str] = SERVE,
) -> tuple[int, str]:
    """One command with a file as standard output; its exit code and what it wrote to standard error."""
    with TemporaryFile() as err:
        words = arguments if command is SERVE else arguments_of([*command, *arguments])
        if words is not None and possible(env):
            output = (out.fileno(), err.fileno())
            process: Any = Preloaded(words, env=env, cwd=cwd, output=output)
        else:
            process = subprocess.Popen(
                [*command, *arguments], env=env, cwd=cwd, stdin=subprocess.PIPE, stdout=out, stderr=err
            )  # fmt: skip
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(stdin.encode())
        try:
            code = process.wait(DEADLINE * 2)
        finally:
            process.kill()
        err.seek(0)
        return code, _text(err.read())


def _text(written: bytes) -> str:
    return written.decode().replace("\r\n", "\n")
