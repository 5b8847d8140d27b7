"""Test what the system tells of a vault's folders: what is watched, and that nothing lost stays unnoticed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content, Revision
from mcp_notarium.stores.vault import file_table
from mcp_notarium.stores.vault.file_table import Watch
from mcp_notarium.stores.vault.store import VaultStore
from support.journal_entries import make_write

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system has no inotify")
QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
LARGEST_QUEUE = 50_000
AT_THE_LIMIT = """
import ctypes, os, sys
from pathlib import Path
root, user = Path(sys.argv[1]), os.getuid()
try:
    if ctypes.CDLL(None).unshare(0x10000000):
        raise PermissionError
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/sys/user/max_inotify_watches").write_text("5")
except OSError:
    sys.exit(77)
from mcp_notarium.stores.vault import file_table
from mcp_notarium.stores.vault.store import VaultStore
file_table._RECENT = -1.0
store = VaultStore(root)
cursor = store._list_page(None, 99, with_content=False).cursor
for note in root.glob("*/Note.md"):
    note.write_text("edited, and nobody tells of all\\n")
print(len(store._probe(cursor, 60.0).changes))
"""
"""Serve a vault in a namespace of its own, which has fewer watches than the vault has folders."""


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    place = tmp_path / "vault"
    for number in range(10):
        note = place / f"Folder {number}" / "Note.md"
        note.parent.mkdir(parents=True)
        note.write_text("text\n")
        os.utime(note, (1_600_000_000, 1_600_000_000))
    return place


@pytest.fixture(name="store")
def _store(vault: Path, monkeypatch: pytest.MonkeyPatch) -> VaultStore:
    """Serve the vault; the system tells of it, and dates are trusted at once."""
    monkeypatch.setattr(file_table, "_RECENT", -1.0)
    store = VaultStore(vault)
    store._list_page(None, 99, with_content=False)
    if store._watch.take() is None:
        pytest.skip("the system grants no more watches")
    return store


def test_only_folders_of_notes_are_watched_and_no_link_leads_out(
    vault: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    for folder in (elsewhere, vault / ".git" / "logs", vault / "node_modules" / "one"):
        folder.mkdir(parents=True)
    (vault / "Link").symlink_to(elsewhere)
    store = VaultStore(vault)
    store._list_page(None, 99, with_content=False)
    watched = (
        Path(f"/proc/self/fdinfo/{store._watch._events._file}").read_text().count("inotify wd:")
    )
    assert watched == 11  # the vault and its ten folders
    (elsewhere / "Note.md").write_text("theirs\n")
    (vault / ".git" / "logs" / "HEAD.md").write_text("theirs\n")
    assert store._watch.take() == set()
    store._watch.close()


def test_a_link_that_takes_the_place_of_a_folder_is_not_watched_and_ends_no_other_watch(
    vault: Path, tmp_path: Path
) -> None:
    watch = Watch(vault)
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(vault / "Folder 0")
    (vault / "Folder 0").symlink_to(tmp_path / "elsewhere")
    watch.follow(["", "Folder 0", "Folder 1"])
    watch.take()
    (tmp_path / "elsewhere" / "Note.md").write_text("theirs\n")
    assert watch.take() == set()
    (vault / "Folder 1" / "Note.md").write_text("edited\n")
    assert watch.take() == {("Folder 1", "Note.md")}
    watch.close()


@pytest.mark.skipif(
    not QUEUE.exists() or int(QUEUE.read_text()) > LARGEST_QUEUE, reason="the queue is too long"
)
def test_more_events_than_the_system_keeps_are_noticed_as_lost(
    vault: Path, store: VaultStore
) -> None:
    for number in range(int(QUEUE.read_text()) // 2 + 2):  # two events each, and no two alike
        (vault / "Folder 0" / f"{number % 2}.txt").touch()
        (vault / "Folder 1" / f"{number % 2}.txt").touch()
    cursor = store._told or ""
    (vault / "Folder 2" / "Note.md").write_text("edited, and nobody tells\n")
    assert [one.id for one in store._probe(cursor, 60.0).changes] == ["Folder 2/Note.md"]
    store._watch.close()


def test_at_the_limit_of_watches_each_look_is_at_all_files(vault: Path) -> None:
    command = [sys.executable, "-c", AT_THE_LIMIT, str(vault)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode == 77:
        pytest.skip("the system grants no namespace with a limit of its own")
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_what_was_written_here_is_listed_before_any_event_tells_of_it(
    store: VaultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events of macOS and Windows come some time after a change."""
    monkeypatch.setattr(store._watch, "take", set)

    def listed() -> dict[str, str]:
        page = store._list_page(None, 99, with_content=True)
        return {one.id: one.content.text for one in page.entries if "New" in one.id}

    def push(note_id: str, content: Content, base: Revision | None = None) -> Revision:
        return asyncio.run(store.push(make_write(store, note_id, content, base))).revision

    made = push("Folder 1/New.md", Content("one\n", title="Folder 1/New"))
    assert listed() == {"Folder 1/New.md": "one\n"}
    moved = push(made.id, replace(made.content, text="two\n", title="Folder 2/Newer"), made)
    assert listed() == {"Folder 2/Newer.md": "two\n"}
    trashed = push(moved.id, replace(moved.content, trash=True), moved)
    assert listed() == {"Folder 2/Newer.md": "two\n"}
    asyncio.run(store.delete(trashed.id, etag=trashed.etag, write_id="00bb"))
    assert listed() == {}
