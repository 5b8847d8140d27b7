"""Define the errors of keys and key files, as leaves of the error tree.

Start-up replaces their message with the sentence of its table; elsewhere they are shown as they are.
"""

from __future__ import annotations

from mcp_notarium.errors import InvalidRequest, LockedError, Verdict

_LOOK = "Run `mcp-notarium doctor`; it names what is wrong and the way out."


class KeyFileDamaged(LockedError):
    """Report that the key file is not what was written: changed, cut, or made by somebody else."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            Verdict.KEY_FILE_DAMAGED, f"the key file is damaged: {reason}", resolution_hint=_LOOK
        )
        self.reason = reason


class KeyFileNewer(LockedError):
    """Report that the key file is intact and was written by a later release."""

    def __init__(self, version: int) -> None:
        super().__init__(
            Verdict.SCHEMA_NEWER,
            f"the key file has format version {version}, which this release does not know",
            resolution_hint="Update MCP Notarium to the release that wrote it.",
        )
        self.version = version


class WrongKey(LockedError):
    """Report that the key file is intact and no slot opens with this key: proven without the database."""

    def __init__(self) -> None:
        super().__init__(
            Verdict.WRONG_KEY,
            "the key is wrong",
            resolution_hint="Give the key this cache was made with, or the one it was last "
            "rotated to.",
        )


class MalformedKey(LockedError):
    """Report that the text cannot be a key."""

    def __init__(self, reason: str, *, resolution_hint: str | None = None) -> None:
        super().__init__(
            Verdict.KEY_MISSING,
            f"there is no usable key: {reason}",
            resolution_hint=resolution_hint
            or "Run `mcp-notarium generate-key --file PATH` and set "
            "DB_ENCRYPTION_KEY_FILE=PATH, or choose a passphrase.",
        )
        self.reason = reason


class WeakPassphrase(InvalidRequest):
    """Report that the new passphrase could be guessed."""

    subcategory = "weak_passphrase"
    resolution_hint = (
        "Take at least 15 characters that nobody would guess (four or five random words do), or a "
        "key from `mcp-notarium generate-key`. `--allow-weak` takes this one all the same."
    )

    def __init__(self, reason: str) -> None:
        super().__init__(f"the new passphrase is too weak: {reason}")
        self.reason = reason


class SlotsRefused(InvalidRequest):
    """Report that the change of slots could lock somebody out, or names no slot."""

    subcategory = "slots"
    resolution_hint = "`mcp-notarium keys list` shows the slots; nothing was changed."


class KdfOutOfMemory(LockedError):
    """Report that there is not enough memory to derive the key; weaker parameters are never tried."""

    def __init__(self, memory_kib: int) -> None:
        super().__init__(
            Verdict.CRYPTO_UNSUITABLE,
            f"deriving the key needs {memory_kib // 1024} MiB of memory, which is not available",
            resolution_hint="Free some memory and start again.",
            agent_hint="Ask the user to free some memory and to restart the client.",
        )
