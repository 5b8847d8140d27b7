"""Keep accounts on Windows: lists of rights, and programs that hold a file while a command replaces, moves or removes it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.account import purge
from mcp_notarium.account.opener import open_cache
from mcp_notarium.cli import draft_files, main
from mcp_notarium.config import Config
from mcp_notarium.errors import ConfigError, InvalidRequest, LockedError, StoreUnavailable, Verdict
from mcp_notarium.files import locks, private_files
from mcp_notarium.sandbox import confinement
from mcp_notarium.secret import Secret
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.database_opener import connect
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.transfer import formats
from support import cheap_stretching, windows_databases
from support.account import PASSPHRASE, account, database_of, folder_of
from support.journal_entries import make_write
from support.local_notebook import OtherProcess, local
from support.memento_file import MementoFile
from support.systems import Windows, on_windows
from support.windows_files import ALL_SHARED, DENIED, JUNCTION, SHARE_READ, SHARE_WRITE, USER
from support.windows_names import Refused, upcase
from support.windows_security import ADMINS

READ, EXISTING, FOLDER, PAGE = 0x80000000, 3, 0x02000000, 4096
OTHER_KEY = "raw:" + "6b" * 32
BUSY, UNSAFE = (
    LockedError(one, "", resolution_hint="").exit_code
    for one in (Verdict.BUSY, Verdict.UNSAFE_PATH)
)
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
        said = capfd.readouterr()
        return code, re.sub(r"\s+", " ", said.err + said.out)

    return run


def put(config: Config, text: str) -> None:
    put_all(config, {"n": text})


def put_all(config: Config, texts: dict[str, str]) -> None:
    with closing(open_cache(config)) as opened:
        for name, text in texts.items():
            OtherProcess(Cache(opened.database)).put(name, text)


def text_of(config: Config, key: str = PASSPHRASE) -> str:
    with closing(open_cache(replace(config, db_key=Secret(key)))) as opened:
        return OtherProcess(Cache(opened.database)).get("n").content.text


def hold(windows: Windows, path: Path, share: int = SHARE_READ) -> int:
    """Open a file as another program does."""
    return windows.model.open(str(path), READ, share, EXISTING, by="other")


def texts_of(config: Config) -> dict[str, bytes]:
    """Return the content of all files of an account but its locks."""
    files = (one for one in config.account_dir.rglob("*") if one.is_file())
    return {one.name: one.read_bytes() for one in files if one.suffix != ".lock"}


def damage(config: Config) -> None:
    path = database_of(config)
    content = bytearray(path.read_bytes())
    content[4 * PAGE - PAGE // 2] ^= 1
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


@pytest.mark.parametrize("place", ["other", "quarantine/2026", ".n.json.0123456789ab.tmp"])
def test_what_lies_behind_a_junction_is_no_file_of_ours(
    windows: Windows, config: Config, run: Run, tmp_path: Path, place: str
) -> None:
    """Python takes a junction for a folder. Here it is one with the same names, as Python sees them."""
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    junction = (out if place.endswith(".tmp") else config.account_dir) / place
    for folder in (out, elsewhere, junction):
        folder.mkdir(parents=True, exist_ok=True)
    for folder in (elsewhere, junction):
        (folder / "precious.txt").write_text("mine", encoding="utf-8")
    windows.model.links[str(junction)] = (str(elsewhere), JUNCTION)
    words = ("export", out / "n.json") if place.endswith(".tmp") else ("purge", "--yes")
    assert run(*words)[0] == 0
    assert (elsewhere / "precious.txt").read_text(encoding="utf-8") == "mine"
    assert str(junction) not in windows.model.links
    assert place.endswith(".tmp") or not config.account_dir.exists()


@pytest.mark.parametrize("name", ["quarantine", "copies", "drafts"])
def test_a_junction_in_the_place_of_a_folder_of_ours_is_refused(
    windows: Windows, config: Config, run: Run, tmp_path: Path, name: str
) -> None:
    (config.account_dir / name).mkdir()
    windows.model.links[str(config.account_dir / name)] = (str(tmp_path), JUNCTION)
    code, said = run("backup", tmp_path / "notes.backup")
    assert (code, f"`{name}` is a symbolic link" in said) == (UNSAFE, True)
    assert f"`move {config.account_dir / name} {config.account_dir / name}.moved`" in said


def test_doctor_looks_at_nothing_behind_a_junction(
    windows: Windows, config: Config, run: Run, tmp_path: Path
) -> None:
    """What lies there is open to others, as Python sees it in the junction."""
    junction, seen = config.account_dir / "other", tmp_path / "elsewhere"
    for folder in (junction, seen):
        folder.mkdir()
        (folder / "theirs.txt").touch()
        windows.model.lists[str(folder / "theirs.txt")] = f"O:{USER}(A;;FA;;;WD)"
    windows.model.links[str(junction)] = (str(seen), JUNCTION)
    code, said = run("doctor")
    assert (code, "theirs.txt" in said) == (0, False)


def test_a_junction_is_moved_itself_and_replaces_nothing(windows: Windows, tmp_path: Path) -> None:
    junction, free, file = tmp_path / "junction", tmp_path / "free", tmp_path / "file.txt"
    junction.mkdir()
    file.write_bytes(b"mine")
    windows.model.links[str(junction)] = (str(tmp_path), JUNCTION)
    with pytest.raises(FileExistsError):
        private_files.SYSTEM.move(junction, file)
    private_files.SYSTEM.move(junction, free)
    assert windows.model.links == {str(free): (str(tmp_path), JUNCTION)}
    assert file.read_bytes() == b"mine"


@pytest.mark.rule("longest path", "prefix is literal")
def test_an_export_has_paths_that_are_longer_than_those_of_old_programs(
    windows: Windows, config: Config, run: Run, tmp_path: Path
) -> None:
    to = tmp_path / ("x" * (200 - len(str(tmp_path)))) / "out"
    to.parent.mkdir()
    title = "long " * 20
    put(config, f"{title}\ntext")
    with pytest.raises(Refused):
        windows.model.open(str(to / ("y" * 60)), READ, ALL_SHARED, EXISTING)
    assert run("export", to)[0] == 0
    (file,) = to.iterdir()
    assert len(str(file)) > 259
    assert not private_files.SYSTEM.access(to, to.lstat()).others_read
    code, said = run("import", to, "--dry-run")
    assert (code, said[:22]) == (0, "1 note in the export: ")


@pytest.mark.rule("longest path", "prefix is literal")
def test_what_a_killed_export_has_left_goes_however_long_its_paths_are(
    windows: Windows, run: Run, tmp_path: Path
) -> None:
    to = tmp_path / ("x" * (200 - len(str(tmp_path)))) / "out"
    left = to.with_name(".out.0123456789ab.tmp") / "files" / ("z" * 100)
    left.parent.mkdir(parents=True)
    left.touch()
    with pytest.raises(Refused):
        windows.model.open(str(left), READ, ALL_SHARED, EXISTING)
    assert run("export", to)[0] == 0
    assert [*to.parent.iterdir()] == [to]


@pytest.mark.rule("prefix is literal")
def test_a_purge_leaves_no_file_however_long_its_path_is(
    windows: Windows, config: Config, run: Run
) -> None:
    left = config.account_dir / "copies" / ("y" * 120) / ("z" * 120)
    left.parent.mkdir(parents=True)
    left.touch()
    assert run("purge", "--yes")[0] == 0
    assert not config.account_dir.exists()


def test_a_tree_that_is_exchanged_for_a_junction_while_it_is_removed_takes_nothing_else_along(
    windows: Windows, tmp_path: Path
) -> None:
    other, acted, number = tmp_path / "other", True, 0
    while acted:
        inner = tmp_path / f".out.{number:012x}.tmp" / "inner"
        for folder in (other, inner):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "file").touch()

        def exchange(inner: Path = inner) -> None:
            with suppress(OSError):
                windows.other.rename(inner, tmp_path / f"away-{inner.parent.name}")
                windows.other.link(inner, other)

        with windows.acting_before(number, exchange) as counted:
            private_files.remove_unfinished(tmp_path / "out")
        assert [one.name for one in other.iterdir()] == ["file"]
        acted, number = counted.acted, number + 1
    assert number > 20


@pytest.mark.parametrize("length", [233, 234])
def test_a_backup_whose_path_sqlite_does_not_take_is_refused(
    windows: Windows, run: Run, tmp_path: Path, length: int
) -> None:
    """The longest name, of a journal, is longer by 26."""
    place = tmp_path / ("x" * (179 - len(str(tmp_path))))
    place.mkdir()
    to = place / ("y" * (length - 181))
    code, said = run("backup", to)
    assert (code != 0, "backup is 1 characters too long" in said) == (length == 234,) * 2, said
    assert [*place.iterdir()] == ([] if code else [to])


def test_notes_behind_a_junction_are_not_imported(
    windows: Windows, run: Run, tmp_path: Path
) -> None:
    for name in ("Own.md", "junction/Precious.md"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    windows.model.links[str(tmp_path / "in/junction")] = (str(tmp_path), JUNCTION)
    code, said = run("import", tmp_path / "in", "--dry-run")
    assert (code, said[:22]) == (0, "1 note in the export: ")


def test_nothing_behind_a_junction_is_read_that_an_import_meets_while_it_reads(
    windows: Windows, tmp_path: Path
) -> None:
    other, acted, number = tmp_path / "other", True, 0
    while acted:
        root = tmp_path / f"in{number}"
        for folder, words in ((other, b"evil"), (root / "inner", b"mine")):
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("A.md", "a.png"):
                (folder / name).write_bytes(words)
        (root / "Top.md").write_text("![](inner/a.png)", encoding="utf-8")

        def exchange(inner: Path = root / "inner", away: Path = tmp_path / f"away{number}") -> None:
            with suppress(OSError):
                windows.other.rename(inner, away)
                windows.other.link(inner, other)

        with (
            windows.acting_before(number, exchange) as counted,
            suppress(InvalidRequest),
            formats.reading(root) as found,
        ):
            assert all("evil" not in note.content.text for note in found.notes)
            for file in (file for note in found.notes for file in note.files):
                assert found.read_file(file) == b"mine"
        acted, number = counted.acted, number + 1
    assert number > 40


HOSTILE = [
    *("CON", "nul.txt", "COM¹", "conin$", "a:b", "a:$DATA", "x.", "x ", "..", "A", "a", "NOTE~1"),
    *("\\\\?\\C:\\x", "C:x", "//server/share", "?*|<>", "\t", "😀" * 200, "é", "e\u0301"),
]
"""First lines that are no names on Windows, or names of others there."""


def test_notes_whose_titles_are_no_names_come_back_from_an_export(
    windows: Windows, config: Config, run: Run, tmp_path: Path
) -> None:
    put_all(config, {f"n{number}": f"{line}\ntext" for number, line in enumerate(HOSTILE)})
    code, said = run("export", tmp_path / "out")
    assert code == 0, said
    found = [*(tmp_path / "out").iterdir()]
    assert len({upcase(one.name) for one in found}) == len(found) == 1 + len(HOSTILE)
    assert [one for one in found if not private_files.SYSTEM.takes_name(one.name)] == []
    code, said = run("import", tmp_path / "out", "--dry-run")
    assert (code, said[:24]) == (0, f"{1 + len(HOSTILE)} notes in the export: ")


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
    assert run("export", tmp_path / "out")[0] == 0
    assert text_of(config) == "after repair"
    assert left_over(tmp_path) == []
    assert run("purge", "--yes")[0] == 0
    windows.settle()
    assert not config.account_dir.exists()


def key_file(config: Config) -> Path:
    return folder_of(config).key_file


def _name(value: object) -> str | None:
    return value[0] if isinstance(value, tuple) else ""


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


@pytest.mark.parametrize(("words", "file", "share"), HELD, ids=_name)
@pytest.mark.parametrize("lasting", [True, False])
def test_a_file_that_another_program_has_is_waited_for_and_then_told(
    windows: Windows,
    config: Config,
    run: Run,
    tmp_path: Path,
    *,
    words: tuple[str, ...],
    file: Callable[[Config], Path],
    share: int,
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
        assert code == BUSY, said
        assert re.search("another program has (it|the cache file) open", said)
        assert f"Close the program that has {held} open" in said
        assert sum(pauses) <= 1
        assert texts_of(config) == before
        windows.model.close_handle(handle)
        code, said = run(*typed)
    assert code == 0, said
    assert left_over(tmp_path) == []
    key = OTHER_KEY if "--new-key-file" in words else PASSPHRASE
    assert text_of(config, key) == "one"


@pytest.mark.rule("databases share no deletion", "share modes")
@pytest.mark.parametrize("words", [("rotate-key", "--reencrypt"), ("purge", "--yes")], ids=str)
def test_a_database_that_cannot_be_removed_is_told_and_removed_the_next_time(
    windows: Windows, config: Config, run: Run, words: tuple[str, ...]
) -> None:
    old = database_of(config)
    handle = hold(windows, old, SHARE_READ | SHARE_WRITE)
    code, said = run(*words)
    assert code == 1, said
    assert f"another program has it open: {old}" in said
    if words[0] == "purge":
        assert "the keys are gone, and nothing that is left can be read" in said
        assert [*texts_of(config)] == [old.name]
    else:
        assert text_of(config) == "one"
    windows.model.close_handle(handle)
    assert run(*words)[0] == 0
    assert not old.exists()


@pytest.mark.rule("deletion is pending", "deleted at the last close")
@pytest.mark.parametrize("words", [("rotate-key", "--reencrypt"), ("purge", "--yes")], ids=str)
def test_a_database_that_is_being_deleted_is_in_nobodys_way(
    windows: Windows, config: Config, run: Run, words: tuple[str, ...]
) -> None:
    old = database_of(config)
    handle = hold(windows, old, ALL_SHARED)
    code, said = run(*words)
    assert code == 0, said
    assert old.exists()
    if words[0] == "rotate-key":
        assert text_of(config) == "one"
        assert run("doctor")[0] == 0
    windows.model.close_handle(handle)
    assert not old.exists()


@pytest.mark.rule("deletion is pending")
def test_a_folder_that_is_being_deleted_is_in_nobodys_way(
    windows: Windows, config: Config, run: Run
) -> None:
    inner = config.account_dir / "other"
    inner.mkdir()
    handle = windows.model.open(str(inner), 1, ALL_SHARED, EXISTING, FOLDER, by="other")
    private_files.SYSTEM.remove_empty(inner)
    private_files.SYSTEM.remove(inner)
    code, said = run("purge", "--yes")
    assert (code, [*config.account_dir.iterdir()]) == (0, [inner]), said
    windows.model.close_handle(handle)
    assert [*config.account_dir.iterdir()] == []


@pytest.mark.rule("locks", "databases share no deletion")
@pytest.mark.parametrize(
    "words", [("rotate-key", "--reencrypt"), ("repair",), ("purge", "--yes")], ids=str
)
def test_no_file_is_replaced_or_removed_while_a_server_has_the_database_open(
    windows: Windows,
    config: Config,
    run: Run,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locks.ServerLock.exclude, "__kwdefaults__", {"timeout": 0.05})
    with closing(open_cache(config)) as opened:
        before = texts_of(config)
        code, said = run(*words)
        assert (code, "servers have this cache open" in said) == (BUSY, True), said
        assert texts_of(config) == before
        OtherProcess(Cache(opened.database)).put("n", "goes on")
        for suffix in ("", "-wal", "-shm"):
            with pytest.raises(OSError, match="open"):
                windows.other.rename(
                    Path(f"{database_of(config)}{suffix}"), config.account_dir / "x"
                )
    assert text_of(config) == "goes on"


@pytest.mark.usefixtures("config")
def test_a_command_to_copy_is_quoted_for_the_shells_of_windows(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "Ada's notes.backup"
    code, said = run("backup", to)
    assert (code, f'restore --backup "{to}" --ask-key' in said) == (0, True)


@pytest.mark.rule("locks")
def test_a_note_is_edited_in_one_window_at_a_time(config: Config) -> None:
    with (
        draft_files.open_draft(config.account_dir, "n"),
        pytest.raises(draft_files.DraftInUse),
        draft_files.open_draft(config.account_dir, "n"),
    ):
        pass


def test_an_editor_that_is_a_script_is_given_no_path_with_a_variable(
    windows: Windows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code.cmd").touch(mode=0o700)
    monkeypatch.setenv("VISUAL", str(tmp_path / "code.cmd"))
    config = account(tmp_path / "%HOME%", **local())
    put(config, "one")
    with draft_files.open_draft(config.account_dir, "n") as draft:
        draft.begin("text", {}, title="Title")
        with pytest.raises(ConfigError, match="cannot be given") as refused:
            draft_files.edit(draft)
    assert ".exe" in refused.value.resolution_hint


@pytest.mark.rule("locks")
def test_one_process_at_a_time_changes_keys(config: Config) -> None:
    folder = folder_of(config)
    with locks.key_lock(folder):
        with pytest.raises(LockedError) as refused, locks.key_lock(folder, timeout=0):
            pass
        assert refused.value.verdict is Verdict.BUSY
    with locks.key_lock(folder, timeout=0):
        pass


@pytest.mark.rule("share modes")
@pytest.mark.parametrize("share", [0, SHARE_READ])
def test_a_database_that_another_program_keeps_is_not_taken_for_damaged(
    windows: Windows, config: Config, share: int
) -> None:
    before, handle = texts_of(config), hold(windows, database_of(config), share)
    with pytest.raises(LockedError) as refused:
        open_cache(config)
    assert refused.value.verdict is Verdict.BUSY
    with pytest.raises(LockedError) as refused:  # also after it has been opened once
        connect(database_of(config), None)
    assert refused.value.verdict is Verdict.BUSY
    assert f"Close the program that has {database_of(config)} open" in refused.value.resolution_hint
    windows.model.close_handle(handle)
    assert texts_of(config) == before
    assert text_of(config) == "one"


@pytest.mark.parametrize(
    ("length", "fits", "letter"), [(171, True, "x"), (172, False, "x"), (172, False, "\U0001f4dd")]
)
def test_a_folder_whose_files_would_have_too_long_paths_is_refused_before_it_is_made(
    config: Config,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    length: int,
    fits: bool,
    letter: str,
) -> None:
    """A letter beyond the first 65,536 is two for Windows."""
    inner = len(str(config.account_dir)) - len(str(config.data_dir))
    needed = length - inner - len(str(tmp_path)) - 1
    double = (len(letter.encode("utf-16-le")) - 2) // 2 * (needed // 2)
    place = tmp_path / ("x" * (needed - 2 * double) + letter * double)
    far = replace(config, data_dir=place)
    assert len(str(far.account_dir).encode("utf-16-le")) == 2 * length
    if fits:
        put(far, "one")
        assert text_of(far) == "one"
        return
    with pytest.raises(LockedError, match="has 172 characters; 171") as refused:
        open_cache(far)
    assert "Set NOTARIUM_DATA_DIR to a folder with a shorter path" in refused.value.resolution_hint
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NOTARIUM_DATA_DIR", str(place))
    code, said = run("setup", "--store", "local", "--no-recovery", "--key", "file", key="")
    assert code == refused.value.exit_code
    assert "has 172 characters" in said
    assert not place.exists()


@pytest.fixture(name="app")
def _app(tmp_path: Path) -> MementoFile:
    app = MementoFile(tmp_path / "dev.db")
    app.put("n", "one")
    return app


@pytest.fixture(name="memento")
def _memento(windows: Windows, app: MementoFile) -> Iterator[MementoStore]:
    store = MementoStore(app.path)
    yield store
    asyncio.run(store.close())


def save(store: MementoStore, text: str) -> None:
    base = asyncio.run(store.get("n"))
    asyncio.run(store.push(make_write(store, "n", replace(base.content, text=text), base)))


@pytest.mark.rule("share modes")
@pytest.mark.parametrize("share", [0, SHARE_READ])
def test_a_file_of_memento_that_another_program_keeps_is_told_and_unchanged(
    windows: Windows, app: MementoFile, memento: MementoStore, share: int
) -> None:
    handle = hold(windows, app.path, share)
    with pytest.raises(StoreUnavailable, match="does not share it") as refused:
        asyncio.run(memento.get("n"))
    assert "close what keeps the file busy" in refused.value.resolution_hint
    windows.model.close_handle(handle)
    assert app.row("n")["content"] == "one"
    save(memento, "two")
    assert app.row("n")["content"] == "two"


@pytest.mark.rule("databases share no deletion", "an open file is not replaced")
def test_a_file_of_memento_is_not_replaced_while_a_server_has_it_open(
    windows: Windows, app: MementoFile, memento: MementoStore, tmp_path: Path
) -> None:
    save(memento, "two")
    other = MementoFile(tmp_path / "other.db")
    other.put("n", "theirs")
    for new in (app.path, tmp_path / "away.db"):
        with pytest.raises(OSError, match=r"error 5|open"):
            windows.other.replace(other.path if new == app.path else app.path, new)
    save(memento, "three")
    asyncio.run(memento.close())
    windows.other.replace(other.path, app.path)
    assert asyncio.run(memento.get("n")).content.text == "theirs"


def export_to(path: Path) -> None:
    with formats.writing("json", path) as export:
        export.put_notes([], lambda _done, _of: None)


@pytest.mark.parametrize(
    "act",
    [
        lambda path: private_files.create_private(path, b"ours"),
        private_files.remove_tree,
        purge._remove,
        export_to,
    ],
    ids=["create", "remove", "purge", "export"],
)
def test_what_may_not_be_looked_at_is_not_taken_for_missing(
    windows: Windows, tmp_path: Path, act: Callable[[Path], object]
) -> None:
    path = tmp_path / "key.txt"
    path.write_bytes(b"theirs")

    def deny(call: str) -> None:
        if call == "CreateFileW" and str(windows.model.calls[-1][1][0]).endswith("key.txt"):
            raise Refused(DENIED)

    windows.model.before = deny
    with pytest.raises((PermissionError, ConfigError)):
        act(path)
    assert path.read_bytes() == b"theirs"


def test_rights_that_cannot_be_read_are_told_beside_those_that_can(
    windows: Windows, config: Config, run: Run
) -> None:
    aside = folder_of(config).quarantine / "20260101T000000Z"
    for name in ("closed.txt", "open.txt"):
        aside.mkdir(parents=True, exist_ok=True)
        (aside / name).touch()
    windows.model.lists[str(aside / "open.txt")] = f"O:{USER}(A;;FA;;;WD)"

    def deny(call: str) -> None:
        if call == "CreateFileW" and str(windows.model.calls[-1][1][0]).endswith("closed.txt"):
            raise Refused(DENIED)

    windows.model.before = deny
    _, said = run("doctor", "--offline")
    assert f"what is in {aside} cannot be checked (permission denied" in said
    assert "1 can be read by others" in said
    assert "open.txt" in said
