"""Keep a vault on Windows: names, placeholders, programs that hold files, replacements that fail half way."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import (
    IdTaken,
    NotariumError,
    NoteNotFound,
    NoteReadOnly,
    NoteUnreadable,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
)
from mcp_notarium.stores.vault import file_writer, listing, note_writer
from mcp_notarium.stores.vault.folder import VaultFolder, open_folder, open_parent
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.system.windows_kernel import ACCESS_DENIED
from mcp_notarium.system.windows_stat import WindowsStates
from support.journal_entries import make_write
from support.systems import Windows, on_windows, opened, put, texts
from support.windows_files import (
    CLOUD,
    JUNCTION,
    OFFLINE,
    READ_ONLY,
    RECALL_ON_DATA_ACCESS,
    SHARE_DELETE,
    SHARE_READ,
    SHARE_WRITE,
)
from support.windows_names import Refused

READ, WRITE, EXISTING, BACKUP, ITSELF = 0x80000000, 0x40000000, 3, 0x02000000, 0x00200000
DEDUP = 0x80000013
NEW_TEXT = "ours\n"


@pytest.fixture(name="windows")
def _windows(rules: set[str]) -> Iterator[Windows]:
    with on_windows() as system:
        yield system
        rules |= system.fired


@pytest.fixture(name="vault")
def _vault(tmp_path: Path) -> Path:
    put(tmp_path / "vault" / "Sub" / "Note.md", "base\n")
    return tmp_path / "vault"


@pytest.fixture(name="note")
def _note(vault: Path) -> Path:
    return vault / "Sub" / "Note.md"


@pytest.fixture(name="store")
def _store(windows: Windows, vault: Path) -> Iterator[VaultStore]:
    with opened(vault) as store:
        yield store
    windows.settle()


def prepare(store: VaultStore, **changes: object) -> PendingWrite:
    base = store._get("Sub/Note.md")
    changes = changes or {"text": NEW_TEXT}
    content = replace(base.content, **changes)  # type: ignore[arg-type]
    return make_write(store, base.id, content, base)


def save(store: VaultStore, **changes: object) -> Revision:
    return store._writer.push(prepare(store, **changes)).revision


def create(store: VaultStore, note_id: str) -> Revision:
    content = Content(NEW_TEXT, title=note_id.removesuffix(".md"))
    return store._writer.push(make_write(store, note_id, content)).revision


def listed(store: VaultStore) -> list[str]:
    return sorted(one.id for one in store._list_page(None, 99, with_content=False).entries)


def hold(windows: Windows, path: Path, access: int = READ, share: int = SHARE_READ) -> int:
    """Open a file as another program does."""
    return windows.model.open(str(path), access, share, EXISTING, by="other")


@pytest.mark.rule("letter case")
def test_a_name_is_changed_in_letter_case_and_found_in_its_own_only(
    store: VaultStore, vault: Path
) -> None:
    for other in ("sub/Note.md", "Sub/NOTE.md"):
        with pytest.raises(NoteNotFound):
            store._get(other)
    assert save(store, title="Sub/NOTE").id == "Sub/NOTE.md"
    assert texts(vault) == {"Sub/NOTE.md": "base\n"}


SHORT = {
    "Sub/Notes of today.md": "Sub/NOTESO~1.MD",
    "2026-01-01 diary/Note.md": "2026-0~1/Note.md",
    ".secret/Note.md": "SECRET~1/Note.md",
}
"""The folder's short name has no letter, whose other case could be tried."""


@pytest.mark.rule("short names")
@pytest.mark.parametrize("note_id", SHORT)
def test_a_note_and_a_folder_have_no_second_name(
    store: VaultStore, windows: Windows, vault: Path, note_id: str
) -> None:
    put(vault / note_id, "theirs\n")
    short = SHORT[note_id]
    assert windows.model.find(str(vault / short)).exists
    with pytest.raises(NoteNotFound):
        store._get(short)
    with store._folder.opened() as root:
        for exact in (True, False):
            with (
                pytest.raises((FileNotFoundError, NoteNotFound)),
                open_parent(root, short, exact=exact) as (parent, name),
            ):
                file_writer.SYSTEM.look(parent, name)
    with pytest.raises(NotariumError):
        create(store, short)
    with pytest.raises(NotariumError):
        save(store, title=short.removesuffix(".md").removesuffix(".MD"))
    assert texts(vault) == {note_id: "theirs\n", "Sub/Note.md": "base\n"}


@pytest.mark.rule("letter case", "a move replaces only if asked")
def test_a_file_in_another_letter_case_that_comes_right_before_is_not_replaced(
    store: VaultStore, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = vault / "New.md"
    monkeypatch.setattr(note_writer, "check_not_withdrawn", lambda: put(new, "theirs\n"))
    with pytest.raises(IdTaken):
        create(store, "NEW.md")
    assert texts(vault) == {"New.md": "theirs\n", "Sub/Note.md": "base\n"}


@pytest.mark.parametrize(
    "note_id",
    [
        "CON.md", "nul.md", "conin$.md", "Sub/com1.x.md", "aux/New.md", "LPT¹.md", "New.md:s.md", "New:s.md", "Sub:s/New.md",
        "Sub./New.md", "Sub /New.md", "..\\New.md", "Sub\\New.md", "../New.md", "Sub/../New.md", "a?.md", "a|b.md",
        "C:/New.md", "\\\\?\\C:\\New.md", "//server/share/New.md", "Note.md::$DATA",
    ],
)  # fmt: skip
def test_no_name_of_another_thing_is_read_or_made(
    store: VaultStore, windows: Windows, vault: Path, note_id: str
) -> None:
    with pytest.raises(NoteNotFound):
        store._get(note_id)
    windows.model.calls.clear()
    with pytest.raises(NotariumError):
        store._writer.push(make_write(store, note_id, Content(NEW_TEXT, title="New")))
    assert windows.model.streams == {}
    assert texts(vault.parent) == {"vault/Sub/Note.md": "base\n"}
    assert [one.name for one in vault.iterdir()] == ["Sub"]


@pytest.mark.rule("prefix is literal")
def test_names_that_only_the_disk_knows_are_no_notes(store: VaultStore, vault: Path) -> None:
    """Linux beside Windows, or a program that uses the prefix, makes them."""
    for name in ("nul.md", "x.md.", "a:b.md", "y. /z.md"):
        put(vault / name, "hidden\n")
    assert listed(store) == ["Sub/Note.md"]


@pytest.mark.rule("links are followed")
def test_what_stands_for_another_name_is_no_part_of_the_vault(
    store: VaultStore, windows: Windows, vault: Path
) -> None:
    put(vault.parent / "outside" / "Far.md", "outside\n")
    (vault / "junction").mkdir()
    windows.model.links[str(vault / "junction")] = (str(vault.parent / "outside"), JUNCTION)
    (vault / "link.md").symlink_to(vault.parent / "outside" / "Far.md")
    put(vault / "Stored.md", "stored\n")
    windows.model.links[str(vault / "Stored.md")] = (str(vault / "Stored.md"), DEDUP)
    assert listed(store) == ["Stored.md", "Sub/Note.md"]
    assert store._get("Stored.md").content.text == "stored\n"
    for name in ("junction/Far.md", "link.md"):
        with pytest.raises((NoteNotFound, NoteUnreadable)):
            store._get(name)
    with pytest.raises(NotariumError):
        create(store, "junction/New.md")
    with VaultFolder(vault).opened() as root, pytest.raises(NotADirectoryError):
        file_writer.SYSTEM.open_folder(root, "junction")
    assert texts(vault.parent / "outside") == {"Far.md": "outside\n"}


@pytest.mark.rule("an empty folder becomes a link", "links are followed")
def test_an_open_folder_that_becomes_a_link_leads_nowhere(windows: Windows, vault: Path) -> None:
    outside = vault.parent / "outside"
    put(outside / "Note.md", "outside\n")
    (outside / "Empty").mkdir()
    put(vault / "Top.md", "top\n")
    port = file_writer.SYSTEM
    with VaultFolder(vault).opened() as root:
        here = open_folder(root, ["Sub"])
        windows.other.remove(vault / "Sub" / "Note.md")
        windows.other.link(vault / "Sub", outside)
        for act in (
            lambda: port.look(here, "Note.md"),
            lambda: port.open_file(here, "Note.md"),
            lambda: port.open_folder(here, "Empty"),
            lambda: port.create_file(here, "New.md", private=False),
            lambda: port.make_folder(here, "New"),
            lambda: port.unlink(here, "Note.md"),
            lambda: port.remove_folder(here, "Empty"),
            lambda: port.rename(here, "Note.md", here, "New.md", exchange=False),
            lambda: port.rename(here, "Note.md", root, "New.md", exchange=False),
            lambda: port.rename(root, "Top.md", here, "Top.md", exchange=False),
        ):
            with pytest.raises((FileNotFoundError, NotADirectoryError)):
                act()
        os.close(here)
    windows.settle()
    assert sorted(one.name for one in outside.iterdir()) == ["Empty", "Note.md"]
    assert texts(vault) == {"Top.md": "top\n"}


def refuse_to_open(windows: Windows, _patch: pytest.MonkeyPatch, *, code: int) -> None:
    def before(call: str) -> None:
        path, access, *_ = windows.model.calls[-1][1] if call == "CreateFileW" else ("", 0)
        if str(path).endswith("Far.md") and access == READ:
            raise Refused(code)

    windows.model.before = before


def refuse_to_read(_windows: Windows, patch: pytest.MonkeyPatch, *, number: int) -> None:
    real = os.read

    def read(file: int, size: int) -> bytes:
        if Path(f"/proc/self/fd/{file}").readlink().name == "Far.md":
            raise OSError(number, "it cannot be read")
        return real(file, size)

    patch.setattr(os, "read", read)


@pytest.mark.parametrize(
    "refuse",
    [
        pytest.param(partial(refuse_to_open, code=362), id="provider-not-running"),
        pytest.param(partial(refuse_to_open, code=225), id="infected"),
        pytest.param(partial(refuse_to_read, number=errno.EINVAL), id="not-fetched"),
        pytest.param(partial(refuse_to_read, number=errno.EIO), id="bad-disk"),
    ],
)
def test_a_file_that_cannot_be_read_stays_as_it_was_and_keeps_no_other_from_being_read(
    store: VaultStore,
    windows: Windows,
    vault: Path,
    refuse: Callable[[Windows, pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put(vault / "Far.md", "far\n")
    monkeypatch.setattr(listing, "is_settled", lambda _newest: True)
    assert listed(store) == ["Far.md", "Sub/Note.md"]
    (vault / "Far.md").write_text("farther\n")
    with pytest.MonkeyPatch.context() as patch:
        refuse(windows, patch)
        page = store._list_page(None, 9, with_content=True)
        assert sorted(one.id for one in page.entries) == ["Far.md", "Sub/Note.md"]
        assert "base\n" in [one.content.text for one in page.entries if isinstance(one, Revision)]
        with pytest.raises(NoteUnreadable) as refused:
            store._get("Far.md")
    assert refused.value.subcategory == "read_failed"
    windows.model.before = lambda _call: None
    assert store._get("Far.md").content.text == "farther\n"


def test_a_file_that_may_not_even_be_looked_at_is_not_readable_and_not_gone(
    store: VaultStore, windows: Windows
) -> None:
    assert listed(store) == ["Sub/Note.md"]

    def deny(call: str) -> None:
        if call == "CreateFileW" and str(windows.model.calls[-1][1][0]).endswith("Note.md"):
            raise Refused(ACCESS_DENIED)

    windows.model.before = deny
    with pytest.raises(NoteUnreadable):
        store._get("Sub/Note.md")
    with store._folder.opened() as root, open_parent(root, "Sub/Note.md") as (parent, name):
        assert file_writer.SYSTEM.look(parent, name).st_size == len("base\n")
        with pytest.raises(FileNotFoundError):
            file_writer.SYSTEM.look(parent, "None.md")


@pytest.mark.rule("a drive may be empty")
def test_a_vault_is_a_drive_with_nothing_on_it(windows: Windows, tmp_path: Path) -> None:
    windows.model.drives.add(str(tmp_path))
    with opened(tmp_path) as store:
        assert listed(store) == []
        create(store, "New.md")
        assert listed(store) == ["New.md"]


@pytest.mark.rule("a disk without a mount manager")
@pytest.mark.parametrize("code", [1, 3, 1005])
def test_a_vault_lies_on_a_disk_that_the_mount_manager_does_not_know(
    store: VaultStore, windows: Windows, vault: Path, code: int
) -> None:
    windows.model.unmanaged = code
    create(store, "Sub/New.md")
    save(store)
    assert listed(store) == ["Sub/New.md", "Sub/Note.md"]
    assert texts(vault) == {"Sub/New.md": NEW_TEXT, "Sub/Note.md": NEW_TEXT}


@pytest.mark.rule("placeholders are listed")
def test_what_is_at_onedrive_only_is_told_and_never_fetched(
    store: VaultStore, windows: Windows, vault: Path
) -> None:
    path = str(vault / "Away.md")
    put(vault / "Away.md", "away\n")
    windows.model.links[path] = (path, CLOUD)
    key = windows.model.key_of(path)
    windows.model.attributes[key] = RECALL_ON_DATA_ACCESS | OFFLINE
    page = store._list_page(None, 9, with_content=True)
    assert [one.content.text for one in page.entries if one.id != "Away.md"] == ["base\n"]
    with pytest.raises(NoteUnreadable) as refused:
        store._get("Away.md")
    assert refused.value.subcategory == "not_downloaded"
    assert windows.model.recalls == []
    del windows.model.attributes[key]  # it was downloaded
    assert store._get("Away.md").content.text == "away\n"


@pytest.mark.rule("scanner", "a replacement is opened alone")
def test_a_scanner_that_has_what_was_written_delays_and_loses_nothing(
    store: VaultStore, windows: Windows, vault: Path
) -> None:
    windows.model.scanner = 3
    save(store)
    create(store, "New.md")
    save(store, trash=True)
    assert texts(vault) == {".trash/Sub/Note.md": NEW_TEXT, "New.md": NEW_TEXT}


@pytest.mark.rule("share modes")
@pytest.mark.parametrize("share", [0, SHARE_READ, SHARE_READ | SHARE_WRITE])
@pytest.mark.parametrize("changes", [{}, {"trash": True}, {"title": "Sub/New"}], ids=str)
def test_a_note_that_another_program_keeps_open_is_left_as_it_is(
    store: VaultStore, windows: Windows, note: Path, share: int, changes: dict[str, object]
) -> None:
    write = prepare(store, **changes)
    handle = hold(windows, note, share=share)
    with pytest.raises(StoreUnavailable) as refused:
        store._writer.push(write)
    assert "epeat the call" in refused.value.resolution_hint
    assert "open" in refused.value.message
    assert texts(note.parent.parent) == {"Sub/Note.md": "base\n"}
    windows.model.close_handle(handle)
    save(store, **changes)
    assert texts(note.parent.parent) != {"Sub/Note.md": "base\n"}


@pytest.mark.rule("share modes")
def test_a_program_that_shares_all_hinders_nothing_and_its_words_are_kept(
    store: VaultStore, windows: Windows, vault: Path, note: Path
) -> None:
    handle = hold(windows, note, READ | WRITE, SHARE_READ | SHARE_WRITE | SHARE_DELETE)
    save(store)
    os.pwrite(windows.model.descriptor(handle, 0), b"late\n", 0)
    windows.model.close_handle(handle)
    listed(store)
    listed(store)
    assert sorted(texts(vault).values()) == ["late\n", NEW_TEXT]


@pytest.mark.rule("deletion is pending", "deleted at the last close")
def test_a_note_that_is_being_deleted_is_gone_and_its_name_not_free_yet(
    store: VaultStore, windows: Windows, vault: Path, note: Path
) -> None:
    handle = hold(windows, note, share=SHARE_READ | SHARE_WRITE | SHARE_DELETE)
    windows.other.remove(note)
    with pytest.raises(NoteNotFound):
        store._get("Sub/Note.md")
    listed(store)
    with pytest.raises(NotariumError):
        create(store, "Sub/Note.md")
    windows.model.close_handle(handle)
    assert listed(store) == []
    create(store, "Sub/Note.md")
    assert texts(vault) == {"Sub/Note.md": NEW_TEXT}


@pytest.mark.rule("a replacement fails half way")
@pytest.mark.parametrize("codes", [[1175], [1176, 1175], [1177], [1177, 1177]], ids=str)
def test_a_replacement_that_fails_half_way_is_made_again(
    store: VaultStore, windows: Windows, vault: Path, codes: list[int]
) -> None:
    windows.model.partial = codes
    assert save(store).content.text == NEW_TEXT
    assert texts(vault) == {"Sub/Note.md": NEW_TEXT}


@pytest.mark.rule("a replacement fails half way")
@pytest.mark.parametrize("code", [1175, 1176, 1177])
def test_a_replacement_that_always_fails_loses_no_text(
    store: VaultStore, windows: Windows, vault: Path, code: int
) -> None:
    windows.model.partial = [code] * 99
    with pytest.raises(NotariumError):
        save(store)
    windows.model.partial = []
    listed(store)
    assert texts(vault) == {"Sub/Note.md": "base\n"}


@pytest.mark.rule(
    "a replacement keeps the time of creation",
    "a replacement keeps streams",
    "a replacement has another id",
)
def test_a_save_keeps_the_date_and_the_streams_of_its_file(
    store: VaultStore, windows: Windows, note: Path
) -> None:
    windows.model.close_handle(windows.model.open(f"{note}:tags", WRITE, 0, 1, by="other"))
    before = windows.model.key_of(str(note))
    born = windows.model.born[before] = windows.model._born(before) - 20 * 365 * 24 * 3600 * 10**7
    saved = save(store)
    after = windows.model.key_of(str(note))
    assert after != before
    assert (windows.model._born(after), [*windows.model.streams[after]]) == (born, ["tags"])
    assert store._get("Sub/Note.md").created_at == saved.created_at


@pytest.mark.rule("a replacement has another id")
def test_a_save_after_which_the_old_file_keeps_the_spare_name_is_in_doubt(
    store: VaultStore, windows: Windows, vault: Path
) -> None:
    def refuse(call: str) -> None:
        if call == "MoveFileExW":
            raise Refused(5)

    windows.model.before = refuse
    with pytest.raises(OutcomeUnknown):
        save(store)
    windows.model.before = lambda _call: None
    assert listed(store) == ["Sub/Note.md"]
    assert texts(vault) == {"Sub/Note.md": NEW_TEXT}


@pytest.mark.rule("a replacement fails whole")
def test_a_drive_that_exchanges_no_files_holds_notes_too(
    store: VaultStore, windows: Windows, vault: Path, note: Path
) -> None:
    key = windows.model.key_of(str(note))
    born = windows.model.born[key] = windows.model._born(key) - 10**15
    windows.model.partial = [50]
    save(store)
    assert texts(vault) == {"Sub/Note.md": NEW_TEXT}
    assert windows.model._born(windows.model.key_of(str(note))) == born


@pytest.mark.rule("read-only")
@pytest.mark.parametrize("known", [True, False])
def test_a_read_only_note_is_refused(
    store: VaultStore,
    windows: Windows,
    vault: Path,
    note: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    known: bool,
) -> None:
    """Before anything is tried, and by the system if it was marked a moment ago."""
    windows.model.attributes[windows.model.key_of(str(note))] = READ_ONLY
    if known:
        with pytest.raises(NoteReadOnly):
            save(store)
    monkeypatch.setattr(WindowsStates, "is_read_only", lambda *_: False)
    with pytest.raises(NotariumError):
        save(store)
    assert texts(vault) == {"Sub/Note.md": "base\n"}


@pytest.mark.rule("prefix is literal")
def test_a_note_lies_deeper_than_a_path_without_the_prefix_reaches(
    store: VaultStore, vault: Path
) -> None:
    deep = "/".join(["Folder with a name"] * 20) + "/New.md"
    create(store, deep)
    assert store._get(deep).content.text == NEW_TEXT
    assert listed(store) == [deep, "Sub/Note.md"]


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param("vault/Sub", marks=pytest.mark.rule("share modes")),
        pytest.param("vault", marks=pytest.mark.rule("share modes")),
        pytest.param(".", marks=pytest.mark.rule("a folder in use is not renamed")),
    ],
)
def test_a_folder_cannot_be_renamed_while_a_note_below_is_written(
    windows: Windows, store: VaultStore, vault: Path, folder: str
) -> None:
    base, refused = store._get("Sub/Note.md"), list[OSError]()
    place = (vault.parent / folder).resolve()

    def rename() -> None:
        try:
            windows.other.rename(place, place.with_name("moved"))
        except OSError as error:
            refused.append(error)

    write = make_write(store, base.id, replace(base.content, text=NEW_TEXT), base)
    with windows.acting_before(90, rename), suppress(NotariumError):
        store._writer.push(write)
    assert len(refused) == 1
    assert re.search(r"error 5|open", str(refused[0]))
    assert texts(vault) == {"Sub/Note.md": NEW_TEXT}


@pytest.mark.rule("coarse times")
def test_an_edit_within_the_two_seconds_of_fat_is_seen(
    store: VaultStore, windows: Windows, note: Path
) -> None:
    windows.model.coarse = True
    for text in ("one\n", "two\n", "six\n"):
        note.write_text(text)
        listed(store)
        page = store._list_page(None, 9, with_content=True)
        assert [one.content.text for one in page.entries] == [text]


@pytest.mark.rule("ids of places")
def test_a_note_on_fat_is_renamed_trashed_and_restored_though_its_number_changes(
    store: VaultStore, windows: Windows, vault: Path, note: Path
) -> None:
    windows.model.coarse = True
    save(store, trash=True)
    assert texts(vault) == {".trash/Sub/Note.md": "base\n"}
    save(store, trash=False, text=NEW_TEXT)
    assert texts(vault) == {"Sub/Note.md": NEW_TEXT}
    save(store, title="Sub/New", text="other\n")
    assert texts(vault) == {"Sub/New.md": "other\n"}


def test_an_exchange_that_ends_half_way_is_in_doubt_and_loses_nothing(
    store: VaultStore, windows: Windows, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        if name == "MoveFileExW":
            raise OSError(errno.EIO, "the disk is broken")

    base = store._get("Sub/Note.md")
    write = make_write(store, base.id, replace(base.content, text=NEW_TEXT), base)
    monkeypatch.setattr(windows.model, "before", refuse)
    with pytest.raises(OutcomeUnknown):
        store._writer.push(write)
    monkeypatch.undo()
    monkeypatch.setattr(file_writer, "LEFT_BEHIND", -1.0)
    assert listed(store) == ["Sub/Note.md"]
    assert texts(vault) == {"Sub/Note.md": NEW_TEXT}


@pytest.mark.parametrize("note_id", ["CON.md", "Sub/com1.x.md", "New.md:s.md", "Sub./New.md"])
def test_a_name_that_windows_keeps_for_another_thing_is_refused_with_a_hint(
    store: VaultStore, note_id: str
) -> None:
    with pytest.raises(StoreRejected, match="can have this name") as refused:
        create(store, note_id)
    assert refused.value.resolution_hint


@pytest.mark.parametrize("folder", ["", "Sub"])
def test_an_open_folder_keeps_its_name(windows: Windows, vault: Path, folder: str) -> None:
    with VaultFolder(vault).opened() as root:
        here = open_folder(root, [folder] if folder else [])
        with pytest.raises(OSError, match="open"):
            windows.other.rename(vault / folder, vault.parent / "moved")
        os.close(here)
    windows.other.rename(vault / folder, vault.parent / "moved")
