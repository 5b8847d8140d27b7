"""Define what a start has seen, and what it can decide: open, create, rebuild or refuse. Pure.

``inspection`` fills in the facts; each has a "not looked at" default. ``startup_table`` decides on them, row by row.
A refusal has a verdict, a sentence and the exact way out. Some refusals turn into ``Rebuild`` if the settings ask
for it and nothing can be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from mcp_notarium.account import startup_hints
from mcp_notarium.config.settings import OnUnreadable
from mcp_notarium.crypto.key_file_codec import FileState
from mcp_notarium.errors import ASK_DOCTOR, LockedError, Verdict
from mcp_notarium.files.account_folder import Problem
from mcp_notarium.keys import secret_places
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

    ``MIXED``: it cannot be read, and lacks what was confirmed: an older file was put in its place or next to its log.
    """

    NOT_TRIED = "not_tried"
    OPENED = "opened"
    DAMAGED = "damaged"
    MIXED = "mixed"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Files:
    """Hold which files exist."""

    current: bool = False
    """The database of the generation the key file names."""
    unknown: int = 0
    """Encrypted databases that neither the key file nor a prepared one names."""
    prepared: bool = False
    """A whole key file that was never switched on."""
    plain: bool = False
    wal: bool = False
    """A write-ahead log that is not empty lies next to the database in question."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Hold what key file and database must agree on."""

    owner_hash: str
    """All that a plain database has."""
    vault_id: str = ""
    generation: str = ""
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class SchemaSeen:
    """Hold the versions of the schema."""

    version: int
    """The database's."""
    program: int
    """The program's, the only one it opens."""
    ours: bool = True
    """The database is one of this program."""

    @property
    def is_readable(self) -> bool:
        """Check whether the tables are those that the program knows."""
        return self.ours and self.version == self.program


@dataclass(frozen=True, slots=True)
class Observations:
    """Hold everything start-up decides on. A text is '' where there is nothing to say."""

    plain: bool = False
    """DB_ENCRYPTION is off."""
    driver_problem: str = ""
    """Fault that makes the driver unsuitable."""
    cipher_major: int = 4
    path_problem: Problem | None = None
    key: KeySource = KeySource.ABSENT
    source: str = ""
    """The name of the key source."""
    reason: str = ""
    """Reason that the key source, or the keychain, failed."""
    weakness: str | None = None
    """Weakness for which the given key makes no new cache."""
    typo: str = ""
    """Fault of a key meant as a recovery key."""
    keychain: str = ""
    """Reason that the keychain has no key; '' if it was not asked."""
    keychain_slot: bool = False
    """The keychain of some active slot could open the cache, if it were asked."""
    main: FileState = FileState.MISSING
    copy: FileState = FileState.MISSING
    change_unfinished: bool = False
    """A crash came between key file and copy, or left temporary files."""
    copy_ahead: bool = False
    """The key vouches for a copy that is newer than the key file."""
    newer_version: int | None = None
    rotated: str | None = None
    """The day of the key's last change, if known."""
    cipher_floor: int = 0
    schema_floor: int = 0
    unwrap: Unwrap = Unwrap.NOT_TRIED
    owner_matches: bool = False
    files: Files = field(default_factory=Files)
    sample: PageSample | None = None
    opening: Opening = Opening.NOT_TRIED
    lacks: str = "the database is a mixture of two states"
    """Clause that says what a mixture of two states lacks."""
    copy_back: str = ""
    """The copy that has what is lacking, in a sentence."""
    newest_copy: str = ""
    """The newest copy, in a sentence."""
    expected: Identity | None = None
    found: Identity | None = None
    schema: SchemaSeen | None = None
    only_copy: bool = False
    """The notes are in this database and nowhere else."""
    on_unreadable: OnUnreadable = "refuse"
    rebuilt_recently: bool = False

    @property
    def is_blocked(self) -> bool:
        """Check whether driver or paths already decide, so that nothing more is to be inspected."""
        return bool(self.driver_problem) or self.path_problem is not None

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


_NAMED_PAGES = 8

_NAMED_KEYS = {"the key given", "the key source", secret_places.TYPED}
_TYPE_ANEW = "Run the command again and type it anew. Otherwise: "
_KEYCHAIN_TOO = (
    "A keychain has a key of this cache, too: remove {source} from the client's configuration, and it "
    "is asked. Otherwise: "
)
_REBUILD_OFFER = (
    " Or start once with DB_ON_UNREADABLE=rebuild: the old files move to `quarantine/`, with writes "
    "that never reached the note store; nothing is deleted."
)


@dataclass(frozen=True, slots=True)
class Open:
    """Serve the cache."""

    notices: tuple[str, ...] = ()
    finish_key_files: bool = False
    """Finish an interrupted change of the key files first."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a new cache: nothing is there but what an interrupted start has left."""

    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Move everything to the quarantine and create a new generation."""

    reason: str


@dataclass(frozen=True, slots=True)
class Locked:
    """Refuse to open the cache; nothing is changed."""

    verdict: Verdict
    message: str
    hint: str
    agent_hint: str = ASK_DOCTOR
    """The way out for an agent."""

    def error(self) -> LockedError:
        """Return the refusal as an error."""
        return LockedError(
            self.verdict, self.message, resolution_hint=self.hint, agent_hint=self.agent_hint
        )


Decision = Open | Create | Rebuild | Locked
Condition = Callable[[Observations], bool]


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one case of the table."""

    name: str
    decide: Callable[[Observations], Decision]
    """Make the decision."""
    when: Condition
    """Tell whether this is the case."""
    plain: bool | None = None
    """None: in both modes."""

    def applies(self, seen: Observations) -> bool:
        """Check whether this row's case is what is seen."""
        return self.plain in {None, seen.plain} and self.when(seen)


def refuse(name: str, verdict: Verdict, message: str, hint: str, when: Condition) -> Row:
    """Build a row that refuses, whatever the settings say."""

    def locked(seen: Observations) -> Decision:
        return Locked(
            verdict, _fill(message, seen), _fill(hint, seen), startup_hints.agent_hint(hint)
        )

    return Row(name, locked, when)


def refuse_or_rebuild(name: str, verdict: Verdict, message: str, hint: str, when: Condition) -> Row:
    """Build a row that refuses, or rebuilds if the settings ask for it and nothing is lost."""

    def locked_or_rebuilt(seen: Observations) -> Decision:
        sentence, way_out = _fill(message, seen), _fill(hint, seen)
        obstacle = _obstacle(seen)
        if seen.on_unreadable != "rebuild":  # defence: wrong-key-deletes-nothing
            return Locked(
                verdict,
                sentence,
                way_out + ("" if obstacle else _REBUILD_OFFER),
                startup_hints.agent_hint(hint),
            )
        if obstacle:
            refused = f" DB_ON_UNREADABLE=rebuild was not followed: {obstacle}."
            return Locked(verdict, sentence, way_out + refused, startup_hints.agent_hint(hint))
        return Rebuild(sentence)

    return Row(name, locked_or_rebuilt, when)


def decide_on_damage(*, plain: bool, on_unreadable: OnUnreadable, only_copy: bool) -> Locked:
    """Decide on damage that is met while the cache is open: refuse. Arguments as in ``Observations``."""
    hint = startup_hints.BEGIN_AGAIN if plain else startup_hints.REPAIR
    way_out = startup_hints.fit_hint(hint, only_copy=only_copy) + " Then restart the client."
    if on_unreadable == "rebuild" and not only_copy:
        way_out = (
            "Restart the client: DB_ON_UNREADABLE=rebuild then moves the old cache to the quarantine and "
            "makes a new one. Writes that never reached the note store may be in the old one. "
            f"Otherwise: {way_out}"
        )
    return Locked(
        Verdict.DATABASE_DAMAGED, startup_hints.UNREADABLE, way_out, startup_hints.agent_hint(hint)
    )


def _obstacle(seen: Observations) -> str | None:
    """Say why a rebuild would lose the notes, would be repeated for ever, or could not be made."""
    if seen.only_copy:  # defence: only-copy-stays
        return "the notes are in this database alone, and cannot be fetched again"
    if seen.rebuilt_recently:  # defence: one-rebuild-a-day
        return "it was rebuilt within the last 24 hours (do two clients use different keys?)"
    if seen.weakness:
        return f"the key given is too weak for a new cache ({seen.weakness})"
    return None


def _fill(template: str, seen: Observations) -> str:
    source = seen.source or "the key source"
    return startup_hints.fit_hint(template, only_copy=seen.only_copy).format(
        driver=seen.driver_problem,
        reason=seen.reason,
        lacks=seen.lacks,
        copy_back=seen.copy_back,
        newest_copy=seen.newest_copy,
        typo=seen.typo,
        weakness=seen.weakness,
        source=source,
        key=source if source in _NAMED_KEYS else f"the key in {source}",
        first=_first_way_out(source, keychain_slot=seen.keychain_slot),
        keychain=seen.keychain,
        asked=f" ({seen.keychain})" if seen.keychain else "",
        version=seen.newer_version,
        pages=_pages(seen),
        since=f" It was last changed on {seen.rotated}." if seen.rotated else "",
    )


def _first_way_out(source: str, *, keychain_slot: bool) -> str:
    if source == secret_places.TYPED:
        return _TYPE_ANEW
    return _KEYCHAIN_TOO.format(source=source) if keychain_slot else ""


def _pages(seen: Observations) -> str:
    pages = seen.sample.bad_pages if seen.sample else ()
    named = ", ".join(str(page) for page in pages[:_NAMED_PAGES])
    return f" (page {named})" if named else ""
