"""Keep accounts on Windows: lists of rights, and programs that hold a file while a command replaces, moves or removes it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.account.opener import open_cache
from mcp_notarium.cli import main
from mcp_notarium.config import Config
from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.files import account_folder, private_files
from mcp_notarium.sandbox import confinement
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from support import cheap_stretching, windows_databases
from support.account import PASSPHRASE, account, database_of, folder_of
from support.local_notebook import OtherProcess, local
from support.systems import Windows, on_windows
from support.windows_files import ALL_SHARED, SHARE_READ, SHARE_WRITE, USER
from support.windows_security import ADMINS

READ, EXISTING, PAGE = 0x80000000, 3, 4096
OTHER_KEY = "raw:" + "6b" * 32
BUSY = LockedError(Verdict.BUSY, "", resolution_hint="").exit_code
Run = Callable[..., tuple[int, str]]


@pytest.fixture(name="windows")
def _windows(rules: set[str]) -> Iterator[Windows]:
    with on_windows(package="mcp_notarium") as system, pytest.MonkeyPatch.context() as patch:
        windows_databases.install(system.model, patch)
        cheap_stretching.install(patch.setattr)
        system.model.lists["/"] = f"O:{ADMINS}(A;OICI;FA;;;{USER})(A;OICI;0x1200a9;;;WD)"
        yield system
        rules |= system.fired


@pytest.fixture(name="config")
def _config(windows: Windows, tmp_path: Path) -> Config:
    """Settings of an account with a note. Everybody may read what is made outside its folder."""
    found = account(tmp_path, **local())
    put(found, "one")
    return found


@pytest.fixture(name="run")
def _run(
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Run:
    """Run a command as it is typed, in this process; return its exit code and what it says."""
    monkeypatch.setattr(confinement, "harden_process", lambda: None)
    for name in [*os.environ]:
        if name.startswith(("NOTARIUM_", "DB_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = {"STORE": "local", "DATA_DIR": str(config.data_dir), "KEYCHAIN": "off"}
    for name, value in settings.items():
        monkeypatch.setenv(f"NOTARIUM_{name}", value)

    def run(*words: str | Path, key: str = PASSPHRASE) -> tuple[int, str]:
        monkeypatch.setenv("DB_ENCRYPTION_KEY", key)  # a command takes it out of the environment
        code = main.run([str(word) for word in words])
        return code, re.sub(r"\s+", " ", capfd.readouterr().err)

    return run


def put(config: Config, text: str) -> None:
    with closing(open_cache(config)) as opened:
        OtherProcess(Cache(opened.database)).put("n", text)


def text_of(config: Config, key: str = PASSPHRASE) -> str:
    with closing(open_cache(replace(config, db_key=Secret(key)))) as opened:
        return OtherProcess(Cache(opened.database)).get("n").content.text


def hold(windows: Windows, path: Path, share: int = SHARE_READ) -> int:
    """Open a file as another program does."""
    return windows.model.open(str(path), READ, share, EXISTING, by="other")


def damage(config: Config) -> None:
    path = database_of(config)
    content = bytearray(path.read_bytes())
    content[-PAGE // 2] ^= 1
    path.write_bytes(content)


def left_over(place: Path) -> list[str]:
    return [one.name for one in place.rglob("*") if re.search(r"\.tmp$|\.new|being-rep", one.name)]


@pytest.mark.rule("lists are handed down", "databases share no deletion")
def test_all_files_of_an_account_are_the_users_alone(
    windows: Windows, config: Config, run: Run, tmp_path: Path
) -> None:
    with closing(open_cache(config)) as opened:
        OtherProcess(Cache(opened.database)).put("n", "two")
        assert len([*config.account_dir.glob("*-wal")]) == 1
        assert run("backup", tmp_path / "notes.backup")[0] == 0
        places = [config.account_dir, *config.account_dir.rglob("*"), tmp_path / "notes.backup"]
        found = {one: private_files.SYSTEM.access(one, one.lstat()) for one in places}
    assert run("restore", "--make")[0] == 0
    damage(config)
    assert run("repair")[0] == 0
    places = [*config.account_dir.rglob("*")]
    assert {"copies", "quarantine"} <= {one.name for one in places}
    found |= {one: private_files.SYSTEM.access(one, one.lstat()) for one in places}
    assert [one for one, access in found.items() if not access.is_private] == []
    assert private_files.SYSTEM.access(tmp_path, tmp_path.lstat()).others_read


@pytest.mark.rule("scanner")
def test_a_scanner_that_has_each_new_file_for_a_moment_hinders_no_command(
    windows: Windows, config: Config, run: Run, tmp_path: Path
) -> None:
    windows.model.scanner = 3
    for words in (
        ("backup", tmp_path / "notes.backup"),
        ("restore", "--make"),
        ("restore", "--backup", tmp_path / "notes.backup", "--yes"),
        ("rotate-key", "--reencrypt"),
        ("repair",),
    ):
        code, said = run(*words)
        assert code == 0, said
        put(config, f"after {words[0]}")
    assert text_of(config) == "after repair"
    assert left_over(tmp_path) == []
    assert run("purge", "--yes")[0] == 0
    windows.settle()
    assert [one for one in config.data_dir.rglob("*") if one.is_file()] == []


def key_file(config: Config) -> Path:
    return folder_of(config).key_file


NOT_REPLACED = pytest.mark.rule("an open file is not replaced")
NOT_SHARED = pytest.mark.rule("share modes")
HELD = [
    pytest.param(("rotate-key", "--new-key-file", "KEY"), key_file, SHARE_READ, marks=NOT_REPLACED),
    pytest.param(("rotate-key", "--reencrypt"), key_file, ALL_SHARED, marks=NOT_REPLACED),
    pytest.param(
        ("restore", "--backup", "BACKUP", "--yes"), key_file, SHARE_READ, marks=NOT_REPLACED
    ),
    pytest.param(("backup", "NEW"), database_of, 0, marks=NOT_SHARED),
    pytest.param(("repair",), database_of, 0, marks=NOT_SHARED),
    pytest.param(("audit", "verify"), database_of, 0, marks=NOT_SHARED),
]


@pytest.mark.parametrize(("words", "file", "share"), HELD, ids=str)
@pytest.mark.parametrize("lasting", [True, False])
def test_a_file_that_another_program_has_is_waited_for_and_then_told(
    windows: Windows,
    config: Config,
    run: Run,
    tmp_path: Path,
    words: tuple[str, ...],
    file: Callable[[Config], Path],
    share: int,
    *,
    lasting: bool,
) -> None:
    places = {one: str(tmp_path / one.lower()) for one in ("BACKUP", "KEY", "NEW")}
    Path(places["KEY"]).write_text(OTHER_KEY)
    assert run("backup", places["BACKUP"])[0] == 0
    if words == ("repair",):
        damage(config)
    typed = [places.get(one, one) for one in words]
    held, pauses, before = file(config), list[float](), texts_of(config)
    handle = hold(windows, held, share)

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if not lasting and len(pauses) == 3:
            windows.model.close_handle(handle)

    windows.pause = pause
    code, said = run(*typed)
    if lasting:
        assert (code, "has it open" in said or "has the cache file open" in said) == (BUSY, True), (
            said
        )
        assert f"Close the program that has {held} open" in said
        assert sum(pauses) <= 1
        assert texts_of(config) == before
        windows.model.close_handle(handle)
        code, said = run(*typed)
    assert code == 0, said
    assert left_over(tmp_path) == []
    key = OTHER_KEY if "--new-key-file" in words else PASSPHRASE
    assert text_of(config, key) == "one"


def texts_of(config: Config) -> dict[str, bytes]:
    """Return the content of all files of an account but its locks."""
    files = (one for one in config.account_dir.rglob("*") if one.is_file())
    return {one.name: one.read_bytes() for one in files if one.suffix != ".lock"}
