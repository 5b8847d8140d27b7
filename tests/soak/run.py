"""Run a soak: its participants, its duration, its report."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from soak import ending
from soak.account import Account, Client
from soak.actor import Actor
from soak.agent import Agent
from soak.elsewhere import Elsewhere
from soak.measures import MB, Measures, look
from soak.trouble import Trouble

NOTES = 60
FIRST_WRITES, FIRST_PATIENCE = 10, 30.0
"""Trouble begins after so many writes, or so many seconds."""
LOOK = 0.5
"""Seconds between two looks at every server."""
TELL = 60.0
"""Seconds between two lines on how it goes."""


@dataclass
class Outcome:
    """What came of a run; ``wrong`` is empty if every promise was kept."""

    seed: str
    seconds: float
    counts: Counter[str]
    measures: Measures
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the report for people."""
        counts = Counter(self.counts)
        refused = _part(counts, "refused: ")
        faults = _part(counts, "fault: ")
        growth = self.measures.growth()
        grew = "too short to tell" if growth is None else f"{growth[0] / MB:+.1f} MB"
        lines = [f"soak: {self.seconds:.0f} s, seed {self.seed}"]
        lines += [f"  {name:<22}{counts[name]:>8}" for name in sorted(counts)]
        lines += [f"  refusals              {refused}", f"  faults                {faults}"]
        memory, wal = self.measures.most_memory / MB, self.measures.most_wal / MB
        files = self.measures.most_files
        lines += [
            f"  largest server        {memory:.0f} MB, {files} open files",
            f"  growth after warm-up  {grew}",
            f"  largest WAL           {wal:.1f} MB",
        ]
        lines += [f"  BROKEN: {what}" for what in self.wrong[:40]]
        if self.wrong:
            more = f" ({len(self.wrong)} in all)"
            lines += [f"soak: FAILED{more}; again with ./scripts/soak --seed {self.seed}"]
        else:
            lines += ["soak: every promise kept"]
        return "\n".join(lines)


def _part(counts: Counter[str], prefix: str) -> str:
    """Take what begins like this out of the counts, as one line."""
    found = {name: counts.pop(name) for name in list(counts) if name.startswith(prefix)}
    return (
        ", ".join(f"{name.removeprefix(prefix)} {n}" for name, n in sorted(found.items())) or "none"
    )


def seen(counts: Counter[str], *, writes: int) -> bool:
    """Whether so many writes were acknowledged, and a kill, a fault and a jump of a clock came."""
    kinds = list(counts)
    faults = any(kind.startswith("fault: ") for kind in kinds)
    return (
        faults and {"kills", "clock jumps"} <= {*kinds} and counts["acknowledged writes"] >= writes
    )


def soak(
    seconds: float,
    seed: str,
    *,
    pace: float = 1.5,
    enough: Callable[[Counter[str]], bool] = lambda _counts: False,
    kind: type[Account] = Account,
) -> Outcome:
    """Run for so long, then come to rest and judge. Everything is made in a folder that goes away.

    ``kind``: what the agents share. ``pace``: the longest pause between two troubles, and between two edits elsewhere, in seconds.
    ``enough`` ends the run before its time, by what has been counted.
    """
    with tempfile.TemporaryDirectory(prefix="notarium-soak-") as place:
        account = kind(Path(place).resolve())
        with account.simulator.running() if account.has_service else nullcontext():
            _run(account, seconds, seed, pace, enough)
        promises, measures = account.promises, account.measures
        wrong = [*promises.check(account.truth()), *measures.check()]
        if not promises.acknowledged:
            wrong.append("nothing was saved at all")
        lasted = time.monotonic() - account.began
        return Outcome(seed, lasted, account.counts, measures, wrong)


def _run(
    account: Account,
    seconds: float,
    seed: str,
    pace: float,
    enough: Callable[[Counter[str]], bool],
) -> None:
    others = _others(account, seed, pace)
    agents = [Agent(account, "steady", seed, steady=True), Agent(account, "second", seed)]
    agents.append(Agent(account, "visitor", seed, visit=12))
    trouble = Trouble(account, agents, seed, pace=pace)
    watching = Watching(account)
    actors: list[Actor] = [*agents, *others, watching, trouble]
    try:
        for one in (*agents, *others, watching):
            one.start()
        _wait(actors, FIRST_PATIENCE, lambda: account.counts["acknowledged writes"] >= FIRST_WRITES)
        trouble.start()
        _wait(actors, seconds, lambda: enough(account.counts))
        account.over.set()
        for one in actors:
            one.join(ending.MOST_SECONDS)
        # One with the newest password; those that have an old one get the news through it.
        newcomer = Client(account, "newcomer")
        newcomer.open()
        clients = [newcomer, *(agent.client for agent in agents if agent.client is not None)]
        for client in clients:
            ending.agree(account, client)
        ending.close(account, clients)
    finally:
        account.over.set()
        for client in list(account.servers.values()):
            client.__exit__()


def _others(account: Account, seed: str, pace: float) -> list[Actor]:
    if not account.has_service:
        return []
    elsewhere = Elsewhere(account, seed, pace=pace)
    for _ in range(NOTES):
        elsewhere.create()
    return [elsewhere]


def _wait(actors: list[Actor], seconds: float, enough: Callable[[], bool]) -> None:
    """So long, or until it is enough or one of them has failed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not enough() and not any(a.failure for a in actors):
        time.sleep(0.1)


class Watching(Actor):
    """Looks at every server, and at the log beside the database; says now and then how it goes."""

    def __init__(self, account: Account) -> None:
        super().__init__("watching")
        self._account = account
        self._said = 0.0

    def act(self) -> None:
        """Until the run is over."""
        while not self._account.over.is_set():
            self._look(time.monotonic() - self._account.began)
            self._account.pause(LOOK)

    def _look(self, at: float) -> None:
        account = self._account
        for pid, client in list(account.servers.items()):
            sample = look(pid, at)
            if sample is not None and client.process.poll() is None:
                account.measures.add(pid, sample)
        for log in account.cache.glob("*-wal"):
            with suppress(FileNotFoundError):
                account.measures.add_wal(log.stat().st_size)
        if at - self._said > TELL:
            self._said = at
            done, broken = account.counts["acknowledged writes"], len(account.promises.broken)
            sys.stderr.write(f"soak: {at:.0f} s, {done} writes, {broken} promises broken\n")
