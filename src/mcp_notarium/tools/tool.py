"""Describe a call: its names, schemas and handler, and what it may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pydantic import BaseModel

Handler = Callable[..., Awaitable[BaseModel]]


@dataclass(frozen=True, slots=True)
class Tool:
    """Describe one tool, ready to be listed and called.

    ``read_only`` and the next three say what a client may rely on when it decides whether to ask its user.
    ``other_answer``: what some calls get instead. ``without``: actions and arguments that clients are not
    shown. ``stands_for``: the tool of ours, and its action, whose rules of the policy hold for this one; '' for
    one of ours. ``protocol_errors``: its errors are those of the protocol, not answers; they end with
    ``failure_sign``; ``wrong_code``: the caller can change it, ``missing_code``: no such note. ``family`` is what
    the audit log calls it before its name.
    """

    name: str
    title: str
    description: str
    request: type[BaseModel]
    answer: type[BaseModel]
    handle: Handler
    other_answer: type[BaseModel] | None = None
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    stands_for: str = ""
    action: str | None = None
    protocol_errors: bool = False
    wrong_code: int = -32602
    missing_code: int = -32602
    without: frozenset[str] = frozenset()
    failure_sign: str = ""
    family: str = "tool"

    @property
    def rule(self) -> tuple[str, str | None]:
        """Return what the policy calls it: a tool of ours, and an action of that."""
        return self.stands_for or self.name, self.action
