"""Windows' page of the port over simulated libraries, see ``support/simulated_windows``."""

import errno
import ntpath
import os
from pathlib import Path

import pytest

from mcp_notarium.system.windows import Windows
from mcp_notarium.system.windows_handles import long_path
from mcp_notarium.system.windows_kernel import Kernel
from support.simulated_windows import ADMINS, EVERYBODY, USER, Simulated

LINK, CLOUD = 0xA000000C, 0x9000001A


@pytest.fixture(name="model")
def _model(rules):
    model = Simulated()
    yield model
    rules |= model.fired


@pytest.fixture(name="pauses")
def _pauses():
    return []


@pytest.fixture(name="windows")
def _windows(model, pauses):
    return Windows(Kernel(model), pause=pauses.append)


def test_what_is_created_is_for_the_user_and_the_system_alone(windows, model, tmp_path):
    folder, file = tmp_path / "account", tmp_path / "account" / "key"
    windows.make_private_folder(folder)
    number = windows.open_private(file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    for place, path in ((folder, folder), (file, file), (number, file)):
        found = windows.access(place, path.lstat())
        assert (found.owner, found.is_private) == ("user", True), path
    assert model.lists[str(folder)] == f"O:{USER}D:P(A;OICI;FA;;;{USER})(A;OICI;FA;;;SY)"
    with pytest.raises(FileExistsError):
        windows.make_private_folder(folder)
    with pytest.raises(FileExistsError):
        windows.open_private(file, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    model.close(number)


@pytest.mark.parametrize(
    ("text", "rights"),
    [
        (f"(A;;FA;;;{USER})(A;;FA;;;BA)(A;;FA;;;SY)(A;;FA;;;CO)", "private"),
        ("(A;;FR;;;WD)", "read"),
        ("(A;;FW;;;S-1-5-11)", "change"),
        ("(A;;0x4;;;S-1-5-11)", "change"),
        ("(A;;0x40;;;S-1-5-11)", "replace"),
        ("(A;;GA;;;S-1-5-21-1-2-3-1002)", "read change replace"),
        ("(A;OICIIO;GA;;;WD)(D;;FA;;;WD)", "private"),
        (" NO_ACCESS_CONTROL", "read change replace"),
    ],
)
def test_the_list_of_rights_tells_what_others_may(windows, model, tmp_path, text, rights):
    model.lists[str(tmp_path)] = f"O:{USER}{text}"
    found = windows.access(tmp_path, tmp_path.lstat())
    may = {
        "private": found.is_private,
        "read": found.others_read,
        "change": found.others_change,
        "replace": found.others_replace,
    }
    assert [name for name, held in may.items() if held] == rights.split()


@pytest.mark.parametrize(
    ("sid", "owner"), [(USER, "user"), (ADMINS, "admin"), (EVERYBODY, "other")]
)
def test_the_owner_is_told(windows, model, tmp_path, sid, owner):
    model.lists[str(tmp_path)] = f"O:{sid}(A;;FA;;;SY)"
    assert windows.access(tmp_path, tmp_path.lstat()).owner == owner


def test_a_drive_that_all_may_change_is_no_folder_that_others_replace(windows, model, tmp_path):
    model.lists = dict.fromkeys(("/", str(tmp_path)), f"O:{ADMINS}(A;;0x1301bf;;;S-1-5-11)")
    assert not windows.access(Path("/"), tmp_path.lstat()).others_replace
    assert windows.access(tmp_path, tmp_path.lstat()).others_replace


def test_the_commands_that_help_name_the_user_by_a_number(windows):
    place = Path("C:/a b")
    said = windows.explain_privacy(place, "", folder=True, reading=True)
    assert f'icacls "{place}" /inheritance:r /grant:r "*{USER}:(OI)(CI)F"' in said
    assert EVERYBODY in windows.explain_privacy(place, "", folder=True, reading=False)
    assert windows.explain_ownership(place, "").endswith(f'/setowner "*{USER}"')
    assert windows.explain_ownership(Path("C:/$a"), "").startswith("icacls 'C:/$a' ")


def test_an_open_file_is_taken_from_others(windows, model, tmp_path):
    file = tmp_path / "log"
    file.write_bytes(b"one\n")
    model.lists[str(file)] = f"O:{USER}(A;;FA;;;WD)"
    number = windows.open_private(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    windows.make_private(number)
    os.write(number, b"two\n")
    model.close(number)
    assert file.read_bytes() == b"one\ntwo\n"
    assert EVERYBODY not in model.lists[str(file)]
    assert "WD" not in model.lists[str(file)]


@pytest.mark.rule("links are followed", "a folder needs backup semantics")
def test_a_link_is_not_followed_and_a_file_of_the_cloud_is_read(windows, model, tmp_path):
    real, link, cloud = tmp_path / "real", tmp_path / "link", tmp_path / "cloud"
    for path in (real, link, cloud):
        path.write_bytes(path.name.encode())
    model.links = {str(link): (str(real), LINK), str(cloud): (str(cloud), CLOUD)}
    with pytest.raises(OSError, match="it is a link") as refused:
        windows.open_regular(link)
    assert refused.value.errno == errno.ELOOP
    with pytest.raises(OSError, match="it is a link"):
        windows.open_private(link, os.O_RDWR | os.O_CREAT)
    with windows.open_regular(link, follow=True) as file:
        assert file.read() == b"real"
    with windows.open_regular(cloud) as file:
        assert file.read() == b"cloud"
    model.links[str(cloud)] = (str(real), CLOUD)
    with pytest.raises(OSError, match="replaced"):
        windows.open_regular(cloud)
    with pytest.raises(PermissionError):
        windows.open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        windows.open_regular(tmp_path / "none")


def test_a_handle_is_closed_if_the_process_can_open_no_more_files(
    windows, model, tmp_path, monkeypatch
):
    (tmp_path / "file").write_bytes(b"x")

    def refuse(_handle, _flags):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(model, "descriptor", refuse)
    for opens in (
        lambda: windows.open_regular(tmp_path / "file"),
        lambda: windows.open_regular(tmp_path / "file", follow=True),
        lambda: windows.open_private(tmp_path / "new", os.O_RDWR | os.O_CREAT),
        lambda: windows.open_top(tmp_path),
    ):
        with pytest.raises(OSError, match="too many"):
            opens()
    assert model._open == {}


@pytest.mark.rule("locks")
def test_locks_exclude_as_they_do_elsewhere_and_let_the_file_be_read(windows, model, tmp_path):
    path = tmp_path / "server.lock"
    one, two = (windows.open_private(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    windows.lock(one, exclusive=False)
    windows.lock(two, exclusive=False)
    with pytest.raises(BlockingIOError):
        windows.lock(one, exclusive=True)
    windows.lock(one, exclusive=False)
    model.close(two)
    windows.lock(one, exclusive=True)
    windows.lock(one, exclusive=True)
    (offset,) = model.locked_offsets()
    assert offset > 1 << 40, "nobody can read a byte that is locked"
    three = windows.open_private(path, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        windows.lock(three, exclusive=False)
    windows.lock(one, exclusive=False)
    windows.lock(three, exclusive=False)
    model.close(one)
    model.close(three)


@pytest.mark.rule("share modes")
def test_a_file_that_a_virus_scanner_holds_is_replaced_a_moment_later(
    windows, model, pauses, tmp_path
):
    old, new = tmp_path / "new.tmp", tmp_path / "keys.json"
    old.write_bytes(b"new")
    new.write_bytes(b"old")
    model.held = {str(new): 3}
    windows.move(old, new)
    assert (new.read_bytes(), old.exists(), len(pauses)) == (b"new", False, 3)


@pytest.mark.rule("an open file is not replaced")
def test_a_file_that_stays_open_is_told_within_a_second_and_nothing_is_lost(
    windows, model, pauses, tmp_path
):
    old, new = tmp_path / "new.tmp", tmp_path / "keys.json"
    old.write_bytes(b"new")
    new.write_bytes(b"old")
    with windows.open_regular(new), pytest.raises(OSError, match="has it open") as refused:
        windows.move(old, new)
    assert refused.value.errno == errno.EBUSY
    assert refused.value.filename == str(new)
    assert 0.5 < sum(pauses) <= 1
    assert (old.read_bytes(), new.read_bytes()) == (b"new", b"old")
    pauses.clear()
    with pytest.raises(FileNotFoundError):
        windows.move(tmp_path / "none", new)
    assert not pauses, "only what may pass is tried again"


def test_a_folder_is_renamed_where_nothing_is(windows, model, tmp_path):
    (tmp_path / "a").mkdir()
    windows.move(tmp_path / "a", tmp_path / "b")
    assert model.calls[-1][1][2] == 8, "no replacement, and waits for the disk"
    (tmp_path / "file").write_bytes(b"")
    windows.move(tmp_path / "file", tmp_path / "other")
    assert model.calls[-1][1][2] == 9


def test_processes_memory_and_the_console(windows, model):
    model.ended = {12}
    assert [windows.has_ended(pid) for pid in (4711, 12, 99, 4)] == [False, True, True, False]
    assert windows.memory_used() == 50 << 20
    windows.forbid_dumps()
    assert {"SetErrorMode", "WerSetFlags"} <= {*model.names()}
    before = model.console
    with windows.hidden_input(0):
        assert model.console == before & ~4
    assert model.console == before
    with pytest.raises(KeyboardInterrupt), windows.hidden_input(0):
        raise KeyboardInterrupt
    assert model.console == before
    windows.drop_typed(0)
    assert model.typed == b""


def test_long_paths_have_the_prefix_that_lifts_the_limit():
    assert long_path(Path("C:/x")) == str(Path("C:/x"))
    for far in ("/" + "x/" * 150 + "y", "/" + "\U0001f4dd" * 120):  # two units of UTF-16 each
        assert long_path(Path(far)) == "\\\\?\\" + far.replace("/", "\\")


@pytest.mark.parametrize(
    ("typed", "prefix"),
    [
        ("\\\\server\\share\\", "\\\\?\\UNC\\server\\share\\"),
        ("//server/share/", "\\\\?\\UNC\\server\\share\\"),
        ("\\\\?\\C:\\", "\\\\?\\C:\\"),
        ("\\\\?\\UNC\\server\\share\\", "\\\\?\\UNC\\server\\share\\"),
        ("C:\\x\\..\\", "\\\\?\\C:\\"),
        ("\\\\.\\C:\\", "\\\\?\\C:\\"),
        ("//./C:/x/../", "\\\\?\\C:\\"),
        ("\\\\.\\UNC\\server\\share\\", "\\\\?\\UNC\\server\\share\\"),
    ],
)
def test_a_long_path_on_a_server_or_with_a_prefix_leads_to_the_same_place(
    typed, prefix, monkeypatch
):
    monkeypatch.setattr(os.path, "abspath", ntpath.abspath)
    assert long_path(f"{typed}{'x' * 250}") == f"{prefix}{'x' * 250}"


def test_a_command_is_split_by_quotes_and_keeps_its_backslashes(windows):
    words = windows.split_command('"C:\\Program Files\\Ed\\ed.exe" --wait C:\\x')
    assert words == ["C:\\Program Files\\Ed\\ed.exe", "--wait", "C:\\x"]
    words = windows.split_command("C:\\O'Brien\\ed.exe --title='\"a b\"\tx#1")
    assert words == ["C:\\O'Brien\\ed.exe", "--title='a b", "x#1"]
    with pytest.raises(ValueError, match="closing"):
        windows.split_command('"C:\\x')


def test_the_shell_that_runs_a_script_takes_no_word_for_a_command(windows):
    script = ["C:\\code.CMD", "C:\\R&D\\my note.md"]
    assert windows.command_line(script) == '"C:\\code.CMD" "C:\\R&D\\my note.md"'
    program = ["C:\\ed.exe", script[1]]
    assert windows.command_line(program) == program
    assert windows.command_line([script[0], "C:\\100%"]) == '"C:\\code.CMD" "C:\\100%"'
    for name in ("%USERNAME%", "a%b\\c%d"):
        assert windows.command_line([program[0], name]) == [program[0], name]
        with pytest.raises(ValueError, match="between two %"):
            windows.command_line([script[0], name])


def test_a_program_is_found_on_path_by_its_endings_and_not_in_the_working_folder(
    windows, tmp_path, monkeypatch
):
    for place in ("here/ed.exe", "here/bin/ed.exe", "one/ed", "two/ed.cmd", "two/ed.txt"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("PATHEXT", raising=False)
    folders = ["", ".", "bin", str(tmp_path / "one"), str(tmp_path / "two")]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    program = str(tmp_path / "two" / "ed.cmd")
    assert [windows.find_program(name) for name in ("ed", "ed.cmd")] == [program, program]
    assert windows.find_program("ed", path=os.pathsep.join(folders[:4])) is None
    assert windows.find_program(str(tmp_path / "here" / "ed")) == str(tmp_path / "here" / "ed.exe")
    monkeypatch.setenv("PATHEXT", os.pathsep.join((".COM", ".EXE")))
    assert windows.find_program("ed") is None


def test_nothing_of_ours_is_below_appdata(windows, monkeypatch):
    """A server that a packaged client starts would get a copy of its own there, and with it another database."""
    monkeypatch.setenv("HOME", "/users/ada")
    folders = {
        windows.user_folder(what, {"APPDATA": "/users/ada/AppData"}) for what in ("config", "data")
    }
    assert {str(one) for one in folders} == {"/users/ada/.mcp-notarium"}
