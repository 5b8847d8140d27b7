"""Every route to a loss that neither a version nor the store can undo, through a client: someone has to agree, always.

``docs/tools.md`` lists the routes; each has a row here.
"""

import json
import re
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from mcp_notarium.domain.policy import Mode, Policy
from mcp_notarium.storage.approval_table import ApprovalTable
from mcp_notarium.storage.version_table import ROW_BYTES, VersionLimits
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.memento.store import MementoStore
from mcp_notarium.stores.vault.store import VaultStore
from mcp_notarium.tools.toolsets import find_toolset
from notarium_devtools.simperium import Simulator
from notarium_devtools.trilium import TriliumSimulator
from support.cache_room import make
from support.local_notebook import OtherProcess
from support.long import sample
from support.memento_file import MementoFile
from support.simplenote_client import open_store as open_simplenote
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.trilium_client import open_trilium

pytestmark = pytest.mark.anyio
TEXT = "first line\nsecond line\n"
NEITHER = VersionLimits(days=0)
SMALL = VersionLimits(size=ROW_BYTES + 10)
"""Too small for a version of the note."""
IMAGES = '["data:image/png;base64,AAAA"]'
ITEMS = '[{"id":"a","text":"milk","checked":false,"due":"tomorrow"}]'


def memento(folder):
    app = MementoFile(folder / "dev.db")
    app.put(
        "n1", TEXT, title="Plan", labels='["old"]', images=IMAGES, color="red", checkItems=ITEMS
    )
    store = MementoStore(app.path)
    return store, "memento_both", lambda: app.run('SELECT * FROM "Note"'), None


def vault(folder):
    place = folder / "vault"
    place.mkdir()
    (place / "n1.md").write_text(f"---\ntags: [old]\n---\n{TEXT}")

    def state():
        return {one.name: one.read_text() for one in place.rglob("*.md")}

    return VaultStore(place), "with_paths", state, None


def local(folder):
    cache = make(folder, key=None, name="cache.sqlite")
    OtherProcess(cache).put("n1", TEXT, tags=("old",), title="Plan")
    store = LocalStore(cache.database)

    def state():
        return cache.database.rows("SELECT id, title, text, tags FROM notes")

    return store, "plain_snake_both", state, cache


STORES = {"memento": memento, "vault": vault, "local": local}
SAVE, MANAGE = "save", "manage"
ROUTES = [
    # the store, the tool, its arguments
    *((store, SAVE, {"text": "other"}) for store in STORES),
    *((store, SAVE, {"find": "first", "replace": ""}) for store in STORES),
    *(
        (store, SAVE, {"text_patch": [{"operation": "deletion", "line_number": 1}]})
        for store in STORES
    ),
    *((store, SAVE, {"title": "Other"}) for store in STORES),
    *((store, SAVE, {"tags": []}) for store in STORES),
    *((store, SAVE, {"remove_tags": ["old"]}) for store in STORES),
    *((store, SAVE, {"section": "0", "text": "other"}) for store in STORES),
    *((store, MANAGE, {"action": "rename_tag", "tag": "old", "new_tag": "new"}) for store in STORES),
    ("memento", "update_note", {"images": None}),
    ("memento", "update_note", {"images": []}),
    ("memento", "update_note", {"images": ["data:,other"]}),
    ("memento", "update_note", {"color": "blue"}),
    ("memento", "update_note", {"checkItems": [{"id": "a", "text": "milk", "checked": False}]}),
    ("memento", "update_note", {"checkItems": None}),
    ("memento", "update_note", {"labels": []}),
    ("memento", "update_note", {"title": None}),
    ("memento", "update_note", {"content": "other"}),
    ("memento", "delete_note", {}),
    ("memento", MANAGE, {"action": "delete_permanently"}),
    ("local", "update_note", {"content": "other"}),
    ("local", "update_note", {"title": "Other"}),
]  # fmt: skip


def drawn(test):
    """Some of the ways, another choice for each test."""
    return pytest.mark.parametrize(
        "route", sample(f"ways {test}", ROUTES, 6), ids=lambda one: "-".join(map(str, one))
    )


KEPT = [
    # what takes nothing away; ``text`` stands for the text with more behind it
    {"append": "third"},
    {"prepend": "zeroth"},
    {"text": ""},
    {"tags": ["old", "new"]},
    {"add_tags": ["new"]},
    {"section": "0", "append": "third"},
]


class Seen:
    """A client, what it was asked, and how its notes lie in the store."""

    def __init__(self, client, state, asked, app):
        self.client, self.state, self.asked, self.app = client, state, asked, app

    def approve(self, said, *, agrees=True):
        """Decide, as a person at a terminal does, about what the refusal names."""
        named = re.search(r"`mcp-notarium approve ([0-9a-f]{8})`", said)
        table, now = ApprovalTable(self.app.cache.database), self.app.clock()
        assert table.decide(named[1], agrees=agrees, now=now)

    def waiting(self):
        """What waits for a person at a terminal."""
        return ApprovalTable(self.app.cache.database).waiting(now=self.app.clock())

    async def call(self, tool, arguments, **more):
        """Call a tool on the note; return '' or the reason why not."""
        given = dict(arguments)
        if arguments.get("action") != "rename_tag":
            note = await self.note()
            given["id"] = note["id"]
            if tool in (SAVE, MANAGE):
                given["local_version"] = note["local_version"]
        return await self.tell(tool, given | more)

    async def tell(self, tool, arguments):
        try:
            answer = await self.client.call_tool(tool, arguments)
        except MCPError as error:
            return str(error)
        return str(answer.content) if answer.is_error else ""

    async def note(self):
        rows = (await self.client.call_tool("list", {})).structured_content["content"]
        answer = await self.client.call_tool("get", {"id": rows[0]["uuid"]})
        return {"id": rows[0]["uuid"], **answer.structured_content}


@asynccontextmanager
async def opened(
    folder, store, limits, *, mode=Mode.FULL, setting="ask", agrees=None, files=None, meanwhile=None
):
    remote, names, state, cache = STORES[store](folder)
    for name, text in (files or {}).items():
        (folder / store / name).write_text(text)
    asked = []

    async def elicit(_context, params):
        asked.append(params.message)
        if meanwhile is not None:
            meanwhile(harness.app)
        return types.ElicitResult(action="accept", content={"confirm": agrees})

    policy = Policy(mode=mode)
    toolset = find_toolset(names)
    harness = ToolHarness(folder, policy=policy, remote=remote, cache=cache)
    harness.now = time.time()
    harness.app.cache.versions.limits = limits
    harness.app = replace(harness.app, config=replace(harness.app.config, destructive=setting))
    options = {} if agrees is None else {"elicitation_callback": elicit}
    offered = toolset.permitted(policy)
    try:
        await harness.sync()
        async with connected(harness.opened, toolset=offered, **options) as client:
            yield Seen(client, state, asked, harness.app)
    finally:
        await remote.close()
        harness.close()


@pytest.mark.attack(36)
@pytest.mark.parametrize("limits", [NEITHER, SMALL], ids=["no days", "no room"])
@drawn("nobody")
async def test_nothing_is_taken_away_for_good_unless_someone_agrees(tmp_path, route, limits):
    store, tool, arguments = route
    async with opened(tmp_path, store, limits) as seen:
        before = seen.state()
        said = await seen.call(tool, arguments)
        assert "cannot be brought back" in said
        assert ("NOTARIUM_VERSION_DAYS" if limits is NEITHER else "NOTARIUM_VERSION_MB") in said
        assert "cannot be brought back" in await seen.call(tool, arguments, confirm=True)
        assert seen.state() == before
        seen.approve(said)
        assert await seen.call(tool, arguments) == ""
        assert seen.state() != before


@pytest.mark.parametrize("setting", ["strict", "deny"])
@drawn("setting")
async def test_no_argument_of_the_agent_stands_for_a_person(tmp_path, route, setting):
    store, tool, arguments = route
    async with opened(tmp_path, store, NEITHER, setting=setting) as seen:
        before = seen.state()
        said = await seen.call(tool, arguments, confirm=True)
        assert ("NOTARIUM_DESTRUCTIVE=deny" in said) == (setting == "deny")
        assert ("own app" in said) == (setting == "deny" and store != "local")
        assert ("mcp-notarium approve" in said) == (setting == "strict")
        assert seen.state() == before


@pytest.mark.parametrize(("setting", "agrees"), [("ask", False), ("strict", True), ("deny", True)])
@drawn("person")
async def test_a_person_who_can_be_asked_decides(tmp_path, route, setting, agrees):
    store, tool, arguments = route
    async with opened(tmp_path, store, NEITHER, setting=setting, agrees=agrees) as seen:
        before = seen.state()
        said = await seen.call(tool, arguments, confirm=True)
        done = agrees and setting != "deny"
        assert (said == "", seen.state() != before) == (done, done)
        assert len(seen.asked) == (setting != "deny")
        assert all("cannot be brought back" in one for one in seen.asked)


@pytest.mark.attack(36)
@pytest.mark.parametrize("agrees", [True, None])
@drawn("write")
async def test_the_mode_write_forbids_it(tmp_path, route, agrees):
    store, tool, arguments = route
    async with opened(tmp_path, store, NEITHER, mode=Mode.WRITE, agrees=agrees) as seen:
        before = seen.state()
        said = await seen.call(tool, arguments, confirm=True)
        of_many = arguments.get("action") == "rename_tag"  # the answer tells it of each note
        assert ("not permitted" in said) != of_many
        assert (seen.state(), seen.asked) == (before, [])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("arguments", KEPT, ids=str)
async def test_what_takes_nothing_away_needs_nobody(tmp_path, store, arguments):
    async with opened(tmp_path, store, NEITHER, mode=Mode.WRITE, setting="deny") as seen:
        before = seen.state()
        if "text" in arguments:
            arguments = {"text": (await seen.note())["text"] + "\nmore\n"}
        assert await seen.call(SAVE, arguments) == ""
        assert seen.state() != before


@pytest.mark.parametrize("route", [one for one in ROUTES if "action" not in one[2]])
async def test_what_a_version_keeps_needs_nobody(tmp_path, route):
    store, tool, arguments = route
    async with opened(tmp_path, store, VersionLimits(), mode=Mode.WRITE, setting="deny") as seen:
        before = seen.state()
        assert await seen.call(tool, arguments) == ""
        assert seen.state() != before


SHOWN = [
    # a native act or one of ours, and lines of what a person is shown of it
    ("memento", "update_note", {"images": None, "color": "blue"},
     [f"-images: {json.dumps(IMAGES)}", "+images: null", '-color: "red"', '+color: "blue"']),
    ("memento", "delete_note", {}, [f"-images: {json.dumps(IMAGES)}", '-color: "red"', "-first line"]),
    ("memento", SAVE, {"text": "other"}, [f"-checkItems: {json.dumps(ITEMS)}", "-first line", "+other"]),
    ("vault", SAVE, {"tags": []}, ["@@ file @@", "-tags: [old]", "+tags: []"]),
    ("vault", SAVE, {"title": "Sub/n2"}, ['-path: "n1.md"', '+path: "Sub/n2.md"']),
    ("local", "update_note", {"content": "other"}, ["-first line", "-second line", "+other"]),
]  # fmt: skip


@pytest.mark.parametrize(("store", "tool", "arguments", "lines"), SHOWN)
async def test_a_person_sees_before_and_after_in_the_form_of_the_store(
    tmp_path, store, tool, arguments, lines
):
    async with opened(tmp_path, store, NEITHER) as seen:
        assert "approve" in await seen.call(tool, arguments)
        (asked,) = seen.waiting()
        shown = asked.diff.splitlines()
        assert {*lines} <= {*shown}, asked.diff
        signed = [line for line in shown if line.startswith(("+", "-"))]
        assert len(signed) == len({*signed}), "nothing is shown twice"


async def test_of_a_long_field_a_person_sees_what_differs(tmp_path):
    long = IMAGES[:-2] + "x" * 100_000
    async with opened(tmp_path, "memento", NEITHER) as seen:
        row = MementoFile(tmp_path / "dev.db")
        row.run(f"""UPDATE "Note" SET images = '{long}old"]'""")
        await seen.call("update_note", {"images": [json.loads(f'{long}new"]')[0]]})
        await seen.call("update_note", {"images": ["data:," + "y" * 100_000]})
        one, other = (asked.diff for asked in seen.waiting())
    assert re.search(r"(?m)^-images: …x+old.*\n\+images: …x+new", one)
    assert "more characters" in other
    assert len(one) < len(other) < 3000


@pytest.mark.attack(36)
@pytest.mark.parametrize("tool", ["update_note", "delete_note"])
async def test_an_approval_is_for_what_was_there_before(tmp_path, tool):
    """The app shows another picture by now, which no version of the note tells."""
    other = """UPDATE "Note" SET images = '["data:,other"]'"""
    given = {"images": None} if tool == "update_note" else {}
    async with opened(tmp_path, "memento", NEITHER) as seen:
        seen.approve(await seen.call(tool, given))
        MementoFile(tmp_path / "dev.db").run(other)
        assert "approve" in await seen.call(tool, given)
        assert seen.state()[0]["images"] == '["data:,other"]'
        (asked,) = seen.waiting()
        assert "-images: " + json.dumps('["data:,other"]') in asked.diff.splitlines()


@pytest.mark.attack(36)
@pytest.mark.parametrize("tool", ["update_note", "delete_note"])
async def test_a_yes_in_a_dialogue_is_for_what_was_there_when_it_was_asked(tmp_path, tool):
    def change(_app):
        MementoFile(tmp_path / "dev.db").run("""UPDATE "Note" SET images = '["data:,other"]'""")

    given = {"images": None} if tool == "update_note" else {}
    async with opened(tmp_path, "memento", NEITHER, agrees=True, meanwhile=change) as seen:
        said = await seen.call(tool, given)
        assert ("has changed" in said) == (tool == "delete_note")
        assert len(seen.asked) == (1 if said else 2), "once more, about what is there now"


async def test_what_an_agent_writes_later_pushes_no_deleted_note_out(tmp_path):
    room = VersionLimits(size=6000)
    async with opened(tmp_path, "memento", room) as seen:
        note, before = (await seen.note())["id"], seen.state()
        assert await seen.call("delete_note", {}) == ""
        refused = 0
        for number in range(30):
            text = f"{number} " * 100
            made = await seen.client.call_tool("save", {"text": text})
            target = {"id": made.structured_content["id"], "content": "other"}
            said = await seen.tell("update_note", target)
            if said:
                assert "a version of it has no room" in said
                seen.approve(said)
                assert await seen.tell("update_note", target) == ""
                refused += 1
        assert 0 < refused < 30
        history = await seen.client.call_tool("manage", {"action": "history", "id": note})
        assert not history.is_error, history.content
        (kept,) = history.structured_content["history"]
        asks = {"action": "restore_version", "id": note, "version": kept["version"]}
        answer = await seen.client.call_tool("manage", asks | {"confirm": True})
        assert not answer.is_error
        (row,) = [one for one in seen.state() if one["id"] == note]
        assert row | {"updatedAt": 0} == before[0] | {"updatedAt": 0}


async def test_a_deletion_that_loses_its_way_back_meanwhile_is_refused(tmp_path):
    def shrink(app):
        app.cache.versions.limits = SMALL

    async with opened(tmp_path, "memento", VersionLimits(), agrees=True, meanwhile=shrink) as seen:
        before = seen.state()
        said = await seen.call(MANAGE, {"action": "delete_permanently"})
        assert "For 90 days `restore_version` can bring it back." in seen.asked[0]
        assert "cannot be brought back any more; nothing was deleted" in said
        assert "Delete it again" in said
        assert seen.state() == before
        assert await seen.call(MANAGE, {"action": "delete_permanently"}) == ""
        assert "It cannot be brought back" in seen.asked[1]
        assert seen.state() == []


AFTERWARDS = [
    ("get", {}),
    (SAVE, {"append": "x"}),
    (MANAGE, {"action": "undo", "confirm": True}),
    (MANAGE, {"action": "untrash", "local_version": 1}),
    (MANAGE, {"action": "delete_permanently", "local_version": 1, "confirm": True}),
    ("get_note", {}),
    ("update_note", {"color": "blue"}),
    ("delete_note", {}),
]


@pytest.mark.parametrize(("tool", "arguments"), AFTERWARDS, ids=str)
async def test_no_later_call_takes_away_what_is_left_of_a_deleted_note(tmp_path, tool, arguments):
    async with opened(tmp_path, "memento", VersionLimits(), agrees=True) as seen:
        before = seen.state()
        assert await seen.call("delete_note", {}) == ""
        assert seen.state() == []
        given = {"id": "n1", **arguments}
        assert await seen.tell(tool, given) != ""
        history = await seen.client.call_tool(MANAGE, {"action": "history", "id": "n1"})
        assert not history.is_error, history.content
        (kept,) = history.structured_content["history"]
        asks = {"action": "restore_version", "id": "n1", "version": kept["version"]}
        assert await seen.tell(MANAGE, asks) == ""
        (row,) = seen.state()
        assert row | {"updatedAt": 0} == before[0] | {"updatedAt": 0}
        history = await seen.client.call_tool(MANAGE, {"action": "history", "id": "n1"})
        assert history.structured_content["history"][0].get("by"), "who has made it again"


STYLED = '<p style="color:red">first line</p><p>second <mark>line</mark></p>'
PLAIN = "<p>first line</p><p>second line</p>"


@asynccontextmanager
async def styled():
    async with TriliumSimulator().serving() as sim:
        sim.write("note1234", "Plan", STYLED)

        def state():
            labels = [one.name for one in sim.document.owned("note1234")]
            return sim.document.notes["note1234"].content.decode(), labels

        yield open_trilium(sim), state


@asynccontextmanager
async def marked():
    async with Simulator().serving() as sim:
        marks = {"tags": ["old"], "systemTags": ["markdown", "other"]}
        sim.put("note1234", content=TEXT, deleted=False, **marks)

        def state():
            value = sim.bucket().read("note1234").value
            return {"tags": value["tags"], "systemTags": sorted(value["systemTags"])}

        yield open_simplenote(sim), state


FORMS = {"styled": styled, "marked": marked}
KEEPING = {"no days": NEITHER, "no room": SMALL, "kept": VersionLimits()}
FORMED = [
    # what is kept, the store, the arguments, whether it takes away what only the store's own form says
    ("no days", "styled", {"text": PLAIN}, True),
    ("no days", "styled", {"text": STYLED.replace("red", "blue")}, True),
    ("no days", "styled", {"text": PLAIN + "<p>third</p>"}, True),
    ("no days", "styled", {"text": STYLED + "<p>third</p>"}, False),
    ("no days", "styled", {"append": "third"}, False),
    ("no days", "marked", {"properties": {"markdown": False}}, False),
    ("no room", "styled", {"text": PLAIN}, True),
    ("kept", "styled", {"text": PLAIN}, True),
    ("kept", "styled", {"text": PLAIN + "<p>third</p>"}, True),
    ("kept", "marked", {"properties": {"markdown": False}, "add_tags": ["new"]}, False),
]


@pytest.mark.attack(36)
@pytest.mark.parametrize(("kept", "place", "arguments", "takes"), FORMED)
async def test_what_only_the_own_form_says_is_not_taken_away_for_good_in_silence(
    tmp_path, kept, place, arguments, takes
):
    async with FORMS[place]() as (remote, state):
        harness = ToolHarness(tmp_path, remote=remote)
        harness.app.cache.versions.limits = KEEPING[kept]
        toolset = find_toolset("titled" if place == "styled" else "notarium")
        try:
            await harness.sync()
            async with connected(harness.opened, toolset=toolset) as client:
                seen, before = Seen(client, state, [], harness.app), state()
                asks = takes and kept != "kept"
                said = await seen.call(SAVE, arguments)
                assert ("(formatting) cannot be brought back" in said, bool(said)) == (asks, asks)
                assert (state() == before) == asks
                if asks:
                    (waits,) = seen.waiting()
                    assert '-<p style="color:red">first line</p>' in waits.diff.splitlines()
                    seen.approve(said)
                    assert await seen.call(SAVE, arguments) == ""
                assert state() != before
                if place == "marked":
                    assert "other" in state()["systemTags"]
                if kept == "kept":
                    undo = {"action": "undo", "id": "note1234", "confirm": True}
                    assert await seen.call(MANAGE, undo) == ""
                    assert state() == before
        finally:
            harness.close()
            await remote.close()


@pytest.mark.attack(36)
async def test_a_native_tool_of_a_server_waits_for_a_person_too(tmp_path):
    async with styled() as (remote, state):
        harness = ToolHarness(tmp_path, remote=remote)
        harness.app.cache.versions.limits = NEITHER
        given = {"noteId": "note1234", "content": PLAIN}
        try:
            await harness.sync()
            async with connected(harness.opened, toolset=find_toolset("trilium")) as client:
                seen, before = Seen(client, state, [], harness.app), state()
                await client.call_tool("get_note_content", {"noteId": "note1234"})
                said = await seen.tell("update_note_content", given | {"confirm": True})
                assert ("approve" in said, state()) == (True, before)
                seen.approve(said)
                assert await seen.tell("update_note_content", given) == ""
                assert state()[0] == PLAIN
        finally:
            harness.close()
            await remote.close()


async def test_items_in_a_form_that_is_not_known_are_not_taken_away_in_silence(tmp_path):
    async with opened(tmp_path, "memento", NEITHER) as seen:
        MementoFile(tmp_path / "dev.db").run("UPDATE \"Note\" SET checkItems = 'milk, eggs'")
        before = seen.state()
        said = await seen.call("update_note", {"checkItems": [{"id": "a", "text": "x"}]})
        assert "items of the checklist" in said
        assert seen.state() == before


@asynccontextmanager
async def trilium():
    async with TriliumSimulator().serving() as sim:
        sim.write("note1234", "Plan", "<p>first line</p><p>second line</p>")
        sim.document.set_attribute("attr1234", "note1234", "label", "old", "")
        yield open_trilium(sim), lambda: (sim.document.notes["note1234"].title, sim.document.notes["note1234"].content, len(sim.document.attributes))  # fmt: skip


@asynccontextmanager
async def simplenote():
    async with Simulator().serving() as sim:
        sim.put("note1234", content=TEXT, tags=["old"], systemTags=[], deleted=False)
        yield open_simplenote(sim), lambda: dict(sim.bucket().read("note1234").value)


SERVERS = {"trilium": trilium, "simplenote": simplenote}
SERVED = [
    *((store, arguments) for store in SERVERS for arguments in (
        {"text": "other"}, {"find": "first", "replace": ""}, {"tags": []}, {"prepend": "zeroth"}
    )),
    ("trilium", {"title": "Other"}),
]  # fmt: skip


@pytest.mark.parametrize("limits", [NEITHER, SMALL], ids=["no days", "no room"])
@pytest.mark.parametrize(("store", "arguments"), SERVED, ids=str)
async def test_what_a_server_keeps_for_some_time_is_no_way_back(tmp_path, store, arguments, limits):
    """Simplenote drops revisions after sixty more, Trilium after as many as an option of its own says."""
    async with SERVERS[store]() as (remote, state):
        harness = ToolHarness(tmp_path, remote=remote)
        harness.app.cache.versions.limits = limits
        await harness.sync()
        toolset = find_toolset("titled" if store == "trilium" else "notarium")
        async with connected(harness.opened, toolset=toolset) as client:
            seen, before = Seen(client, state, [], harness.app), state()
            takes = "prepend" not in arguments
            said = await seen.call(SAVE, arguments)
            assert ("cannot be brought back" in said, state() == before) == (takes, takes)
            if takes:
                seen.approve(said)
                assert await seen.call(SAVE, arguments) == ""
            assert state() != before
        harness.close()
        await remote.close()


async def test_links_in_other_notes_are_not_taken_away_in_silence(tmp_path):
    async with opened(tmp_path, "vault", NEITHER, files={"other.md": "see [[n1]]\n"}) as seen:
        before = seen.state()
        note = {"id": "n1.md", "title": "n2"}
        version = (await seen.client.call_tool("get", {"id": "n1.md"})).structured_content
        note["local_version"] = version["local_version"]
        note["rewrite_links"] = True
        said = await seen.tell(SAVE, note)
        assert "Change links in 1 other note? What they were cannot be brought back." in said
        assert seen.state() == before
        seen.approve(said)
        assert await seen.tell(SAVE, note) == ""
        assert seen.state()["other.md"] == "see [[n2]]\n"
