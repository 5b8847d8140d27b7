"""Read and change single sections, single tags and several notes through a connected client, in every store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.sync_rig import quick_folder
from support.undo_places import PLACES, Place
from support.whole import Server, store_environment

pytestmark = pytest.mark.anyio
LINES = "# Plan\n\nAbove.\n\n## Costs\n\nRent.\n\n### Old\n\nLess.\n\n## Next\n\nCall Ann.\n"
HTML = "<h1>Plan</h1><p>Above.</p><h2>Costs</h2><p>Rent.</p><h3>Old</h3><p>Less.</p><h2>Next</h2><p>Call Ann.</p>"


@pytest.fixture(name="folder")
def _folder() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


def put_in(place: Place, name: str, text: str = LINES, html: str = HTML, **more: Any) -> str:
    if place.store == "trilium":
        return place.put(name, html, **more)
    if place.store == "memento":
        more["columns"] = {"isMarkdown": 1}
    return place.put(name, text, **more)


@asynccontextmanager
async def opened(
    folder: Path, store: str, *, put: Callable[[Place], None] | None = None, **more: Any
) -> AsyncIterator[tuple[Place, str]]:
    ids: list[str] = []

    def make(place: Place) -> None:
        ids.append(put_in(place, "Sections", **more))
        if put is not None:
            put(place)

    async with PLACES[store](folder, make) as place:
        yield place, ids[0]


async def refused(place: Place, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await place.client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    error: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
    return error


def headings(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(one["number"], one["heading"]) for one in answer["headings"]]


@pytest.mark.parametrize("store", PLACES)
async def test_a_section_is_read_and_changed_alone(folder: Path, store: str) -> None:
    async with opened(folder, store) as (place, note):
        whole = (await place.call("get", id=note))["text"]
        read = await place.call("get", id=note, section="plan > Costs")
        assert read["text"].startswith("## Costs\n")
        assert read["text"].rstrip().endswith("Less.")
        assert read["text"] in whole
        start, count = read["range_line_start"], read["range_line_count"]
        assert (
            "".join(whole.splitlines(keepends=True)[start - 1 : start - 1 + count]) == read["text"]
        )
        assert "next_range_line_start" not in read
        assert read["text_is_partial"] is True
        assert headings(read) == [(1, "# Plan"), (2, "## Costs"), (3, "### Old"), (4, "## Next")]
        assert headings(await place.call("get", id=note, range_line_count=1)) == headings(read)
        assert "headings" not in await place.call("get", id=note)

        before = place.raw(note)
        done = await place.call("save", id=note, section="Costs", append="Power.")
        assert done["changed"], done
        text = (await place.call("get", id=note))["text"]
        assert text.split() == whole.replace("Less.", "Less. Power.").split()
        assert (await place.call("manage", action="undo", id=note, confirm=True))[
            "status"
        ] == "undone"
        assert place.raw(note) == before

        await place.call("save", id=note, section="Old", prepend="Older.")
        await place.call("save", id=note, section="0", append="Top.")
        found = await place.call("save", id=note, section="Next", find="Call", replace="Ask")
        assert "error" not in found
        await place.call("save", id=note, section="## Next", heading="Later")
        version = await place.version(note)
        error = await refused(place, "save", id=note, section="Costs", text="None.")
        assert "local_version" in error["message"]
        asked = {"section": "Costs", "text": "## Costs\n\nNone.", "local_version": version}
        assert "error" not in await place.call("save", id=note, **asked)
        text = (await place.call("get", id=note))["text"]
        assert " ".join(text.split()) == "Top. # Plan Above. ## Costs None. ## Later Ask Ann."


async def test_blocks_beside_a_section_of_an_outline_stay(folder: Path) -> None:
    text = "- # Plan\n  id:: 1\n\t- a\n- mine\n- # Log\n\t- ## Old\n\t\t- b\n\t- c\n- yours\n"
    async with opened(folder, "vault", text=text) as (place, note):
        assert (await place.call("get", id=note, section="Old"))["text"] == "\t- ## Old\n\t\t- b\n"
        await place.call("save", id=note, section="Plan", append="x\ny")
        await place.call("save", id=note, section="Old", prepend="- z")
        version = await place.version(note)
        new = {"section": "Plan", "text": "- # Plan\n\n- new", "local_version": version}
        await place.call("save", id=note, **new)
        await place.call("save", id=note, section="Old", heading="New")
        assert (await place.call("get", id=note))["text"] == (
            "- # Plan\n  id:: 1\n\t- new\n- mine\n- # Log\n\t- ## New\n\t\t- z\n\t\t- b\n\t- c\n- yours\n"
        )


@pytest.mark.parametrize("store", PLACES)
async def test_a_section_that_is_not_clear_is_refused_with_what_there_is(
    folder: Path, store: str
) -> None:
    twice = {"text": LINES + "\n## Costs\n\nMore.\n", "html": f"{HTML}<h2>Costs</h2><p>More.</p>"}
    async with opened(folder, store, **twice) as (place, note):
        before = place.raw(note)
        for tool, more in (("get", {}), ("save", {"append": "x"})):
            error = await refused(place, tool, id=note, section="Costs", **more)
            assert error["subcategory"] == "section"
            assert error["details"]["found"] == 2
            assert [one["number"] for one in error["details"]["sections"]] == [2, 5]
            assert "untrusted_end" in error
            error = await refused(place, tool, id=note, section="Cost", **more)
            assert error["details"]["found"] == 0
            assert error["details"]["sections"][0]["heading"] == "## Costs"
        last = error["details"]["sections"][0]["line"]
        error = await refused(place, "save", id=note, section=f"line {last}", append="x")
        assert "by number or line" in error["message"]
        assert place.raw(note) == before
        version = await place.version(note)
        saved = await place.call("save", id=note, section="5", append="x", local_version=version)
        assert "error" not in saved
        assert (await place.call("get", id=note))["text"].split()[-2:] == ["More.", "x"]
        for more in (
            {"heading": "x"},
            {"section": "Costs"},
            {"section": "Costs", "text_patch": []},
        ):
            assert "error" in await place.call("save", id=note, **more)


@pytest.mark.parametrize("store", ["local", "simplenote", "vault"])
async def test_a_change_of_a_section_is_merged_with_one_of_another(
    folder: Path, store: str
) -> None:
    async with opened(folder, store) as (place, note):
        version = await place.version(note)
        await place.call("save", id=note, section="Next", append="Call Bob.")
        asked = {"section": "Old", "text": "New.", "local_version": version}
        done = await place.call("save", id=note, **asked)
        assert "error" not in done
        assert done["merged"] is True
        text = (await place.call("get", id=note))["text"]
        gap = "\n" if store == "vault" else ""  # where notes are Markdown, blocks are kept apart
        assert text == f"{LINES.replace('Less.', 'New.')}{gap}Call Bob.\n"


async def test_a_long_section_is_read_in_parts(folder: Path) -> None:
    rows = "".join(f"{number} some words of a long section\n" for number in range(2_000))
    text = f"# One\n{rows}# Two\n{rows}"
    async with opened(folder, "local", text=text) as (place, note):
        parts, more = [], {"section": "one"}
        while more:
            answer = await place.call("get", id=note, **more)
            assert len(json.dumps(answer)) < 33_000
            parts.append(answer["text"])
            following = answer.get("next_range_line_start")
            more = {"section": "one", "range_line_start": following} if following else {}
        assert "".join(parts) == f"# One\n{rows}"
        assert len(parts) == 3
        error = await refused(place, "get", id=note, section="one", range_line_start=2_002)
        assert error["details"] == {"line": 1, "lines": 2_001}
        few = await place.call("get", id=note, section="two", range_line_count=2)
        assert few["text"] == "# Two\n0 some words of a long section\n"
        assert few["next_range_line_start"] == 2_004


async def test_in_trilium_the_rest_of_the_html_keeps_its_bytes(folder: Path) -> None:
    above = '<h2>A</h2><p data-x="1"><i>a</i></p>'
    below = (
        '<h2>B</h2><figure class="table"><table><tbody><tr><td>b</td></tr></tbody></table></figure>'
    )
    async with opened(folder, "trilium", html=above + below) as (place, note):
        await place.call("save", id=note, section="A", append="- more")
        assert place.raw(note)[3] == f"{above}<ul><li>more</li></ul>{below}"
        await place.call("save", id=note, section="A", heading="An *A*")
        new = above.replace("<h2>A</h2>", "<h2>An <em>A</em></h2>")
        assert place.raw(note)[3] == f"{new}<ul><li>more</li></ul>{below}"
        version = await place.version(note)
        asked = {"section": "A > nowhere", "text": "x", "local_version": version}
        assert (await refused(place, "save", id=note, **asked))["subcategory"] == "section"
        await place.call("save", id=note, section="An A", text="x", local_version=version)
        assert place.raw(note)[3] == f'<h2>An <em>A</em></h2><p data-x="1">x</p>{below}'


async def test_a_block_of_a_vault_is_read_and_changed_by_its_id(folder: Path) -> None:
    text = "# A\n\n- one ^x\n  - child\n- two\n"
    async with opened(folder, "vault", text=text) as (place, note):
        assert (await place.call("get", id=note, section="^x"))["text"] == "- one ^x\n  - child\n"
        await place.call("save", id=note, section="^x", append="- more")
        version = await place.version(note)
        await place.call("save", id=note, section="#^x", text="1st", local_version=version)
        assert place.raw(note)[note] == b"# A\n\n- 1st ^x\n- more\n- two\n"


LINKING = (
    "[[Plan#Costs]] [[Plan#costs|c]] [[Plan#Plan#Costs#Old]] ![[Plan#Next]] [[Plan#^x]] [[Plan]]\n"
    "[m](Plan.md#Costs) [n](<Plan.md#Costs>) `[[Plan#Costs]]`\n"
)


async def test_links_to_a_renamed_heading_follow_it(folder: Path) -> None:
    text = f"{LINES}[[#Costs]] [[#Plan#Old]]\n"
    async with opened(folder, "vault", text=text, linked=LINKING) as (place, note):
        before = place.raw(note)
        asked = {"id": note, "section": "Costs", "heading": "Rent & power: 2026"}
        error = await refused(place, "save", **asked)
        assert (error["subcategory"], error["details"]["links"]) == ("links_would_break", 6)
        assert place.raw(note) == before
        left = await place.call("save", **asked, rewrite_links=False)
        assert "error" not in left
        assert place.raw(note)[note] == text.replace("## Costs", "## Rent & power: 2026").encode()
        await place.call("manage", action="undo", id=note, confirm=True)
        assert place.raw(note) == before
        saved = await place.call("save", **asked, rewrite_links=True)
        assert "Links were rewritten in 1 other note" in saved["note"]
        after = place.raw(note)
        other = next(one for name, one in after.items() if name.endswith("Other.md")).decode()
        assert other == (
            "[[Plan#Rent & power: 2026]] [[Plan#Rent & power: 2026|c]] [[Plan#Plan#Rent & power: 2026#Old]] "
            "![[Plan#Next]] [[Plan#^x]] [[Plan]]\n"
            "[m](Plan.md#Rent%20&%20power:%202026) [n](<Plan.md#Rent%20&%20power:%202026>) `[[Plan#Costs]]`\n"
        )
        assert b"[[#Rent & power: 2026]] [[#Plan#Old]]" in after[note]


@pytest.mark.parametrize("store", [one for one in PLACES if one != "jotter"])
async def test_single_tags_come_and_go_without_a_version(folder: Path, store: str) -> None:
    async with opened(folder, store, tags=["home", "Old"]) as (place, note):
        done = await place.call("save", id=note, add_tags=["#new", "HOME"], remove_tags=["old"])
        assert sorted(done["tags"]) == ["home", "new"]
        done = await place.call("save", id=note, add_tags="more", section="Next", append="x")
        assert sorted(done["tags"]) == ["home", "more", "new"]
        again = await place.call("save", id=note, add_tags=["more"], remove_tags=["nowhere"])
        assert again["unchanged"] is True
        for more in (
            {"tags": ["a"], "add_tags": ["b"], "local_version": again["local_version"]},
            {"add_tags": ["b"], "remove_tags": ["B"]},
            {"add_tags": ["a,b"]},
        ):
            assert "error" in await place.call("save", id=note, **more)
        assert sorted((await place.call("get", id=note))["tags"]) == ["home", "more", "new"]
        made = await place.call("save", text="a new note", add_tags=["one"])
        assert made["tags"] == ["one"]


async def test_a_tag_that_shares_is_asked_about(folder: Path) -> None:
    async with opened(folder, "simplenote") as (place, note):
        error = await refused(place, "save", id=note, add_tags=["ann@example.org"])
        assert error["subcategory"] == "confirmation_required"
        error = await refused(place, "save", id=note, add_tags=["ann@example.org"], confirm=True)
        assert (
            "mcp-notarium approve" in error["resolution_hint"]
        )  # a person's word, not the model's


@pytest.mark.parametrize("store", PLACES)
async def test_several_notes_are_read_in_the_order_asked(folder: Path, store: str) -> None:
    ids: list[str] = []

    def put(place: Place) -> None:
        short = {"text": "one line\n", "html": "<p>one line</p>", "title": "Short"}
        ids.append(put_in(place, "Second", **short))
        long = "".join(f"word {number} of a long note\n\n" for number in range(3_000))
        html = "".join(f"<p>word {number} of a long note</p>" for number in range(3_000))
        ids.append(put_in(place, "Third", text=long, html=html, title="Long"))

    async with opened(folder, store, put=put) as (place, note):
        singles = [await place.call("get", id=one) for one in (note, ids[0])]
        answer = await place.call("get", ids=[ids[1], note, "nowhere-at-all", ids[0], note])
        assert len(json.dumps(answer, ensure_ascii=False).encode()) < 31_000
        long, first, missing, second = answer["notes"]
        marks = {"begin_untrusted", "untrusted_end", "findings"}
        for row, single in zip((first, second), singles, strict=True):
            assert row == {name: one for name, one in single.items() if name not in marks}
        assert missing["asked"] == "nowhere-at-all"
        assert missing["error"]["category"] == "NOT_FOUND"
        assert long["text_is_partial"] is True
        assert len(long["text"]) > 20_000
        whole = (await place.call("get", id=ids[1]))["text"]
        assert whole.startswith(long["text"])
        following = await place.call(
            "get",
            id=ids[1],
            range_line_start=long["next_range_line_start"],
            local_version=long["local_version"],
        )
        assert whole.startswith(long["text"] + following["text"][:100])
        assert answer["begin_untrusted"].split()[0] == answer["untrusted_end"]
        for wrong in ({}, {"id": note, "ids": [note]}, {"ids": [note], "section": "x"}):
            assert (await refused(place, "get", **wrong))["subcategory"] == "arguments"
        error = await refused(place, "get", ids=[str(number) for number in range(21)])
        assert "20" in error["message"]
        as_text = json.dumps([note, ids[0]])
        assert len((await place.call("get", ids=as_text))["notes"]) == 2


def test_links_of_several_notes_are_left_out_where_there_is_no_room(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    links = "".join(f"[[A folder with a long name/and a note {number}]]\n" for number in range(60))
    parts = "".join(f"## A heading of usual length {number}\n" for number in range(60))
    for number in range(20):
        (vault / f"N{number}.md").write_text(f"{links}{parts}{'words' * 9}\n")
    (vault / "Few.md").write_text("[[N1]]\n")
    with Server(store_environment(tmp_path, "vault", VAULT_PATH=str(vault))) as server:
        server.loaded(21)
        several = server.tool("get", ids=[f"N{number}" for number in range(20)])
        assert len(json.dumps(several, ensure_ascii=False, separators=(",", ":"))) < 31_000
        for number, row in enumerate(several["notes"]):
            assert row["id"] == f"N{number}.md"
            assert row["links_left_out"] == 60 + (number == 1)
            assert "links" not in row
            assert row["text"]
            assert row["headings"][0]["heading"] == "## A heading of usual length 0"
        few, missing = server.tool("get", ids=["[[Few]]", "[[Nowhere]]"])["notes"]
        assert few["links"] == [{"link": "N1", "id": "N1.md"}]
        assert missing["asked"] == "[[Nowhere]]"
        assert server.leave() == 0


async def test_a_section_that_was_renamed_since_is_a_conflict(folder: Path) -> None:
    async with opened(folder, "local") as (place, note):
        await place.call("save", id=note, section="Costs", heading="Spending")
        error = await refused(place, "save", id=note, section="Costs", append="x")
        assert error["subcategory"] == "conflict"
        assert "`section`" in error["message"]
        assert error["details"]["current_local_version"] == await place.version(note)
        version = str(await place.version(note) - 1)
        old = await place.call("get", id=note, version=version, section="Costs", range_line_count=1)
        assert (old["text"], old["old_version"]) == ("## Costs\n", version)
        assert [one["heading"] for one in old["headings"]][1] == "## Costs"
