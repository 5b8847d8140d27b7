"""Test the audit chain with two writers, kills and a full disk."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from mcp_notarium.audit.chain import ChainMac
from mcp_notarium.secret import Secret
from mcp_notarium.storage.audit_log import AuditTable
from notarium_devtools.simperium import Simulator
from notarium_devtools.simperium.data import prose
from support import needs
from support.cache_room import child, make, reopen
from support.small_disk import SmallDisk
from support.whole import Server, account_folder, environment, run

WRITING = """
import time
from mcp_notarium.audit.chain import AuditKeys
from mcp_notarium.audit.chain import AuditEntry
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.secret import Secret
folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
cache = reopen(folder)
audit_log = AuditLog(cache.database, AuditKeys(Secret(b"c" * 32)), clock=lambda: 1.0, days=365)
say("ready")
if len(sys.argv) > 4:
    folder.joinpath(f"ready.{name}").touch()
    while len(list(folder.glob("ready.*"))) < int(sys.argv[4]):
        pass
for number in range(count):
    time.sleep(0.001)  # or the one that comes first may leave the other no turn
    if number % 3:
        audit_log.buffer(AuditEntry(at=number, act=name))
        audit_log.flush()
    else:
        audit_log.record_begin(AuditEntry(at=number, act=name))
        say(number)
while not audit_log.flush(wait=True):
    pass
cache.close()
say("done")
"""


def table_of(cache) -> AuditTable:
    return AuditTable(cache.database, ChainMac(Secret(b"c" * 32)))


@pytest.mark.attack(50)
def test_two_processes_that_record_at_once_make_one_chain(tmp_path: Path) -> None:
    make(tmp_path).close()
    both = [child(WRITING, tmp_path, name, 300, 2) for name in ("one", "two")]
    for process in both:
        said, complaint = process.communicate(timeout=60)
        assert said.strip().endswith("done"), complaint
    cache = reopen(tmp_path)
    table = table_of(cache)
    acts = [record.act for record in table.records()]
    assert acts.count("one") == acts.count("two") == 300
    assert acts not in (sorted(acts), sorted(acts, reverse=True)), "they took turns"
    assert table.verify(anchored=table.head()).whole
    cache.close()


def test_acts_that_were_recorded_before_a_kill_are_there_after_it(tmp_path: Path) -> None:
    make(tmp_path).close()
    process = child(WRITING, tmp_path, "one", 100_000)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(50)][1:]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    cache = reopen(tmp_path)
    table = table_of(cache)
    recorded = {record.at_ms // 1000 for record in table.records()}
    assert {int(number) for number in said} <= recorded
    assert table.verify(anchored=None).whole
    cache.close()


@pytest.fixture(name="simulator")
def _simulator():
    simulator = Simulator()
    simulator.load([note | {"deleted": False} for note in prose(3, seed=6)])
    with simulator.running():
        yield simulator


@pytest.fixture(name="disk")
def _disk(tmp_path: Path):
    made = SmallDisk(tmp_path / "disk", "24m")
    if not made.mounted:
        needs.lacking("a disk of its own cannot be mounted here")
    yield made
    made.unmount()


def test_on_a_full_disk_nothing_is_sent_that_is_not_on_record(
    simulator: Simulator, disk: SmallDisk
) -> None:
    env = environment(simulator, disk.folder)
    with Server(env) as server:
        server.loaded(3)
        filler = disk.fill()
        before = simulator.notes()
        error = server.error("save", text="must not be sent " * 2000)
        assert error["subcategory"] == "not_recorded"
        assert error["details"]["reason"] == "disk_full"
        assert "space" in error["resolution_hint"]
        assert simulator.notes() == before
        assert server.tool("list")["total_items"] == 3  # reading goes on
        filler.unlink()
        server.tool("save", text="must be sent")
        assert len(simulator.notes()) == len(before) + 1
        assert server.leave() == 0
    done = run(env, "audit", "verify", "--json")
    assert json.loads(done.stdout)["whole"], done.stdout
    shown = run(env, "audit", "tail", "-n", "20", "--json").stdout.splitlines()
    outcomes = [json.loads(line)["outcome"] for line in shown]
    assert "not_recorded" in outcomes  # written when there was room again
    assert account_folder(simulator, disk.folder).joinpath("audit_anchor.json").is_file()
