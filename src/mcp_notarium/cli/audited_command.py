"""Commands that act through the open cache, on record: begun, and how they ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp_notarium.account.key_audit import CLIENT
from mcp_notarium.app import App
from mcp_notarium.audit.record import OK, OPEN, UNKNOWN, Entry
from mcp_notarium.errors import NotariumError


@contextmanager
def recorded(app: App, act: str) -> Iterator[None]:
    """Record ``act`` before it is begun and its outcome when it is left.

    Raises ``NotRecorded``, with nothing done, if the record cannot be written.
    """
    number = app.audit.open(Entry(at=app.clock(), act=act, client=CLIENT, outcome=OPEN))
    outcome = UNKNOWN
    try:
        yield
        outcome = OK
    except NotariumError as error:
        outcome = error.subcategory or error.category.lower()
        raise
    finally:
        app.audit.close(
            Entry(at=app.clock(), act=act, client=CLIENT, outcome=outcome, refers=number)
        )
