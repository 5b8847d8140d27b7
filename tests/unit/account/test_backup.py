"""A backup that does not fit on the disk or cannot be read back leaves nothing behind, and one is restored in place."""

import errno
import tempfile
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mcp_notarium.account import backup, copies
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import user_key
from mcp_notarium.errors import (
    CacheDamaged,
    CacheFull,
    ConfigError,
    InvalidRequest,
    LockedError,
    Verdict,
)
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.stores.local.kind import TABLES
from support.account import PASSPHRASE, account, open_cheaply
from support.local_notebook import OtherProcess, local
from support.long import LONG, dice

OTHER_PASSPHRASE = "eleven quiet lamps beside a wooden door"
NOW = 1_763_683_200.0
GIVEN = ChangeOptions(old=Secret(PASSPHRASE), clock=lambda: NOW + 1000, timeout=0.1)


@pytest.fixture
def config(tmp_path):
    return account(tmp_path, **local())


def put(config, text):
    with closing(open_cheaply(config)) as opened:
        OtherProcess(Cache(opened.database)).put("n", text)


def text(config):
    with closing(open_cheaply(config)) as opened:
        return OtherProcess(Cache(opened.database)).get("n").content.text


def back_up(config, path):
    with closing(open_cheaply(config)) as opened:
        return backup.back_up(opened, TABLES, path, now=NOW)


def test_a_backup_is_restored_over_later_changes_and_leaves_no_copy(config, tmp_path):
    put(config, "one")
    back_up(config, tmp_path / "b")
    put(config, "two")
    done = backup.restore(config, tmp_path / "b", options=GIVEN)
    assert text(config) == "one"
    assert done.result.quarantine is not None
    assert not done.copy.path.exists()


def elsewhere(tmp_path):
    """The same notebook as another machine makes it, with another key."""
    return account(tmp_path / "elsewhere", **local(), db_key=Secret(OTHER_PASSPHRASE))


def test_an_account_that_was_only_set_up_makes_room_for_the_backup(config, tmp_path):
    put(config, "one")
    back_up(config, tmp_path / "b")
    new = elsewhere(tmp_path)
    open_cheaply(new).close()
    backup.restore(new, tmp_path / "b", options=GIVEN)
    assert text(replace(new, db_key=Secret(PASSPHRASE))) == "one"
    assert len(list(new.account_dir.glob("quarantine/*/notarium_cache*.encrypted"))) == 1


def damage_a_page(path):
    """Write the zip file again, whole, around a database that is not."""
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, data in parts.items():
            at = len(data) // 2
            database = name.endswith(".encrypted")
            file.writestr(name, data[:at] + bytes(64) + data[at + 64 :] if database else data)


@pytest.mark.parametrize("wrong", ["used", "locked", "damaged"])
def test_an_account_with_other_keys_is_left_alone(config, tmp_path, wrong):
    put(config, "x" * 20_000)
    back_up(config, tmp_path / "b")
    new = elsewhere(tmp_path)
    open_cheaply(new).close()
    if wrong == "used":
        put(new, "nowhere else")
    elif wrong == "locked":
        new = replace(new, db_key=Secret("a passphrase that opens nothing here"))
    else:
        damage_a_page(tmp_path / "b")
    before = {one: one.read_bytes() for one in new.account_dir.glob("*") if one.is_file()}
    with pytest.raises(InvalidRequest):
        backup.restore(new, tmp_path / "b", options=GIVEN)
    assert {one: one.read_bytes() for one in new.account_dir.glob("*") if one.is_file()} == before
    assert not (new.account_dir / "quarantine").exists()


def test_a_backup_that_cannot_be_made_leaves_nothing(config, tmp_path, monkeypatch):
    put(config, "one")
    before = {*tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(backup.shutil, "disk_usage", lambda _: SimpleNamespace(free=4096))
        with pytest.raises(CacheFull):
            back_up(config, tmp_path / "b")

    def damaged(*_):
        raise CacheDamaged("a page of the copy is not authentic")

    with monkeypatch.context() as patch:
        patch.setattr(copies, "require_authentic", damaged)
        with pytest.raises(CacheDamaged):
            back_up(config, tmp_path / "b")
    with pytest.raises(ConfigError):
        back_up(config, tmp_path / "missing" / "b")
    assert {*tmp_path.iterdir()} == before


def test_the_next_backup_removes_what_a_killed_one_has_left(config, tmp_path):
    for name in (".b.0123456789ab.tmp", ".b.ba9876543210.tmp"):
        (tmp_path / name).touch()
    back_up(config, tmp_path / "b")
    assert not list(tmp_path.glob(".b*"))


def test_a_backup_that_does_not_fit_says_so(config, tmp_path, monkeypatch):
    back_up(config, tmp_path / "b")

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(backup.shutil, "copyfileobj", full)
    with pytest.raises(CacheFull):
        backup.restore(account(tmp_path / "new", **local()), tmp_path / "b", options=GIVEN)
    assert not [one for one in (tmp_path / "new").rglob("*") if one.is_file()]


def test_a_changed_byte_or_a_missing_end_is_said_and_nothing_is_left(config, tmp_path):
    put(config, "one " * 2000)
    back_up(config, tmp_path / "b")
    whole = (tmp_path / "b").read_bytes()
    draw = dice("backup")
    for place in (draw.randrange(len(whole)) for _ in range(400 if LONG else 6)):
        flipped = bytes([whole[place] ^ 1 << draw.randrange(8)])
        for damaged in (whole[:place], whole[:place] + flipped + whole[place + 1 :]):
            folder = Path(tempfile.mkdtemp(dir=tmp_path))
            elsewhere = account(folder, **local())
            (tmp_path / "d").write_bytes(damaged)
            said = ""
            try:
                backup.restore(elsewhere, tmp_path / "d", options=GIVEN)
            except InvalidRequest as error:
                said = error.message
            if said:
                assert "is damaged, or no backup" in said
                assert [one for one in folder.rglob("*") if one.is_file()] == []
            else:  # a date or a mode in the zip file, which nobody reads
                assert len(damaged) == len(whole)
                assert text(elsewhere) == "one " * 2000


def test_a_file_that_is_compressed_is_no_backup(config, tmp_path):
    back_up(config, tmp_path / "b")
    with (
        zipfile.ZipFile(tmp_path / "b") as file,
        zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in file.namelist():
            bomb.writestr(name, file.read(name))
    with pytest.raises(InvalidRequest, match="no backup"):
        backup.restore(account(tmp_path / "new", **local()), tmp_path / "bomb", options=GIVEN)


def test_a_wrong_key_is_said_of_the_backup_and_nothing_is_changed(config, tmp_path):
    put(config, "one")
    back_up(config, tmp_path / "b")
    elsewhere = account(tmp_path / "new", **local())
    wrong = replace(GIVEN, old=Secret("not the passphrase of the account"))
    with pytest.raises(LockedError, match="does not open this backup") as raised:
        backup.restore(elsewhere, tmp_path / "b", options=wrong)
    assert raised.value.verdict is Verdict.WRONG_KEY
    mistyped = replace(GIVEN, old=Secret(user_key.generate_recovery_key().reveal_text()[:-1]))
    with pytest.raises(LockedError, match="nine groups of four"):
        backup.restore(elsewhere, tmp_path / "b", options=mistyped)
    assert not [one for one in (tmp_path / "new").rglob("*") if one.is_file()]


def test_a_backup_and_its_restoration_report_their_progress_to_the_end(config, tmp_path):
    copied, written = [], []
    put(config, "one")
    with closing(open_cheaply(config)) as opened:
        backup.back_up(
            opened, TABLES, tmp_path / "b", now=NOW,
            on_progress=lambda done, of: copied.append((done, of)),
        )  # fmt: skip
    backup.restore(
        config, tmp_path / "b", options=GIVEN,
        on_progress=lambda done, of: written.append((done, of)),
    )  # fmt: skip
    for done, of in (copied[-1], written[-1]):
        assert done == of > 0
