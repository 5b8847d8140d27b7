"""Every change of a Memento note from outside, and then its undo: the row is as it was, byte for byte."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.tools.toolsets import find_toolset
from support.long import sample
from support.memento_file import MementoFile
from support.tool_client import connected
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio
IMAGES = '["data:image/png;base64,iVBORw0KGgo=","data:image/png;base64,AAAA"]'
ITEMS = '[{"id":"a","text":"milk","checked":false,"due":"tomorrow"},{"id":"b","text":"tea","checked":true}]'
PLAIN = {
    "title": "Plan", "color": "yellow", "images": IMAGES, "labels": '["work", "a b"]', "embedding": "[0.25,1]",
    "reminder": 1_790_000_000_123, "reminderRecurrence": "weekly", "reminderLocation": "home", "order": 7,
    "isPinned": 1, "size": "large", "isMarkdown": 1,
}  # fmt: skip
LIST = PLAIN | {"type": "checklist", "checkItems": ITEMS, "title": ""}
BARE = {"labels": None, "images": None, "title": None}
TEXT = "first line\nsecond line\n"
CHANGES = {
    "color": ("update_note", {"color": "red"}),
    "the usual colour": ("update_note", {"color": "default"}),
    "no pictures": ("update_note", {"images": None}),
    "an empty list of pictures": ("update_note", {"images": []}),
    "other pictures": ("update_note", {"images": ["x"]}),
    "labels": ("update_note", {"labels": ["new"]}),
    "no labels": ("update_note", {"labels": None}),
    "title": ("update_note", {"title": "Other"}),
    "no title": ("update_note", {"title": None}),
    "content": ("update_note", {"content": "something else"}),
    "items": ("update_note", {"checkItems": [{"id": "c", "text": "bread", "checked": False}]}),
    "no items": ("update_note", {"checkItems": None}),
    "pinned": ("update_note", {"isPinned": False}),
    "unpinned": ("update_note", {"isPinned": True}),
    "archived": ("update_note", {"isArchived": True}),
    "all at once": (
        "update_note",
        {"color": "blue", "images": None, "labels": [], "title": "T", "content": "c", "checkItems": [],
         "isPinned": False, "isArchived": True},
    ),
    "toggle_pin": ("toggle_pin", {}),
    "toggle_archive": ("toggle_archive", {}),
    "save text": ("save", {"text": "quite another text"}),
    "save append": ("save", {"append": "- [ ] more\nand more"}),
    "save prepend": ("save", {"prepend": "before"}),
    "save find": ("save", {"find": "first", "replace": "1st"}),
    "save patch": (
        "save",
        {"text_patch": [{"operation": "deletion", "line_number": 1}]},
    ),
    "save title": ("save", {"title": "Other"}),
    "save no title": ("save", {"title": ""}),
    "save tags": ("save", {"tags": ["one", "two words"]}),
    "save no tags": ("save", {"tags": []}),
    "save properties": (
        "save",
        {"properties": {"pinned": False, "archived": True, "markdown": False}},
    ),
    "manage pin": ("manage", {"action": "pin"}),
    "manage unpin": ("manage", {"action": "unpin"}),
}  # fmt: skip


class Both:
    """Our tools and the app's own, beside the file."""

    def __init__(self, folder: Path, client, harness, app: MementoFile) -> None:
        self.folder, self.client, self.harness, self.app = folder, client, harness, app

    async def call(self, tool, /, **arguments):
        return await self.client.call_tool(tool, arguments)

    async def does(self, tool, /, **arguments):
        answer = await self.call(tool, **arguments)
        assert not answer.is_error, answer.content
        return answer.structured_content

    async def change(self, tool, /, **arguments):
        """Carry out a change of n1; ours need the version that was read."""
        given = {"id": "n1", **arguments}
        if tool in ("save", "manage"):
            given["local_version"] = (await self.does("get", id="n1"))["local_version"]
        if tool in ("save", "manage", "update_note"):
            given["confirm"] = True
        return await self.does(tool, **given)

    async def undo(self):
        return await self.does("manage", action="undo", id="n1", confirm=True)

    def row(self):
        """The row, but for the date of its change."""
        return {name: one for name, one in self.app.row("n1").items() if name != "updatedAt"}


@asynccontextmanager
async def beside(folder: Path):
    app = MementoFile(folder / "dev.db")
    store = MementoStore(app.path)
    harness = ToolHarness(folder, remote=store)
    try:
        await harness.sync()
        async with connected(harness.opened, toolset=find_toolset("memento_both")) as client:
            yield Both(folder, client, harness, app)
    finally:
        await store.close()
        harness.close()


@pytest.fixture(name="both")
async def _both(tmp_path):
    async with beside(tmp_path) as opened:
        yield opened


ROWS = {"plain": PLAIN, "list": LIST, "bare": BARE}


@pytest.mark.parametrize(
    ("change", "row"),
    [(change, row) for change in CHANGES for row in sample(f"row of {change}", list(ROWS), 1)],
)
async def test_an_undo_brings_back_every_column(both, change, row):
    tool, arguments = CHANGES[change]
    both.app.put("n1", TEXT, **ROWS[row])
    await both.harness.sync()
    before = both.row()
    await both.change(tool, **arguments)
    changed = both.row()
    if changed == before:
        pytest.skip("it is so already")
    history = await both.does("manage", action="history", id="n1")
    assert history["history"][0]["by"].startswith("mcp "), history
    answer = await both.undo()
    assert both.row() == before
    assert answer["status"] == "undone"
    await both.undo()  # of the undo
    after = (
        changed | {"embedding": None} if before["embedding"] != changed["embedding"] else changed
    )
    assert both.row() == after


async def test_an_undo_does_not_take_back_what_the_app_has_changed_since(both):
    both.app.put("n1", TEXT, **PLAIN)
    await both.harness.sync()
    await both.change("update_note", images=["ours"])
    both.app.put("n1", TEXT, images='["of the app"]')
    answer = await both.call("manage", action="undo", id="n1", confirm=True)
    assert "changed_since" in str(answer.content) or "conflict" in str(answer.content).casefold()
    assert both.row()["images"] == '["of the app"]'


async def test_an_undo_of_one_column_leaves_what_the_app_has_set_in_others(both):
    both.app.put("n1", TEXT, **PLAIN)
    await both.harness.sync()
    await both.change("update_note", isPinned=False)
    both.app.put("n1", TEXT, images='["of the app"]', order=9, size="small")
    before = both.row()
    await both.undo()
    assert both.row() == before | {"isPinned": 1}


async def test_a_restored_version_has_all_that_later_changes_of_ours_replaced(both):
    both.app.put("n1", TEXT, **LIST)
    await both.harness.sync()
    before = both.row()
    version = (await both.does("get", id="n1"))["local_version"]
    await both.change("update_note", color="red")
    await both.change("save", text="quite another text")
    await both.change("update_note", images=None, checkItems=[])
    await both.change("update_note", images=["b"], color="blue")
    note = await both.does("get", id="n1")
    answer = await both.does(
        "manage", action="restore_version", id="n1", version=str(version),
        local_version=note["local_version"], confirm=True,
    )  # fmt: skip
    assert answer["status"] == "restored"
    assert both.row() == before
    await both.undo()
    assert (both.row()["images"], both.row()["color"]) == ('["b"]', "blue")


async def test_labels_in_a_form_that_is_not_known_come_back(both):
    both.app.put("n1", TEXT, labels='[1,"odd"]', color="red")
    await both.harness.sync()
    before = both.row()
    await both.change("update_note", labels=["new"], color="blue")
    assert both.row()["labels"] == '["new"]'
    await both.undo()
    assert both.row() == before
