"""Notes go from every store to every store: what arrives is what was sent, or the plan has named what it loses."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_notarium.domain.exported_note import TIDY_TAGS, ExportedNote, export_note
from mcp_notarium.domain.note import Content, flags
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.stores import registry
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.transfer import formats, note_import
from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from support import exports
from support.long import sample
from support.memento_file import MementoFile
from support.simplenote_client import open_store
from support.sync_rig import Client, account_of, quick_folder
from support.trilium_client import open_trilium

NOW = 1_700_000_000.0
STORES = ("local", "simplenote", "vault", "trilium", "memento")
PAIRS = list(itertools.product(STORES, STORES))
PICTURE = "![[Picture 1.png]] ![alt](img/a%20b.png) ![](data:image/png;base64,iVBORw0KGgo=)"


def text_of(size: int) -> str:
    return "".join(f"line {number} of a long note\n" for number in range(size // 22))


def make(note_id: str, text: str, *, at: float = 1.6e9, **more: object) -> ExportedNote:
    return ExportedNote(note_id, Content(text, **more), at, at + 86_400.25)  # type: ignore[arg-type]


NOTES = [
    make("plain-01", "Shopping\nmilk\nbread\n"),
    make("tags-01", "tags", tags=("work", "two words", "größe", "🏝️", "עברית", "a/b", "2024")),
    make("tags-02", "more tags", tags=("a,b", "Work", "x: y", "- z", "it's", "#hash", "c++")),
    make("shared-1", "shared", tags=("friend@example.org", "@home")),
    make("rtl-0001", "שלום עולם\nمرحبا \u202eabc\u202c\n", title="שלום"),  # noqa: RUF001
    make("emoji-01", "👩‍👩‍👧‍👦 🇩🇪 e\u0301 é \u200bzero\n", tags=("emoji",)),
    make("checks-1", "List\n- [ ] one\n- [x] two\n  - [ ] nested\n* star\n1. first\n"),
    make("code-001", "# Code\n\n```python\ndef f():\n    return '#no_tag'\n```\n\n`x` and **b** _i_ ~~s~~\n"),
    make("table-01", "| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\n---\n\n<b>html</b> &amp; <script>x</script>\n"),
    make("front-01", "---\ntitle: Mine\ntags: [a, b]\n---\nbody\n", tags=("a", "b")),
    make("front-02", "---\nnotarium: 1\nid: other\n---\nnot ours\n"),
    make("front-03", "---\nbroken: [\n---\nbody", tags=("kept",)),
    make("large-01", text_of(1_000_000)),
    make("empty-01", ""),
    make("empty-02", "", title="Only a title", tags=("t",)),
    make("crlf-001", "one\r\ntwo\r\n"),
    make("crlf-002", "mixed\r\nends\nhere\rthere", tags=("m",)),
    make("odd-0001", "nul \0 bell \x07 \x1b[31m \u2028 \u2029 \x85 \x0c \ufeff end"),
    make("odd-0002", "\ufeffbegins with a mark\n   \n\n\ntrailing   \n\t\n"),
    make("same-001", "Plan\nfirst\n", title="Plan"),
    make("same-002", "Plan\nsecond\n", title="Plan"),
    make("same-003", "plan\nthird\n", title="plan"),
    make("same-004", "copy"),
    make("same-005", "copy"),
    make("pinned-1", "pinned", properties=flags("pinned")),
    make("props-01", "all", properties=flags("pinned", "markdown", "archived")),
    make("old-0001", "old", at=-2_000_000_000.0),
    make("epoch-01", "epoch", at=0.0),
    make("trash-01", "thrown away\n", trash=True, tags=("bin",)),
    make("trash-02", "thrown away too\n", trash=True, title="Old plan"),
    make("Work/2024/Plan.md", "in a folder\n", title="Plan"),
    make("Work/notes: a|b?.md", "odd path\n", title="notes: a|b?"),
    make("long-001", "t" * 500 + "\nbody\n"),
    make("long-002", "body\n", title="ü" * 400),
    make("title-01", "body\n", title='a/b\\c: *d* <e> "f" | #g ^h [i]'),
    make("title-02", "body\n", title="CON"),
    make("title-03", "body\n", title="..."),
    make("links-01", f"see [[Plan]] and [[Work/2024/Plan|that]] #intext #a/b\n{PICTURE}\n"),
    make("", "without an id\n"),
    make("x" * 300, "a long id\n"),
]  # fmt: skip
FORMATS = dict(zip(STORES, itertools.cycle(formats.names()), strict=False))
PARTS = {
    note_import.TITLE_TO_TEXT: {"title", "text"},
    note_import.NO_PROPERTY.format("pinned"): {"properties"},
    note_import.NO_PROPERTY.format("markdown"): {"properties"},
    note_import.NO_PROPERTY.format("archived"): {"properties"},
    note_import.SHARED: {"tags"},
    note_import.NO_DATES: {"dates"},
    note_import.OTHER_DATES: {"dates"},
    TIDY_TAGS: {"tags"},
    note_import.FOLDER_TO_TAG: {"tags"},
    note_import.FOLDER_FROM_TAG: {"tags"},
    note_import.UNDATED: {"dates"},
    note_import.OTHER_TAGS: {"tags"},
    note_import.OTHER_TITLE: {"title"},
    note_import.OTHER_TEXT: {"text"},
}

LEFT_OUT = re.compile(": left out$|^left out: ")


def make_folders(folder: Path) -> Path:
    vault = folder / "vault"
    vault.mkdir(parents=True)
    return vault


@asynccontextmanager
async def opened(store: str, folder: Path) -> AsyncIterator[Client]:
    """An empty account of a store, as real as it can be here, in step with it."""
    vault = make_folders(folder)
    async with Simulator().serving() as simperium, TriliumSimulator().serving() as trilium:
        made = {
            "local": lambda: LocalStore,
            "simplenote": lambda: open_store(simperium),
            "vault": lambda: VaultStore(vault),
            "trilium": lambda: open_trilium(trilium),
            "memento": lambda: MementoStore(MementoFile(folder / "dev.db").path),
        }
        async with account_of(folder, made[store]()) as client:
            yield client


async def read(client: Client, store: str) -> list[ExportedNote]:
    """All notes as an export has them; the store itself says the same of each."""
    found = []
    async for held in NoteTransfer(client.cache, client.remote, client.writer).read_all():
        asked = await client.remote.get(held.id)
        assert asked.content == held.content
        found.append(export_note(held, paths=registry.kind(store).ids.paths))
    return found


async def bring(notes: list[ExportedNote], client: Client, store: str) -> None:
    """Import, and check that every note is there as it was, or as the plan has said before."""
    transfer, kind = NoteTransfer(client.cache, client.remote, client.writer), registry.kind(store)
    planned = await note_import.plan(notes, transfer, kind, now=NOW)
    done = await note_import.carry_out(planned, transfer, kind, lambda _done, _total: None)
    held = {one.id: one for one in await read(client, store)}
    refused = [note for note, why in done.refused if "too large" in why]
    assert len(refused) == len(done.refused) <= 1
    assert {one.id for one in planned.new if one.source not in refused} == held.keys()
    assert (planned.there, planned.differ, done.there) == (0, [], 0)
    for one in planned.new:
        if one.id in held:
            said = {loss for loss, of in planned.losses.items() if one.source in of}
            lost = differences(one.source, held[one.id])
            assert lost <= set().union(*(PARTS.get(loss, ()) for loss in said)), (one, lost)
    left_out = [note for loss, of in planned.losses.items() if LEFT_OUT.search(loss) for note in of]
    assert len(planned.new) + planned.left_out == len(notes) == len(planned.new) + len(left_out)
    again = await note_import.plan(notes, transfer, kind, now=NOW)
    assert (len(again.new), again.differ) == (len(refused), [])


def differences(given: ExportedNote, held: ExportedNote) -> set[str]:
    parts = ["text", "tags", "trash", "properties"] + ["title"] * (given.content.title is not None)
    found = {one for one in parts if getattr(given.content, one) != getattr(held.content, one)}
    moved = (given.created_at - held.created_at, given.modified_at - held.modified_at)
    return found | ({"dates"} if max(map(abs, moved)) > 0.01 else set())


async def from_one_to_the_other(source: str, target: str, folder: Path) -> None:
    async with opened(source, folder / "source") as one, opened(target, folder / "target") as other:
        await bring(NOTES, one, source)
        path, held = folder / "export", await read(one, source)
        exports.write(FORMATS[source], path, held)
        notes = exports.read(path)
        assert {one.id: one.content for one in notes} == {one.id: one.content for one in held}
        await bring(notes, other, target)


@pytest.mark.slow("two stores, forty notes")
@pytest.mark.parametrize(("source", "target"), sample("transfer", PAIRS, 2))
def test_nothing_is_lost_that_was_not_said(source: str, target: str) -> None:
    with quick_folder() as folder:
        asyncio.run(from_one_to_the_other(source, target, folder))
