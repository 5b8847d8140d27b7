"""Define what differs between systems: the port that ``linux``, ``macos`` and ``windows`` implement.

A method raises ``OSError`` where the system refuses; its number (``errno``) means the same on every system. Others
turn it into words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Access:
    """Hold who may use a file or folder. "Others" are all but its user and the system's administrators."""

    owner: Literal["user", "admin", "other"]
    """The administrator is root, or Windows' own accounts. A user who is root is the user."""
    is_private: bool
    """Others have no right at all."""
    others_read: bool
    others_change: bool
    """Others may write to a file, or add to a folder."""
    others_replace: bool
    """Others may put something else in the place of what is in a folder."""


class PrivateFiles(Protocol):
    """Read, create, lock, flush and move files that belong to one user."""

    def open_regular(self, path: Path, *, follow: bool = False) -> BufferedReader:
        """Open a regular file for reading; never wait for a pipe, and let no other program inherit it.

        Raises ``OSError`` for a folder or anything else, and for a symbolic link unless ``follow``.
        """

    def open_below(self, top: Path, path: str) -> BufferedReader:
        """Open a regular file by its path below a folder, with ``/``; follow no link but ``top``. Raises ``OSError``."""

    def open_private(self, path: Path, flags: int) -> int:
        """Open a file by ``os.open``'s flags, through no link; a new one is the user's alone from its first moment."""

    def make_private_folder(self, path: Path) -> None:
        """Create a folder that is the user's alone. Raises ``FileExistsError``."""

    def access(self, place: Path | int, found: os.stat_result) -> Access:
        """Tell who may use an open file, or what is at a path. ``found``: its ``fstat`` or ``lstat``."""

    def is_link(self, path: Path, found: os.stat_result) -> bool:
        """Tell whether what is at a path stands for another name. ``found``: its ``lstat``. Raises ``OSError``."""

    def look_at(self, path: Path) -> FileState:
        """Return the state of what is at a path; a link, a junction too, is one itself. Raises ``OSError``."""

    def walk(
        self,
        top: Path,
        *,
        enters: Callable[[Path], bool] = lambda _folder: True,
        unseen: Callable[[Path, OSError], object] | None = None,
    ) -> Iterator[tuple[Path, Entry]]:
        """Yield what is below a folder: of each folder its files and links, then each folder and what it holds.

        No link below ``top`` is followed. ``enters`` decides before a folder is opened. Folders are open meanwhile.
        ``unseen`` is told which folder could not be opened or listed, and why; the walk goes on if it returns. A folder
        that has gone is passed over without it, and any other error is raised. Raises ``OSError`` also for ``top``.
        """

    def make_private(self, descriptor: int) -> None:
        """Take all rights on an open file of the user from others."""

    def explain_privacy(self, path: Path, quoted: str, *, folder: bool, reading: bool) -> str:
        """Return the command that takes the rights of others on a path: all, or only to change it."""

    def explain_ownership(self, path: Path, quoted: str) -> str:
        """Return the command that makes what is at a path the user's own."""

    def is_group_private(self, path: Path, found: os.stat_result) -> bool:
        """Check that the group that may write to a folder is the user alone."""

    def lock(self, descriptor: int, *, exclusive: bool) -> None:
        """Lock an open file until it is closed, or change its lock. Raises ``BlockingIOError`` instead of waiting.

        The lock is the open file's, not the process's, and ends with it. Bytes of the file can be read and written.
        """

    def lock_holders(self, path: Path, *, proc: Path = Path("/proc")) -> set[int]:
        """Return the processes that hold a lock on a file, as far as ``/proc`` tells."""

    def flush(self, descriptor: int) -> None:
        """Wait until what was written to an open file is on the disk."""

    def flush_file(self, path: Path) -> None:
        """Wait until what was written to an existing file is on the disk."""

    def flush_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""

    def flush_below(self, folder: Path) -> None:
        """Wait until all files below a folder, and their names, are on the disk."""

    def move(self, old: Path, new: Path) -> None:
        """Rename on one disk, and replace a file at ``new``, in one step. Nothing has changed if it raises ``OSError``."""

    def remove(self, path: Path) -> None:
        """Remove a file, or a link and not what it leads to; nothing if there is none."""

    def remove_empty(self, folder: Path) -> None:
        """Remove an empty folder."""

    def set_modified(self, descriptor: int, seconds: float) -> None:
        """Say when a file that is open for writing was last written, in epoch seconds. Nothing is written after it."""

    def is_held(self, path: Path) -> bool:
        """Tell whether another program keeps a file from being opened for reading and writing, as long as one waits for it."""


class FileState(Protocol):
    """Hold what a look at a file shows, in ``os.stat_result``'s terms. ``st_ctime``: when anything of it changed last."""

    @property
    def st_mode(self) -> int:
        """Return what it is, and its mode."""

    @property
    def st_ino(self) -> int:
        """Return its number on the drive."""

    @property
    def st_dev(self) -> int:
        """Return the drive."""

    @property
    def st_nlink(self) -> int:
        """Return how many names it has."""

    @property
    def st_size(self) -> int:
        """Return its bytes."""

    @property
    def st_mtime(self) -> float:
        """Return when it was last written, in seconds."""

    @property
    def st_mtime_ns(self) -> int:
        """Return the same in nanoseconds."""

    @property
    def st_ctime(self) -> float:
        """Return when anything of it was last changed, in seconds."""

    @property
    def st_ctime_ns(self) -> int:
        """Return the same in nanoseconds."""


class Entry(Protocol):
    """Name what a folder holds, as ``os.DirEntry`` does."""

    @property
    def name(self) -> str:
        """Return its name."""

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """Tell a folder."""

    def is_file(self, *, follow_symlinks: bool) -> bool:
        """Tell a regular file."""

    def stat(self, *, follow_symlinks: bool) -> FileState:
        """Return its state."""


class SharedFiles(Protocol):
    """Work on files that other programs write, too, relative to open folders.

    A folder or file that is open is a descriptor; ``os.read``, ``os.write``, ``os.lseek``, ``os.dup`` and ``os.close`` take
    it. No link is followed, but for the folder that :meth:`open_top` opens. Raises ``OSError``.
    """

    def open_top(self, path: Path) -> int:
        """Open a folder by its path."""

    def open_folder(self, above: int, name: str) -> int:
        """Open a folder of an open folder."""

    def open_file(self, folder: int, name: str) -> int:
        """Open a file for reading, without waiting for a pipe."""

    def create_file(self, folder: int, name: str, *, private: bool) -> int:
        """Create a file for writing. ``private``: it is the user's alone until :meth:`copy_rights` or the exchange."""

    def make_folder(self, above: int, name: str) -> None:
        """Create a folder."""

    def remove_folder(self, above: int, name: str) -> None:
        """Remove an empty folder."""

    def unlink(self, folder: int, name: str) -> None:
        """Remove a file."""

    def scan(self, folder: int) -> AbstractContextManager[Iterable[Entry]]:
        """Give what a folder holds."""

    def list_names(self, folder: int) -> list[str]:
        """Return the names in a folder."""

    def look(self, folder: int, name: str) -> FileState:
        """Return the state of what has a name. Nothing is fetched from a server for it."""

    def look_at_open(self, descriptor: int) -> FileState:
        """Return the state of an open file or folder."""

    def is_elsewhere(self, found: FileState) -> bool:
        """Tell whether the content of a file is not on this computer: reading would wait for the network."""

    def has_no_blocks(self, found: FileState) -> bool:
        """Tell whether a file has no block on the disk, where the system says so."""

    def is_read_only(self, folder: int, name: str) -> bool:
        """Tell whether a file, or its folder (for ``''`` that alone), is marked as one that may only be read.

        A file system that takes no change at all has not marked this file.
        """

    def takes_name(self, name: str) -> bool:
        """Tell whether a new file or folder can have a name that every program of the system understands."""

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
        """Exchange two files, or move one where no other is; False if the system or the file system cannot.

        ``spare``: a free name that one of two may have for a moment. Raises ``FileExistsError``, too.
        """

    def link(self, old_folder: int, old: str, new_folder: int, new: str) -> None:
        """Give a file one more name. Raises ``FileExistsError``."""

    def replace(self, folder: int, old: str, new: str) -> None:
        """Move a file to the name of another, which goes."""

    def permit_as(self, above: int, descriptor: int, *, is_folder: bool) -> None:
        """Let something new be as open to others as the folder that it is in, where that is not so by itself."""

    def copy_rights(self, source: int, found: FileState, to: int) -> None:
        """Give an open file the owner, rights and attributes of another, as far as the system permits.

        What the system itself gives to a file at :meth:`rename` may come only then.
        """

    def flush_names(self, folder: int) -> None:
        """Wait until the names in an open folder are on the disk."""

    def birth(self, descriptor: int, found: FileState) -> str | None:
        """Return when an open file was made (epoch seconds), as the system tells it; None if it does not."""

    def is_being_written(self, descriptor: int) -> bool:
        """Tell whether another program has a file open for writing, which is open here for reading alone.

        False where the system or the file system does not tell; some network drives say True of every file.
        """

    def read_attribute(self, descriptor: int, name: str) -> bytes | None:
        """Return an extended attribute of an open file; None if it has none of that name."""

    def write_attribute(self, descriptor: int, name: str, value: bytes) -> None:
        """Give an open file an extended attribute. Raises ``OSError``, also where there are none."""


class FolderEvents(Protocol):
    """Tell what changes in some folders below a root. For any thread but :meth:`wait`, which belongs to a loop's."""

    def follow(self, folders: Iterable[str]) -> bool:
        """Watch what is directly in these folders, and no others; return whether any of them was not watched before.

        Paths are relative to the root, with ``/``. Links are not followed. :meth:`take` returns None if the system refuses.
        """

    def take(self) -> set[tuple[str, str]] | None:
        """Return folder and name of each file that has changed since the last call; None: anything may have.

        So it is at first, when events were lost, and when a folder has come, gone or moved.
        """

    async def wait(self, seconds: float) -> bool:
        """Wait for an event that no earlier wait has seen, at most so long; return whether there is one."""

    def close(self) -> None:
        """Stop telling changes. May be called twice."""


class Watching(Protocol):
    """Watch folders."""

    def folder_events(self, root: Path) -> FolderEvents | None:
        """Return what tells of changes below a folder, nothing yet; None where the system has no such thing."""


class Processes(Protocol):
    """Protect this process, and ask about others."""

    @property
    def can_confine(self) -> bool:
        """Tell whether its kernel may have Landlock and seccomp."""

    def machine(self) -> str:
        """Return the system's name of the processor."""

    def forbid_dumps(self) -> None:
        """Let no crash write the memory of this process."""

    def forbid_tracing(self) -> None:
        """Let no other process of the user trace this one or read its memory, where the system can."""

    def overwrite_variables(self, names: Iterable[str]) -> None:
        """Overwrite the values of variables in what other processes can read of this one."""

    def memory_used(self) -> int | None:
        """Return the bytes of memory in use; the peak where the system tells no more, None where not even that."""

    def release_memory(self) -> bool:
        """Return free heap memory to the system; True if there was any. Never fails."""

    def has_ended(self, pid: int) -> bool:
        """Tell whether no process of this number runs; False where that cannot be told."""

    @property
    def limits_memory(self) -> bool:
        """Tell whether ``run_apart`` can hold work to its ``memory``."""

    def run_apart(
        self,
        work: Callable[[], Iterable[bytes]],
        *,
        confine: Callable[[], None],
        seconds: float,
        memory: int,
        most: int,
    ) -> tuple[bytes, bool]:
        """Run a function in a copy of this process that has nothing but a pipe; return what it yields, and whether that is all.

        ``confine`` is called there first, and nowhere else. It ends after so many seconds, or if it takes so many bytes more than this process has; what it has yielded by then
        is returned, but nothing if that is more than ``most`` bytes. A system that copies no process runs it here, and only asks for the time between two parts.
        """


class Desktop(Protocol):
    """Name places and programs as users of the system know them, and set up their terminal."""

    @property
    def has_modes(self) -> bool:
        """Tell whether modes say who may use a file."""

    @property
    def has_drives(self) -> bool:
        """Tell whether paths begin with the letter of a drive."""

    @property
    def longest_path(self) -> int | None:
        """Return the most characters of a path that every program of the system takes; None where it says so itself."""

    @property
    def flushes_fully(self) -> bool:
        """Tell whether a flush has to be asked for twice: SQLite needs ``PRAGMA fullfsync``."""

    @property
    def program_suffix(self) -> str:
        """Return the end of the names of programs."""

    @property
    def move_program(self) -> str:
        """Return the command that moves a file, in every usual shell."""

    @property
    def editors(self) -> tuple[str, ...]:
        """Return the usual editors, the best first."""

    @property
    def can_pass_descriptors(self) -> bool:
        """Tell whether a program that is started can inherit an open file by its number."""

    @property
    def can_select_streams(self) -> bool:
        """Tell whether ``select`` waits for streams that are no sockets."""

    def quote(self, word: str) -> str:
        """Quote a word of a command that a person is told to run, for the system's shells."""

    def split_command(self, words: str) -> list[str]:
        """Split a command as the system's shell does. Raises ``ValueError`` if a quote is open."""

    def find_program(self, name: str, *, path: str | None = None) -> str | None:
        """Return where a program is, None if it is nowhere on ``path`` (that of the environment). The working folder is not searched."""

    def command_line(self, words: list[str]) -> list[str] | str:
        """Return a command as ``subprocess`` is to start it. Raises ``ValueError`` if it would get other words."""

    def app_folder(self, environ: Mapping[str, str]) -> Path:
        """Return the folder in which programs keep their settings for the user."""

    def user_folder(self, what: Literal["config", "data"], environ: Mapping[str, str]) -> Path:
        """Return our own folder for settings or data. Raises ``RuntimeError`` without a home folder."""

    def session_bus(self, environ: Mapping[str, str]) -> Path | None:
        """Return where the session's D-Bus may be that ``environ`` does not name; None where keychains need none."""

    def prepare_stream(self, descriptor: int) -> None:
        """Let a stream of the protocol carry bytes as they are, and wait for them."""

    def drop_typed(self, descriptor: int) -> None:
        """Drop what was typed at a terminal and not read yet. Raises ``OSError`` if the terminal is gone."""

    def hidden_input(self, descriptor: int) -> AbstractContextManager[None]:
        """Show nothing of what is typed meanwhile. Raises ``OSError`` if the terminal is gone."""

    def kept_terminal(self, descriptor: int) -> AbstractContextManager[None]:
        """Give a terminal its settings back afterwards."""


class System(PrivateFiles, SharedFiles, Watching, Processes, Desktop, Protocol):
    """Hold all of it."""
