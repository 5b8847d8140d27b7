"""Cause the failures of a run, by its seed: kills, stops, faults, clocks, logins, keys."""

from __future__ import annotations

import random
import secrets
import signal
from contextlib import suppress

from mcp_notarium.errors import Verdict
from soak.account import Account, Client
from soak.actor import Actor
from soak.agent import Agent

MINUTE, HOUR, DAY, YEAR = 60.0, 3600.0, 86_400.0, 365.25 * 86_400
JUMPS = (0.0, 90.0, -90.0, 20 * MINUTE, -20 * MINUTE, 3 * HOUR, -3 * HOUR, 9 * DAY, -9 * DAY)
LONG_JUMPS = (YEAR, -YEAR, 4 * YEAR, -4 * YEAR, 15 * YEAR, -15 * YEAR)
BUSY = int(Verdict.BUSY)


class Trouble(Actor):
    """Makes trouble until the run is over, then puts everything right. ``pace``: as in elsewhere."""

    def __init__(self, account: Account, agents: list[Agent], seed: str, *, pace: float) -> None:
        super().__init__("trouble")
        self._account = account
        self._simulator = account.simulator
        self._agents = agents
        self._dice = random.Random(f"{seed} trouble")
        self._pace = pace

    def act(self) -> None:
        """Until the run is over. Each kind of trouble comes once, quick ones first, before any again."""
        kills = 8 if self._account.has_service else 24
        quick = [(self._kill, kills), (self._stop, 5), (self._clocks, 8)]
        slow = [(self._rotate, 2), (self._reencrypt, 1), (self._verify, 2), (self._status, 1)]
        if self._account.has_service:
            quick += [(self._fault, 24), (self._offline, 3), (self._token, 3), (self._feed, 4)]
            slow += [(self._password, 1)]
        kinds, weights = zip(*quick, *slow, strict=True)
        once = [kind for kind, _ in self._dice.sample(slow, len(slow))]
        once += [kind for kind, _ in self._dice.sample(quick, len(quick))]
        try:
            while not self._account.over.is_set():
                self._account.pause(self._dice.random() * self._pace)
                drawn = once.pop() if once else self._dice.choices(kinds, weights)[0]
                if not self._account.over.is_set():
                    drawn()
        finally:
            self._end_faults()

    def _end_faults(self) -> None:
        if self._account.has_service:
            self._simulator.faults.clear()
            self._simulator.latency = 0.0
            self._simulator.resume()
        self._account.clock.set(0.0)
        self._account.service_clock.set(0.0)

    def _some_client(self, *, steady: bool) -> Client | None:
        clients = [agent.client for agent in self._agents if steady or not agent.steady]
        return self._dice.choice([one for one in clients if one is not None] or [None])

    def _kill(self) -> None:
        client = self._some_client(steady=False)
        if client is not None:
            self._account.pause(self._dice.random() * 0.3)
            client.kill()
            self._account.count("kills")

    def _stop(self) -> None:
        client = self._some_client(steady=True)
        if client is None:
            return
        with suppress(ProcessLookupError):
            client.signal(signal.SIGSTOP)
            self._account.count("stops")
            self._account.pause(self._dice.choice([0.05, 0.1, 0.5, 0.5, 2.0, 5.0]))
            client.signal(signal.SIGCONT)

    def _fault(self) -> None:
        faults, dice = self._simulator.faults, self._dice
        where = {"method": dice.choice([None, "POST", "GET"]), "times": dice.randrange(1, 6)}
        share = {"share": dice.random()}
        kind, fault, more = dice.choice(
            [
                ("status 500", faults.status, {"status": 500}),
                ("status 503", faults.status, {"status": 503, "retry_after": "1"}),
                ("status 429", faults.status, {"status": 429, "retry_after": dice.choice("0123")}),
                ("bad gateway", faults.bad_gateway, {}),
                ("cut before", faults.cut_before, {}),
                ("cut after", faults.cut_after, {}),
                ("cut answer", faults.cut_answer, share),
                ("truncated", faults.truncate, share),
                ("late", faults.delay, {"seconds": dice.choice([0.3, 2.0, 7.0])}),
                ("late, done", faults.delay, {"seconds": 7.0, "after": True}),
            ]
        )
        fault(**where, **more)
        self._account.count(f"fault: {kind}")
        self._simulator.reset_log()

    def _offline(self) -> None:
        self._simulator.stop_listening()
        self._account.count("offline")
        self._account.pause(self._dice.uniform(0.2, 5.0))
        self._simulator.resume()

    def _feed(self) -> None:
        dice, faults = self._dice, self._simulator.faults
        if dice.random() < 0.3:
            faults.forget_cv()
        elif dice.random() < 0.3:
            self._simulator.bucket().forget_changes()
        else:
            one, two, three = (dice.random() < 0.5 for _ in range(3))
            faults.distort_feed(aggregate=one, duplicate=two, reorder=three)
        self._account.count("fault: change feed")

    def _clocks(self) -> None:
        """Both jump together, or one of them alone; by years, more often by less."""
        jump = self._dice.choice(LONG_JUMPS if self._dice.random() < 0.35 else JUMPS)
        who = self._dice.choice(["both", "both", "ours", "the service's"])
        if who != "the service's":
            self._account.clock.set(jump)
        if who != "ours":
            self._account.service_clock.set(jump)
        self._account.count("clock jumps")

    def _token(self) -> None:
        account = self._simulator.account(self._simulator.username)
        account.token = secrets.token_hex(16)
        self._account.secrets.add(account.token)
        self._account.count("tokens expired")

    def _password(self) -> None:
        """The old one is refused for a while before the clients are given the new one."""
        password = secrets.token_urlsafe(12)
        self._account.secrets |= {password, self._simulator.change_password(password)}
        self._account.count("passwords changed")
        self._account.pause(self._dice.random())
        self._account.logins += 1

    def _rotate(self) -> None:
        self._account.rotate()

    def _reencrypt(self) -> None:
        """Refused while servers are there, whatever they are doing."""
        self._expect(BUSY, "rotate-key", "--reencrypt")

    def _verify(self) -> None:
        self._expect(0, "audit", "verify")

    def _status(self) -> None:
        self._expect(0, "status", "--deep")

    def _expect(self, code: int, *arguments: str) -> None:
        with self._account.opening():
            done = self._account.run(*arguments)
        if done.returncode != code:
            what = f"`{' '.join(arguments)}` ended with {done.returncode}: "
            self._account.promises.complain(what + done.stdout[-400:] + done.stderr[-400:])
