"""Handle ``manage find_duplicates``: group the visible notes that say the same."""

from __future__ import annotations

import asyncio
from math import ceil
from typing import TYPE_CHECKING

from mcp_notarium.domain.lines import shorten
from mcp_notarium.domain.policy import Field
from mcp_notarium.tools.answers import Duplicate, DuplicateNote, DuplicatesAnswer
from mcp_notarium.tools.call_context import CallContext
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.sync_notice import sync_part, wait_for_notes

if TYPE_CHECKING:
    from mcp_notarium.app import App

MOST_GROUPS = 20
MOST_NOTES = 10
"""Notes of a group that are named; ``count`` has all of them."""


async def find(app: App, request: ManageRequest, call: CallContext) -> DuplicatesAnswer:
    """Return one page of groups, the largest first. Other calls are answered between two slices.

    Raises ``NotPermitted`` if texts are hidden: which are equal would reveal them.
    """
    del call  # a read asks the user nothing
    app.config.policy.require_filter(Field.TEXT)
    status = await wait_for_notes(app)
    hashes: dict[bytes, list[int]] = {}
    for _ in app.library.collect_hashes(hashes):
        await asyncio.sleep(0)
    groups = sorted((keys for keys in hashes.values() if len(keys) > 1), key=_order)
    size, page = app.usage_limits.limit_rows(MOST_GROUPS), request.page or 1
    shown = groups[(page - 1) * size : page * size]
    return DuplicatesAnswer(
        duplicates=[made for keys in shown if (made := _group(app, keys)) is not None],
        total=len(groups),
        next_page=page + 1 if page < ceil(len(groups) / size) else None,
        sync=sync_part(status, now=app.clock()),
    )


def _order(keys: list[int]) -> tuple[int, int]:
    return -len(keys), keys[0]


def _group(app: App, keys: list[int]) -> Duplicate | None:
    """Return a group on the wire; None if its notes have gone meanwhile."""
    twins = app.library.read_twins(keys)
    if not twins:
        return None
    title = " ".join((twins[0].title or "").split())
    return Duplicate(
        title=shorten(title) if title else twins[0].head,
        count=len(twins),
        notes=[
            DuplicateNote(id=twin.id, local_version=twin.local_version)
            for twin in twins[:MOST_NOTES]
        ],
    )
