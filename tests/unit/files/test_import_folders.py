"""Which folders files may come from, and what is read there, also by the calls of Windows."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import pytest

from mcp_notarium.errors import InvalidRequest, NotPermitted
from mcp_notarium.files import import_folders
from support.systems import on_windows

LARGEST = 1024


def read(path: Path, folder: Path, *closed: Path) -> bytes:
    folders = import_folders.find_folders([[str(folder)]])
    return import_folders.read_file(str(path), folders, closed=closed, largest=LARGEST)


@pytest.mark.parametrize(
    "system",
    [nullcontext, partial(on_windows, package="mcp_notarium.files")],
    ids=["here", "windows"],
)
def test_a_file_is_read_and_a_closed_place_is_not(
    tmp_path: Path, system: type[AbstractContextManager[object]]
) -> None:
    (tmp_path / "in" / "notes" / "below").mkdir(parents=True)
    files = ["in/a.png", "in/notes/b.png", "in/notes/below/c.png", "in/rules.toml"]
    for one in files:
        (tmp_path / one).write_bytes(b"data")
    (tmp_path / "in" / "large.png").write_bytes(b"x" * (LARGEST + 1))
    closed = (tmp_path / "in" / "notes", tmp_path / "in" / "rules.toml", tmp_path / "nowhere")
    with system():
        assert read(tmp_path / "in" / "a.png", tmp_path / "in", *closed) == b"data"
        for one in files[1:]:
            with pytest.raises(NotPermitted):
                read(tmp_path / one, tmp_path / "in", *closed)
            assert read(tmp_path / one, tmp_path / "in") == b"data"
        below = tmp_path / "in" / "notes" / "below"
        with pytest.raises(NotPermitted):  # the folder itself lies in a closed place
            read(below / "c.png", below, *closed)
        with pytest.raises(InvalidRequest, match="larger"):
            read(tmp_path / "in" / "large.png", tmp_path / "in")
        with pytest.raises(InvalidRequest, match="no such file"):
            read(tmp_path / "in" / "none.png", tmp_path / "in")


def test_a_hidden_folder_is_not_opened_by_its_short_name(tmp_path: Path) -> None:
    hidden = tmp_path / "in" / ".obsidian"
    hidden.mkdir(parents=True)
    (hidden / "a.png").write_bytes(b"data")
    with on_windows(package="mcp_notarium.files") as windows:
        short = tmp_path / "in" / "OBSIDI~1" / "a.png"
        assert windows.model.find(str(short)).exists
        with pytest.raises(InvalidRequest, match="no such file"):
            read(short, tmp_path / "in")


def test_of_two_layers_the_inner_folders_are_left(tmp_path: Path) -> None:
    for one in ("a/b/c", "d", "e"):
        (tmp_path / one).mkdir(parents=True)
    (tmp_path / "way").symlink_to(tmp_path / "a")

    def found(*layers: list[str]) -> list[str]:
        folders = import_folders.find_folders(
            [[f"{tmp_path}/{one}" for one in each] for each in layers]
        )
        return sorted(os.path.relpath(one.real, tmp_path) for one in folders)

    assert found() == []
    assert found(["a", "d"]) == ["a", "d"]
    assert found(["a", "d"], ["a/b", "d", "e"]) == ["a/b", "d"]
    assert found(["a/b"], ["way", "d"]) == ["a/b"]
    assert found(["a"], ["e"]) == found(["a"], []) == []
    assert found(["a"], ["way/b"], ["a/b/c"]) == ["a/b/c"]
