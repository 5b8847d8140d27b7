"""What a secret looks like when nobody told us about it: bearer headers, raw keys, JWTs, e-mail.

Every pattern is bounded, so a hostile line costs time linear in its length. The replacements
contain nothing that a second pass would change, and no quote or backslash: a JSON line stays one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

BLOT = "[redacted]"

_TELLING_WORDS = (
    "password|passphrase|passwd|secret|token|authorization|cookie|api[_-]?key|credential|"
    "db_encryption_key|auth[_-]?code|private[_-]?key"
)

_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,15}:/{2})[^\s/@\"'\\<>]{1,256}@")
_SCHEME = re.compile(r"(?i)\b(bearer|basic|digest|token)(\s{1,4}|%20)[a-z0-9._~+/=-]{8,4096}")
_KEY_LITERAL = re.compile(r"(?i)\bx(\\{0,8}['\"]|%27|&#(?:39|x27);)[0-9a-f]{16,4096}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,4096}\.[A-Za-z0-9_-]{2,8192}(?:\.[A-Za-z0-9_-]{0,4096})?")
_LONG_HEX = re.compile(r"(?i)(?<![0-9a-z])[0-9a-f]{32,4096}(?![0-9a-z])")
_EMAIL = re.compile(
    r"(?<![^\s\"'<>,;:=()\[\]{}|/\\])[^\s\"'<>@,;:=()\[\]{}|/\\]{1,64}(?:@|%40|&#64;)"
    r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
)
_NAME = rf"(?:{_TELLING_WORDS})s?"
_PAIR = re.compile(
    rf"(?i)({_NAME}\\{{0,8}}[\"']?"
    r"(?:\s{0,3}[:=]\s{0,3}(?:b(?=\\{0,8}[\"']))?\\{0,8}[\"']?|\s{0,3},\s{0,3}b?\\{0,8}[\"']))"
    r"([^\s\"'\\,;&(){}\[\]<>]{1,8192})"
)
_PAIR_QUOTED = re.compile(
    rf"(?i)({_NAME}[\"']?\s{{0,3}}[:=,]\s{{0,3}}b?)(\"[^\"\\]{{1,4096}}\"|'[^'\\]{{1,4096}}')"
)


def blot_shapes(text: str, *, email_key: bytes) -> str:
    """``text`` without bearer values, raw keys, JWTs, long hexadecimal runs and e-mail addresses."""
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return _EMAIL.sub(_pseudonymiser(email_key), text)


def blot_pairs(text: str) -> str:
    """``text`` without what follows ``password=``, ``"token":``, ``X-Simperium-Token:`` ...

    For loose text only: in a finished JSON line it could replace an unquoted value.
    """
    text = _PAIR_QUOTED.sub(rf"\1'{BLOT}'", text)
    return _PAIR.sub(_blot_pair, text)


def pseudonym(address: str, *, email_key: bytes) -> str:
    """A short name for an e-mail address, the same as long as ``email_key`` is the same."""
    plain = address.replace("%40", "@").replace("&#64;", "@").casefold()
    digest = hashlib.blake2b(plain.encode("utf-8", "replace"), key=email_key, digest_size=4)
    return f"[email:{digest.hexdigest()}]"


def _pseudonymiser(email_key: bytes) -> Callable[[re.Match[str]], str]:
    return lambda found: pseudonym(found.group(), email_key=email_key)


def _blot_pair(found: re.Match[str]) -> str:
    # "Authorization: Bearer [redacted]": the scheme word is no secret, its value is gone already.
    if found.group(2).casefold() in {"bearer", "basic", "digest", "token"}:
        return found.group()
    return found.group(1) + BLOT


_REPLACEMENTS = (
    (_USERINFO, rf"\1{BLOT}@"),
    (_SCHEME, rf"\1 {BLOT}"),
    (_KEY_LITERAL, BLOT),
    (_JWT, BLOT),
    (_LONG_HEX, BLOT),
)
