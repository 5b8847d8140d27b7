"""Define what the program must know of a kind of store before any store is open.

Every start imports this module and those that declare a kind, so none of them imports what only an open
store needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mcp_notarium.crypto.account_identity import AccountIdentity
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.secret import Secret
from mcp_notarium.variable import Variable

if TYPE_CHECKING:
    from mcp_notarium.stores.contract import Store


class Truth(Enum):
    """Name where the notes live, which decides what may be emptied and fetched again."""

    REMOTE = "a service"
    SHARED_FILE = "files of this machine that other programs write, too"
    LOCAL = "this database alone: it can never be fetched again"


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


class TokenStore(Protocol):
    """Keep a token beyond the process. It may decline to store, by raising a NotariumError."""

    def load(self) -> Secret | None:
        """Read the stored token again each time: another process may have logged in."""

    def store(self, token: Secret) -> None:
        """Store this token instead of any other."""


SampleNote = tuple[str, float]
"""A note in the index: its id, and when it was created (epoch seconds)."""


class AccountRecord(Protocol):
    """Store what is known of the account the index was filled from. Never a token itself."""

    def recognises(self, token: Secret) -> bool:
        """Tell whether this is the token that was remembered last."""

    def remember(self, token: Secret, *, on_trust: bool) -> None:
        """Record that the notes are this token's; ``on_trust``: without proof."""

    @property
    def proven(self) -> bool:
        """Tell whether a token was remembered, and not on trust."""

    @property
    def on_trust(self) -> bool:
        """Tell whether a token was remembered, on trust."""

    @property
    def unfinished(self) -> bool:
        """Tell whether a write is unfinished."""

    def sample_notes(self) -> Sequence[SampleNote]:
        """Return a few notes that are not shared and not in the trash, if there are any."""


@dataclass(frozen=True, slots=True)
class StoreContext:
    """Hold what a store gets from the program.

    ``client_id`` names program and database, the same at every start. ``timeout``: seconds for one call.
    """

    tokens: TokenStore
    record: AccountRecord
    client_id: str
    timeout: float


@dataclass(frozen=True, slots=True)
class Access:
    """Hold what the sandbox must allow: places to read, places to change, TCP ports to connect to."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    ports: tuple[int, ...] = ()


class LoginDialog(Protocol):
    """Talk with the person who logs in. ``by_password``: they asked for a password login."""

    by_password: bool

    def say(self, text: str) -> None:
        """Show a line."""

    def ask_secret(self, prompt: str) -> Secret:
        """Ask for a secret without showing what is typed."""

    def waiting_code(self) -> str | None:
        """Return a code that is there already, '' if none can come, None if one is to be asked for."""

    def ask_code(self, prompt: str) -> str:
        """Ask for a code; '' if none comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Describe how a person logs in. ``get_token``: each of its requests has that many seconds.

    ``variables``: settings that let servers log in without it. ``hint``: what to do if the store does not
    accept the login. ``logout``: what logging out does not do.
    """

    get_token: Callable[[StoreSettings, float, LoginDialog], Awaitable[Secret]]
    variables: tuple[str, ...]
    hint: str
    logout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """Describe a kind of store.

    ``name`` is for the configuration, ``title`` for people: it is also what the store's own app is called.
    ``login`` None: there is nothing to log in to. ``wire_words``: parts of paths and names of headers that
    are the same for every account; the log shows no others.
    """

    name: str
    title: str
    truth: Truth
    variables: tuple[Variable, ...]
    identity: Callable[[StoreSettings], AccountIdentity]
    open: Callable[[StoreSettings, StoreContext], Store]
    access: Callable[[StoreSettings], Access]
    login: Login | None = None
    wire_words: frozenset[str] = frozenset()

    def require_login(self) -> Login:
        """Return the login. Raises ``InvalidRequest`` for a store without one."""
        if self.login is None:
            raise InvalidRequest(
                f"{self.title} needs no login",
                resolution_hint="Nothing needs to be done: start a server.",
            )
        return self.login

    def require_refetchable(self) -> None:
        """Raise ``InvalidRequest`` if the notes are in the database alone."""
        if self.truth is Truth.LOCAL:
            raise InvalidRequest(
                f"the notes of {self.title} are in this database alone, and cannot be fetched again; "
                "nothing was changed",
                resolution_hint="To recover a damaged database, run `mcp-notarium repair`.",
            )
