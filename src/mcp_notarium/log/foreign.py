"""Records of other libraries, reduced to what can be shown without knowing what they quote.

A library's message may hold note text (a rejected request, an exception's text), and redaction
knows secrets, not notes. So the formatted message is shown only for libraries that log about
connections and files; of others the constant template, or nothing but the place in the source.
"""

from __future__ import annotations

import logging
from typing import Any

from mcp_notarium.redaction.processors import Event

_TALK_OF_CONNECTIONS = ("httpx", "httpcore", "hpack", "filelock", "keyring")


def own_words(_logger: Any, _method: str, event: Event) -> Event:
    """A stdlib record as an event of ours; the chain redacts it like any other."""
    record: logging.LogRecord = event["_record"]
    told: Event = {
        "event": "library.message",
        "level": record.levelname.casefold(),
        "logger": record.name,
        "where": f"{record.module}:{record.lineno}",
        "message": _message(record, event["event"], event["positional_args"]),
    }
    if record.exc_info and record.exc_info[1] is not None:
        told["exception"] = record.exc_info[1]
    # ProcessorFormatter takes these two out again and insists on finding them.
    told["_record"] = None
    told["_from_structlog"] = False
    return told


def _message(record: logging.LogRecord, template: str, args: Any) -> str:
    if record.name.partition(".")[0] in _TALK_OF_CONNECTIONS:
        return template % args if args else template
    # With arguments apart from it, the template is a constant in the library's source.
    return template if args else f"[withheld: {len(template)} characters]"
