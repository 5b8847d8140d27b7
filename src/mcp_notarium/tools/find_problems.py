"""Handle ``manage find_problems``: broken links, notes without links or tags, files that nothing links to.

It answers from the index, and asks a store with folders which other files there are. Nothing that the policy hides is in it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mcp_notarium.domain.policy import Field
from mcp_notarium.markup.obsidian_links import find_links
from mcp_notarium.tools.answers import Problem, ProblemsAnswer
from mcp_notarium.tools.requests import ManageRequest
from mcp_notarium.tools.sync_notice import sync_part, wait_for_notes
from mcp_notarium.tools.tool import CallContext

if TYPE_CHECKING:
    from mcp_notarium.app import App

MOST_PROBLEMS = 100
"""Rows of one page, of all kinds together."""
_KINDS = 4
_CANVAS_ENDINGS = (".canvas", ".base")
"""Files of the notes' app that stand for themselves: nothing needs to link to one."""


async def find_problems(app: App, request: ManageRequest, _call: CallContext) -> ProblemsAnswer:
    """Return one page of broken links, notes without links, without tags, and files that nothing links to.

    Other calls are answered meanwhile. A part that the policy hides is not looked at; raises ``NotPermitted`` if no other
    is left, and what ``wait_for_notes`` and the store raise.
    """
    policy, paths = app.config.policy, app.library.traits.ids.paths
    if policy.hides(Field.TAGS) and (policy.hides(Field.TEXT) or not paths):
        policy.require_filter(Field.TAGS)
    status = await wait_for_notes(app)
    size, page = max(1, app.usage_limits.limit_rows(MOST_PROBLEMS) // _KINDS), request.page or 1
    start, end = (page - 1) * size, page * size
    rows: list[Problem] = []
    totals: dict[str, int] = {}
    if paths and not policy.hides(Field.TEXT):
        found, steps = await app.library.paths.survey_links()
        for _ in steps:
            await asyncio.sleep(0)
        broken = [(one, target, False) for one, target in found.broken]
        # defence: canvas-links-untold =True
        if not policy.visibility.has_rules:  # no note shows what a canvas says
            broken += [(one, target, True) for one, target in dict.fromkeys(found.canvases)]
        rows += [
            Problem(kind="broken_link", file=one, link=target)
            if is_canvas
            else _broken(app, one, target)
            for one, target, is_canvas in broken[start:end]
        ]
        rows += [Problem(kind="no_links", id=one) for one in found.orphans[start:end]]
        totals = {"broken_link": len(broken), "no_links": len(found.orphans)}
        # defence: hidden-note-files-untold =True
        if not policy.visibility.hides_beside_seen:
            files = [one for one in found.unlinked if not one.lower().endswith(_CANVAS_ENDINGS)]
            rows += [Problem(kind="unlinked_file", file=one) for one in files[start:end]]
            totals["unlinked_file"] = len(files)
    if not policy.hides(Field.TAGS) and app.library.traits.tags:
        ids, totals["no_tags"] = app.library.find_untagged(limit=size, offset=start)
        rows += [Problem(kind="no_tags", id=one) for one in ids]
    return ProblemsAnswer(
        problems=rows,
        totals=totals,
        next_page=page + 1 if any(total > end for total in totals.values()) else None,
        sync=sync_part(status, now=app.clock()),
    )


def _broken(app: App, note_id: str, target: str) -> Problem:
    """Return a broken link with the line where it first stands, if the note has not changed meanwhile."""
    note = app.library.get(note_id)
    text = "" if note is None else note.text
    place = next((one.start for one in find_links(text) if one.target == target), None)
    line = None if place is None else text.count("\n", 0, place) + 1
    return Problem(kind="broken_link", id=note_id, link=target, line=line)
