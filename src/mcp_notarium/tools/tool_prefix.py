"""Prefix the names of tools in all that a client reads, and leave out what is switched off. Light: the handshake imports it.

Everything of ours that names a tool writes its plain name between backticks. The plain name is also the
policy's and the audit log's; a prefix exists for the client alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any


def instructions_without(instructions: str, gone: Collection[str]) -> str:
    """Return the instructions without the lines that name a tool that is ``gone``."""
    lines = instructions.split("\n")
    return "\n".join(line for line in lines if not any(f"`{name}`" in line for name in gone))


def form_without(form: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Return an entry of ``tools/list`` without these actions and arguments, and what is said of them."""
    said = form["description"].split("; ")
    kept = [part for part in said if not any(f"`{name}`" in part for name in gone)]
    ending = "" if kept and kept[-1] == said[-1] else "."
    return form | {
        "description": "; ".join(kept) + ending,
        "inputSchema": schema_without(form["inputSchema"], gone),
    }


def schema_without(schema: dict[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """Return a flat schema without these fields and values."""
    fields = {
        name: schema_without(field, gone)
        for name, field in schema.get("properties", {}).items()
        if name not in gone
    }
    values = [value for value in schema.get("enum", ()) if value not in gone]
    rest = {name: value for name, value in schema.items() if name != "properties"}
    return (
        rest
        | ({"properties": fields} if fields or not schema.get("properties", True) else {})
        | ({"enum": values} if "enum" in schema else {})
    )


class ToolNames:
    """Hold what a client calls the tools: a prefix before each plain name."""

    def __init__(self, prefix: str = "", names: Collection[str] = ()) -> None:
        self._prefix = prefix
        self._named = re.compile(f"`({'|'.join(names)})`") if prefix and names else None

    def shown(self, name: str) -> str:
        """Return the name that the client knows for a plain one."""
        return self._prefix + name

    def in_text(self, text: str) -> str:
        """Return a text of ours with the names that the client knows."""
        return text if self._named is None else self._named.sub(rf"`{self._prefix}\1`", text)

    def in_descriptions(self, node: Any) -> Any:
        """Return a JSON value of ours with these names in every ``description``."""
        if self._named is None:
            return node
        if isinstance(node, list):
            return [self.in_descriptions(each) for each in node]
        if not isinstance(node, dict):
            return node
        return {
            key: self.in_text(value)
            if key == "description" and isinstance(value, str)
            else self.in_descriptions(value)
            for key, value in node.items()
        }
