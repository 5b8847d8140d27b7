"""Drive a real browser, headless Chromium, over its own pipe: no port, no driver program."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.needs import lacking

NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
_DEADLINE = 60.0
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--disable-dev-shm-usage",
)  # fmt: skip
# Chromium reads commands from descriptor 3 and writes answers to 4.
_TAKE_PIPES = (
    "import os, sys\n"
    "os.dup2(int(sys.argv[1]), 3)\n"
    "os.dup2(int(sys.argv[2]), 4)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)


class Browser:
    """One browser with one page. ``seen`` are its events: what it loads, logs and refuses."""

    def __init__(self, profile: Path) -> None:
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if program is None:
            lacking(f"not installed: {NAMES[0]} (scripts/_packages)")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TAKE_PIPES, str(theirs_in), str(theirs_out), program, *_OPTIONS,
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "HOME": str(profile)},
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.seen: list[dict[str, Any]] = []
        self._buffer = b""
        self._number = 0
        self._session = ""
        pages = self.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in pages if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Network", "Log", "Runtime", "Accessibility"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        os.close(self._out)  # it ends when nobody can command it any more
        os.close(self._in)
        self._process.wait(_DEADLINE)

    def call(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        """The answer to one command of the DevTools protocol."""
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._out, json.dumps(command).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.seen.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path) -> None:
        """Load a file, to its end."""
        self.seen.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(one["method"] == "Page.loadEventFired" for one in self.seen):
            self.seen.append(self._next())

    def show(self, *, width: int, scheme: str = "light", media: str = "screen") -> None:
        """Set the width of the window, light or dark, screen or print."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=800, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + _DEADLINE
        while b"\0" not in self._buffer:
            ready = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))[0]
            read = os.read(self._in, 1 << 16) if ready else b""
            assert read, "the browser does not answer"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)
