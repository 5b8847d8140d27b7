"""Define the one exception tree: a class for every failure that a caller can act on differently.

::

    NotariumError
    ├── ConfigError            SettingsMissing, PolicyChanged
    ├── LockedError            carries a Verdict
    ├── Unfinished
    ├── InvalidRequest         QueryError, PatchError, ConfirmationRequired, NotPermitted
    ├── NoteNotFound
    ├── VersionConflict
    ├── LoginRequired          OtherAccount
    ├── Restated
    ├── StoreError             StoreUnavailable (StorePlaceUnusable), StoreTimeout, RateLimited,
    │                          StoreRejected (UnfitContent, DateRefused), StoreProtocolError, OutcomeUnknown, CursorLost,
    │                          RemoteVanished
    └── CacheError             CacheBusy, StillLoading, CacheFull, NotRecorded (RollbackSeen),
                               CacheDamaged (CacheReplaced)

The class says whose fault it is. Messages never carry note text, secrets, SQL or paths of other
people's machines. Only the two entry points render them (``protocol`` and ``cli``).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar


class Verdict(IntEnum):
    """Name why an account is locked; the value is the exit code of ``status`` and ``doctor``."""

    KEY_MISSING = 10
    WRONG_KEY = 11
    KEY_FILE_DAMAGED = 12
    DATABASE_DAMAGED = 13
    DATABASE_MISSING = 14
    OTHER_OWNER = 15
    SCHEMA_NEWER = 16
    SCHEMA_OLDER = 17
    BUSY = 18
    ROLLBACK_SEEN = 19
    UNSAFE_PATH = 20
    CRYPTO_UNSUITABLE = 21
    MODE_MISMATCH = 22
    KEYCHAIN_UNUSABLE = 23


LONGEST_REFUSAL = 300
"""Message and hint of an error have fewer characters together, for an agent; a question to the user may have more."""
_LONGEST_HINT = 240
REINSTALL = (
    "Reinstall MCP Notarium the way you installed it (`pipx reinstall mcp-notarium`, "
    "`uv tool install --reinstall .`)."
)
FREE_SPACE = "Free some disk space, then try again"
ASK_DOCTOR = "Ask the user to run `mcp-notarium doctor` in a terminal; it names the ways out."
SHORTEN = "Shorten the text, or split it into several notes."
TRASH_FIRST = "Move the note to the trash first, then delete it."
ONE_MORE_TRY = (
    "Try again in a few seconds; if it stays like this, ask the user to close the other MCP clients "
    "that use this account."
)
_IF_IT_STAYS = "if it stays like this, ask the user to run `mcp-notarium doctor`."
_TO_THE_USER = re.compile(r"(?:ask|tell) the user(?: to|:) ", re.IGNORECASE)
_USER = re.compile(r"\bthe user\b", re.IGNORECASE)
_FIRST = re.compile(r"\A[a-z]|(?<=\. )[a-z]")
_OF_THE_USER = (
    (re.compile(r",? (and|or) to (?=[a-z])"), r" \1 "),
    (re.compile(r"\b(?:tell )?the user, who\b", re.IGNORECASE), "you"),
    (
        re.compile(r"\bthe user's\b|\btheir(?= app\b| editor\b| file manager\b)", re.IGNORECASE),
        "your",
    ),
    (re.compile(r"\bthe user( still)? (want|agree|ask)s\b", re.IGNORECASE), r"you\1 \2"),
    (re.compile(r"\bthe user has\b", re.IGNORECASE), "you have"),
    (re.compile(r"\bthe user is\b", re.IGNORECASE), "you are"),
    (re.compile(r"\bthe user\b", re.IGNORECASE), "you"),
)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """Hold what an error tells a client in addition to its message, as plain values that can be stored."""

    category: str
    subcategory: str | None
    http_status_code: int
    retryable: bool
    resolution_hint: str | None
    agent_hint: str | None


class NotariumError(Exception):
    """Base every error that the program raises on purpose: the caller has the message, the class the rest.

    ``details`` are plain JSON values.
    """

    category: str = "INTERNAL"
    subcategory: str | None = None
    http_status_code: int = 500
    exit_code: int = 1
    retryable: bool = False
    resolution_hint: str | None = None
    """Next step to take."""
    agent_hint: str | None = None
    """The same for an agent, if that differs."""
    tells_text: bool = False
    """The details tell what notes say, so they are marked and counted like an answer."""
    whole: ClassVar[bool] = False
    """An agent gets the message uncut."""

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        resolution_hint: str | None = None,
        subcategory: str | None = None,
        http_status_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = dict(details or {})
        self.resolution_hint = resolution_hint or self.resolution_hint
        self.subcategory = subcategory or self.subcategory
        self.http_status_code = http_status_code or self.http_status_code

    def to_dict(self, scrub: Callable[[dict[str, Any]], dict[str, Any]] = dict) -> dict[str, Any]:
        """Return the error for the client: plain JSON values, no trace, path or secret.

        A message that is too long is cut, after ``scrub`` has removed secrets: half of one is not recognised.
        """
        body = scrub(
            {
                "category": self.category,
                "subcategory": self.subcategory,
                "http_status_code": self.http_status_code,
                "message": self.message,
                "resolution_hint": self.agent_hint or self.resolution_hint,
                "retryable": self.retryable,
                "details": self.details or None,
            }
        )
        hint = _cut(body["resolution_hint"] or "", _LONGEST_HINT)
        body["resolution_hint"] = hint or None
        if not self.whole:
            body["message"] = _cut(body["message"], LONGEST_REFUSAL - 1 - len(hint))
        return {key: value for key, value in body.items() if value is not None}

    @property
    def person_hint(self) -> str:
        """Return what to do next, for the user at a terminal; '' if nobody knows."""
        return to_person(self.resolution_hint)

    @property
    def kind(self) -> ErrorKind:
        """Return what the error says in addition to its message."""
        return ErrorKind(
            self.category,
            self.subcategory,
            self.http_status_code,
            self.retryable,
            self.resolution_hint,
            self.agent_hint,
        )


def to_person(hint: str | None) -> str:
    """Return a hint in the words for the user at a terminal; '' for None."""
    said = hint or ""
    if _USER.search(said):
        said = _TO_THE_USER.sub("", said)
        for named, you in _OF_THE_USER:
            said = named.sub(you, said)
    return _FIRST.sub(lambda found: found[0].upper(), said)


class ConfigError(NotariumError):
    """Report that a setting is missing, malformed, out of range or unreadable."""

    category = "VALIDATION"
    subcategory = "configuration"
    http_status_code = 400


class SettingsMissing(ConfigError):
    """Report that required settings are not set; ``details["missing"]`` are their names."""

    subcategory = "settings_missing"
    http_status_code = 503

    def __init__(self, message: str, *, missing: list[str], resolution_hint: str) -> None:
        super().__init__(message, details={"missing": missing}, resolution_hint=resolution_hint)
        self.agent_hint = (
            "Ask the user to run `mcp-notarium setup` in a terminal (or to set "
            f"{' and '.join(missing)} in the client's configuration) and to restart the client."
        )


class PolicyChanged(ConfigError):
    """Report that the index follows other visibility rules than this process was started with."""

    subcategory = "policy_changed"
    http_status_code = 503
    resolution_hint = (
        "Ask the user to restart this MCP client (and others that use the account). Clients with "
        "different rules need separate caches: set another NOTARIUM_DATA_DIR."
    )


class LockedError(NotariumError):
    """Refuse to open the account; nothing was changed. No hint for an agent deletes a file."""

    category = "DB_OPERATION"
    subcategory = "locked"
    http_status_code = 423

    def __init__(
        self,
        verdict: Verdict,
        message: str,
        *,
        resolution_hint: str,
        agent_hint: str = ASK_DOCTOR,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            message,
            resolution_hint=resolution_hint,
            details={"verdict": verdict.name.lower(), "exit_code": int(verdict)} | (details or {}),
        )
        self.verdict = verdict
        self.exit_code = int(verdict)
        self.agent_hint = agent_hint


class Unfinished(NotariumError):
    """Report that a change is active, or cannot be undone, and its last steps failed; the hint finishes it."""

    category = "DB_OPERATION"
    subcategory = "unfinished"


class InvalidRequest(NotariumError):
    """Report that the request cannot be carried out as it stands; change it as the hint says."""

    category = "VALIDATION"
    http_status_code = 400


class NoteLeft(InvalidRequest):
    """Leave one note of many as it is. The message stands in its row of the answer, so it needs no hint."""


class QueryError(InvalidRequest):
    """Report that the search text asks for something the query language cannot say."""

    subcategory = "query"


class PatchError(InvalidRequest):
    """Report that the patch does not fit the text it was made for; nothing was changed."""

    subcategory = "patch"


class ConfirmationRequired(InvalidRequest):
    """Report that the action is destructive or shares a note, and nobody has confirmed it."""

    subcategory = "confirmation_required"
    http_status_code = 403
    tells_text = True
    whole = True


class NotPermitted(InvalidRequest):
    """Report that the user's policy does not allow this; nothing was done."""

    subcategory = "policy"
    http_status_code = 403


class NoteNotFound(NotariumError):
    """Report that no note with this id is known here or at the store."""

    category = "NOT_FOUND"
    http_status_code = 404
    resolution_hint = "Use `list` to find the note and take its `uuid` as `id`."


class VersionConflict(NotariumError):
    """Report that the note has changed since the caller read it; nothing was written."""

    category = "BACKEND_API"
    subcategory = "conflict"
    http_status_code = 409
    resolution_hint = (
        "Call `get` with this id, apply your change to the current text, "
        "and `save` again with the new `local_version`."
    )


class IdTaken(VersionConflict):
    """Report that the store has a note of this id already; the new note was not written."""


class LoginRequired(NotariumError):
    """Report that there is no login that the store accepts; local notes stay readable."""

    category = "AUTH"
    subcategory = "login_required"
    http_status_code = 401
    resolution_hint = agent_hint = "Ask the user to run `mcp-notarium login` in a terminal."

    def __init__(self, message: str, *, resolution_hint: str | None = None) -> None:
        super().__init__(message, resolution_hint=resolution_hint)
        if resolution_hint:
            self.agent_hint = f"Ask the user to {resolution_hint[:1].lower()}{resolution_hint[1:]}"


class OtherAccount(LoginRequired):
    """Report that the login is of another account than the local notes; it is not used for anything."""

    subcategory = "other_account"
    resolution_hint = agent_hint = (
        "Ask the user to run `mcp-notarium login` for the account that the client's configuration names."
    )


class Restated(NotariumError):
    """Report an error again, with a message of its own, that perhaps another process has met."""

    def __init__(
        self, message: str, kind: ErrorKind, *, resolution_hint: str | None = None
    ) -> None:
        super().__init__(
            message,
            resolution_hint=resolution_hint or kind.resolution_hint,
            subcategory=kind.subcategory,
            http_status_code=kind.http_status_code,
        )
        self.category, self.retryable = kind.category, kind.retryable
        self.agent_hint = resolution_hint or kind.agent_hint


class StoreError(NotariumError):
    """Report that the store did not do what was asked."""

    category = "BACKEND_API"
    http_status_code = 502


class StoreUnavailable(StoreError):
    """Report that the store cannot be reached or is failing; the request was not carried out."""

    subcategory = "unavailable"
    http_status_code = 503
    retryable = True
    resolution_hint = "Notes in the cache can still be read. Try this again in a few minutes."


class StorePlaceUnusable(StoreUnavailable):
    """Report that the folder or file of a setting is not there, or cannot be used."""

    subcategory = "place_unusable"
    retryable = False


class StoreTimeout(StoreError):
    """Report that no answer came within API_TIMEOUT_SECONDS."""

    category = "TIMEOUT"
    subcategory = "timeout"
    http_status_code = 504
    retryable = True
    resolution_hint = "Try again later, or raise API_TIMEOUT_SECONDS."
    agent_hint = "Try again in a few minutes."


class RateLimited(StoreError):
    """Report that the store asks to slow down; wait ``retry_after`` seconds (None: not said)."""

    subcategory = "rate_limit"
    http_status_code = 429
    retryable = True
    resolution_hint = "Wait as long as `retry_after_seconds` says (or a minute) and try again."

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        if retry_after is not None:
            self.details["retry_after_seconds"] = retry_after
        self.retry_after = retry_after


class StoreRejected(StoreError):
    """Report that the store refuses this body permanently (bad form, or too large)."""

    subcategory = "rejected"
    http_status_code = 400
    tells_text = True  # what is in the way may stand in the note
    resolution_hint = "Do not repeat it unchanged: it would be refused again."


class NoteReadOnly(StoreRejected):
    """Report that the store marks the note as one that may only be read."""

    subcategory = "read_only"
    http_status_code = 403
    resolution_hint = "Ask the user to permit this program to write the file and its folder, or to change the note in its app."

    def __init__(self) -> None:
        super().__init__("the file of this note, or its folder, may only be read")


class UnfitContent(StoreRejected):
    """Report that the store cannot hold this text, title or tag, or not in this note; the caller can change it."""

    category = "VALIDATION"
    http_status_code = 422


class DateRefused(StoreRejected):
    """Report that the store refuses the date of the change: the clock of this computer is far off."""

    subcategory = "clock"
    resolution_hint = "Ask the user to set the clock of this computer, then try again."


class StoreProtocolError(StoreError):
    """Report that the store's answer breaks its protocol, or is far too large."""

    subcategory = "bad_answer"
    resolution_hint = f"Try again in a few minutes; {_IF_IT_STAYS}"


class NoteUnreadable(StoreProtocolError):
    """Report that something has the name of the note at the store, and cannot be read as a note."""

    category = "VALIDATION"
    subcategory = "not_a_note"
    http_status_code = 422


class OutcomeUnknown(StoreError):
    """Report that a write was sent and no answer came; its journal entry stays, and the next sync finishes it."""

    subcategory = "in_doubt"
    http_status_code = 504
    resolution_hint = (
        "Do not repeat the write: the next sync finishes it. Check with `get` in a while."
    )


class OutOfSight(OutcomeUnknown):
    """Report so that nothing was stored, where the reason would tell a hidden note from a removed one."""

    really = "not_found"
    """Name of the outcome in the audit log."""


class CursorLost(StoreError):
    """Report that the change feed no longer knows our cursor; a full listing is needed."""

    subcategory = "cursor_lost"
    retryable = True


class RemoteVanished(StoreError):
    """Report that more notes disappeared at once than a person deletes; nothing was removed here."""

    subcategory = "remote_vanished"
    resolution_hint = (
        "If the notes were really deleted, run `mcp-notarium reset-cache`; "
        "if not, nothing is lost: the cache still has them."
    )
    agent_hint = (
        "Ask the user: if these notes were really deleted, `mcp-notarium reset-cache` accepts that."
    )


class CacheError(NotariumError):
    """Report that the local database did not do what was asked."""

    category = "DB_OPERATION"
    resolution_hint = f"Try again in a few seconds; {_IF_IT_STAYS}"


class CacheBusy(CacheError):
    """Report that another process holds the database."""

    subcategory = "busy"
    http_status_code = 503
    retryable = True
    resolution_hint = "Try again in a few seconds."


class StillLoading(CacheError):
    """Report that not all notes are here yet, and the user's rules hide some of them."""

    subcategory = "loading"
    http_status_code = 503
    retryable = True
    resolution_hint = "Try again in a minute. `get` can already read loaded notes by their id."


def describe_full_disk(undone: str) -> str:
    """Return the sentence about a full disk. ``undone`` is what was not done, as the end of a sentence."""
    return f"the disk is full: {undone}"


class CacheFull(CacheError):
    """Report a full disk or quota; the last change was rolled back. The caller says what was not done."""

    subcategory = "disk_full"
    http_status_code = 507
    resolution_hint = f"{FREE_SPACE}; nothing already stored is lost."

    def __init__(self, undone: str, *, details: dict[str, Any] | None = None) -> None:
        super().__init__(describe_full_disk(undone), details=details)


class NotRecorded(CacheError):
    """Report that the audit log cannot record the act, so it was not begun."""

    subcategory = "not_recorded"
    http_status_code = 503
    retryable = True


class RollbackSeen(NotRecorded):
    """Report that the database lacks what was acknowledged; nothing is changed until a person has decided."""

    subcategory = "rollback_seen"
    http_status_code = 423
    retryable = False


class CacheDamaged(CacheError):
    """Report that the database cannot be read although its key is right."""

    subcategory = "damaged"
    resolution_hint = ASK_DOCTOR


class CacheReplaced(CacheDamaged):
    """Report that another file has taken the place of the open database: what is read would be of both."""

    subcategory = "rollback_seen"
    http_status_code = 423
    resolution_hint = (
        "Ask the user to run `mcp-notarium status` and to restart the client: another database file was put in "
        "the place of the one in use."
    )
