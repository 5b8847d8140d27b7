"""Spell names as macOS permits, and let iCloud take the content of files away."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import IdTaken, NoteNotFound, NoteUnreadable
from mcp_notarium.stores.vault import note_writer
from mcp_notarium.stores.vault.store import VaultStore
from support.journal_entries import make_write
from support.systems import OLD, MacOS, macos, opened, put, texts

COMPOSED = "Müsli.md"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


@pytest.fixture(name="mac", params=[False, True], ids=["excludes", "renames-case"])
def _mac(request: pytest.FixtureRequest, rules: set[str]) -> Iterator[MacOS]:
    with macos(renames_case=request.param) as system:
        yield system
        rules |= system.fired


@contextmanager
def root(place: Path) -> Iterator[int]:
    folder = os.open(place / "vault", os.O_RDONLY)
    yield folder
    os.close(folder)


def born_of(mac: MacOS, path: Path) -> str:
    with path.open("rb") as file:
        return mac.model.birth(file.fileno())


def rename(store: VaultStore, old: str, title: str) -> str:
    base = store._get(old)
    write = make_write(store, base.id, replace(base.content, title=title), base)
    return store._writer.push(write).revision.id


@pytest.mark.rule("names in any case", "exclusive rename")
def test_a_note_gets_its_own_name_in_another_letter_case(mac: MacOS, tmp_path: Path) -> None:
    put(tmp_path / "vault" / "Note.md", "text\n")
    with opened(tmp_path / "vault") as store:
        assert rename(store, "Note.md", "NOTE") == "NOTE.md"
    assert texts(tmp_path / "vault") == {"NOTE.md": "text\n"}


@pytest.mark.rule("names in any normal form")
def test_a_file_with_decomposed_letters_is_read_by_its_own_name_only(
    mac: MacOS, tmp_path: Path
) -> None:
    put(tmp_path / "vault" / DECOMPOSED, "text\n")
    with opened(tmp_path / "vault") as store:
        (listed,) = store._list_page(None, 9, with_content=True).entries
        assert listed.id == DECOMPOSED
        assert store._get(DECOMPOSED).content.text == "text\n"
        with pytest.raises(NoteNotFound):
            store._get(COMPOSED)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(COMPOSED, marks=pytest.mark.rule("names in any normal form")),
        pytest.param("MU\u0308SLI.md", marks=pytest.mark.rule("names in any case")),
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_a_new_note_replaces_no_file_of_another_spelling(
    mac: MacOS, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """``late``: it comes right before the note, when its name was found free."""
    old = tmp_path / "vault" / DECOMPOSED
    if late:
        old.parent.mkdir()
        monkeypatch.setattr(note_writer, "check_not_withdrawn", lambda: put(old, "old\n"))
    else:
        put(old, "old\n")
    with opened(tmp_path / "vault") as store, pytest.raises(IdTaken):
        store._writer.push(make_write(store, name, Content("new\n", title=name[:-3])))
    assert texts(tmp_path / "vault") == {DECOMPOSED: "old\n"}
    with root(tmp_path) as folder:
        assert mac.model.name(folder, name) == DECOMPOSED


LIST = "group:staff deny writeattr,writeextattr"


@pytest.mark.rule("exchange", "copied attributes", "access lists", "denied attributes")
@pytest.mark.rule("time of creation", "flags")
def test_a_save_keeps_what_the_file_has_beside_its_text(mac: MacOS, tmp_path: Path) -> None:
    """Its date of writing becomes today's, though: other programs look for it."""
    path = tmp_path / "vault" / "Note.md"
    put(path, "base\n")
    os.setxattr(path, "user.finder-tag", b"red")
    old, born = path.stat().st_ino, born_of(mac, path)
    mac.model.access_lists[old] = LIST
    mac.model.own_flags = 0x40  # UF_TRACKED is the system's
    mac.model.flags[old] = 0x8000 | 0x20  # UF_HIDDEN; UF_COMPRESSED is the system's too
    mac.model.attributes[old] = {"com.apple.ResourceFork": bytes(1 << 21)}
    with opened(tmp_path / "vault") as store:
        base = store._get("Note.md")
        store._writer.push(
            make_write(store, base.id, replace(base.content, text="ours\n" * 9999), base)
        )
    assert os.getxattr(path, "user.finder-tag") == b"red"
    new = path.stat().st_ino
    assert new != old
    assert mac.model.access_lists[new] == LIST
    assert mac.model.flags[new] == 0x8000 | 0x40
    assert mac.model.attributes[new] == {"com.apple.ResourceFork": bytes(1 << 21)}
    assert born_of(mac, path) == born
    assert path.stat().st_mtime > OLD


@pytest.mark.rule("no flags everywhere", "attributes")
def test_a_drive_that_exchanges_no_files_holds_notes_too(rules: set[str], tmp_path: Path) -> None:
    put(tmp_path / "vault" / "Note.md", "base\n")
    with macos(swaps=False) as mac, opened(tmp_path / "vault") as store:
        base = store._get("Note.md")
        store._writer.push(make_write(store, base.id, replace(base.content, text="ours\n"), base))
        with pytest.raises(IdTaken):
            store._writer.push(make_write(store, "NOTE.md", Content("new\n", title="NOTE")))
        rules |= mac.fired
    assert texts(tmp_path / "vault") == {"Note.md": "ours\n"}


@pytest.mark.rule("dataless files")
def test_what_is_at_icloud_only_is_told_and_never_fetched(mac: MacOS, tmp_path: Path) -> None:
    away, here = tmp_path / "vault" / "Away.md", tmp_path / "vault" / "Here.md"
    put(away, "away\n")
    put(here, "here\n")
    mac.model.dataless = {away.stat().st_ino}
    with opened(tmp_path / "vault") as store:
        page = store._list_page(None, 9, with_content=True)
        assert [one.content.text for one in page.entries if one.id == "Here.md"] == ["here\n"]
        with pytest.raises(NoteUnreadable, match="iCloud"):
            store._get("Away.md")
        assert mac.model.fetched == []
    with root(tmp_path) as folder:
        os.close(os.open("Away.md", os.O_RDONLY, dir_fd=folder))
    assert mac.model.fetched == ["Away.md"], "the model tells"
