"""Let preloaded programs pause briefly between the tries of a request, where the pauses are not what is tested.

They make as many tries, and wait for answers as long. With ``--all`` the pauses are those of the program.
"""

from __future__ import annotations

from mcp_notarium.stores.http_rules import RetryPolicy
from support.long import LONG

_MARK = "SHORT_PAUSES"
MARKED = {} if LONG else {_MARK: "1"}
"""Add this to the environment of a preloaded program; the program does not see it."""
LONGEST = 0.02


def install() -> None:
    """Shorten the pauses in this process."""
    RetryPolicy.pause = lambda _self, _number, drawn: drawn * LONGEST  # type: ignore[method-assign]


def wanted(env: dict[str, str]) -> bool:
    """Take the mark out of an environment; return whether it was there."""
    return env.pop(_MARK, None) is not None
