"""Define ``Policy`` and ``Visibility``: everything the user has decided about agents, as frozen values. Pure.

It enforces nothing. ``storage/hidden_notes`` keeps hidden notes out of the index, the
tools refuse what is not permitted, and no tool can change a policy.

Rules of this file: denying wins over allowing. A note without tags is never allowed by accident,
only by ``untagged``. Tags that are not understood may be any tag. Two spellings of a tag are one
tag, as everywhere (``tag_key``). A path is the id of a note in a store that has paths (``path_key``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Literal, get_args

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.domain.note import NONE, Content, PathPrefixes, Value
from mcp_notarium.domain.write_scope import ANYTHING, CHANGEABLE, WriteScope, quote_some
from mcp_notarium.errors import NotPermitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Hold the rules on what agents see. The default hides nothing.

    A note is hidden if a rule names it as hidden, or if there are rules on what is allowed and it meets none of them.
    """

    hidden_tags: tuple[str, ...] = ()
    hidden_ids: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    hidden_properties: tuple[str, ...] = ()
    """Names, or names with a value: ``private``, ``status: secret``."""
    allowed_tags: tuple[str, ...] | None = None
    """None: there is no such rule. So it is with the next two."""
    allowed_ids: tuple[str, ...] | None = None
    allowed_paths: tuple[str, ...] | None = None
    untagged: bool = True
    """Show notes without tags. Those of ``allowed_ids`` and ``allowed_paths`` are always shown."""
    within: Visibility | None = None
    """Hold the rules that these narrow: the index is filled under those, and shown under both. None: they narrow none."""
    followed_ids: tuple[str, ...] = field(default=(), compare=False)
    """Ids that other rules than these hide, whose notes are followed when they are renamed."""
    has_rules: bool = field(init=False, repr=False, compare=False)
    """Tell whether any note may be hidden."""
    tags_matter: bool = field(init=False, repr=False, compare=False)
    """Tell whether any rule names tags or properties; a note in which these are not understood is then hidden."""
    names_paths: bool = field(init=False, repr=False, compare=False)
    """Tell whether any rule names paths, which only some stores have."""
    hides_beside_seen: bool = field(init=False, repr=False, compare=False)
    """Tell whether a note may be hidden whose path the rules leave open."""
    digest: str = field(init=False, repr=False, compare=False)
    """Hold SHA-256 (hex) over the rules, the same for every spelling; '' without rules."""
    _hidden: frozenset[str] = field(init=False, repr=False, compare=False)
    _hidden_properties: frozenset[str] = field(init=False, repr=False, compare=False)
    _allowed: frozenset[str] = field(init=False, repr=False, compare=False)
    _hidden_paths: PathPrefixes = field(init=False, repr=False, compare=False)
    _allowed_paths: PathPrefixes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        outer = self.within or _NONE
        hidden, allowed = _tag_keys(self.hidden_tags), _tag_keys(self.allowed_tags or ())
        hidden_paths = PathPrefixes(self.hidden_paths)
        open_paths = PathPrefixes(self.allowed_paths or ())
        properties = frozenset(map(_property_key, self.hidden_properties))
        names_tags = bool(hidden or properties) or self.allowed_tags is not None
        names_paths = bool(self.hidden_paths) or self.allowed_paths is not None
        narrowed = (self.allowed_tags, self.allowed_ids, self.allowed_paths) != (None, None, None)
        meaning = {
            "hidden_tags": sorted(hidden),
            "hidden_ids": sorted(set(self.hidden_ids)),
            "allowed_tags": None if self.allowed_tags is None else sorted(allowed),
            "allowed_ids": None if self.allowed_ids is None else sorted(set(self.allowed_ids)),
            "hidden_paths": hidden_paths.keys,
            "hidden_properties": sorted(properties),
            "allowed_paths": None if self.allowed_paths is None else open_paths.keys,
            "untagged": self.untagged,
        }
        text = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        rules = bool(
            hidden or properties or self.hidden_ids or names_paths or narrowed or not self.untagged
        )
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if rules else ""
        if self.within is not None and self.within.has_rules:
            digest = hashlib.sha256(f"{digest} {self.within.digest}".encode()).hexdigest()
        beside = names_tags or bool(self.hidden_ids) or not self.untagged
        for name, value in (
            ("has_rules", rules or outer.has_rules),
            ("tags_matter", names_tags or outer.tags_matter),
            ("names_paths", names_paths or outer.names_paths),
            ("hides_beside_seen", beside or outer.hides_beside_seen),
            ("digest", digest),
            ("_hidden", hidden),
            ("_hidden_properties", properties),
            ("_allowed", allowed),
            ("_hidden_paths", hidden_paths),
            ("_allowed_paths", open_paths),
        ):
            object.__setattr__(self, name, value)

    @property
    def stored(self) -> Visibility:
        """Return the rules under which the index is filled."""
        return self if self.within is None else self.within

    def narrowed(self, own: Visibility) -> Visibility:
        """Return rules that show what these and ``own`` show. What either hides is hidden."""
        if not own.has_rules:
            return self
        return replace(
            own,
            hidden_tags=(*self.hidden_tags, *own.hidden_tags),
            hidden_ids=(*self.hidden_ids, *own.hidden_ids),
            hidden_paths=(*self.hidden_paths, *own.hidden_paths),
            hidden_properties=(*self.hidden_properties, *own.hidden_properties),
            within=self,
        )

    def sees(
        self, note_id: str, tags: Sequence[str], properties: Mapping[str, Value] = NONE
    ) -> bool:
        """Return whether an agent may know of the note."""
        return self.hidden_by(note_id, tags, properties) is None

    def hidden_by(
        self,
        note_id: str,
        tags: Sequence[str],
        properties: Mapping[str, Value] = NONE,
        *,
        clear: bool = True,
    ) -> str | None:
        """Return the rule that hides the note, in the words of the policy file, or None if it is seen.

        ``clear`` False: it has other tags or properties, which are not understood.
        """
        # defence: profile-permits-nothing-more =None
        outer = self.within and self.within.hidden_by(note_id, tags, properties, clear=clear)
        if (rule := outer or self.hidden_by_name(note_id)) is not None:
            return rule
        keys = {tag_key(tag.strip()): tag for tag in tags}
        keys.pop("", None)
        if hiding := self.hiding_tags([*keys.values()]):  # defence: hidden-tag-wins
            return f'hidden_tags "{min(hiding)}"'
        if hiding := self.hiding_properties(properties):  # defence: hidden-property-wins
            return f'hidden_properties "{min(hiding)}"'
        if not clear and self.tags_matter:
            if self._hidden_properties:
                return "hidden_properties (its properties cannot be read)"
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
        closed = outside or self._hidden_paths.find(path) is not None
        return closed or (self.within is not None and self.within.closes(path))

    def hiding_tags(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Return those of the tags that hide the note they are on: a nested tag does so for each above it."""
        if not self._hidden:
            return ()
        return tuple(tag for tag in tags if not self._hidden.isdisjoint(_with_parents(tag)))

    def hiding_properties(self, properties: Mapping[str, Value]) -> tuple[str, ...]:
        """Return the names of those properties that hide the note they are on, by name or with their value."""
        return tuple(
            name
            for name, value in (properties.items() if self._hidden_properties else ())
            if not self._hidden_properties.isdisjoint(_property_keys(name, value))
        )


def _with_parents(tag: str) -> list[str]:
    """Return the keys of a tag and of those it is nested in: ``a/b`` belongs to ``a``."""
    parts = tag_key(tag.strip()).split("/")
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def _property_key(rule: str) -> str:
    """Return what tells rules on properties apart; the value stands behind the first colon, if any."""
    name, colon, value = rule.partition(":")
    return f"{tag_key(name.strip())}{colon}{tag_key(value.strip())}"


def _property_keys(name: str, value: Value) -> list[str]:
    """Return the keys of the rules that name the property, or it with its value."""
    from mcp_notarium.domain.properties import shown_value  # noqa: PLC0415 - not before the handshake

    values = value if isinstance(value, tuple) else (shown_value(value),)
    return [tag_key(name.strip()), *(_property_key(f"{name}:{each}") for each in values)]


def _tag_keys(tags: Sequence[str]) -> frozenset[str]:
    """Return the keys that tell tags apart."""
    return frozenset(tag_key(tag.strip()) for tag in tags)


@dataclass(frozen=True, slots=True)
class _NoRules:
    """Stand for rules that narrow no others."""

    has_rules: bool = False
    tags_matter: bool = False
    names_paths: bool = False
    hides_beside_seen: bool = False


_NONE = _NoRules()
EVERYTHING = Visibility()
"""The rules that hide nothing."""


TOOLS = ("list", "get", "save", "manage")
"""The tools a policy may switch off. Same as the catalogue's, which is not loaded this early."""
Action = Literal[
    "trash",
    "untrash",
    "delete_permanently",
    "pin",
    "unpin",
    "history",
    "restore_version",
    "undo",
    "change",
    "list_tags",
    "list_properties",
    "rename_tag",
    "find_duplicates",
    "list_folders",
    "move_folder",
    "find_problems",
    "get_stats",
    "reset_cache",
]
"""The actions of ``manage``; ``_IRREVERSIBLE`` and ``LOOKING`` say what else holds for some."""
ACTIONS: tuple[Action, ...] = get_args(Action)


class Mode(StrEnum):
    """Name what may be changed at all."""

    READ_ONLY = "read-only"
    WRITE = "write"
    """Everything but permanent deletion, what else cannot be taken back, and the reset of the index."""
    FULL = "full"


class Field(StrEnum):
    """Name a part of every note that can be hidden."""

    TEXT = "text"
    TAGS = "tags"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bound reading and writing; None is no bound. Bytes are those of a reply's JSON in UTF-8."""

    notes_per_call: int | None = None
    bytes_per_call: int | None = None
    bytes_per_session: int | None = None
    writes_per_session: int | None = None
    writes_per_hour: int | None = None

    def narrowed(self, own: Limits) -> Limits:
        """Return the smaller of each two limits."""
        return Limits(
            notes_per_call=_smaller(self.notes_per_call, own.notes_per_call),
            bytes_per_call=_smaller(self.bytes_per_call, own.bytes_per_call),
            bytes_per_session=_smaller(self.bytes_per_session, own.bytes_per_session),
            writes_per_session=_smaller(self.writes_per_session, own.writes_per_session),
            writes_per_hour=_smaller(self.writes_per_hour, own.writes_per_hour),
        )


def _smaller(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


_IRREVERSIBLE = frozenset({"delete_permanently", "reset_cache"})
LOOKING = frozenset(
    {
        "history",
        "list_tags",
        "list_properties",
        "find_duplicates",
        "list_folders",
        "find_problems",
        "get_stats",
    }
)
"""Actions of ``manage`` that change nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Hold the user's decisions. The default permits everything."""

    mode: Mode = Mode.FULL
    switched_off: frozenset[str] = frozenset()
    """Names of tools."""
    visibility: Visibility = EVERYTHING
    hidden_fields: frozenset[Field] = frozenset()
    """Fields that agents see of no note."""
    limits: Limits = field(default_factory=Limits)
    writing: WriteScope = ANYTHING
    import_paths: tuple[tuple[str, ...], ...] = ()
    """Hold folders from which agents may keep files: a file must lie in one of each tuple. (): there is no such folder."""
    profile: str = ""
    """Names the profile that narrows them for one client; '' is none."""
    hourly: tuple[tuple[str, int], ...] = ()
    """Writes in an hour: of all servers together under the name '', of those of a profile under its name."""

    def __post_init__(self) -> None:
        if not self.hourly and self.limits.writes_per_hour is not None:
            object.__setattr__(self, "hourly", (("", self.limits.writes_per_hour),))

    def narrowed(self, name: str, own: Policy) -> Policy:
        """Return the policy of a profile: it permits what this one and ``own`` permit."""
        # defence: profile-imports-nothing-more =True
        imports = own.import_paths if self.import_paths else ()
        return Policy(
            mode=min(self.mode, own.mode, key=[*Mode].index),
            switched_off=self.switched_off | own.switched_off,
            visibility=self.visibility.narrowed(own.visibility),
            hidden_fields=self.hidden_fields | own.hidden_fields,
            limits=self.limits.narrowed(own.limits),
            writing=self.writing.narrowed(own.writing),
            import_paths=(*self.import_paths, *imports),
            profile=name,
            hourly=(*self.hourly, *((name, most) for _, most in own.hourly)),
        )

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the tools that exist for an agent, in their order."""
        gone = self.switched_off | ({"save"} if self.mode is Mode.READ_ONLY else set())
        return tuple(name for name in TOOLS if name not in gone)

    def offers(self, tool: str, action: str | None = None) -> bool:
        """Return whether the tool, or this one action of it, exists for an agent."""
        return tool in self.tools and self._forbids(tool, action) is None

    @property
    def forbidden_actions(self) -> frozenset[str]:
        """Return the actions of ``manage`` that do not exist for an agent."""
        return frozenset(name for name in ACTIONS if self._forbids("manage", name) is not None)

    @property
    def meaning(self) -> dict[str, object]:
        """Return all of it as JSON values, the same for every spelling. Rules on notes are a digest."""
        return {
            "mode": self.mode.value,
            "switched_off": sorted(self.switched_off),
            "visibility": self.visibility.digest,
            "hidden_fields": sorted(part.value for part in self.hidden_fields),
            "limits": asdict(self.limits),
            **({"writing": self.writing.meaning} if self.writing.has_rules else {}),
            **({"import_paths": self.import_paths} if self.import_paths else {}),
            **({"profile": self.profile} if self.profile else {}),
        }

    def read_only(self) -> Policy:
        """Return the same policy in read-only mode."""
        return replace(self, mode=Mode.READ_ONLY)

    def hides(self, part: Field) -> bool:
        """Return whether this part of notes is hidden."""
        return part in self.hidden_fields

    def shown_tags(self, tags: tuple[str, ...]) -> list[str]:
        """Return the tags of a visible note that may be seen."""
        return [] if self.hides(Field.TAGS) else list(tags)

    def require_use(self, tool: str, action: str | None = None) -> None:
        """Raise ``NotPermitted`` if the tool may not be used. ``action`` is that of ``manage``."""
        if tool in self.switched_off:
            raise _refusal(f"`{tool}` is switched off.")
        if (forbidden := self._forbids(tool, action)) is not None:
            raise _refusal(forbidden)

    def _forbids(self, tool: str, action: str | None) -> str | None:
        """Return why the mode forbids a tool or an action of it, or None."""
        changes = tool == "save" or (action is not None and action not in LOOKING)
        if changes and self.mode is Mode.READ_ONLY:
            return "Notes can only be read here, not changed."
        if action in _IRREVERSIBLE and self.mode is not Mode.FULL:
            return f"`{action}` is not permitted here."
        return None

    def require_irreversible(self) -> None:
        """Raise ``NotPermitted`` if nothing may be done that cannot be taken back."""
        if self.mode is not Mode.FULL:
            raise _refusal("This cannot be taken back, and such changes are not permitted here.")

    def require_edit(self, part: Field) -> None:
        """Raise ``NotPermitted`` if an existing note may not get other text or tags.

        An agent that may not see a part could otherwise overwrite it unseen, or guess at it.
        """
        if self.hides(part):
            raise _refusal(f"The {part} of notes is hidden and cannot be changed.")

    def require_whole(self) -> None:
        """Raise ``NotPermitted`` if a part of notes is hidden. A file has its tags in its text."""
        for part in (Field.TEXT, Field.TAGS):
            if self.hides(part):
                raise _refusal(f"The {part} of notes is hidden, so no whole file can be read.")

    def require_filter(self, part: Field) -> None:
        """Raise ``NotPermitted`` if notes may not be filtered by this part: the results would show it."""
        if self.hides(part):
            other = "tags and dates" if part is Field.TEXT else "words and dates"
            raise _refusal(f"The {part} of notes is hidden; look for {other}.")

    def require_write(self, note_id: str, old: Content | None, new: Content) -> None:
        """Raise ``NotPermitted`` if a note may not become ``new``. ``old`` None is a new note.

        A note that an agent sees must stay visible to it: no tag may come that hides the note, no tag may
        go that allows it. ``note_id`` of a new note is its path, or '' in a store without paths.
        """
        rules = self.visibility
        properties = NONE
        if rules.hidden_properties:
            from mcp_notarium.domain.properties import properties_of  # noqa: PLC0415 - not before the handshake

            properties = properties_of(new)
        # defence: rules-see-the-new-note =True
        if rules.sees(note_id, new.tags, properties):
            return
        if rules.within is not None and not rules.within.sees(note_id, new.tags, properties):
            rules = rules.within
        what = "A new note" if old is None else "The note"
        if rules.names_paths and note_id and rules.hidden_by_name(note_id) is not None:
            raise _refusal(f"{what} would lie in a place that is not open to you.")
        if added := rules.hiding_tags(new.tags):
            raise _refusal(
                f"This tag may not be given here: {quote_some(added)}.", "Leave it out. "
            )
        if added := rules.hiding_properties(properties):
            raise _refusal(
                f"This property may not be given here: {quote_some(added)}.", "Leave it out. "
            )
        if rules.allowed_tags:
            hint = f"Give it at least one of these tags: {quote_some(rules.allowed_tags)}. "
            raise _refusal(f"{what} needs another tag.", hint)
        if rules.allowed_paths:
            hint = (
                f"Only notes in these places are open to you: {quote_some(rules.allowed_paths)}. "
            )
            raise _refusal(f"{what} would lie outside of them.", hint)
        hint = "Give it at least one tag. "
        if rules.allowed_ids is not None:
            hint = "Only certain notes are open to you; none can be added. "
        raise _refusal(f"{what} would be hidden from you as it is.", hint)


def _refusal(message: str, hint: str = "") -> NotPermitted:
    return NotPermitted(message, resolution_hint=hint + CHANGEABLE)


PERMISSIVE = Policy()
"""The policy if the user has set none."""
