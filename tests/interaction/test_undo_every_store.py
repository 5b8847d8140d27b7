"""Every kind of change, in every store: the history names who made it, and an undo right after it gives every byte back."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_notarium.stores import registry
from support.long import sample
from support.sync_rig import quick_folder
from support.undo_places import AGENT, PLACES, Place

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow(
        "the first test of a store makes all changes of that store, beside each other"
    ),
]
AT_ONCE = 8
IMAGE = "data:image/png;base64,iVBORw0KGgo="
OTHER_IMAGE = "data:image/png;base64,iVBORw0KGgp="
ITEMS = '[{"id":"i1","text":"milk","checked":false},{"id":"i2","text":"bread","checked":true}]'

MARKDOWN = {
    "newline at the end": "Plan\nmilk\nbread\n",
    "no newline at the end": "Plan\nmilk",
    "blank lines at the end": "Plan\nmilk\n\n\n",
    "CRLF": "Plan\r\nmilk\r\nbread\r\n",
    "mixed line ends": "Plan\r\nmilk\nbread\r\nlast\rend",
    "tabs": "Plan\n\tmilk\n\t\tcode\n\n\tend\t\n",
    "blanks at line ends": "Plan  \nmilk   \n   \n",
    "starred list": "* milk\n* bread\n    * rye\n* eggs\n",
    "numbered list": "1) milk\n2) bread\n\n9. eggs\n",
    "table": "|a|b|\n|---|---|\n|milk|2|\n",
    "other marks": "_milk_ __bread__ ~~no~~ `code` ***all***\n",
    "setext headings": "Plan\n====\n\nmilk\n----\ntext\n",
    "code block": "~~~python\n#milk = 1\n~~~\n\n    milk2\n",
    "HTML and entities": "<b>milk</b> &amp; a < b <!-- no -->\n",
    "emoji": "Plan 👩‍👩‍👧‍👦 milk 🇩🇪\n🥛\n",
    "decomposed letters": unicodedata.normalize("NFD", "Käse, Ähre, milk, 한글\n"),
    "other scripts": "שלום milk مرحبا 会議 ไทย\u200b\n",
    "tags in the text": "Plan #home #work/deep milk\n\n#end\n",
    "front matter": "---\n# mine\ntitle: 'Plan'\ntags: [home,  \"two\"]   # kept\nx: {a: 1}\n---\nmilk\n",
    "front matter alone": "---\nmilk: 1\n---",
    "unreadable front matter": "---\nbroken: [\n---\nmilk\n",
    "byte order mark": "\ufeffPlan\nmilk\n",
    "checklist": "- [ ] milk\n- [x] bread\n  - [ ] rye\n",
    "a long line": "milk " + "word " * 3000 + "\n",
    "many lines": "milk\n" + "line\n" * 400,
    "links": "[[Other]] ![[p.png]] [a](b.md) <https://example.org> milk\n",
    "empty": "",
}  # fmt: skip
HTML = {
    "paragraph": "<p>milk</p>",
    "two paragraphs": "<p>Plan</p><p>milk and <em>bread</em></p>",
    "italic and bold": "<p><i>milk</i> <b>x</b> <strong>y</strong></p>",
    "list": "<ul><li>milk</li><li>bread</li></ul>",
    "list with ids": '<ul><li data-list-item-id="e1">milk</li><li data-list-item-id="e2">bread</li></ul>',
    "nested list": "<ol><li>milk<ul><li>rye</li></ul></li><li>eggs</li></ol>",
    "to-do list": '<ul class="todo-list"><li><label class="todo-list__label"><input type="checkbox" disabled="disabled">'
    '<span class="todo-list__label__description">milk</span></label></li></ul>',
    "table": '<figure class="table"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>milk</td><td>2</td>'
    "</tr></tbody></table></figure><p>end</p>",
    "code block": '<pre><code class="language-text-x-python">milk = 1\n</code></pre><p>milk2</p>',
    "entities": "<p>milk&nbsp;&amp;&nbsp;bread &lt;b&gt;</p>",
    "emoji": "<p>milk 👩‍👩‍👧‍👦 🇩🇪</p>",
    "decomposed letters": unicodedata.normalize("NFD", "<p>Käse milk</p>"),
    "headings": "<h2>Plan</h2><p>milk</p><h3>Below</h3><p>text</p>",
    "quote": "<blockquote><p>milk</p></blockquote><p>end</p>",
    "rule": "<p>milk</p><hr><p>end</p>",
    "links": '<p><a class="reference-link" href="#root/Note000001">Plan</a> milk <a href="https://example.org">x</a></p>',
    "underline and colour": '<p><u>milk</u> <span style="color:#EEE;">grey</span></p>',
    "picture": '<p>milk</p><figure class="image image_resized" style="width:50%;"><img style="aspect-ratio:4/3;" '
    'src="api/attachments/ATTACHED/image/p.png" width="4" height="3"><figcaption>cap</figcaption></figure>',
    "file link": '<p>milk <a class="reference-link" href="#root/NOTE?viewMode=attachments&amp;attachmentId=ATTACHED">'
    "p.png</a></p>",
    "line break": "<p>milk<br>bread</p>",
    "many paragraphs": "<p>milk</p>" + "<p>line</p>" * 100,
    "byte order mark": "\ufeff<p>milk</p>",
    "empty": "",
}  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One call: ``text`` and ``more`` are the note before. ``VERSION`` stands for its version, ``FOLDER`` for its folder."""

    text: str
    arguments: Mapping[str, Any]
    tool: str = "save"
    more: Mapping[str, Any] = field(default_factory=dict)


VERSION = object()
START = "Plan\nmilk\nbread\n"


def _save(arguments: Mapping[str, Any], text: str = START, **more: Any) -> Change:
    versioned = not {"append", "prepend", "find", "properties"} & {*arguments}
    return Change(
        text, {**arguments, **({"local_version": VERSION} if versioned else {})}, more=more
    )


def _manage(action: str, **more: Any) -> Change:
    return Change(START, {"action": action, "local_version": VERSION}, "manage", more)


def _patch(operation: str, line: int, value: str | None = None) -> Change:
    return _save({"text_patch": [{"operation": operation, "line_number": line, "value": value}]})


SAVES = {
    "text": _save({"text": "Plan\nmilk\nbutter\n"}),
    "text that drops most": _save({"text": "gone", "confirm": True}, "Plan\n" + "words of it\n" * 40),
    "text emptied": _save({"text": "", "confirm": True}),
    "text with other line ends": _save({"text": "Plan\r\nmilk\r\nbread\r\n"}),
    "append": _save({"append": "eggs"}),
    "append several lines": _save({"append": "eggs\n\n* a\n* b\n\n|x|y|\n|---|---|\n|1|2|\n"}),
    "append with a tag": _save({"append": "see #garden"}),
    "append marks": _save({"append": "_em_ __strong__ <b>x</b> &amp; \\* end\n"}),
    "append a checklist": _save({"append": "- [ ] one\n- [x] two"}),
    "prepend": _save({"prepend": "first\n"}),
    "prepend a heading": _save({"prepend": "# Head\n\ntext\n"}),
    "replace": _save({"find": "milk", "replace": "butter"}),
    "replace by nothing": _save({"find": "bread\n", "replace": ""}),
    "replace a tag in the text": _save({"find": " #home", "replace": ""}, "Plan #home #b\nmilk\n"),
    "a line added": _patch("addition", 2, "eggs"),
    "a line changed": _patch("modification", 2, "butter #new"),
    "a line deleted": _patch("deletion", 3),
}  # fmt: skip
TAGS = {
    "tags": _save({"tags": ["one", "two"]}),
    "tags beside one in the text": _save({"tags": ["home", "one"]}, "Plan #home\nmilk\n"),
    "tags replaced": _save({"tags": ["new", "old"]}, tags=["old", "other"]),
    "tags removed": _save({"tags": []}, tags=["old", "other"]),
    "tags in another order": _save({"tags": ["b", "a"]}, tags=["a", "b"]),
    "tags and text": _save({"tags": ["one"], "text": "Plan\nother\nbread\n"}),
    "tags and append": _save({"tags": ["one"], "append": "eggs #two"}),
    "a tag renamed": Change(START, {"action": "rename_tag", "tag": "renamed", "new_tag": "after",
                                    "confirm": True}, "manage", {"tags": ["renamed", "kept"]}),
}  # fmt: skip
TAGS["tags and append"] = _save({"tags": ["one"], "append": "eggs #two", "local_version": VERSION})
YAML_TAGS = {
    "tags into front matter": _save({"tags": ["home", "two", "new"]}, MARKDOWN["front matter"]),
    "tags out of front matter": _save({"tags": ["two"]}, MARKDOWN["front matter"]),
    "front matter removed": _save({"text": "---\n---\nmilk\n"}, MARKDOWN["front matter"]),
    "front matter added": _save({"text": "---\na: 1\n---\nPlan\nmilk\nbread\n"}),
    "a property in front matter": _save({"find": "x: {a: 1}", "replace": "x: {a: 2}"}, MARKDOWN["front matter"]),
    "a block scalar of tags": _save({"tags": ["a"]}, "---\ntags:\n    - a\n    - b # why\nother: |\n  text\n---\nmilk\n"),
    "text without the front matter": _save({"text": "other\nmilk\n"}, MARKDOWN["front matter"]),
    "CRLF text by one with LF": _save({"text": "Plan\nbutter\nbread\n"}, MARKDOWN["CRLF"]),
    "CRLF front matter": _save({"tags": ["a"]}, "---\r\nx: 1\r\n---\r\nmilk\r\n"),
}  # fmt: skip
TRASH = {
    "trash": _manage("trash"),
    "untrash": _manage("untrash", trash=True),
    "trash by save": _save({"trash": True}),
    "trash and text": _save({"trash": True, "text": "Plan\nmilk\nbutter\n"}),
}
PINS = {
    "pin": _manage("pin"),
    "unpin": _manage("unpin", pinned=True),
    "property": _save({"properties": {"pinned": True}}),
    "property and append": _save({"properties": {"pinned": True}, "append": "eggs"}),
}
TITLES = {
    "title": _save({"title": "Offer"}),
    "title and text": _save({"title": "Offer", "text": "Plan\nmilk\nbutter\n"}),
    "title, text and tags": _save(
        {"title": "Offer", "text": "other\nmilk\nbread\n", "tags": ["t"]}
    ),
}
PATHS = {
    "moved to another folder": _save({"title": "FOLDER/Deep/Plan far away"}),
    "moved to the top of a folder": _save({"title": "FOLDER/Deep/Plan"}),
    "an odd name renamed": _save({"title": "Offer"}, title="a: b? #c  d"),
    "an odd name trashed": _manage("trash", title="a: b? #c  d ~"),
    "a decomposed name renamed": _save({"title": "Offer"}, title=unicodedata.normalize("NFD", "Käse")),
    "renamed with its links": _save({"title": "Offer", "rewrite_links": True},
                                    linked="[[Plan]] ![[Plan#a|b]] [x](Plan.md) `[[Plan]]`\n"),
    "moved with its own links": _save({"title": "FOLDER/Deep/Linking", "rewrite_links": True},
                                      "[o](Other.md) [[Other]]\nmilk\n", linked="other\n"),
}  # fmt: skip
HELD = {"status": "open", "due": "2026-12-01", "rating": "4"}
PROPERTIES = {
    "properties set": _save({"properties": {"status": "done", "due": "2026-12-01", "rating": 4, "of": ["a", "b c"]}}),
    "a property changed": _save({"properties": {"status": "done"}}, properties=HELD),
    "properties changed and removed": _save({"properties": {"rating": 4.5, "due": None, "new": True}}, properties=HELD),
    "the only property removed": _save({"properties": {"status": None}}, properties={"status": "open"}),
    "a property and append": _save({"properties": {"status": "done"}, "append": "eggs"}, properties=HELD),
    "a property and tags": _save({"properties": {"rating": 5}, "tags": ["status", "due", "rating", "one"],
                                  "local_version": VERSION}, properties=HELD),
}  # fmt: skip
NOTEBOOK = {
    "UpdateNote content": Change(START, {"content": "Plan\nother #x\nbread\n"}, "UpdateNote"),
    "UpdateNote title": Change(START, {"title": "Offer"}, "UpdateNote"),
    "DeleteNote": Change(START, {}, "DeleteNote"),
}
FLAGS = {
    "archived": _save({"properties": {"archived": True}}),
    "markdown": _save({"properties": {"markdown": True}}),
}
FULL = {
    "columns": {
        "color": "blue", "images": f'["{IMAGE}"]', "reminder": 1_900_000_000_000, "reminderRecurrence": "daily",
        "reminderLocation": "home", "size": "large", "order": 7,
    },
    "tags": ["home"],
}  # fmt: skip
LISTED = {"columns": {"type": "checklist", "checkItems": ITEMS}}
CARDS = {
    name: Change(text, arguments, tool, more)
    for name, tool, text, more, arguments in (
        ("content", "update_note", START, FULL, {"content": "other\n"}),
        ("title", "update_note", START, FULL, {"title": "Offer"}),
        ("no title", "update_note", START, FULL, {"title": None}),
        ("colour", "update_note", START, FULL, {"color": "red"}),
        ("labels", "update_note", START, FULL, {"labels": ["a", "two words"]}),
        ("no labels", "update_note", START, FULL, {"labels": None}),
        ("pictures", "update_note", START, FULL, {"images": [OTHER_IMAGE], "confirm": True}),
        ("no pictures", "update_note", START, FULL, {"images": None, "confirm": True}),
        ("a picture", "update_note", START, {}, {"images": [IMAGE]}),
        ("items", "update_note", START, LISTED, {"checkItems": [{"id": "i1", "text": "eggs", "checked": True}]}),
        ("no items", "update_note", START, LISTED, {"checkItems": None}),
        ("pinned and archived", "update_note", START, FULL, {"isPinned": True, "isArchived": True}),
        ("all", "update_note", START, FULL, {"content": "x\n", "title": "T", "color": "green", "labels": ["z"],
                                             "isPinned": True}),
        ("toggle_pin", "toggle_pin", START, FULL, {}),
        ("toggle_archive", "toggle_archive", START, {}, {}),
        ("an item ticked", "save", "", LISTED, {"find": "[ ] milk", "replace": "[x] milk"}),
        ("an item removed", "save", "", LISTED, {"find": "- [ ] milk\n", "replace": ""}),
        ("append to a full note", "save", START, FULL, {"append": "eggs"}),
    )
}  # fmt: skip
TREE = {
    "HTML content": Change(
        "<p>milk</p>", {"content": "<p>one</p><ul><li>x</li></ul>"}, "update_note_content"
    ),
    "Markdown content": Change(
        "<p>milk</p>", {"content": "# Head\n\n* a\n* b\n"}, "update_note_content"
    ),
    "content without a picture": Change(
        HTML["picture"], {"content": "<p>milk</p>"}, "update_note_content"
    ),
}


REWRITTEN = {
    f"append {name}": _save({"append": text}, "<p>milk</p>")
    for name, text in {
        "a picture": f"![p]({IMAGE})",
        "a link to a note": "[x](http://127.0.0.1:8080/#root/Note000001)",
        "both and words": f"![p]({IMAGE}) a [x](https://notes.example/?a=1#root/Note000001/Note000002) b\n\n![q]({IMAGE})",
    }.items()
}
"""What Trilium itself changes of a text while it stores it."""


def _on(contents: Mapping[str, str]) -> dict[str, Change]:
    found = {}
    for name, text in contents.items():
        found[f"append: {name}"] = _save({"append": "see #garden"}, text)
        found[f"new text: {name}"] = _save({"text": "another\n\n* text\n", "confirm": True}, text)
    return found


def _as_html(changes: Mapping[str, Change]) -> dict[str, Change]:
    """The same changes of a note that Trilium's editor has written."""
    lines = {
        name: "".join(f"<p>{line}</p>" for line in change.text.splitlines() if line)
        for name, change in changes.items()
    }
    skipped = ("bread\n",)
    return {
        name: Change(lines[name], change.arguments, change.tool, change.more)
        for name, change in changes.items()
        if change.arguments.get("find") not in skipped
    }


def _without(changes: Mapping[str, Change], *names: str) -> dict[str, Change]:
    return {name: change for name, change in changes.items() if name not in names}


REFUSED = ("new text: underline and colour", "new text: picture")
"""Trilium's notes have more than Markdown says there, and are not written anew without it."""
TEXTS = SAVES | _on(MARKDOWN)
CHANGES: dict[str, dict[str, Change]] = {
    "simplenote": TEXTS | TAGS | TRASH | PINS,
    "local": TEXTS | TAGS | TRASH | PINS | TITLES | PROPERTIES | NOTEBOOK,
    "memory": SAVES | TAGS | TRASH | PINS | TITLES | NOTEBOOK,
    "vault": TEXTS
    | _without(TAGS, "tags in another order")
    | YAML_TAGS
    | PROPERTIES
    | TRASH
    | TITLES
    | PATHS,
    "jotter": TEXTS | TRASH | _without(TITLES, "title, text and tags"),
    "trilium": _as_html(SAVES | _without(TAGS, "tags in another order") | TITLES | PROPERTIES)
    | _without(_on(HTML), *REFUSED)
    | TREE
    | REWRITTEN,
    "memento": TEXTS | TAGS | PINS | TITLES | FLAGS | CARDS,
}
CHANGES = {
    store: dict(sample(f"undo {store}", list(changes.items()), 24))
    for store, changes in CHANGES.items()
}
CASES = [(store, name) for store, changes in CHANGES.items() for name in changes]


def test_every_store_is_changed_here():
    assert {*registry.names()} - CHANGES.keys() == set()


@dataclass
class Outcome:
    """What became of a note: ``raw`` and when it was made, before a change, after it, and after the undo; and who made what."""

    raw: list[Any] = field(default_factory=list)
    created: list[Any] = field(default_factory=list)
    by: list[list[str | None]] = field(default_factory=list)
    undone: dict[str, Any] = field(default_factory=dict)
    error: str = ""


async def change_note(place: Place, note_id: str, change: Change) -> str:
    """Carry out a change; return the id that the note has then."""
    arguments = dict(change.arguments)
    if arguments.get("local_version") is VERSION:
        arguments["local_version"] = (await place.call("get", id=note_id))["local_version"]
    if "FOLDER" in (arguments.get("title") or ""):
        arguments["title"] = arguments["title"].replace("FOLDER", note_id.partition("/")[0])
    if change.tool == "update_note_content":
        await place.call("get_note_content", noteId=note_id)
        arguments["noteId"] = note_id
    elif "tag" not in arguments:
        arguments["id"] = note_id
    answer = await place.call(change.tool, **arguments)
    assert "error" not in answer, answer["error"]
    return str(answer.get("id") or note_id)


async def observe(place: Place, note_id: str, found: Outcome) -> None:
    note = await place.call("get", id=note_id)
    history = await place.call("manage", action="history", id=note_id)
    found.raw.append(place.raw(note["id"]))
    found.created.append(note["created_at"])
    found.by.append([row.get("by") for row in history["history"]])


async def live(place: Place, note_id: str, change: Change, turn: asyncio.Semaphore) -> Outcome:
    """Change a note and take that back."""
    found = Outcome()
    async with turn:
        try:
            await observe(place, note_id, found)
            note_id = await change_note(place, note_id, change)
            await observe(place, note_id, found)
            found.undone = await place.call("manage", action="undo", id=note_id, confirm=True)
            assert "error" not in found.undone, found.undone["error"]
            await observe(place, found.undone["id"], found)
        except Exception as error:  # noqa: BLE001 - the test of this change fails with it
            found.error = str(error)
    return found


Outcomes = dict[str, Outcome]
_outcomes: dict[str, Outcomes] = {}


async def outcomes_of(store: str) -> Outcomes:
    """What became of all changes in a store; they are made beside each other, once."""
    changes, ids = CHANGES[store], dict[str, str]()

    def put(place: Place) -> None:
        ids.update(
            {name: place.put(name, change.text, **change.more) for name, change in changes.items()}
        )

    if store not in _outcomes:
        turn = asyncio.Semaphore(AT_ONCE)
        with quick_folder() as folder:
            async with PLACES[store](folder, put) as place:
                lives = [live(place, ids[name], change, turn) for name, change in changes.items()]
                _outcomes[store] = dict(zip(changes, await asyncio.gather(*lives), strict=True))
    return _outcomes[store]


@pytest.mark.parametrize(("store", "name"), CASES)
async def test_a_change_has_its_author_and_an_undo_gives_every_byte_back(
    store: str, name: str
) -> None:
    found = (await outcomes_of(store))[name]
    assert not found.error
    before, changed, after = found.raw
    assert changed != before, "the change changes nothing"
    assert found.by[1] == [AGENT, None]
    assert found.undone["status"] == "undone"
    assert found.undone["note"].startswith("Changed: ")
    assert after == before
    assert found.by[2] == [AGENT, AGENT, None]
    assert found.created[1:] == found.created[:1] * 2
