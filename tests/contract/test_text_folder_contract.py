"""Run the contract with the worked example of ``docs/new-store.md``, over real files."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from contract.store_contract import Bench, StoreContract
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import (
    IdTaken,
    OutcomeUnknown,
    StoreProtocolError,
    StoreUnavailable,
    VersionConflict,
)
from notarium_devtools.text_folder import files
from notarium_devtools.text_folder.store import TextFolder


class TextFolderBench:
    """Another program writes the files, and the disk fails on order."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self.store = TextFolder(folder)
        self.store.pause = 0.02
        self._patch = patch
        self._dates = count(1_600_000_000)

    def path(self, note_id) -> Path:
        return self.folder / f"{note_id}.txt"

    async def put(self, note_id, text, *, tags=(), trash=False) -> None:
        path = self.path(note_id)
        path.write_bytes(text.encode())
        os.utime(path, (date := next(self._dates), date))

    def put_odd_files(self, outside: Path) -> None:
        self.path("latin").write_bytes(b"caf\xe9\n")
        self.path("large").write_bytes(b"x" * (files.LARGEST + 1))
        self.path("link").symlink_to(outside)
        os.mkfifo(self.path("pipe"))
        self.path("folder").mkdir()
        (self.folder / "notes.md").write_text("x\n")
        (self.folder / ".hidden.txt").write_text("x\n")

    async def remove(self, note_id) -> None:
        self.path(note_id).unlink()

    async def rename(self, old, new) -> None:
        self.path(old).rename(self.path(new))

    async def text(self, note_id) -> str:
        try:
            return self.path(note_id).read_bytes().decode()
        except FileNotFoundError:
            raise KeyError(note_id) from None

    def forget_cursors(self) -> None: ...

    def forget_versions(self, note_id) -> None: ...

    def refuse_login(self) -> None: ...

    def unreachable(self) -> None:
        self.folder = self.folder.rename(self.folder.with_name("unmounted"))

    def lose_answers(self, times) -> None:
        def fail(file: int) -> None:
            if times and stat.S_ISDIR(os.fstat(file).st_mode):
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self._flush_by(fail)

    def lose_requests(self, times) -> None: ...

    def hang(self) -> None:
        self._flush_by(lambda _file: time.sleep(0.3))

    def _flush_by(self, flush: Callable[[int], None]) -> None:
        self._patch.setattr("notarium_devtools.text_folder.files.os.fsync", flush)


class TestTextFolder(StoreContract):
    over_network = False

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
            bench = TextFolderBench(Path(place, "notes"), patch)
            yield bench
            await bench.store.close()

    async def test_files_that_are_no_notes_are_counted_and_not_touched(
        self, bench: TextFolderBench, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside.txt"
        outside.write_text("secret\n")
        bench.put_odd_files(outside)
        await bench.put("note", "text\n")
        page = await bench.store.list_page(since=None, mark=None, limit=100, with_content=True)
        assert [entry.id for entry in page.entries] == ["note"]
        assert page.left_out == 5
        for name in ("latin", "large", "link", "pipe", "folder"):
            with pytest.raises(StoreProtocolError):
                await bench.store.get(name)
            base = await bench.store.get("note")
            with pytest.raises(IdTaken):
                await self.create(bench, name, "new\n")
            write = self.write(bench.store, name, Content("new\n"), base=base)
            with pytest.raises(VersionConflict):
                await bench.store.push(write)
            with pytest.raises(VersionConflict):
                await bench.store.delete(name, etag=base.etag, write_id="0d")
        assert outside.read_text() == "secret\n"
        assert bench.path("latin").read_bytes() == b"caf\xe9\n"
        assert bench.path("link").is_symlink()
        assert not [path for path in bench.folder.iterdir() if path.suffix == ".tmp"]

    async def test_a_file_that_becomes_no_text_right_before_the_exchange_stays(
        self, bench: TextFolderBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        base = await self.create(bench, "n1", "one\n")
        write = self.write(bench.store, "n1", Content("two\n"), base=base, write_id="0b")
        spoil = lambda: bench.path("n1").write_bytes(b"caf\xe9\n")  # noqa: E731
        monkeypatch.setattr("notarium_devtools.text_folder.store.check_not_withdrawn", spoil)
        with pytest.raises(VersionConflict):
            await bench.store.push(write)
        assert bench.path("n1").read_bytes() == b"caf\xe9\n"
        assert [path.name for path in bench.folder.iterdir()] == ["n1.txt"]

    async def test_a_displaced_file_that_cannot_be_put_back_is_kept(
        self, bench: TextFolderBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        base = await self.create(bench, "n1", "one\n")
        write = self.write(bench.store, "n1", Content("two\n"), base=base, write_id="0b")
        spoil = lambda: bench.path("n1").write_bytes(b"caf\xe9\n")  # noqa: E731
        monkeypatch.setattr("notarium_devtools.text_folder.store.check_not_withdrawn", spoil)
        read_settled = files._read_settled

        def read_after_removal(*arguments: object) -> object:
            found = read_settled(*arguments)
            if b"\xe9" in found[0]:
                bench.path("n1").unlink()
            return found

        monkeypatch.setattr(files, "_read_settled", read_after_removal)
        with pytest.raises(OutcomeUnknown):
            await bench.store.push(write)
        (left,) = bench.folder.iterdir()
        assert left.read_bytes() == b"caf\xe9\n"

    async def test_an_edit_that_was_displaced_when_the_process_ended_comes_back(
        self, bench: TextFolderBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Killed(BaseException): ...

        def end(*_arguments: object) -> None:
            raise Killed

        base = await self.create(bench, "n1", "one\n")
        other = lambda: bench.path("n1").write_text("theirs\n")  # noqa: E731
        monkeypatch.setattr("notarium_devtools.text_folder.store.check_not_withdrawn", other)
        monkeypatch.setattr(files.Folder, "_take_displaced", end)
        with pytest.raises(Killed):
            bench.store._push(self.write(bench.store, "n1", Content("two\n"), base=base))
        for left_behind, texts in ((600.0, {"two\n"}), (0.0, {"two\n", "theirs\n"})):
            monkeypatch.setattr(files, "LEFT_BEHIND", left_behind)
            for _ in range(2):
                _, entries = await self.whole_listing(bench.store, limit=9)
            assert {entry.content.text for entry in entries} == texts
        assert all(path.suffix == ".txt" for path in bench.folder.iterdir())

    async def test_of_what_a_process_has_left_behind_only_what_is_not_ours_becomes_a_note(
        self, bench: TextFolderBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(files, "LEFT_BEHIND", 0.0)
        ours, read = files.etag_of(b"ours\n"), files.etag_of(b"read\n")
        texts = (b"ours\n", b"read\n", b"", b"theirs\n", b"caf\xe9\n")
        for number, text in enumerate(texts):
            (bench.folder / f".notarium-{ours}-{read}-{number}.tmp").write_bytes(text)
        for name in (".notarium-strange.tmp", ".hidden", "other.tmp"):
            (bench.folder / name).write_bytes(b"not ours to touch")
        for _ in range(2):
            page = await bench.store.list_page(since=None, mark=None, limit=9, with_content=True)
        assert [(entry.id, entry.content.text) for entry in page.entries] == [
            ("Recovered 3", "theirs\n")
        ]
        assert page.left_out == 1
        assert bench.path("Recovered 4").read_bytes() == b"caf\xe9\n"
        assert len([*bench.folder.iterdir()]) == 5

    async def test_without_a_time_of_birth_there_is_no_identity(
        self, bench: TextFolderBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if sys.platform == "linux":
            assert (await self.create(bench, "n1", "one\n")).identity is not None
        monkeypatch.setattr(files, "_statx", lambda: None)
        file = os.open(bench.folder, os.O_RDONLY)
        found = SimpleNamespace(st_ino=1)
        assert files.identity_of(file, found) is None
        os.close(file)

    async def test_another_folder_in_its_place_is_no_empty_store(
        self, bench: TextFolderBench
    ) -> None:
        await self.create(bench, "n1", "one\n")
        place = bench.folder
        bench.unreachable()
        place.mkdir()
        with pytest.raises(StoreUnavailable, match="another folder"):
            await bench.store.list_page(since=None, mark=None, limit=9, with_content=True)

    async def test_a_file_that_somebody_is_writing_is_read_when_it_is_whole(
        self, bench: TextFolderBench
    ) -> None:
        await bench.put("n1", "one\n")
        emptied = threading.Event()

        def rewrite() -> None:
            with bench.path("n1").open("wb", buffering=0) as file:
                emptied.set()
                time.sleep(files.SETTLED / 2)
                file.write(b"one\ntwo\n")

        rewriting = asyncio.create_task(asyncio.to_thread(rewrite))
        await asyncio.to_thread(emptied.wait)
        assert (await bench.store.get("n1")).content.text == "one\ntwo\n"
        await rewriting

    async def test_permissions_stay_as_far_as_the_process_may_set_them(
        self, bench: TextFolderBench
    ) -> None:
        base = await self.create(bench, "n1", "one\n")
        bench.path("n1").chmod(0o400)
        write = self.write(bench.store, "n1", Content("two\n"), base=base, write_id="0b")
        await bench.store.push(write)
        assert stat.S_IMODE(bench.path("n1").stat().st_mode) == 0o400

    @pytest.mark.parametrize(
        ("text", "names"),
        [
            ("Plan\nx", ["Plan", "Plan 2"]),
            ("\n\n  a/b: c?\n", ["a b c", "a b c 2"]),
            ("", ["Untitled", "Untitled 2"]),
            ("..\n", ["Untitled"]),
            ("\ufeffCafe\u0301", ["Café"]),
            ("ä" * 300, ["ä" * 50, "ä" * 50 + " 2"]),
        ],
    )
    async def test_a_file_is_named_by_the_title(
        self, bench: TextFolderBench, text: str, names: list[str]
    ) -> None:
        made = [bench.store.new_id(Content(text), seed="0a", attempt=n) for n in range(20)]
        assert made[: len(names)] == names
        assert len({*made}) == 20
        other = bench.store.new_id(Content(text), seed="a1b2c3d4e5", attempt=19)
        assert other not in made


class TestWithoutExchange(TestTextFolder):
    """The system cannot exchange two files, nor rename one only if nothing is there."""

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_rename", lambda *_arguments: False)
            async with super().open_bench() as bench:
                yield bench

    test_a_file_that_becomes_no_text_right_before_the_exchange_stays = None
    test_a_displaced_file_that_cannot_be_put_back_is_kept = None
    test_an_edit_that_was_displaced_when_the_process_ended_comes_back = None
