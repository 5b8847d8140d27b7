"""Take names in any letter case for one: on the simulated systems, and on a disk of this kernel if it has one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import IdTaken, NoteNotFound
from mcp_notarium.stores.vault import note_writer
from support.journal_entries import make_write
from support.systems import SYSTEMS, opened, put, texts

FOLDED = os.environ.get("NOTARIUM_TEST_FOLDED_FOLDER", "")


@pytest.fixture(
    name="vault",
    params=[
        "macos",
        "windows",
        pytest.param(
            "kernel", marks=pytest.mark.skipif(not FOLDED, reason="no disk: scripts/_folded_disk")
        ),
    ],
)
def _vault(request: pytest.FixtureRequest) -> Iterator[Path]:
    with ExitStack() as stack:
        on_disk = request.param == "kernel"
        place = stack.enter_context(TemporaryDirectory(dir=FOLDED if on_disk else None))
        if not on_disk:
            stack.enter_context(SYSTEMS[request.param]())
        put(Path(place) / "vault" / "Sub" / "Note.md", "text\n")
        yield Path(place) / "vault"


def test_a_note_gets_its_own_name_in_another_letter_case(vault: Path) -> None:
    with opened(vault) as store:
        base = store._get("Sub/Note.md")
        write = make_write(store, base.id, replace(base.content, title="Sub/NOTE"), base)
        assert store._writer.push(write).revision.id == "Sub/NOTE.md"
    assert texts(vault) == {"Sub/NOTE.md": "text\n"}


@pytest.mark.parametrize("note_id", ["sub/Note.md", "Sub/NOTE.md", "SUB/note.md"])
def test_another_spelling_is_no_note(vault: Path, note_id: str) -> None:
    with opened(vault) as store, pytest.raises(NoteNotFound):
        store._get(note_id)


def test_a_name_that_is_taken_in_another_spelling_at_the_last_moment_is_not_replaced(
    vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = vault / "Sub" / "New.md"
    monkeypatch.setattr(note_writer, "check_not_withdrawn", lambda: put(new, "theirs\n"))
    content = Content("ours\n", title="NEW")
    with opened(vault) as store, pytest.raises(IdTaken):
        store._writer.push(make_write(store, "Sub/NEW.md", content))
    assert texts(vault) == {"Sub/New.md": "theirs\n", "Sub/Note.md": "text\n"}
