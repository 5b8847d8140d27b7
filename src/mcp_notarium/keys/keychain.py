"""The operating system's keychain, and only a real one.

Allowed are macOS Keychain, Windows Credential Manager, Secret Service and KWallet. A backend that
keeps secrets in a plain file, or nowhere, is refused: it would look safe and not be. ``keyring`` is
imported when the first secret is asked for; the database key is read once per process, because
every read may show a dialog. No question is waited for without end: the dialog may stand where
nobody sees it, and the keychain's daemon may hang.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.keys import session_bus
from mcp_notarium.keys.keychain_calls import Asker, Unanswered
from mcp_notarium.secret import Secret

_Answer = TypeVar("_Answer")

SERVICE = "mcp-notarium"
KEY = "database-key"
TOKEN = "login-token"  # noqa: S105 - the name of an entry, not a token

PATIENCE: Mapping[str, float] = MappingProxyType({KEY: 45.0, TOKEN: 5.0})
"""How many seconds an answer may take. For the key a person may have to find and answer a dialog,
and clients give up a call after a minute. A login is asked for beside calls that wait meanwhile, and
can be repeated."""

_ALLOWED = {
    ("keyring.backends.macOS", "Keyring"): "macOS Keychain",
    ("keyring.backends.Windows", "WinVaultKeyring"): "Windows Credential Manager",
    ("keyring.backends.SecretService", "Keyring"): "Secret Service",
    ("keyring.backends.libsecret", "Keyring"): "Secret Service",
    ("keyring.backends.kwallet", "DBusKeyring"): "KWallet",
    ("keyring.backends.kwallet", "DBusKeyringKWallet4"): "KWallet",
}
_CHAINER = ("keyring.backends.chainer", "ChainerBackend")
_NONE_HERE = ("keyring.backends.fail", "Keyring")
_LOCKED = {"KeyringLocked", "LockedException", "PromptDismissedException"}


class Backend(Protocol):
    """The part of a ``keyring`` backend that is used."""

    def get_password(self, service: str, username: str) -> str | None:
        """The secret, or None."""

    def set_password(self, service: str, username: str, password: str) -> None:
        """Store a secret."""

    def delete_password(self, service: str, username: str) -> None:
        """Remove a secret; raises if there is none."""


class Keychain:
    """Secrets by kind and owner. Raises only ``LockedError`` (KEYCHAIN_UNUSABLE).

    A machine *without* a keychain is no error for reading: there is no secret there. A keychain
    that is refused, locked or failing is one.
    """

    def __init__(
        self,
        current: Callable[[], object] | None = None,
        *,
        patience: Mapping[str, float] | None = None,
    ) -> None:
        self._current = current or _system_backend
        self._patience = patience or PATIENCE
        self._asker = Asker()
        self._read: dict[tuple[str, str], Secret | None] = {}

    @property
    def usable(self) -> bool:
        """Whether there is an allowed keychain; it may still turn out to be locked."""
        try:
            return self._backend(TOKEN) is not None
        except LockedError:
            return False

    @property
    def missing(self) -> bool:
        """Whether this session has no keychain at all. Raises ``LockedError`` if it is refused."""
        return self._backend(TOKEN) is None

    @property
    def name(self) -> str:
        """What the keychain in use is called, for a person. Raises ``LockedError`` if none is."""
        backend = self._backend(TOKEN)
        if backend is None:
            raise _none_here()
        return _ALLOWED[_kind(backend)]

    def why_none(self) -> str:
        """Why it had no key to give, for a person."""
        try:
            return f"{self.name} knows no key for this account"
        except LockedError:
            return "no keychain runs in this session"

    def read_back(self, kind: str, owner: str) -> Secret | None:
        """The secret as the keychain has it now, whatever was read before."""
        self._read.pop((kind, owner), None)
        return self.get(kind, owner)

    def get(self, kind: str, owner: str) -> Secret | None:
        """A secret; None if there is none or no keychain at all.

        The database key is read once per process, because every read may show a dialog. A login
        is read anew each time: another process may have logged in.
        """
        entry = (kind, owner)
        if kind == TOKEN or entry not in self._read:
            backend = self._backend(kind)
            found = None
            if backend is not None:
                found = self._asked(kind, backend.get_password, *_place(entry))
            self._read[entry] = None if found is None else Secret(found)
        return self._read[entry]

    def set(self, kind: str, owner: str, secret: Secret) -> None:
        """Store a secret."""
        backend = self._backend(kind)
        if backend is None:
            raise _none_here()
        self._asked(kind, backend.set_password, *_place((kind, owner)), secret.reveal_text())
        self._read[kind, owner] = secret

    def delete(self, kind: str, owner: str) -> None:
        """Remove a secret; nothing happens if there is none."""
        if self.get(kind, owner) is not None:
            backend = self._backend(kind)
            if backend is not None:
                self._asked(kind, backend.delete_password, *_place((kind, owner)))
        self._read[kind, owner] = None

    def _backend(self, kind: str) -> Backend | None:
        return _allowed(self._asked(kind, self._current))

    def _asked(self, kind: str, question: Callable[..., _Answer], *given: str) -> _Answer:
        try:
            return self._asker.ask(lambda: question(*given), within=self._patience[kind])
        except Unanswered:
            raise _unusable(
                "it does not answer; perhaps a dialog waits where nobody sees it"
            ) from None
        except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, it is unusable
            raise _unusable(_said(error)) from None


@functools.cache
def system_keychain() -> Keychain:
    """The keychain of this process; one, so that each secret is read once."""
    return Keychain()


def _allowed(backend: object) -> Backend | None:
    """The backend itself, or the first real one of a chain; None where there is no keychain."""
    kind = _kind(backend)
    if kind == _NONE_HERE:
        return None
    if kind == _CHAINER:
        chained = getattr(backend, "backends", ())
        return next((one for one in chained if _kind(one) in _ALLOWED), None) or _refuse(backend)
    if kind not in _ALLOWED:
        return _refuse(backend)
    return backend  # type: ignore[return-value]  # its class is one of those listed


def _refuse(backend: object) -> Backend | None:
    raise _unusable(f"`{'.'.join(_kind(backend))}` is not a keychain that protects anything")


def _kind(backend: object) -> tuple[str, str]:
    module = type(backend).__module__
    # The macOS backend lives in a package whose submodules differ between releases.
    return (".".join(module.split(".")[:3]), type(backend).__name__)


def _place(entry: tuple[str, str]) -> tuple[str, str]:
    kind, owner = entry
    return (SERVICE, f"{kind}:{account(owner)}")


def account(owner: str) -> str:
    """What follows the kind in the name of an entry."""
    return owner[:16]


def _said(error: Exception) -> str:
    """Only the class is told: a foreign message may quote what was to be stored."""
    name = type(error).__name__
    if name in _LOCKED:
        return f"it is locked and was not unlocked when it was asked ({name})"
    if isinstance(error, ImportError):
        return f"the one that `keyring` is set to use is not installed ({name})"
    return f"it answered {name}"


def _none_here() -> LockedError:
    return _unusable(
        "this machine has none",
        way_out="Give the key in DB_ENCRYPTION_KEY or DB_ENCRYPTION_KEY_FILE instead "
        "(`generate-key --file PATH` makes one), or start a keychain in this session: GNOME Keyring "
        "or KWallet, for example.",
    )


def _unusable(
    reason: str,
    *,
    way_out: str = "Unlock it, or set NOTARIUM_KEYCHAIN=off and give the key in DB_ENCRYPTION_KEY "
    "or DB_ENCRYPTION_KEY_FILE.",
) -> LockedError:
    return LockedError(
        Verdict.KEYCHAIN_UNUSABLE,
        f"the system's keychain cannot be used: {reason}",
        resolution_hint=way_out,
        details={"reason": reason},
    )


def _system_backend() -> object:
    import keyring  # noqa: PLC0415 - slow, and most starts never ask for it

    session_bus.find()
    return keyring.get_keyring()
