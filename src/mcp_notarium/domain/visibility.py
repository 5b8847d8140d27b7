"""Decide which notes an agent may see, by a note's id, tags and path. Pure.

Rules of this file: denying wins over allowing. A note without tags is never allowed by accident,
only by ``untagged``. Tags that are not understood may be any tag. Two spellings of a tag are one
tag, as everywhere (``tag_key``). A path is the id of a note in a store that has paths (``note_paths``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.note_paths import PathPrefixes


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Hold the rules. The default hides nothing.

    ``allowed_tags``, ``allowed_ids`` and ``allowed_paths`` None mean no such rule; if any is set, a note must
    meet one of them. ``untagged``: whether notes without tags are seen (those of ``allowed_ids`` and
    ``allowed_paths`` always are).
    """

    hidden_tags: tuple[str, ...] = ()
    hidden_ids: tuple[str, ...] = ()
    allowed_tags: tuple[str, ...] | None = None
    allowed_ids: tuple[str, ...] | None = None
    hidden_paths: tuple[str, ...] = ()
    allowed_paths: tuple[str, ...] | None = None
    untagged: bool = True
    has_rules: bool = field(init=False, repr=False, compare=False)
    """True if any note may be hidden."""
    tags_matter: bool = field(init=False, repr=False, compare=False)
    """True if any rule names tags; then a note whose tags are not understood is hidden."""
    names_paths: bool = field(init=False, repr=False, compare=False)
    """True if any rule names paths, which only some stores have."""
    hides_beside_seen: bool = field(init=False, repr=False, compare=False)
    """True if a note may be hidden whose path the rules leave open."""
    digest: str = field(init=False, repr=False, compare=False)
    """SHA-256 (hex) over the rules, the same for every spelling; '' without rules."""
    _hidden: frozenset[str] = field(init=False, repr=False, compare=False)
    _allowed: frozenset[str] = field(init=False, repr=False, compare=False)
    _hidden_paths: PathPrefixes = field(init=False, repr=False, compare=False)
    _allowed_paths: PathPrefixes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hidden, allowed = _tag_keys(self.hidden_tags), _tag_keys(self.allowed_tags or ())
        hidden_paths, open_paths = (
            PathPrefixes(self.hidden_paths),
            PathPrefixes(self.allowed_paths or ()),
        )
        names_paths = bool(self.hidden_paths) or self.allowed_paths is not None
        narrowed = (self.allowed_tags, self.allowed_ids, self.allowed_paths) != (None, None, None)
        meaning = {
            "hidden_tags": sorted(hidden),
            "hidden_ids": sorted(set(self.hidden_ids)),
            "allowed_tags": None if self.allowed_tags is None else sorted(allowed),
            "allowed_ids": None if self.allowed_ids is None else sorted(set(self.allowed_ids)),
            "hidden_paths": hidden_paths.keys,
            "allowed_paths": None if self.allowed_paths is None else open_paths.keys,
            "untagged": self.untagged,
        }
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        rules = bool(hidden or self.hidden_ids or names_paths or narrowed or not self.untagged)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if rules else ""
        for name, value in (
            ("has_rules", rules),
            ("tags_matter", bool(hidden) or self.allowed_tags is not None),
            ("names_paths", names_paths),
            ("hides_beside_seen", self._may_hide_beside_seen),
            ("digest", digest),
            ("_hidden", hidden),
            ("_allowed", allowed),
            ("_hidden_paths", hidden_paths),
            ("_allowed_paths", open_paths),
        ):
            object.__setattr__(self, name, value)

    @property
    def _may_hide_beside_seen(self) -> bool:
        by_tag = bool(self.hidden_tags) or self.allowed_tags is not None or not self.untagged
        return by_tag or bool(self.hidden_ids)

    def sees(self, note_id: str, tags: Sequence[str]) -> bool:
        """Return whether an agent may know of the note."""
        return self.hidden_by(note_id, tags) is None

    def hidden_by(self, note_id: str, tags: Sequence[str], *, clear: bool = True) -> str | None:
        """Return the rule that hides the note, in the words of the policy file, or None if it is seen.

        ``clear`` False: it has tags that are not understood, beside these or instead of them.
        """
        if (rule := self.hidden_by_name(note_id)) is not None:
            return rule
        keys = {tag_key(tag.strip()): tag for tag in tags}
        keys.pop("", None)
        if hiding := self.hiding_tags([*keys.values()]):
            return f'hidden_tags "{min(hiding)}"'
        if not clear and self.tags_matter:
            rule = "hidden_tags" if self._hidden else "allowed_tags"
            return f"{rule} (its tags cannot be read)"
        return self._find_missing_allowance(note_id, keys.keys())

    def hidden_by_name(self, note_id: str) -> str | None:
        """Return the rule that hides the note by its id or path, whatever its tags are; None if there is none."""
        if note_id in self.hidden_ids:
            return "hidden_ids"
        prefix = self._hidden_paths.find(note_id) if self.hidden_paths else None
        return None if prefix is None else f'hidden_paths "{prefix}"'

    def _find_missing_allowance(self, note_id: str, keys: AbstractSet[str]) -> str | None:
        named = (("allowed_ids", self.allowed_ids), ("allowed_paths", self.allowed_paths))
        missed = next((name for name, rule in named if rule is not None), None)
        if note_id in (self.allowed_ids or ()) or self.lies_in_allowed_path(note_id):
            return None
        if not keys:
            alone = missed if self.allowed_tags is None else None
            return alone or (None if self.untagged else "untagged")
        if self.allowed_tags is None:
            return missed
        return None if self._allowed & keys else "allowed_tags"

    def lies_in_allowed_path(self, note_id: str) -> bool:
        """Tell whether ``allowed_paths`` covers the note."""
        return self.allowed_paths is not None and self._allowed_paths.find(note_id) is not None

    def closes(self, path: str) -> bool:
        """Tell whether the rules on paths alone speak against this path."""
        outside = self.allowed_paths is not None and not self.lies_in_allowed_path(path)
        return outside or self._hidden_paths.find(path) is not None

    def hiding_tags(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return those of the tags that hide the note they are on: a nested tag does so for each above it."""
        if not self._hidden:
            return ()
        return tuple(tag for tag in tags if not self._hidden.isdisjoint(_with_parents(tag)))


def _with_parents(tag: str) -> list[str]:
    """Return the keys of a tag and of those it is nested in: ``a/b`` belongs to ``a``."""
    parts = tag_key(tag.strip()).split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def _tag_keys(tags: Sequence[str]) -> frozenset[str]:
    """Return the keys that tell tags apart."""
    return frozenset(tag_key(tag.strip()) for tag in tags)


EVERYTHING = Visibility()
"""The rules that hide nothing."""
