"""Let the databases that SQLite opens be open in the simulated Windows, too, as SQLite opens them there.

SQLite itself runs as it does on Linux. What its page of the system (``os_win.c``) does is not simulated, but for what others
meet: while a connection is open, its file, its log and its index can be neither renamed nor removed. The program looks itself
whether another one shares a file, before SQLite opens it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from mcp_notarium.storage import driver
from mcp_notarium.stores.memento import database_file
from support.simulated_windows import Simulated
from support.windows_files import NORMAL, SHARE_READ, SHARE_WRITE

_READ, _WRITE, _EXISTING = 0x80000000, 0x40000000, 3


def install(model: Simulated, patch: pytest.MonkeyPatch) -> None:
    """Do so for our own databases, and for Memento's."""
    live: list[Any] = []
    for place in (driver.module(), database_file.sqlite3):
        patch.setattr(place, "connect", _connecting(model, place, live))
    settle = model.settle

    def settle_all() -> None:
        settle()
        for connection in live:
            connection.hold()

    patch.setattr(model, "settle", settle_all)


def _connecting(model: Simulated, place: Any, live: list[Any]) -> Callable[..., Any]:
    class Held(place.Connection):  # type: ignore[misc]
        """A connection whose files are open in the model."""

        place = ""

        def hold(self) -> None:
            """Hold the files that are there by now."""
            for file in (self.place, f"{self.place}-wal", f"{self.place}-shm"):
                if file not in self.files and os.path.exists(file):
                    self.files[file] = 0  # opening it settles, too
                    self.files[file] = _hold(model, file)

        def close(self) -> None:
            super().close()
            if self in live:
                live.remove(self)
                for handle in self.files.values():
                    model.close_handle(handle)

    real = place.connect

    def connect(database: str | Path, *arguments: Any, **options: Any) -> Any:
        database = os.fspath(database)
        path = unquote(urlsplit(database).path) if database.startswith("file:") else database
        if path == ":memory:":
            return real(database, *arguments, **options)
        made = real(database, *arguments, factory=Held, **options)
        made.place, made.files = str(Path(path).absolute()), {}
        live.append(made)
        made.hold()
        return made

    return connect


def _hold(model: Simulated, path: str) -> int:
    model.rule("databases share no deletion")
    share = SHARE_READ | SHARE_WRITE
    return model.open(os.path.abspath(path), _READ | _WRITE, share, _EXISTING, NORMAL)
