"""Canvases keep what another program writes between any two system calls of ours, whatever fails afterwards."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from mcp_notarium.stores.vault import canvases, file_writer
from mcp_notarium.stores.vault import folder as folder_module
from mcp_notarium.stores.vault.store import VaultStore
from support.between_calls import acting_before
from support.long import LONG

OLD, NEW = "Plan.md", "Work/Road map.md"
CARD = '{"nodes":[{"id":"1","type":"file","file":"%s"}],"edges":[]}'
BOARD = "Sub/Board.canvas"


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "SETTLED", 0.0)
    monkeypatch.setattr(file_writer, "LEFT_BEHIND", -1.0)


def fill(place: Path) -> Path:
    """Make a vault with a canvas."""
    board = place / BOARD
    board.parent.mkdir(parents=True)
    board.write_text(CARD % OLD)
    return board


@contextmanager
def opened(place: Path) -> Iterator[int]:
    root = os.open(place, os.O_RDONLY)
    try:
        yield root
    finally:
        os.close(root)


def move(root: int) -> bool:
    """Move the cards of the canvas; False: it was left, or the process has ended."""
    with suppress(Killed):
        return canvases.move_cards_in(root, BOARD, OLD, NEW)
    return False


def swept(place: Path) -> dict[str, str]:
    """Return all files, with what a process has left behind under its own name."""
    store = VaultStore(place)
    store._list_page(None, 9, with_content=False)
    asyncio.run(store.close())
    return {
        path.relative_to(place).as_posix(): path.read_bytes().decode("utf-8", "replace")
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


def with_word(text: str, word: str) -> str:
    card = json.dumps({"type": "text", "text": word})
    return text.replace('"nodes":[', f'"nodes":[{card},')


def edit_in_place(board: Path, word: str) -> None:
    if board.exists():
        board.write_text(with_word(board.read_text(), word))


def edit_by_rename(board: Path, word: str) -> None:
    if board.exists():
        made = board.with_name("editor.tmp")
        made.write_text(with_word(board.read_text(), word))
        made.rename(board)


def break_json(board: Path, word: str) -> None:
    board.write_text(f'{{"nodes":[{word}')


def break_encoding(board: Path, word: str) -> None:
    board.write_bytes(b"\xff" + word.encode())


def take_away(board: Path, word: str) -> None:
    if board.exists():
        edit_in_place(board, word)
        board.rename(board.with_name("Mine.canvas"))


EDITS = [edit_in_place, edit_by_rename, break_json, break_encoding, take_away]


def fail() -> None:
    raise OSError(errno.EIO, "simulated")


def kill() -> None:
    raise Killed


def displacing(tmp_path: Path, edit: Callable[[Path, str], None]) -> list[int]:
    """Return the calls before which an edit comes over the file that was read, or between exchange and return."""
    for number in count():
        place = tmp_path / f"calls {number}"
        act = partial(edit, fill(place), "theirs")
        with opened(place) as root, acting_before(number, act) as counted:
            done = move(root)
        held = swept(place)
        assert any("theirs" in text for text in held.values()) is counted.acted, number
        assert not any(name.endswith(".tmp") for name in held)
        if not counted.acted:
            assert (done, held) == (True, {BOARD: CARD % NEW})
            return [*range(number)]
        if done and edit in (edit_in_place, edit_by_rename):
            assert NEW in held[BOARD] or OLD not in held[BOARD]
            assert list(held) == [BOARD], number
    raise AssertionError


@pytest.mark.slow("some forty places, each with a vault of its own, and others after them")
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_before_any_call_is_in_a_file_whatever_fails_or_is_written_after_it(
    tmp_path: Path, edit: Callable[[Path, str], None]
) -> None:
    """A failing disk, the end of the process, or a second edit, before any of the calls that follow."""
    calls = displacing(tmp_path, edit)
    assert len(calls) > 25
    adds = edit in (edit_in_place, edit_by_rename)
    for first in calls[1 :: 3 if edit is edit_by_rename else 8]:
        for second in count(first + 1, 1 if LONG else 4):
            ended = False
            for name, then in (("fails", fail), ("ends", kill), ("again", None))[
                : 3 if adds else 2
            ]:
                place = tmp_path / f"{first} {second} {name}"
                board = fill(place)
                act = then or partial(edit_by_rename, board, "more")
                one = acting_before(first, partial(edit, board, "theirs"))
                with opened(place) as root, one, acting_before(second, act) as counted:
                    move(root)
                texts = "".join(swept(place).values())
                assert "theirs" in texts, (first, second, name)
                if then is None and counted.acted:
                    assert "more" in texts, (first, second)
                ended = ended or not counted.acted
            if ended:
                break


@pytest.mark.parametrize("call", ["open", "read"])
def test_a_canvas_that_the_disk_does_not_give_for_once_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    board, real = fill(tmp_path), getattr(os, call)

    def refuses(*given: object, **how: object) -> object:
        if call == "read" or given[0] == board.name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*given, **how)

    with opened(tmp_path) as root:
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuses)
            assert canvases.find_cards(root, ["", "Sub"], OLD) == {BOARD: None}
            assert canvases.move_cards_in(root, BOARD, OLD, NEW) is None
        assert canvases.find_cards(root, ["", "Sub"], OLD) == {BOARD: 1}
        assert canvases.move_cards_in(root, BOARD, OLD, NEW)


def test_cards_in_a_folder_that_the_disk_does_not_list_count_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)

    def refuses(_folder: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "scandir", refuses)
    with opened(tmp_path) as root, pytest.raises(OSError, match=os.strerror(errno.EIO)):
        canvases.find_cards(root, ["Sub"], OLD)


def test_what_a_killed_process_has_displaced_becomes_a_canvas_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = fill(tmp_path)
    read = canvases.read_file

    def read_then_edit(*args: object, **how: object) -> object:
        found = read(*args, **how)  # type: ignore[arg-type]
        edit_in_place(board, "theirs")
        return found

    monkeypatch.setattr(canvases, "read_file", read_then_edit)
    monkeypatch.setattr(file_writer.Replaced, "put_back", lambda _self: kill())
    with opened(tmp_path) as root:
        assert not move(root)
    (recovered,) = {*swept(tmp_path)} - {BOARD}
    assert board.read_text() == CARD % NEW
    assert recovered.startswith("Sub/Recovered ")
    assert recovered.endswith(".canvas")
    assert (tmp_path / recovered).read_text() == with_word(CARD % OLD, "theirs")
