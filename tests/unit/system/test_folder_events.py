"""Test what both kinds of folder events tell: inotify, and the library that macOS and Windows use, which runs here too.

The library's own parts for macOS and Windows cannot run here. What they are known to tell in their own way is handed to the
class in the library's words.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from watchdog.events import (
    DirAttribEvent,
    DirDeletedEvent,
    DirModifiedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileOpenedEvent,
    FileSystemEvent,
)

from mcp_notarium.stores.vault import file_table
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.system import SYSTEM
from mcp_notarium.system.folder_events import TreeEvents
from mcp_notarium.system.port import FolderEvents

FOLDERS = ["", "Work", "Work/Deep"]
LAST = ("", "Last.md")
"""What is changed last: once it is told, all before it has been."""
LONGEST = 10.0


@pytest.fixture(name="root")
def _root(tmp_path: Path) -> Path:
    root = tmp_path / "vault"
    for folder in ("Work/Deep", ".git", "Other"):
        (root / folder).mkdir(parents=True)
    for name in ("Work/Plan.md", "Work/Deep/Note.md", ".git/HEAD.md"):
        (root / name).write_text("text\n")
    (tmp_path / "elsewhere").mkdir()
    with suppress(OSError):  # Windows may permit links to administrators alone
        (root / "Link").symlink_to(tmp_path / "elsewhere")
    return root


@pytest.fixture(name="events", params=["system", "library"])
def _events(request: pytest.FixtureRequest, root: Path) -> Iterator[FolderEvents]:
    made = SYSTEM.folder_events(root) if request.param == "system" else TreeEvents(root)
    if made is None:
        pytest.skip("the system has no events")
    assert made.take() is None, "nothing is known before it watches"
    if not made.follow(FOLDERS):
        pytest.skip("the system grants no more watches")
    time.sleep(0.05 if isinstance(made, TreeEvents) else 0)
    made.take()
    yield made
    made.close()


def told(events: FolderEvents, root: Path) -> set[tuple[str, str]] | None:
    """Return what is told until the last change is; None: anything may have changed."""
    (root / LAST[1]).write_text("last\n")
    found: set[tuple[str, str]] = set()
    end = time.monotonic() + LONGEST
    while LAST not in found and time.monotonic() < end:
        if (news := events.take()) is None:
            return None
        found |= news
        time.sleep(0.01)
    assert LAST in found
    return found - {LAST}


def edit(root: Path) -> None:
    (root / "Work" / "Plan.md").write_text("edited\n")


def replace(root: Path) -> None:
    (root / "Work" / "new").write_text("edited\n")
    (root / "Work" / "new").replace(root / "Work" / "Plan.md")


def other_folders(root: Path) -> None:
    (root / ".git" / "HEAD.md").write_text("edited\n")
    (root / "Other" / "Note.md").write_text("new\n")
    if (root / "Link").exists():
        (root / "Link" / "Note.md").write_text("new\n")


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (edit, {("Work", "Plan.md")}),
        (replace, {("Work", "new"), ("Work", "Plan.md")}),
        (lambda root: (root / "Work" / "Plan.md").unlink(), {("Work", "Plan.md")}),
        (
            lambda root: (root / "Work" / "Plan.md").rename(root / "Work" / "Deep" / "Plan.md"),
            {("Work", "Plan.md"), ("Work/Deep", "Plan.md")},
        ),
        (lambda root: (root / "Work" / "Plan.md").read_text(), set()),
        (other_folders, set()),
        (lambda root: (root / "Work" / "New").mkdir(), None),
        (lambda root: (root / "Work" / "Deep").rename(root / "Work" / "Moved"), None),
        (lambda root: shutil.rmtree(root / "Work" / "Deep"), None),
    ],
)
def test_what_changes_in_the_followed_folders_is_told_and_nothing_else(
    events: FolderEvents,
    root: Path,
    act: Callable[[Path], object],
    expected: set[tuple[str, str]] | None,
) -> None:
    act(root)
    assert told(events, root) == expected


def test_a_new_folder_has_to_be_followed_and_is_news_then(events: FolderEvents, root: Path) -> None:
    (root / "New").mkdir()
    assert told(events, root) is None
    assert events.follow([*FOLDERS, "New"])
    assert not events.follow([*FOLDERS, "New"])
    (root / "New" / "Note.md").write_text("new\n")
    assert told(events, root) == {("New", "Note.md")}


def test_a_wait_ends_with_news_or_with_its_time(events: FolderEvents, root: Path) -> None:
    async def steps() -> list[bool]:
        quiet = await events.wait(0.02)
        waiting = asyncio.create_task(events.wait(LONGEST))
        await asyncio.sleep(0)
        edit(root)
        return [quiet, await waiting]

    assert asyncio.run(steps()) == [False, True]
    assert events.take() == {("Work", "Plan.md")}


def test_news_from_before_a_wait_ends_it(events: FolderEvents, root: Path) -> None:
    edit(root)
    time.sleep(0.05)
    assert asyncio.run(events.wait(LONGEST))


def test_closed_events_know_nothing(events: FolderEvents, root: Path) -> None:
    events.close()
    events.close()
    edit(root)
    assert events.take() is None
    assert not events.follow(FOLDERS)


def test_the_library_watches_the_folder_that_has_taken_the_roots_place(
    root: Path, tmp_path: Path
) -> None:
    events = TreeEvents(root)
    events.follow(FOLDERS)
    events.take()
    root.rename(tmp_path / "away")
    assert events.take() is None
    assert not events.follow([])
    (root / "Work").mkdir(parents=True)
    assert events.take() is None
    assert events.follow(["", "Work"])
    events.take()
    edit(root)
    assert told(events, root) == {("Work", "Plan.md")}
    events.close()


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        # Windows tells of a folder that is gone as of a file.
        (lambda root: FileDeletedEvent(f"{root}/Work"), None),
        (lambda root: FileMovedEvent("", f"{root}/Work/Plan.md"), None),
        (lambda root: FileModifiedEvent(f"{root}/WORK~1/Plan.md"), None),
        (lambda root: FileModifiedEvent(f"{root}/Work/PLANOF~1.MD"), None),
        (lambda root: FileDeletedEvent(f"{root}/Work/PLANOF~1.MAR"), None),
        (lambda root: FileModifiedEvent(f"{root}/Work/~$Plan.md"), {("Work", "~$Plan.md")}),
        (lambda root: FileModifiedEvent(f"{root}/WORK/Plan.md"), {("Work", "Plan.md")}),
        # Each change of a file changes its folder, and so may each look at it.
        (lambda root: DirModifiedEvent(f"{root}/Work"), set()),
        (lambda root: DirAttribEvent(f"{root}/Work"), set()),
        (lambda root: FileOpenedEvent(f"{root}/Work/Plan.md"), set()),
        (lambda root: DirDeletedEvent(f"{root}/.git/logs"), set()),
        # macOS: a folder of this name may be spelled in either of two ways.
        (lambda root: FileModifiedEvent(f"{root}/Cafe\u0301/Plan.md"), {("Caf\u00e9", "Plan.md")}),
        (lambda root: DirDeletedEvent(str(root)), None),
        (lambda _root: FileModifiedEvent("/elsewhere/Plan.md"), None),
    ],
)
def test_what_the_library_tells_on_macos_and_windows_is_understood(
    root: Path,
    event: Callable[[Path], FileSystemEvent],
    expected: set[tuple[str, str]] | None,
) -> None:
    events = TreeEvents(root)
    events.follow([*FOLDERS, "Caf\u00e9"])
    events.take()
    events.dispatch(event(root))
    assert events.take() == expected
    assert not asyncio.run(events.wait(0.005)), "what was taken is no news"
    events.close()


def test_very_many_changed_files_are_not_remembered_one_by_one(
    events: FolderEvents, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[type(events).__module__], "_MOST", 5)
    for number in range(200):  # they come in several lots
        (root / "Work" / f"{number}.md").touch()
    assert told(events, root) is None


@pytest.mark.skipif(os.name == "nt", reason="see the tests of the vault")
def test_a_vault_finds_an_edit_by_the_librarys_events(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(SYSTEM), "folder_events", lambda _system, place: TreeEvents(place))
    monkeypatch.setattr(VaultStore, "shortest_pause", LONGEST * 2)
    monkeypatch.setattr(file_table, "_RECENT", -1.0)
    store = VaultStore(root)

    async def steps() -> set[str]:
        cursor = store._list_page(None, 9, with_content=False).cursor
        cursor = (await store.changes(cursor, wait=False, base_of=lambda _: None)).cursor
        waiting = asyncio.create_task(store.changes(cursor, wait=True, base_of=lambda _: None))
        await asyncio.sleep(0.05)
        edit(root)
        page = await asyncio.wait_for(waiting, LONGEST)
        await store.close()
        return {one.id for one in page.changes}

    began = time.monotonic()
    assert asyncio.run(steps()) == {"Work/Plan.md"}
    assert time.monotonic() - began < LONGEST


def test_linux_does_not_load_the_library() -> None:
    if sys.platform == "linux":
        assert type(SYSTEM.folder_events(Path("/"))).__module__ == "mcp_notarium.system.linux"
