"""Define ``Policy``: everything the person has decided about agents, as one frozen value. Pure.

It judges and enforces nothing. ``storage/visibility_filter`` keeps hidden notes out of the index, the
tools refuse what is not permitted, and no tool can change a policy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.visibility import EVERYTHING, Visibility
from mcp_notarium.errors import NotPermitted

TOOLS = ("list", "get", "save", "manage")
"""The tools a policy may switch off. Same as the catalogue's, which is not loaded this early."""


class Mode(StrEnum):
    """Name what may be changed at all."""

    READ_ONLY = "read-only"
    WRITE = "write"
    """Everything but permanent deletion and the reset of the index."""
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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Hold why something is not permitted, and what would be."""

    message: str
    hint: str


def raise_refusal(refusal: Refusal | None) -> None:
    """Raise ``NotPermitted`` if there is a refusal."""
    if refusal is not None:
        raise NotPermitted(refusal.message, resolution_hint=refusal.hint)


_CHANGEABLE = (
    "The user has set this in MCP Notarium's policy file and can change it there "
    "(`mcp-notarium policy show`); no tool can."
)
_IRREVERSIBLE = frozenset({"delete_permanently", "reset_cache"})
_LOOKING = frozenset({"get_stats"})
_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Hold the person's decisions. The default permits everything."""

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

    def refuse_use(self, tool: str, action: str | None = None) -> Refusal | None:
        """Return why the tool may not be used, or None if it may.

        ``action`` is that of ``manage``.
        """
        if tool in self.switched_off:
            return Refusal(f"`{tool}` is switched off.", _CHANGEABLE)
        changes = tool == "save" or (action is not None and action not in _LOOKING)
        if changes and self.mode is Mode.READ_ONLY:
            return Refusal("Notes can only be read here, not changed.", _CHANGEABLE)
        if action in _IRREVERSIBLE and self.mode is not Mode.FULL:
            return Refusal(f"`{action}` is not permitted here.", _CHANGEABLE)
        return None

    def refuse_edit(self, part: Field) -> Refusal | None:
        """Return why an existing note may not get other text or tags, or None if it may.

        An agent that may not see a part could otherwise overwrite it unseen, or guess at it.
        """
        if not self.hides(part):
            return None
        return Refusal(f"The {part} of notes is hidden and cannot be changed.", _CHANGEABLE)

    def refuse_filter(self, part: Field) -> Refusal | None:
        """Return why notes may not be filtered by this part, or None if they may.

        The results would tell what a hidden part is.
        """
        if not self.hides(part):
            return None
        other = "tags and dates" if part is Field.TEXT else "words and dates"
        return Refusal(f"The {part} of notes is hidden; look for {other}.", _CHANGEABLE)

    def refuse_write(self, note_id: str, old: Content | None, new: Content) -> Refusal | None:
        """Return why a note may not become ``new``, or None if it may. ``old`` None is a new note.

        A note that an agent sees must stay visible to it: no tag may come that hides the note, no tag may
        go that allows it.
        """
        rules = self.visibility
        if rules.sees(note_id, new.tags):
            return None
        if added := rules.hiding_tags(new.tags):
            names = ", ".join(f'"{tag}"' for tag in added[:_NAMED])
            return Refusal(
                f"This tag may not be given here: {names}.", f"Leave it out. {_CHANGEABLE}"
            )
        what = "A new note" if old is None else "The note"
        if not rules.allowed_tags:
            return Refusal(
                f"{what} would be hidden from you as it is.", self._hint_for_visible_tags()
            )
        return Refusal(f"{what} needs another tag.", self._hint_for_visible_tags())

    def _hint_for_visible_tags(self) -> str:
        """Return the hint that names the tags a note must carry."""
        allowed = self.visibility.allowed_tags
        if allowed:
            names = ", ".join(f'"{tag}"' for tag in allowed[:_NAMED])
            return f"Give it at least one of these tags: {names}. {_CHANGEABLE}"
        if self.visibility.allowed_ids is not None:
            return f"Only certain notes are open to you; none can be added. {_CHANGEABLE}"
        return f"Give it at least one tag. {_CHANGEABLE}"


PERMISSIVE = Policy()
"""The policy if the person has set none."""
