"""Test the answers of the four tools, in every store, against the schemas in which they were first written down."""

from typing import Any

import pytest

from mcp_notarium.domain.policy import Field, Policy
from mcp_notarium.tools.toolsets import find_toolset
from support.json_schema import validate
from support.tool_client import connected
from support.tool_harness import ToolHarness
from support.undo_places import PLACES

pytestmark = pytest.mark.anyio
ID = {"type": "string", "minLength": 1}
WHOLE, FLAG, TEXT = {"type": "integer"}, {"type": "boolean"}, {"type": "string"}
TAGS = {"type": "array", "items": TEXT}


def demands(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": required | optional, "required": list(required)}


ROW = demands(
    {
        "type": {"const": "text"},
        "uuid": ID,
        "text": {"type": "string", "minLength": 1, "maxLength": 80},
        "local_version": WHOLE,
        "tags": TAGS,
        "modified_at": WHOLE,
        "trash": FLAG,
    },
    {},
)
LIST = demands({"content": {"type": "array", "items": ROW, "minItems": 1}}, {"next_page": WHOLE})
NOTE = demands(
    {
        "id": ID,
        "local_version": WHOLE,
        "text": TEXT,
        "tags": TAGS,
        "modified_at": WHOLE,
        "trash": FLAG,
    },
    {
        "server_version": WHOLE,
        "created_at": WHOLE,
        "text_is_partial": FLAG,
        "text_total_lines": WHOLE,
        "range_line_start": {"type": "integer", "minimum": 1},
        "range_line_count": {"type": "integer", "minimum": 0},
    },
)
DONE = demands(
    {"id": ID, "status": {"enum": ["trashed", "untrashed", "deleted"]}},
    {"new_local_version": WHOLE, "new_server_version": WHOLE},
)
LINES = [{"operation": "addition", "line_number": 2, "value": "two"}]


@pytest.mark.parametrize("store", ["simplenote", "local", "vault", "trilium", "memento"])
async def test_every_answer_has_what_its_schema_demands(store, tmp_path):
    made = []
    text = "<p>one</p><p>one</p><p>one</p>" if store == "trilium" else "one\n" * 3
    async with PLACES[store](tmp_path, lambda place: made.append(place.put("one", text))) as place:
        [note_id] = made
        for asked in (
            {},
            {
                "trash_status": 2,
                "sort_by": "created_at",
                "sort_order": "ASC",
                "limit": 1,
                "page": 1,
            },
        ):
            validate(await place.call("list", **asked), LIST)
        note = await place.call("get", id=note_id)
        validate(note, NOTE)
        part = await place.call(
            "get",
            id=note_id,
            local_version=note["local_version"],
            range_line_start=2,
            range_line_count=1,
        )
        validate(part, NOTE)
        assert part["range_line_count"] == 1
        versions = {"local_version": note["local_version"]}
        saved = await place.call("save", id=note_id, text_patch=LINES, return_text=True, **versions)
        validate(saved, NOTE)
        if not place.harness.app.library.traits.trash:
            return
        for action in ("trash", "untrash"):
            version = await place.version(note_id)
            done = await place.call("manage", action=action, id=note_id, local_version=version)
            validate(done, DONE)


async def test_a_row_is_whole_where_the_text_is_hidden_or_empty(tmp_path):
    for folder, policy in (("a", Policy()), ("b", Policy(hidden_fields=frozenset({Field.TEXT})))):
        (tmp_path / folder).mkdir()
        harness = ToolHarness(tmp_path / folder, policy=policy)
        harness.store.put("empty", " \n")
        await harness.sync()
        async with connected(harness.opened, toolset=find_toolset("notarium")) as client:
            validate((await client.call_tool("list", {})).structured_content, LIST)
        harness.close()
