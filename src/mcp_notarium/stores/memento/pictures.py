"""Read and add pictures of a note of Memento: each is base64, mostly as a ``data:`` address, in a list of the column ``images``. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any

from mcp_notarium.domain.file_names import UNKNOWN
from mcp_notarium.errors import StoreRejected
from mcp_notarium.stores.extensions import Attachment
from mcp_notarium.stores.memento.note_codec import parse_list, stringify

_DATA = re.compile(r"data:(?P<kind>[\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")
_ADDRESS = re.compile(r"(?!data:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_MOST = 1000
LARGEST = 750 * 1024
"""Bytes of a picture that is added: a note with all of its pictures may have a megabyte in base64."""


def list_pictures(note_id: str, images: Any) -> list[Attachment]:
    """Return the pictures in a value of the column: their ids end with their number, from 1."""
    return [
        Attachment(f"{note_id}/{number}", kind, 3 * (len(data) - data[-2:].count("=")) // 4)
        for number, (kind, data) in enumerate(_pictures(images), 1)
    ]


def read_picture(images: Any, number: str) -> bytes | None:
    """Return the bytes of the picture of this number; None if there is none, it lies elsewhere, or it is no base64."""
    for at, (_, data) in enumerate(_pictures(images), 1):
        if str(at) == number:
            try:
                return base64.b64decode(data, validate=True) or None
            except (binascii.Error, ValueError):
                return None
    return None


def is_elsewhere(images: Any, number: str) -> bool:
    """Tell whether the picture of this number is an address: the note itself holds nothing of it."""
    listed = parse_list(images)
    said = dict(enumerate(map(str, listed), 1)) if isinstance(listed, list) else {}
    return any(str(at) == number and _ADDRESS.match(one) for at, one in said.items())


def add_picture(images: Any, kind: str, data: bytes) -> tuple[int, str]:
    """Return the number of a picture, and the column with it: the last one, or as it was if it is there. Raises ``StoreRejected``."""
    encoded = base64.b64encode(data).decode()
    numbered = enumerate(_pictures(images), 1)
    if (held := next((at for at, (_, said) in numbered if said == encoded), None)) is not None:
        return held, images
    listed = parse_list(images)
    if images not in (None, "", "null") and not isinstance(listed, list):
        raise StoreRejected(
            "the pictures of this note are in a form that is not understood; nothing was saved",
            resolution_hint="The user can add the picture in Memento.",
        )
    return len(listed or ()) + 1, stringify([*(listed or ()), f"data:{kind};base64,{encoded}"])


def _pictures(images: Any) -> Iterator[tuple[str, str]]:
    """Yield kind and base64 of each; what lies elsewhere counts as a picture without bytes."""
    try:
        listed = json.loads(images) if isinstance(images, str) else None
    except (ValueError, RecursionError):
        return
    for one in listed[:_MOST] if isinstance(listed, list) else ():
        said = one if isinstance(one, str) else ""
        if found := _DATA.match(said):
            yield found["kind"] or UNKNOWN, said[found.end() :]
        else:
            yield UNKNOWN, "" if ":" in said[:16] else said
