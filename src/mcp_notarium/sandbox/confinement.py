"""Harden the process, and confine it to its own folder, its own program and what the store needs.

:func:`harden_process` runs before a secret is used: private files, no core files, no access to its memory.
It does not help against somebody who already runs code with full rights (root).

:class:`Confinement` works on Linux only, by Landlock and a filter of system calls (seccomp); other systems
offer nothing of the kind without privileges. Everything that is imported, looked up or read later must lie
in one of these places, so they are wide enough for a Python of any origin and for a name service that
changes while the server runs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_notarium.errors import ConfigError
from mcp_notarium.files.account_folder import AccountFolder, create_folder
from mcp_notarium.files.import_folders import find_folders
from mcp_notarium.sandbox import landlock, seccomp
from mcp_notarium.system import SYSTEM

if TYPE_CHECKING:
    from mcp_notarium.config import Config, Sandbox
    from mcp_notarium.stores.context import Access

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
"""OpenSSL and Python's TLS would take trusted certificates from them, or write the session's keys."""
_PRIVATE_UMASK = 0o077

_FILTERED = "seccomp: programs, listening, protocols"
_NO_LANDLOCK, _NO_SECCOMP = "not confined by Landlock", "not confined by seccomp"
_SYSTEM = (
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/share/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
    "/lib",
    "/lib64",
    # Not single files of it: they are replaced by others of the same name when the network changes.
    "/etc",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/current-system",
    "/nix/store",
    "/gnu/store",
    "/proc/self",
    "/dev/urandom",
    "/dev/null",
    "/sys/devices/system/cpu",
)


def harden_process() -> None:
    """Make new files private, forbid core files and tracing, and drop the TLS variables."""
    os.umask(_PRIVATE_UMASK)  # defence: process-umask
    wipe_environment(*CERTIFICATES)  # defence: certificate-variables-wiped
    SYSTEM.forbid_dumps()
    SYSTEM.forbid_tracing()


def hide_secrets(*names: str) -> None:
    """Take the values of variables out of what other processes can read of this one; ``os.environ`` keeps them.

    ``/proc/PID/environ`` shows the bytes that a process was started with, whatever is set later.
    """
    SYSTEM.overwrite_variables(names)


def wipe_environment(*names: str) -> None:
    """Remove variables from the environment and overwrite their bytes where they stand.

    Copies that Python made before (in ``os.environ`` itself) are released, not overwritten.
    """
    SYSTEM.overwrite_variables(names)
    for name in names:
        os.environ.pop(name, None)


class Confinement:
    """Run the confinement of one process. ``how``: a few words on what took effect.

    ``opens`` False: it will open no account, or one in memory: the data folder is neither created nor allowed. Raises
    ``ConfigError`` where confinement is required and the system has nothing of the kind.
    """

    def __init__(self, config: Config, mode: Sandbox, *, opens: bool = True) -> None:
        self._config = config
        self._mode = mode
        self._opens = opens
        self.how = "off"
        if mode == "require":
            _require_support(landlock.version())

    def enter(self) -> None:
        """Confine this thread and all that it starts from now on.

        Raises ``ConfigError`` where confinement is required and fails.
        """
        if self._mode == "off":
            return
        files = self._attempt(self._restrict_files, _NO_LANDLOCK, required=True)
        calls = self._attempt(
            self._restrict_calls, _NO_SECCOMP, required=seccomp.architecture() is not None
        )
        self.how = f"{files}; {calls}"

    def _attempt(self, restrict: Callable[[], str], failure: str, *, required: bool) -> str:
        try:
            return restrict()
        except OSError as error:
            reason = error.strerror or str(error)
            if self._mode == "require" and required:
                raise _not_confined_error(reason) from error
            return f"{failure}: {reason}"

    def _restrict_files(self) -> str:
        if self._opens:
            create_folder(AccountFolder(self._config.account_dir))  # only what exists can be kept
        import tempfile  # noqa: PLC0415 - not before the first answer

        # defence: landlock =7
        version = landlock.restrict(find_allowed_access(self._config, opens=self._opens))
        if self._opens:
            # Some libraries want a temporary file while they are imported.
            tempfile.tempdir = str(self._config.account_dir)
        return _describe_landlock(version)

    def _restrict_calls(self) -> str:
        needed = _find_needs(self._config, opens=self._opens)
        seccomp.restrict(attributes=needed.attributes, watch=needed.watch)  # defence: seccomp
        return _FILTERED

    def drop_all_rights(self) -> None:
        """Confine a thread that needs nothing but what it has open. Never raises."""
        if self._mode == "off":
            return
        with suppress(OSError):
            # The C library aborts the process if it cannot load this where it ends a thread, and Python
            # ends a thread that is running when the process ends. Some C libraries do without.
            ctypes.CDLL("libgcc_s.so.1")
        with suppress(OSError):
            landlock.restrict(landlock.Allowed())  # defence: landlock-every-thread
        with suppress(OSError):
            seccomp.restrict()  # defence: seccomp-every-thread


def confine_decoder() -> None:
    """Confine a copy of this process that decodes what others have written: it may read the program alone. Never raises.

    A user who switches the sandbox off does so for what a server needs; this needs nothing.
    """
    read = tuple(sorted({*_program(), *map(Path, _SYSTEM)}))
    with suppress(OSError):
        landlock.restrict(landlock.Allowed(read=read))  # defence: decoder-reads-no-notes
    with suppress(OSError):
        seccomp.restrict()  # defence: decoder-makes-few-calls


def describe_effect(mode: Sandbox) -> str | None:
    """Describe how a server would be confined here, in the words of its log; None: it is switched off.

    Confines nothing. Raises ``ConfigError`` where confinement is required and not possible.
    """
    known = landlock.version()
    if mode == "require":
        _require_support(known)
    if mode == "off":
        return None
    by_landlock = _describe_landlock(known) if known else f"{_NO_LANDLOCK}: {landlock.UNSUPPORTED}"
    missing = seccomp.explain_missing_support()
    return f"{by_landlock}; {f'{_NO_SECCOMP}: {missing}' if missing else _FILTERED}"


def _describe_landlock(version: int) -> str:
    network = ", network" if version >= landlock.FIRST_WITH_NETWORK else ""
    signals = ", signals" if version >= landlock.FIRST_WITH_SCOPES else ""
    return f"Landlock {version}: files{network}{signals}"


_MODEL_FILES = ("model.onnx", "sentencepiece.bpe.model")
"""Files of a model may be links out of its folder, as in the cache of a model hub."""


def find_allowed_access(config: Config, *, opens: bool = True) -> landlock.Allowed:
    """List the places and ports that this Python and the store need."""
    needed = _find_needs(config, opens=opens)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or _real(Path.home) / ".config")
    read = {*_program(), *map(Path, _SYSTEM), home / "python_keyring", *needed.read}
    # defence: landlock-few-folders /dev/null=/
    keep = [Path("/dev/null"), *([config.data_dir] if opens else []), *needed.write]
    if config.log_file is not None:
        keep.append(config.log_file)
    if config.meaning_model is not None:  # also for an account in memory
        folder = config.meaning_model
        read |= {folder, *(Path(os.path.realpath(folder / name)) for name in _MODEL_FILES)}
    read |= {one.real for one in find_folders(config.policy.import_paths)}
    return landlock.Allowed(
        read=tuple(sorted(read)), keep=tuple(keep), ports=tuple(sorted({*needed.ports}))
    )


def _find_needs(config: Config, *, opens: bool) -> Access:
    """Return what the store needs; ``opens`` False: nothing, for it is not opened."""
    from mcp_notarium.stores.context import Access  # noqa: PLC0415 - not before the first answer

    return config.store.access(config.store_settings) if opens else Access()


def _program() -> set[Path]:
    """List where this Python and this package are read from; never the working or home folder.

    ``sys.path`` begins with the working folder where the module was started by ``-m``.
    """
    here, home = _real(Path.cwd), _real(Path.home)
    named = {Path(place) for place in (sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path)}
    named = {place for place in named if place.is_absolute()}
    places = named | {Path(os.path.realpath(place)) for place in named}
    package = Path(os.path.realpath(__file__)).parent.parent
    return {package} | {
        place for place in places if place != here and not home.is_relative_to(place)
    }


def _real(look: Callable[[], Path]) -> Path:
    """Return the folder by its real path; the root, which is never allowed, where there is none."""
    try:
        return Path(os.path.realpath(look()))
    except (OSError, RuntimeError):
        return Path(os.path.sep)


def _require_support(version: int) -> None:
    """Raise unless files, network and (where their numbers are known) system calls can be restricted."""
    if not version:
        raise _not_confined_error(landlock.UNSUPPORTED)
    if version < landlock.FIRST_WITH_NETWORK:
        raise _not_confined_error("this kernel's Landlock knows no rules for the network")
    if seccomp.architecture() is not None and (missing := seccomp.explain_missing_support()):
        raise _not_confined_error(missing)


def _not_confined_error(reason: str) -> ConfigError:
    return ConfigError(
        f"the sandbox is required, and the process cannot be confined: {reason}",
        resolution_hint="Use a Linux kernel with Landlock (6.7 or newer for the network rules) and "
        "seccomp filters, or set NOTARIUM_SANDBOX=auto.",
    )
