"""The chain as JSON Lines for somebody else: one record a line, and a last line that closes the file.

The last line names the head and the SHA-256 of everything before it. Without the cache's key nobody can
check the MACs; what can be checked is that the lines are those that were exported, that they hang
together, and (with a detached signature over the whole file) by whom they were exported.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mcp_notarium.audit.chain import Head
from mcp_notarium.audit.record import Record
from mcp_notarium.audit.verification import Fault, Kind
from mcp_notarium.crypto import canonical_json

_FORM: Final = "mcp-notarium-audit-export"
_HEAD: Final = re.compile(r"(\d{1,15}):([0-9a-f]{64})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def as_json(record: Record) -> dict[str, Any]:
    """A record as plain JSON values, for people and programs; also one that somebody has changed."""
    return {
        "number": record.number,
        "at": utc_text(record.at_ms),
        "at_ms": record.at_ms,
        "client": record.client,
        "act": record.act,
        "digest": record.digest,
        "notes": _as_it_stands(record.notes),
        "decision": record.decision,
        "outcome": record.outcome,
        "bytes_out": record.bytes_out,
        "refers": record.refers,
        "facts": _as_it_stands(record.facts),
        "previous": record.previous,
        "mac": record.mac,
    }


def _as_it_stands(text: str) -> Any:
    """The JSON value, or the text where it is none: only ``verify`` says what is wrong with it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def utc_text(at_ms: int) -> str:
    """Epoch milliseconds as UTC; what no calendar has stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return str(at_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def export_lines(records: Iterable[Record], *, now_ms: int, end: Head) -> Iterator[bytes]:
    """The lines of an export, each with its newline.

    ``end`` is the chain's; it is named where there is no record, for the beginning of all chains would
    fit every one of them.
    """
    digest, head, count = hashlib.sha256(), Head(), 0
    for record in records:
        line = canonical_json.encode(as_json(record)) + b"\n"
        digest.update(line)
        head, count = Head(record.number, record.mac), count + 1
        yield line
    closing = {
        "format": _FORM,
        "version": 1,
        "exported_at": utc_text(now_ms),
        "records": count,
        "head": str(head if count else end),
        "sha256": digest.hexdigest(),
    }
    yield canonical_json.encode(closing) + b"\n"


def find_export_faults(exported: Iterable[bytes]) -> tuple[Head, list[Fault]]:
    """What is wrong with the lines of an export; the head that its last line names."""
    digest, before, count = hashlib.sha256(), Head(), 0
    faults: list[Fault] = []
    closing: dict[str, Any] | None = None
    for place, line in enumerate(exported, 1):
        if closing is not None:
            faults.append(Fault(Kind.INSERTED, place, "stands behind the last line"))
            break
        try:
            said = json.loads(line)
            if said.get("format") == _FORM:
                closing = said
                continue
            now = Head(int(said["number"]), str(said["mac"]))
            follows = Head(now.count - 1, str(said["previous"]))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            faults.append(Fault(Kind.EDITED, place, "is not a line of an export"))
            continue
        digest.update(line)
        if count and follows != before:
            faults.append(Fault(Kind.DELETED, now.count, "does not follow the line before it"))
        before, count = now, count + 1
    if closing is not None and not count:
        before = _end(closing)
    return before, faults + _of_closing(closing, before, count, digest.hexdigest())


def _end(closing: dict[str, Any]) -> Head:
    """The head that the last line names."""
    named = _HEAD.fullmatch(str(closing.get("head")))
    return Head() if named is None else Head(int(named[1]), named[2])


def _of_closing(closing: dict[str, Any] | None, head: Head, count: int, digest: str) -> list[Fault]:
    if closing is None:
        return [Fault(Kind.TAIL_CUT, head.count + 1, "the last line is missing: the file is cut")]
    if closing.get("head") != str(head) or closing.get("records") != count:
        return [Fault(Kind.TAIL_CUT, head.count + 1, "lines are missing before the last one")]
    if closing.get("sha256") != digest:
        return [Fault(Kind.EDITED, head.count, "a line was changed after the export")]
    return []
