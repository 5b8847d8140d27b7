"""Tell which links a new name of a note breaks, and rewrite them if the caller wants that.

Only links that would mean no note or another one change, in notes that the caller may see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import InvalidRequest, NotPermitted
from mcp_notarium.markup.obsidian_links import count_links, rewrite_links

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.markup.obsidian_links import Changes
    from mcp_notarium.sync.writer import Saved

MOST_NAMED = 10
"""Notes that an error or an answer names."""


@dataclass(frozen=True, slots=True)
class LinkChanges:
    """Hold what a new name of a note changes elsewhere."""

    links: Mapping[str, Changes] = field(default_factory=dict)
    """Say what links in other notes become."""
    cards: Mapping[str, int | None] = field(default_factory=dict)
    """Count the cards that show the note in each canvas; None: that cannot be read."""

    @property
    def canvases(self) -> list[str]:
        """Return the canvases with such cards."""
        return [one for one, count in self.cards.items() if count]

    def describe(self, saved: Saved) -> tuple[str, str]:
        """Return what to say of rewritten links and of canvases; each '' if there is nothing."""
        return _describe_links(saved, self.links), _describe_cards(saved, self.cards)


async def with_links(
    app: App, note: Note, content: Content, *, wanted: bool | None
) -> tuple[Content, LinkChanges]:
    """Return the content with the note's own links rewritten, and what changes elsewhere.

    ``wanted`` False: no link is to be changed. Raises ``InvalidRequest`` if links would break and None says what to
    do, and ``NotPermitted`` for more writes than are permitted.
    """
    if wanted is False:
        return content, LinkChanges()
    cards = await app.library.find_cards(note, content)
    links = await app.library.find_broken_links(note, content)
    readable = {one: count for one, count in cards.items() if count}
    if not links and not readable:
        return content, LinkChanges({}, cards)
    if wanted is None:
        raise _ask_error(app, links, readable)
    own = links.pop(note.id, None)
    left = app.usage_limits.writes_left
    others = len(links) + len(readable)
    if left is not None and left <= others:
        raise NotPermitted(
            f"The new name means a change of {others + 1} notes and canvases; {left} more may be changed now.",
            details={"notes": others + 1, "left": left},
            resolution_hint="Tell the user, who can rename it in their editor, or save it with `rewrite_links`: false.",
        )
    text = rewrite_links(content.text, own) if own else content.text
    return (replace(content, text=text) if own else content), LinkChanges(links, cards)


def _ask_error(app: App, links: Mapping[str, Changes], cards: Mapping[str, int]) -> InvalidRequest:
    counts = {one: count for one in links if (count := _count(app, one, links[one]))}
    total = sum(counts.values()) + sum(cards.values())
    places = [_number(len(counts), "note")] if counts or not cards else []
    places += [_canvases(len(cards))] if cards else []
    return InvalidRequest(
        f"The new name would break {_number(total, 'link')} in {' and '.join(places)}; nothing was saved.",
        subcategory="links_would_break",
        http_status_code=409,
        details={"links": total, "notes": len(counts), "ids": list(counts)[:MOST_NAMED]}
        | ({"canvases": len(cards)} if cards else {}),
        resolution_hint="Repeat the call with `rewrite_links`: true to change these links, and no others, as well; "
        "with false to leave them.",
    )


def _count(app: App, note_id: str, changes: Changes) -> int:
    note = app.library.get(note_id)
    return 0 if note is None else count_links(note.text, changes)


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _canvases(count: int) -> str:
    return f"{count} {'canvas' if count == 1 else 'canvases'}"


def _describe_cards(saved: Saved, cards: Mapping[str, int | None]) -> str:
    """Return what to say of the canvases that show the note, without their names; '' of none."""
    done = len(saved.canvases)
    said = [f"Cards were rewritten in {_canvases(done)}."] if done else []
    if waiting := len(saved.canvases_waiting):
        said.append(f"In {_canvases(waiting)} the next sync does it.")
    if left := len(cards) - done - waiting:
        said.append(
            f"Left alone, for it could not be read or written as a canvas: {_canvases(left)}."
        )
    return " ".join(said)


def _describe_links(saved: Saved, links: Mapping[str, Changes]) -> str:
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
