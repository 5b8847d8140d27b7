"""Define the contract of stores whose notes are files among others (``Ids.PATHS``): what lies next to the notes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import cast

import pytest

from contract.bench import Bench, OnABench
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.markup.obsidian_links import find_links
from mcp_notarium.stores.extensions import (
    DayPlacingStore,
    FolderStore,
    TemplateStore,
    TypingStore,
)

PICTURE = b"\x89PNG\r\n\x1a\n picture \x00\xff"
CARDS = {
    "nodes": [
        {"id": "1", "type": "file", "file": "Work/n1.md"},
        {"id": "2", "type": "file", "file": "Work/n1.md"},
        {"id": "3", "type": "text", "text": "see [[Work/n1]] and [[n2]]"},
    ],
    "edges": [],
}


class BesideContract(OnABench):
    async def test_a_file_next_to_the_notes_is_found_and_read(self, bench: Bench) -> None:
        store = cast("FolderStore", bench.store)
        await bench.put("n1", "![[plan.png]] and ![x](../out.png)\n")
        await bench.put_file("Work/plan.png", PICTURE)
        await bench.put_file(".trash/old.png", PICTURE)
        asked = ["Work/plan.png", "Work/other.png", "n1.md", "plan.png"]
        assert await store.find_files(asked) == {"Work/plan.png"}
        assert [*(await store.list_beside()).files] == ["Work/plan.png"]
        links = [("plan.png", "n1.md"), ("other.png", "n1.md"), ("n1", "n1.md")]
        found = await store.resolve_files(links)
        assert {link: one.id for link, one in found.items()} == {links[0]: "Work/plan.png"}
        assert not await store.resolve_files(links, sees=lambda path: not path.startswith("Work/"))
        facts, data = await store.read_file("Work/plan.png", largest=len(PICTURE))
        assert (facts.id, facts.kind, facts.size) == ("Work/plan.png", "image/png", len(PICTURE))
        assert data == PICTURE
        assert (await store.read_file("Work/plan.png", largest=len(PICTURE) - 1))[1] is None
        for missing in ("Work/other.png", "../plan.png", "Work", "", "/etc/hostname"):
            with pytest.raises(NoteNotFound):
                await store.read_file(missing, largest=99)

    async def test_a_file_moves_and_overwrites_nothing(self, bench: Bench) -> None:
        store = cast("FolderStore", bench.store)
        await bench.put_file("Work/plan.png", PICTURE)
        await bench.put_file("Home/plan.png", b"of somebody else")
        assert not await store.move_file("Work/plan.png", "Home/plan.png")
        assert not await store.move_file("Work/other.png", "Home/other.png")
        assert bench.file("Home/plan.png") == b"of somebody else"
        assert bench.file("Work/plan.png") == PICTURE
        assert await store.move_file("Work/plan.png", "New/Deep/plan.png")
        assert bench.file("New/Deep/plan.png") == PICTURE
        assert bench.file("Work/plan.png") is None
        assert await store.move_file("Work/plan.png", "New/Deep/plan.png"), "it is there"

    async def test_only_empty_folders_are_removed(self, bench: Bench) -> None:
        store = cast("FolderStore", bench.store)
        await bench.put_file("Work/Deep/plan.png", PICTURE)
        await bench.put_file("Work/Empty/plan.png", PICTURE)
        await store.move_file("Work/Empty/plan.png", "plan.png")
        assert await store.remove_folders("Work") == ["Work/Deep/plan.png"]
        assert bench.file("Work/Deep/plan.png") == PICTURE
        assert bench.file("Work/Empty") is None
        await store.move_file("Work/Deep/plan.png", "plan two.png")
        assert await store.remove_folders("Work") == []
        assert bench.file("Work") is None

    async def test_cards_follow_a_note_and_their_canvas_stays_as_it_is(self, bench: Bench) -> None:
        store = cast("FolderStore", bench.store)
        text = json.dumps(CARDS, indent=3)
        await bench.put_file("Board.canvas", text.encode())
        await bench.put_file("Other.canvas", b'{"nodes": []}')
        assert await store.find_cards("Work/n1.md") == {"Board.canvas": 2}
        assert (await store.list_beside()).shown["Board.canvas"] == ["Work/n1.md"] * 2
        (link,) = find_links("[[Work/n1]]")
        moved = await store.move_cards(
            {"Board.canvas": {link.link: "Home/n1"}, "Gone.canvas": {}},
            old="Work/n1.md",
            new="Home/n1.md",
        )
        assert moved == {"Board.canvas": True, "Gone.canvas": False}
        expected = text.replace("Work/n1", "Home/n1")
        assert bench.file("Board.canvas") == expected.encode()
        assert bench.file("Other.canvas") == b'{"nodes": []}'

    async def test_the_app_says_where_days_and_templates_lie_and_which_types_there_are(
        self, bench: Bench
    ) -> None:
        traits, day = bench.store.traits, datetime(2031, 6, 20, tzinfo=UTC)
        assert traits.templates
        assert traits.types_properties
        templates, typing = cast("TemplateStore", bench.store), cast("TypingStore", bench.store)
        placing = cast("DayPlacingStore", bench.store)
        assert await templates.read_templates() is None
        settings = {
            "app.json": {"attachmentFolderPath": "Files"},
            "daily-notes.json": {"folder": "Days", "format": "YYYY/MM-DD", "template": "T/day"},
            "templates.json": {"folder": "T", "dateFormat": "DD.MM.YYYY"},
            "types.json": {"types": {"due": "date", "count": "number"}},
        }
        for name, value in settings.items():
            await bench.put_file(f".obsidian/{name}", json.dumps(value).encode())
        place = await placing.place_day(day)
        assert (place.path, place.template) == ("Days/2031/06-20.md", "T/day.md")
        found = await templates.read_templates()
        assert found is not None
        assert (found.folder, found.date_format) == ("T", "DD.MM.YYYY")
        assert await typing.read_property_types() == {"due": "date", "count": "number"}
        store = cast("FolderStore", bench.store)
        assert await store.place_files("Work/n1.md") == "Files"
