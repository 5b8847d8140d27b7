"""Run the contract with a vault, over real files."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from contract.store_contract import Bench, BesideContract, KeepingContract, StoreContract
from mcp_notarium.domain.lines import newline_of
from mcp_notarium.domain.note import Content, PendingWrite, Revision
from mcp_notarium.stores.contract import Acknowledgement, ChangePage, ListingPage
from mcp_notarium.stores.extensions import KeptFile
from mcp_notarium.stores.vault import file_writer
from mcp_notarium.stores.vault.note_codec import find_tags
from mcp_notarium.stores.vault.store import VaultStore
from support.simulated_macos import simulate_macos
from support.systems import on_windows


class ShortIds(VaultStore):
    """Leaves out the ending of a file in ids, as the contract writes them, and the title in contents."""

    @staticmethod
    def path_of(note_id: str) -> str:
        return note_id and f"{note_id}.md"

    @staticmethod
    def short(revision: Revision) -> Revision:
        content = replace(revision.content, title=None)
        return replace(revision, id=revision.id.removesuffix(".md"), content=content)

    async def list_page(self, **options: object) -> ListingPage:
        page = await super().list_page(**options)  # type: ignore[arg-type]
        entries = [
            self.short(one)
            if isinstance(one, Revision)
            else replace(one, id=one.id.removesuffix(".md"))
            for one in page.entries
        ]
        return replace(page, entries=tuple(entries))

    async def changes(self, cursor: str, **options: object) -> ChangePage:
        page = await super().changes(cursor, **options)  # type: ignore[arg-type]
        entries = (replace(one, id=one.id.removesuffix(".md")) for one in page.changes)
        return replace(page, changes=tuple(entries))

    async def get(self, note_id: str, *, etag: str | None = None) -> Revision:
        return self.short(await super().get(self.path_of(note_id), etag=etag))

    def compose(self, base: Revision | None, content: Content, *, now: float) -> bytes:
        base = base and replace(base, id=self.path_of(base.id))
        return super().compose(base, content, now=now)

    def revision_of(self, note_id: str, body: bytes) -> Revision:
        return self.short(super().revision_of(self.path_of(note_id), body))

    def new_id(self, content: Content, *, seed: str, attempt: int) -> str:
        return super().new_id(content, seed=seed, attempt=attempt).removesuffix(".md")

    async def push(self, write: PendingWrite) -> Acknowledgement:
        answer = await super().push(replace(write, note_id=self.path_of(write.note_id)))
        displaced = answer.displaced and self.short(answer.displaced)
        return replace(answer, revision=self.short(answer.revision), displaced=displaced)

    async def delete(self, note_id: str, *, etag: str, write_id: str) -> None:
        await super().delete(self.path_of(note_id), etag=etag, write_id=write_id)

    async def keep_file(self, revision: Revision, name: str, kind: str, data: bytes) -> KeptFile:
        whole = replace(revision, id=self.path_of(revision.id))
        return await super().keep_file(whole, name, kind, data)


class VaultBench:
    """Another program writes the files, and the disk fails on order."""

    secrets = ()

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self.store = ShortIds(folder)
        self.store.shortest_pause = 0.02
        self._patch = patch
        self._dates = count(1_600_000_000)

    def path(self, note_id: str) -> Path:
        live, trashed = self.folder / f"{note_id}.md", self.folder / ".trash" / f"{note_id}.md"
        return trashed if trashed.exists() else live

    async def put(
        self, note_id: str, text: str, *, tags: tuple[str, ...] = (), trash: bool = False
    ) -> None:
        path = self.folder / (".trash" if trash else "") / f"{note_id}.md"
        path.parent.mkdir(exist_ok=True)
        front = "---\ntags: [{}]\n---\n".format(", ".join(tags)) if tags else ""
        path.write_bytes((front + text).encode())
        os.utime(path, (date := next(self._dates), date))

    async def remove(self, note_id: str) -> None:
        self.path(note_id).unlink()

    async def rename(self, old: str, new: str) -> None:
        self.path(old).rename(self.path(new))

    async def put_file(self, path: str, data: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def file(self, path: str) -> bytes | None:
        file = self.folder / path
        return None if not file.exists() else b"" if file.is_dir() else file.read_bytes()

    async def text(self, note_id: str) -> str:
        try:
            return self.path(note_id).read_bytes().decode()
        except FileNotFoundError:
            raise KeyError(note_id) from None

    def forget_cursors(self) -> None: ...

    def forget_versions(self, note_id: str) -> None: ...

    def refuse_login(self) -> None: ...

    def answer(self, body: bytes) -> None: ...

    def unreachable(self) -> None:
        self.folder = self.folder.rename(self.folder.with_name("unmounted"))

    def lose_answers(self, times: int) -> None:
        def fail(file: int) -> None:
            if times and stat.S_ISDIR(os.fstat(file).st_mode):
                raise OSError(5, os.strerror(5))

        self._flush_by(fail)

    def lose_requests(self, times: int) -> None: ...

    def hang(self) -> None:
        self._flush_by(lambda _file: time.sleep(0.3))

    def _flush_by(self, flush: Callable[[int], None]) -> None:
        self._patch.setattr("mcp_notarium.stores.vault.file_writer.os.fsync", flush)

    def begin(self) -> None: ...

    def roll_back(self) -> None: ...


class TestVault(StoreContract, BesideContract, KeepingContract):
    over_network = False

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
            bench = VaultBench(Path(place, "notes"), patch)
            yield bench
            await bench.store.close()

    def as_stored(self, content: Content) -> Content:
        """Tags go to the front matter; the title is the file's, which the bench does not show."""
        text = content.text
        if content.tags and not find_tags(text)[0]:
            lines = ("---", "tags:", *(f"  - {tag}" for tag in content.tags), "---", text)
            text = newline_of(text).join(lines)
        return replace(content, text=text, title=None)

    test_a_title_goes_through_and_stays_when_the_text_changes = (
        None  # tests/unit/stores/test_vault_store.py
    )


class TestWithoutExchange(TestVault):
    """The system cannot exchange two files, nor rename one only if nothing is there."""

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_writer, "rename", lambda *_arguments, **_how: False)
            async with super().open_bench() as bench:
                yield bench


class TestMacOS(TestVault):
    """Files are renamed and have attributes by the calls of macOS, which are simulated over those of Linux."""

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with pytest.MonkeyPatch.context() as patch:
            simulate_macos(patch)
            async with super().open_bench() as bench:
                yield bench


class WindowsBench(VaultBench):
    """A vault on Windows, where names need no flush of their own: an answer is lost by a fault in its place."""

    def _flush_by(self, flush: Callable[[int], None]) -> None:
        self._patch.setattr(file_writer.SYSTEM, "flush_names", flush)


class TestWindows(TestVault):
    """The vault goes through the calls of Windows, which are simulated."""

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[Bench]:
        with (
            TemporaryDirectory() as place,
            pytest.MonkeyPatch.context() as patch,
            on_windows(scanner=1),
        ):
            bench = WindowsBench(Path(place, "notes"), patch)
            yield bench
            await bench.store.close()
