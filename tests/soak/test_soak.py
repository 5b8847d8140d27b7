"""Run the soak in its short form; ``./scripts/soak`` is the long one."""

import json
import sys
import time
from functools import partial

import pytest

from soak import ending
from soak.account import Account, Client
from soak.run import seen, soak
from support.long import LONG, SEED

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"),
    pytest.mark.timeout(900),
]
SECONDS = 240 if LONG else 120
"""At most; the short form ends as soon as everything has been seen, usually in a tenth of it."""
WRITES = 25


@pytest.mark.slow("goes on until everything has happened")
def test_mixed_load_with_kills_faults_and_clock_jumps_keeps_every_promise():
    everything = partial(seen, writes=WRITES)
    outcome = soak(SECONDS, SEED, pace=0.7, **({} if LONG else {"enough": everything}))
    assert outcome.wrong == [], outcome.text()
    assert everything(outcome.counts), outcome.text()
    happened = {"kills", "stops", "offline", "clock jumps", "key changes", "passwords changed"}
    assert happened <= outcome.counts.keys() or not LONG, outcome.text()


def test_the_clock_of_the_soak_is_the_clock_of_the_server(tmp_path):
    account = Account(tmp_path)
    with account.simulator.running():
        account.clock.set(10 * 365.25 * 86_400)
        client = Client(account, "one")
        client.open()
        client.end()
    exported = account.run("audit", "export").stdout.splitlines()
    started = [one for one in map(json.loads, exported) if one.get("act") == "server.start"]
    assert account.promises.broken == []
    assert [one["at_ms"] / 1000 > time.time() + 9 * 365 * 86_400 for one in started] == [True]


def test_a_server_that_ended_at_rest_is_reported_with_its_exit_code_unless_the_run_killed_it(
    tmp_path,
):
    account = Account(tmp_path)
    with account.simulator.running(), Client(account, "one") as client:
        client.open()
        client.process.kill()
        ending.agree(account, client)
        client.kill()
        ending.agree(account, client)
    [complaint] = account.promises.broken
    assert complaint.startswith("one ended at rest with -9: ")
