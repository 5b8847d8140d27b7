"""Define the facts that a start decides on: frozen values, each with a "not looked at" default.

Pure. ``inspection`` fills them in, ``startup_table`` decides on them. Nothing here looks at anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from mcp_notarium.config.settings import OnUnreadable
from mcp_notarium.crypto.key_file_codec import FileState
from mcp_notarium.files.account_folder import Problem
from mcp_notarium.storage.integrity import PageSample


class KeySource(StrEnum):
    """Name the result of looking for a key in the first source that is present."""

    ABSENT = "absent"
    FOUND = "found"
    MALFORMED = "malformed"
    KEYCHAIN_UNUSABLE = "keychain_unusable"


class Unwrap(StrEnum):
    """Name what the key does to the key file. ``FORGED``: a slot opens and the MAC does not fit."""

    NOT_TRIED = "not_tried"
    OPENED = "opened"
    WRONG_KEY = "wrong_key"
    FORGED = "forged"


class Opening(StrEnum):
    """Name what happened when the database was opened with a key that is proven right.

    ``MIXED``: it cannot be read, and lacks what was confirmed: an older file was put in its place or beside its log.
    """

    NOT_TRIED = "not_tried"
    OPENED = "opened"
    DAMAGED = "damaged"
    MIXED = "mixed"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Files:
    """Hold which files exist.

    ``current``: the database of the generation the key file names. ``unknown``: encrypted
    databases that neither the key file nor a prepared one names. ``prepared``: a whole key file
    that was never switched on.
    ``wal``: a write-ahead log that is not empty lies beside the database in question.
    """

    current: bool = False
    unknown: int = 0
    prepared: bool = False
    plain: bool = False
    wal: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """Hold what key file and database must agree on; a plain database has only the owner's hash."""

    owner_hash: str
    vault_id: str = ""
    generation: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class SchemaSeen:
    """Hold the database's schema version and the program's."""

    version: int
    program: int
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Observations:
    """Hold everything start-up decides on.

    - ``plain``: DB_ENCRYPTION is off. ``driver_problem``: why the driver is unsuitable.
    - ``source``: the name of the key source. ``reason``: why it, or the keychain, failed. ``weakness``: why
      the key given makes no new cache. ``typo``: what is wrong with a key meant as a recovery key.
    - ``keychain``: why the keychain has no key, '' if it was not asked. ``keychain_slot``: the keychain of
      some active slot could open the cache, if it were asked.
    - ``change_unfinished``: a crash came between key file and copy, or left temporary files.
      ``copy_ahead``: the key vouches for a copy that is newer than the key file. ``rotated``: the day of
      the key's last change, if known.
    - ``lacks``: what a mixture of two states lacks. ``copy_back``: the copy that has it, ``newest_copy``: the newest one, a
      sentence or ''.
    - ``only_copy``: the notes are in this database and nowhere else.
    """

    plain: bool = False
    driver_problem: str = ""
    cipher_major: int = 4
    path_problem: Problem | None = None
    key: KeySource = KeySource.ABSENT
    source: str = ""
    reason: str = ""
    weakness: str | None = None
    typo: str = ""
    keychain: str = ""
    keychain_slot: bool = False
    main: FileState = FileState.MISSING
    copy: FileState = FileState.MISSING
    change_unfinished: bool = False
    copy_ahead: bool = False
    newer_version: int | None = None
    rotated: str | None = None
    cipher_floor: int = 0
    schema_floor: int = 0
    unwrap: Unwrap = Unwrap.NOT_TRIED
    owner_matches: bool = False
    files: Files = field(default_factory=Files)
    sample: PageSample | None = None
    opening: Opening = Opening.NOT_TRIED
    lacks: str = "the database is a mixture of two states"
    copy_back: str = ""
    newest_copy: str = ""
    expected: Identity | None = None
    found: Identity | None = None
    schema: SchemaSeen | None = None
    only_copy: bool = False
    on_unreadable: OnUnreadable = "refuse"
    rebuilt_recently: bool = False

    @property
    def key_file_usable(self) -> bool:
        """Check whether the key file or its copy reads well."""
        return self.main is FileState.OK or self.only_copy_readable

    @property
    def only_copy_readable(self) -> bool:
        """Check whether only the copy of the key file reads well."""
        broken = self.main in {FileState.MISSING, FileState.DAMAGED}
        return broken and self.copy is FileState.OK

    @property
    def no_key_file(self) -> bool:
        """Check whether neither the key file nor its copy is there."""
        return self.main is FileState.MISSING and self.copy is FileState.MISSING

    @property
    def anything_encrypted(self) -> bool:
        """Check whether any trace of an encrypted cache lies in the folder."""
        files = self.files
        return not self.no_key_file or files.current or files.unknown > 0 or files.prepared
