"""Check that the simulated Windows is no looser than its documentation: each case quotes a rule."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.simulated_windows import Simulated
from support.windows_files import (
    ALL_SHARED,
    CLOUD,
    JUNCTION,
    OFFLINE,
    READ_ONLY,
    RECALL_ON_DATA_ACCESS,
    SHARE_DELETE,
    SHARE_READ,
    SHARE_WRITE,
)

READ, WRITE, DELETE, ATTRIBUTES = 0x80000000, 0x40000000, 0x10000, 0x80
NEW, EXISTING = 1, 3
BACKUP, ITSELF, NORMAL = 0x02000000, 0x00200000, 0x80


class Caller:
    """Call functions by name, and tell the code of the error; 0: it went well."""

    def __init__(self, model: Simulated, folder: Path) -> None:
        self.model = model
        self.folder = folder

    def __call__(self, name: str, *arguments: object) -> int:
        given = [self.path(one) if isinstance(one, str) else one for one in arguments]
        done = getattr(self.model, f"_{name}")(*given)
        return 0 if done and done != -1 else self.model.last_error()

    def path(self, name: str) -> str:
        return name if name.startswith(("\\\\?\\", "/")) else f"{self.folder}/{name}"

    def open(
        self, name: str, access: int = READ, share: int = ALL_SHARED, how: int = EXISTING,
        flags: int = NORMAL,
    ) -> int:  # fmt: skip
        """Return the handle, or the code of the error, negative."""
        handle = self.model._CreateFileW(self.path(name), access, share, None, how, flags, None)
        return -self.model.last_error() if handle == -1 else handle

    def literal(self, name: str) -> str:
        return "\\\\?\\C:" + f"{self.folder}/{name}".replace("/", "\\")

    def text(self, name: str) -> str:
        return (self.folder / name).read_text()

    def names(self) -> list[str]:
        self.model.settle()
        return sorted(one.name for one in self.folder.iterdir())


@pytest.fixture(name="call")
def _call(tmp_path: Path, rules: set[str]) -> Iterator[Caller]:
    folder = tmp_path / "disk"
    folder.mkdir()
    for name in ("a.md", "b.md"):
        (folder / name).write_text(name)
    model = Simulated()
    yield Caller(model, folder)
    rules |= model.fired
    model.end_process()


@pytest.mark.rule("short names")
def test_a_long_name_has_a_short_one_that_names_the_same_file(call: Caller) -> None:
    for name in ("Notes of today.md", "Notes of tomorrow.md", ".hidden folder", "2026-01-01 diary"):
        (call.folder / name).mkdir()
    for short in ("NOTESO~1.MD", "notes~1.md", "noteso~2.md", "HIDDEN~1", "2026-0~1"):
        opened = call.open(short, ATTRIBUTES, flags=BACKUP)
        assert (opened > 0) is (short != "notes~1.md")
    assert call.open("NOTESO~1.MD", how=NEW) == -80
    assert call.open("a.md") > 0  # it has the form 8.3 itself
    assert call.open("A~1.MD") == -2


@pytest.mark.rule("letter case")
def test_another_letter_case_names_the_same_file(call: Caller) -> None:
    assert call.open("A.MD") > 0
    assert call.open("A.MD", how=NEW) == -80
    assert call("MoveFileExW", "a.md", "B.MD", 0) == 183
    call.model.end_process()
    assert call("MoveFileExW", "a.md", "A.md", 0) == 0
    assert call.names() == ["A.md", "b.md"]


@pytest.mark.rule("prefix is literal", "trailing dots and blanks")
def test_only_a_path_without_the_prefix_is_normalized(call: Caller) -> None:
    assert call.open("x/../a.md. .") > 0
    assert call.open(call.literal("a.md.")) == -2
    for name in ("x/../a.md", "./a.md", "/a.md"):
        assert call.open("\\\\?\\C:" + f"{call.folder}\\{name}".replace("/tmp", "\\tmp")) == -123
    assert call.open(call.literal("c.md."), how=NEW, access=WRITE) > 0
    assert call.names() == ["a.md", "b.md", "c.md."]
    assert call.open("c.md.") == -2


@pytest.mark.rule("longest path")
def test_a_long_path_needs_the_prefix(call: Caller) -> None:
    deep = call.folder
    for _ in range(30):
        deep /= "x" * 10
    deep.mkdir(parents=True)
    (deep / "a.md").write_text("deep")
    name = str((deep / "a.md").relative_to(call.folder))
    assert call.open(name) == -206
    assert call.open(call.literal(name)) > 0


@pytest.mark.rule("device names")
@pytest.mark.parametrize("name", ["NUL", "con.md", "Com1.txt", "LPT¹", "aux .md", "CONOUT$"])
def test_a_device_has_its_name_with_any_ending(call: Caller, name: str) -> None:
    handle = call.open(name, how=NEW, access=WRITE)
    assert call.model._GetFileType(handle) == 2
    assert call.names() == ["a.md", "b.md"]
    assert call.open(call.literal(name), how=NEW, access=WRITE) > 0


@pytest.mark.rule("characters of names")
@pytest.mark.parametrize("name", ["a?.md", "a*.md", "a|b.md", "a\x1f.md", 'a"b.md', "x" * 256])
def test_some_characters_are_in_no_name(call: Caller, name: str) -> None:
    assert call.open(call.literal(name), how=NEW, access=WRITE) == -123
    assert call("CreateDirectoryW", call.literal(name), None) == 123


@pytest.mark.rule("streams")
def test_a_colon_names_a_stream_of_the_file(call: Caller) -> None:
    handle = call.open("a.md:x", how=NEW, access=WRITE)
    os.write(call.model.descriptor(handle, 0), b"stream")
    assert call.open("a.md:y") == -2
    assert call.open("a.md::$DATA") > 0
    assert (call.text("a.md"), call.names()) == ("a.md", ["a.md", "b.md"])
    assert call("MoveFileExW", "b.md", "a.md:z", 0) == 87


@pytest.mark.rule("links are followed")
def test_a_link_leads_on_unless_it_is_asked_for_itself(call: Caller) -> None:
    outside = call.folder.parent / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("outside")
    (call.folder / "link.md").symlink_to(outside / "a.md")
    (call.folder / "junction").mkdir()
    call.model.links[f"{call.folder}/junction"] = (str(outside), JUNCTION)
    for name in ("link.md", "junction/a.md"):
        handle = call.open(name)
        assert os.read(call.model.descriptor(handle, 0), 9) == b"outside"
    for name, tag in (("link.md", 0xA000000C), ("junction", JUNCTION), ("a.md", 0)):
        handle = call.open(name, flags=ITSELF | BACKUP)
        told = ctypes.create_string_buffer(8)
        assert call.model._GetFileInformationByHandleEx(handle, 9, ctypes.addressof(told), 8)
        assert struct.unpack("<2I", told.raw)[1] == tag
    assert os.read(call.model.descriptor(call.open("junction/a.md", flags=ITSELF), 0), 9)


@pytest.mark.rule("share modes", "attributes are always shared")
@pytest.mark.parametrize(
    ("first", "second", "fails"),
    [
        ((READ, ALL_SHARED), (READ, ALL_SHARED), False),
        ((READ, SHARE_READ), (READ, SHARE_READ), False),
        ((READ, SHARE_READ), (WRITE, ALL_SHARED), True),
        ((WRITE, ALL_SHARED), (READ, SHARE_READ), True),
        ((WRITE, ALL_SHARED), (READ, SHARE_READ | SHARE_WRITE), False),
        ((READ, SHARE_READ | SHARE_WRITE), (DELETE, ALL_SHARED), True),
        ((READ, SHARE_DELETE | SHARE_READ), (DELETE, ALL_SHARED), False),
        ((DELETE, ALL_SHARED), (READ, SHARE_READ | SHARE_WRITE), True),
        ((READ, 0), (READ, ALL_SHARED), True),
        ((READ, ALL_SHARED), (READ, 0), True),
        ((READ, 0), (ATTRIBUTES, 0), False),
        ((ATTRIBUTES, 0), (READ | WRITE, 0), False),
    ],
)
def test_handles_share_in_both_directions(
    call: Caller, first: tuple[int, int], second: tuple[int, int], fails: bool
) -> None:
    assert call.open("a.md", *first) > 0
    assert (call.open("a.md", *second) == -32) is fails
    call.open("b.md", READ, 0)
    assert call.open("b.md", READ) == -32
    assert call.open("b.md", ATTRIBUTES, 0) > 0
    call.model.end_process()
    assert call.open("a.md", READ | WRITE | DELETE, 0) > 0


@pytest.mark.rule("a folder needs backup semantics", "read-only")
def test_a_folder_and_a_read_only_file_are_not_opened_by_the_way(call: Caller) -> None:
    (call.folder / "sub").mkdir()
    assert call.open("sub") == -5
    assert call.open("sub", flags=BACKUP) > 0
    assert call("SetFileAttributesW", "a.md", READ_ONLY) == 0
    assert (call.open("a.md", WRITE), call("DeleteFileW", "a.md")) == (-5, 5)
    assert call("MoveFileExW", "b.md", "a.md", 1) == 5
    assert call.open("a.md") > 0


@pytest.mark.rule("scanner")
def test_a_scanner_has_what_was_written_for_some_tries(call: Caller) -> None:
    call.model.scanner = 2
    call("CloseHandle", call.open("a.md", WRITE))
    assert call.open("a.md", READ, SHARE_READ) > 0
    call.model.scanner = 0
    call.model.end_process()
    assert [call("DeleteFileW", "a.md") for _ in range(3)] == [32, 32, 0]


@pytest.mark.parametrize("code", [5, 303])
@pytest.mark.rule("deletion is pending", "deleted at the last close")
def test_a_deleted_file_that_is_open_keeps_its_name(call: Caller, code: int) -> None:
    call.model.pending_code = code
    handle = call.open("a.md")
    assert call("DeleteFileW", "a.md") == 0
    assert (call.open("a.md"), call.open("a.md", how=NEW, access=WRITE)) == (-code, -code)
    assert call("MoveFileExW", "b.md", "a.md", 1) == code
    assert call.names() == ["a.md", "b.md"]
    call("CloseHandle", handle)
    assert call.names() == ["b.md"]
    call.model.posix_deletes = True
    assert call.open("b.md") > 0
    assert call("DeleteFileW", "b.md") == 0
    assert call.names() == []


@pytest.mark.rule(
    "a move replaces only if asked", "an open file is not replaced", "folders are not replaced"
)
def test_a_move_replaces_a_file_that_nobody_has_open(call: Caller) -> None:
    (call.folder / "sub").mkdir()
    handle = call.open("b.md")
    for flags, code in ((0, 183), (1, 5)):
        assert call("MoveFileExW", "a.md", "b.md", flags) == code
    call("CloseHandle", handle)
    assert [
        call("MoveFileExW", old, new, 1)
        for old, new in (("a.md", "sub"), ("sub", "a.md"), ("sub", "free"))
    ] == [5, 5, 5]
    assert call("MoveFileExW", "a.md", "none/a.md", 1) == 3
    assert call("MoveFileExW", "a.md", "b.md", 1) == 0
    assert (call.names(), call.text("b.md")) == (["b.md", "sub"], "a.md")


@pytest.mark.rule("a folder in use is not renamed")
def test_a_folder_with_an_open_file_below_keeps_its_name(call: Caller) -> None:
    (call.folder / "sub" / "deep").mkdir(parents=True)
    (call.folder / "sub" / "deep" / "x.md").write_text("x")
    handle = call.open("sub/deep/x.md", ATTRIBUTES)
    assert call("MoveFileExW", "sub", "other", 0) == 5
    call("CloseHandle", handle)
    handle = call.open("sub", ATTRIBUTES | 1, SHARE_READ | SHARE_WRITE, flags=BACKUP)
    assert call("MoveFileExW", "sub", "other", 0) == 32
    call("CloseHandle", handle)
    assert call("MoveFileExW", "sub", "other", 0) == 0


@pytest.mark.rule(
    "a replacement is opened alone",
    "a replacement has another id",
    "a replacement keeps the time of creation",
    "a replacement keeps streams",
)
def test_a_replaced_file_lives_on_as_the_backup(call: Caller) -> None:
    def identity(name: str) -> tuple[int, int]:
        told = ctypes.create_string_buffer(40)
        handle = call.open(name, ATTRIBUTES)
        call.model._GetFileInformationByHandleEx(handle, 18, ctypes.addressof(told), 24)
        (number,) = struct.unpack_from("<8xQ", told.raw)
        call.model._GetFileInformationByHandleEx(handle, 0, ctypes.addressof(told), 40)
        call("CloseHandle", handle)
        return number, struct.unpack_from("<q", told.raw)[0]

    call("CloseHandle", call.open("a.md:x", how=NEW, access=WRITE))
    (old, born), (new, _) = identity("a.md"), identity("b.md")
    handle = call.open("b.md")
    assert call("ReplaceFileW", "a.md", "b.md", "old", 0, None, None) == 32
    call("CloseHandle", handle)
    handle = call.open("a.md", READ, SHARE_READ | SHARE_WRITE)
    assert call("ReplaceFileW", "a.md", "b.md", "old", 0, None, None) == 32
    call("CloseHandle", handle)
    call.open("a.md", READ | WRITE)
    assert call("ReplaceFileW", "a.md", "b.md", "old", 0, None, None) == 0
    assert (call.text("a.md"), call.text("old")) == ("b.md", "a.md")
    assert (identity("a.md"), identity("old")) == ((new, born), (old, born))
    assert call.open("a.md:x") > 0


@pytest.mark.rule("a replacement fails half way")
@pytest.mark.parametrize(
    ("code", "backup", "names"),
    [
        (1175, "old", ["a.md", "b.md"]),
        (1176, "old", ["a.md", "b.md"]),
        (1176, None, ["b.md"]),
        (1177, "old", ["b.md", "old"]),
    ],
)
def test_a_replacement_that_fails_leaves_what_its_page_says(
    call: Caller, code: int, backup: str | None, names: list[str]
) -> None:
    call.model.partial = [code]
    assert call("ReplaceFileW", "a.md", "b.md", backup, 0, None, None) == code
    assert call.names() == names


@pytest.mark.rule("flush needs write access", "a handle does what it was opened for")
def test_a_handle_does_what_it_was_opened_for(call: Caller) -> None:
    handle = call.open("a.md")
    assert call("FlushFileBuffers", handle) == 5
    with pytest.raises(OSError, match="Bad file"):
        call.model.flush(call.model.descriptor(handle, 0))
    name = str(call.folder / "c.md").encode("utf-16-le")
    rename = struct.pack("<I4xQI", 0, 0, len(name)) + name
    for what, given in ((3, rename), (4, b"\1"), (0, bytes(40))):
        assert call("SetFileInformationByHandle", handle, what, given, len(given)) == 5
    handle = call.open("b.md", DELETE)
    assert call("SetFileInformationByHandle", handle, 3, rename, len(rename)) == 0
    assert call.names() == ["a.md", "c.md"]
    assert call("SetFileInformationByHandle", handle, 4, b"\1", 1) == 0
    call("CloseHandle", handle)
    assert call.names() == ["a.md"]


@pytest.mark.rule("placeholders", "placeholders are listed")
def test_a_placeholder_is_fetched_when_it_is_opened_for_its_data(call: Caller) -> None:
    path = str(call.folder / "a.md")
    call.model.links[path] = (path, CLOUD)
    call.model.attributes[call.model.key_of(path)] = RECALL_ON_DATA_ACCESS | OFFLINE
    folder = call.open("", flags=BACKUP)
    told = ctypes.create_string_buffer(4096)
    assert call.model._GetFileInformationByHandleEx(folder, 10, ctypes.addressof(told), 4096)
    found, at = {}, 0
    while True:
        step, *_, attributes, length, tag = struct.unpack_from("<2I4q2q3I", told.raw, at)
        name = told.raw[at + 104 : at + 104 + length].decode("utf-16-le")
        found[name] = attributes & (OFFLINE | RECALL_ON_DATA_ACCESS), tag
        at += step
        if not step:
            break
    assert found["a.md"] == (OFFLINE | RECALL_ON_DATA_ACCESS, CLOUD)
    assert [*found] == [".", "..", "a.md", "b.md"]
    assert not call.model._GetFileInformationByHandleEx(folder, 10, ctypes.addressof(told), 4096)
    assert call.model.last_error() == 18
    call.open("a.md", ATTRIBUTES)
    call.open("a.md", flags=ITSELF)
    assert call.model.recalls == []
    call.open("a.md")
    assert call.model.recalls == [path]


@pytest.mark.rule("coarse times")
def test_fat_tells_times_of_two_seconds(call: Caller) -> None:
    call.model.coarse = True
    told = ctypes.create_string_buffer(40)
    handle = call.open("a.md", ATTRIBUTES)
    call.model._GetFileInformationByHandleEx(handle, 0, ctypes.addressof(told), 40)
    assert struct.unpack_from("<4q", told.raw)[2] % 20_000_000 == 0
