"""Tell what a command does as a story, and kill it at any of its stops.

**Writing one.** ``act(home, at)`` does it in the folder ``home`` and tells ``at`` its steps. It is a function of a
module: the process that is killed finds it by its name. A command that changes keys is a :class:`Story` as well, with what
was there before and what must hold afterwards, in ``slot_stories`` or ``cache_stories``. ``power_stories`` lists them, and
each test in ``tests/crash`` that goes through this list kills it, fills its disk or cuts its power.

**Killing one.** A stop is a place before a call that changes files or takes a lock, where a transaction begins, is about to
commit and has committed, and each step that the act tells. :func:`run_killed` gives an act to a process of its own, which dies by
SIGKILL at the stop of a number, or only at the step of a name. :func:`count_stops` says how many there are. An act that is
killed in a part of it alone enters :func:`killing` there, in a process from :func:`forked`.
"""

from __future__ import annotations

import fcntl
import functools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from unittest.mock import patch

from mcp_notarium.account import generation, opener
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.domain.note import Tombstone
from mcp_notarium.errors import Verdict
from mcp_notarium.files.private_files import StepHook, ignore_step
from mcp_notarium.storage import database, table_copy
from mcp_notarium.storage.cache import Cache
from support import corpus
from support.account import USERNAME, account
from support.cache_room import store
from support.found import KEY, NEW, THIRD, Broken, Found

Act = Callable[[Path, StepHook], object]
Stop = Callable[[str], None]

NOTES = 12
KILLED = -signal.SIGKILL
TAKES_ROOM = {"open", "write", "sync", "fsync", "mkdir", "link", "copyfile"}
"""Where a disk or a quota may say no; ``write`` and ``sync`` are steps that commands name.

A name that moves within a file system takes the room of the one it had, or replaces another.
"""
_CALLS = {
    os: ("fsync", "mkdir", "rename", "replace", "link", "unlink", "remove", "rmdir", "ftruncate"),
    shutil: ("copyfile",),
    fcntl: ("flock",),
}
_PROGRAM = Path(__file__).with_name("power_stories.py")

# A server that has everything imported and forks: a fresh interpreter per kill takes far longer.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["support.power_stories", "support.account_child"])


def nothing(_home: Path) -> None:
    """Nothing more has to be there."""


@dataclass(kw_only=True)
class Story:
    """One command. ``says``: the words after which what it does must last.

    ``command`` is the real one, if it can be run without a terminal, a keychain or the price of a passphrase.
    ``lead`` makes what has to be there besides the notes; where it changes them it gives the content to
    expect. ``judged`` looks at what is left, and then does the command again. ``unflushed``: which rule breaks on a
    disk that takes no notice of the flushes of files, and which on one that takes none of those of
    folders (None: neither); a verdict is that of a cache that should open and is refused. ``alike``:
    the story that takes the same steps, so that the short form of a test need not tell both.
    """

    name: str
    act: Act
    judged: Callable[[Found], None]
    command: tuple[str, ...] = ()
    says: str = "done"
    lead: Callable[[Path], str | None] = nothing
    environment: dict[str, str] = field(default_factory=dict)
    alike: str = ""
    unflushed: tuple[Broken | Verdict | None, Broken | Verdict | None] = (
        Verdict.KEY_FILE_DAMAGED,
        Verdict.ROLLBACK_SEEN,  # the database knows of the new key file, and finds the old one
    )
    content: str = ""

    def prepare(self, home: Path) -> None:
        """Make what was there before; ``home`` is an empty folder."""
        for name, key in (("new-key", NEW), ("other-key", THIRD)):
            (home / name).touch(mode=0o600)
            (home / name).write_text(key.reveal_text())
        made = lived_in(home, encrypted="off" not in self.environment.values())
        self.content = self.lead(home) or made

    @property
    def program(self) -> list[str]:
        """What is run, in the home."""
        if self.command:
            return [sys.executable, "-m", "mcp_notarium", *self.command]
        return [sys.executable, str(_PROGRAM), self.name]

    def variables(self, home: Path) -> dict[str, str]:
        """The environment of the real command."""
        return {
            "HOME": str(home),
            "NOTARIUM_DATA_DIR": str(home / "notarium"),
            "SIMPLENOTE_USERNAME": USERNAME,
            "DB_ENCRYPTION_KEY": KEY.reveal_text(),
            "NOTARIUM_KEYCHAIN": "off",
            "PYTHONDONTWRITEBYTECODE": "1",
        } | self.environment

    def check(self, home: Path, *, done: bool, dice: random.Random) -> None:
        """Raises ``Violation`` unless it is what may be left, and the command can be done again."""
        self.judged(Found(home, self.content, done, dice))


def lived_in(home: Path, *, encrypted: bool = True, notes: int = NOTES) -> str:
    """A cache with notes and gaps, as a server that was killed has left it; gives its content."""
    made, there = _lived_in(encrypted, notes)
    shutil.copytree(made.name, account(home).data_dir)
    return there


@functools.cache
def _lived_in(
    encrypted: bool,
    notes: int,
) -> tuple[tempfile.TemporaryDirectory[str], str]:
    made = tempfile.TemporaryDirectory()
    with tempfile.TemporaryDirectory() as elsewhere:
        config = account(Path(elsewhere).resolve(), db_key=KEY, db_encryption=encrypted)
        with closing(opener.open_cache(config)) as opened:
            store(Cache(opened.database), corpus.revisions(notes), cursor="12")
            gone = opened.database.rows("SELECT id FROM notes WHERE pk IN (3, 7)")
            store(Cache(opened.database), [Tombstone(note_id) for (note_id,) in gone])
            # Nobody has moved the log into the database.
            shutil.copytree(config.data_dir, made.name, dirs_exist_ok=True)
            return made, table_copy.content_digest(opened.database, without=generation.BINDING_KEYS)


def given_key(home: Path, **changes):
    """Settings with the key that opens it at first."""
    return replace(account(home, db_key=KEY), **changes)


def change_options(at: StepHook = ignore_step) -> ChangeOptions:
    """The options of a change of keys that tells its steps."""
    return ChangeOptions(at=at)


def run_killed(
    act: Act, home: Path, at: int | str = "", *, seconds: float | None = None
) -> int | None:
    """Do it in a process of its own; return its exit code: ``KILLED``, or 0 if it came to its end before.

    ``at``: the number of the stop (from 1) or the name of the step to die at. ``seconds``: kill it when so
    much time has passed.
    """
    process = forked(_act, act, home, at)
    process.join(60 if seconds is None else seconds)
    if seconds is not None:
        process.kill()
        process.join(60)
    return process.exitcode


def _act(act: Act, home: Path, at: int | str) -> None:
    if isinstance(at, int):
        with killing(at) as stop:
            act(home, stop)
    else:
        act(home, lambda step: die() if step == at else None)


def count_stops(act: Act, home: Path) -> int:
    """Do it here to its end; return how many stops it has."""
    seen: list[str] = []
    with stopping(seen.append):
        act(home, seen.append)
    return len(seen)


def forked(target: Callable[..., object], *given: object) -> BaseProcess:
    """A process that does ``target``, started."""
    # The server finds what it is to import only so, and goes on without it, silently.
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):
        forkserver.ensure_running()
    process = _processes.Process(target=target, args=given)
    process.start()
    return process


def die() -> None:
    """End this process by SIGKILL: no handler, no clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def killing(number: int) -> Iterator[Stop]:
    """Die at stop ``number`` (from 1) within; gives what the steps are told to."""
    numbers = count(1)

    def stop(_name: str) -> None:
        if next(numbers) == number:
            die()

    with stopping(stop):
        yield stop


@contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Call ``stop`` with the name of every place within."""
    with ExitStack() as stack:
        for module, names in _CALLS.items():
            for name in names:
                stack.enter_context(
                    patch.object(module, name, _stopping(getattr(module, name), stop))
                )
        stack.enter_context(patch.object(os, "open", _creating(os.open, stop)))
        transaction = _transaction(database.Database.transaction, stop)
        stack.enter_context(patch.object(database.Database, "transaction", transaction))
        yield


def _stopping(call: Callable[..., object], stop: Stop) -> Callable[..., object]:
    def stopping(*given, **options):
        stop(call.__name__)
        return call(*given, **options)

    return stopping


def _creating(call: Callable[..., int], stop: Stop) -> Callable[..., int]:
    def creating(path, flags, *given, **options):
        if flags & os.O_EXCL:
            stop("open")
        return call(path, flags, *given, **options)

    return creating


def _transaction(transaction, stop: Stop):
    @contextmanager
    def stopping(self, **options):
        stop("begin")
        with transaction(self, **options):
            yield
            stop("commit")
        stop("committed")

    return stopping
