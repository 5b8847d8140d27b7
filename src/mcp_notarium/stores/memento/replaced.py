"""Find what a body replaces in a row, so that an undo can bring just that back. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from mcp_notarium.errors import VersionConflict
from mcp_notarium.stores.json_answers import to_json
from mcp_notarium.stores.memento.note_codec import (
    EMBEDDING,
    Row,
    Value,
    pack_all,
    parse_list,
    read_change,
    tags_of,
    unpack,
)
from mcp_notarium.stores.reviving import Replaced

_PARTS = {"images": "pictures", "color": "colour", "checkItems": "items of the checklist"}
"""The columns that the content of a note does not say, or not all of."""
_UNSEEN = ("images",)
"""The columns that a write may set and of which the etag does not tell one value from another."""
_NO_IMAGES = (None, "", "[]", "null")
_NO_COLOUR = (None, "", "default")


def touched(body: bytes) -> tuple[str, ...]:
    """Return the columns that a body of an update sets, ``updatedAt`` aside, and those that follow from them."""
    change = read_change(body)
    return (*change.columns, *((EMBEDDING,) if change.rewords else ()))


def find(row: Row, body: bytes) -> Replaced:
    """Return what a body replaces in a row of the columns ``touched``. Raises ``VersionConflict``: see ``find_replaced``."""
    made: dict[str, str] = json.loads(body)["made"]
    if any(_digest(row.get(name)) != digest for name, digest in made.items()):
        raise VersionConflict("the note has changed in Memento since")
    new = {EMBEDDING: None} | read_change(body).columns
    old = {name: value for name, value in row.items() if value != new.get(name)}
    if old.keys() <= {EMBEDDING}:
        return Replaced()
    unseen = {name: _digest(new[name]) for name in _UNSEEN if name in old}
    native = to_json({"columns": pack_all(old), "made": unseen})
    return Replaced(native, tuple(_missed(old, new)))


def name_parts(native: bytes) -> tuple[str, ...]:
    """See ``RevivingStore.name_parts``."""
    columns = json.loads(native)["columns"] if native else {}
    unknown = "labels" in columns and not tags_of(unpack(columns["labels"]))[1]
    named = [name for column, name in _PARTS.items() if column in columns]
    return (*named, *(["labels"] if unknown else []))


def overlay(natives: Sequence[str]) -> str:
    """See ``RevivingStore.overlay``."""
    columns: dict[str, Any] = {}
    for native in natives:
        columns |= json.loads(native)["columns"]
    return to_json({"columns": columns}).decode() if columns else ""


def _missed(old: Row, new: Row) -> Iterator[str]:
    """Name what goes with these values that the content of the note does not say."""
    if old.get("images") not in _NO_IMAGES:
        yield _PARTS["images"]
    if old.get("color") not in _NO_COLOUR:
        yield _PARTS["color"]
    kept = parse_list(new.get("checkItems"))
    kept = kept if isinstance(kept, list) else []
    items = parse_list(old.get("checkItems"))
    if isinstance(items, list) and any(item not in kept for item in items):
        yield _PARTS["checkItems"]
    if "labels" in old and not tags_of(old["labels"])[1]:
        yield "labels"


def _digest(value: Value) -> str:
    said = value if isinstance(value, bytes) else str(value).encode()
    return hashlib.sha256(said).hexdigest()
