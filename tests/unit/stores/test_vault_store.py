"""Test a vault whose files other programs change between any two system calls, and what it remembers."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.errors import (
    IdTaken,
    NotariumError,
    NoteNotFound,
    OutcomeUnknown,
    StoreProtocolError,
    StoreRejected,
    StoreUnavailable,
    VersionConflict,
)
from mcp_notarium.stores.contract import Acknowledgement
from mcp_notarium.stores.vault import file_writer, note_writer
from mcp_notarium.stores.vault import folder as folder_module
from mcp_notarium.stores.vault.file_table import Watch
from mcp_notarium.stores.vault.store import VaultStore
from support import needs
from support.between_calls import acting_before
from support.journal_entries import make_write

OLD = 1_600_000_000
OURS, THEIRS = "ours\n", "theirs\n"


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "SETTLED", 0.0)


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Path:
    place = tmp_path / "vault"
    place.mkdir()
    return place


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (OLD, OLD))


def content_of(base: Revision, **changes: object) -> Content:
    held = base.content
    values = {"text": held.text, "tags": held.tags, "trash": held.trash, "title": held.title}
    return Content(**values | changes)  # type: ignore[arg-type]


def everything(place: Path) -> dict[str, str]:
    return {
        str(path.relative_to(place)): path.read_text()
        for path in sorted(place.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def edit_in_place(path: Path) -> None:
    with path.open("a") as file:
        file.write(THEIRS)


def edit_by_rename(path: Path) -> None:
    temporary = path.with_name("editor.tmp")
    temporary.write_text(THEIRS)
    temporary.rename(path)


@pytest.mark.slow("about forty places, each with a vault of its own")
@pytest.mark.parametrize("edit", [edit_in_place, edit_by_rename])
def test_an_edit_before_any_system_call_of_a_save_is_kept_or_told(
    tmp_path: Path, edit: Callable[[Path], None]
) -> None:
    """Where files can be exchanged, no edit is lost: it is in the file, in the answer, or refuses the save."""
    told = 0
    for number in count():
        place = tmp_path / str(number)
        put(place / "Sub" / "Note.md", "base\n")
        store = VaultStore(place)
        base = store._get("Sub/Note.md")
        write = make_write(store, base.id, content_of(base, text=OURS), base)
        answer: Acknowledgement | None = None
        act = partial(edit, place / "Sub" / "Note.md")
        with acting_before(number, act) as counted, suppress(VersionConflict):
            answer = store._writer.push(write)
        asyncio.run(store.close())
        held = everything(place)
        assert list(held) == ["Sub/Note.md"]
        if answer is None:
            assert THEIRS in held["Sub/Note.md"]
        elif counted.acted:
            displaced = answer.displaced.content.text if answer.displaced else ""
            assert THEIRS in displaced + held["Sub/Note.md"]
            told += bool(displaced)
        if not counted.acted:
            break
    assert held == {"Sub/Note.md": OURS}
    assert number > 25
    assert told, "nothing was displaced"


@pytest.mark.slow("thirty places, each with a vault of its own")
@pytest.mark.parametrize("at", [".trash/Note.md", "Note.md"])
def test_a_file_that_comes_before_any_system_call_of_a_deletion_stays_and_the_answer_is_true(
    tmp_path: Path, at: str
) -> None:
    outcomes = set()
    for number in count():
        place = tmp_path / str(number)
        put(place / ".trash" / "Note.md", "one\n")
        store = VaultStore(place)
        base = store._get("Note.md")
        deleted = False

        def come(new: Path = place / at) -> None:
            if not new.exists():
                put(new, THEIRS)

        with acting_before(number, come) as counted, suppress(NotariumError):
            store._writer.delete("Note.md", base.etag)
            deleted = True
        asyncio.run(store.close())
        if not counted.acted:
            break
        held = [text for name, text in everything(place).items() if name.endswith(".md")]
        assert ("one\n" in held) is not deleted, number
        outcomes.add((deleted, THEIRS in held))
    assert number > 10
    assert {(True, True), (False, True)} <= outcomes


@pytest.mark.slow("up to thirty places for each, with a vault of its own")
@pytest.mark.parametrize("edit", [edit_in_place, edit_by_rename])
@pytest.mark.parametrize("kind", ["create", "trash", "untrash", "delete"])
def test_an_edit_before_any_system_call_of_any_other_write_stays_in_a_note(
    tmp_path: Path, kind: str, edit: Callable[[Path], None]
) -> None:
    for number in count():
        place = tmp_path / str(number)
        lies = place / (".trash" if kind in ("untrash", "delete") else "") / "Sub" / "Note.md"
        lies.parent.mkdir(parents=True)
        if kind != "create":
            put(lies, "base\n")
        store = VaultStore(place)
        base = None if kind == "create" else store._get("Sub/Note.md")
        with acting_before(number, partial(edit, lies)) as counted, suppress(NotariumError):
            if kind == "delete":
                store._writer.delete("Sub/Note.md", base.etag)
            else:
                content = Content(OURS if base is None else "base\n", title="Note")
                wanted = replace(content, trash=kind == "trash")
                store._writer.push(make_write(store, "Sub/Note.md", wanted, base))
        asyncio.run(store.close())
        if not counted.acted:
            break
        held = everything(place)
        assert any(THEIRS in text for name, text in held.items() if name.endswith(".md")), number
    assert number > 10


def trash_of(base: Revision) -> Content:
    return content_of(base, trash=True)


@needs.POSIX
def test_what_is_put_in_place_of_the_folder_before_any_call_of_a_save_is_not_written_to(
    tmp_path: Path,
) -> None:
    for number in count():
        place = tmp_path / str(number) / "vault"
        outside = place.parent / "outside"
        put(place / "Sub" / "Note.md", "base\n")
        put(outside / "Note.md", "base\n")
        store = VaultStore(place)
        base = store._get("Sub/Note.md")

        def exchange(place: Path = place, outside: Path = outside) -> None:
            (place / "Sub").rename(place.parent / "moved")
            (place / "Sub").symlink_to(outside)

        with acting_before(number, exchange) as counted, suppress(NotariumError):
            store._writer.push(make_write(store, base.id, content_of(base, text=OURS), base))
        asyncio.run(store.close())
        assert everything(outside) == {"Note.md": "base\n"}
        if not counted.acted:
            break
    assert number > 25


def test_a_new_note_takes_no_name_that_another_system_takes_for_the_same(place: Path) -> None:
    put(place / "\u00dcber Mich.md", "old\n")
    store = VaultStore(place)
    for name in ("\u00fcber mich.md", "U\u0308ber Mich.md"):
        with pytest.raises(IdTaken):
            store._writer.push(make_write(store, name, Content("new\n", title=name)))
    asyncio.run(store.close())


needs_leases = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of writers")


def leave_behind(place: Path, text: str) -> Path:
    """Make a note, and the file that a process has left which wrote it over another text."""
    put(place / "Note.md", OURS)
    ours, base = (folder_module.digest_of(one.encode()) for one in (OURS, "base\n"))
    left = place / f".notarium-{ours}-{base}-0a.tmp"
    left.write_text(text)
    return left


@contextmanager
def elapsed(patch: pytest.MonkeyPatch, seconds: float, *, set_by: float) -> Iterator[None]:
    """Let so many seconds pass, with a clock that somebody has set."""
    monotonic, now = time.monotonic, time.time
    with patch.context() as inside:
        inside.setattr(time, "monotonic", lambda: monotonic() + seconds)
        inside.setattr(time, "time", lambda: now() + seconds + set_by)
        yield


@needs_leases
def test_a_program_that_goes_on_writing_the_displaced_file_is_waited_for(place: Path) -> None:
    put(place / "Note.md", "base\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    with (place / "Note.md").open("a") as writer:

        def finish() -> None:
            writer.write(THEIRS)
            writer.close()

        timer = threading.Timer(0.1, finish)
        timer.start()
        answer = store._writer.push(make_write(store, base.id, content_of(base, text=OURS), base))
        timer.join()
    assert answer.displaced is not None
    assert answer.displaced.content.text == f"base\n{THEIRS}"
    assert everything(place) == {"Note.md": OURS}
    asyncio.run(store.close())


@needs_leases
def test_what_is_written_later_into_a_displaced_file_becomes_a_note(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "LONGEST_WAIT", 0.0)
    put(place / "Note.md", "base\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    with (place / "Note.md").open("a") as writer:
        store._writer.push(make_write(store, base.id, content_of(base, text=OURS), base))
        writer.write(THEIRS)
    monkeypatch.setattr(file_writer, "LEFT_BEHIND", 0.0)
    store._list_page(None, 9, with_content=False)
    assert sorted(everything(place).values()) == [f"base\n{THEIRS}", OURS]
    asyncio.run(store.close())


@needs_leases
@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("base\n", [(4000.0, 0.0, True), (4000.0, 599.0, True), (4000.0, 601.0, False)]),
        (OURS, [(-4000.0, 0.0, True), (-4000.0, 601.0, False)]),
        ("", [(4000.0, 0.0, True), (-4000.0, 601.0, False)]),
        (
            THEIRS,
            [(4000.0, 0.0, True), (4000.0, 9.0, True), (0.0, 11.0, True), (4000.0, 11.0, False)],
        ),
    ],
)
def test_a_clock_that_is_set_neither_removes_nor_keeps_what_was_left_behind(
    place: Path, monkeypatch: pytest.MonkeyPatch, text: str, steps: list[tuple[float, float, bool]]
) -> None:
    left, store = leave_behind(place, text), VaultStore(place)
    store.shortest_pause = 0.0
    for set_by, passed, stays in steps:
        with elapsed(monkeypatch, passed, set_by=set_by):
            store._list_page(None, 9, with_content=False)
        assert left.exists() == stays
    asyncio.run(store.close())
    assert sorted(everything(place).values()) == sorted({OURS, *({text} & {THEIRS})})


@needs_leases
@pytest.mark.parametrize("tells", [True, False])
def test_what_is_left_behind_stays_while_a_program_may_write_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, *, tells: bool
) -> None:
    left, store = leave_behind(place, "base\n"), VaultStore(place)
    store.shortest_pause = 0.0
    if not tells:
        monkeypatch.setattr(file_writer, "is_being_written", lambda _file: True)
    with left.open("a") as writer:
        for passed in (0.0, 500.0, 1050.0, 1200.0):
            if passed == 500.0:  # the last change
                os.utime(left)
            with elapsed(monkeypatch, passed, set_by=0.0):
                store._list_page(None, 9, with_content=False)
            assert left.exists() == (tells or passed < 1200.0)
        writer.write(THEIRS)
    with elapsed(monkeypatch, 1300.0, set_by=4000.0):
        store._list_page(None, 9, with_content=False)
    asyncio.run(store.close())
    wanted = [f"base\n{THEIRS}", OURS] if tells else [OURS]
    assert sorted(everything(place).values()) == wanted


@needs_leases
def test_a_displaced_file_that_cannot_be_opened_just_then_is_not_taken_for_left_alone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "LONGEST_WAIT", 0.2)
    put(place / "Note.md", "base\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    opens = file_writer.open_file

    def refuse(*_given: object, **_how: object) -> None:
        monkeypatch.setattr(file_writer, "open_file", opens)
        raise folder_module.ReadFailed

    def displaced() -> None:
        monkeypatch.setattr(file_writer, "open_file", refuse)

    act_once(monkeypatch, file_writer, "_wait_for_writers", displaced)
    with (place / "Note.md").open("a") as writer:
        store._writer.push(make_write(store, base.id, content_of(base, text=OURS), base))
        writer.write(THEIRS)
    asyncio.run(store.close())
    assert sorted(everything(place).values()) == sorted([OURS, f"base\n{THEIRS}"])


@needs_leases
def test_a_drive_that_grants_no_leases_leaves_nothing_behind(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "is_being_written", lambda _file: True)
    put(place / "Note.md", "base\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    store._writer.push(make_write(store, base.id, content_of(base, text=OURS), base))
    assert everything(place) == {"Note.md": OURS}
    asyncio.run(store.close())


class Killed(BaseException):
    """The process ends here."""


def kill() -> None:
    raise Killed


@pytest.mark.slow("about forty places, each with a vault of its own")
@pytest.mark.parametrize("kind", ["change", "create", "trash", "untrash", "delete"])
def test_a_process_that_ends_before_any_system_call_leaves_one_whole_note(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "LEFT_BEHIND", -1.0)
    for number in count():
        place = tmp_path / str(number)
        trashed = kind in ("untrash", "delete")
        if kind != "create":
            put(place / (".trash" if trashed else "") / "Sub" / "Note.md", "base\n")
        place.mkdir(exist_ok=True)
        store = VaultStore(place)
        base = None if kind == "create" else store._get("Sub/Note.md")
        with acting_before(number, kill) as counted, suppress(Killed):
            if kind == "delete":
                store._writer.delete("Sub/Note.md", base.etag)
            else:
                new = {"trash": True} if kind == "trash" else {"trash": False}
                text = OURS if kind in ("change", "create") else "base\n"
                content = Content(text, title="Note", **new)
                store._writer.push(make_write(store, "Sub/Note.md", content, base))
        asyncio.run(store.close())
        again = VaultStore(place)
        again._list_page(None, 9, with_content=False)  # sweeps what is left behind
        asyncio.run(again.close())
        held = {name: text for name, text in everything(place).items() if name.endswith(".md")}
        assert everything(place) == held
        assert [*held.values()] in {
            "change": ([OURS], ["base\n"]),
            "create": ([OURS], []),
            "trash": (["base\n"],),
            "untrash": (["base\n"],),
            "delete": (["base\n"], []),
        }[kind]
        assert {name.removeprefix(".trash/") for name in held} <= {"Sub/Note.md"}
        if not counted.acted:
            break
    assert number > 15


@pytest.mark.parametrize("title", ["Note", "New"], ids=["changed", "renamed and changed"])
def test_a_displaced_edit_that_a_killed_process_leaves_becomes_a_note(
    place: Path, monkeypatch: pytest.MonkeyPatch, title: str
) -> None:
    put(place / "Note.md", "base\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    monkeypatch.setattr(
        "mcp_notarium.stores.vault.note_writer.check_not_withdrawn",
        lambda: put(place / "Note.md", THEIRS),
    )
    monkeypatch.setattr(file_writer, "_take_displaced", lambda *_arguments, **_named: kill())
    store.shortest_pause = 0.0  # no event tells that a file has been left behind for long
    with pytest.raises(Killed):
        store._writer.push(
            make_write(store, "Note.md", content_of(base, text=OURS, title=title), base)
        )
    for age, texts in ((600.0, {OURS}), (-1.0, {OURS, THEIRS})):
        monkeypatch.setattr(file_writer, "LEFT_BEHIND", age)
        for _ in range(2):
            page = store._list_page(None, 9, with_content=True)
        assert {one.content.text for one in page.entries} == texts
    asyncio.run(store.close())


@pytest.mark.parametrize(
    ("note", "spare", "stuck", "wanted"),
    [
        ("", "base\n", -1.0, {"Note.md": "base\n"}),
        ("", "base\n", 99.0, {".notarium-=OURS=BASE=0a=Note.md.tmp": "base\n"}),
        (OURS, "base\n", -1.0, {"Note.md": OURS}),
        ("later\n", OURS, -1.0, {"Note.md": "later\n"}),
        (OURS, THEIRS, -1.0, {"Note.md": OURS, "Recovered 0a.md": THEIRS}),
    ],
)
def test_an_exchange_in_steps_that_a_killed_process_has_begun_is_undone_or_ended(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    note: str,
    spare: str,
    stuck: float,
    wanted: dict[str, str],
) -> None:
    short = {
        word: folder_module.digest_of(text.encode())[:16]
        for word, text in (("OURS", OURS), ("BASE", "base\n"))
    }
    name = ".notarium-={OURS}={BASE}=0a=Note.md.tmp"
    put(place / name.format(**short), spare)
    if note:
        put(place / "Note.md", note)
    monkeypatch.setattr(file_writer, "_STUCK", stuck)
    monkeypatch.setattr(file_writer, "LEFT_BEHIND", 999.0 if stuck > 0 else -1.0)
    store = VaultStore(place)
    store._list_page(None, 9, with_content=False)
    asyncio.run(store.close())
    there = {one.name: one.read_text(encoding="utf-8") for one in place.iterdir()}
    for word, digest in short.items():
        there = {one.replace(digest, word): text for one, text in there.items()}
    assert there == wanted


@pytest.mark.parametrize("refused", [False, True])
def test_a_file_left_behind_that_cannot_be_moved_keeps_no_note_from_being_listed(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: bool,
) -> None:
    put(place / "Note.md", "base\n")
    put(place / "Recovered 0a.md", OURS)
    put(place / ".notarium-aa-bb-0a.tmp", THEIRS)
    monkeypatch.setattr(file_writer, "LEFT_BEHIND", -1.0)
    if refused:

        def move(*_arguments: object) -> None:
            raise PermissionError(13, os.strerror(13))

        monkeypatch.setattr(file_writer, "move", move)
    store = VaultStore(place)
    for _ in range(2):
        page = store._list_page(None, 9, with_content=True)
    texts = {one.content.text for one in page.entries}
    assert texts == {"base\n", OURS} | (set() if refused else {THEIRS})
    assert sorted(everything(place).values()) == sorted(["base\n", OURS, THEIRS])
    asyncio.run(store.close())


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no inotify")
def test_a_folder_that_was_made_again_is_watched_again(place: Path) -> None:
    put(place / "Sub" / "Note.md", "base\n")
    watch = Watch(place)
    if not watch.follow(["", "Sub"]):
        pytest.skip("the system grants no more watches")
    assert not watch.follow(["", "Sub"])
    shutil.rmtree(place / "Sub")
    put(place / "Sub" / "Note.md", OURS)
    assert watch.follow(["", "Sub"])
    asyncio.run(watch.wait(0))
    put(place / "Sub" / "Note.md", THEIRS)
    assert asyncio.run(watch._events.wait(10))
    watch.close()


def test_a_full_disk_leaves_the_old_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(place / "Note.md", "base\n")
    store = VaultStore(place)
    base = store._get("Note.md")

    def full(_file: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(file_writer.os, "fsync", full)
    with pytest.raises(NotariumError, match="no space left") as refused:
        store._writer.push(make_write(store, "Note.md", content_of(base, text=OURS), base))
    assert not isinstance(refused.value, OutcomeUnknown)
    assert everything(place) == {"Note.md": "base\n"}
    asyncio.run(store.close())


@pytest.fixture(name="reads")
def _reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    real = file_writer.read_file

    def read(parent: int, name: str, **options: object) -> object:
        seen.append(name)
        return real(parent, name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("mcp_notarium.stores.vault.listing.read_file", read)
    return seen


def listed(store: VaultStore) -> dict[str, str | None]:
    page = store._list_page(None, 99, with_content=False)
    return {one.id: one.identity for one in page.entries}


def test_files_that_have_not_changed_are_not_read_again(place: Path, reads: list[str]) -> None:
    for number in range(5):
        put(place / f"{number}.md", "text\n")
    (place / "latin.md").write_bytes(b"caf\xe9\n")
    store = VaultStore(place)
    listed(store)
    assert len(reads) >= 6
    time.sleep(0.15)  # a file may change again without another date until then
    listed(store)
    reads.clear()
    assert len(listed(store)) == 5
    assert reads == []
    put(place / "3.md", "other\n")
    assert len(listed(store)) == 5
    assert reads == ["3.md"]
    asyncio.run(store.close())


def test_a_change_that_leaves_size_and_date_is_seen(place: Path) -> None:
    put(place / "Note.md", "one\n")
    store = VaultStore(place)
    page = store._list_page(None, 9, with_content=False)
    put(place / "Note.md", "two\n")
    (told,) = store._probe(page.cursor, 0.0).changes
    again = store._list_page(None, 9, with_content=False)
    assert told == again.entries[0] != page.entries[0]
    asyncio.run(store.close())


def settle(store: VaultStore) -> dict[str, str | None]:
    time.sleep(0.12)
    return listed(store)


def test_a_file_written_anew_elsewhere_goes_on_as_the_same_note(place: Path) -> None:
    for name, text in (
        ("a.md", "one\n"),
        ("b.md", "same\n"),
        ("c.md", "same\n"),
        ("d.md", "four\n"),
    ):
        put(place / name, text)
    store = VaultStore(place)
    before = settle(store)
    (place / "a.md").unlink()
    put(place / "Sub" / "A.md", "one\n")
    (place / "b.md").unlink()
    put(place / "B.md", "same\n")  # c says the same: nothing is certain
    (place / "d.md").unlink()
    put(place / "D.md", "four\n")
    put(place / "D2.md", "four\n")
    after = listed(store)
    assert after["Sub/A.md"] == before["a.md"]
    assert len({*after.values()}) == len(after)
    assert not {before["b.md"], before["d.md"]} & {*after.values()}
    assert store._get("Sub/A.md").identity == before["a.md"] == settle(store)["Sub/A.md"]
    (place / "Sub" / "A.md").rename(place / "Sub" / "E.md")
    assert listed(store)["Sub/E.md"] == before["a.md"]
    asyncio.run(store.close())


def test_the_trash_is_the_vaults_and_overwrites_nothing(place: Path) -> None:
    put(place / "Sub" / "Note.md", "one\n")
    put(place / ".trash" / "Sub" / "Note.md", "older\n")
    store = VaultStore(place)
    assert [*listed(store)] == ["Sub/Note.md"]
    base = store._get("Sub/Note.md")
    moved = store._writer.push(make_write(store, base.id, trash_of(base), base)).revision
    assert (moved.id, moved.content.trash) == (base.id, True)
    assert everything(place) == {".trash/Sub/Note 2.md": "older\n", ".trash/Sub/Note.md": "one\n"}
    assert {*listed(store)} == {"Sub/Note.md", "Sub/Note 2.md"}
    with pytest.raises(IdTaken):
        store._writer.push(make_write(store, base.id, Content("new\n", title="Note")))
    back = store._writer.push(
        make_write(store, base.id, content_of(moved, trash=False), moved)
    ).revision
    assert (back.content, back.identity) == (base.content, base.identity)
    assert everything(place) == {".trash/Sub/Note 2.md": "older\n", "Sub/Note.md": "one\n"}
    asyncio.run(store.close())


def test_what_changes_right_before_it_is_deleted_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place / ".trash" / "Note.md", "one\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    change = partial(put, place / ".trash" / "Note.md", THEIRS)
    monkeypatch.setattr("mcp_notarium.stores.vault.note_writer.check_not_withdrawn", change)
    with pytest.raises(VersionConflict):
        store._writer.delete("Note.md", base.etag)
    assert everything(place) == {".trash/Note.md": THEIRS}
    asyncio.run(store.close())


@pytest.mark.parametrize(
    ("moment", "now"),
    [
        ("before it is taken", "Note.md"),
        ("before it is taken", ".trash/Note.md"),
        ("once it is taken", ".trash/Note.md"),
        ("once it is taken", "Note.md"),
    ],
)
def test_a_note_that_another_program_moves_with_an_edit_while_it_is_deleted_is_told_as_changed(
    place: Path, monkeypatch: pytest.MonkeyPatch, moment: str, now: str
) -> None:
    put(place / ".trash" / "Note.md", "one\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    move = file_writer.move

    def act() -> None:
        (place / ".trash" / "Note.md").unlink(missing_ok=True)
        put(place / now, THEIRS)

    def moved(*args: Any) -> None:
        if moment == "once it is taken":
            move(*args)
        monkeypatch.setattr(file_writer, "move", move)
        act()
        if moment == "before it is taken":
            move(*args)

    monkeypatch.setattr(file_writer, "move", moved)
    with pytest.raises(VersionConflict):
        store._writer.delete("Note.md", base.etag)
    aside = ".trash/Note 2.md" if now == ".trash/Note.md" else ".trash/Note.md"
    ours = {aside: "one\n"} if moment == "once it is taken" else {}
    assert everything(place) == {now: THEIRS} | ours, "what is told as kept is there"
    asyncio.run(store.close())


@pytest.mark.parametrize("changed", [True, False])
def test_a_note_that_another_process_has_set_aside_counts_as_gone_when_that_has_removed_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    """It puts the note back if another program has changed it meanwhile."""
    note, told, waits = place / ".trash" / "Note.md", list[str](), threading.Event()
    put(note, "one\n")
    first, second = VaultStore(place), VaultStore(place)
    base, find = first._get("Note.md"), file_writer.find_set_aside

    def remove_too() -> None:
        try:
            second._writer.delete("Note.md", base.etag)
            told.append("gone")
        except VersionConflict:
            told.append("changed")

    def found(parent: int) -> set[str]:
        waits.set()
        return find(parent)

    def is_replaced(*_given: object) -> bool:
        other.start()
        waits.wait(2)
        return changed

    other = threading.Thread(target=remove_too)
    monkeypatch.setattr(file_writer, "find_set_aside", found)
    monkeypatch.setattr(first._writer, "_has_file", is_replaced)
    with pytest.raises(VersionConflict) if changed else nullcontext():
        first._writer.delete("Note.md", base.etag)
    other.join()
    assert waits.is_set()
    assert (told, note.exists()) == ((["changed"], True) if changed else (["gone"], False))
    for store in (first, second):
        asyncio.run(store.close())


@needs.POSIX
def test_a_new_note_makes_its_folder_as_open_as_the_vault(place: Path) -> None:
    place.chmod(0o750)
    store = VaultStore(place)
    content = Content("text\n", title="A/B/Note")
    path = store.new_id(content, seed="0a", attempt=0)
    store._writer.push(make_write(store, path, content))
    assert everything(place) == {"A/B/Note.md": "text\n"}
    assert stat.S_IMODE((place / "A" / "B").stat().st_mode) == 0o750
    assert stat.S_IMODE((place / "A" / "B" / "Note.md").stat().st_mode) == 0o640
    (place / "file").write_text("no folder\n")
    for title, error in (("file/x", IdTaken), ("logseq/bak/x", StoreRejected)):
        content = Content("text\n", title=title)
        with pytest.raises(error):
            store._writer.push(
                make_write(store, store.new_id(content, seed="0a", attempt=0), content)
            )
    asyncio.run(store.close())


@needs.POSIX
def test_a_hostile_tree_is_listed_without_what_is_no_note(place: Path) -> None:
    put(place / "Note.md", "note\n")
    put(place / "a" / "b" / "Deep.md", "deep\n")
    put(place.parent / "outside.md", "secret\n")
    (place / "link.md").symlink_to(place.parent / "outside.md")
    (place / "out").symlink_to(place.parent)
    (place / "loop").symlink_to(place)
    os.link(place.parent / "outside.md", place / "hard.md")
    os.mkfifo(place / "pipe.md")
    (place / "latin.md").write_bytes(b"caf\xe9\n")
    (place / "huge.md").write_bytes(b"")
    os.truncate(place / "huge.md", file_writer.LARGEST + 1)
    (place / "folder.md").mkdir()
    put(place / "folder.md" / "Inside.md", "inside\n")
    put(place / os.fsdecode(b"\xff") / "x.md", "no name\n")
    for folder in (".obsidian", "a/.GIT", "Node_Modules", "logseq/bak"):
        put(place / folder / "x.md", "ignored\n")
    for name in ("._Note.md", ".Note.md", "~$Note.md", "Note.md~", ".syncthing.Note.md.tmp"):
        put(place / name, "temporary\n")
    put(place / "Note.sync-conflict-20240102-030405-ABCDEFG.md", "copy\n")
    store = VaultStore(place)
    page = store._list_page(None, 99, with_content=True)
    assert {one.id for one in page.entries} == {
        "Note.md",
        "a/b/Deep.md",
        "folder.md/Inside.md",
        "Note.sync-conflict-20240102-030405-ABCDEFG.md",
    }
    assert page.left_out == 6
    for name in ("link.md", "hard.md", "pipe.md", "latin.md", "huge.md", "folder.md"):
        with pytest.raises(StoreProtocolError) as caught:
            store._get(name)
        assert "Leave this file out" in str(caught.value.resolution_hint)
        with pytest.raises(IdTaken):
            store._writer.push(make_write(store, name, Content("new\n")))
    for name in ("out/outside.md", "loop/Note.md"):
        with pytest.raises((StoreProtocolError, NoteNotFound)):
            store._get(name)
    asyncio.run(store.close())


class KeptText:
    """The row of the database in which the store keeps what it knows of the files."""

    def __init__(self) -> None:
        self.text: str | None = None

    def load(self) -> str | None:
        return self.text

    def store(self, text: str) -> None:
        self.text = text


async def list_all(store: VaultStore) -> dict[str, str]:
    page = await store.list_page(since=None, mark=None, limit=99, with_content=False)
    return {one.id: one.etag for one in page.entries}


def test_the_next_start_reads_only_the_files_that_have_changed(
    place: Path, reads: list[str]
) -> None:
    for number in range(5):
        put(place / f"{number}.md", "text\n")
    time.sleep(0.15)  # a file may change again without another date until then
    memory = KeptText()
    store = VaultStore(place, memory)
    before = asyncio.run(list_all(store))
    asyncio.run(store.close())
    put(place / "3.md", "other\n")
    reads.clear()
    again = VaultStore(place, memory)
    after = asyncio.run(list_all(again))
    asyncio.run(again.close())
    assert reads == ["3.md"]
    assert {one for one in after if after[one] != before[one]} == {"3.md"}
    memory.text = "no such text"
    anew = VaultStore(place, memory)
    assert asyncio.run(list_all(anew)) == after
    asyncio.run(anew.close())


def renaming(store: VaultStore, title: str, text: str) -> PendingWrite:
    held = asyncio.run(store.get("Note.md"))
    return make_write(store, "Note.md", Content(text, title=title), held)


def test_a_file_that_comes_right_before_a_renaming_is_not_overwritten(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place / "Note.md", OURS)
    store = VaultStore(place)
    write, free = renaming(store, "New", "changed\n"), file_writer.require_free_name

    def come(parent: int, name: str, *, own: str = "") -> None:
        free(parent, name, own=own)
        put(place / "New.md", THEIRS)

    monkeypatch.setattr(file_writer, "require_free_name", come)
    with pytest.raises(IdTaken):
        asyncio.run(store.push(write))
    asyncio.run(store.close())
    assert {one.name: one.read_text() for one in place.iterdir()} == {
        "Note.md": OURS,
        "New.md": THEIRS,
    }


@pytest.mark.parametrize("text", [OURS, "changed\n"], ids=["moves", "changes and moves"])
@pytest.mark.parametrize("again", ["", "Note.md"], ids=["free", "taken again"])
def test_another_file_that_has_the_name_right_before_a_move_to_the_trash_is_put_back(
    place: Path, monkeypatch: pytest.MonkeyPatch, text: str, again: str
) -> None:
    put(place / "Note.md", OURS)
    put(place / "Other.md", THEIRS)
    store, move = VaultStore(place), file_writer.move_file
    held = asyncio.run(store.get("Note.md"))
    write = make_write(store, "Note.md", Content(text, title="Note", trash=True), held)

    def exchange(*given: Any, **how: Any) -> None:
        (place / "Note.md").rename(place / "Kept.md")
        (place / "Other.md").rename(place / "Note.md")
        move(*given, **how)
        if again:
            put(place / again, "again\n")

    monkeypatch.setattr(file_writer, "move_file", exchange)
    if text == OURS:
        with pytest.raises(VersionConflict):
            asyncio.run(store.push(write))
    else:
        made = asyncio.run(store.push(write))
        assert (made.revision.content.text, made.revision.content.trash) == (text, False)
        assert not made.alone
    asyncio.run(store.close())
    left = {"Note 2.md": THEIRS, "Note.md": "again\n"} if again else {"Note.md": THEIRS}
    assert {one.name: one.read_text() for one in place.glob("*.md")} == {"Kept.md": text, **left}
    assert [*(place / ".trash").iterdir()] == []


@pytest.mark.parametrize("when", ["it is read", "its text is exchanged"])
def test_a_note_that_gets_another_name_before_a_save_lets_the_other_one_be(
    place: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    put(place / "Note.md", "base\n")
    put(place / "Other.md", THEIRS)
    store = VaultStore(place)
    base = store._get("Note.md")

    def change_places(*_given: object) -> None:
        (place / "Note.md").rename(place / "Kept.md")
        (place / "Other.md").rename(place / "Note.md")

    if when == "it is read":
        act_once(monkeypatch, note_writer, "open_parent", change_places)
    else:
        act_once(monkeypatch, file_writer, "rename", change_places)
    with pytest.raises(VersionConflict):
        store._writer.push(make_write(store, "Note.md", content_of(base, text=OURS), base))
    asyncio.run(store.close())
    assert everything(place) == {"Kept.md": "base\n", "Note.md": THEIRS}


def test_a_note_that_gets_another_name_twice_in_a_save_leaves_that_in_doubt(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place / "Note.md", "base\n")
    put(place / "Other.md", THEIRS)
    store = VaultStore(place)
    base = store._get("Note.md")

    def take_away(*_given: object) -> None:
        (place / "Note.md").rename(place / "Third.md")

    def change_places(*_given: object) -> None:
        (place / "Note.md").rename(place / "Kept.md")
        (place / "Other.md").rename(place / "Note.md")
        act_once(monkeypatch, file_writer, "_take_displaced", take_away)

    act_once(monkeypatch, file_writer, "rename", change_places)
    with pytest.raises(OutcomeUnknown):
        store._writer.push(make_write(store, "Note.md", content_of(base, text=OURS), base))
    asyncio.run(store.close())
    assert sorted(everything(place).values()) == sorted(["base\n", OURS, THEIRS])


@pytest.mark.parametrize("holds", [False, True], ids=["has written", "has it open"])
def test_an_edit_of_a_text_that_is_taken_back_stays(
    place: Path, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    put(place / "Note.md", "base\n")
    store = VaultStore(place)
    base = store._get("Note.md")
    read, editor = file_writer.read_file, ExitStack()

    def refuse(*_given: object, **_how: object) -> None:
        monkeypatch.setattr(file_writer, "read_file", read)
        file = editor.enter_context((place / "Note.md").open("a"))  # it has our text now
        file.write(THEIRS)
        if not holds:
            editor.close()
        raise folder_module.ReadFailed

    def exchanged() -> None:
        monkeypatch.setattr(file_writer, "read_file", refuse)

    act_once(monkeypatch, file_writer, "_take_displaced", exchanged)
    with pytest.raises(StoreUnavailable):
        store._writer.push(make_write(store, "Note.md", content_of(base, text=OURS), base))
    editor.close()
    asyncio.run(store.close())
    assert (place / "Note.md").read_text() == "base\n"
    assert sorted(everything(place).values()) == sorted(["base\n", f"{OURS}{THEIRS}"])


def act_once(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, act: Callable[..., None]
) -> None:
    """Let another program act right before the next call of a function."""
    real = getattr(where, name)

    def acted(*given: Any, **how: Any) -> Any:
        monkeypatch.setattr(where, name, real)
        act()
        return real(*given, **how)

    monkeypatch.setattr(where, name, acted)


def test_another_file_that_gets_the_old_name_right_before_is_put_back(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place / "Note.md", OURS)
    put(place / "Other.md", THEIRS)
    store = VaultStore(place)
    write, free = renaming(store, "New", OURS), file_writer.require_free_name

    def exchange(parent: int, name: str, *, own: str = "") -> None:
        monkeypatch.setattr(file_writer, "require_free_name", free)
        free(parent, name, own=own)
        (place / "Note.md").rename(place / "Kept.md")
        (place / "Other.md").rename(place / "Note.md")

    monkeypatch.setattr(file_writer, "require_free_name", exchange)
    with pytest.raises(VersionConflict):
        asyncio.run(store.push(write))
    asyncio.run(store.close())
    assert {one.name: one.read_text() for one in place.iterdir()} == {
        "Kept.md": OURS,
        "Note.md": THEIRS,
    }
