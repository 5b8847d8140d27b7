"""Tell which links a new name of a note, or of a heading, breaks, and rewrite them if the caller wants that.

Only links that would mean no note or another one change, in notes that the caller may see.

As Obsidian reads it, ``[[Note#Costs]]`` means the first heading of these words, and ``[[Note#Plan#Costs]]`` the first below
one called *Plan*; marks and letter case make no difference. Markdown links have the words encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import InvalidRequest, NotPermitted
from mcp_notarium.markup.obsidian_links import Link, count_links, find_links, rewrite_links
from mcp_notarium.markup.section_names import letters_of
from mcp_notarium.markup.sections import Section, read_sections

if TYPE_CHECKING:
    from mcp_notarium.app import App
    from mcp_notarium.markup.obsidian_links import Changes
    from mcp_notarium.sync.writer import Saved

MOST_NAMED = 10
"""Notes that an error or an answer names."""


_NOT_IN_LINKS = re.compile(r"[#|^\[\]\\]|%%")
_PLAIN = "/!$&'*+,;=:@~"


@dataclass(frozen=True, slots=True)
class LinkChanges:
    """Hold what a new name of a note changes elsewhere."""

    links: Mapping[str, Changes] = field(default_factory=dict)
    """Say what links in other notes become."""
    cards: Mapping[str, int | None] = field(default_factory=dict)
    """Count the cards that show the note, and the links to it, in each canvas; None: that cannot be read."""
    card_links: Mapping[str, Changes] = field(default_factory=dict)
    """Say what links in texts of canvases become."""
    canvases: Mapping[str, Changes] = field(init=False)
    """Hold the canvases that change, each with what links in its texts become."""

    def __post_init__(self) -> None:
        readable = (one for one, count in self.cards.items() if count)
        changes = {one: self.card_links.get(one, {}) for one in readable}
        object.__setattr__(self, "canvases", changes)

    def describe(self, saved: Saved) -> tuple[str, str]:
        """Return what to say of rewritten links and of canvases; each '' if there is nothing."""
        return _describe_links(saved, self.links), _describe_cards(saved, self.cards)


NO_CHANGES = LinkChanges()


async def with_links(
    app: App,
    note: Note,
    content: Content,
    *,
    wanted: bool | None,
    moves: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Content, LinkChanges]:
    """Return the content with the note's own links rewritten, and what changes elsewhere.

    ``wanted`` False: no link is to be changed. ``moves``: the notes that move in the same call, old path and new one. Raises ``InvalidRequest`` if links would break and None says what to
    do, and ``NotPermitted`` for more writes than are permitted.
    """
    if wanted is False:
        return content, NO_CHANGES
    cards = await app.library.paths.find_cards(note, content)
    found = await app.library.paths.find_card_links(note, content)
    for one, (count, _) in found.items():
        cards[one] = (cards.get(one) or 0) + count
    links = await app.library.paths.find_broken_links(note, content)
    if len(moves) > 1:
        links = app.library.paths.still_broken(links, moves)
    content, changes = _follow(app, note, content, links, cards, wanted=wanted, what="name")
    return content, replace(changes, card_links={one: said for one, (_, said) in found.items()})


def with_heading_links(
    app: App, note: Note, content: Content, number: int, *, wanted: bool | None
) -> tuple[Content, LinkChanges]:
    """Return the same for a heading that has other words; ``number`` is that of its section."""
    if wanted is False or note.trash:
        return content, NO_CHANGES
    before, after = read_sections(note.text), read_sections(content.text)
    linked = app.library.paths.find_links(note.id)
    links: dict[str, Changes] = {}
    for source in (note.id, *linked.linked_from):
        other = note if source == note.id else app.library.get(source)
        if other is None:
            continue
        own = {""} if source == note.id else set()
        found = app.library.paths.find_links(source).links
        targets = own | {target for target, to in found if to == note.id}
        text = content.text if source == note.id else other.text
        if changes := find_renamed(text, targets.__contains__, before, after, number):
            links[source] = changes
    return _follow(app, note, content, links, {}, wanted=wanted, what="heading")


def _follow(
    app: App,
    note: Note,
    content: Content,
    links: dict[str, Changes],
    cards: Mapping[str, int | None],
    *,
    wanted: bool | None,
    what: str,
) -> tuple[Content, LinkChanges]:
    """Return the content with the note's own links rewritten, and what else is to be."""
    readable = {one: count for one, count in cards.items() if count}
    if not links and not readable:
        return content, LinkChanges({}, cards)
    if wanted is None:
        raise _ask_error(app, note, content, links, readable, what=what)
    own = links.pop(note.id, None)
    require_writable(app, [*links, *readable])
    left = app.usage_limits.writes_left
    others = len(links) + len(readable)
    if left is not None and left <= others:
        raise NotPermitted(
            f"The new {what} means a change of {others + 1} notes and canvases; {left} more may be changed now.",
            details={"notes": others + 1, "left": left},
            resolution_hint="Tell the user, who can rename it in their editor, or save it with `rewrite_links`: false.",
        )
    text = rewrite_links(content.text, own) if own else content.text
    return (replace(content, text=text) if own else content), LinkChanges(links, cards)


def require_writable(app: App, sources: Iterable[str]) -> None:
    """Raise ``NotPermitted`` if a note or canvas with such links may only be read."""
    scope = app.config.policy.writing
    tags = {one: note.tags for one in sources if (note := app.library.get(one)) is not None}
    closed = [one for one in sources if not scope.permits(one, tags.get(one, ()))]
    if closed:
        error = scope.refusal(
            f"{len(closed)} of the notes and canvases with links to it may only be read here; nothing was saved."
        )
        error.details = {"ids": closed[:MOST_NAMED]}
        error.resolution_hint = (
            f"`rewrite_links`: false leaves these links as they are. {error.resolution_hint}"
        )
        raise error


def _ask_error(
    app: App,
    note: Note,
    content: Content,
    links: Mapping[str, Changes],
    cards: Mapping[str, int],
    *,
    what: str,
) -> InvalidRequest:
    def count(one: str) -> int:
        if one == note.id:
            return count_links(content.text, links[one])
        return _count(app, one, links[one])

    counts = {one: found for one in links if (found := count(one))}
    total = sum(counts.values()) + sum(cards.values())
    places = [_number(len(counts), "note")] if counts or not cards else []
    places += [_canvases(len(cards))] if cards else []
    return InvalidRequest(
        f"The new {what} would break {_number(total, 'link')} in {' and '.join(places)}; nothing was saved.",
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


def find_renamed(
    text: str,
    means: Callable[[str], bool],
    before: Sequence[Section],
    after: Sequence[Section],
    number: int,
) -> dict[Link, str | None]:
    """Return what links in this text become: those to parts of a note whose heading of this number has other words.

    ``means``: tells whether a target is that note, ``before`` and ``after`` are its sections.
    """
    changes: dict[Link, str | None] = {}
    words = " ".join(_NOT_IN_LINKS.sub(" ", after[number].words).split())
    for link in find_links(text, within=True):
        if not link.part or link.part.startswith("^") or not means(link.target):
            continue
        written = link.form != "wiki"
        parts = (unquote(link.part, errors="replace") if written else link.part).split("#")
        keys = [*map(letters_of, parts)]
        meant = _find(before, keys)
        if meant is None or number not in (*meant.within, meant.ordinal):
            continue
        if (_find(after, keys) or before[0]).ordinal == meant.ordinal:
            continue
        old = letters_of(before[number].words)
        new = [words if key == old else part for key, part in zip(keys, parts, strict=True)]
        changes[link.whole] = _write(new, markdown=written) if words else None
    return changes


def _find(sections: Sequence[Section], keys: Sequence[str]) -> Section | None:
    """Return the first section that a link with these words means."""
    for one in sections[1:]:
        if letters_of(one.words) != keys[-1]:
            continue
        above = iter(one.within)
        if all(any(letters_of(sections[at].words) == key for at in above) for key in keys[:-1]):
            return one
    return None


def _write(parts: Sequence[str], *, markdown: bool) -> str:
    return "#".join(quote(part, _PLAIN) if markdown else part for part in parts)
