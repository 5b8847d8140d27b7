"""Redact log records of third-party libraries to what can be shown without knowing what they quote.

A library's message may hold note text (a rejected request, an exception's text), and redaction
knows secrets, not notes. So the formatted message is shown only for libraries that log about
connections and files. For others only the constant template is shown, or only the place in the source.

Of a URL only the host and the first words of the path are shown: the rest may be a tag or a note's
id, and the query may hold the searched words. Of a response's headers the names and plain numbers
are shown: a service may write anything there.
"""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from itertools import takewhile
from typing import Any

from structlog.typing import EventDict

from mcp_notarium.logs.logger import STATE, current_redactor

_FILE_LIBRARIES = ("filelock", "keyring")
_CONNECTION_LIBRARIES = ("httpx", "httpcore", "hpack")
_ADDRESS = re.compile(
    r"(?P<host>\bhttps?://[^\s/?#'\"<>]*)(?P<path>[^\s'\"<>]*)"
    r"|(?<![\w./%])(?P<alone>/[^\s'\"<>]*)",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"b(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
"""The form in which httpcore shows the parts of requests and responses."""
_PLAIN_LITERAL = re.compile(r"http/\d\.\d|\d{1,10}|get|post|delete|/[^\s'\"<>]*")
_SHOWN_LITERALS = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "date", "location",
        "retry-after", "server", "set-cookie", "transfer-encoding", "www-authenticate",
    }
)  # fmt: skip
_PHRASE = re.compile(r"(?P<head>\bHTTP/\d\.\d (?P<code>\d{3}))\b(?P<phrase>[^\"]*)")
_USUAL = {status.value: status.phrase for status in HTTPStatus}
_ITEM = "i"
"""Whatever follows it belongs to an account."""


def describe_record(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Turn a stdlib record into an event of ours; the pipeline redacts it like any other."""
    record: logging.LogRecord = event["_record"]
    told: EventDict = {
        "event": "library.message",
        "level": record.levelname.casefold(),
        "logger": record.name,
        "where": f"{record.module}:{record.lineno}",
        "message": _message(record, event["event"], event["positional_args"]),
    }
    if record.exc_info and record.exc_info[1] is not None:
        told["exception"] = record.exc_info[1]
    # ProcessorFormatter removes these two again and requires them.
    told["_record"] = None
    told["_from_structlog"] = False
    return told


def _message(record: logging.LogRecord, template: str, args: Any) -> str:
    library = record.name.partition(".")[0]
    if library in _FILE_LIBRARIES:
        return template % args if args else template
    if library in _CONNECTION_LIBRARIES:
        message = template % args if args else template
        # Secrets first: cutting the path of a secret with a slash would leave an unrecognisable piece.
        return cut_paths(hide_values(current_redactor().remove_secrets(message)))
    # If there are arguments, the template is a constant in the library's source.
    return template if args else f"[hidden: {len(template)} characters]"


def hide_values(text: str) -> str:
    """Return ``text`` without header values and status phrases; names and numbers stay."""
    return _PHRASE.sub(_hide_phrase, _LITERAL.sub(_hide_value, text))


def _hide_phrase(found: re.Match[str]) -> str:
    usual = _USUAL.get(int(found["code"]), "")
    return found["head"] + (found["phrase"] if found["phrase"].strip() == usual else "")


def _hide_value(found: re.Match[str]) -> str:
    content = found[0][2:-1].casefold()
    known = content in _SHOWN_LITERALS or content in STATE.wire_words
    shown = known or _PLAIN_LITERAL.fullmatch(content)
    return found[0] if shown else "[hidden]"


def cut_paths(text: str) -> str:
    """Return ``text`` with every URL cut down to what is the same for every account."""
    return _ADDRESS.sub(_cut_address, text)


def _cut_address(found: re.Match[str]) -> str:
    return (found["host"] or "") + _cut_path(found["path"] or found["alone"] or "")


def _cut_path(path: str) -> str:
    """Return ``/1/app/note/i/...`` and the like; three dots stand for everything left out."""
    shown = list(takewhile(STATE.wire_words.__contains__, re.split("[/?#]", path)[1:]))
    if _ITEM in shown:
        shown = shown[: shown.index(_ITEM) + 1]
    left_out = path.rstrip("/") != "".join(f"/{part}" for part in shown)
    return "".join(f"/{part}" for part in [*shown, *(["..."] if left_out else [])])
