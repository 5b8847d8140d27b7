"""Generate JSON Schemas that every client accepts: flat, without references, unions or noise.

Some clients refuse a whole tool list for one ``$ref`` or ``anyOf``, and a model reads every byte in
every session. So titles and empty defaults are removed; answers show neither what is required nor
their ``QUIET`` fields. ``additionalProperties`` is removed too: some model services refuse it. Nothing
here checks a value; the models do that, and they refuse unknown arguments.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

QUIET: dict[str, Any] = {"x-quiet": True}
"""``Field(json_schema_extra=QUIET)``: the field is sent if it applies, but not shown in the schema."""


class _Flat(GenerateJsonSchema):
    """Generate as pydantic does, but read ``None`` as "not given" instead of a union."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        made = super().default_schema(schema)
        if made.get("default", ...) is None:
            del made["default"]
        return made


def request_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments. Lower bounds are obvious (pages and lines begin at 1)."""
    schema: dict[str, Any] = _without(_flat(model), "minimum")
    return schema


def answer_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's answer: every answer fits it, and further fields are allowed."""
    schema: dict[str, Any] = _without(_flat(model), "required")
    return schema


def full_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the flat schema with everything in it, for the documentation."""
    return _flat(model, quiet=True)


def _flat(model: type[BaseModel], *, quiet: bool = False) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_Flat)
    definitions = schema.pop("$defs", {})
    del schema["description"]
    inlined = _inline(schema, definitions)
    if not quiet:
        inlined = _without_quiet(inlined)
    flat: dict[str, Any] = _without(inlined, "additionalProperties")
    return flat


def _inline(node: Any, definitions: dict[str, Any]) -> Any:
    """Return ``node`` with every reference replaced and titles dropped, at any depth."""
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        node = dict(node)
        target = dict(definitions[node.pop("$ref").rsplit("/", 1)[1]])
        del target["description"]
        node = target | node
    return {
        key: {name: _inline(field, definitions) for name, field in value.items()}
        if key == "properties"
        else _inline(value, definitions)
        for key, value in node.items()
        if key != "title"
    }


def _without_quiet(node: Any) -> Any:
    """Return ``node`` without the fields marked ``QUIET``, at any depth."""
    if isinstance(node, list):
        return [_without_quiet(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {
            name: _without_quiet(field) for name, field in value.items() if "x-quiet" not in field
        }
        if key == "properties"
        else _without_quiet(value)
        for key, value in node.items()
    }


def _without(node: Any, word: str) -> Any:
    """Return ``node`` without the keyword ``word``, at any depth; fields of that name stay."""
    if isinstance(node, list):
        return [_without(item, word) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _without(field, word) for name, field in value.items()}
        if key == "properties"
        else _without(value, word)
        for key, value in node.items()
        if key != word
    }
