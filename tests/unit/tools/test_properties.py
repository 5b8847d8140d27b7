"""Properties: shown where they are set, set by `save` one by one, pinned by `manage`."""

import pytest

from mcp_notarium.domain.note import MARKS
from mcp_notarium.errors import InvalidRequest, VersionConflict
from mcp_notarium.stores import registry
from mcp_notarium.stores.contract import Acknowledgement, PushStatus
from mcp_notarium.stores.kind import traits_of
from mcp_notarium.stores.local.store import LocalStore
from mcp_notarium.stores.simplenote.store import SimplenoteStore
from mcp_notarium.stores.trilium.store import TriliumStore
from mcp_notarium.tools import get, list, manage, save  # noqa: A004 - the tools are called so
from mcp_notarium.tools.requests import (
    GetRequest,
    ListRequest,
    ManageRequest,
    PropertyChanges,
    SaveRequest,
)
from support.tool_harness import ToolHarness

pytestmark = pytest.mark.anyio


async def saved(harness, **arguments):
    return await save.handle(harness.app, SaveRequest(**arguments), harness.caller)


def test_every_property_of_a_store_has_a_field():
    known = frozenset().union(*(kind.properties for kind in registry.kinds()))
    assert known == {*MARKS}
    assert (*PropertyChanges.model_fields,) == MARKS


@pytest.mark.parametrize("store", [SimplenoteStore, LocalStore, TriliumStore])
def test_what_a_kind_says_before_its_store_is_open_is_true(store):
    package = store.__module__.split(".")[2]
    (kind,) = (kind for kind in registry.kinds() if kind.name == package)
    assert traits_of(kind) == traits_of(store.traits)


def shown(answer):
    return answer.model_dump(exclude_none=True).get("properties")


async def managed(harness, action, **arguments):
    request = ManageRequest(action=action, **arguments)
    return await manage.handle(harness.app, request, harness.caller)


async def noted(harness, properties=()):
    harness.store.put("n", "text")
    harness.store.overwrite("n", harness.store.fields("n") | {"properties": sorted(properties)})
    await harness.sync()
    harness.remote.calls.clear()
    return harness.app.cache.notes.get("n").local_version


async def test_what_is_set_is_shown_and_nothing_else(harness):
    await noted(harness, {"pinned", "theirs"})
    harness.store.put("plain", "text")
    await harness.sync()
    answer = await list.handle(harness.app, ListRequest(), harness.caller)
    assert {row.uuid: shown(row) for row in answer.content} == {
        "n": {"pinned": True},
        "plain": None,
    }
    for note_id, expected in (("n", {"pinned": True}), ("plain", None)):
        note = await get.handle(harness.app, GetRequest(id=note_id), harness.caller)
        assert shown(note) == expected


async def test_save_changes_the_given_properties_alone(harness):
    made = await saved(harness, text="t", properties={"markdown": True})
    assert shown(made) == {"markdown": True}
    version = {"id": made.id, "local_version": made.local_version}
    after = await saved(harness, **version, properties={"pinned": True})
    assert (after.changed, shown(after)) == (None, {"markdown": True, "pinned": True})
    version["local_version"] = after.local_version
    assert (await saved(harness, **version, properties={"pinned": True})).unchanged
    after = await saved(harness, **version, properties='{"pinned": false}')
    assert shown(after) == {"markdown": True}
    assert harness.store.fields(made.id)["properties"] == ["markdown"]
    with pytest.raises(InvalidRequest):
        await saved(harness, id=made.id, local_version=after.local_version, properties={})
    with pytest.raises(InvalidRequest, match="no property colour"):
        await saved(harness, text="t", properties={"colour": True})


async def test_pin_and_unpin_change_the_pin_alone_and_ask_nobody(harness):
    version = await noted(harness, {"theirs"})
    pinned = await managed(harness, "pin", id="n", local_version=version)
    assert (pinned.id, pinned.status) == ("n", "pinned")
    assert harness.store.fields("n")["properties"] == ["pinned", "theirs"]
    again = await managed(harness, "pin", id="n", local_version=pinned.new_local_version)
    assert (again.status, again.new_local_version) == ("pinned", pinned.new_local_version)
    assert "already" in again.note
    back = await managed(harness, "unpin", id="n", local_version=pinned.new_local_version)
    assert (back.status, harness.store.fields("n")["properties"]) == ("unpinned", ["theirs"])
    assert harness.caller.asked == []


async def test_a_pin_needs_no_version_and_overwrites_no_text(harness):
    await noted(harness)
    harness.store.edit("n", lambda text: text + " that came meanwhile")
    assert (await managed(harness, "pin", id="n")).status == "pinned"
    assert harness.store.text("n") == "text that came meanwhile"
    assert (await managed(harness, "unpin", id="n")).status == "unpinned"
    with pytest.raises(InvalidRequest, match="`pin` needs `id`"):
        await managed(harness, "pin")
    with pytest.raises(InvalidRequest, match="needs `local_version`"):
        await managed(harness, "trash", id="n")


async def test_a_store_that_drops_the_pin_is_no_success(harness):
    version = await noted(harness)

    async def keeps_nothing(write):
        return Acknowledgement(await harness.remote.get(write.note_id), PushStatus.REPEATED)

    harness.remote.push = keeps_nothing
    with pytest.raises(VersionConflict, match="is not pinned"):
        await managed(harness, "pin", id="n", local_version=version)


async def test_a_store_without_pins_says_so(tmp_path):
    harness = ToolHarness(tmp_path, properties=frozenset())
    harness.store.put("n", "text")
    await harness.sync()
    with pytest.raises(InvalidRequest, match="no property pinned"):
        await managed(harness, "pin", id="n", local_version=1)
    assert harness.remote.calls.count("push") == 0
    harness.close()
