"""Export the chain as JSON Lines, one record a line, and check such an export.

The last line names the head and the SHA-256 of everything before it. The MACs need the database's key. The other checks
need none: that the lines are those that were exported, that they follow each other, and who exported them, by a
detached signature over the whole file.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from mcp_notarium.audit.chain import Head, Record
from mcp_notarium.audit.verification import Fault, FaultKind
from mcp_notarium.crypto import canonical_json
from mcp_notarium.errors import ConfigError

_FORM: Final = "mcp-notarium-audit-export"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def as_json(record: Record) -> dict[str, Any]:
    """Return a record as plain JSON values, also if somebody has changed it."""
    derived = {"notes": _parse_or_keep(record.notes), "facts": _parse_or_keep(record.facts)}
    return {"number": record.number, "at": utc_text(record.at_ms)} | asdict(record) | derived


def _parse_or_keep(text: str) -> Any:
    """Return the JSON value, or the text if it is none: ``verify`` reports what is wrong with it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def utc_text(at_ms: int) -> str:
    """Return epoch milliseconds as UTC text; a time that no calendar has stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return str(at_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def export_lines(records: Iterable[Record], *, now_ms: int, end: Head) -> Iterator[bytes]:
    """Yield the lines of an export, each with its newline.

    ``end`` is the head of the chain. It is named if there is no record, because the beginning of all
    chains would fit every one of them.
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
    """Return the head that the last line of an export names, and the faults of its lines."""
    digest, before, count = hashlib.sha256(), Head(), 0
    faults: list[Fault] = []
    closing: dict[str, Any] | None = None
    for place, line in enumerate(exported, 1):
        if closing is not None:
            faults.append(Fault(FaultKind.INSERTED, place, "stands behind the last line"))
            break
        try:
            fields = json.loads(line)
            if fields.get("format") == _FORM:
                closing = fields
                continue
            now = Head(int(fields["number"]), str(fields["mac"]))
            follows = Head(now.count - 1, str(fields["previous"]))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            faults.append(Fault(FaultKind.EDITED, place, "is not a line of an export"))
            continue
        digest.update(line)
        if count and follows != before:
            faults.append(Fault(FaultKind.DELETED, now.count, "does not follow the line before it"))
        before, count = now, count + 1
    if closing is not None and not count:
        before = Head.parse(str(closing.get("head"))) or before
    return before, faults + _closing_faults(closing, before, count, digest.hexdigest())


def _closing_faults(
    closing: dict[str, Any] | None, head: Head, count: int, digest: str
) -> list[Fault]:
    if closing is None:
        return [
            Fault(FaultKind.TAIL_CUT, head.count + 1, "the last line is missing: the file is cut")
        ]
    if closing.get("head") != str(head) or closing.get("records") != count:
        return [Fault(FaultKind.TAIL_CUT, head.count + 1, "lines are missing before the last one")]
    if closing.get("sha256") != digest:
        return [Fault(FaultKind.EDITED, head.count, "a line was changed after the export")]
    return []


def private_key(content: bytes) -> Ed25519PrivateKey:
    """Return the key in a PEM file without a passphrase. Raises ``ConfigError``."""
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = serialization.load_pem_private_key(content, password=None)
        if isinstance(key, Ed25519PrivateKey):
            return key
    raise _key_error("private", "openssl genpkey -algorithm ed25519 -out FILE")


def public_key(content: bytes) -> Ed25519PublicKey:
    """Return the public key in a PEM file. Raises ``ConfigError``."""
    with suppress(ValueError, UnsupportedAlgorithm):
        key = serialization.load_pem_public_key(content)
        if isinstance(key, Ed25519PublicKey):
            return key
    raise _key_error("public", "openssl pkey -in FILE -pubout")


def is_signed(content: bytes, signature: bytes, key: Ed25519PublicKey) -> bool:
    """Tell whether this is the signature of the content."""
    try:
        key.verify(base64.b64decode(signature.strip(), validate=True), content)
    except (InvalidSignature, binascii.Error):
        return False
    return True


def _key_error(kind: str, made_by: str) -> ConfigError:
    return ConfigError(
        f"that file holds no {kind} Ed25519 key in PEM form without a passphrase",
        resolution_hint=f"`{made_by}` makes one.",
    )
