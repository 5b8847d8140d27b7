"""Implement what Linux, macOS and other POSIX systems share.

Sources: POSIX.1-2017 (``open``, ``fsync``, ``rename``, ``termios.h``, ``kill``), Linux man pages flock(2) and open(2).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

from mcp_notarium.system.common import Common, quote_posix
from mcp_notarium.system.port import Access, Entry, FileState, FolderEvents

assert sys.platform != "win32"  # noqa: S101 - for mypy, which reads no further there

# defence: private-file-no-link -O_NOFOLLOW
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_TOP = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FOLDER = _TOP | os.O_NOFOLLOW  # defence: vault-folder-no-link -O_NOFOLLOW
# defence: vault-file-is-no-link -O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ALL, _READ, _CHANGE = 0o077, 0o044, 0o022
_ANYBODY_WRITES = 0o222


class Posix(Common):
    """Implement the port by POSIX alone: no confinement, and no protection of the memory."""

    has_modes = True
    has_drives = False
    program_suffix = ""
    move_program = "mv"
    editors: tuple[str, ...] = ("sensible-editor", "editor", "nano", "vim", "vi")
    can_pass_descriptors = True
    can_select_streams = True

    def open_regular(self, path: Path, *, follow: bool = False) -> BufferedReader:
        """Open it without waiting for a pipe; what was opened is looked at."""
        descriptor = os.open(path, _FLAGS & ~os.O_NOFOLLOW if follow else _FLAGS)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)  # ``os.fdopen`` would leave a folder open
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")

    def open_private(self, path: Path, flags: int) -> int:
        """Open it with mode 0600."""
        # defence: temporary-file-private 0o600=0o666
        return os.open(path, flags | _FLAGS, 0o600)

    def make_private_folder(self, path: Path) -> None:
        """Create it with mode 0700."""
        path.mkdir(mode=0o700)

    def access(self, _place: Path | int, found: os.stat_result) -> Access:
        """Read owner and mode. In a folder with the sticky bit only owners take their entries away."""
        mode, me = found.st_mode, os.geteuid()
        changed = bool(mode & _CHANGE)
        return Access(
            owner="user" if found.st_uid == me else "other" if found.st_uid else "admin",
            is_private=not mode & _ALL,
            others_read=bool(mode & _READ),
            others_change=changed,
            others_replace=changed and not mode & stat.S_ISVTX,
        )

    def is_link(self, _path: Path, found: os.stat_result) -> bool:
        """Tell a symbolic link."""
        return stat.S_ISLNK(found.st_mode)

    def look_at(self, path: Path) -> FileState:
        """Use ``lstat``."""
        return path.lstat()

    def make_private(self, descriptor: int) -> None:
        """Set mode 0600."""
        os.fchmod(descriptor, 0o600)

    def explain_privacy(self, _path: Path, quoted: str, *, folder: bool, reading: bool) -> str:
        """Return ``chmod`` with a mode, or without the right to write."""
        mode = ("700" if folder else "600") if reading else "go-w"
        return f"chmod {mode} {quoted}"

    def explain_ownership(self, _path: Path, quoted: str) -> str:
        """Return ``chown``."""
        return f"sudo chown {os.geteuid()} {quoted}"

    def lock(self, descriptor: int, *, exclusive: bool) -> None:
        """Use ``flock``: it is bound to the open file, and the kernel drops it with it."""
        import fcntl  # noqa: PLC0415 - not every start takes a lock

        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)

    def flush(self, descriptor: int) -> None:
        """Use ``fsync``."""
        os.fsync(descriptor)

    def flush_file(self, path: Path) -> None:
        """Open it again, for writing as some systems require, and flush it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._flush_content(descriptor)
        finally:
            os.close(descriptor)

    def _flush_content(self, descriptor: int) -> None:
        self.flush(descriptor)

    def flush_folder(self, folder: Path) -> None:
        """Flush the folder itself."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.flush(descriptor)
        finally:
            os.close(descriptor)

    def move(self, old: Path, new: Path) -> None:
        """Use ``rename``, also while programs have the files open."""
        old.rename(new)

    def remove(self, path: Path) -> None:
        """Use ``unlink``, also while programs have it open."""
        path.unlink(missing_ok=True)

    def remove_empty(self, folder: Path) -> None:
        """Use ``rmdir``."""
        folder.rmdir()

    def set_modified(self, descriptor: int, seconds: float) -> None:
        """Use ``futimens``."""
        os.utime(descriptor, (seconds, seconds))

    def machine(self) -> str:
        """Ask ``uname``."""
        return os.uname().machine

    def forbid_dumps(self) -> None:
        """Limit core files to nothing."""
        import resource  # noqa: PLC0415 - a server needs it once

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # defence: no-core-files

    def overwrite_variables(self, names: Iterable[str]) -> None:
        """Overwrite the values where they stand; a variable may stand there more than once."""
        import ctypes  # noqa: PLC0415 - a server needs it once

        wanted = tuple(os.fsencode(name) + b"=" for name in names)
        for address in _walk(self._environment()):
            held = ctypes.string_at(address)
            if held.startswith(wanted):
                start = held.index(b"=") + 1
                ctypes.memset(address + start, 0, len(held) - start)  # defence: environment-wiped

    def _environment(self) -> Any:
        import ctypes  # noqa: PLC0415 - as above

        return ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")

    def memory_used(self) -> int | None:
        """Return the peak: POSIX has no more. The unit is 1 KiB."""
        return self._peak() * 1024

    def _peak(self) -> int:
        import resource  # noqa: PLC0415 - seldom needed

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def has_ended(self, pid: int) -> bool:
        """Send no signal: the kernel only looks whether it could."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            return False
        return False

    def quote(self, word: str) -> str:
        """Quote it for every shell of POSIX, and zsh."""
        return quote_posix(word)

    def split_command(self, words: str) -> list[str]:
        """Split as a POSIX shell does."""
        import shlex  # noqa: PLC0415 - a server needs none

        return shlex.split(words)

    def find_program(self, name: str, *, path: str | None = None) -> str | None:
        """Search as a shell does."""
        import shutil  # noqa: PLC0415 - a server needs none

        return shutil.which(name, path=path)

    def command_line(self, words: list[str]) -> list[str] | str:
        """Return it as it is."""
        return words

    def app_folder(self, environ: Mapping[str, str]) -> Path:
        """Follow the XDG Base Directory Specification."""
        return Path(environ.get("XDG_CONFIG_HOME", "").strip() or "~/.config").expanduser()

    def user_folder(self, what: Literal["config", "data"], environ: Mapping[str, str]) -> Path:
        """Follow the same specification."""
        if what == "config":
            return self.app_folder(environ) / "mcp-notarium"
        home = environ.get("XDG_DATA_HOME", "").strip() or "~/.local/share"
        return Path(home).expanduser() / "mcp-notarium"

    def run_apart(
        self,
        work: Callable[[], Iterable[bytes]],
        *,
        confine: Callable[[], None],
        seconds: float,
        memory: int,
        most: int,
    ) -> tuple[bytes, bool]:
        """Run the function in a fork."""
        from mcp_notarium.system.forked import run_forked  # noqa: PLC0415 - seldom needed

        return run_forked(work, confine=confine, seconds=seconds, memory=memory, most=most)

    def prepare_stream(self, descriptor: int) -> None:
        """Let reads wait, or "nothing yet" would look like the end."""
        os.set_blocking(descriptor, True)

    def drop_typed(self, descriptor: int) -> None:
        """Empty the terminal's queue."""
        import termios  # noqa: PLC0415 - seldom needed

        try:
            termios.tcflush(descriptor, termios.TCIFLUSH)  # defence: typed-ahead-forgotten
        except termios.error as error:
            raise OSError(errno.ENOTTY, "the terminal is gone") from error

    def open_top(self, path: Path) -> int:
        """Open it, also by a link."""
        return os.open(path, _TOP)

    def open_folder(self, above: int, name: str) -> int:
        """Use ``openat``."""
        return os.open(name, _FOLDER, dir_fd=above)

    def open_file(self, folder: int, name: str) -> int:
        """Use ``openat``."""
        return os.open(name, _FILE, dir_fd=folder)

    def create_file(self, folder: int, name: str, *, private: bool) -> int:
        """Create it with mode 0600, also if others may have it later."""
        del private
        return os.open(name, _NEW, 0o600, dir_fd=folder)

    def make_folder(self, above: int, name: str) -> None:
        """Use ``mkdirat``."""
        os.mkdir(name, dir_fd=above)

    def remove_folder(self, above: int, name: str) -> None:
        """Use ``unlinkat``."""
        os.rmdir(name, dir_fd=above)

    def unlink(self, folder: int, name: str) -> None:
        """Use ``unlinkat``."""
        os.unlink(name, dir_fd=folder)

    def scan(self, folder: int) -> AbstractContextManager[Iterable[Entry]]:
        """Use ``fdopendir``."""
        return os.scandir(folder)

    def list_names(self, folder: int) -> list[str]:
        """Use ``fdopendir``."""
        return os.listdir(folder)

    def look(self, folder: int, name: str) -> FileState:
        """Use ``fstatat``."""
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def look_at_open(self, descriptor: int) -> FileState:
        """Use ``fstat``."""
        return os.fstat(descriptor)

    def is_read_only(self, folder: int, name: str) -> bool:
        """Read the modes, and ask whether this user may write."""
        if not os.fstat(folder).st_mode & _ANYBODY_WRITES:
            return True
        if not name:
            return False
        if not self.look(folder, name).st_mode & _ANYBODY_WRITES:
            return True
        may_write = partial(os.access, mode=os.W_OK, dir_fd=folder)
        return not may_write(name) and may_write(".")

    def takes_name(self, _name: str) -> bool:
        """Say yes to all."""
        return True

    def rename(
        self,
        _old_folder: int,
        _old: str,
        _new_folder: int,
        _new: str,
        *,
        exchange: bool,
        spare: str = "",
    ) -> bool:
        """Return False: POSIX has neither."""
        del exchange, spare
        return False

    def link(self, old_folder: int, old: str, new_folder: int, new: str) -> None:
        """Use ``linkat``."""
        os.link(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder, follow_symlinks=False)

    def replace(self, folder: int, old: str, new: str) -> None:
        """Use ``renameat``."""
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)

    def permit_as(self, above: int, descriptor: int, *, is_folder: bool) -> None:
        """Set the folder's mode; a file cannot be executed."""
        _permit(descriptor, os.fstat(above).st_mode & (0o777 if is_folder else 0o666))

    def copy_rights(self, source: int, found: FileState, to: int) -> None:
        """Copy group, owner, mode and extended attributes."""
        for owner, group in (
            (-1, getattr(found, "st_gid", -1)),
            (getattr(found, "st_uid", -1), -1),
        ):
            with suppress(OSError):
                os.fchown(to, owner, group)
        _permit(to, stat.S_IMODE(found.st_mode))
        self._copy_attributes(source, to)

    def flush_names(self, folder: int) -> None:
        """Flush the folder itself."""
        self.flush(folder)

    def birth(self, _descriptor: int, found: FileState) -> str | None:
        """Return what ``fstat`` says, where it says that."""
        born = getattr(found, "st_birthtime", None)
        return None if born is None else str(born)

    def _copy_attributes(self, _source: int, _to: int) -> None:
        """Do nothing: POSIX has none."""

    def folder_events(self, _root: Path) -> FolderEvents | None:
        """Return None: no two of the other systems have the same."""
        return None

    @contextmanager
    def hidden_input(self, descriptor: int) -> Iterator[None]:
        """Switch the echo off, and what was typed before away."""
        import termios  # noqa: PLC0415 - seldom needed

        try:
            before = termios.tcgetattr(descriptor)
            hidden = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
            try:  # a signal may come at any moment
                termios.tcsetattr(descriptor, termios.TCSAFLUSH, hidden)
                yield
            finally:
                _restore(descriptor, before, termios.TCSAFLUSH)
        except termios.error as error:
            raise OSError(errno.ENOTTY, "the terminal is gone") from error

    @contextmanager
    def kept_terminal(self, descriptor: int) -> Iterator[None]:
        """Give it its settings back when what was written is shown."""
        import termios  # noqa: PLC0415 - seldom needed

        before = termios.tcgetattr(descriptor)
        try:
            yield
        finally:
            _restore(descriptor, before, termios.TCSADRAIN)


def _permit(descriptor: int, mode: int) -> None:
    with suppress(PermissionError):  # a file system without modes
        os.fchmod(descriptor, mode)


def _restore(descriptor: int, before: list[Any], when: int) -> None:
    import termios  # noqa: PLC0415 - seldom needed

    try:
        termios.tcsetattr(descriptor, when, before)
    except termios.error:
        return  # the terminal is gone


def _walk(entries: Any) -> Iterator[int]:
    """Yield the addresses in a list that ends with 0."""
    number = 0
    while entries and entries[number]:
        yield entries[number]
        number += 1
