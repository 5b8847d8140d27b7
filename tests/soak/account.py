"""Hold the account of a run: note service, cache folder, key, clocks, processes."""

from __future__ import annotations

import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.changes import Change
from soak.measures import MOST_GROWTH, Measures
from soak.promises import Promises, Truth
from support.talker import Talker, call
from support.whole import RAW_KEY, account_folder, environment

PATIENCE = 60.0
"""Seconds after which a call that has no answer is a defect: API_TIMEOUT_SECONDS is 5."""
COMMAND_PATIENCE = 120.0


class Gone(Exception):
    """The server has ended."""


class Clock:
    """A wall clock that can be set, of all programs of the account or of the note service."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.set(0.0)

    def set(self, seconds: float) -> None:
        """From now on it is off by so many seconds."""
        self.seconds = seconds
        if self._path is not None:
            with self._path.open("r+b" if self._path.exists() else "wb") as file:
                file.write(struct.pack("d", seconds))

    def now(self) -> float:
        """Epoch seconds by it."""
        return time.time() + self.seconds


class Account:
    """What all actors of a run share. ``began``: the monotonic clock at the beginning."""

    has_service = True
    """Another device writes the notes as well, at a service that knows at once what has arrived."""
    most_growth = MOST_GROWTH

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock(folder / "clock")
        self.service_clock = Clock()
        self.simulator = Simulator(clock=self.service_clock.now, poll_seconds=5.0)
        self.simulator.bucket().listeners.append(self._changed)
        self.promises = Promises(witnessed=self.has_service)
        self.measures = Measures(self.most_growth)
        self.counts: Counter[str] = Counter()
        self.began = time.monotonic()
        self.over = threading.Event()
        self.servers: dict[int, Client] = {}
        self.logins = 0
        """How often the password was changed for good: a client that has an older one starts again."""
        self.secrets = {RAW_KEY.removeprefix("raw:"), self.simulator.password, self.simulator.token}
        self.key, self._keys = RAW_KEY, 0
        self._opening = threading.Lock()
        self._lock = threading.Lock()

    @property
    def cache(self) -> Path:
        """The folder of the cache."""
        return account_folder(self.simulator, self.folder)

    def truth(self) -> Truth:
        """The notes where they live."""
        return self.simulator.notes()

    def judge(self) -> None:
        """Look at the files when everybody has left; complain of what is wrong with them."""

    def env(self) -> dict[str, str]:
        """What a client has configured now."""
        return environment(
            self.simulator,
            self.folder,
            DB_ENCRYPTION_KEY=self.key,
            API_TIMEOUT_SECONDS="5",
            # The records' days are counted by the clock that jumps, by years as well.
            NOTARIUM_AUDIT_DAYS="36500",
            NOTARIUM_DESTRUCTIVE="trust",
        )

    def command(self, *arguments: str) -> list[str]:
        """The program under the clock that can be set."""
        return [
            sys.executable,
            str(Path(__file__).with_name("jumping.py")),
            str(self.folder / "clock"),
            *arguments,
        ]

    def count(self, what: str) -> None:
        """One more of it, for the summary."""
        with self._lock:
            self.counts[what] += 1

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than the run."""
        self.over.wait(seconds)

    @contextmanager
    def opening(self):
        """While a server opens the cache with the key it was given, that key is not changed."""
        with self._opening:
            yield

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command, to its end; too long is a broken promise."""
        self.count("commands")
        done = subprocess.run(
            self.command(*arguments),
            env=self.env(),
            capture_output=True,
            text=True,
            timeout=COMMAND_PATIENCE,
            check=False,
        )
        self.look_for_secrets(done.stderr, " ".join(arguments[:2]))
        return done

    def rotate(self) -> None:
        """Change the key; the next server is started with the new one."""
        with self._opening:
            self._keys += 1
            key, file = f"raw:{self._keys:064x}", self.folder / "new-key"
            file.touch(mode=0o600)
            file.write_text(key)
            self.secrets.add(key.removeprefix("raw:"))
            done = self.run("rotate-key", "--new-key-file", str(file))
            if done.returncode == 0:
                self.key = key
                self.count("key changes")
            else:
                self.promises.complain(f"rotate-key ended with {done.returncode}: {done.stderr}")

    def look_for_secrets(self, said: str, who: str) -> None:
        """Nothing secret and no word of a note may be in what a program said on standard error."""
        found = [secret for secret in self.secrets if secret in said]
        if found or "tok-" in said:
            self.promises.complain(f"{who} said a {'secret' if found else 'line of a note'}")

    def _changed(self, change: Change) -> None:
        self.promises.arrived(change.id, change.after)


class Client(Talker):
    """A server as a client sees it, which may be killed or stopped by others at any moment."""

    def __init__(self, account: Account, name: str) -> None:
        super().__init__(account.command(), env=account.env())
        self.name, self._account = name, account
        self.killed = False
        self._number = 0
        account.count("servers started")
        account.servers[self.process.pid] = self

    def open(self) -> None:
        """Greet, and see that the cache is open. Raises ``Gone``."""
        self.greet()
        self.result("manage", action="get_stats")

    def receive(self, *, within: float = PATIENCE) -> Any:
        """The next message. Raises ``Gone``; silence is a broken promise, too."""
        try:
            return super().receive(within=within)
        except AssertionError:
            raise Gone from None
        except queue.Empty:
            self._account.promises.complain(f"{self.name}: no answer within {within:.0f} seconds")
            self.process.kill()
            raise Gone from None

    def result(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The whole result of a call. Raises ``Gone``."""
        self._number += 1
        self._account.count("calls")
        try:
            return self.ask(call(self._number, tool, **arguments))["result"]
        except OSError:
            raise Gone from None

    def last_words(self) -> str:
        """Tell how a server ended that has closed its output: exit code and end of standard error."""
        code, _ = self.leave(within=PATIENCE)
        return f"with {code}: {self.errors()[-600:]}"

    def kill(self) -> None:
        """End it as the system does when memory is short."""
        self.killed = True
        self.process.kill()

    def end(self) -> None:
        """Hang up if it is there, look at how it ended and at what it has said."""
        pid = self.process.pid
        self.process.send_signal(signal.SIGCONT)
        self.hang_up()
        try:
            code, _ = super().leave(within=PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
        self._account.servers.pop(pid, None)
        said = self.errors()
        self._account.look_for_secrets(said, self.name)
        if code not in ((0, -signal.SIGKILL) if self.killed else (0,)):
            self._account.promises.complain(f"{self.name} ended with {code}: {said[-600:]}")
        self.__exit__()
