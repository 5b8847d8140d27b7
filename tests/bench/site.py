"""Hold an account of one size, and the caches of it that the rows need, each loaded once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import corpus
from bench.older import Older
from bench.processes import CONSOLE, DEADLINE, Service, Speaker, WrongAnswer

PLAIN = {"DB_ENCRYPTION": "off", "DB_ENCRYPTION_KEY": ""}


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things are done. In seconds: ``idle``, how long an idle server is
    watched; ``quiet``, after how long without any traffic a server counts as at rest."""

    starts: int
    calls: int
    saves: int
    syncs: int
    changes: int
    idle: float
    quiet: float


SMOKE = Pace(starts=1, calls=4, saves=2, syncs=1, changes=1, idle=0.5, quiet=0.3)
USUAL = Pace(starts=5, calls=120, saves=20, syncs=2, changes=5, idle=10.0, quiet=2.0)
FULL = Pace(starts=15, calls=300, saves=40, syncs=3, changes=10, idle=60.0, quiet=3.0)


@dataclass(slots=True)
class Site:
    """One account with ``count`` notes and a folder for caches of it."""

    service: Service
    folder: Path
    pace: Pace
    against: Older | None = None
    saved: int = 0
    _loaded: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The notes of the corpus, those in the trash included."""
        return self.service.count

    @property
    def expected(self) -> int:
        """What a listing must count."""
        return corpus.active(self.count) + self.saved

    def fresh(self, name: str, **options: Any) -> dict[str, str]:
        """The settings of a server whose cache does not exist yet."""
        folder = self.folder / name
        folder.mkdir()
        return self.service.settings(folder, **options)

    def encrypted(self) -> dict[str, str]:
        """The settings of a loaded cache under a key."""
        return self.loaded("encrypted", {})

    def plain(self) -> dict[str, str]:
        """The settings of a loaded cache without one."""
        return self.loaded("plain", PLAIN)

    def older(self) -> dict[str, dict[str, str]]:
        """Return the settings of a loaded cache of the older build under its name; empty without one."""
        if self.against is None:
            return {}
        return {self.against.name: self.loaded("older", self.against.variables)}

    def adopt(self, name: str, settings: dict[str, str]) -> None:
        """A row has loaded this one itself."""
        self._loaded.setdefault(name, settings)

    def loaded(self, name: str, changes: dict[str, str]) -> dict[str, str]:
        """The settings of a loaded cache of this name; ``changes`` to the usual ones."""
        if name not in self._loaded:
            settings = self.fresh(name, **changes)
            with Speaker(CONSOLE, settings) as server:
                server.greet()
                self.wait(server)
                self.settle(server)
            self._loaded[name] = settings
        return self._loaded[name]

    def wait(self, server: Speaker) -> None:
        """Call ``list`` until everything is there."""
        deadline = time.monotonic() + DEADLINE
        while True:
            answer = server.tool("list", limit=1)
            if answer["total_items"] == self.expected and not answer.get("sync"):
                return
            if time.monotonic() > deadline:
                raise WrongAnswer(f"{answer['total_items']} notes, never {self.expected}")
            time.sleep(0.02)

    def settle(self, server: Speaker) -> None:
        """Wait until the server does nothing more: what a load puts off is done a second later."""
        deadline = time.monotonic() + DEADLINE
        used = -1.0
        while (now := server.cpu()) - used > 0.02 and time.monotonic() < deadline:
            used = now
            time.sleep(self.pace.quiet)

    def demand(self, answer: dict[str, Any]) -> None:
        """The newest page of everything, or ``WrongAnswer``."""
        first = answer["content"][0]["uuid"] if answer["content"] else None
        known = self.saved or first == corpus.note_id(corpus.newest(self.count))
        if answer["total_items"] != self.expected or not known:
            raise WrongAnswer(f"{answer['total_items']} notes, first {first}")


@contextmanager
def serving(settings: dict[str, str], command: list[str] | None = None) -> Iterator[Speaker]:
    """A server with its notes open."""
    with Speaker(command or CONSOLE, settings) as server:
        server.greet()
        server.tool("list", limit=1)
        yield server


def database(settings: dict[str, str]) -> Path:
    """The cache file itself."""
    files = Path(settings["NOTARIUM_DATA_DIR"]).glob("*/notarium_cache*.sqlite*")
    return next(file for file in files if not file.name.endswith(("-wal", "-shm")))
