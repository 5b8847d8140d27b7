"""Cut the power at any moment of saves in the local notebook: what was answered is whole, and nothing is half."""

import functools
import os
import random
import shutil
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from mcp_notarium.account import copies, opener, rollback
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.storage import integrity
from mcp_notarium.storage.audit_log import AuditTable
from mcp_notarium.storage.cache import Cache
from support import disk_trace, local_child, power_loss
from support.account import folder_of, made
from support.disk_trace import Flush
from support.local_child import STEPS, configured
from support.local_notebook import OtherProcess, local
from support.long import LONG, sample

CUTS = range(2000)
COMMAND = [sys.executable, local_child.__file__]
pytestmark = [pytest.mark.slow("records a process under strace"), pytest.mark.timeout(600)]


@functools.cache
def recorded():
    """The process as the kernel sees it, after the account was made."""
    disk_trace.demand()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve() / "home"
        home.mkdir(mode=0o700)
        made(home, db_key=local_child.RAW, **local())
        return disk_trace.record(COMMAND, root=home, trace=home.parent / "trace", env=os.environ)


def check_left(home, *, told):
    """``told``: how many texts were answered; the note has one of the later ones, in both tables."""
    config = configured(home)
    with closing(opener.open_cache(config)) as opened:
        cache = Cache(opened.database)
        assert integrity.check(opened.database) == ()
        there = OtherProcess(cache).contents()
        index = {note_id: cache.notes.get(note_id).content for note_id in cache.notes.etags()}
        table = AuditTable(opened.database, audit_keys(opened.data_key).chain_mac)
        assert rollback.find(opened.anchor, table, opened.database, had_log=opened.had_log) is None
        said = opened.anchor.read(opened.database)
        records = list(table.records())
        versions = opened.database.rows(
            "SELECT text FROM note_versions WHERE number > 0 ORDER BY number"
        )
    assert index == there
    kept = [content.text for content in there.values() if content.text != "gone\n"]
    if told:
        assert kept[0] in STEPS[told - 1 :]
    if kept:
        done = STEPS.index(kept[0])
        mine = [
            text for (text,) in versions if text != "gone\n"
        ]  # each note has numbers of its own
        assert mine[:done] == [*STEPS[:done]]
        saves = [record for record in records if record.act == "tool.save" and not record.outcome]
        assert len(saves) >= done + 1
    ended = [record for record in records if record.act == "tool.save" and record.outcome == "ok"]
    assert len(ended) >= told
    if told:
        assert said is not None  # what is never there accuses nobody
    for copy in copies.list_copies(folder_of(config)):
        copies.require_authentic(copy.path, opened.data_key)


def cut(folder, number, *, heeded=lambda _one: True):
    recording = recorded()
    dice = random.Random(f"local {number}")
    moment = power_loss.some_moment(recording, dice)
    home = folder / f"home-{number}"
    disk = power_loss.cut_power(recording, moment, dice, heeded=heeded)
    disk.lay_out(recording.root, home, dice)
    reached = [moment > recording.reported_at(f"saved {text.strip()}") for text in STEPS]
    try:
        check_left(home, told=sum(reached))
        if moment > recording.reported_at("removed"):
            with closing(opener.open_cache(configured(home))) as opened:
                assert len(OtherProcess(Cache(opened.database)).contents()) == 1
    except Exception as error:
        error.add_note(f"power cut {number}, before operation {moment}")
        raise
    shutil.rmtree(home)


def test_what_was_answered_is_whole_after_a_power_cut(tmp_path):
    for number in sample("local notebook", CUTS, 25):
        cut(tmp_path, number)


def test_on_a_disk_that_takes_no_notice_of_flushes_it_is_lost(tmp_path):
    for number in range(2000 if LONG else 200):
        try:
            cut(tmp_path, number, heeded=lambda one: not isinstance(one, Flush))
        except Exception:  # noqa: BLE001 - a lost text or a database that does not open
            return
    pytest.fail("nothing was lost")
