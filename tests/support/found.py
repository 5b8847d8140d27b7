"""What a kill, a power cut or a full disk has left of a command, and what must hold of it.

Every rule that is broken has a name, so that a control can demand that it is this rule that breaks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mcp_notarium.account import generation, opener
from mcp_notarium.config import Config
from mcp_notarium.crypto import key_file_codec
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.crypto.key_file_codec import KeyFile
from mcp_notarium.errors import CacheError, LockedError, NotariumError, Verdict
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.keys import keychain
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret
from mcp_notarium.storage import integrity, table_copy
from support import keychains
from support.account import account, folder_of

KEY, NEW, THIRD = (Secret("raw:" + pair * 32) for pair in ("5a", "6b", "7c"))
"""Raw keys: they open in no time, and the real commands take them like any other."""
KEYCHAIN = "keychain.json"
_LASTING = {"keys.lock", "server.lock", "audit_anchor.json", "quarantine"}


class Broken(StrEnum):
    """What must never be, whatever happens to a command."""

    ACCUSED = "the audit chain is said not to be whole"
    UNTRUE = "the person was told that it is done, and it is not"
    REFUSED = "a cache that should open is refused"
    DAMAGED = "the database is damaged"
    MIXED = "neither exactly what opened before opens, nor exactly what opens afterwards"
    LOST = "something is missing"
    STUCK = "the command cannot be done again"
    STRAY = "something is left over"


class Violation(AssertionError):
    """One of the rules is broken. ``verdict``: the reason of a refusal."""

    def __init__(
        self, broken: Broken, what: object = "", *, verdict: Verdict | None = None
    ) -> None:
        super().__init__(f"{broken}: {what}")
        self.broken: Broken | Verdict = broken if verdict is None else verdict


@dataclass(frozen=True)
class Found:
    """What is left. ``done``: the person had been told that it was done."""

    home: Path
    content: str
    done: bool
    dice: random.Random

    @property
    def folder(self) -> AccountFolder:
        """The account's folder."""
        return folder_of(self.config())

    @property
    def system(self) -> Keychain:
        """The keychain of this machine, as a new process sees it."""
        return keychains.stored_keychain(self.home / KEYCHAIN)

    @property
    def entry(self) -> Secret | None:
        """The key in the keychain."""
        try:
            return self.system.get(keychain.KEY, self.config().owner_hash)
        except LockedError as error:
            raise Violation(Broken.REFUSED, error.message, verdict=error.verdict) from error

    @property
    def keyfile(self) -> KeyFile:
        """The key file that is active."""
        try:
            return key_file_codec.parse(self.folder.key_file.read_bytes())
        except (KeyFileDamaged, FileNotFoundError) as error:
            verdict = Verdict.KEY_FILE_DAMAGED
            raise Violation(Broken.REFUSED, error, verdict=verdict) from error

    def config(self, key: Secret | None = KEY, **changes) -> Config:
        """Settings with this key."""
        return account(self.home, **{"db_key": key} | changes)

    def opens(self, key: Secret) -> bool:
        """Whether a key opens it; if so, everything is there. False: it is the wrong key."""
        return self.opens_or(Verdict.WRONG_KEY, db_key=key)

    def opens_or(self, *verdicts: Verdict, **changes) -> bool:
        """Whether it opens; if so, everything is there. False: it is refused for such a reason."""
        try:
            there = content(self.config(**changes), system=self.system)
        except LockedError as error:
            if error.verdict in verdicts:
                return False
            raise Violation(Broken.REFUSED, error.message, verdict=error.verdict) from error
        except CacheError as error:
            raise Violation(Broken.DAMAGED, error.message) from error
        demand(Broken.LOST, there == self.content, "the content is another one")
        return True

    def by_keychain(self) -> bool:
        """Whether a client that is given no key comes in."""
        return self.opens_or(
            Verdict.WRONG_KEY,
            Verdict.KEY_MISSING,
            Verdict.KEYCHAIN_UNUSABLE,
            db_key=None,
            keychain=True,
        )

    def openers(self, *keys: Secret) -> list[Secret]:
        """Those that open it, tried in any order; a key that is named twice is one."""
        distinct = [key for number, key in enumerate(keys) if key not in keys[:number]]
        tried = self.dice.sample(distinct, len(distinct))
        return sorted(filter(self.opens, tried), key=distinct.index)

    def is_after(self, before: Sequence[Secret], after: Sequence[Secret]) -> bool:
        """Whether exactly those keys open that open ``after`` it; else exactly those ``before``."""
        openers = self.openers(*before, *after)
        if openers == list(after):
            return True
        demand(Broken.MIXED, openers == list(before), f"{len(openers)} keys open")
        self.require_not_told("what opened before opens")
        return False

    def require_not_told(self, what: str) -> None:
        """It is as it was before; so nobody may have been told that it is done."""
        demand(Broken.UNTRUE, not self.done, what)

    def require_openers(self, wanted: Sequence[Secret], *among: Secret) -> None:
        """After it was done again, exactly these open."""
        demand(Broken.MIXED, self.openers(*among) == list(wanted), "after it was done again")

    @contextmanager
    def again(self) -> Iterator[None]:
        """The command is done once more, and that must not fail."""
        try:
            yield
        except NotariumError as error:
            raise Violation(Broken.STUCK, error.message) from error

    def require_tidy(self, *, slots: int | None = None) -> None:
        """Nothing is left over: the key file, the same as its copy, and the one cache it names."""
        folder = self.folder
        same = folder.key_file.read_bytes() == folder.key_copy.read_bytes()
        demand(Broken.STRAY, same, "the copy of the key file differs")
        database = folder.database(self.keyfile.generation).name
        ours = {folder.key_file.name, folder.key_copy.name, database}
        others = {path.name for path in folder.path.iterdir()} - _LASTING - ours
        half = {path.name for path in self.home.rglob(".*.tmp") if KEYCHAIN not in path.name}
        demand(Broken.STRAY, not others | half, sorted(others | half))
        if slots is not None:
            there = len(self.keyfile.slots)
            demand(Broken.STRAY, there == slots, f"{there} slots instead of {slots}")


def demand(broken: Broken, holds: bool, what: object) -> None:
    """Raises the ``Violation`` unless it holds."""
    if not holds:
        raise Violation(broken, what)


def content(config: Config, *, system: Keychain | None = None) -> str:
    """A digest of everything in the cache, if it opens. Raises as opening does, ``Violation``."""
    with closing(opener.open_cache(config, system=system)) as opened:
        faults = integrity.check(opened.database)
        demand(Broken.DAMAGED, not faults, faults)
        demand(Broken.LOST, not opened.created, "an empty cache was made in its place")
        return table_copy.content_digest(opened.database, without=generation.BINDING_KEYS)
