"""Decide whether what a change takes from a note can be brought back. Pure: facts in, a loss out.

This is the one rule; every path that changes or removes a note asks it (``tools/consent.py``). A way back is a version that
is kept here. What the store itself keeps is none: it keeps the last so many revisions, and later saves push it out.
What has no way back is lost for good: people have to agree to that under every setting, and the policy's mode ``write``
forbids it. A mark (pinned, Markdown) that goes is no loss: a person who misses it can set it again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mcp_notarium.domain.lines import between_shared_ends
from mcp_notarium.domain.note import Content

TITLE, TEXT, TAGS, PROPERTIES = "title", "text", "tags", "properties"
NOTE = "the whole note"


@dataclass(frozen=True, slots=True)
class Keeping:
    """Hold what is kept of a note before a change."""

    days: int
    """Days for which versions are kept here; 0: there are none."""
    fits: bool
    """A version with all parts has room, and others can stay."""
    revives: bool = True
    """False: the store cannot make a removed note again."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Hold what a change would take from a note for good."""

    parts: tuple[str, ...]
    """The names of the parts."""
    why: str
    """Reason that it could not be brought back."""
    replaced: str = ""
    """A digest of what the store's own form has now, where no version of the note tells; '' elsewhere."""


def find_loss(
    old: Content, new: Content | None, keeping: Keeping, *, beside: Collection[str] = ()
) -> Loss | None:
    """Return what is lost for good if ``old`` becomes ``new`` (None: is removed); None if nothing is.

    ``beside``: what else the change takes that no ``Content`` shows.
    """
    if keeping.days and keeping.fits and (new is not None or keeping.revives):
        return None
    parts = (NOTE,) if new is None else (*find_taken(old, new), *beside)
    if not parts:
        return None
    if NOTE in parts and not keeping.revives:
        return Loss(parts, "the note store cannot make a deleted note again")
    if not keeping.days:
        return Loss(parts, "no versions are kept (NOTARIUM_VERSION_DAYS is 0)")
    return Loss(parts, "a version of it has no room (NOTARIUM_VERSION_MB)")


def find_taken(old: Content, new: Content) -> tuple[str, ...]:
    """Return the parts of ``old`` that are not in ``new``. Lines that are all there yet, in this order, are not taken."""
    taken = {
        TITLE: bool(old.title) and new.title != old.title,
        TEXT: not _has_lines(new.text, old.text),
        TAGS: not set(old.tags) <= set(new.tags),
        PROPERTIES: any(
            old.properties[name] is not True
            for name in old.properties.differing(new.properties)
            if name in old.properties
        ),
    }
    return tuple(part for part, gone in taken.items() if gone)


def _has_lines(text: str, part: str) -> bool:
    """Tell whether a text has the lines of another one in their order; empty lines are none."""
    if part in text:
        return True
    text, part = between_shared_ends(text, part)
    lines = iter(text.splitlines())
    return all(line in lines for line in part.splitlines() if line.strip())
