"""The schemas: flat enough for every client, small enough for every session, honest about tools."""

import json
import re
from typing import get_args

import pytest
from pydantic import ValidationError

from mcp_notarium.domain.note import MARKS
from mcp_notarium.domain.policy import PERMISSIVE, Policy
from mcp_notarium.stores import registry
from mcp_notarium.tools import manage
from mcp_notarium.tools.answers import (
    AttachmentAnswer,
    ListAnswer,
    NoteAnswer,
    NotesAnswer,
    OldNoteAnswer,
    SavedAnswer,
)
from mcp_notarium.tools.catalog import (
    INSTRUCTIONS,
    NOTARIUM,
    TOOLS,
    describe_arguments,
    wire_form,
)
from mcp_notarium.tools.requests import GetRequest, ListRequest, ManageRequest, SaveRequest
from mcp_notarium.tools.toolsets import find_toolset

LISTED = [wire_form(tool) for tool in TOOLS]
FORBIDDEN = {"$ref", "$defs", "oneOf", "anyOf", "allOf", "not", "if", "then", "else", "title"}
TYPES = {"object", "array", "string", "integer", "number", "boolean"}
BYTES_PER_TOKEN = 3.78  # 5,664 bytes of it are 1,498 tokens by o200k


def nodes(schema, path="$"):
    """Every schema inside a schema, itself included."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")


def schemas():
    for tool in LISTED:
        yield from nodes(tool["inputSchema"], tool["name"])


@pytest.mark.parametrize(("path", "schema"), list(schemas()))
def test_every_schema_is_flat_typed_and_without_noise(path, schema):
    assert not FORBIDDEN & schema.keys(), path
    assert schema["type"] in TYPES, path
    assert schema.get("default", 0) is not None, path
    assert "x-quiet" not in schema, path
    free = "outputSchema" in path or path == "manage.properties"  # names of any kind
    assert schema["type"] != "object" or schema.get("properties") or free, path
    assert schema["type"] != "array" or "items" in schema, path


def test_roots_are_objects_and_required_arguments_exist():
    for tool in LISTED:
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        required = set(tool["inputSchema"].get("required", ()))
        assert required <= tool["inputSchema"]["properties"].keys()


ANSWERS = {
    "list": (ListAnswer,),
    "get": (NoteAnswer, OldNoteAnswer, NotesAnswer, AttachmentAnswer),
    "save": (SavedAnswer,),
    "manage": get_args(manage.Answers),
}


def test_output_schemas_name_every_field_that_can_appear():
    """Typed clients drop a field that is not named."""
    for tool in LISTED:
        fields = {field for model in ANSWERS[tool["name"]] for field in model.model_fields}
        named = {name: {} for name in fields}
        assert tool["outputSchema"] == {"type": "object", "properties": named}
        assert {"begin_untrusted", "untrusted_end", "note"} <= fields


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.name)
def test_tool_list_costs_at_most_1500_tokens_with_every_store(kind):
    name = "with_paths" if kind.ids.paths else "titled" if kind.titles else "notarium"
    toolset = find_toolset(name).permitted(PERMISSIVE, kind.lacking)
    listed = [wire_form(tool) for tool in toolset.tools]
    size = len(json.dumps({"tools": listed}, separators=(",", ":"), ensure_ascii=False).encode())
    assert size / BYTES_PER_TOKEN <= 1500


@pytest.mark.parametrize("kind", registry.kinds(), ids=lambda kind: kind.name)
def test_what_a_store_lacks_leaves_the_rest_of_each_description(kind):
    for tool in NOTARIUM.permitted(PERMISSIVE, kind.lacking).tools:
        assert wire_form(tool)["description"] == tool.description


def test_instructions_stay_below_two_kilobytes():
    assert len(INSTRUCTIONS.encode()) < 2048


def test_names_and_descriptions_fit_every_client():
    for tool in LISTED:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,32}", tool["name"])
        assert 40 < len(tool["description"]) < 1024


def test_every_hint_that_means_something_is_set_and_true():
    reads = {"readOnlyHint": True, "openWorldHint": False}
    writes = {"readOnlyHint": False, "destructiveHint": True}
    assert {tool["name"]: tool["annotations"] for tool in LISTED} == {
        "list": reads,
        "get": reads,
        "save": writes,  # not idempotent and open world: so are tools that do not say
        "manage": writes,
    }


SEED_INPUT = {
    "list": "query tags trash_status date_before date_after sort_by sort_order limit page",
    "get": "id local_version range_line_start range_line_count",
    "save": "id local_version server_version text text_patch tags trash",
    "manage": "action id local_version",
}


@pytest.mark.parametrize("tool", LISTED, ids=lambda tool: tool["name"])
def test_every_argument_of_the_contract_is_there(tool):
    assert set(SEED_INPUT[tool["name"]].split()) <= tool["inputSchema"]["properties"].keys()


@pytest.mark.parametrize("model", [ListRequest, GetRequest, SaveRequest, ManageRequest])
def test_unknown_arguments_are_refused(model):
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"id": "x", "action": "trash", "querry": "x"})
    assert any(error["type"] == "extra_forbidden" for error in caught.value.errors())


def test_null_means_not_given():
    nulls = dict.fromkeys(ListRequest.model_fields) | {"limit": None}
    request = ListRequest.model_validate(nulls)
    assert request.model_dump(exclude={"limit"}) == ListRequest().model_dump(exclude={"limit"})
    save = SaveRequest.model_validate(dict.fromkeys(SaveRequest.model_fields))
    assert save == SaveRequest()


@pytest.mark.parametrize("sent", ["3", 3.0, "3.0", 3])
def test_whole_numbers_are_taken_as_agents_send_them(sent):
    request = GetRequest.model_validate(
        {"id": "x", "local_version": sent, "range_line_start": sent}
    )
    assert (request.local_version, request.range_line_start) == (3, 3)


@pytest.mark.parametrize("sent", [True, 3.5, "three", [3], {"a": 3}])
def test_what_is_no_whole_number_is_refused(sent):
    with pytest.raises(ValidationError):
        GetRequest.model_validate({"id": "x", "local_version": sent})


@pytest.mark.parametrize(
    "sent", [("true", True), (" False ", False), ("", None), (0, None), ([], None)]
)
def test_a_flag_may_arrive_as_text_or_as_an_empty_value(sent):
    value, meant = sent
    assert SaveRequest.model_validate({"text": "x", "trash": value}).trash is meant
    assert ManageRequest.model_validate({"action": "undo", "confirm": value}).confirm is meant


@pytest.mark.parametrize("sent", [1, "yes", "1", 0.5, [True]])
def test_what_is_no_flag_is_refused(sent):
    with pytest.raises(ValidationError):
        SaveRequest.model_validate({"text": "x", "trash": sent})
    with pytest.raises(ValidationError):
        ManageRequest.model_validate({"action": "reset_cache", "confirm": sent})


def test_lists_may_arrive_as_json_text():
    patch = '[{"operation": "deletion", "line_number": "2"}]'
    request = SaveRequest.model_validate({"id": "x", "tags": '["a", "b"]', "text_patch": patch})
    assert request.tags == ["a", "b"]
    assert request.text_patch
    assert request.text_patch[0].line_number == 2


@pytest.mark.parametrize("sent", ["a,[b", ",", "[a", "[" * 100_000, '{"a": 1}', 7, [["a"]], [True]])
def test_what_is_no_list_is_refused(sent):
    with pytest.raises(ValidationError):
        SaveRequest.model_validate({"text": "x", "tags": sent})


def test_one_tag_may_arrive_as_text():
    assert SaveRequest.model_validate({"text": "x", "tags": "work"}).tags == ["work"]
    assert ListRequest.model_validate({"tags": "two words"}).tags == ["two words"]


@pytest.mark.parametrize("model", [GetRequest, SaveRequest, ManageRequest])
def test_an_id_may_arrive_under_the_name_that_rows_have(model):
    more = {"action": "trash"} if model is ManageRequest else {}
    assert model.model_validate({"uuid": "x", **more}).id == "x"
    with pytest.raises(ValidationError, match="uuid"):
        model.model_validate({"id": "x", "uuid": "y", **more})
    assert "uuid" not in model.model_json_schema()["properties"]


def test_the_case_of_a_sort_order_and_a_limit_beyond_the_maximum_are_taken():
    request = ListRequest.model_validate({"sort_order": "desc", "limit": 1000})
    assert (request.sort_order, request.limit) == ("DESC", 1000)


@pytest.mark.parametrize(
    ("model", "bad"),
    [
        (ListRequest, {"limit": -1}),
        (ListRequest, {"page": -1}),
        (ListRequest, {"preview_lines": -1}),
        (ListRequest, {"trash_status": 3}),
        (ListRequest, {"date_before": "2024-1-1"}),
        (ListRequest, {"date_after": "today"}),
        (ListRequest, {"date_before": "2024-02-31"}),
        (ListRequest, {"sort_by": "text"}),
        (ListRequest, {"sort_order": "newest"}),
        (GetRequest, {}),
        (GetRequest, {"id": ""}),
        (GetRequest, {"id": "x" * 1025}),
        (GetRequest, {"id": "x", "range_line_start": -1}),
        (GetRequest, {"id": "x", "range_line_count": -1}),
        (SaveRequest, {"text_patch": [{"operation": "delete", "line_number": 1}]}),
        (SaveRequest, {"text_patch": [{"operation": "deletion", "line_number": 0}]}),
        (ManageRequest, {"action": "explode"}),
        (ManageRequest, {}),
    ],
)
def test_values_outside_the_contract_are_refused(model, bad):
    with pytest.raises(ValidationError):
        model.model_validate(bad)


def test_validation_errors_do_not_repeat_what_was_sent():
    with pytest.raises(ValidationError) as caught:
        SaveRequest.model_validate({"text": ["my secret diary"], "tags": "my, secret, diary"})
    assert "diary" not in str(caught.value)


def test_a_hint_names_the_fields_inside_a_field_and_only_what_there_is():
    save, manage = (tool for tool in TOOLS if not tool.read_only)
    every = ", ".join(f"{name} (true|false)" for name in MARKS)
    assert f"properties {{{every}}}" in describe_arguments(save, ["properties"])
    assert "value}]" in describe_arguments(save, ["tags", "text_patch"])
    assert "(trash|untrash|" in describe_arguments(manage, ["action"])
    lacking = {*MARKS, "trash", "untrash"} - {"pinned"}
    offered = NOTARIUM.permitted(Policy(), lacking).by_name()
    assert "properties {pinned (true|false)}" in describe_arguments(offered["save"], ["properties"])
    names = describe_arguments(offered["save"], ["note"]).split(", ")
    assert names[:3] == ["id", "local_version", "server_version"]
    assert "trash" not in names
    assert "trash|" not in describe_arguments(offered["manage"], ["action"])
