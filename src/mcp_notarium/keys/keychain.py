"""Read and write secrets in the operating system's keychain, and only in a real one.

Allowed are macOS Keychain, Windows Credential Manager, Secret Service and KWallet. A backend that
keeps secrets in a plain file, or nowhere, is refused: it would look safe and not be. ``keyring`` is
imported when the first secret is asked for. The database key is read once per process, because every
read may show a dialog. Every call has a timeout: the dialog may stand where nobody sees it, and the
keychain's daemon may hang.
"""

from __future__ import annotations

import functools
import os
import stat
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeVar

from mcp_notarium.errors import LockedError, Verdict
from mcp_notarium.secret import Secret
from mcp_notarium.system import SYSTEM

_Answer = TypeVar("_Answer")

SERVICE = "mcp-notarium"
KEY = "database-key"
TOKEN = "login-token"  # noqa: S105 - the name of an entry, not a token

TIMEOUTS: Mapping[str, float] = MappingProxyType({KEY: 45.0, TOKEN: 5.0})
"""Seconds that an answer may take. For the key a person may have to find and answer a dialog, and
clients give up a call after a minute. Other calls wait while a login is read, and it can be repeated."""

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
_BUS_ADDRESS = "DBUS_SESSION_BUS_ADDRESS"
_LOCKED = {"KeyringLocked", "LockedException", "PromptDismissedException"}


class Backend(Protocol):
    """Describe the part of a ``keyring`` backend that is used."""

    def get_password(self, service: str, username: str) -> str | None:
        """Return the secret, or None."""

    def set_password(self, service: str, username: str, password: str) -> None:
        """Store a secret."""

    def delete_password(self, service: str, username: str) -> None:
        """Remove a secret. Raises if there is none."""


class Keychain:
    """Hold secrets by kind and owner. Raises only ``LockedError`` (KEYCHAIN_UNUSABLE).

    A machine *without* a keychain is no error for reading: it holds no secret. A keychain that is
    refused, locked or failing is one.
    """

    def __init__(
        self,
        current: Callable[[], object] | None = None,
        *,
        timeouts: Mapping[str, float] | None = None,
    ) -> None:
        self._current = current or _system_backend
        self._timeouts = timeouts or TIMEOUTS
        self._caller = _TimedCaller()
        self._read: dict[tuple[str, str], Secret | None] = {}

    @property
    def usable(self) -> bool:
        """Check whether there is an allowed keychain; it may still turn out to be locked."""
        try:
            return self._backend(TOKEN) is not None
        except LockedError:
            return False

    @property
    def missing(self) -> bool:
        """Check whether this session has no keychain at all. Raises ``LockedError`` if it is refused."""
        return self._backend(TOKEN) is None

    @property
    def name(self) -> str:
        """Return the keychain's name, for a person. Raises ``LockedError`` if none is in use."""
        backend = self._backend(TOKEN)
        if backend is None:
            raise _missing_keychain_error()
        return _ALLOWED[_kind(backend)]

    def explain_missing_key(self) -> str:
        """Explain to a person why it had no key."""
        try:
            return f"{self.name} knows no key for this account"
        except LockedError:
            return "no keychain runs in this session"

    def read_back(self, kind: str, owner: str) -> Secret | None:
        """Return the secret as the keychain has it now, whatever was read before."""
        self._read.pop((kind, owner), None)
        return self.get(kind, owner)

    def get(self, kind: str, owner: str) -> Secret | None:
        """Return a secret; None if there is none or no keychain at all.

        The database key is read once per process, because every read may show a dialog. A login
        is read each time: another process may have logged in.
        """
        entry = (kind, owner)
        if kind == TOKEN or entry not in self._read:
            backend = self._backend(kind)
            found = None
            if backend is not None:
                found = self._call(kind, backend.get_password, *_entry_name(entry))
            self._read[entry] = None if found is None else Secret(found)
        return self._read[entry]

    def set(self, kind: str, owner: str, secret: Secret) -> None:
        """Store a secret."""
        backend = self._backend(kind)
        if backend is None:
            raise _missing_keychain_error()
        self._call(kind, backend.set_password, *_entry_name((kind, owner)), secret.reveal_text())
        self._read[kind, owner] = secret

    def delete(self, kind: str, owner: str) -> None:
        """Remove a secret; do nothing if there is none."""
        if self.get(kind, owner) is not None:
            backend = self._backend(kind)
            if backend is not None:
                self._call(kind, backend.delete_password, *_entry_name((kind, owner)))
        self._read[kind, owner] = None

    def _backend(self, kind: str) -> Backend | None:
        return _find_allowed(self._call(kind, self._current))

    def _call(self, kind: str, question: Callable[..., _Answer], *given: str) -> _Answer:
        try:
            return self._caller.call(lambda: question(*given), within=self._timeouts[kind])
        except TimeoutError:
            raise _unusable_error(
                "it does not answer; perhaps a dialog waits where nobody sees it"
            ) from None
        except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises, it is unusable
            raise _unusable_error(_describe_error(error)) from None


class _TimedCaller:
    """Make one foreign call at a time, each with a timeout.

    An abandoned call stays open in its thread, which does not outlive the process. No other is made
    meanwhile, because that one would only wait behind it. No answer is kept.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._given_up: threading.Thread | None = None

    def call(self, question: Callable[[], _Answer], *, within: float) -> _Answer:
        """Return the answer; raise what the question raises. ``within`` in seconds.

        Raises ``TimeoutError`` if no answer comes in time, or an earlier call is still open.
        """
        with self._turn:
            if self._given_up is not None and self._given_up.is_alive():
                raise TimeoutError
            answer: Future[_Answer] = Future()

            def work() -> None:
                try:
                    answer.set_result(question())
                except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
                    answer.set_exception(error)

            thread = threading.Thread(target=work, name="keychain", daemon=True)
            thread.start()
            try:
                return answer.result(within)
            finally:
                self._given_up = None if answer.done() else thread


@functools.cache
def system_keychain() -> Keychain:
    """Return the keychain of this process; one, so that each secret is read once."""
    return Keychain()


def _find_allowed(backend: object) -> Backend | None:
    """Find the backend itself, or the first real one of a chain; None where there is no keychain."""
    kind = _kind(backend)
    if kind == _NONE_HERE:
        return None
    if kind == _CHAINER:
        chained = getattr(backend, "backends", ())
        return next((one for one in chained if _kind(one) in _ALLOWED), None) or _refuse(backend)
    if kind not in _ALLOWED:  # defence: keychain-allowed-only
        return _refuse(backend)
    return backend  # type: ignore[return-value]  # its class is one of those listed


def _refuse(backend: object) -> Backend | None:
    raise _unusable_error(f"`{'.'.join(_kind(backend))}` is not a keychain that protects anything")


def _kind(backend: object) -> tuple[str, str]:
    module = type(backend).__module__
    # The macOS backend lives in a package whose submodules differ between releases.
    return (".".join(module.split(".")[:3]), type(backend).__name__)


def _entry_name(entry: tuple[str, str]) -> tuple[str, str]:
    kind, owner = entry
    return (SERVICE, f"{kind}:{entry_account(owner)}")


def entry_account(owner: str) -> str:
    """Return what follows the kind in the name of an entry."""
    return owner[:16]


def _describe_error(error: Exception) -> str:
    """Name only the class: a foreign message may quote what was to be stored."""
    name = type(error).__name__
    if name in _LOCKED:
        return f"it is locked and was not unlocked when it was asked ({name})"
    if isinstance(error, ImportError):
        return f"the one that `keyring` is set to use is not installed ({name})"
    return f"it answered {name}"


def _missing_keychain_error() -> LockedError:
    return _unusable_error(
        "this machine has none",
        way_out="Give the key in DB_ENCRYPTION_KEY or DB_ENCRYPTION_KEY_FILE instead "
        "(`generate-key --file PATH` makes one), or start a keychain in this session: GNOME Keyring "
        "or KWallet, for example.",
    )


def _unusable_error(
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

    find_session_bus()
    return keyring.get_keyring()


def find_session_bus() -> None:
    """Set the address of the user's D-Bus session in this process's environment, if it is missing.

    Many MCP clients pass on HOME and PATH and little else. The bus of a login session then still lies
    at its fixed place, where other programs look for it too; the library that ``keyring`` uses does not.
    """
    bus = SYSTEM.session_bus(os.environ)
    if bus is not None and _is_our_socket(bus):
        os.environ[_BUS_ADDRESS] = f"unix:path={bus}"


def _is_our_socket(path: Path) -> bool:
    """Check that it is a socket of this user: somebody else's bus could offer a keychain of theirs."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and SYSTEM.access(path, found).owner == "user"
