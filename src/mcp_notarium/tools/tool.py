"""Describe a tool, and what its handler gets for one call.

The server makes one :class:`CallContext` for each call. Handlers read the index freely. Every change
happens inside ``app.library.writing()``: writes of one note are served one after another, and reads never
wait for the network behind a write.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pydantic import BaseModel

if TYPE_CHECKING:
    from mcp_notarium.storage.audit_log import Act
    from mcp_notarium.tools.question import Question


class CallContext(Protocol):
    """Represent one call: how to record a change, to ask the user, and to tell the client."""

    @property
    def client(self) -> str | None:
        """Return the program that calls, as versions name it; None: the user, at a terminal."""

    @property
    def act(self) -> Act:
        """Return what a change is recorded by before it is made."""

    async def confirm(self, question: Question) -> bool:
        """Return whether the user agrees.

        Raises ``ConfirmationRequired`` if nobody can say.
        """

    async def progress(self, done: float, total: float | None, message: str) -> None:
        """Report progress to the client; does nothing if the client did not ask for that."""


Handler = Callable[..., Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class Tool:
    """Describe one tool, ready to be listed and called."""

    name: str
    title: str
    description: str
    request: type[BaseModel]
    answer: type[BaseModel]
    handle: Handler
    other_answers: tuple[type[BaseModel], ...] = ()
    """Describe what some calls get instead."""
    read_only: bool = False
    """Tell a client, as the next three do, what it may rely on when it decides whether to ask its user."""
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    stands_for: str = ""
    """Name the tool of ours whose rules of the policy hold for this one; '' for one of ours."""
    action: str | None = None
    """Name the action of that tool."""
    protocol_errors: bool = False
    """Answer errors as those of the protocol. They have the next two codes, and end with ``failure_sign``."""
    wrong_code: int = -32602
    """Say that the caller can change it."""
    missing_code: int = -32602
    """Say that there is no such note."""
    without: frozenset[str] = frozenset()
    """Name the actions and arguments that clients are not shown."""
    failure_sign: str = ""
    family: str = "tool"
    """Name what the audit log puts before the tool's name."""

    rule: tuple[str, str | None] = field(init=False)
    """Say what the policy calls it: a tool of ours, and an action of that."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", (self.stands_for or self.name, self.action))
