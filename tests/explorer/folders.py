"""Keep the folders that the computers of a world begin with, and their connections, from one run to the next.

To open a connection costs more than most of what a run does with it: SQLite reads the whole schema, and
prepares each statement again. So a connection that is closed here is given out again, in another run. Between two
runs the database gets the bytes back that it began with, under connections which hold no lock then. The header of the index
of its log is wiped, as if a process had ended while it wrote that: whoever reads next builds it anew from
the empty log and forgets all pages.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from mcp_notarium.storage import driver
from support.sync_rig import DATABASE, memory_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_notarium.storage.driver import Connection

_HEADERS = 2 * 48
"""Bytes of the two copies of the header at the beginning of the index of a log."""


class Folder:
    """A folder with a database, which is the same at the beginning of each run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._began_with = b""
        self._files: list[int] = []
        self._idle: list[Any] = []
        self._ended: list[Any] = []
        """Those that ended in this run: what they belonged to may still hold them."""

    def begin(self, database: bytes) -> Path:
        """Make it as a run begins: this database, and nothing else."""
        self._idle += self._ended
        self._ended.clear()
        if self._began_with != database or not self._is_quiet():
            self._make(database)
            return self.path
        for name in os.listdir(self.path):  # noqa: PTH208 - asked in each run
            if name not in _NAMES:
                os.unlink(self.path / name)  # noqa: PTH108
        self._write(database)
        return self.path

    def connect(self, *args: Any, **how: Any) -> Connection:
        """Open a connection, or give out one of an earlier run, as the driver would open it."""
        if self._idle:
            connection = self._idle.pop()
            connection.open_again(how["timeout"])
            return connection  # type: ignore[no-any-return]
        kept = _kept(driver.module().Connection)
        connection = driver.module().connect(*args, factory=kept, **how)
        connection.ends = self._ended.append
        return connection  # type: ignore[no-any-return]

    def drop(self) -> None:
        """Close everything, for good."""
        for connection in [*self._idle, *self._ended]:
            connection.ends = None
            connection.close()
        self._idle.clear()
        self._ended.clear()
        for file in self._files:
            os.close(file)
        self._files.clear()
        shutil.rmtree(self.path, ignore_errors=True)

    def _is_quiet(self) -> bool:
        """Tell whether nobody reads or writes: only then the log can be emptied."""
        if not self._idle:
            return False
        busy, *_ = self._idle[-1].execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def _make(self, database: bytes) -> None:
        self.drop()
        self.path.mkdir(mode=0o700, parents=True)
        self._began_with = database
        path = self.path / DATABASE
        path.touch(mode=0o600)
        path.write_bytes(database)

    def _write(self, database: bytes) -> None:
        # Files that stay open: to close one lets go of the locks that SQLite has on it.
        if not self._files:
            self._files = [os.open(self.path / name, os.O_RDWR) for name in (DATABASE, _INDEX)]
        main, index = self._files
        os.pwrite(main, database, 0)
        os.ftruncate(main, len(database))
        os.pwrite(index, bytes(_HEADERS), 0)


class Folders:
    """The folders of a world, one a computer; worlds follow each other."""

    def __init__(self) -> None:
        self._world = ""
        self._root: Path | None = None
        self._folders: dict[str, Folder] = {}

    def begin(self, world: str, machine: str, database: bytes) -> Path:
        """Return the folder in which a computer of a world begins, with this database."""
        if world != self._world:
            self.drop()
            self._world = world
        path = self._place() / machine
        return self._folders.setdefault(str(path), Folder(path)).begin(database)

    @contextmanager
    def empty(self) -> Iterator[Path]:
        """Give out an empty folder for one run."""
        path = self._place() / "run"
        path.mkdir(mode=0o700, exist_ok=True)
        try:
            yield path
        finally:
            if os.listdir(path):  # noqa: PTH208 - asked in each run
                shutil.rmtree(path)

    def connect(self, path: str, **how: Any) -> Connection:
        """Open a connection as the driver would; to a database of these folders, perhaps one of an earlier run."""
        folder = self._folders.get(os.path.dirname(path))  # noqa: PTH120 - asked often
        if folder is None:
            return driver.module().connect(path, **how)  # type: ignore[no-any-return]
        return folder.connect(path, **how)

    def drop(self) -> None:
        """Let go of everything."""
        for folder in self._folders.values():
            folder.drop()
        self._folders.clear()

    def _place(self) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(dir=memory_place(), prefix="notarium-")).resolve()
            atexit.register(shutil.rmtree, self._root, ignore_errors=True)
        return self._root


_INDEX = f"{DATABASE}-shm"
_NAMES = (DATABASE, f"{DATABASE}-wal", _INDEX)


@cache
def _kept(base: Any) -> Any:
    """Return a class of connections that stay open when they are closed."""

    class Kept(base):  # type: ignore[misc]
        """A connection that ``ends`` takes when it is closed; None: it closes."""

        ends: Callable[[Any], None] | None = None
        _asked: Callable[..., int] | None = None

        def open_again(self, timeout: float) -> None:
            """Be opened: until it has an authorizer, what each opening sets in the same way is set already."""
            self.set_busy_timeout(timeout)
            self.execute = self._execute_again

        def _execute_again(self, sql: str, *parameters: Any) -> Any:
            again = sql.startswith(_SET_ONCE)  # else SQLite would prepare all statements again
            return _NOTHING if again else super().execute(sql, *parameters)

        def set_authorizer(self, authorize: Callable[..., int]) -> None:
            """Ask this one from now on, without preparing again what was prepared."""
            if self._asked is None:
                super().set_authorizer(self._ask)
            self._asked = authorize
            self.__dict__.pop("execute", None)

        def _ask(self, *about: Any) -> int:
            assert self._asked is not None
            return self._asked(*about)

        def close(self) -> None:
            """Roll back, and let go of what belongs to this connection alone."""
            if self.ends is None:
                super().close()
                return
            self._asked = _permit
            if self.in_transaction:
                self.execute("ROLLBACK")
            if self.execute("SELECT 1 FROM temp.sqlite_master").fetchone():
                super().close()
            else:
                self.ends(self)

    return Kept


_SET_ONCE = tuple(
    f"PRAGMA {name} = "
    for name in (
        "cipher_log_level",
        "temp_store",
        "mmap_size",
        "secure_delete",
        "foreign_keys",
        "trusted_schema",
        "recursive_triggers",
        "journal_size_limit",
        "wal_autocheckpoint",
    )
)
_NOTHING = SimpleNamespace(rowcount=-1)


def _permit(*_about: object) -> int:
    return 0
