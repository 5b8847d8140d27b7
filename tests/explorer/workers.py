"""Let threads of the product run one at a time, and stop in the middle of what they do.

A worker is a real thread that holds the only turn, or is parked. At a *moment* of its work the schedule may park it, let others act, and let it go on later;
sleeping parks it for simulated seconds, and so does a lock that another one holds. A worker of a dead process goes on once more, only to raise ``Killed``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from types import SimpleNamespace
from typing import TYPE_CHECKING

from explorer.loop import OWNER, DeterministicLoop, Owner
from explorer.machine import Killed, Process

if TYPE_CHECKING:
    from explorer.choices import Chooser

_local = threading.local()


class _Thread:
    """A real thread, which serves one worker after the other: to start one takes longer than most of their work."""

    def __init__(self) -> None:
        self._has_work = _closed_gate()
        self._worker: Worker
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self, worker: Worker) -> None:
        """Let it serve a worker."""
        self._worker = worker
        self._has_work.release()

    def _serve(self) -> None:
        while True:
            self._has_work.acquire()
            self._worker.run(self)


_idle: list[_Thread] = []


def _closed_gate() -> threading.Lock:
    """Return a lock that the first ``acquire`` waits at, until somebody releases it."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class Worker:
    """One thread of the product."""

    def __init__(self, workers: Workers, target: Callable[[], object]) -> None:
        self._workers = workers
        self._target = target
        self._context = copy_context()
        self.owner = OWNER.get()
        self._turn, self._gives_back = _closed_gate(), _closed_gate()

    def start(self) -> None:
        """Begin when the schedule says so."""
        name = "" if self.owner is None else self.owner.name
        self._workers.loop.expect(f"{name}: a thread works", self._begin)

    def _begin(self) -> None:
        thread = _idle.pop() if _idle else _Thread()
        thread.take(self)
        self._gives_back.acquire()

    def run(self, thread: _Thread) -> None:
        """Do the work, in this thread."""
        _local.worker = self
        try:
            self._context.run(self._target)
        finally:
            _idle.append(thread)
            self._gives_back.release()

    def go_on(self) -> None:
        """Give the turn to a parked worker until it parks again or ends. Whoever calls has the turn."""
        assert self in self._workers.parked, "nobody would give the turn back"
        self._turn.release()
        self._gives_back.acquire()

    def park(self) -> None:
        """Give the turn back until :meth:`go_on`. Raises ``Killed``."""
        self._workers.parked.append(self)
        self._gives_back.release()
        self._turn.acquire()
        self._workers.parked.remove(self)
        require_alive()


class Workers:
    """All workers of a run."""

    def __init__(self, loop: DeterministicLoop, chooser: Chooser) -> None:
        self.loop = loop
        self._chooser = chooser
        self.parked: list[Worker] = []
        self.threading = SimpleNamespace(
            Thread=lambda *, target, **_how: Worker(self, target),
            Lock=threading.Lock,
            stack_size=lambda _size: 0,
        )
        """What ``mcp_notarium.threads`` takes for the module of this name."""

    def follow(self, process: Process) -> None:
        """End the workers of a process with it."""
        process.ends.append(lambda: self._end(process))

    def _end(self, owner: Owner) -> None:
        for worker in [one for one in self.parked if one.owner is owner]:
            worker.go_on()

    def moment(self, what: str, *, kill: bool = False) -> None:
        """Let others act now, or end the process here (``kill``), if the schedule says so. Raises ``Killed``."""
        require_alive()
        owner, worker = OWNER.get(), getattr(_local, "worker", None)
        if not isinstance(owner, Process) or worker is None:
            return
        if kill:
            owner.place(what)
        label = f"{owner.name} is kept waiting: {what}"
        if self._chooser.choose(label, 2, rate=self._chooser.rates.order / 2):
            self.loop.expect(f"{owner.name} goes on: {what}", worker.go_on)
            worker.park()

    def sleep(self, seconds: float) -> None:
        """Let simulated seconds pass."""
        worker = getattr(_local, "worker", None)
        assert worker is not None, "only threads sleep here"
        self.loop.call_later(seconds, worker.go_on)
        worker.park()


class TurnLock:
    """A lock for workers: whoever waits for it is parked."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._held = False
        self._waiting: list[Worker] = []

    def __enter__(self) -> None:
        worker = getattr(_local, "worker", None)
        while self._held:
            assert worker is not None, "a worker has the lock"
            self._waiting.append(worker)
            worker.park()
        self._held = True

    def __exit__(self, *_raised: object) -> None:
        self._held = False
        if self._waiting:
            worker = self._waiting.pop(0)
            if worker.owner is None or not worker.owner.dead:
                self._workers.loop.call_soon(worker.go_on)


def require_alive() -> None:
    """Raise ``Killed`` if the process of whoever calls is dead: nothing of it may happen any more."""
    owner = OWNER.get()
    if owner is not None and owner.dead:
        raise Killed
