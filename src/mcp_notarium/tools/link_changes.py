"""Tell which links a new name of a note breaks, and rewrite them if the caller wants that.

Only links that would mean no note or another one change, in notes that the caller may see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.link_rewriting import count_links, rewrite_links
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import InvalidRequest, NotPermitted

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.domain.link_rewriting import Changes
    from mcp_notarium.sync.write_sender import Saved

MOST_NAMED = 10
"""Notes that an error or an answer names."""


async def with_links(
    app: App, note: Note, content: Content, *, wanted: bool | None
) -> tuple[Content, dict[str, Changes]]:
    """Return the content with the note's own links rewritten, and what links in other notes become.

    ``wanted`` False: no link is to be changed. Raises ``InvalidRequest`` if links would break and None says what to
    do, and ``NotPermitted`` for more writes than are permitted.
    """
    links = {} if wanted is False else await app.library.find_broken_links(note, content)
    if not links:
        return content, {}
    if wanted is None:
        raise _ask_error(app, links)
    own = links.pop(note.id, None)
    left = app.usage_limits.writes_left
    if left is not None and left <= len(links):
        raise NotPermitted(
            f"The new name means a change of {len(links) + 1} notes; {left} more may be changed now.",
            details={"notes": len(links) + 1, "left": left},
            resolution_hint="Tell the user, who can rename it in their editor, or save it with `rewrite_links`: false.",
        )
    return (replace(content, text=rewrite_links(content.text, own)) if own else content), links


def _ask_error(app: App, links: Mapping[str, Changes]) -> InvalidRequest:
    counts = {one: count for one in links if (count := _count(app, one, links[one]))}
    total = sum(counts.values())
    return InvalidRequest(
        f"The new name would break {_number(total, 'link')} in {_number(len(counts), 'note')}; nothing was saved.",
        subcategory="links_would_break",
        http_status_code=409,
        details={"links": total, "notes": len(counts), "ids": list(counts)[:MOST_NAMED]},
        resolution_hint="Repeat the call with `rewrite_links`: true to change these links, and no others, as well; "
        "with false to leave them.",
    )


def _count(app: App, note_id: str, changes: Changes) -> int:
    note = app.library.get(note_id)
    return 0 if note is None else count_links(note.text, changes)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def describe(saved: Saved, links: Mapping[str, Changes]) -> str:
    """Return what to say of rewritten links: in how many notes, and in which they are left; '' of none."""
    if not links:
        return ""
    said = f"Links were rewritten in {_number(len(saved.relinked), 'other note')}."
    if saved.waiting:
        said += f" In {_number(len(saved.waiting), 'note')} the next sync does it."
    if left := sorted(
        one
        for one, changes in links.items()
        if one not in (*saved.relinked, *saved.waiting) or None in changes.values()
    ):
        said += f" They are left in: {', '.join(left[:MOST_NAMED])}"
        said += f" and {len(left) - MOST_NAMED} more." if left[MOST_NAMED:] else "."
    return said
