"""Run Memento's app beside the server: the real Prisma client, which ``scripts/prisma`` installs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from support.needs import lacking

PLACE = Path(__file__).parents[1] / "prisma"


def require_prisma() -> None:
    """Go on only where the client is installed."""
    if not (PLACE / "client" / "client.js").exists() or shutil.which("node") is None:
        lacking("the Prisma client is not installed: run ./scripts/prisma (node and npm)")


class PrismaApp:
    """One process of the app with a file open. ``dates``: the form in which it stores them."""

    def __init__(self, path: Path, *, dates: str) -> None:
        self._process = subprocess.Popen(
            ["node", str(PLACE / "app.mjs"), str(path), dates],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"]},
        )

    def ask(self, op: str, **arguments: Any) -> Any:
        """The answer to one request; an error of Prisma is one of ours."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def close(self) -> None:
        self._process.communicate(timeout=30)
