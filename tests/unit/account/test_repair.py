"""A damaged database: what is authentic comes over, what is lost is named, the old files stay."""

import json
import os
import resource
import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import purge, slot_management
from mcp_notarium.account import repair as repairing
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import kdf, recovery_keys, slot_changes
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import CacheFull, InvalidRequest, LockedError, NotariumError, Verdict
from mcp_notarium.files import quarantine
from mcp_notarium.secret import Secret
from mcp_notarium.storage import integrity, table_copy
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.sync_state import SyncState
from support.account import (
    BOUNDS,
    OTHER,
    account,
    database_of,
    fingerprint,
    folder_of,
    made,
    open_cheaply,
)

GIVEN = ChangeOptions(bounds=BOUNDS)
NOTES = 400
PAGE = 4096


def revision(number):
    raw = {
        "tags": ["x"],
        "systemTags": ["markdown"],
        "creationDate": 1600000000.25 + number,
        "modificationDate": 1600000000.5 + number,
        "deleted": False,
        "shareURL": "",
        "publishURL": "",
    }
    return Revision(
        id=f"n{number}",
        etag="1",
        server_version=1,
        content=Content(text=f"note {number} " + "word " * 150, tags=("x",), trash=False),
        pinned=False,
        markdown=False,
        created_at=1.0,
        modified_at=2.0,
        raw=json.dumps(raw).encode(),
    )


@pytest.fixture(name="config", scope="module")
def _config(tmp_path_factory):
    config = made(tmp_path_factory.mktemp("repair"))
    with closing(open_cheaply(config)) as opened:
        for start in range(0, NOTES, 100):  # as they come: note by base, not all notes first
            with opened.database.transaction():
                NoteTable(opened.database).apply(map(revision, range(start, start + 100)))
        with opened.database.transaction():
            SyncState(opened.database).set_cursor("here")
            SyncState(opened.database).set("mark", "kept")
        opened.database.checkpoint()
    return config


@pytest.fixture(name="copy")
def _copy(config, tmp_path):
    """The same account in a folder of its own."""
    copy = replace(config, data_dir=tmp_path / "notarium")
    shutil.copytree(config.data_dir, copy.data_dir)
    return copy


def damage(config, pages):
    with database_of(config).open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE + 100)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 1]))


def repair(config, **options):
    return repairing.repair(config, options=options.pop("options", GIVEN), **options)


def texts(config):
    with closing(open_cheaply(config)) as opened:
        return dict(opened.database.rows("SELECT id, text FROM notes"))


ALL = {f"n{number}": revision(number).content.text for number in range(NOTES)}


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
def test_a_damaged_page_costs_what_is_on_it_and_no_more(copy, share):
    pages = database_of(copy).stat().st_size // PAGE
    damage(copy, [int(pages * share)])
    old = database_of(copy).read_bytes()
    found = repair(copy)
    saved = texts(copy)
    assert saved.items() <= ALL.items()
    assert len(saved) == found.salvaged.notes >= NOTES - 30
    assert len(saved) + len(found.salvaged.lost) >= NOTES
    with closing(open_cheaply(copy)) as opened:
        assert integrity.check(opened.database) == ()
        state = SyncState(opened.database)
        assert state.get("mark") == "kept"
        assert state.cursor() is None
    kept = [path for path in found.quarantine.iterdir() if path.suffix == ".encrypted"]
    assert [path.read_bytes() for path in kept] == [old]
    assert (found.quarantine / "notarium_keys.json").exists()
    assert len(folder_of(copy).generations()) == 1


def test_many_damaged_pages(copy):
    pages = database_of(copy).stat().st_size // PAGE
    damage(copy, range(60, pages, 12))
    found = repair(copy)
    assert 0 < found.salvaged.notes < NOTES
    assert texts(copy).items() <= ALL.items()


def test_a_truncated_file_gives_its_readable_part(copy):
    path = database_of(copy)
    size = path.stat().st_size // PAGE * PAGE
    with path.open("r+b") as file:
        file.truncate(size * 3 // 4 // PAGE * PAGE)
    found = repair(copy)
    assert found.salvaged.notes > 0
    assert texts(copy).items() <= ALL.items()


def test_without_its_first_page_nothing_can_be_found(copy):
    damage(copy, [1])
    before = fingerprint(copy.account_dir)
    with pytest.raises(NotariumError):
        repair(copy)
    assert fingerprint(copy.account_dir) == before


def test_a_sound_database_is_left_alone(copy):
    before = fingerprint(copy.account_dir)
    assert repair(copy) is None
    assert fingerprint(copy.account_dir) == before
    assert texts(copy) == ALL


def test_the_key_must_be_right(copy):
    damage(copy, [50])
    with pytest.raises(LockedError) as error:
        repair(copy, options=replace(GIVEN, old=Secret(OTHER)))
    assert error.value.verdict is Verdict.WRONG_KEY


@pytest.mark.slow("waits two seconds for the lock of a running server")
def test_while_somebody_has_it_open_it_is_refused(copy):
    with closing(open_cheaply(copy)), pytest.raises(LockedError) as error:
        repair(copy)
    assert error.value.verdict is Verdict.BUSY


@pytest.mark.parametrize("step", ["prepare", "create", "copy", "verify"])
def test_a_disk_that_fills_up_leaves_the_old_files_alone(copy, step):
    damage(copy, [50])
    before = fingerprint(copy.account_dir)

    def fail(name):
        if name == step:
            raise OSError(28, "No space left on device")

    with pytest.raises(CacheFull):
        repair(copy, options=replace(GIVEN, at=fail))
    assert fingerprint(copy.account_dir) == before


def test_a_disk_that_fills_up_under_the_work_copy_keeps_nothing_of_it(copy):
    damage(copy, [50])
    before = fingerprint(copy.account_dir)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50 * PAGE, limits[1]))
    try:
        with pytest.raises(CacheFull):
            repair(copy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert fingerprint(copy.account_dir) == before


def test_where_there_is_no_cache_nothing_is_made(tmp_path):
    with pytest.raises(LockedError):
        repair(account(tmp_path))
    assert purge.reset_account(account(tmp_path)) is None


def test_an_unencrypted_cache_is_refused_with_the_way_out_that_works(tmp_path):
    config = made(tmp_path, db_encryption=False)
    with pytest.raises(InvalidRequest) as refused:
        repairing.repair(config)
    assert "encrypted" in refused.value.message
    assert "mcp-notarium reset-cache" in refused.value.resolution_hint


@pytest.mark.parametrize("on_unreadable", ["refuse", "rebuild"])
@pytest.mark.parametrize(
    ("lost", "verdict", "way_out"),
    [
        ("key files", Verdict.KEY_FILE_DAMAGED, "mcp-notarium keys restore"),
        ("database", Verdict.DATABASE_MISSING, "mcp-notarium reset-cache"),
        ("content", Verdict.DATABASE_MISSING, "mcp-notarium reset-cache"),
    ],
)
def test_what_is_lost_and_not_damaged_is_named(copy, lost, verdict, way_out, on_unreadable):
    folder = folder_of(copy)
    if lost == "key files":
        folder.key_file.unlink()
        folder.key_copy.unlink()
    elif lost == "database":
        database_of(copy).unlink()
    else:
        database_of(copy).write_bytes(b"")
    before = fingerprint(copy.account_dir)
    with pytest.raises(LockedError) as error:
        repair(replace(copy, on_unreadable=on_unreadable))
    assert error.value.verdict is verdict
    assert way_out in error.value.resolution_hint
    assert fingerprint(copy.account_dir) == before


@pytest.mark.parametrize("kept", [0.25, 0.5, 0.75])
def test_a_truncated_file_is_reported_completely_and_quickly(copy, kept, monkeypatch):
    path = database_of(copy)
    os.truncate(path, int(path.stat().st_size * kept) // PAGE * PAGE)
    connections = []
    real = repairing._open
    monkeypatch.setattr(repairing, "_open", lambda *a: connections.append(a) or real(*a))
    found = repair(copy).salvaged
    assert found.expected in {NOTES, None}
    assert found.notes + len(found.lost) <= 2 * NOTES, "nothing that never was is counted"
    assert max(found.lost, default=0) <= 2 * NOTES
    assert len(connections) < 3 * NOTES
    assert len(texts(copy)) == found.notes


def test_where_no_end_is_readable_the_search_for_it_ends(copy, monkeypatch):
    monkeypatch.setattr(table_copy, "_last_key", lambda _opens: None)
    damage(copy, [50])
    found = repair(copy).salvaged
    assert found.open_end
    assert found.notes >= NOTES - 30


@pytest.mark.parametrize("step", ["prepare", "copy"])
def test_files_of_a_killed_repair_are_removed_by_the_next(copy, step):
    damage(copy, [50])
    old = database_of(copy).read_bytes()

    def die(name):
        if name == step:
            os._exit(9)

    child = os.fork()
    if not child:
        repair(copy, options=replace(GIVEN, at=die))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    work = quarantine.work_folder(folder_of(copy))
    assert work.is_dir()
    found = repair(copy)
    assert not work.exists()
    files = [path for path in folder_of(copy).quarantine.rglob("*") if path.is_file()]
    copies = [path for path in files if path.read_bytes() == old]
    assert copies == [found.quarantine / copies[0].name]


def test_every_key_opens_the_repaired_cache_and_every_slot_is_as_it_was(copy):
    slot_management.add(copy, Secret(OTHER), label="spare", parameters=kdf.CHEAPEST, options=GIVEN)
    paper = recovery_keys.generate()
    slot_management.add(copy, paper, label="on paper", options=GIVEN)
    slot_management.change_slot(copy, 2, slot_changes.mark_compromised, options=GIVEN)
    before = slot_management.list_slots(copy, None, bounds=BOUNDS).keyfile
    damage(copy, [30, 31])
    repairing.repair(copy, options=GIVEN)
    after = slot_management.list_slots(copy, None, bounds=BOUNDS).keyfile
    assert (after.slots, after.vault_id) == (before.slots, before.vault_id)
    assert after.sequence == before.sequence + 1
    assert after.generation != before.generation
    assert after.database_salt != before.database_salt
    for key in (copy.db_key, Secret(OTHER), paper):
        open_cheaply(replace(copy, db_key=key)).close()


def test_the_key_file_of_before_a_repair_is_refused_as_an_old_one(copy):
    folder = folder_of(copy)
    old = folder.key_file.read_bytes()
    damage(copy, [30])
    repairing.repair(copy, options=GIVEN)
    folder.key_file.write_bytes(old)
    with pytest.raises(LockedError) as refused:
        open_cheaply(copy)
    assert refused.value.verdict is Verdict.ROLLBACK_SEEN
