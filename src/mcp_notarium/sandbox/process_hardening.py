"""Harden the process before it reads a secret: private files, no core files, no access to its memory.

Every measure is tried and reported; none is worth refusing to start. None of them helps against
somebody who already runs code with full rights (root).
"""

from __future__ import annotations

import ctypes
import os
import sys

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
"""OpenSSL and Python's TLS would take trusted certificates from them, or write the session's keys."""

_PR_SET_DUMPABLE = 4
_PRIVATE_UMASK = 0o077


def harden_process() -> tuple[str, ...]:
    """Take all measures; return the names of those that took effect."""
    measures = {
        "umask": private_umask,
        "no_core_files": forbid_core_files,
        "not_dumpable": forbid_dumping,
        "system_certificates": forget_certificates,
    }
    return tuple(name for name, take in measures.items() if take())


def private_umask() -> bool:
    """Set the umask so that new files and folders are the user's alone, whichever code creates them."""
    os.umask(_PRIVATE_UMASK)
    return os.name == "posix"


def forbid_core_files() -> bool:
    """Forbid core files: a crash writes no memory to the disk."""
    if sys.platform == "win32":
        return False
    import resource  # noqa: PLC0415 - POSIX only

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return True


def forbid_dumping() -> bool:
    """Forbid other processes of the same user to trace this one or read its memory. Linux only."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)) == 0


def forget_certificates() -> bool:
    """Remove the variables that change what TLS trusts: the system alone decides."""
    wipe_environment(*CERTIFICATES)
    return True


def wipe_environment(*names: str) -> None:
    """Remove variables from the environment and overwrite their bytes where they stand.

    ``os.environ.pop`` alone leaves them readable in ``/proc/PID/environ``. Copies that Python
    made before (in ``os.environ`` itself) are released, not overwritten.
    """
    for name in names:
        _overwrite(name)
        os.environ.pop(name, None)


def _overwrite(name: str) -> None:
    if sys.platform == "win32":
        return
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    libc.getenv.argtypes = [ctypes.c_char_p]
    address = libc.getenv(os.fsencode(name))
    if address:
        ctypes.memset(address, 0, len(ctypes.string_at(address)))
