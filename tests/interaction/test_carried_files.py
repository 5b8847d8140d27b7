"""Files that notes show go with them from store to store: bytes equal, links leading to them, none twice, none silently lost."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from mcp_notarium.domain.exported_note import ExportedNote, export_note
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Visibility
from mcp_notarium.errors import StoreUnavailable
from mcp_notarium.library import Library
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.markup import html_codec
from mcp_notarium.storage.change_records import KeptFileRow
from mcp_notarium.stores import registry
from mcp_notarium.stores.http import MOST_CONNECTIONS
from mcp_notarium.stores.local import attachments as local_files
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.stores.trilium.store import TriliumStore
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.transfer import attachments, formats, note_import
from mcp_notarium.transfer.attachments import TakenFiles
from mcp_notarium.transfer.formats import FoundExport
from mcp_notarium.transfer.note_import import ImportPlan, ImportResult
from mcp_notarium.transfer.store_attachments import SILENT, StoreFiles
from notarium_devtools.trilium import TriliumSimulator
from support.long import sample
from support.memento_file import MementoFile
from support.sample_files import pdf, picture
from support.sync_rig import Client, Crash, account_of, quick_folder
from support.trilium_client import open_trilium

NOW = 1_700_000_000.0
KEEPING = ("local", "trilium", "vault")
TRILIUMS: dict[Path, TriliumSimulator] = {}
"""The servers of accounts, by their folders: they outlast the programs."""
SVG = b"<svg/>"
NUMBERS = b"1,2\n"
PLAN, PAPER = picture("PNG"), pdf(["a page"])
TRIP = (
    "# Trip\n\n![[plan.png|300]] and [the paper](../assets/a%20paper.pdf#page=2), ![](../assets/plan.png)\n"
    "\n[[Nowhere.png]] [[Other]] `![[plan.png]]`\n\n[[other/plan.png]]\n"
)
FILES = {
    "Work/Trip.md": TRIP.encode(),
    "Other.md": b"nothing to see\n",
    "assets/plan.png": PLAN,
    "assets/a paper.pdf": PAPER,
    "assets/other/plan.png": PLAN + b"another",
}
ALL = sorted(data for path, data in FILES.items() if not path.endswith(".md"))


@asynccontextmanager
async def opened(store: str, folder: Path, **more: object) -> AsyncIterator[Client]:
    """An account of a store, in step with it."""
    vault = folder / "vault"
    vault.mkdir(parents=True, exist_ok=True)
    async with TRILIUMS.setdefault(folder, TriliumSimulator()).serving() as trilium:
        made: dict[str, Callable[[], Any]] = {
            "local": lambda: LocalStore,
            "vault": lambda: VaultStore(vault),
            "trilium": lambda: open_trilium(trilium),
            "memento": lambda: MementoStore(MementoFile(folder / "dev.db").path),
        }
        async with account_of(folder, made[store](), **more) as client:
            yield client


def transfer(client: Client) -> NoteTransfer:
    return NoteTransfer(client.cache, client.remote, client.writer)


async def read(client: Client, store: str) -> tuple[list[ExportedNote], dict[str, list[object]]]:
    held = [one async for one in transfer(client).read_all()]
    paths = registry.kind(store).ids.paths
    return [export_note(one, paths=paths) for one in held], await StoreFiles(
        transfer(client)
    ).find_files(held)


async def export(client: Client, store: str, path: Path, form: str = "markdown") -> TakenFiles:
    notes, shown = await read(client, store)
    with formats.writing(form, path) as made:
        notes, taken = await attachments.take_out(
            notes, shown, transfer(client), made, lambda _done, _total: None
        )
        made.put_notes(notes, lambda _done, _total: None)
    return taken


async def bring(
    client: Client, store: str, found: FoundExport, **more: Any
) -> tuple[ImportPlan, ImportResult]:
    kind = registry.kind(store)
    planned = await note_import.plan(found.notes, transfer(client), kind, now=NOW)
    done = await note_import.carry_out(
        planned, transfer(client), kind, lambda _done, _total: None, found, **more
    )
    return planned, done


async def shown_by(client: Client, store: str) -> dict[str, list[bytes]]:
    """The bytes of the files that each note shows, by its title."""
    notes, shown = await read(client, store)
    found = {}
    for note in notes:
        read_files = [
            await StoreFiles(transfer(client)).read_file(one, largest=1 << 20)
            for one in shown.get(note.id, ())
        ]
        found[note.content.title or ""] = sorted(one[1] for one in read_files if one)
    return found


def fill(folder: Path, files: dict[str, bytes] = FILES) -> None:
    for path, data in files.items():
        place = folder / "vault" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        os.utime(place, (1e9, 1e9))  # a new one is read once nobody seems to write it


@pytest.mark.slow("four accounts, one after another")
@pytest.mark.parametrize("form", ["markdown", "json"])
def test_files_go_from_a_vault_through_every_store_that_keeps_them_and_back(form: str) -> None:
    async def work(folder: Path) -> None:
        fill(folder / "0")
        async with opened("vault", folder / "0") as first:
            taken = await export(first, "vault", folder / "0.zip", form)
        assert (taken.files, taken.size, taken.left_out) == (3, sum(map(len, ALL)), [])
        for number, store in enumerate((*KEEPING, "vault"), 1):
            with formats.reading(folder / f"{number - 1}.zip") as found:
                async with opened(store, folder / str(number)) as client:
                    planned, done = await bring(client, store, found)
                    assert (len(planned.files), planned.lost_files) == (3, {})
                    assert (done.imported, done.files, done.refused_files) == (2, 3, [])
                    assert await shown_by(client, store) == {"Trip": ALL, "Other": []}
                    before = await read(client, store)
                    if client.remote.traits.keeps_dates:
                        held = {one.content.title: one.modified_at for one in before[0]}
                        assert held == {one.content.title: one.modified_at for one in found.notes}
                    again, done = await bring(client, store, found)
                    assert (again.new, again.there, again.differ) == ([], 2, [])
                    assert await read(client, store) == before
                    await export(client, store, folder / f"{number}.zip", form)
        text = (folder / str(number) / "vault" / "Work" / "Trip.md").read_text()
        assert "![300](plan.png) and [the paper](a%20paper.pdf), ![](plan.png)\n" in text
        assert text.endswith("`![[plan.png]]`\n\n[plan 2.png](plan%202.png)")

    with quick_folder() as folder:
        asyncio.run(work(folder))


def test_an_import_keeps_its_files_when_no_other_process_is_at_it() -> None:
    async def work(folder: Path) -> None:
        fill(folder / "0")
        async with opened("vault", folder / "0") as first:
            await export(first, "vault", folder / "0.zip")
        with formats.reading(folder / "0.zip") as found:
            async with opened("local", folder / "1") as client:
                parts = (client.cache, client.remote, client.writer, client.scheduler)
                lock = folder / "files.lock"
                ours, others = (Library(*parts, files_lock=lock) for _ in range(2))
                async with others.files.keeping():
                    importing = asyncio.create_task(
                        bring(client, "local", found, keeping=ours.files.keeping)
                    )
                    await asyncio.sleep(0.1)
                    assert client.cache.database.number("SELECT count(*) FROM notes") == 2
                    assert client.cache.database.number("SELECT count(*) FROM notebook_files") == 0
                assert (await importing)[1].files == 3

    with quick_folder() as folder:
        asyncio.run(work(folder))


@pytest.mark.slow("an import three times over")
@pytest.mark.parametrize("store", KEEPING)
def test_an_import_that_ends_anywhere_is_finished_by_the_next(
    monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    monkeypatch.setattr(note_import, "_AT_ONCE", 1)  # else others end within a request

    async def work(folder: Path, ends_at: int) -> int:
        steps = 0

        def step(_name: object = None) -> None:
            nonlocal steps
            steps += 1
            if steps == ends_at:
                raise Crash

        with formats.reading(folder / "export") as found:

            def open_file(path: str) -> object:
                step()
                return found.open(path)

            cut = FoundExport(found.notes, open_file)  # type: ignore[arg-type]
            place = folder / f"{store} {ends_at}"
            async with opened(store, place, on_step=step) as client:
                try:
                    await bring(client, store, cut)
                except Crash:
                    assert steps == ends_at
                else:
                    assert not ends_at
            async with opened(store, place) as client:
                await client.run_cycles(2)
                planned, done = await bring(client, store, found)
                assert (planned.differ, done.refused_files) == ([], [])
                assert await shown_by(client, store) == {"Trip": ALL, "Other": []}
                again, _ = await bring(client, store, found)
                assert again.new == []
            kept = [one for one in place.rglob("*") if one.suffix in (".png", ".pdf")]
            assert len(kept) == (3 if store == "vault" else 0)
            return steps

    with quick_folder() as folder:
        fill(folder)
        (folder / "vault").rename(folder / "export")
        steps = asyncio.run(work(folder, 0))
        assert steps > 8
        for ends_at in sample(f"files into {store}", range(1, steps + 1), 3):
            asyncio.run(work(folder, ends_at))


def test_a_link_that_has_the_name_of_another_file_by_now_is_left_alone(tmp_path: Path) -> None:
    """Where an app keeps files in a folder called as that of an export, a link of before may look like one of after."""
    with formats.writing("markdown", tmp_path / "export") as made:
        one, two = made.put_file("plan.png", PLAN, 1e9), made.put_file("plan 2.png", PAPER, 1e9)
        text = f"![[{one.path}]] ![[{two.path}]]\n"
        shown = tuple(replace(file, links=((file.path, False),)) for file in (one, two))
        note = ExportedNote("n", Content(text, title="Trip"), 1e9, 1e9, files=shown)
        made.put_notes([note], lambda _done, _total: None)
    there = {"attachmentFolderPath": "files", "newLinkFormat": "absolute"}
    fill(tmp_path, {".obsidian/app.json": json.dumps(there).encode(), "files/plan.png": b"mine"})

    async def work() -> None:
        with formats.reading(tmp_path / "export") as found:
            for _ in range(3):
                async with opened("vault", tmp_path) as client:
                    _, done = await bring(client, "vault", found)
                    text = (tmp_path / "vault" / "Trip.md").read_text()
                    assert text == "![[files/plan 2.png]] ![[files/plan 2 2.png]]\n"
                    assert done.refused_files == []

    asyncio.run(work())
    assert (tmp_path / "vault" / "files" / "plan 2.png").read_bytes() == PLAN


def test_one_file_after_another_is_in_memory(tmp_path: Path) -> None:
    names = [f"{number}.bin" for number in range(8)]
    fill(tmp_path, {"a.md": " ".join(f"![[{one}]]" for one in names).encode()})
    fill(tmp_path, {one: one.encode() * (1 << 18) for one in names})

    async def work() -> None:
        async with opened("vault", tmp_path) as client:
            assert (await export(client, "vault", tmp_path / "out.zip", "json")).files == 8
        with formats.reading(tmp_path / "out.zip") as found:
            async with opened("local", tmp_path / "local") as client:
                assert (await bring(client, "local", found))[1].files == 8

    tracemalloc.start()
    try:
        asyncio.run(work())
        assert tracemalloc.get_traced_memory()[1] < 6 << 20  # of 10 MB
    finally:
        tracemalloc.stop()


def test_what_a_store_cannot_take_is_said_before_and_the_text_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(folder: Path) -> None:
        fill(folder)
        (folder / "vault").rename(folder / "export")
        with formats.reading(folder / "export") as found:
            thrown = replace(
                found.notes[1], id="n-2", content=replace(found.notes[1].content, trash=True)
            )
            for store in ("local", "vault"):
                async with opened(store, folder / "thrown" / store) as client:
                    both = [thrown, replace(thrown, id="n-3", created_at=NOW)]
                    planned, done = await bring(client, store, replace(found, notes=both))
                    assert (done.imported, len(planned.files)) == (2, 3)
                    assert (done.files, done.refused_files) == (3, [])
            async with opened("memento", folder / "memento") as client:
                planned, done = await bring(client, "memento", found)
                (reason,) = planned.lost_files
                assert reason == attachments.NO_FILES
                assert len(planned.lost_files[reason]) == 3
                assert done.files == 0
            monkeypatch.setattr(LocalStore, "largest_file", len(PLAN))
            monkeypatch.setattr(local_files, "LARGEST_NOTE", len(PLAN) - 1)
            async with opened("local", folder / "local") as client:
                planned, done = await bring(client, "local", found)
                lost = planned.lost_files[attachments.FILE_TOO_LARGE]
                assert {one.size for _, one in lost} == {len(PAPER), len(PLAN) + 7}
                ((_, file),) = planned.lost_files[attachments.NOTE_IS_FULL]
                assert (file.path, done.imported, done.refused_files) == ("assets/plan.png", 2, [])
                (trip,) = [
                    one for one in (await read(client, "local"))[0] if "Trip" in one.content.text
                ]
                assert "![300](assets/plan.png)" in trip.content.text
                monkeypatch.setattr(local_files, "LARGEST_NOTE", len(PLAN))
                planned, done = await bring(client, "local", found)
                assert (len(planned.fresh), done.files) == (0, 1)

    with quick_folder() as folder:
        asyncio.run(work(folder))


def test_files_that_do_not_come_are_named_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        first = ExportedNote("n-1", Content("x\n", title="Plan"), 1e9, 1e9)
        with formats.writing("json", tmp_path / "given.zip") as made:
            files = [made.put_file(f"{at}.bin", b"x" * at, 1e9) for at in (3, 4, 5)]
            texts = ("x ![](files/3.bin)\n", "y ![](files/3.bin) ![](files/4.bin)\n")
            notes = [
                replace(
                    first,
                    content=replace(first.content, text=text),
                    files=tuple(replace(one, links=((one.path, True),)) for one in files[: at + 1]),
                )
                for at, text in enumerate(texts)
            ]
            made.put_notes(notes[:1], lambda _done, _total: None)
        with formats.reading(tmp_path / "given.zip") as found:
            async with opened("local", tmp_path) as client:
                _, done = await bring(client, "local", found)
                assert done.files == 1
                planned, _ = await bring(client, "local", replace(found, notes=notes[1:]))
                ((_, lacking),) = planned.lost_files[attachments.NOTE_DIFFERS]
                assert (lacking.path, len(planned.differ)) == ("files/4.bin", 1)
                monkeypatch.setattr(local_files, "LARGEST_NOTEBOOK", 3 + 4)
                third = replace(notes[0], id="n-3", files=tuple(files[::-1]))
                planned, _ = await bring(client, "local", replace(found, notes=[third]))
                full = planned.lost_files[attachments.STORE_IS_FULL]
                assert [one.size for _, one in full] == [5, 3]

    asyncio.run(work())


def test_a_picture_at_another_address_is_named_and_fails_no_export(tmp_path: Path) -> None:
    app = tmp_path / "memento" / "dev.db"
    app.parent.mkdir()
    addresses = json.dumps(["https://example.org/plan.png"])
    MementoFile(app).put("n1", "words\n", title="Pictures", images=addresses)

    async def work() -> None:
        async with opened("memento", tmp_path / "memento") as client:
            taken = await export(client, "memento", tmp_path / "out")
            assert [one[1] for one in taken.left_out] == ["n1/1"]
            assert not taken.unread

    asyncio.run(work())


def test_files_of_hidden_notes_are_the_persons(tmp_path: Path) -> None:
    hides = Visibility(hidden_tags=("secret",))

    async def work() -> None:
        note = ExportedNote("n-1", Content("![x](files/x.png)", ("secret",), title="t"), 1e9, 1e9)
        given = tmp_path / "given.zip"
        with formats.writing("json", given) as made:
            file = made.put_file("x.png", PLAN, 1e9)
            files = (replace(file, links=(("files/x.png", True),)),)
            made.put_notes([replace(note, files=files)], lambda _done, _total: None)
        with formats.reading(given) as found:
            async with opened("local", tmp_path / "local", rules=hides) as client:
                _, done = await bring(client, "local", found)
                ((_, _, why),) = done.refused_files
                assert (done.hidden, why) == (1, note_import.HIDDEN)
            async with opened("local", tmp_path / "local") as client:
                _, done = await bring(client, "local", found)
                assert (done.files, done.refused_files) == (1, [])
        async with opened("local", tmp_path / "local", rules=hides) as client:
            assert (await export(client, "local", tmp_path / "out.json", "json")).files == 1
        assert zipfile.ZipFile(tmp_path / "out.zip").read("files/x.png") == PLAN

    asyncio.run(work())


def crash(_path: str) -> BytesIO:
    raise Crash


def test_pictures_that_no_text_shows_come_along(tmp_path: Path) -> None:
    app = tmp_path / "memento" / "dev.db"
    app.parent.mkdir()
    coded = f"data:image/png;base64,{base64.b64encode(PLAN).decode()}"
    drawn = f"data:image/svg+xml;base64,{base64.b64encode(SVG).decode()}"
    images = [coded, "data:,x", drawn]
    MementoFile(app).put("n1", "words\n", title="Pictures", images=json.dumps(images))

    async def work() -> None:
        async with opened("memento", tmp_path / "memento") as client:
            taken = await export(client, "memento", tmp_path / "out")
            assert [(one[1], taken.unread) for one in taken.left_out] == [("n1/2", True)]
        written = (tmp_path / "out" / "Pictures.md").read_text()
        assert "files:\n- files/file 1.png\n- files/file 3.svg\n" in written
        assert written.endswith("\n---\nwords\n")
        with formats.reading(tmp_path / "out") as found:
            async with opened("vault", tmp_path) as client:
                with pytest.raises(Crash):
                    await bring(client, "vault", replace(found, open=crash))
                _, done = await bring(client, "vault", found)
                assert (done.imported, done.files) == (0, 2)
                assert await shown_by(client, "vault") == {"Pictures": sorted([PLAN, SVG])}
                again, _ = await bring(client, "vault", found)
                assert (again.new, again.there, again.differ) == ([], 1, [])
        text = (tmp_path / "vault" / "Pictures.md").read_text()
        assert text.startswith("words\n\n![file 1.png](file%201.png)\n")
        assert "(file%203.svg)" in text

    asyncio.run(work())


def test_files_of_trilium_are_exported_and_one_that_is_gone_is_named(tmp_path: Path) -> None:
    async def work() -> None:
        async with TriliumSimulator().serving() as sim:
            sim.write("Trip0000000a", "Trip", "x")
            own = sim.document.notes["Trip0000000a"]
            made = sim.document.attach(own.id, "image", "image/png", "plan.png", PLAN)
            paper = sim.document.attach(own.id, "file", "application/pdf", "a paper.pdf", PAPER)
            # Names that a vault takes for those of notes.
            rules = sim.document.attach(own.id, "file", "application/x-own", "Makefile", b"all:")
            read_me = sim.document.attach(own.id, "file", "text/markdown", "README.MD", b"# Me")
            own.content = (
                f'<p><img src="api/attachments/{made.id}/image/plan.png"> and '
                f'<a href="#root/{own.id}?viewMode=attachments&amp;attachmentId={paper.id}">a paper.pdf</a> '
                f'<img src="api/attachments/gone00000000/image/gone.png"></p>'
                + "".join(
                    f'<p><a href="#root/{own.id}?viewMode=attachments&amp;attachmentId={one.id}">this</a></p>'
                    for one in (rules, read_me)
                )
            ).encode()
            async with account_of(tmp_path, open_trilium(sim)) as client:
                taken = await export(client, "trilium", tmp_path / "out")
            ((note, file, _),) = taken.left_out
            assert (note, file, taken.files) == (own.id, f"{own.id}/gone00000000", 4)
        text = (tmp_path / "out" / "Trip.md").read_text()
        assert (
            "![](files/plan.png) and [a paper.pdf](files/a%20paper.pdf) ![](api/attachments/gone"
            in text
        )
        assert text.endswith("\n\n[this](files/Makefile.bin)\n\n[this](files/README.txt)")
        with formats.reading(tmp_path / "out") as found:
            async with opened("vault", tmp_path) as vault:
                _, done = await bring(vault, "vault", found)
                assert done.files == 4
                four = sorted((PLAN, PAPER, b"all:", b"# Me"))
                assert await shown_by(vault, "vault") == {"Trip": four}

    asyncio.run(work())


def put_four(sim: TriliumSimulator) -> str:
    """A note with four files: its text shows one, links to one, and says nothing of the others."""
    sim.write("Trip0000000a", "Trip", "x")
    own = sim.document.notes["Trip0000000a"]
    shown = sim.document.attach(own.id, "image", "image/png", "plan.png", PLAN)
    linked = sim.document.attach(own.id, "file", "application/pdf", "a paper.pdf", PAPER)
    sim.document.attach(own.id, "file", "text/csv", "numbers.csv", NUMBERS)
    sim.document.attach(own.id, "image", "image/svg+xml", "drawn.svg", SVG)
    sim.document.attach(own.id, "viewConfig", "application/json", "viewConfig.json", b"{}")
    own.content = (
        f'<p><img src="api/attachments/{shown.id}/image/plan.png"> '
        f'<a href="#root/{own.id}?viewMode=attachments&amp;attachmentId={linked.id}">paper</a></p>'
    ).encode()
    return own.id


def test_attachments_that_no_text_shows_go_to_every_store_and_back_once(tmp_path: Path) -> None:
    four = sorted((PLAN, PAPER, NUMBERS, SVG))
    (tmp_path / "0").mkdir()

    async def work() -> None:
        async with TriliumSimulator().serving() as sim:
            own = put_four(sim)
            sim.document.attach(own, "file", "text/csv", "numbers.csv", NUMBERS)  # a twin
            taken_back = sim.document.attach(own, "file", "text/plain", "undone.txt", b"undone")
            async with account_of(tmp_path / "0", open_trilium(sim)) as client:
                row = KeptFileRow(f"{own}/{taken_back.id}", "", 1e9, discarded=True)
                client.cache.change_records.add_kept_file(row, since=0.0)
                taken = await export(client, "trilium", tmp_path / "0.zip")
                assert (taken.files, taken.size, taken.left_out) == (4, sum(map(len, four)), [])
        for number, store in enumerate(("local", "trilium", "vault", "trilium"), 1):
            with formats.reading(tmp_path / f"{number - 1}.zip") as found:
                async with opened(store, tmp_path / str(number)) as client:
                    for _ in range(2):
                        planned, done = await bring(client, store, found)
                        assert (planned.lost_files, done.refused_files) == ({}, [])
                        assert await shown_by(client, store) == {"Trip": four}
                    assert (planned.new, planned.differ) == ([], [])
                    await export(client, store, tmp_path / f"{number}.zip")
        with formats.reading(tmp_path / "0.zip") as found:
            for new in (4, 0):  # an outline
                async with opened("vault", tmp_path / "outline") as client:
                    planned, _ = await bring(client, "vault", found)
                    assert (len(planned.files), planned.differ) == (new, [])
            async with opened("trilium", tmp_path / "again") as client:
                for new in (1, 0):
                    planned, _ = await bring(client, "trilium", found)
                    assert (len(planned.new), planned.differ) == (new, [])
            sim = TRILIUMS[tmp_path / "again"]
            (note,) = [one for one in sim.document.notes.values() if one.title == "Trip"]
            assert len(sim.document.attachments_of(note.id)) == 4
            # A person removes the link that the import has made, and then changes the text.
            unlinked = re.sub("<p><a [^>]*>numbers.csv</a></p>", "", note.content.decode())
            for text, differ in ((unlinked, []), (f"{unlinked}<p>more</p>", [note.id])):
                assert "numbers" not in text
                sim.write(note.id, note.title, text)
                async with opened("trilium", tmp_path / "again") as client:
                    planned, _ = await bring(client, "trilium", found)
                    assert (planned.new, planned.differ, planned.lost_files) == ([], differ, {})

    fill(tmp_path / "outline", {"logseq/config.edn": b"{}"})
    asyncio.run(work())
    assert "\n- ![numbers.csv](" in (tmp_path / "outline" / "vault" / "Trip.md").read_text()


def test_notes_of_which_a_service_does_not_tell_the_files_are_named(tmp_path: Path) -> None:
    async def work() -> None:
        async with TriliumSimulator().serving() as sim:
            own = put_four(sim)
            for number in range(9):
                sim.write(f"Note0000000{number}", f"{number}", "x")
            async with account_of(tmp_path, open_trilium(sim)) as client:
                held = [one async for one in transfer(client).read_all()]
                files = StoreFiles(transfer(client))
                for number in range(1, 4):  # they do not count together
                    sim.faults.status(500, path=f"/etapi/notes/{own}/attachments", times=3)
                    assert len((await files.find_files(held))[own]) == 2
                    assert [note for note, _ in files.unasked] == [own] * number
                sim.faults.status(500, path=f"/etapi/notes/{own}/attachments", times=2)
                assert len((await files.find_files(held, whole=True))[own]) == 4
                sim.faults.status(500, path="/etapi/notes/*/attachments", times=99)
                files, before = StoreFiles(transfer(client)), len(sim.requests)
                for one in held:
                    await files.find_files([one])
                reasons = [why for _, why in files.unasked]
                asked = len(sim.requests) - before
                assert (len(reasons), reasons.count(SILENT), asked) == (10, 7, 9)
                with pytest.raises(StoreUnavailable):
                    await StoreFiles(transfer(client)).find_files(held, whole=True)

    asyncio.run(work())


def test_a_drawing_that_a_text_shows_is_exported_as_the_picture_of_it(tmp_path: Path) -> None:
    notes: list[Any] = []

    async def work() -> None:
        async with TriliumSimulator().serving() as sim:
            for kind, title in (("canvas", "My board"), ("mindMap", "Ideas.svg"), ("mermaid", "-")):
                sim.write(f"{kind}000001", title, "{}", kind=kind)
            for name in ("canvas", "mindmap"):
                owner = "canvas000001" if name == "canvas" else "mindMap000001"
                svg, title = f"<svg>{name}</svg>".encode(), f"{name}-export.svg"
                sim.document.attach(owner, "image", "image/svg+xml", title, svg)
            sim.write("canvas000002", "Unseen", "{}", kind="canvas")
            unseen = ("image", "image/svg+xml", "canvas-export.svg", b"<svg>unseen</svg>")
            sim.document.attach("canvas000002", *unseen)
            shown = ("canvas000001", "mindMap000001", "mermaid000001")
            html = "".join(f'<p><img src="api/images/{one}/x.png"></p>' for one in shown)
            sim.write("Shows0000001", "Shows", html)
            many = "".join(f'<img src="api/images/Many{one:08}/x.png">' for one in range(1001))
            sim.write("Many00000000", "Many", f"<p>{many}</p>")
            async with account_of(tmp_path, open_trilium(sim)) as client:
                _, files = await read(client, "trilium")
                assert len(files.pop("Many00000000")) == 1001
                sim.document.delete("Many00000000")
                await client.sync()
                taken = await export(client, "trilium", tmp_path / "out")
        with formats.reading(tmp_path / "out") as found:
            async with opened("trilium", tmp_path / "back") as client:
                assert (await bring(client, "trilium", found))[1].files == 2
        notes.extend(TRILIUMS[tmp_path / "back"].document.notes.values())
        (shows,) = [one for one in notes if one.title == "Shows"]
        assert shows.content.decode().count('alt=""') == 3  # no address became words
        left_out = [(file, why) for note, file, why in taken.left_out if note == "Shows0000001"]
        assert left_out == [("mermaid000001/content", "Trilium has no picture of this note")]

    asyncio.run(work())
    text = (tmp_path / "out" / "Shows.md").read_text()
    assert "![](files/My%20board.svg)\n\n![](files/Ideas.svg)\n\n![](api/images/mermaid" in text
    assert (tmp_path / "out" / "files" / "My board.svg").read_bytes() == b"<svg>canvas</svg>"
    assert (tmp_path / "out" / "My board.md").read_text().endswith("\n---\n{}")
    assert (tmp_path / "out" / "files" / "Unseen.svg").read_bytes() == b"<svg>unseen</svg>"
    board = next(one for one in notes if one.title == "My board")
    assert html_codec.to_markdown(board.content.decode()) == "{}"


def test_a_store_that_stops_answering_is_not_asked_for_every_file(tmp_path: Path) -> None:
    class Silent(VaultStore):
        asked = 0

        async def read_file(self, path: str, *, largest: int) -> object:  # type: ignore[override]
            Silent.asked += 1
            raise StoreUnavailable("the note store cannot be reached")

    async def work() -> None:
        names = [f"{number}.png" for number in range(9)]
        fill(tmp_path, {"a.md": " ".join(f"![[{one}]]" for one in names).encode()})
        fill(tmp_path, dict.fromkeys(names, PLAN))
        client = Client(tmp_path, None, remote=Silent(tmp_path / "vault"))
        await client.sync()
        taken = await export(client, "vault", tmp_path / "out")
        assert (len(taken.left_out), Silent.asked) == (9, 3)
        client.close()

    asyncio.run(work())


@pytest.mark.slow("it imports notes with files, and a service fails")
def test_files_of_a_service_are_read_and_compared_a_few_at_a_time_in_stable_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "_LARGEST_TOGETHER", 15)
    files = [b"x" * number for number in range(1, 17)]
    now: Counter[str] = Counter()
    most: dict[str, int] = {}

    def count(name: str) -> None:
        real = getattr(TriliumStore, name)

        async def counted(*given: Any, **more: Any) -> object:
            now[name] += 1
            most[name] = max(most.get(name, 0), now[name])
            try:
                return await real(*given, **more)
            finally:
                now[name] -= 1

        monkeypatch.setattr(TriliumStore, name, counted)

    count("read_attachment")
    count("ask_attachments")

    async def work() -> None:
        async with TriliumSimulator().serving() as sim:
            for number, data in enumerate(files):
                sim.write(f"Note{number:08}", f"{number}", "x")
                sim.document.attach(f"Note{number:08}", "file", "application/x-own", "a.bin", data)
            async with account_of(tmp_path, open_trilium(sim)) as client:
                sim.faults.delay(0.1, path="/etapi/attachments/*", times=1)
                await export(client, "trilium", tmp_path / "out")
                assert most == {
                    "read_attachment": MOST_CONNECTIONS,
                    "ask_attachments": MOST_CONNECTIONS,
                }
                with formats.reading(tmp_path / "out") as found:
                    assert (await bring(client, "trilium", found))[1].files == 16
                    most.clear()
                    planned, _ = await bring(client, "trilium", found)
                    assert (len(planned.new), planned.there) == (0, 16)
                    assert most == {"ask_attachments": MOST_CONNECTIONS}
                sim.faults.clear()
                sim.faults.status(500, path="/etapi/attachments/*", times=999)
                before = len(sim.requests)
                taken = await export(client, "trilium", tmp_path / "none")
                asked = [one for one in sim.requests[before:] if "/etapi/attach" in one.path]
                assert [why for _, _, why in taken.left_out][8:] == [SILENT] * 24
                assert len({one.path for one in asked}) <= 8
        names = ["a.bin", *(f"a {number}.bin" for number in range(2, 17))]
        assert [(tmp_path / "out" / "files" / one).read_bytes() for one in names] == files

    asyncio.run(work())


def test_one_file_for_another_is_not_all_of_them_and_all_of_them_are_linked(tmp_path: Path) -> None:
    async def work() -> None:
        with formats.writing("json", tmp_path / "given.zip") as made:
            files = [made.put_file(f"{one}.bin", one.encode(), 1e9) for one in ("a", "b")]
            note = ExportedNote("n", Content("x\n", title="Trip"), 1e9, 1e9, files=tuple(files))
            made.put_notes([note], lambda _done, _total: None)
        with formats.reading(tmp_path / "given.zip") as found:
            async with (
                TriliumSimulator().serving() as sim,
                account_of(tmp_path, open_trilium(sim)) as client,
            ):
                held = sim.document.attachments
                find_own = sim.document.attachments_of

                def end(*_: object) -> None:
                    raise Crash

                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(NoteTransfer, "change_text", end)
                    with pytest.raises(Crash):
                        await bring(client, "trilium", found)
                assert len(held) == 2
                await bring(client, "trilium", found)
                (own,) = [one for one in sim.document.notes.values() if one.title == "Trip"]
                assert own.content.count(b"attachmentId") == len(find_own(own.id)) == 2
                assert (await bring(client, "trilium", found))[0].new == []
                linked = own.content
                for name, data in (("other.bin", b"b"), ("b.bin", b"bb")):
                    (old,) = [one for one in find_own(own.id) if one.title == "b.bin"]
                    del held[old.id]
                    sim.document.attach(own.id, "file", "application/x-own", name, data)
                    sim.write(own.id, "Trip", linked.decode())
                    await client.sync()
                    assert len((await bring(client, "trilium", found))[0].new) == 1
                    assert b"b" in [one.content for one in find_own(own.id) if one.title != name]

    asyncio.run(work())
