"""Remove secrets from text and values, and describe exceptions as plain values.

* **Secrets that are known**, in each spelling of docs/logging.md: one regular expression for each.
* **Names.** Numbers and truth values pass under any name that is no secret's; text only under a listed one.
  Ask before you list a name: "can a note's text, title or tag, or a search, ever stand in it?"
* **Shapes** of secrets that nobody registered: bearer values, raw keys, JWTs, e-mail addresses. Every
  pattern is bounded, so a hostile line costs time linear in its length. A second pass changes nothing of a
  replacement, and a replacement has no quote or backslash: a JSON line stays one.
* **Exceptions** show type, place and causes, no local variables and no source lines. A message that is not the
  program's or the system's own may quote a note or a password: its length replaces it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any

from mcp_notarium.errors import NotariumError
from mcp_notarium.secret import Secret

REDACTED = "[redacted]"

# --- names ---

WORDS = frozenset(
    {
        *("event", "level", "timestamp", "logger", "message", "where", "exception"),
        *("error", "hint", "phase", "state", "type", "warning"),
    }
)
"""Names whose values are the program's own words."""
IDS = frozenset({"id", "note_id"})
"""Names whose values are cut: the first characters find a note again and are too few to hide a secret."""
ID_LENGTH = 12

_SECRET_NAME = re.compile(
    r"(?:^|[_\-. ])(?:pass(?:word|phrase|wd|code)?|pwd|pw|token|secret|authorization|cookie|key|"
    r"credential|salt|nonce|wrapped|pin|auth_code|login_code|dek|kek)s?$"
)
_CAMEL_CASE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_secret(name: str) -> bool:
    """Return whether a value under this name is redacted whatever it is, numbers included."""
    return _SECRET_NAME.search(_CAMEL_CASE.sub("_", name).casefold()) is not None


# --- lines ---

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that could forge a line, hide text or steer a terminal; letters of every script stay."""
_UNSAFE_BUT_NEWLINE_AND_TAB = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_LAST_OF_PLANE_ZERO = 0xFFFF


def one_line(text: str) -> str:
    """Return ``text`` with every unsafe character, newlines included, escaped by its code."""
    return _UNSAFE.sub(_escape, text)


def several_lines(text: str) -> str:
    """Return ``text`` escaped as by :func:`one_line`, but with newlines and tabs: for a person."""
    return _UNSAFE_BUT_NEWLINE_AND_TAB.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\u{code:04x}" if code <= _LAST_OF_PLANE_ZERO else f"\\U{code:08x}"


# --- shapes ---

_NAME = (
    r"(?:password|passphrase|passwd|secret|token|authorization|cookie|api[_-]?key|credential|"
    r"db_encryption_key|auth[_-]?code|private[_-]?key)s?"
)
_USERINFO = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,15}:/{2})[^\s/@\"'\\<>]{1,256}@")
_SCHEME = re.compile(r"(?i)\b(bearer|basic|digest|token)(\s{1,4}|%20)[a-z0-9._~+/=-]{8,4096}")
_KEY_LITERAL = re.compile(r"(?i)\bx(\\{0,8}['\"]|%27)[0-9a-f]{16,4096}")
_JWT = re.compile(r"\beyJ[A-Za-z0-9_-]{5,4096}\.[A-Za-z0-9_-]{2,8192}(?:\.[A-Za-z0-9_-]{0,4096})?")
_LONG_HEX = re.compile(r"(?i)(?<![0-9a-z])[0-9a-f]{32,4096}(?![0-9a-z])")
_ID = re.compile(r"[0-9a-f]{32}")
_EMAIL = re.compile(
    r"(?<![^\s\"'<>,;:=()\[\]{}|/\\])[^\s\"'<>@,;:=()\[\]{}|/\\]{1,64}(?:@|%40)"
    r"[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
)
_PAIR = re.compile(
    rf"(?i)({_NAME}\\{{0,8}}[\"']?"
    r"(?:\s{0,3}[:=]\s{0,3}(?:b(?=\\{0,8}[\"']))?\\{0,8}[\"']?|\s{0,3},\s{0,3}b?\\{0,8}[\"']))"
    r"([^\s\"'\\,;&(){}\[\]<>]{1,8192})"
)
_PAIR_QUOTED = re.compile(
    rf"(?i)({_NAME}[\"']?\s{{0,3}}[:=,]\s{{0,3}}b?)(\"[^\"\\]{{1,4096}}\"|'[^'\\]{{1,4096}}')"
)
_REPLACEMENTS = (
    (_USERINFO, rf"\1{REDACTED}@"),
    (_SCHEME, rf"\1 {REDACTED}"),
    (_KEY_LITERAL, REDACTED),
    (_JWT, REDACTED),
)


def _redact_pairs(text: str) -> str:
    """Return ``text`` without what follows ``password=``, ``"token":``, ``X-Auth-Token:`` ...

    For loose text only: in a finished JSON line it could replace an unquoted value.
    """
    return _PAIR.sub(_redact_pair, _PAIR_QUOTED.sub(rf"\1'{REDACTED}'", text))


def _redact_pair(found: re.Match[str]) -> str:
    # "Authorization: Bearer [redacted]": the scheme word is no secret, its value is gone already.
    scheme = found.group(2).casefold() in {"bearer", "basic", "digest", "token"}
    return found.group() if scheme else found.group(1) + REDACTED


# --- spellings of a known secret ---

MINIMUM_LENGTH = 6
"""Shorter secrets are not searched for: they would redact ordinary words everywhere."""
HEAD_LENGTH = 12
"""The start of a secret of at least 16 characters is also searched for alone (truncated values)."""
_LONG_ENOUGH_FOR_HEAD = 16
# Atomic: backslashes of the secret and of an escape could share one run in every way. Not written as
# possessive repetitions: in Python 3.11.2 (Debian 12) those of a group match wrongly.
_BACKSLASHES = r"(?>(?:\\|%(?:25){0,3}5c){0,15})"
_PERCENT = r"%(?:25){0,3}"


def build_pattern(secret: bytes) -> str:
    """Return a pattern (``re.IGNORECASE``) for the spellings of ``secret``; "" for one that is too short."""
    if len(secret) < MINIMUM_LENGTH:
        return ""
    return "|".join(dict.fromkeys(_spellings(secret)))


def _spellings(secret: bytes) -> Iterator[str]:
    text = secret.decode("utf-8", "surrogateescape")
    yield from (_quoted(unicodedata.normalize(form, text)) for form in ("NFC", "NFD"))
    yield _quoted(text)
    for shift in range(3):  # defence: redact-encoded-secrets
        encoded = base64.b64encode(b"\0" * shift + secret).decode()
        # The characters that depend on the secret alone after ``shift`` other bytes.
        whole = encoded[-(-shift * 8 // 6) : (shift + len(secret)) * 8 // 6]
        yield _quoted(whole).replace(r"\+", "[+-]").replace("(?:/|", "(?:[/_]|")
    yield rf"(?:[:\s+-]|{_PERCENT}(?:20|3a))?".join(f"{byte:02x}" for byte in secret)
    if len(text) >= _LONG_ENOUGH_FOR_HEAD:
        yield _quoted(text[:HEAD_LENGTH]) + rf"[^\s\"'\\<>&]{{0,{len(text)}}}"
    if "\n" in text:  # standard error is read by lines
        yield from (_quoted(line) for line in text.splitlines() if len(line) >= MINIMUM_LENGTH)


def _quoted(text: str) -> str:
    """Return a pattern for a text, also as JSON, ``repr`` and URLs have it, quoted again and again or in parts."""
    return "".join(map(_run, re.findall(r"\\+|[^\\]", text)))


def _run(run: str) -> str:
    if run[0] == "\\":
        return rf"(?>(?:\\|{_PERCENT}5c){{{len(run)},{len(run) * 16}}})"
    if run.isascii() and run.isalnum():
        return run
    # Regular expressions fold the case of a letter, but not of the letter that an escape stands for.
    cases = (case for case in (run, run.lower(), run.upper()) if len(case) == 1)
    forms = dict.fromkeys(_loose(form) for case in cases for form in _forms(case))
    return f"{_BACKSLASHES}(?:{'|'.join(forms)})"


def _forms(char: str) -> Iterator[str]:
    """Yield a character as text, JSON, ``repr`` (of bytes, too) and URLs have it, without a leading backslash."""
    octets = char.encode("utf-8", "surrogateescape")
    escaped = (json.dumps(char)[1:-1], ascii(char)[1:-1], repr(octets)[2:-1])
    yield from (char, *(form.removeprefix("\\") for form in escaped))
    yield "".join(f"%{octet:02x}" for octet in octets)
    if char == " ":
        yield from ("+", "%2b")


def _loose(form: str) -> str:
    return "".join(
        {"\\": _BACKSLASHES, "%": _PERCENT}.get(part) or re.escape(part) for part in form
    )


# --- values ---

MAXIMUM_TEXT = 2000
MAXIMUM_FRAMES = 30
MAXIMUM_CHAIN = 6
MAXIMUM_MEMBERS = 5
_LOOKED_AT = 8 * MAXIMUM_TEXT
_LARGEST_NUMBER = 10**18


@dataclass(frozen=True)
class Redactor:
    """Remove ``secrets`` (raw bytes) and everything that looks like one from text and values.

    ``email_key`` makes the pseudonyms of e-mail addresses; 16 random bytes per process will do.
    """

    email_key: bytes
    secrets: frozenset[bytes] = frozenset()

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        """Compile when it is first used: that takes longer than most commands, and many log nothing."""
        # Longest first: if one secret starts with another, both are removed whole.
        ordered = sorted(self.secrets, key=lambda secret: (-len(secret), secret))
        joined = "|".join(filter(None, map(build_pattern, ordered)))
        return re.compile(joined, re.IGNORECASE) if joined else None

    def __repr__(self) -> str:
        return f"Redactor({len(self.secrets)} secrets)"

    def with_secret(self, *secrets: Secret) -> Redactor:
        """Return a redactor that knows these secrets too; itself if it knew them all."""
        known = self.secrets | {secret.reveal() for secret in secrets if secret}
        return self if known == self.secrets else Redactor(self.email_key, known)

    def redact_text(self, text: str, *, ids: bool = False) -> str:
        """Return loose text (an error message, a line on stderr) without secrets. ``ids``: notes' ids stay."""
        return _redact_pairs(self.redact_line(text, ids=ids))

    def redact_line(self, line: str, *, ids: bool = False) -> str:
        """Return a finished line without secrets and shapes of them; a JSON line stays JSON.

        ``ids``: keep what has the form of a note's id, 32 hexadecimal digits; a key has more.
        """
        # defence: redact-by-shape _redact_shapes()
        return self._redact_shapes(self.remove_secrets(line), ids=ids)

    def remove_secrets(self, text: str) -> str:
        """Return ``text`` without the secrets themselves; addresses and long numbers stay."""
        # defence: redact-known-secrets =True
        return text if self._pattern is None else self._pattern.sub(REDACTED, text)

    def _redact_shapes(self, text: str, *, ids: bool) -> str:
        for pattern, replacement in _REPLACEMENTS:
            text = pattern.sub(replacement, text)
        text = _LONG_HEX.sub(
            lambda found: found.group() if ids and _ID.fullmatch(found.group()) else REDACTED, text
        )
        return _EMAIL.sub(self._pseudonym, text)

    def _pseudonym(self, address: re.Match[str]) -> str:
        plain = address.group().replace("%40", "@").casefold().encode("utf-8", "replace")
        digest = hashlib.blake2b(plain, key=self.email_key, digest_size=4)
        return f"[email:{digest.hexdigest()}]"

    def redact_facts(self, facts: Mapping[str, object]) -> dict[str, Any]:
        """Return an event's facts as plain JSON values, filtered by the allow-list."""
        return {name: self.redact_value(name, value) for name, value in facts.items()}

    def redact_value(self, name: str, value: object) -> Any:
        """Return one fact as it may be shown under ``name``; of anything else than words and numbers the type."""
        if value is None or isinstance(value, bool):
            return value
        if is_secret(name) or isinstance(value, Secret):  # defence: redact-by-name -is_secret
            return REDACTED
        if isinstance(value, (int, float)):
            return self._redact_number(value)
        if isinstance(value, str):
            return self._redact_words(name, value)
        if isinstance(value, BaseException):
            return self._redact_description(describe(value))
        return f"[{type(value).__qualname__}]"

    def _redact_number(self, number: float) -> Any:
        if not -_LARGEST_NUMBER < number < _LARGEST_NUMBER:  # also NaN and the infinities
            return REDACTED
        return number if self.redact_line(str(number)) == str(number) else REDACTED

    def _redact_words(self, name: str, text: str) -> str:
        if name not in WORDS | IDS:  # defence: text-by-listed-name-only
            return f"[hidden: {len(text)} characters]"
        if name in IDS and len(text) > ID_LENGTH and self.remove_secrets(text) == text:
            text = text[:ID_LENGTH] + "…"
        # Cut after redacting: half a secret would not be recognised.
        clean = self.redact_text(text[:_LOOKED_AT])
        return clean if len(clean) <= MAXIMUM_TEXT else clean[:MAXIMUM_TEXT] + "…"

    def _redact_description(self, part: Any) -> Any:
        if isinstance(part, str):
            return self.redact_text(part[:_LOOKED_AT])[:MAXIMUM_TEXT]
        if isinstance(part, list):
            return [self._redact_description(item) for item in part]
        return {key: self._redact_description(value) for key, value in part.items()}


# --- exceptions ---


def describe(error: BaseException, *, depth: int = 0) -> dict[str, Any]:
    """Return ``{"type", "message", "frames", ...}`` of plain strings; never raises on a hostile error."""
    described: dict[str, Any] = {
        "type": type(error).__qualname__,
        "message": describe_message(error),
    }
    if frames := _list_frames(error.__traceback__):
        described["frames"] = frames
    if depth == MAXIMUM_CHAIN:
        return described
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        described["cause"] = describe(cause, depth=depth + 1)
    if isinstance(error, BaseExceptionGroup):
        members = error.exceptions[:MAXIMUM_MEMBERS]
        described["members"] = [describe(member, depth=depth + 1) for member in members]
    return described


def describe_message(error: BaseException) -> str:
    """Return the message if it is ours or the operating system's, else its length."""
    if isinstance(error, NotariumError):
        return error.message
    if isinstance(error, OSError) and isinstance(error.strerror, str):
        return f"[errno {error.errno}] {error.strerror}"
    # defence: foreign-errors _message_length()
    return f"[hidden: {_message_length(error)} characters]"


def _message_length(error: BaseException) -> int:
    try:
        return len(str(error))
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything at all
        return 0


def _list_frames(trace: TracebackType | None) -> list[str]:
    frames: list[str] = []
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{shorten_path(code.co_filename)}:{trace.tb_lineno} in {code.co_name}")
        trace = trace.tb_next
    return frames[-MAXIMUM_FRAMES:]


def shorten_path(filename: str) -> str:
    """Return the last two parts of a path: enough to find the module, without a home folder."""
    return "/".join(filename.replace("\\", "/").rsplit("/", 2)[-2:])
