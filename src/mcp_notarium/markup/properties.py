"""Stub."""

from __future__ import annotations

from typing import Any

import yaml

from mcp_notarium.markup.front_block import find_block
from mcp_notarium.markup.front_matter import NotUnderstood


class BadKey(ValueError):
    """Bad."""


REMOVE: Any = object()


def read_properties(text: str) -> dict[str, Any]:
    block = find_block(text)
    if block is None:
        return {}
    try:
        got = yaml.safe_load(text[block[0] : block[1]]) or {}
    except yaml.YAMLError:
        raise NotUnderstood from None
    return {
        str(k): tuple(map(str, v))
        if isinstance(v, list)
        else (v.isoformat() if hasattr(v, "isoformat") else v)
        for k, v in got.items()
        if k not in ("tags", "tag") and not isinstance(v, dict)
    }


def change_properties(text: str, changes: Any) -> str:
    block = find_block(text)
    got = {} if block is None else yaml.safe_load(text[block[0] : block[1]]) or {}
    for k, v in changes.items():
        if v is REMOVE:
            got.pop(k, None)
        else:
            got[k] = list(v) if isinstance(v, tuple) else v
    body = text if block is None else text[block[2] :]
    return "---\n" + yaml.safe_dump(got, sort_keys=False) + "---\n" + body
