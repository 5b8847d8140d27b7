"""Test arguments as agents and proxies send them: each kind, through a connected client, in every store and tool that has it."""

import json
import unicodedata
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from support.undo_places import PLACES, Place

pytestmark = pytest.mark.anyio
STORES = ["simplenote", "local", "vault", "trilium", "memento"]
LINES = "one\ntwo\nthree\n"
HTML = "<p>one</p><p>two</p><p>three</p>"
BLANKS: dict[str, Any] = {
    "text_patch": [],
    "prepend": "",
    "find": "",
    "replace": "",
    "server_version": 0,
    "confirm": None,
    "return_text": "",
    "properties": {},
}
"""What a proxy fills in for what the agent has not given."""


@asynccontextmanager
async def opened(store: str, folder: Path, **more: Any):
    made: list[str] = []

    def put(place: Place) -> None:
        made.append(place.put("one", HTML if store == "trilium" else LINES, tags=["work"], **more))

    async with PLACES[store](folder, put) as place:
        yield place, made[0]


async def refused(place: Place, tool: str, **arguments: Any) -> dict[str, Any]:
    """Return the error as an object: short, explained, with a way out."""
    try:
        answer = await place.call(tool, **arguments)
    except MCPError as error:
        said = dict(error.error.data)
    else:
        assert list(answer) == ["error"], answer
        said = json.loads(answer["error"])
    assert said["category"] != "INTERNAL", said
    assert said.get("resolution_hint") or said["message"].endswith("❌")
    assert len(said["message"] + said.get("resolution_hint", "")) < 300
    return said


@pytest.mark.parametrize("store", STORES)
async def test_each_kind_of_value_is_taken_as_it_is_sent(store, tmp_path):
    async with opened(store, tmp_path) as (place, note_id):
        rows = await place.call(
            "list", query="", tags=[], trash_status="0", limit=0, page="1", preview_lines=0,
            date_before="", date_after=None, sort_by="", sort_order="desc",
        )  # fmt: skip
        assert rows["total_items"] == 1
        rows = await place.call("list", limit="0", page=" 0 ", preview_lines="0")
        assert rows["total_items"] == 1
        got = await place.call("get", id=note_id, local_version=0, version="", range_line_start=0)
        assert got["id"] == note_id
        version = got["local_version"]
        sent = BLANKS | {"id": note_id, "text": "", "append": "four", "return_text": "true"}
        saved = await place.call("save", **sent)
        assert "four" in saved["text"]
        assert "one" in saved["text"]
        again = await place.call("save", id=note_id, append="")
        assert json.loads(again["error"])["category"] == "VALIDATION"
        trashed = await place.call(
            "manage", action="Trash", id=note_id, local_version=str(saved["local_version"]),
            version="", tag="", new_tag="", page=0, dry_run="false", confirm="",
        )  # fmt: skip
        if place.harness.app.library.traits.trash:
            assert trashed["status"] == "trashed"
        counted = await place.call(
            "manage", action="rename_tag", tag="#work", new_tag="#job", dry_run="true"
        )
        assert (counted["status"], counted["notes"]) == ("dry_run", 1)
        assert version


@pytest.mark.parametrize("store", STORES)
async def test_a_tag_may_have_its_sign_before_it(store, tmp_path):
    async with opened(store, tmp_path) as (place, note_id):
        for asked in (
            {"tags": ["#work"]},
            {"query": "tag:#work"},
            {"query": "tag:#work OR tag:#x"},
            {"tags": "#Work"},
        ):
            assert (await place.call("list", **asked))["total_items"] == 1, asked
        assert (await place.call("list", query="-tag:#work"))["total_items"] == 0
        version = await place.version(note_id)
        saved = await place.call(
            "save", id=note_id, local_version=version, tags=["#work", "#näher"]
        )
        assert saved["tags"] == ["work", "näher"]
        decomposed = unicodedata.normalize("NFD", "näher")
        assert (await place.call("list", tags=[decomposed]))["total_items"] == 1
        assert (await place.call("list", query=f"tag:#{decomposed}"))["total_items"] == 1


@pytest.mark.parametrize("store", STORES)
async def test_tags_may_come_as_one_text(store, tmp_path):
    async with opened(store, tmp_path) as (place, note_id):
        version = await place.version(note_id)
        saved = await place.call("save", id=note_id, local_version=version, tags="work, #home,")
        assert saved["tags"] == ["work", "home"]
        made = await place.call("save", text="other", tags="home")
        assert made["tags"] == ["home"]
        for asked, total in (("home", 2), ("work,home", 1), ('["home","work"]', 1)):
            assert (await place.call("list", tags=asked))["total_items"] == total, asked
        for asked in ('"work","home"', "[work, home]", "{work, home}", "'work', 'home'", ", "):
            said = await refused(place, "list", tags=asked)
            assert '["one","two"]' in said["message"]


async def test_a_tag_that_notes_have_with_its_sign_is_that_tag(tmp_path):
    made: list[str] = []

    def put(place: Place) -> None:
        made.extend(
            place.put(name, LINES, tags=[tag]) for name, tag in (("a", "#todo"), ("b", "todo"))
        )

    async with PLACES["simplenote"](tmp_path, put) as place:
        rows = await place.call("list", tags=["#todo"])
        assert [row["uuid"] for row in rows["content"]] == made[:1]
        version = await place.version(made[1])
        saved = await place.call("save", id=made[1], local_version=version, tags=["#todo"])
        assert saved["tags"] == ["#todo"]


@pytest.mark.parametrize("store", STORES)
async def test_a_name_of_one_note_stands_for_its_id(store, tmp_path):
    async with opened(store, tmp_path, title="Käse plan") as (place, note_id):
        title = "one" if store == "simplenote" else "Käse plan"
        for name in (
            title,
            f"[[{title}]]",
            f"[[{title}|shown]]",
            f"[[{title}#Part]]",
            unicodedata.normalize("NFD", title),
            title.upper(),
            f"[[{title.swapcase()}]]",
        ):
            got = await place.call("get", id=name)
            assert got.get("id") == note_id, (name, got)
        done = await place.call("save", id=f"[[{title}]]", append="by name")
        assert done["id"] == note_id
        for other in ("[[Another]]", "Kase plan", "plan"):
            assert (await refused(place, "get", id=other))["category"] == "NOT_FOUND"


@pytest.mark.parametrize("store", STORES)
async def test_a_title_of_one_word_stands_for_the_id(store, tmp_path):
    async with opened(store, tmp_path, title="Plan") as (place, note_id):
        title = "one" if store == "simplenote" else "Plan"
        for name in (title, title.upper(), f"[[{title}]]"):
            assert (await place.call("get", id=name))["id"] == note_id
        assert (await refused(place, "get", id="Plans"))["category"] == "NOT_FOUND"


@pytest.mark.parametrize("store", ["simplenote", "local", "vault"])
async def test_a_name_of_two_notes_stands_for_none(store, tmp_path):
    def put(place: Place) -> None:
        place.put("one", f"Plan\n{LINES}", title="Plan")
        place.put("two", f"Plan\n{LINES}", title="Plan")

    async with PLACES[store](tmp_path, put) as place:
        said = await refused(place, "get", id="[[Plan]]")
        assert (said["category"], "several" in said["message"]) == ("NOT_FOUND", True)


@pytest.mark.parametrize("store", STORES)
async def test_a_title_in_its_letter_case_comes_before_others(store, tmp_path):
    made: list[str] = []

    def put(place: Place) -> None:
        titles = ("My plan", "MY Plan")
        made.extend(place.put(title, f"{title}\n{LINES}", title=title) for title in titles)

    async with PLACES[store](tmp_path, put) as place:
        if store != "vault":  # the names of files are one in any letter case
            assert (await place.call("get", id="MY Plan"))["id"] == made[1]
        said = await refused(place, "get", id="my plan")
        assert (said["category"], "several" in said["message"]) == ("NOT_FOUND", True)


async def test_a_path_in_another_form_of_its_letters_is_the_file(tmp_path):
    name = unicodedata.normalize("NFD", "Käse 한국")
    async with opened("vault", tmp_path, title=name) as (place, note_id):
        assert not unicodedata.is_normalized("NFC", note_id)
        composed = unicodedata.normalize("NFC", note_id)
        assert (await place.call("get", id=composed))["id"] == note_id
        saved = await place.call("save", id=composed, append="more")
        assert saved["id"] == note_id


async def test_an_id_of_digits_may_be_a_number(tmp_path):
    async with opened("local", tmp_path) as (place, _):
        place.harness.remote.new_id = lambda *_content, **_seed: "12345678"
        assert (await place.call("save", text="digits", title=2024))["title"] == "2024"
        assert (await place.call("get", id=12345678))["text"] == "digits"
        assert (await place.call("get", uuid=12345678.0))["text"] == "digits"
        assert "digits" in (await place.call("GetNote", id=12345678))["text"]


@pytest.mark.parametrize("store", STORES)
async def test_what_would_empty_something_beside_another_change_has_to_be_meant(store, tmp_path):
    async with opened(store, tmp_path, title="Plan") as (place, note_id):
        version = await place.version(note_id)
        base = {"id": note_id, "local_version": version}
        empty = [{"tags": [], "append": "x"}, {"text": "", "tags": ["new"]}]
        if store not in ("simplenote", "vault"):
            empty += [{"title": "", "append": "x"}, {"title": "", "text": "all new"}]
        before = place.raw(note_id)
        for change in empty:
            said = await refused(place, "save", **base, **change)
            assert "Leave it out" in said["resolution_hint"], change
        assert place.raw(note_id) == before
        alone = await place.call("save", **base, tags=[])
        assert alone["tags"] == []
        kept = await place.call("save", id=note_id, append="five", tags=[])
        assert kept["tags"] == []
        made = await place.call(
            "save", **BLANKS, id="", local_version=0, text="new", append="", tags=[]
        )
        assert made["local_version"]


NEAR = [
    ("a\u00a0b c", "a b c", "no-break space"),
    ("say \u201chi\u201d", 'say "hi"', "left double quotation mark"),
    ("it\u2019s", "it's", "right single quotation mark"),
    ("1\u20132", "1-2", "en dash"),
    ("tab\there", "tab here", "a tab"),
    ("first\nsecond", "first second", "a line end"),
    ("one two", "one  two", "letter t (U+0074) where `find` has space"),
    (f"{'long ' * 40}the quick brown fox {'and on ' * 40}", "quick brwn fox", "letter w"),
    (f"the quick brown fox {'and on ' * 40}", "Quick brownn fox", "capital letter q"),
    (f"the quick brown fox {'and on ' * 40}", "quick brown fox\nnext", "begins as `find` does"),
    ("Kaffee kochen und trinken", "Kaffee kochen und drinken", "letter t"),
]


@pytest.mark.parametrize(("line", "find", "named"), NEAR)
async def test_find_that_misses_names_the_line_and_the_character(line, find, named, tmp_path):
    def put(place: Place) -> None:
        place.put("one", f"top\nmiddle\n{line}\n")

    async with PLACES["local"](tmp_path, put) as place:
        note_id = (await place.call("list"))["content"][0]["uuid"]
        said = await refused(place, "save", id=note_id, find=find, replace="x")
        assert "Line 3 " in said["message"], said
        assert named in said["message"]
        assert said["details"]["nearest_line"] == 3
        assert said["details"]["nearest_text"] in line


async def test_find_matches_over_mixed_line_ends(tmp_path):
    text = "a\r\nb\nc\nd\ne\r\n"

    def put(place: Place) -> None:
        place.put("one", text)

    async with PLACES["simplenote"](tmp_path, put) as place:
        await place.call("save", id="one", find="a\nb\nc", replace="A\nB\nC")
        assert place.raw("one")["content"] == "A\nB\nC\nd\ne\r\n"
        await place.call("save", id="one", find="d\ne\n", replace="D\nE\n")
        assert place.raw("one")["content"] == "A\nB\nC\nD\nE\n"


async def test_what_is_missing_is_named_with_the_way_to_it(tmp_path):
    async with opened("local", tmp_path) as (place, note_id):
        for sent in ({}, {"id": ""}, {"id": None}, {"id": [note_id]}, {"id": "x" * 5000}):
            hint = (await refused(place, "get", **sent))["resolution_hint"]
            assert "`uuid` of a row of `list`" in hint, sent
        for sent in ({}, {"ids": [note_id], "section": "x"}):
            said = (await refused(place, "get", **sent))["message"]
            assert said.startswith("`get` refuses this call: "), said
        assert (
            "local_version"
            in (await refused(place, "save", id=note_id, title="x", append="y"))["message"]
        )
        assert (
            "Leave out"
            in (await refused(place, "save", id=note_id, trash=False, append="y"))[
                "resolution_hint"
            ]
        )
        said = await refused(place, "manage", action="trash", id=note_id)
        assert "Leave out" not in said["resolution_hint"]
        tools = {tool.name: tool.description for tool in (await place.client.list_tools()).tools}
        assert "`local_version`" in tools["save"]
        assert "`local_version`" in tools["manage"]


@pytest.mark.parametrize("store", STORES)
async def test_what_has_no_dry_run_is_not_done_instead(store, tmp_path):
    async with opened(store, tmp_path) as (place, note_id):
        await place.call("save", id=note_id, append="three")
        before = place.raw(note_id)
        base = {"id": note_id, "local_version": await place.version(note_id), "confirm": True}
        for action in ("undo", "restore_version", "trash", "delete_permanently", "reset_cache"):
            said = await refused(
                place, "manage", action=action, **base, version="1", dry_run="true"
            )
            assert "has no dry run" in said["message"], (action, said)
        assert place.raw(note_id) == before


@pytest.mark.parametrize("word", ["true", "True", " TRUE "])
async def test_the_users_word_may_come_as_text(tmp_path, word):
    async with opened("local", tmp_path) as (place, note_id):
        await place.call("save", id=note_id, append="three")
        said = await refused(place, "manage", action="undo", id=note_id, confirm="false")
        assert said["subcategory"] == "confirmation_required"
        assert await refused(place, "manage", action="undo", id=note_id, confirm="yes")
        answer = await place.call("manage", action="undo", id=note_id, confirm=word)
        assert answer["status"] == "undone"


async def test_native_tools_take_the_same(tmp_path):
    for store in ("local", "trilium", "memento"):
        (tmp_path / store).mkdir()
    async with opened("local", tmp_path / "local") as (place, note_id):
        assert "two" in (await place.call("GetNote", id="[[Plan]]"))["text"]
        await place.call("UpdateNote", id="Plan", title=None, content="new", confirm="true")
        assert "new" in (await place.call("GetNote", id=note_id))["text"]
        said = await refused(place, "UpdateNote", id=note_id, title="", content="x")
        assert said["message"] == "Title cannot be empty ❌"
    async with opened("trilium", tmp_path / "trilium", title="Plan") as (place, note_id):
        assert "two" in (await place.call("get_note_content", noteId="[[Plan]]"))["text"]
        made = await place.call("create_note", parentNoteId="", title=2024, content="x", type="")
        assert made["type"] == "text"
        assert (await place.call("get_note_metadata", noteId=made["noteId"]))["title"] == "2024"
    async with opened("memento", tmp_path / "memento", title="Plan") as (place, note_id):
        made = await place.call(
            "create_note",
            title="",
            content="x",
            color="",
            type="",
            labels='["#a"]',
            isPinned="true",
            images=[],
        )
        assert (made["color"], made["type"], made["labels"], made["isPinned"]) == (
            "default",
            "text",
            ["a"],
            True,
        )
        said = await refused(place, "update_note", id=note_id, title="", color="red")
        assert "Leave it out" in said["resolution_hint"]
        done = await place.call(
            "update_note", id="[[Plan]]", color="red", isArchived="", content=None
        )
        assert (done["color"], done["title"], done["content"]) == ("red", "Plan", LINES)
        done = await place.call(
            "update_note", id=note_id, checkItems={"id": "1", "text": "milk", "checked": False}
        )
        assert done["checkItems"] == [{"id": "1", "text": "milk", "checked": False}]
        made = await place.call(
            "create_note", content="x", checkItems='{"id": "1", "text": "eggs"}'
        )
        assert made["checkItems"] == [{"id": "1", "text": "eggs"}]
        items = [{"text": "tea", "checked": "false"}, {"text": "jam", "checked": "True"}]
        made = await place.call("create_note", content="", type="checklist", checkItems=items)
        assert [one["checked"] for one in made["checkItems"]] == [False, True]


@pytest.mark.parametrize(("store", "tool"), [("local", "ListNotes"), ("memento", "get_labels")])
async def test_a_tool_without_arguments_says_so(store, tool, tmp_path):
    async with opened(store, tmp_path) as (place, _):
        said = await refused(place, tool, limit=3)
        assert said["resolution_hint"] == f"`{tool}` takes no arguments."
