"""Records of other libraries, reduced to what can be shown without knowing what they quote.

A library's message may hold note text (a rejected request, an exception's text), and redaction
knows secrets, not notes. So the formatted message is shown only for libraries that log about
connections and files; of others the constant template, or nothing but the place in the source.

Of an address only the host and the first words of the path are shown: what follows may be a tag or
a note's id, and what is searched for or asked after stands in the query. Of an answer's headers the
names and plain numbers are shown: a service may say there whatever it likes.
"""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from itertools import takewhile
from typing import Any

from mcp_notarium.logs.processors import Event
from mcp_notarium.logs.state import current_redactor

_TALK_OF_FILES = ("filelock", "keyring")
_TALK_OF_CONNECTIONS = ("httpx", "httpcore", "hpack")
_ADDRESS = re.compile(
    r"(?P<host>\bhttps?://[^\s/?#'\"<>]*)(?P<path>[^\s'\"<>]*)"
    r"|(?<![\w./%])(?P<alone>/[^\s'\"<>]*)",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"b(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
"""How httpcore shows the parts of requests and answers."""
_PLAIN_LITERAL = re.compile(r"http/\d\.\d|\d{1,10}|get|post|delete|/[^\s'\"<>]*")
_SHOWN_LITERALS = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "date", "location",
        "retry-after", "server", "set-cookie", "transfer-encoding", "www-authenticate",
        "x-simperium-version",
    }
)  # fmt: skip
_PHRASE = re.compile(r"(?P<head>\bHTTP/\d\.\d (?P<code>\d{3}))\b(?P<phrase>[^\"]*)")
_USUAL = {status.value: status.phrase for status in HTTPStatus}
_PATH_WORDS = frozenset(
    {
        "1", "chalk-bump-f49", "note", "tag", "index", "changes", "i",
        "authorize", "account", "request-login", "complete-login",
    }
)  # fmt: skip
"""Parts of a path that are the same for every account; a new one is added deliberately."""
_ITEM = "i"
"""Whatever follows it is somebody's."""


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
    library = record.name.partition(".")[0]
    if library in _TALK_OF_FILES:
        return template % args if args else template
    if library in _TALK_OF_CONNECTIONS:
        message = template % args if args else template
        # Secrets first: of one that holds a slash a piece would remain, and be no secret any more.
        return without_paths(without_values(current_redactor().without_known(message)))
    # With arguments apart from it, the template is a constant in the library's source.
    return template if args else f"[withheld: {len(template)} characters]"


def without_values(text: str) -> str:
    """``text`` without what a service said in headers and behind a status: names and numbers stay."""
    return _PHRASE.sub(_usual_phrase, _LITERAL.sub(_named_or_counted, text))


def _usual_phrase(found: re.Match[str]) -> str:
    usual = _USUAL.get(int(found["code"]), "")
    return found["head"] + (found["phrase"] if found["phrase"].strip() == usual else "")


def _named_or_counted(found: re.Match[str]) -> str:
    content = found[0][2:-1].casefold()
    shown = content in _SHOWN_LITERALS or _PLAIN_LITERAL.fullmatch(content)
    return found[0] if shown else "[withheld]"


def without_paths(text: str) -> str:
    """``text`` with every address cut down to what is the same for every account."""
    return _ADDRESS.sub(_cut, text)


def _cut(found: re.Match[str]) -> str:
    return (found["host"] or "") + _shape(found["path"] or found["alone"] or "")


def _shape(path: str) -> str:
    """``/1/app/note/i/...`` and the like; three dots stand for everything that is left out."""
    shown = list(takewhile(_PATH_WORDS.__contains__, re.split("[/?#]", path)[1:]))
    if _ITEM in shown:
        shown = shown[: shown.index(_ITEM) + 1]
    left_out = path.rstrip("/") != "".join(f"/{part}" for part in shown)
    return "".join(f"/{part}" for part in [*shown, *(["..."] if left_out else [])])
