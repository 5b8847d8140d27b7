"""Count what one save costs the disk, and stop it anywhere: what was sent is on record, and not lost.

A save is two flushed transactions, and between them a commit that the second one flushes.
"""

import functools
import os
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from mcp_notarium.audit.chain import ChainMac
from mcp_notarium.storage import integrity
from mcp_notarium.storage.audit_log import AuditTable
from support import cache_room, disk_trace, power_loss, saving_child
from support.disk_trace import Flush, FlushFolder, Named, Write
from support.long import dice, sample
from support.stories import KILLED, forked

FRAME_HEADER = 24
COMMAND = [sys.executable, saving_child.__file__]
STOPS = 11
CUTS = range(600)
SAVE = "tool.save"


@functools.cache
def recorded():
    """A save as the kernel sees it."""
    disk_trace.demand()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve() / "home"
        home.mkdir(mode=0o700)
        return disk_trace.record(COMMAND, root=home, trace=home.parent / "trace", env=os.environ)


def commits(operations, log):
    """Count the transactions in a write-ahead log: their last frame says how large the database is."""
    frames = [one.data for one in operations if isinstance(one, Write) and one.file == log]
    heads = [data for data in frames if len(data) == FRAME_HEADER]
    return sum(any(head[4:8]) for head in heads)


@pytest.mark.slow("records a process under strace")
def test_a_save_costs_two_flushed_transactions():
    recording = recorded()
    (log,) = {
        file
        for one in recording.operations
        if isinstance(one, Named)
        for path, file in one.names
        if path.name == "cache.sqlite-wal" and file is not None
    }
    begins, answered = recording.reported_at("begins"), recording.reported_at("answered")
    operations = recording.operations[begins:answered]
    flushed = [one for one in operations if isinstance(one, Flush | FlushFolder)]
    assert flushed == [Flush(log)] * 2
    assert commits(operations, log) == 3


def check_left(home, *, sent, answered):
    """What was sent has a record and is in the journal or stored; what was answered is stored."""
    with closing(cache_room.reopen(home, key=None, name="cache.sqlite")) as cache:
        assert integrity.check(cache.database) == ()
        records = list(AuditTable(cache.database, ChainMac(None)).records())
        begun = [record.number for record in records if record.act == SAVE and not record.outcome]
        ended = {record.refers for record in records if record.outcome == "ok"}
        ((text,),) = cache.database.rows("SELECT text FROM notes")
        journal = [write.content.text for write in cache.journal.all()]
    assert len(begun) <= 2
    if sent:
        assert len(begun) == 2
        assert text == "two\n" or journal == ["two\n"]
    if answered:
        assert (text, journal) == ("two\n", [])
        assert begun[1] in ended


@pytest.mark.parametrize("stop", [*sample("save kills", range(1, STOPS + 1), 5), STOPS + 1])
def test_a_save_that_is_killed_anywhere_is_on_record_if_it_was_sent(place, stop):
    child = forked(saving_child.save_killed, place, stop)
    child.join(60)
    assert child.exitcode == (KILLED if stop <= STOPS else 0)
    said = (place / "said").read_text()
    check_left(place, sent="sent" in said, answered="answered" in said)


def cut(place, number, *, heeded=lambda _one: True):
    """Cut the power at a moment after the first save, and check what is left."""
    recording = recorded()
    chance = dice(f"save {number}")
    begins = recording.reported_at("begins")
    moment = chance.randint(begins, len(recording.operations))
    disk = power_loss.cut_power(recording, moment, chance, heeded=heeded)
    home = place / f"home-{number}"
    disk.lay_out(recording.root, home, chance)
    check_left(
        home,
        sent=moment > recording.reported_at("sent"),
        answered=moment > recording.reported_at("answered"),
    )


@pytest.mark.slow("records a process under strace")
def test_after_a_power_cut_what_was_sent_is_on_record_and_what_was_answered_is_stored(place):
    for number in sample("save power cuts", CUTS, 40):
        cut(place, number)


@pytest.mark.slow("records a process under strace")
def test_if_the_disk_takes_no_notice_of_the_flushes_of_a_save_something_is_lost(place):
    recording = recorded()
    ignored = {id(one) for one in recording.operations[recording.reported_at("begins") :]}
    with pytest.raises(AssertionError):  # else the test before would prove nothing
        cut_often(place, heeded=lambda one: not (isinstance(one, Flush) and id(one) in ignored))


def cut_often(place, *, heeded):
    for number in CUTS:
        cut(place, number, heeded=heeded)
