"""Logging: named loggers for every room, one redacted line per event, to stderr and a file.

The only configurer of logging. stdout belongs to the protocol and is never written to. Importing
this room is cheap: structlog and the stdlib's logging are loaded with the first line that is
really written, or by :func:`configure_full`.

::

    _log = log.get("sync")
    _log.info("sync.page_committed", notes=12, cursor=cursor)
    _log.error("sync.failed", exc=error)

Event names are dotted and constant, facts are keywords. Which facts may carry text is an
allow-list in ``logs/allow_list.py``; ``exc`` takes an exception and shows its type and place.
"""

from mcp_notarium.logs.capture import capture
from mcp_notarium.logs.exception_hooks import watch_loop
from mcp_notarium.logs.logger import Logger, get
from mcp_notarium.logs.setup import close, configure, configure_full
from mcp_notarium.logs.state import protect, protect_config, scrub, scrub_for_client

__all__ = [
    "Logger",
    "capture",
    "close",
    "configure",
    "configure_full",
    "get",
    "protect",
    "protect_config",
    "scrub",
    "scrub_for_client",
    "watch_loop",
]
