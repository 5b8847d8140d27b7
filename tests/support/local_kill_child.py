"""Copy, restore or re-encrypt a local notebook, killed at one of its stops."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

from mcp_notarium.account import copies, rescue, rewrite
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.local.kind import TABLES
from support.account import BOUNDS, open_cheaply
from support.local_child import configured
from support.local_notebook import OtherProcess
from support.stops import stopping

NOW = 1_763_683_200.0


def copy(home: Path, text: str, *, now: float = NOW) -> Path | None:
    """A server that changes the note ``n1`` and stops; gives the copy it made."""
    opened = open_cheaply(configured(home))
    with closing(opened):
        OtherProcess(Cache(opened.database)).put("n1", text)
        return copies.copy_after_changes(opened, TABLES, keep=2, now=now)


def restore(home: Path) -> None:
    """Put the newest copy back."""
    rescue.restore(configured(home), options=_options())


def reencrypt(home: Path) -> None:
    """Write it under a new data key, which the same key opens."""
    rewrite.reencrypt(configured(home), options=_options())


def _options() -> ChangeOptions:
    return ChangeOptions(bounds=BOUNDS, clock=lambda: NOW + 100)


def killed(home: Path, action: str, number: int) -> int:
    """Do it, killed at stop ``number`` (from 1; 0: at none); return how many stops it has."""
    count = 0

    def stop(_name: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGKILL)

    acts = {
        "copy": lambda home: copy(home, "three", now=NOW + 50),
        "restore": restore,
        "reencrypt": reencrypt,
    }
    with stopping(stop):
        acts[action](home)
    return count
