"""A damaged database: the state comes over, the notes are fetched again, the old files stay."""

import json
import os
import resource
import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from mcp_notarium.account import key_changes, purge
from mcp_notarium.account import repair as repairing
from mcp_notarium.account.inspection import is_damage_marked, mark_damage
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import user_key
from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.errors import CacheFull, InvalidRequest, LockedError, NotariumError, Verdict
from mcp_notarium.files import quarantine
from mcp_notarium.secret import Secret
from mcp_notarium.storage import integrity
from mcp_notarium.storage.journal_table import JournalTable
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.sync_state import SyncState
from mcp_notarium.storage.version_table import VersionTable
from support.account import (
    OTHER,
    account,
    database_of,
    fingerprint,
    folder_of,
    made,
    open_cheaply,
)
from support.cheap_costs import CHEAPEST
from support.journal_entries import make_unfinished

WRITE = make_unfinished(Content("unsaved text"), "n7")
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
        JournalTable(opened.database).add(WRITE)
        with opened.database.transaction():
            versions = VersionTable(opened.database)
            versions.keep(revision(3), number=1, at=2e9, by="agent", made=None, in_store=False)
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
    return repairing.repair(config, options=options.pop("options", ChangeOptions()), **options)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9])
def test_a_damaged_page_of_the_index_costs_no_state(copy, share):
    pages = database_of(copy).stat().st_size // PAGE
    damage(copy, [int(pages * share)])
    old = database_of(copy).read_bytes()
    found = repair(copy)
    assert found.salvaged.complete
    assert found.salvaged.writes == 1
    with closing(open_cheaply(copy)) as opened:
        assert integrity.check(opened.database) == ()
        state = SyncState(opened.database)
        assert state.get("mark") == "kept"
        assert state.cursor() is None
        assert not state.progress().complete
        (write,) = JournalTable(opened.database).all()
        assert write == WRITE
        assert VersionTable(opened.database).get("n3", 1)[1] == revision(3).content
        assert NoteTable(opened.database).counts().total <= 1  # the base of the write
    kept = [path for path in found.quarantine.iterdir() if path.suffix == ".encrypted"]
    assert [path.read_bytes() for path in kept] == [old]
    assert (found.quarantine / "notarium_keys.json").exists()
    assert len(folder_of(copy).generations()) == 1


def test_a_truncated_file_gives_what_can_be_read_and_says_if_that_is_not_all(copy):
    path = database_of(copy)
    os.truncate(path, path.stat().st_size // 3 // PAGE * PAGE)
    found = repair(copy)
    with closing(open_cheaply(copy)) as opened:
        assert JournalTable(opened.database).count() == found.salvaged.writes
        assert found.salvaged.complete <= (SyncState(opened.database).get("mark") == "kept")


def test_damage_in_the_full_text_alone_is_rebuilt_in_place(copy):
    with closing(open_cheaply(copy)) as opened:
        generation = opened.anchor.generation
        opened.database.run("UPDATE notes SET text = 'words that are not in it' WHERE pk = 1")
        assert integrity.check(opened.database) != ()
    mark_damage(folder_of(copy))
    found = repair(copy)
    assert found.quarantine is None
    assert not is_damage_marked(folder_of(copy))
    assert not list(folder_of(copy).quarantine.iterdir())
    with closing(open_cheaply(copy)) as opened:
        assert opened.anchor.generation == generation
        assert integrity.check(opened.database) == ()
        assert len(NoteTable(opened.database).etags()) == NOTES


def test_versions_go_on_above_those_that_were_given_before_a_repair(copy):
    with closing(open_cheaply(copy)) as opened, opened.database.transaction():
        notes = NoteTable(opened.database)
        notes.apply([replace(revision(1), etag="other")])  # under the number of before
        given = notes.get("n1").local_version
    assert given == 2
    damage(copy, [60])
    repair(copy)
    with closing(open_cheaply(copy)) as opened, opened.database.transaction():
        notes = NoteTable(opened.database)
        notes.apply([replace(revision(1), etag="third")])
        assert notes.get("n1").local_version > given


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


def test_the_key_must_be_right(copy):
    damage(copy, [50])
    with pytest.raises(LockedError) as error:
        repair(copy, options=ChangeOptions(old=Secret(OTHER)))
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
        repair(copy, options=ChangeOptions(at=fail))
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
        ("key files", Verdict.KEY_FILE_DAMAGED, "mcp-notarium restore --key-file"),
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


@pytest.mark.parametrize("step", ["prepare", "copy"])
def test_files_of_a_killed_repair_are_removed_by_the_next(copy, step):
    damage(copy, [50])
    old = database_of(copy).read_bytes()

    def die(name):
        if name == step:
            os._exit(9)

    child = os.fork()
    if not child:
        repair(copy, options=ChangeOptions(at=die))
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
    key_changes.add(copy, Secret(OTHER), label="spare", parameters=CHEAPEST)
    paper = user_key.generate_recovery_key()
    key_changes.add(copy, paper, label="on paper")
    before = key_changes.list_slots(copy, None).keyfile
    damage(copy, [40, 41])
    repairing.repair(copy)
    after = key_changes.list_slots(copy, None).keyfile
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
    repairing.repair(copy)
    folder.key_file.write_bytes(old)
    with pytest.raises(LockedError) as refused:
        open_cheaply(copy)
    assert refused.value.verdict is Verdict.ROLLBACK_SEEN
