"""Test each kind of value for each argument of each tool, ours and the native ones: a new argument has its rows at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter

from mcp_notarium.tools.requests import _Field, _fields, read_arguments
from mcp_notarium.tools.toolsets import find_toolset
from notarium_devtools.static_replies import toolset_names


def requests() -> dict[str, type[BaseModel]]:
    """Return the request of each tool of each toolset."""
    return {
        f"{toolset.removesuffix('_both')} {tool.name}": tool.request
        for toolset in toolset_names()
        for tool in find_toolset(toolset).tools
        if not toolset.endswith("_both")
    }


REQUESTS = requests()
FIELDS = [
    pytest.param(tool, field, id=f"{tool} {field.names[0]}")
    for tool, model in REQUESTS.items()
    for field in _fields(model)
]
MEANT = {
    "text", "title", "tags", "append", "prepend", "replace", "value", "content", "checkItems", "labels", "images",
}  # fmt: skip
"""Arguments whose emptiness may say something."""


def read(tool: str, field: _Field, value: Any) -> Any:
    """Return what the request gets of one argument; ``...``: nothing."""
    return read_arguments(REQUESTS[tool], {field.names[-1]: value}).get(field.names[-1], ...)


def as_sent(kind: Any) -> Iterator[tuple[Any, Any]]:
    """Yield values as they are sent for an argument of this type, and what is meant."""
    if kind is bool:
        yield from (("true", True), ("False", False), (" TRUE ", True))
    elif kind is int:
        yield from (("3", 3), (3.0, 3), (" 3 ", 3))
    elif kind is str:
        yield from ((2024, "2024"), (7.0, "7"), (1.5, "1.5"))
    elif get_origin(kind) is Literal:
        first = get_args(kind)[0]
        yield from ((first, first), (str(first).upper(), first), (f" {first} ", first))
    elif get_origin(kind) is list and get_args(kind)[0] is str:
        yield from (('["a", "b"]', ["a", "b"]), ([1, "b"], ["1", "b"]))


@pytest.mark.parametrize(("tool", "field"), FIELDS)
def test_a_value_is_taken_in_each_form_in_which_it_is_sent(tool: str, field: _Field) -> None:
    for sent, meant in as_sent(field.kind):
        assert TypeAdapter(field.kind).validate_python(read(tool, field, sent)) == meant, sent


@pytest.mark.parametrize(("tool", "field"), FIELDS)
def test_a_placeholder_is_nothing_where_emptiness_means_nothing(tool: str, field: _Field) -> None:
    if field.required:
        return
    for blank in (None, "", "  ", [], {}):
        kept = read(tool, field, blank)
        if field.empty is None and not (field.kind is str and blank == "  "):
            assert kept is ..., blank
        elif blank is None:
            assert (kept is None) == (field.empty is not None and field.empty.null)


def test_only_these_arguments_may_be_empty_on_purpose() -> None:
    """An argument that is new and can take something away by its emptiness is looked at before it is here."""
    marked = {row.values[1].names[0] for row in FIELDS if row.values[1].empty is not None}  # type: ignore[union-attr]
    assert marked <= MEANT, marked - MEANT
