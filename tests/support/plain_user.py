"""Run Python as a user without rights, also where tests and Python belong to root.

The interpreter, its library and our packages are handed over as open descriptors: ``/proc/self/fd/N``
leads into a folder whose parents are closed to that user.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import mcp
import sqlcipher3

import mcp_notarium
from support.needs import lacking
from support.whole import DEADLINE

_ROOT = 0


class PlainUser:
    """``folder`` is the user's own. Use :func:`plain_user`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._python = self._handed(Path(sys.executable))
        self._home = self._handed(Path(sys.base_prefix))
        places = [Path(package.__file__).parents[1] for package in (mcp_notarium, sqlcipher3, mcp)]
        self._path = [self._handed(place) for place in dict.fromkeys(places)]
        self._user = pwd.getpwnam("nobody") if os.geteuid() == _ROOT else None
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)

    @property
    def bare_env(self) -> dict[str, str]:
        """For programs that are not Python."""
        return {"HOME": str(self.folder), "PATH": os.environ["PATH"]}

    @property
    def env(self) -> dict[str, str]:
        """What the interpreter needs to find itself and our packages."""
        home = _path(self._home)
        return self.bare_env | {
            "PYTHONHOME": home,
            "LD_LIBRARY_PATH": f"{home}/lib",
            "PYTHONPATH": ":".join(map(_path, self._path)),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def python(self, code: str, *arguments: str) -> list[str]:
        """The command that runs this code."""
        return [_path(self._python), "-c", code, *arguments]

    @property
    def options(self) -> dict[str, Any]:
        """For ``Popen``: to be that user, and to have the descriptors."""
        found: dict[str, Any] = {"pass_fds": (self._python, self._home, *self._path)}
        if self._user is not None:
            who = {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
            found |= who
        return found

    def run(
        self, command: list[str], *, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One command as that user, to its end."""
        return subprocess.run(
            command,
            env=env or self.env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE * 2,
            check=False,
            **self.options,
        )

    def _handed(self, path: Path) -> int:
        descriptor = os.open(path, os.O_PATH)
        self._stack.callback(os.close, descriptor)
        return descriptor


@contextmanager
def plain_user() -> Iterator[PlainUser]:
    """Somebody without rights, with a folder; skips where Python cannot be handed over."""
    folder = Path(tempfile.mkdtemp(prefix="notarium-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        user = PlainUser(folder, stack)
        trial = user.run(user.python("import os, mcp_notarium; print(os.geteuid())"))
        if trial.returncode or trial.stdout.strip() == str(_ROOT):
            lacking(f"Python cannot be run without rights here: {trial.stderr[-200:]}")
        yield user


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
