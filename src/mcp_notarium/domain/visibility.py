"""Decide which notes an agent may see, by a note's id and tags. Pure.

Rules of this file: denying wins over allowing. A note without tags is never allowed by accident,
only by ``untagged``. Tags that are not understood may be any tag. Two spellings of a tag are one
tag, as everywhere (``tag_key``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from mcp_notarium.domain.characters import tag_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Hold the rules. The default hides nothing.

    ``allowed_tags`` and ``allowed_ids`` None mean no such rule; if either is set, a note must meet
    one of them. ``untagged``: whether notes without tags are seen (those of ``allowed_ids`` always
    are).
    """

    hidden_tags: tuple[str, ...] = ()
    hidden_ids: tuple[str, ...] = ()
    allowed_tags: tuple[str, ...] | None = None
    allowed_ids: tuple[str, ...] | None = None
    untagged: bool = True
    has_rules: bool = field(init=False, repr=False, compare=False)
    """True if any note may be hidden."""
    tags_matter: bool = field(init=False, repr=False, compare=False)
    """True if any rule names tags; then a note whose tags are not understood is hidden."""
    digest: str = field(init=False, repr=False, compare=False)
    """SHA-256 (hex) over the rules, the same for every spelling; '' without rules."""
    _hidden: frozenset[str] = field(init=False, repr=False, compare=False)
    _allowed: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hidden, allowed = _tag_keys(self.hidden_tags), _tag_keys(self.allowed_tags or ())
        narrowed = self.allowed_tags is not None or self.allowed_ids is not None
        meaning = {
            "hidden_tags": sorted(hidden),
            "hidden_ids": sorted(set(self.hidden_ids)),
            "allowed_tags": None if self.allowed_tags is None else sorted(allowed),
            "allowed_ids": None if self.allowed_ids is None else sorted(set(self.allowed_ids)),
            "untagged": self.untagged,
        }
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        rules = bool(hidden or self.hidden_ids or narrowed or not self.untagged)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if rules else ""
        for name, value in (
            ("has_rules", rules),
            ("tags_matter", bool(hidden) or self.allowed_tags is not None),
            ("digest", digest),
            ("_hidden", hidden),
            ("_allowed", allowed),
        ):
            object.__setattr__(self, name, value)

    def sees(self, note_id: str, tags: Sequence[str]) -> bool:
        """Return whether an agent may know of the note."""
        return self.hidden_by(note_id, tags) is None

    def hidden_by(self, note_id: str, tags: Sequence[str], *, clear: bool = True) -> str | None:
        """Return the rule that hides the note, in the words of the policy file, or None if it is seen.

        ``clear`` False: it has tags that are not understood, beside these or instead of them.
        """
        if note_id in self.hidden_ids:
            return "hidden_ids"
        keys = {tag_key(tag.strip()): tag for tag in tags}
        keys.pop("", None)
        if hiding := self._hidden & keys.keys():
            return f'hidden_tags "{keys[min(hiding)]}"'
        if not clear and self.tags_matter:
            rule = "hidden_tags" if self._hidden else "allowed_tags"
            return f"{rule} (its tags cannot be read)"
        return self._find_missing_allowance(note_id, keys.keys())

    def _find_missing_allowance(self, note_id: str, keys: AbstractSet[str]) -> str | None:
        if self.allowed_ids is not None and note_id in self.allowed_ids:
            return None
        if not keys:
            alone = self.allowed_ids is not None and self.allowed_tags is None
            return "allowed_ids" if alone else None if self.untagged else "untagged"
        if self.allowed_tags is None:
            return None if self.allowed_ids is None else "allowed_ids"
        return None if self._allowed & keys else "allowed_tags"

    def hiding_tags(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return those of the tags that hide the note they are on."""
        return tuple(tag for tag in tags if tag_key(tag.strip()) in self._hidden)


def _tag_keys(tags: Sequence[str]) -> frozenset[str]:
    """Return the keys that tell tags apart."""
    return frozenset(tag_key(tag.strip()) for tag in tags)


EVERYTHING = Visibility()
"""The rules that hide nothing."""
