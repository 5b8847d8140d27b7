"""Log events: named loggers, one redacted line per event, to stderr and a file.

No other package configures logging. The import is cheap: the stdlib's logging is loaded with the first line that is
really written. ``logs.get("sync").info("sync.cycle_done", stored=12)``: event names are dotted and constant, facts are
keywords, and an allow-list in ``logs/redaction.py`` names those that may carry text. ``exc`` takes an exception.
"""

from mcp_notarium.logs.logger import (
    Logger,
    get,
    protect,
    protect_config,
    scrub,
    scrub_for_client,
    scrub_for_pipe,
    scrub_for_terminal,
)
from mcp_notarium.logs.setup import close, configure, listen_to_libraries, watch_loop

__all__ = [
    "Logger",
    "close",
    "configure",
    "get",
    "listen_to_libraries",
    "protect",
    "protect_config",
    "scrub",
    "scrub_for_client",
    "scrub_for_pipe",
    "scrub_for_terminal",
    "watch_loop",
]
