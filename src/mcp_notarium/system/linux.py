"""Implement what only Linux has.

Sources: Linux man pages prctl(2) PR_SET_DUMPABLE and PR_SET_PDEATHSIG, fdatasync(2), sync(2), proc(5), acl(5), malloc_trim(3), credentials(7),
inotify(7), renameat2(2), statx(2), fcntl(2) F_SETLEASE, xattr(7); XDG Base Directory Specification.
"""

from __future__ import annotations

import errno
import functools
import os
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

assert sys.platform == "linux"  # noqa: S101 - for mypy, as in ``posix``

from mcp_notarium.system.port import FileState, FolderEvents  # noqa: E402 - mypy stops above
from mcp_notarium.system.posix import Posix  # noqa: E402 - the same

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_NOREPLACE, _EXCHANGE = 1, 2
_NO_FLAGS = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_EMPTY_PATH, _BIRTH_TIME, _AT_BIRTH_TIME = 0x1000, 0x800, 80
"""Flag, mask and place in the answer of ``statx``."""
# What changes a listing: a file appears, goes, or is written.
_MODIFY, _ATTRIBUTES, _MOVED_FROM, _MOVED_TO = 0x2, 0x4, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_MASK = (
    _MODIFY | _ATTRIBUTES | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLY_FOLDERS | _NO_LINKS  # defence: links-not-watched
)  # fmt: skip
_LOST, _FOLDER = 0x4000, 0x40000000
_EVENT = struct.Struct("iIII")
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""A folder has vanished, a link has its place, or it lies too deep."""
_BUFFER, _MOST = 65_536, 10_000
"""Bytes of events read at once; changed files after which anything may have changed."""
_KIND, _PID, _PLACE = 1, 4, 5
_NO_LIST = {errno.ENODATA, errno.ENOTSUP}


class Linux(Posix):
    """Implement the port with Linux' own calls."""

    can_confine = True
    limits_memory = True
    _flush_content = staticmethod(os.fdatasync)  # type: ignore[assignment]  # called as it is, for each commit

    def is_group_private(self, path: Path, found: os.stat_result) -> bool:
        """Check a folder that its group may write to and others may not; never for root.

        Distributions with a group for each user set umask 002, and every new folder is group-writable there.
        The answer is no if that cannot be found out. The rule is the one OpenSSH has on Debian: every listed
        and every primary member is checked. A directory service that does not list its users can hide one.
        """
        if not os.geteuid() or found.st_mode & 0o002:
            return False
        return _is_one_users(found.st_gid) and not _has_access_list(path)

    def flush_below(self, folder: Path) -> None:
        """Use ``sync``, which waits here: one flush for all."""
        del folder
        os.sync()

    def lock_holders(self, path: Path, *, proc: Path = Path("/proc")) -> set[int]:
        """Read the kernel's list."""
        try:
            place = path.stat()
            lines = (proc / "locks").read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            return set()
        wanted = f"{os.major(place.st_dev):02x}:{os.minor(place.st_dev):02x}:{place.st_ino}"
        pids = {int(parts[_PID]) for line in lines if _is_on(parts := line.split(), wanted)}
        return {pid for pid in pids if pid > 0}

    def rename(
        self,
        old_folder: int,
        old: str,
        new_folder: int,
        new: str,
        *,
        exchange: bool,
        spare: str = "",
    ) -> bool:
        """Use ``renameat2``."""
        import ctypes  # noqa: PLC0415 - not before the first answer

        del spare
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "renameat2"):
            return False
        flag = _EXCHANGE if exchange else _NOREPLACE
        if libc.renameat2(old_folder, os.fsencode(old), new_folder, os.fsencode(new), flag) == 0:
            return True
        number = ctypes.get_errno()
        if number in _NO_FLAGS:
            return False
        raise OSError(number, os.strerror(number))

    def birth(self, descriptor: int, _found: FileState) -> str | None:
        """Ask ``statx``: Python tells no time of birth."""
        import ctypes  # noqa: PLC0415 - the same

        ask = _statx()
        if ask is None:
            return None
        answer = ctypes.create_string_buffer(256)
        if ask(descriptor, b"", _EMPTY_PATH, _BIRTH_TIME, answer) != 0:
            return None
        (known,) = struct.unpack_from("=I", answer, 0)
        if not known & _BIRTH_TIME:
            return None
        return "{}.{:09}".format(*struct.unpack_from("=qI", answer, _AT_BIRTH_TIME))

    def is_being_written(self, descriptor: int) -> bool:
        """Ask for a read lease, which nobody gets then."""
        import fcntl  # noqa: PLC0415 - seldom needed

        try:
            # Opening the file meanwhile makes the system send a signal: one that nothing comes of.
            fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        except OSError as error:
            return error.errno == errno.EAGAIN
        return False

    def read_attribute(self, descriptor: int, name: str) -> bytes | None:
        """Use ``fgetxattr``."""
        with suppress(OSError):
            return os.getxattr(descriptor, name)
        return None

    def write_attribute(self, descriptor: int, name: str, value: bytes) -> None:
        """Use ``fsetxattr``."""
        os.setxattr(descriptor, name, value)

    def _copy_attributes(self, source: int, to: int) -> None:
        """Copy each that may be read and set."""
        with suppress(OSError):
            for name in os.listxattr(source):
                with suppress(OSError):
                    os.setxattr(to, name, os.getxattr(source, name))

    def folder_events(self, root: Path) -> FolderEvents:
        """Use inotify."""
        return _Inotify(root)

    def forbid_tracing(self) -> None:
        """Make the process not dumpable."""
        import ctypes  # noqa: PLC0415 - not before the first answer

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # defence: process-not-dumpable

    def run_apart(
        self,
        work: Callable[[], Iterable[bytes]],
        *,
        confine: Callable[[], None],
        seconds: float,
        memory: int,
        most: int,
    ) -> tuple[bytes, bool]:
        """Run the function in a fork; the kernel ends it with the thread that waits for it, and so with the process."""
        import ctypes  # noqa: PLC0415 - the same

        prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

        def enter() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # defence: copy-ends-with-server
            if os.getppid() != parent:
                raise ProcessLookupError
            confine()

        return super().run_apart(work, confine=enter, seconds=seconds, memory=memory, most=most)

    def memory_used(self) -> int | None:
        """Return the resident memory now."""
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError):
            return super().memory_used()

    def release_memory(self) -> bool:
        """Trim the heap: after a first load glibc keeps some 15 MB for threads that have ended."""
        import ctypes  # noqa: PLC0415 - the same

        try:
            return bool(ctypes.CDLL(None).malloc_trim(0))
        except (OSError, AttributeError):
            return False

    def session_bus(self, environ: Mapping[str, str]) -> Path | None:
        """Return its fixed place in the folder of the login session."""
        if environ.get("DBUS_SESSION_BUS_ADDRESS"):
            return None
        return Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "bus")


class _Inotify:
    """Watch each folder by inotify. What has happened before a call of ``take`` is known to it."""

    def __init__(self, root: Path) -> None:
        import ctypes  # noqa: PLC0415 - not before the first answer

        self._root = root
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._errno = ctypes.get_errno
        self._file: int | None = None
        self._watched: dict[str, int] = {}
        self._folders: dict[int, str] = {}
        self._works = True
        self._lock = threading.Lock()
        self._changed: set[tuple[str, str]] = set()
        self._uncertain = True
        """Anything may have changed."""

    def follow(self, folders: Iterable[str]) -> bool:
        """See ``FolderEvents.follow``."""
        if not self._works:
            return False
        if self._file is None:
            self._file = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if self._file < 0:
                self._file, self._works = None, False
                return False
        wanted = {*folders}
        for gone in self._watched.keys() - wanted:
            self._libc.inotify_rm_watch(self._file, self._watched.pop(gone))
        new = False
        for folder in wanted:  # a folder that was made again has another number
            place = self._root / folder
            number = self._libc.inotify_add_watch(self._file, os.fsencode(place), _MASK)
            if number < 0 and self._errno() not in _GONE:
                self._works = False  # no more watches, or not permitted
            elif number >= 0 and self._watched.get(folder) != number:
                self._watched[folder], new = number, True
        with self._lock:
            self._folders = {number: folder for folder, number in self._watched.items()}
        return new

    def take(self) -> set[tuple[str, str]] | None:
        """See ``FolderEvents.take``."""
        self._read()
        with self._lock:
            # defence: missing-events-noticed =True
            known = self._works and self._file is not None and not self._uncertain
            changed = self._changed if known else None
            self._changed, self._uncertain = set(), False
        return changed

    async def wait(self, seconds: float) -> bool:
        """See ``FolderEvents.wait``."""
        import asyncio  # noqa: PLC0415 - commands are fast without it

        if self._file is None:
            await asyncio.sleep(seconds)
            return False
        loop, file, came = asyncio.get_running_loop(), self._file, asyncio.Event()
        loop.add_reader(file, came.set)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(came.wait(), seconds)
        finally:
            loop.remove_reader(file)
        self._read()
        return came.is_set()

    def _read(self) -> None:
        with self._lock, suppress(BlockingIOError):
            while self._file is not None and (events := os.read(self._file, _BUFFER)):
                self._sort(events)

    def _sort(self, events: bytes) -> None:
        at = 0
        while at < len(events):
            number, kind, _, length = _EVENT.unpack_from(events, at)
            at += _EVENT.size
            name = os.fsdecode(events[at : at + length].rstrip(b"\0"))
            at += length
            folder = self._folders.get(number)
            if kind & (_LOST | _FOLDER) or (folder is not None and not name):
                self._uncertain = True  # events were lost, or a folder with files below it changed
            elif folder is not None and not self._uncertain:
                self._changed.add((folder, name))
                self._uncertain = len(self._changed) > _MOST

    def close(self) -> None:
        """See ``FolderEvents.close``."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file, self._works = None, False
        self._watched.clear()


@functools.cache
def _statx() -> Callable[..., int] | None:
    import ctypes  # noqa: PLC0415 - not before the first answer

    return getattr(ctypes.CDLL(None), "statx", None)


def _is_on(parts: list[str], wanted: str) -> bool:
    # "3: FLOCK ADVISORY WRITE 4711 08:01:131 0 EOF"; one that waits has "->" in second place.
    return len(parts) > _PLACE and parts[_KIND] == "FLOCK" and parts[_PLACE] == wanted


def _is_one_users(group: int) -> bool:
    import grp  # noqa: PLC0415 - seldom needed
    import pwd  # noqa: PLC0415 - the same

    try:
        me, ours = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    if me.pw_gid != group or ours.gr_name != me.pw_name or set(ours.gr_mem) - {me.pw_name}:
        return False
    return all(one.pw_uid == me.pw_uid for one in pwd.getpwall() if one.pw_gid == group)


def _has_access_list(path: Path) -> bool:
    """Check for an access list: with one the group's bits are a mask and do not say who has access."""
    try:
        os.getxattr(path, "system.posix_acl_access", follow_symlinks=False)
    except OSError as error:
        return error.errno not in _NO_LIST
    return True
