"""``Policy``: everything the person has decided about agents, as one frozen value. Pure.

It judges; it enforces nothing. What is hidden never comes into the cache (``storage/visibility_gate``),
what is not permitted is refused by the tools, and nothing in a tool can change a policy.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.visibility import EVERYTHING, Visibility
from mcp_notarium.errors import NotPermitted

TOOLS = ("list", "get", "save", "manage")
"""The names a policy may switch off; those of the catalogue, which is not loaded this early."""


class Mode(StrEnum):
    """What may be changed at all."""

    READ_ONLY = "read-only"
    WRITE = "write"
    """Everything but deleting for good and emptying the cache."""
    FULL = "full"


class Field(StrEnum):
    """A part of every note that can be hidden."""

    TEXT = "text"
    TAGS = "tags"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on reading and writing; None: none. Bytes are those of an answer's JSON in UTF-8."""

    notes_per_call: int | None = None
    bytes_per_call: int | None = None
    bytes_per_session: int | None = None
    writes_per_session: int | None = None
    writes_per_hour: int | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why something is not permitted, and what would be."""

    message: str
    hint: str


def demand(refusal: Refusal | None) -> None:
    """Go on only if nothing is refused. Raises ``NotPermitted``."""
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
    """The person's decisions. The default permits everything."""

    mode: Mode = Mode.FULL
    switched_off: frozenset[str] = frozenset()
    visibility: Visibility = EVERYTHING
    hidden_fields: frozenset[Field] = frozenset()
    limits: Limits = field(default_factory=Limits)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that exist for an agent, in their order."""
        gone = self.switched_off | ({"save"} if self.mode is Mode.READ_ONLY else set())
        return tuple(name for name in TOOLS if name not in gone)

    @property
    def meaning(self) -> dict[str, object]:
        """All of it as JSON values, the same however it is written. Rules on notes stand in it as a digest."""
        return {
            "mode": self.mode.value,
            "switched_off": sorted(self.switched_off),
            "visibility": self.visibility.digest,
            "hidden_fields": sorted(part.value for part in self.hidden_fields),
            "limits": asdict(self.limits),
        }

    def read_only(self) -> Policy:
        """The same without any change."""
        return replace(self, mode=Mode.READ_ONLY)

    def hides(self, part: Field) -> bool:
        """Whether this part of notes is hidden."""
        return part in self.hidden_fields

    def may(self, tool: str, action: str | None = None) -> Refusal | None:
        """Why the tool (with this ``action`` of ``manage``) may not be used; None if it may."""
        if tool in self.switched_off:
            return Refusal(f"`{tool}` is switched off.", _CHANGEABLE)
        changes = tool == "save" or (action is not None and action not in _LOOKING)
        if changes and self.mode is Mode.READ_ONLY:
            return Refusal("Notes can only be read here, not changed.", _CHANGEABLE)
        if action in _IRREVERSIBLE and self.mode is not Mode.FULL:
            return Refusal(f"`{action}` is not permitted here.", _CHANGEABLE)
        return None

    def may_give(self, part: Field) -> Refusal | None:
        """Why an existing note may not be given other text or tags; None if it may.

        Whoever may not see a part could otherwise overwrite it unseen, or guess at it.
        """
        if not self.hides(part):
            return None
        return Refusal(f"The {part} of notes is hidden and cannot be changed.", _CHANGEABLE)

    def may_filter(self, part: Field) -> Refusal | None:
        """Why notes may not be looked for by this part: the answers would tell what it is."""
        if not self.hides(part):
            return None
        other = "tags and dates" if part is Field.TEXT else "words and dates"
        return Refusal(f"The {part} of notes is hidden; look for {other}.", _CHANGEABLE)

    def may_write(self, note_id: str, old: Content | None, new: Content) -> Refusal | None:
        """Why a note (``old`` None: a new one) may not become ``new``; None if it may.

        A note that an agent sees stays one that it sees: no protecting tag comes, no tag that it is
        seen by goes.
        """
        rules = self.visibility
        if rules.sees(note_id, new.tags):
            return None
        if added := rules.protecting(new.tags):
            names = ", ".join(f'"{tag}"' for tag in added[:_NAMED])
            return Refusal(
                f"This tag may not be given here: {names}.", f"Leave it out. {_CHANGEABLE}"
            )
        what = "A new note" if old is None else "The note"
        if not rules.allowed_tags:
            return Refusal(f"{what} would be hidden from you as it is.", self._way_to_be_seen())
        return Refusal(f"{what} needs another tag.", self._way_to_be_seen())

    def _way_to_be_seen(self) -> str:
        """What tags a note must carry."""
        allowed = self.visibility.allowed_tags
        if allowed:
            names = ", ".join(f'"{tag}"' for tag in allowed[:_NAMED])
            return f"Give it at least one of these tags: {names}. {_CHANGEABLE}"
        if self.visibility.allowed_ids is not None:
            return f"Only certain notes are open to you; none can be added. {_CHANGEABLE}"
        return f"Give it at least one tag. {_CHANGEABLE}"


PERMISSIVE = Policy()
"""What holds where the person has set nothing."""
