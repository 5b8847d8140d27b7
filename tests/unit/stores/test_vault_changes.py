"""Test what a vault tells of changed files, and that this costs as much in a large vault as in a small one."""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import CursorLost
from mcp_notarium.stores.vault import file_table, file_writer
from mcp_notarium.stores.vault import folder as folder_module
from mcp_notarium.stores.vault.file_table import Watch
from mcp_notarium.stores.vault.store import VaultStore
from support.between_calls import acting_before
from support.journal_entries import make_write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system has no inotify")
EVENTS_ALONE = 60.0
"""Seconds that a probe believes events."""


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates are trusted at once: these tests do not write twice within a tick of the clock."""
    monkeypatch.setattr(file_table, "_RECENT", -1.0)
    monkeypatch.setattr(folder_module, "SETTLED", -1.0)


@pytest.fixture(name="scans")
def _scans(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    real = file_table._walk

    def walk(root: int, *how: Any) -> Iterator[object]:
        made.append(root)
        return real(root, *how)

    monkeypatch.setattr(file_table, "_walk", walk)
    return made


def vault_of(place: Path, count: int) -> VaultStore:
    for number in range(count):
        path = place / f"Folder {number % 3}" / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text {number}\n")
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return VaultStore(place)


def listed(store: VaultStore) -> str:
    """List all notes; return the cursor, and wait until the files are known."""
    store._list_page(None, 9999, with_content=False)
    return store._list_page(None, 9999, with_content=False).cursor


def told(store: VaultStore, cursor: str) -> dict[str, str] | None:
    """Return the ids that are told; None: all must be listed."""
    with suppress(CursorLost):
        page = store._probe(cursor, EVENTS_ALONE)
        return {entry.id: entry.etag for entry in page.changes}  # type: ignore[union-attr]
    return None


def save(store: VaultStore, note_id: str, text: str = "saved\n") -> None:
    base = store._get(note_id)
    content = Content(title=base.content.title, text=text)
    store._writer.push(make_write(store, note_id, content, base))


def calls_of(store: VaultStore, cursor: str, act: Callable[[], object]) -> tuple[int, set[str]]:
    """System calls of an act and of what the store then does to tell of it, and what it tells."""
    with acting_before(-1, lambda: None) as counted:
        act()
        changes = told(store, cursor)
    assert changes is not None
    return counted.calls, {*changes}


def test_a_save_and_an_edit_cost_the_same_in_a_large_vault_as_in_a_small_one(
    tmp_path: Path, scans: list[int]
) -> None:
    costs = []
    for count in (9, 300):
        place = tmp_path / str(count)
        store = vault_of(place, count)
        cursor, note = listed(store), place / "Folder 1" / "1.md"
        scans.clear()
        saved = calls_of(store, cursor, partial(save, store, "Folder 1/1.md"))
        edited = calls_of(store, store._told or "", partial(note.write_text, "edited\n"))
        made = calls_of(store, store._told or "", partial((place / "new.md").write_text, "new\n"))
        costs.append((saved, edited, made))
        assert told(store, store._told or "") == {}
        assert scans == []
        asyncio.run(store.close())
    assert costs[0] == costs[1]
    assert [names for _, names in costs[0]] == [{"Folder 1/1.md"}, {"Folder 1/1.md"}, {"new.md"}]


def rename(place: Path) -> None:
    (place / "Folder 0" / "0.md").rename(place / "Folder 1" / "z.md")


def replace_another(place: Path) -> None:
    (place / "Folder 0" / "0.md").rename(place / "Folder 1" / "1.md")


def exchange(place: Path) -> None:
    """No path comes or goes; each note is under the other's path."""
    here, there = (os.open(place / f"Folder {n}", os.O_RDONLY) for n in (0, 1))
    assert file_writer.rename(here, "0.md", there, "1.md", exchange=True)
    os.close(here)
    os.close(there)


def trash(place: Path) -> None:
    (place / ".trash" / "Folder 0").mkdir(parents=True)
    (place / "Folder 0" / "0.md").rename(place / ".trash" / "Folder 0" / "0.md")


def spoil(place: Path) -> None:
    (place / "Folder 0" / "0.md").write_bytes(b"caf\xe9\n")


def link(place: Path) -> None:
    os.link(place / "Folder 0" / "0.md", place / "Folder 0" / "other.md")


def move_folder(place: Path) -> None:
    (place / "Folder 0").rename(place / "Moved")


def come_and_go(place: Path) -> None:
    """A save may have put it into the index meanwhile."""
    (place / "new.md").write_text("new\n")
    (place / "new.md").unlink()


def come_and_go_in_a_new_folder(place: Path) -> None:
    (place / "Sub").mkdir()
    (place / "Sub" / "new.md").write_text("new\n")
    (place / "Sub" / "new.md").unlink()


@pytest.mark.parametrize(
    "change",
    [
        come_and_go,
        come_and_go_in_a_new_folder,
        rename,
        replace_another,
        exchange,
        trash,
        spoil,
        link,
        move_folder,
    ],
)
def test_what_may_be_more_than_new_text_is_listed_in_full(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    store = vault_of(tmp_path, 6)
    cursor = listed(store)
    change(tmp_path)
    assert told(store, cursor) is None
    after = {entry.id for entry in store._list_page(None, 99, with_content=False).entries}
    assert after == {
        entry.id for entry in VaultStore(tmp_path)._list_page(None, 99, with_content=False).entries
    }
    asyncio.run(store.close())


def test_a_new_file_with_the_inode_of_another_that_is_gone_is_no_moved_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each save frees an inode, and the next one gets it."""
    store = vault_of(tmp_path, 30)
    cursor = listed(store)
    names = [f"Folder {number % 3}/{number}.md" for number in range(30)]
    inodes = [(tmp_path / name).stat().st_ino for name in names]
    monkeypatch.setattr(file_table, "_RECENT", 60.0)
    for name in names:
        save(store, name)
    monkeypatch.setattr(file_table, "_RECENT", 0.0)
    if not {(tmp_path / name).stat().st_ino for name in names} & {*inodes}:
        pytest.skip("this file system gives no inode again at once")
    changes = told(store, cursor)
    assert changes is not None
    assert {*changes} == {*names}
    asyncio.run(store.close())


def test_a_change_without_an_event_is_found_by_the_next_look_at_all_files(tmp_path: Path) -> None:
    """Writing into mapped memory makes none."""
    store = vault_of(tmp_path, 6)
    cursor = listed(store)
    with (
        (tmp_path / "Folder 0" / "0.md").open("r+b") as file,
        mmap.mmap(file.fileno(), 0) as memory,
    ):
        store._probe(cursor, EVENTS_ALONE)  # opening it made one
        memory[:4] = b"TEXT"
        memory.flush()
    assert told(store, cursor) == {}
    assert {entry.id for entry in store._probe(cursor, 0.0).changes} == {"Folder 0/0.md"}
    asyncio.run(store.close())


def test_after_lost_events_all_files_are_looked_at(tmp_path: Path, scans: list[int]) -> None:
    store = vault_of(tmp_path, 6)
    cursor = listed(store)
    (tmp_path / "Folder 0" / "0.md").write_text("edited\n")
    events: Any = store._watch._events
    events._read()
    events._changed.clear()
    events._sort(struct.pack("iIII", -1, 0x4000, 0, 0))  # IN_Q_OVERFLOW
    scans.clear()
    assert told(store, cursor) == {"Folder 0/0.md": store._get("Folder 0/0.md").etag}
    assert len(scans) == 1
    asyncio.run(store.close())


def test_without_events_each_look_is_at_all_files(
    tmp_path: Path, scans: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "follow", lambda _watch, _folders: False)
    store = vault_of(tmp_path, 6)
    cursor = listed(store)
    (tmp_path / "Folder 0" / "0.md").write_text("edited\n")
    scans.clear()
    assert told(store, cursor) == {"Folder 0/0.md": store._get("Folder 0/0.md").etag}
    assert len(scans) == 1
    asyncio.run(store.close())


def test_what_was_just_saved_is_read_without_a_wait_and_what_another_program_has_begun_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, note = vault_of(tmp_path, 3), tmp_path / "Folder 0" / "0.md"
    slept: list[float] = []

    def finish(seconds: float) -> None:
        slept.append(seconds)
        note.write_text("theirs, whole\n")
        os.utime(note, (1_600_000_000, 1_600_000_000))

    monkeypatch.setattr(folder_module, "SETTLED", 0.05)
    monkeypatch.setattr(folder_module.time, "sleep", finish)
    save(store, "Folder 0/0.md", "first\n")
    save(store, "Folder 0/0.md", "second\n")
    assert store._get("Folder 0/0.md").content.text == "second\n"
    assert slept == []
    note.write_text("")
    assert store._get("Folder 0/0.md").content.text == "theirs, whole\n"
    assert len(slept) == 1
    asyncio.run(store.close())
