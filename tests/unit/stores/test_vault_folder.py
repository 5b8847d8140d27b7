"""Test that a vault opens its own notes and nothing else: names, links, pipes, exchanges, spellings."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from mcp_notarium.errors import NoteNotFound, StoreUnavailable
from mcp_notarium.stores.vault import folder as folder_module
from mcp_notarium.stores.vault.folder import InUse, NotANote, VaultFolder
from mcp_notarium.stores.vault.paths import name_from, split_path, title_of
from support import needs
from support.between_calls import acting_before

LARGEST = 1000
OLD = 1_600_000_000
"""A date that shows that nobody is writing the file."""
SECRET = b"secret outside\n"


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    place = tmp_path / "vault"
    (place / "Sub" / "Deep").mkdir(parents=True)
    (place / "Note.md").write_bytes(b"note\n")
    (place / "Sub" / "Deep" / "Below.MD").write_bytes(b"below\n")
    (tmp_path / "outside.md").write_bytes(SECRET)
    return place


@pytest.fixture(name="vault")
def _vault(place: Path) -> VaultFolder:
    return VaultFolder(place)


def read(vault: VaultFolder, path: str) -> bytes:
    with vault.opened() as root:
        file, _ = folder_module.open_note(root, path)
        try:
            return folder_module.read_settled(file, largest=LARGEST).data
        finally:
            os.close(file)


@pytest.mark.parametrize("ahead", [0.0, -30.0, 30.0, 3600.0])
@pytest.mark.parametrize("text", [b"text\n", b""])
def test_a_file_that_was_just_emptied_is_read_when_it_is_written_or_left_alone(
    vault: VaultFolder, place: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, ahead: float
) -> None:
    """Its tags are gone with its text, and what they hide would be shown; the drive may have another clock."""
    note, now, slept = place / "Note.md", 1e9, [0.0]

    def sleep(seconds: float) -> None:
        slept.append(slept[-1] + seconds)
        if slept[-2] < 0.5 <= slept[-1] and text:
            note.write_bytes(text)
            os.utime(note, (now + 0.5, now + 0.5))

    monkeypatch.setattr(folder_module.time, "sleep", sleep)
    monkeypatch.setattr(folder_module.time, "time", lambda: now + slept[-1] - ahead)
    monkeypatch.setattr(folder_module.time, "monotonic", lambda: slept[-1])
    note.write_bytes(b"")
    os.utime(note, (now - 0.2, now - 0.2))
    assert read(vault, "Note.md") == text
    assert 0.5 < slept[-1] < 1.1


@pytest.mark.parametrize("ahead", [0.0, 0.5, 3600.0])
def test_a_file_is_read_when_nobody_writes_it_on_a_drive_whose_clock_is_ahead(
    vault: VaultFolder, place: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    note, now, slept = place / "Note.md", 1e9, [0.0]

    def write(text: bytes) -> None:
        note.write_bytes(text)
        os.utime(note, (now + slept[-1], now + slept[-1]))

    def sleep(seconds: float) -> None:
        slept.append(slept[-1] + seconds)
        if slept[-2] < 0.045 <= slept[-1]:
            write(b"half and the rest")

    monkeypatch.setattr(folder_module.time, "sleep", sleep)
    monkeypatch.setattr(folder_module.time, "time", lambda: now + slept[-1] - ahead)
    monkeypatch.setattr(folder_module.time, "monotonic", lambda: slept[-1])
    write(b"half")
    assert read(vault, "Note.md") == b"half and the rest"
    assert slept[-1] < 0.2


def test_a_file_that_is_emptied_again_and_again_is_in_use(
    vault: VaultFolder, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, slept = place / "Note.md", [0.0]

    def sleep(seconds: float) -> None:
        slept.append(slept[-1] + seconds)
        os.utime(note)

    monkeypatch.setattr(folder_module.time, "sleep", sleep)
    monkeypatch.setattr(folder_module.time, "monotonic", lambda: slept[-1])
    note.write_bytes(b"")
    with pytest.raises(InUse):
        read(vault, "Note.md")


@pytest.mark.parametrize("name", ["..foo.md", "a b.md", "é.markdown", "x.y.md", "CON.md", "a:b.md"])
def test_a_note_is_read_by_its_path(vault: VaultFolder, place: Path, name: str) -> None:
    (place / "Sub" / name).write_bytes(b"text\n")
    assert read(vault, f"Sub/{name}") == b"text\n"
    assert read(vault, "Sub/Deep/Below.MD") == b"below\n"


@pytest.mark.parametrize(
    "path",
    [
        "", "/", ".", "..", "../outside.md", "Sub/../Note.md", "Sub/../../outside.md", "./Note.md",
        "Sub//Deep/Below.MD", "/Note.md", "Note.md/", "Note.md\0", "Sub\\Deep\\Below.MD", "Note", "Note.txt",
        ".md", ".hidden.md", "._Note.md", ".obsidian/x.md", "Sub/.Git/x.md", ".TRASH/x.md", "Node_Modules/x.md",
        "logseq/bak/x.md", "~$x.md", "\ud800.md", "x" * 300 + ".md", "a/" * 600 + "x.md",
        "missing.md", "missing/x.md", "Note.md/x.md",
    ],
)  # fmt: skip
def test_no_other_path_is_a_note(vault: VaultFolder, place: Path, path: str) -> None:
    for folder in (".obsidian", "Sub/.Git", ".TRASH", "Node_Modules", "logseq/bak"):
        (place / folder).mkdir(parents=True)
        (place / folder / "x.md").write_bytes(SECRET)
    for name in (".md", ".hidden.md", "._Note.md", "~$x.md"):
        (place / name).write_bytes(SECRET)
    with pytest.raises(NoteNotFound):
        read(vault, path)


@needs.POSIX
def test_links_and_what_is_no_file_are_not_read(vault: VaultFolder, place: Path) -> None:
    (place / "link.md").symlink_to(place / "Note.md")
    (place / "out.md").symlink_to(place.parent / "outside.md")
    os.link(place.parent / "outside.md", place / "hard.md")
    os.mkfifo(place / "pipe.md")
    (place / "folder.md").mkdir()
    (place / "device.md").symlink_to("/dev/zero")
    (place / "large.md").write_bytes(b"x" * (LARGEST + 1))
    (place / "away").symlink_to(place.parent)
    (place / "loop").symlink_to(place)
    for name in ("link", "out", "hard", "pipe", "folder", "device", "large"):
        with pytest.raises(NotANote):
            read(vault, f"{name}.md")
    for path in ("away/outside.md", "loop/Note.md"):
        with pytest.raises((NotANote, NoteNotFound)):
            read(vault, path)


def put_a_link(place: Path) -> None:
    deep = place / "Sub" / "Deep" / "Below.MD"
    deep.unlink()
    deep.symlink_to(place.parent / "outside.md")


def put_a_pipe(place: Path) -> None:
    deep = place / "Sub" / "Deep" / "Below.MD"
    deep.unlink()
    os.mkfifo(deep)


def put_a_linked_folder(place: Path) -> None:
    deep = place / "Sub" / "Deep"
    deep.rename(place / "moved")
    (place.parent / "elsewhere").mkdir()
    (place.parent / "elsewhere" / "Below.MD").write_bytes(SECRET)
    deep.symlink_to(place.parent / "elsewhere")


@pytest.mark.parametrize("spoil", [put_a_link, put_a_pipe, put_a_linked_folder])
def test_what_is_put_in_its_place_before_any_system_call_is_not_read(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    for number in count():
        place = tmp_path / str(number) / "vault"
        (place / "Sub" / "Deep").mkdir(parents=True)
        (place / "Sub" / "Deep" / "Below.MD").write_bytes(b"below\n")
        os.utime(place / "Sub" / "Deep" / "Below.MD", (OLD, OLD))
        (place.parent / "outside.md").write_bytes(SECRET)
        with acting_before(number, partial(spoil, place)) as counted:
            try:
                data = read(VaultFolder(place), "Sub/Deep/Below.MD")
            except (NotANote, NoteNotFound):
                data = b"refused"
        assert data in (b"below\n", b"refused")
        if not counted.acted:
            break
    assert data == b"below\n"
    assert number > 12


def test_another_folder_in_its_place_is_no_empty_vault(vault: VaultFolder, place: Path) -> None:
    assert read(vault, "Note.md") == b"note\n"
    place.rename(place.with_name("unmounted"))
    with pytest.raises(StoreUnavailable):
        read(vault, "Note.md")
    place.mkdir()
    (place / "Note.md").write_bytes(b"another\n")
    with pytest.raises(StoreUnavailable, match="another folder"):
        read(vault, "Note.md")


@needs.POSIX
def test_another_spelling_of_a_name_is_no_note_where_the_system_takes_both_for_one(
    vault: VaultFolder, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "Café.md").write_bytes(b"text\n")
    found: list[bytes] = []
    real_stat, real_open, real_list = os.stat, os.open, os.listdir

    def spelled(name: str, folder: int) -> str:
        known = {unicodedata.normalize("NFD", one).lower(): one for one in real_list(folder)}
        return known.get(unicodedata.normalize("NFD", name).lower(), name)

    def stat(name: str, *, dir_fd: int, follow_symlinks: bool) -> os.stat_result:
        return real_stat(spelled(name, dir_fd), dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    def open_(name: str, how: int, *, dir_fd: int | None = None) -> int:
        return real_open(spelled(name, dir_fd) if dir_fd else name, how, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(folder_module.os, "stat", stat)
        patch.setattr(folder_module.os, "open", open_)
        for path in ("Café.md", "café.md", "CAFÉ.MD", "Cafe\u0301.md", "sub/Deep/Below.MD"):
            try:
                found.append(read(vault, path))
            except NoteNotFound:
                found.append(b"")
    assert found == [b"text\n", b"", b"", b"", b""]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Plan", "Plan"),
        ("a/b: c?", "a/b c"),
        ("Projects / Idea ", "Projects/Idea"),
        ("../../etc/passwd", "etc/passwd"),
        (".obsidian/x", "obsidian/x"),
        ("con", "con_"),
        ("AUX.old", "AUX_.old"),
        ("conin$", "conin$_"),
        ("nul .old", "nul_ .old"),
        ("node_modules/x", "node_modules_/x"),
        ("[[link]] #tag", "link tag"),
        ("Cafe\u0301", "Café"),
        ("ä" * 300, "ä" * 50),
        ("...", "Untitled"),
        ("", "Untitled"),
        ("a\\b\0c\nd", "a b c d"),
    ],
)
def test_a_new_file_has_a_name_that_every_system_takes(title: str, name: str) -> None:
    assert name_from(title) == name
    assert split_path(f"{name}.md") is not None


def test_a_title_is_the_name_of_the_file() -> None:
    assert title_of("a/b.c.md") == "b.c"
    assert title_of("x.markdown") == "x"


@needs.POSIX
@pytest.mark.parametrize(
    ("folder", "files"),
    [
        ("", ["a.png"]),
        ("Sub", ["Sub/b.txt"]),
        *((one, []) for one in (".git", "link", "none", "a.png", "../vault", "Sub\0", "sub")),
    ],
)
def test_files_that_are_no_notes_are_found_inside_the_vault_only(
    vault: VaultFolder, place: Path, folder: str, files: list[str]
) -> None:
    (place / ".git").mkdir()
    for name in ("a.png", "Sub/b.txt", ".git/config", "../outside.txt"):
        (place / name).write_bytes(b"x")
    (place / "link").symlink_to(place.parent)
    (place / "c.txt").symlink_to(place.parent / "outside.txt")
    (place / "Sub" / "pipe.txt").mkdir()
    with vault.opened() as root:
        assert folder_module.list_files(root, folder) == files
