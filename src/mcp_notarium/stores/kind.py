"""Define what the program must know of a kind of store before any store is open, and the identity of an account.

Every start imports this module and those that declare a kind, so none of them imports what only an open
store needs. There is one object of each kind, so kinds compare by identity, which is cheaper to define.

The hash of an identity keeps names out of paths and logs. It is no secret: who knows the three parts can
compute it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mcp_notarium.config_variable import Variable
from mcp_notarium.domain.note import MARKS, PropertyPlace
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.secret import Secret

if TYPE_CHECKING:
    from mcp_notarium.domain.exported_note import DocumentFormat
    from mcp_notarium.stores.context import Access, LoginDialog, StoreContext
    from mcp_notarium.stores.contract import Store
    from mcp_notarium.stores.extensions import NativeReads, NoteIndex


_PROGRAM = b"mcp-notarium/v1/owner-identity\n"


@dataclass(frozen=True, slots=True)
class AccountIdentity:
    """Name one account. Each string is in the form in which the store's kind knows it as the same."""

    kind: str
    endpoint: str
    name: str

    @property
    def shown(self) -> str:
        """Return what tells people this account from others of its kind: a server or file needs no name."""
        return self.name or self.endpoint

    @property
    def owner_hash(self) -> str:
        """Return SHA-256 over a program constant and the three strings, as 64 hex digits.

        Each string follows its length in bytes (8 bytes, big-endian), so that no two identities meet.
        """
        found = hashlib.sha256(_PROGRAM)
        for text in (self.kind, self.endpoint, self.name):  # defence: identity-of-account -endpoint
            data = text.encode("utf-8", "surrogateescape")
            found.update(len(data).to_bytes(8, "big") + data)
        return found.hexdigest()


_PLAIN_ID = re.compile("[A-Za-z0-9_-]{4,64}")


class Truth(Enum):
    """Name where the notes live, which decides what may be emptied and fetched again."""

    REMOTE = "a service"
    SHARED_FILE = "files of this machine that other programs write, too"
    LOCAL = "this database alone: it can never be fetched again"


class Ids(Enum):
    """Name what the ids of notes are made of.

    ``named``: an id may be taken, and a renamed note gets another one. ``paths``: it says in which folder a note lies.
    """

    RANDOM = "chance: ``new_id`` makes one that nobody else makes, and a note keeps it"
    NAMED = "a name from the content"
    PATHS = "names with ``/`` between them, folders first: policies and queries may name these"

    def __init__(self, _meaning: str) -> None:
        self.named = self.name != "RANDOM"
        self.paths = self.name == "PATHS"


class Tree(Enum):
    """Name what notes stand below where ids do not say it. A note of a tree can get another place."""

    FOLDERS = "folders that are no notes, such as notebooks"
    NOTES = "other notes; with one of these all below it moves"

    def __init__(self, _meaning: str) -> None:
        self.of_notes = self.name == "NOTES"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Hold the values of a kind's variables by their names. Names of people stay out of the repr."""

    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, Secret] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the value, '' if it is not set."""
        return self.texts.get(name, "")

    def secret(self, name: str) -> Secret | None:
        """Return the secret, None if it is not set."""
        return self.secrets.get(name)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LentTables:
    """Describe the tables that a store has in the account's database. They are state, never index."""

    keys: Mapping[str, tuple[str, ...]]
    """Name each table with its first columns, by which rows are copied in order."""
    statements: tuple[str, ...]
    """Create them in every database of the program."""
    renumber: str
    """Raise the numbers that the store gives to at least ``:least``, and above all that stand in its rows."""
    last_change: str
    """Read the number of the last change."""
    files: str = ""
    """Read how many files of notes there are, and how many bytes they take; '' if notes have none there."""
    twins: Mapping[str, str] = field(default_factory=dict)
    """Make the row of a table again from the index, by its key: a query for each."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Login:
    """Describe how a person logs in."""

    get_token: Callable[[StoreSettings, float, LoginDialog], Awaitable[Secret]]
    """Log in; each request may take that many seconds."""
    variables: tuple[str, ...]
    """Name the settings that let servers log in without it."""
    hint: str
    """Say what to do if the store does not accept the login."""
    logout: str
    """Say what logging out does not do."""
    unattended: str
    """Say what to do where nobody can be asked."""


def is_plain_id(note_id: str) -> bool:
    """Tell whether an id has only what every program takes: ASCII letters, digits, ``-`` and ``_``."""
    return _PLAIN_ID.fullmatch(note_id) is not None


def _no_copies(_settings: StoreSettings) -> int:
    return 0


def _no_notices(_settings: StoreSettings) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Place:
    """Hold a place of notes that an app of this user knows, by its name there."""

    path: str
    name: str
    app: str


def _no_places(_environ: Mapping[str, str]) -> tuple[Place, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class KindTraits:
    """Hold the traits that are asked for before a store is open. Its kind says them, and its ``Traits`` take them from there."""

    ids: Ids = Ids.RANDOM
    """Say what ids are made of. With PATHS the title of a new note may begin with its folder, ``Work/plan``. Another title
    gives a note another id: in its folder, or from the top if the title has a ``/``. The attempts of ``new_id`` differ in
    the last part alone."""
    titles: bool = False
    """Keep a title of its own for each note (``Content.title``)."""
    trash: bool = False
    """Have a trash; ``delete`` needs a note that lies there."""
    keeps_files: bool = False
    """Take files for notes: see ``KeepingStore``."""
    adds_pictures: bool = False
    """Take pictures as parts of notes: see ``PictureStore``."""
    properties: frozenset[str] = frozenset()
    """Name the marks that a note can have: properties that are set or not (``Content.properties``)."""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Name the other properties that its app keeps of a note, by its own names, with the values that a write may set.
    (): only the app writes it, and ``compose`` leaves it as it is."""
    other_properties: PropertyPlace = PropertyPlace.NOWHERE
    tree: Tree | None = None
    """Have notes in folders under ids, or below notes, which no ``Content`` says: see ``TreeReads`` and ``MovingStore``."""


def traits_of(kind: KindTraits) -> dict[str, Any]:
    """Return what a kind says of its notes, for its ``Traits``."""
    return {name: getattr(kind, name) for name in KindTraits.__slots__}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StoreKind(KindTraits):
    """Describe a kind of store."""

    name: str
    """Name it in the configuration."""
    title: str
    """Name it for people, as the store's own app is called."""
    truth: Truth
    variables: tuple[Variable, ...]
    identity: Callable[[StoreSettings], AccountIdentity]
    open: Callable[[StoreSettings, StoreContext], Store]
    access: Callable[[StoreSettings], Access]
    login: Login | None = None
    """None: there is nothing to log in to."""
    tables: LentTables | None = None
    """Describe its tables in the database, if it has any; ``StoreContext.database`` reaches them."""
    copies: Callable[[StoreSettings], int] = _no_copies
    """Return how many verified copies of the database are kept."""
    describe: Callable[[Store], Awaitable[str]] | None = None
    """Ask an open store what it is, for `mcp-notarium doctor`."""
    clock: Callable[[Store], float | None] | None = None
    """Return by how many seconds the clock of an open store is ahead of ours; None until it has answered."""
    notices: Callable[[StoreSettings], tuple[str, ...]] = _no_notices
    """Return sentences for the user about the place of the notes, for each start and `doctor`."""
    native_toolset: str = ""
    """Name its own tools in ``tools/toolsets``, with ``{names}`` if they have several spellings; '' if it has none."""
    native: Callable[[Store, NoteIndex], NativeReads] | None = None
    """Make what these tools read from an open store."""
    takes_id: Callable[[str], bool] = lambda _note_id: False
    """Tell whether a note from elsewhere can keep this id."""
    export_format: Callable[[], DocumentFormat | None] = lambda: None
    """Return the file in which the store's own app exports notes, if there is one."""
    persistent: bool = True
    """False: the database is in memory, without a key or a folder, and ends with the server."""
    place: str = ""
    """Say in a few words where its notes live, for a person who chooses in `setup`; '' if it is no choice there."""
    places: Callable[[Mapping[str, str]], tuple[Place, ...]] = _no_places
    """Find, with the environment, what its required path may be here: `setup` offers it."""

    @property
    def lacking(self) -> frozenset[str]:
        """Return the actions and arguments of tools that mean nothing here."""
        lacking = {*MARKS} - self.properties
        lacking |= set() if self.trash else {"trash", "untrash"}
        lacking |= set() if self.ids.paths or self.tree else {"folder", "list_folders"}
        movable = self.ids.paths or (self.tree is not None and self.tree.of_notes)
        lacking |= set() if movable else {"new_folder", "move_folder"}
        lacking |= set() if self.keeps_files or self.adds_pictures else {"file"}
        lacking |= set() if "pinned" in self.properties else {"pin", "unpin"}
        settable = self.properties or any(self.fields.values())
        if not settable and self.other_properties is PropertyPlace.NOWHERE:
            lacking |= {"properties"}
        return frozenset(lacking)

    def require_login(self) -> Login:
        """Return the login. Raises ``InvalidRequest`` for a store without one."""
        if self.login is None:
            raise InvalidRequest(
                f"{self.title} needs no login",
                resolution_hint="Nothing needs to be done: start a server.",
            )
        return self.login
