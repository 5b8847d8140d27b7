"""Define ``WriteScope``: which of the visible notes agents may change; the rest they may only read. Pure.

Rules of this file: a note is writable if any rule names it. A write must leave it so: it may neither take a note out of the scope nor, by
the tag or the place that it gives, bring one in. Tags that are not understood may be any tag, so they make no note writable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.note import PathPrefixes
from mcp_notarium.errors import NotPermitted

_NAMED = 10
CHANGEABLE = (
    "The user has set this in MCP Notarium's policy file and can change it there "
    "(`mcp-notarium policy show`); no tool can."
)
"""Ends a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteScope:
    """Hold the rules on what may be changed. The default permits every note."""

    tags: tuple[str, ...] | None = None
    """None: there is no such rule. So it is with the next three."""
    ids: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    below: tuple[str, ...] | None = None
    """Ids of notes in a tree: these, and what stands below them at all of its places."""
    within: WriteScope | None = None
    """Hold the rules that these narrow: what is changed must meet both."""
    has_rules: bool = field(init=False, repr=False, compare=False)
    tops: frozenset[str] = field(init=False, repr=False, compare=False)
    """Hold the ids of ``below``, of these rules and those around them."""
    names_paths: bool = field(init=False, repr=False, compare=False)
    """Tell whether any rule names paths, which only some stores have."""
    _tags: frozenset[str] = field(init=False, repr=False, compare=False)
    _paths: PathPrefixes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = (self.tags, self.ids, self.paths, self.below) != (None, None, None, None)
        outer = self.within is not None and self.within.has_rules
        object.__setattr__(self, "has_rules", own or outer)
        paths = self.paths is not None or (self.within is not None and self.within.names_paths)
        object.__setattr__(self, "names_paths", paths)
        tops = frozenset(self.below or ()) | (self.within.tops if self.within else frozenset())
        object.__setattr__(self, "tops", tops)
        keys = frozenset(tag_key(tag.strip()) for tag in self.tags or ())
        object.__setattr__(self, "_tags", keys)
        object.__setattr__(self, "_paths", PathPrefixes(self.paths or ()))

    @property
    def meaning(self) -> dict[str, object]:
        """Return the rules as JSON values, the same for every spelling."""
        return {
            "tags": None if self.tags is None else sorted(self._tags),
            "ids": None if self.ids is None else sorted(set(self.ids)),
            "paths": None if self.paths is None else self._paths.keys,
            **({} if self.below is None else {"below": sorted(set(self.below))}),
            "within": self.within.meaning if self.within and self.within.has_rules else None,
        }

    def narrowed(self, own: WriteScope) -> WriteScope:
        """Return rules that permit what these and ``own`` permit."""
        return WriteScope(tags=own.tags, ids=own.ids, paths=own.paths, below=own.below, within=self)

    def permits(
        self,
        note_id: str,
        tags: Sequence[str],
        *,
        clear: bool = True,
        inside: Collection[str] | None = (),
    ) -> bool:
        """Tell whether a note may be changed that is so, or become so. ``clear`` False: it has tags that are not understood.

        ``inside``: those of ``tops`` that it is, or stands below at all of its places; None: nobody has asked yet, so it counts as
        inside of all.
        """
        # defence: profile-writes-nothing-more
        if self.within is not None and not self.within.permits(
            note_id, tags, clear=clear, inside=inside
        ):
            return False
        if (self.tags, self.ids, self.paths, self.below) == (None, None, None, None):
            return True
        if self.below and (inside is None or not {*self.below}.isdisjoint(inside)):
            return True
        named = note_id in (self.ids or ()) or self._paths.find(note_id) is not None
        tagged = clear and any(tag_key(tag.strip()) in self._tags for tag in tags)
        return named or tagged

    def permits_path(self, path: str) -> bool:
        """Tell whether what lies at this path and is no note may be changed or moved."""
        return self.permits(path, ())

    def require_change(
        self,
        note_id: str,
        tags: Sequence[str],
        *,
        clear: bool = True,
        inside: Collection[str] | None = (),
    ) -> None:
        """Raise ``NotPermitted`` for a note that may only be read. See :meth:`permits`."""
        # defence: write-scope-before =False
        if not self.permits(note_id, tags, clear=clear, inside=inside):
            raise self.refusal("This note may only be read here; nothing was changed.")

    def require_result(
        self,
        note_id: str,
        tags: Sequence[str],
        *,
        new: bool,
        inside: Collection[str] | None = (),
    ) -> None:
        """Raise ``NotPermitted`` for what a write would make, if that may not be changed. See :meth:`permits`."""
        # defence: write-scope-after =False
        if not self.permits(note_id, tags, inside=inside):
            what = "A new note" if new else "The note"
            raise self.refusal(f"{what} would lie outside of what may be changed here.")

    def refusal(self, message: str) -> NotPermitted:
        """Return the error that says what may be changed."""
        return NotPermitted(message, resolution_hint=f"{self.describe()} {CHANGEABLE}")

    def describe(self, shows: Callable[[str], bool] = lambda _path: True) -> str:
        """Say what may be changed, without the ids: a note of one may be hidden."""
        said = [self.within.describe(shows)] if self.within and self.within.has_rules else []
        ways = []
        if self.tags is not None:
            ways.append(f"with one of these tags: {quote_some(self.tags)}")
        if self.paths is not None:
            ways.append(f"in these places: {quote_some([*filter(shows, self.paths)])}")
        if self.below is not None:
            ways.append("below notes that the user has named by their ids")
        if self.ids is not None:
            ways.append("that the user has named by their ids")
        if ways:
            said.append(f"Only notes {', or '.join(ways)} may be changed.")
        return " ".join(said)


def quote_some(names: Sequence[str]) -> str:
    """Return the first of these names, in quotes."""
    return ", ".join(f'"{name}"' for name in names[:_NAMED])


ANYTHING = WriteScope()
"""The rules that permit every note."""
