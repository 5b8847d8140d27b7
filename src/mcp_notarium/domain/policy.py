"""Define ``Policy``: everything the user has decided about agents, as one frozen value. Pure.

It enforces nothing. ``storage/hidden_note_filter`` keeps hidden notes out of the index, the
tools refuse what is not permitted, and no tool can change a policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.visibility import EVERYTHING, Visibility
from mcp_notarium.errors import NotPermitted

TOOLS = ("list", "get", "save", "manage")
"""The tools a policy may switch off. Same as the catalogue's, which is not loaded this early."""
ACTIONS = (
    *("trash", "untrash", "delete_permanently", "pin", "unpin"),
    *("history", "restore_version", "undo"),
    *("list_tags", "rename_tag", "find_duplicates", "get_stats", "reset_cache"),
)
"""The actions of ``manage``, from the same place."""


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


_CHANGEABLE = (
    "The user has set this in MCP Notarium's policy file and can change it there "
    "(`mcp-notarium policy show`); no tool can."
)
_IRREVERSIBLE = frozenset({"delete_permanently", "reset_cache"})
LOOKING = frozenset({"history", "list_tags", "find_duplicates", "get_stats"})
"""Actions of ``manage`` that change nothing."""
_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Hold the user's decisions. The default permits everything."""

    mode: Mode = Mode.FULL
    switched_off: frozenset[str] = frozenset()
    visibility: Visibility = EVERYTHING
    hidden_fields: frozenset[Field] = frozenset()
    limits: Limits = field(default_factory=Limits)

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
        """Return all of it as JSON values, the same for every spelling of the same policy.

        Rules on notes stand in it as a digest.
        """
        return {
            "mode": self.mode.value,
            "switched_off": sorted(self.switched_off),
            "visibility": self.visibility.digest,
            "hidden_fields": sorted(part.value for part in self.hidden_fields),
            "limits": asdict(self.limits),
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
        if rules.sees(note_id, new.tags):
            return
        what = "A new note" if old is None else "The note"
        if rules.names_paths and note_id and rules.hidden_by_name(note_id) is not None:
            raise _refusal(f"{what} would lie in a place that is not open to you.")
        if added := rules.hiding_tags(new.tags):
            raise _refusal(f"This tag may not be given here: {_quote(added)}.", "Leave it out. ")
        if rules.allowed_tags:
            hint = f"Give it at least one of these tags: {_quote(rules.allowed_tags)}. "
            raise _refusal(f"{what} needs another tag.", hint)
        if rules.allowed_paths:
            hint = f"Only notes in these places are open to you: {_quote(rules.allowed_paths)}. "
            raise _refusal(f"{what} would lie outside of them.", hint)
        hint = "Give it at least one tag. "
        if rules.allowed_ids is not None:
            hint = "Only certain notes are open to you; none can be added. "
        raise _refusal(f"{what} would be hidden from you as it is.", hint)


def _refusal(message: str, hint: str = "") -> NotPermitted:
    return NotPermitted(message, resolution_hint=hint + _CHANGEABLE)


def _quote(tags: Sequence[str]) -> str:
    return ", ".join(f'"{tag}"' for tag in tags[:_NAMED])


PERMISSIVE = Policy()
"""The policy if the user has set none."""
