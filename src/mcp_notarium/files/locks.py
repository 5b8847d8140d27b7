"""Hold the locks of an account folder, find the processes that hold them, and name this one.

``key_lock``: one process at a time changes key files or creates or moves a cache.
``ServerLock``: every process that has the database open holds it shared, so that none moves the file.
``Leader``: one process at a time syncs and checkpoints. The operating system drops them when a process dies.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_notarium.errors import ONE_MORE_TRY, LockedError, Verdict
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.system import SYSTEM

KEY_LOCK_SECONDS = 5.0
"""A waiting process answers no call, and may try again: better refused than stuck."""
SHARE_SECONDS = 5.0
EXCLUDE_SECONDS = 2.0  # a server stays for hours
_POLL = 0.02
_PROC = Path("/proc")


def key_lock(
    folder: AccountFolder, *, timeout: float = KEY_LOCK_SECONDS
) -> AbstractContextManager[None]:
    """Hold the key lock. Raises ``LockedError`` (BUSY), naming who holds it, after ``timeout`` s."""

    def busy() -> LockedError:
        return busy_error(
            "another process is changing the keys or the cache of this account"
            + describe_holders(folder.keys_lock)
        )

    return hold_lock(folder.keys_lock, busy, timeout=timeout)


@contextmanager
def hold_lock(
    path: Path, busy: Callable[[], LockedError], *, timeout: float = KEY_LOCK_SECONDS
) -> Iterator[None]:
    """Hold the lock of this file. Raises the error that ``busy`` makes after ``timeout`` s."""
    lock, deadline = FileLock(path), time.monotonic() + timeout
    while not lock.acquire():  # defence: one-key-change-at-a-time
        if time.monotonic() >= deadline:
            raise busy()
        time.sleep(_POLL)
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def wait_for_lock(path: Path, *, seconds: float) -> AsyncIterator[None]:
    """Hold the lock of this file, waiting in a thread. Raises ``TimeoutError``. Hold nothing where the system has no locks."""
    lock, loop = FileLock(path), asyncio.get_running_loop()
    end = loop.time() + seconds
    while not _acquire(lock, otherwise=True):
        if loop.time() >= end:
            raise TimeoutError("another process has the lock")
        await asyncio.sleep(_POLL)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, *, otherwise: bool) -> bool:
    """Take a lock; ``otherwise`` where locks do not work."""
    try:
        return lock.acquire()
    except OSError:
        return otherwise


@contextmanager
def exclusive_locks(folder: AccountFolder, *, timeout: float = KEY_LOCK_SECONDS) -> Iterator[None]:
    """Hold the key lock and the exclusive server lock. Raises ``LockedError`` (BUSY)."""
    with key_lock(folder, timeout=timeout):
        server_lock = ServerLock(folder)
        try:
            server_lock.exclude()
            yield
        finally:
            server_lock.release()


class _Held:
    """Hold the lock of a file until :meth:`release` or the process's end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def release(self) -> None:
        """Release it. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):  # the system lets go at the process's end; what was done counts
                os.close(descriptor)


class FileLock(_Held):
    """Lock a file of its own."""

    @property
    def is_locked(self) -> bool:
        """Tell whether it is held here."""
        return self._descriptor is not None

    def acquire(self) -> bool:
        """Take it; False while another process has it. Raises ``OSError``."""
        while True:
            descriptor = SYSTEM.open_private(self._path, os.O_RDWR | os.O_CREAT)
            try:
                SYSTEM.lock(descriptor, exclusive=True)
                if os.fstat(descriptor).st_nlink:  # a purge has not removed it meanwhile
                    self._descriptor, descriptor = descriptor, -1
                    return True
            except BlockingIOError:
                return False
            finally:
                if descriptor >= 0:
                    os.close(descriptor)


def busy_error(message: str) -> LockedError:
    """Return the error for a process that found the lock taken."""
    return LockedError(
        Verdict.BUSY,
        message,
        resolution_hint="Close the MCP clients that use this account, and `mcp-notarium watch` if it runs, wait a "
        "few seconds and try again.",
        agent_hint=ONE_MORE_TRY,
    )


class ServerLock(_Held):
    """Hold ``server.lock``, shared or exclusive."""

    def __init__(self, folder: AccountFolder) -> None:
        super().__init__(folder.server_lock)
        self._open()

    def share(self, *, timeout: float = SHARE_SECONDS) -> ServerLock:
        """Take the lock shared. Raises ``LockedError`` (BUSY) and releases it while another is exclusive."""
        try:
            self._take(exclusive=False, timeout=timeout)
        except BaseException:
            self.release()
            raise
        return self

    def exclude(self, *, timeout: float = EXCLUDE_SECONDS) -> ServerLock:
        """Take the lock exclusively. Raises ``LockedError`` (BUSY), naming who else holds it."""
        self._take(exclusive=True, timeout=timeout)  # defence: re-encrypted-alone True=False
        return self

    def _open(self) -> None:
        try:
            self._descriptor = SYSTEM.open_private(self._path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            # Nobody moves anything on a read-only disk.

    def _take(self, *, exclusive: bool, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while self._descriptor is not None:
            try:
                SYSTEM.lock(self._descriptor, exclusive=exclusive)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise busy_error(
                        "other MCP Notarium servers have this cache open"
                        + describe_holders(self._path)
                    ) from None
                time.sleep(_POLL)
            else:
                if os.fstat(self._descriptor).st_nlink:
                    return
                # A purge has removed the file: others lock a new one of its name.
                self.release()
                self._open()


class Leader:
    """Hold the lock of the process that syncs and checkpoints, or try to get it.

    The system releases the lock of a process that ends in any way, so a killed leader leaves no trace.
    ``path`` None: no other process has the database.
    """

    def __init__(self, path: Path | None) -> None:
        self._lock = FileLock(path) if path is not None else None

    @property
    def held(self) -> bool:
        """Tell whether this process leads."""
        return self._lock is None or self._lock.is_locked

    def acquire(self) -> bool:
        """Try to lead; False if another process does, or if locks do not work here."""
        return self._lock is None or self.held or _acquire(self._lock, otherwise=False)

    def release(self) -> None:
        """Release the lock, so that another process can lead. Idempotent."""
        if self._lock is not None:
            self._lock.release()


def make_owner_name() -> str:
    """Make a name for this process: machine, process id and a random part against reuse."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def process_ended(owner: str) -> bool:
    """Tell whether the named process is known to have ended.

    Only processes of this machine are checked. For others, and where the system cannot be asked
    without harm, the answer is False and the lease decides.
    """
    machine, _, rest = owner.rpartition(":")[0].rpartition(":")
    if machine != socket.gethostname() or not rest.isdecimal() or int(rest) < 1:
        return False
    return SYSTEM.has_ended(int(rest))


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Hold the id of a process with a lock, and the program that started it ('' if not known)."""

    pid: int
    started_by: str
    profile: str = ""
    """Names the profile that its command line does."""

    def __str__(self) -> str:
        by = f", started by {self.started_by}" if self.started_by else ""
        profile = f", profile {self.profile}" if self.profile else ""
        return f"process {self.pid}{by}{profile}"


def find_holders(lock: Path, *, proc: Path = _PROC) -> list[LockHolder]:
    """Find the other processes that hold a lock on this file, by pid.

    Read from ``/proc``, so on Linux only; elsewhere, or where it is closed, none is found.
    """
    others = sorted(SYSTEM.lock_holders(lock, proc=proc) - {os.getpid()})
    return [LockHolder(pid, _starter(pid, proc), _profile(pid, proc)) for pid in others]


def describe_holders(lock: Path) -> str:
    """Return the end of a sentence that names who holds it: ': process 1; process 2', or ''."""
    found = "; ".join(str(one) for one in find_holders(lock))
    return f": {found}" if found else ""


def _starter(pid: int, proc: Path) -> str:
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        parent = stat.rpartition(")")[2].split()[1]
        return (proc / parent / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, IndexError):
        return ""


def _profile(pid: int, proc: Path) -> str:
    try:
        command = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    words = [part for word in command for part in word.split("=", 1)]
    found = words[words.index("--profile") + 1] if "--profile" in words[:-1] else ""
    return found if _NAME.fullmatch(found) else ""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")
