"""Define what a store and the program give each other: tokens, facts about the account, a dialog, access."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mcp_notarium.secret import Secret

_DOMAIN_PORT = 53


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


class LentDatabase(Protocol):
    """Reach the tables of ``StoreKind.tables`` in the account's database. For the event loop's thread only.

    Each method may raise ``CacheError``.
    """

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Any]:
        """Return all rows of a query, as tuples."""

    def row(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """Return the first row of a query, or None."""

    def number(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Return the one integer a query answers; 0 if it answers nothing."""

    def run(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> int:
        """Run a statement; return the number of rows it changed."""

    def join_or_begin(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Join the caller's transaction if one is open, else run a new one. ``durable``: it is on the disk at the end."""


class ListingMemory(Protocol):
    """Keep a text about the last full listing for the next start. It goes with the index.

    For the event loop's thread only. Each method may raise ``CacheError``.
    """

    def load(self) -> str | None:
        """Return the text; None if there is none."""

    def store(self, text: str) -> None:
        """Keep this text instead. It does not wait for another process that is writing."""


@dataclass(frozen=True, slots=True)
class StoreContext:
    """Hold what a store gets from the program."""

    tokens: TokenStore
    record: AccountRecord
    database: LentDatabase
    """For a store with ``StoreKind.tables``."""
    memory: ListingMemory
    """For a store whose listings cost less then."""
    client_id: str
    """Names program and database, the same at every start."""
    timeout: float
    """Seconds for one call."""


@dataclass(frozen=True, slots=True)
class Access:
    """Hold what the sandbox must allow: places to read, places to change, TCP ports to connect to."""

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    ports: tuple[int, ...] = ()
    attributes: bool = False
    """To set mode, group, dates and extended attributes of open files, by their descriptors."""
    watch: bool = False
    """To watch folders (inotify); the kernel cannot limit that to these places."""


def network_access(*ports: int) -> Access:
    """Return what a store needs that talks to servers at these ports: these, and the one for looking up names."""
    return Access(ports=(_DOMAIN_PORT, *ports))


class LoginDialog(Protocol):
    """Ask the user who logs in."""

    by_password: bool
    """They asked for a password login."""
    asks_person: bool
    """Somebody can be asked once more."""

    def say(self, text: str) -> None:
        """Show a line."""

    def ask_secret(self, prompt: str) -> Secret:
        """Ask for a secret without showing what is typed."""

    def waiting_code(self) -> str | None:
        """Return a code that is there already, '' if none can come, None if one is to be asked for."""

    def ask_code(self, prompt: str) -> str:
        """Ask for a code; '' if none comes."""
