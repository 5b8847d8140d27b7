"""Test that a fault of the system at any step of a write is never told as a write that was not made, if it was."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from mcp_notarium.domain.note import Content
from mcp_notarium.errors import NotariumError
from mcp_notarium.stores.contract import NOT_STORED
from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault import folder as folder_module
from mcp_notarium.stores.vault.store import VaultStore
from support.between_calls import PLACES
from support.journal_entries import make_write
from support.long import sample
from support.simulated_macos import simulate_macos
from support.sync_rig import Client

BASE, OURS, OTHER = "base\n", "ours\n", "another note\n"
OLD = 1_600_000_000
CHANGES = {
    "create": {},
    "text": {"text": OURS},
    "trash": {"trash": True},
    "text and trash": {"text": OURS, "trash": True},
    "untrash": {"trash": False},
    "name": {"title": "Sub/New"},
    "letter case": {"title": "Sub/NOTE"},
    "name and text": {"title": "Below/New", "text": OURS},
    "delete": None,
}


class Faults:
    """Let the system calls from the n-th on fail, or that one alone. Closing never fails: it would stay open."""

    def __init__(self, first: int, *, lasting: bool, exchanges: bool) -> None:
        self._first, self._lasting, self._exchanges = first, lasting, exchanges
        self.calls = 0

    @property
    def met(self) -> bool:
        return self.calls > self._first

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for module, name in PLACES:
                if name != "close":
                    patch.setattr(module, name, self._watched(module, name))
            yield

    def _watched(self, module: object, name: str) -> Callable[..., object]:
        real = getattr(module, name)

        def call(*arguments: object, **options: object) -> object:
            fails = self.calls == self._first or (self._lasting and self.calls > self._first)
            self.calls += 1
            if fails:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            if module is file_writer and not self._exchanges:
                return False
            return real(*arguments, **options)

        return call


def everything(place: Path) -> dict[str, str]:
    files = (path for path in sorted(place.rglob("*")) if path.is_file())
    return {str(path.relative_to(place)): path.read_text() for path in files}


def notes(held: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in held.items() if name.endswith(".md")}


def attempt(place: Path, kind: str, faults: Faults) -> tuple[NotariumError | None, dict[str, str]]:
    """Make the write in a new vault; return its error, and what the vault was before."""
    lies = place / (".trash" if kind in ("untrash", "delete") else "") / "Sub" / "Note.md"
    other = place / "Sub" / "Other.md"
    for path, text in ((lies, BASE), (other, OTHER)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind != "create" or path is other:
            path.write_text(text)
            os.utime(path, (OLD, OLD))
    store = VaultStore(place)
    before = everything(place)
    base = None if kind == "create" else store._get("Sub/Note.md")
    changes = CHANGES[kind]
    error = None
    try:
        if base is None:
            write = make_write(store, "Sub/Note.md", Content(OURS, title="Note"))
        elif changes is not None:
            write = make_write(store, base.id, replace(base.content, **changes), base)
        with faults.at_work():
            if changes is None:
                store._writer.delete("Sub/Note.md", base.etag if base else "")
            else:
                store._writer.push(write)
    except NotariumError as caught:
        error = caught
    asyncio.run(store.close())
    return error, before


WAYS = {
    (lasting, exchanges): (
        "lasting" if lasting else "once",
        "exchanges" if exchanges else "links",
    )
    for lasting in (True, False)
    for exchanges in (True, False)
}


@pytest.mark.slow("each fault has a vault of its own")
@pytest.mark.parametrize(
    ("kind", "lasting", "exchanges"),
    [
        pytest.param(kind, *way, id="-".join((kind, *WAYS[way])))
        for kind in CHANGES
        for way in sample(f"faults of {kind}", list(WAYS), 1)
    ],
)
def test_a_fault_at_any_step_never_passes_for_a_write_that_was_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, lasting: bool, exchanges: bool
) -> None:
    monkeypatch.setattr(folder_module, "SETTLED", 0.0)
    seen: set[str] = set()
    for number in count():
        place, faults = tmp_path / str(number), Faults(number, lasting=lasting, exchanges=exchanges)
        error, before = attempt(place, kind, faults)
        held = everything(place)
        assert held["Sub/Other.md"] == OTHER
        if kind not in ("create", "delete"):
            assert {BASE, OURS} & set(held.values()), "a text is nowhere"
        if isinstance(error, NOT_STORED):
            seen.add("not stored")
            assert notes(held) == before, (number, error.message)
        else:
            seen.add("stored" if error is None else "in doubt")
        if not faults.met:
            break
    assert error is None
    assert notes(held) != before
    assert seen >= {"not stored", "stored"}, seen


@pytest.mark.anyio
async def test_an_edit_that_a_save_displaced_is_kept_if_the_note_cannot_go_to_the_trash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, rename, steps = tmp_path / "vault", file_writer.rename, count()
    vault.mkdir()
    (vault / "Note.md").write_text("one\ntwo\nthree\n")
    client = Client(tmp_path, None, remote=VaultStore(vault))
    await client.sync()

    def interrupted(parent: int, old: str, target: int, new: str, *, exchange: bool) -> bool:
        step = next(steps)
        if step == 0:  # right before the exchange
            with (vault / "Note.md").open("a") as file:
                file.write("theirs\n")
        if step == 1:
            raise OSError(errno.EIO, "the disk refuses")
        return rename(parent, old, target, new, exchange=exchange)

    monkeypatch.setattr(file_writer, "rename", interrupted)
    note = client.note("Note.md")
    content = replace(note.content, text="ours\ntwo\nthree\n", trash=True)
    saved = await client.writer.save(note=note, content=content)
    assert saved.merged
    assert (vault / ".trash" / "Note.md").read_text() == "ours\ntwo\nthree\ntheirs\n"
    client.close()


@pytest.mark.anyio
async def test_on_macos_an_edit_right_before_the_exchange_is_in_the_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate_macos(monkeypatch)
    vault, rename, exchanged = tmp_path / "vault", file_writer.rename, list[bool]()
    vault.mkdir()
    (vault / "Note.md").write_text("one\ntwo\nthree\n")
    os.setxattr(vault / "Note.md", "user.finder-tag", b"red")
    client = Client(tmp_path, None, remote=VaultStore(vault))
    await client.sync()

    def beside_an_editor(parent: int, old: str, target: int, new: str, *, exchange: bool) -> bool:
        if exchange and not exchanged:
            with (vault / "Note.md").open("a") as file:
                file.write("theirs\n")
        done = rename(parent, old, target, new, exchange=exchange)
        exchanged.append(done and exchange)
        return done

    monkeypatch.setattr(file_writer, "rename", beside_an_editor)
    note = client.note("Note.md")
    content = replace(note.content, text="ours\ntwo\nthree\n")
    await client.writer.save(note=note, content=content)
    await client.sync()
    assert exchanged[0]
    assert client.note("Note.md").text == "ours\ntwo\nthree\ntheirs\n"
    assert (vault / "Note.md").read_text() == "ours\ntwo\nthree\ntheirs\n"
    assert os.getxattr(vault / "Note.md", "user.finder-tag") == b"red"
    assert [one.name for one in vault.iterdir()] == ["Note.md"]
