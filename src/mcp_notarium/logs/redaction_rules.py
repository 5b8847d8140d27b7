"""Define what is redacted or escaped: the names whose values are shown or hidden, and the shapes of secrets.

Numbers, booleans and None pass under any name that is not a secret's. Text passes only under a name
listed here. Before you add a name, ask: "can a note's text, title or tag, or anything the user
searched for, ever stand in it?" If so, do not add it; log the length instead.

The shapes find secrets that are not registered: bearer headers, raw keys, JWTs, e-mail addresses.
Every pattern is bounded, so a hostile line costs time linear in its length. The replacements contain
nothing that a second pass would change, and no quote or backslash: a JSON line stays one.

Escaped is only what could forge a line, hide text or steer a terminal; letters of every script stay.
"""

from __future__ import annotations

import hashlib
import re

IDS = frozenset({"id", "note_id"})
"""Opaque identifiers: only their first characters are shown, enough to find them again."""

WORDS = frozenset(
    {
        *("event", "level", "timestamp", "logger", "message", "where", "exception"),
        *("error", "hint", "phase", "state", "type", "warning"),
    }
)
"""Names whose values are the program's own words."""

_SECRET_NAME = re.compile(
    r"(?:^|[_\-. ])(?:pass(?:word|phrase|wd|code)?|pwd|pw|token|secret|authorization|cookie|key|"
    r"credential|salt|nonce|wrapped|pin|auth_code|login_code|dek|kek)s?$"
)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret(name: str) -> bool:
    """Return whether a value under this name is redacted whatever it is, numbers included."""
    return _SECRET_NAME.search(_CAMEL_CASE.sub("_", name).casefold()) is not None


def carries_text(name: str) -> bool:
    """Return whether text may be shown under this name."""
    return name in WORDS or name in IDS


_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNSAFE_BUT_NEWLINE_AND_TAB = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_LAST_OF_PLANE_ZERO = 0xFFFF

REDACTED = "[redacted]"

_SENSITIVE_WORDS = (
    "password|passphrase|passwd|secret|token|authorization|cookie|api[_-]?key|credential|"
    "db_encryption_key|auth[_-]?code|private[_-]?key"
)

_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,15}:/{2})[^\s/@\"'\\<>]{1,256}@")
_SCHEME = re.compile(r"(?i)\b(bearer|basic|digest|token)(\s{1,4}|%20)[a-z0-9._~+/=-]{8,4096}")
_KEY_LITERAL = re.compile(r"(?i)\bx(\\{0,8}['\"]|%27|&#(?:39|x27);)[0-9a-f]{16,4096}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,4096}\.[A-Za-z0-9_-]{2,8192}(?:\.[A-Za-z0-9_-]{0,4096})?")
_LONG_HEX = re.compile(r"(?i)(?<![0-9a-z])[0-9a-f]{32,4096}(?![0-9a-z])")
_ID = re.compile(r"[0-9a-f]{32}")
_EMAIL = re.compile(
    r"(?<![^\s\"'<>,;:=()\[\]{}|/\\])[^\s\"'<>@,;:=()\[\]{}|/\\]{1,64}(?:@|%40|&#64;)"
    r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
)
_NAME = rf"(?:{_SENSITIVE_WORDS})s?"
_PAIR = re.compile(
    rf"(?i)({_NAME}\\{{0,8}}[\"']?"
    r"(?:\s{0,3}[:=]\s{0,3}(?:b(?=\\{0,8}[\"']))?\\{0,8}[\"']?|\s{0,3},\s{0,3}b?\\{0,8}[\"']))"
    r"([^\s\"'\\,;&(){}\[\]<>]{1,8192})"
)
_PAIR_QUOTED = re.compile(
    rf"(?i)({_NAME}[\"']?\s{{0,3}}[:=,]\s{{0,3}}b?)(\"[^\"\\]{{1,4096}}\"|'[^'\\]{{1,4096}}')"
)


def redact_shapes(text: str, *, email_key: bytes, ids: bool = False) -> str:
    """Return ``text`` without bearer values, raw keys, JWTs, long hexadecimal runs and e-mail addresses.

    ``ids``: keep what has the form of a note's id, 32 hexadecimal digits; a key has more.
    """
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    text = _LONG_HEX.sub(
        lambda found: found.group() if ids and _ID.fullmatch(found.group()) else REDACTED, text
    )
    return _EMAIL.sub(lambda found: pseudonym(found.group(), email_key=email_key), text)


def redact_pairs(text: str) -> str:
    """Return ``text`` without what follows ``password=``, ``"token":``, ``X-Auth-Token:`` ...

    For loose text only: in a finished JSON line it could replace an unquoted value.
    """
    text = _PAIR_QUOTED.sub(rf"\1'{REDACTED}'", text)
    return _PAIR.sub(_redact_pair, text)


def pseudonym(address: str, *, email_key: bytes) -> str:
    """Return a short name for an e-mail address, stable while ``email_key`` is the same."""
    plain = address.replace("%40", "@").replace("&#64;", "@").casefold()
    digest = hashlib.blake2b(plain.encode("utf-8", "replace"), key=email_key, digest_size=4)
    return f"[email:{digest.hexdigest()}]"


def _redact_pair(found: re.Match[str]) -> str:
    # "Authorization: Bearer [redacted]": the scheme word is no secret, its value is gone already.
    if found.group(2).casefold() in {"bearer", "basic", "digest", "token"}:
        return found.group()
    return found.group(1) + REDACTED


def one_line(text: str) -> str:
    """Return ``text`` with every unsafe character, newlines included, escaped by its code."""
    return _UNSAFE.sub(_escape, text)


def several_lines(text: str) -> str:
    """Return ``text`` escaped as by :func:`one_line`, but with newlines and tabs: for a person."""
    return _UNSAFE_BUT_NEWLINE_AND_TAB.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\u{code:04x}" if code <= _LAST_OF_PLANE_ZERO else f"\\U{code:08x}"


_REPLACEMENTS = (
    (_USERINFO, rf"\1{REDACTED}@"),
    (_SCHEME, rf"\1 {REDACTED}"),
    (_KEY_LITERAL, REDACTED),
    (_JWT, REDACTED),
)
