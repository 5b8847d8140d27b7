"""Tells whoever is about to send a write that its caller has taken it back.

A write goes on in a task of its own when its caller is cancelled. Until its request leaves it can still be
dropped, but only the sender knows when that is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from mcp_notarium.errors import BackendUnavailable

WITHDRAWN: ContextVar[Callable[[], bool]] = ContextVar("withdrawn", default=lambda: False)
"""Whether the write of this task was taken back. Set by whoever starts the task."""


def demand_wanted() -> None:
    """Raise ``BackendUnavailable`` if the write was taken back. Call it just before sending."""
    if WITHDRAWN.get()():
        raise BackendUnavailable("the call was cancelled before its request was sent")
