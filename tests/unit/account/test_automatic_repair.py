"""Test that a start repairs a damaged database by itself, where that loses nothing."""

import shutil
import time
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import repair
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.generation import Step
from mcp_notarium.account.inspection import is_damage_marked, mark_damage
from mcp_notarium.audit.chain import AuditEntry
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files import quarantine
from mcp_notarium.storage import integrity
from mcp_notarium.storage.audit_log import AuditTable
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.sync_state import LoadProgress, SyncState
from support import corpus, stories
from support.account import account, database_of, folder_of, open_cheaply
from support.journal_entries import make_unfinished
from support.long import dice, sample

PAGE = 4096
NOTES = 40
RECORDS = 30
NEVER = {Step.ANCHOR}
"""Steps of other changes."""
WRITE = make_unfinished(Content("unsaved text " * 2000), "nobody")


@pytest.fixture(name="config", scope="module")
def _config(tmp_path_factory):
    """A small cache with notes, an unfinished write, a setting and audit records."""
    config = account(tmp_path_factory.mktemp("healing"))
    with closing(open_cheaply(config)) as opened:
        with opened.database.transaction():
            NoteTable(opened.database).apply(corpus.revisions(NOTES))
            SyncState(opened.database).set_cursor("here")
            SyncState(opened.database).set_progress(LoadProgress(complete=True))
            SyncState(opened.database).set("setting", "kept")
        JournalTable(opened.database).add(WRITE)
        audit = AuditTable(opened.database, audit_keys(opened.data_key).chain_mac)
        audit.append([AuditEntry(at=n, act=f"act {n}") for n in range(RECORDS)], durable=True)
        opened.database.checkpoint()
    return config


@pytest.fixture(name="copy")
def _copy(config, tmp_path):
    copy = replace(config, data_dir=tmp_path / "notarium")
    shutil.copytree(config.data_dir, copy.data_dir)
    return copy


def spoil(config, *pages):
    """Overwrite pages, as if a process had met them."""
    path = database_of(config)
    body = bytearray(path.read_bytes())
    for page in pages:
        body[(page - 1) * PAGE : page * PAGE] = dice(f"page {page}").randbytes(PAGE)
    path.write_bytes(body)
    mark_damage(folder_of(config))


def require_all_state(opened):
    """Raise unless every state is there, and the notes too or to be fetched again."""
    database = opened.database
    assert integrity.check(database) == ()
    assert JournalTable(database).all() == [WRITE]
    state = SyncState(database)
    assert state.get("setting") == "kept"
    audit = AuditTable(database, audit_keys(opened.data_key).chain_mac)
    acts = {record.act for record in audit.records()}
    assert {f"act {n}" for n in range(RECORDS)} <= acts
    assert audit.verify(anchored=None).whole
    if len(NoteTable(database).etags()) < NOTES:
        assert state.cursor() is None
        assert not state.progress().complete
        assert "chain.carried" in acts


@pytest.mark.attack(11)
@pytest.mark.timeout(600)
def test_any_damaged_page_is_repaired_without_loss_or_refused(config, tmp_path):
    pages = range(1, database_of(config).stat().st_size // PAGE + 1)
    healed = 0
    for page in sample("healing", pages, 25):
        copy = replace(config, data_dir=tmp_path / str(page) / "notarium")
        shutil.copytree(config.data_dir, copy.data_dir)
        spoil(copy, page)
        before, refused = database_of(copy).read_bytes(), None
        try:
            with closing(open_cheaply(copy, heal=True)) as opened:
                require_all_state(opened)
                assert not is_damage_marked(folder_of(copy))
                healed += 1
        except LockedError as error:
            refused = error
            assert database_of(copy).read_bytes() == before
        if refused is not None:
            assert refused.verdict is Verdict.DATABASE_DAMAGED
            assert "mcp-notarium" in refused.resolution_hint
        shutil.rmtree(tmp_path / str(page))
    assert healed


def test_the_old_file_is_in_the_quarantine_and_a_notice_says_so(copy):
    spoil(copy, 4)  # the table of notes
    before = database_of(copy).read_bytes()
    with closing(open_cheaply(copy, heal=True)) as opened:
        require_all_state(opened)
        assert "repaired" in opened.notices[0]
    (kept,) = folder_of(copy).quarantine.rglob("*.encrypted")
    assert kept.read_bytes() == before


def test_what_only_this_database_has_is_never_given_up(copy):
    with closing(open_cheaply(copy)) as opened:
        opened.database._connection.set_authorizer(None)  # the guard lets nobody ask for this
        page = opened.database.number("SELECT rootpage FROM sqlite_master WHERE name = 'journal'")
    spoil(copy, page)
    before = database_of(copy).read_bytes()
    with pytest.raises(LockedError) as refused:
        open_cheaply(copy, heal=True)
    assert refused.value.verdict is Verdict.DATABASE_DAMAGED
    assert "mcp-notarium repair" in refused.value.resolution_hint
    assert database_of(copy).read_bytes() == before


def test_a_start_repairs_only_if_it_is_told_to(copy):
    spoil(copy, 4)
    with pytest.raises(LockedError) as refused:
        open_cheaply(copy)
    assert refused.value.verdict is Verdict.DATABASE_DAMAGED


def test_a_repair_comes_before_a_rebuild(copy):
    copy = replace(copy, on_unreadable="rebuild")
    spoil(copy, 4)
    with closing(open_cheaply(copy, heal=True)) as opened:
        assert not opened.created
        require_all_state(opened)


def test_what_cannot_be_repaired_is_rebuilt_if_the_settings_ask_for_that(copy):
    copy = replace(copy, on_unreadable="rebuild")
    spoil(copy, 1)
    with closing(open_cheaply(copy, heal=True)) as opened:
        assert opened.created


def test_a_disk_that_damages_again_and_again_is_not_repaired_for_ever(copy):
    for _ in range(repair.MOST_A_DAY):
        spoil(copy, 4)
        open_cheaply(copy, heal=True).close()
    spoil(copy, 4)
    with pytest.raises(LockedError) as refused:
        open_cheaply(copy, heal=True)
    assert refused.value.verdict is Verdict.DATABASE_DAMAGED


def test_only_databases_in_the_quarantine_count_against_a_repair(copy):
    for _ in range(repair.MOST_A_DAY):  # as `restore --key-file` does
        target = quarantine.create_folder(folder_of(copy), time.time())
        (target / "notarium_keys.json").write_bytes(b"{}")
    spoil(copy, 4)
    with closing(open_cheaply(copy, heal=True)) as opened:
        require_all_state(opened)


@pytest.mark.parametrize("many", [1, repair.MOST_A_DAY])
def test_a_folder_of_the_quarantine_that_cannot_be_listed_counts_as_a_repair(copy, many):
    for _ in range(many):
        target = quarantine.create_folder(folder_of(copy), time.time())
        (target / "/".join("d" * 130)).mkdir(parents=True)
    spoil(copy, 4)
    if many < repair.MOST_A_DAY:
        with closing(open_cheaply(copy, heal=True)) as opened:
            require_all_state(opened)
        return
    with pytest.raises(LockedError) as refused:
        open_cheaply(copy, heal=True)
    assert refused.value.verdict is Verdict.DATABASE_DAMAGED


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_under_a_running_server_nothing_is_repaired_until_it_ends(copy):
    running = open_cheaply(copy)
    spoil(copy, 4)
    with closing(running), pytest.raises(LockedError) as refused:
        open_cheaply(copy, heal=True)
    assert refused.value.verdict is Verdict.BUSY
    with closing(open_cheaply(copy, heal=True)) as opened:
        require_all_state(opened)


def test_of_two_that_start_at_once_one_repairs_and_the_other_waits(copy, tmp_path):
    spoil(copy, 4)
    opened = []

    def start_another(step):
        if step == Step.COPY:
            opened.append(stories.forked(_open, tmp_path))

    with closing(open_cheaply(copy, heal=True, at=start_another)) as first:
        require_all_state(first)
        opened[0].join(60)
        assert opened[0].exitcode == 0
    assert len(list(folder_of(copy).quarantine.rglob("*.encrypted"))) == 1


def _open(folder):
    with closing(open_cheaply(account(folder), heal=True)) as opened:
        require_all_state(opened)


@pytest.mark.parametrize("step", list(Step))
def test_a_repair_that_is_killed_is_repeated_by_the_next_start(copy, tmp_path, step):
    spoil(copy, 4)
    end = stories.run_killed(_heal, tmp_path, step)
    assert end == (0 if step in NEVER else stories.KILLED)
    with closing(open_cheaply(copy, heal=True)) as opened:
        require_all_state(opened)
    assert len(folder_of(copy).generations()) == 1


def _heal(home, at):
    open_cheaply(account(home), heal=True, at=at).close()
