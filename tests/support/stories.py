"""A command that changes keys, with what was there before and what must hold afterwards.

A story is told in several ways: by the real command, which is recorded; by :attr:`Story.act`, which
is the same within a process that can be killed or refused disk space; and by :meth:`Story.judge`,
which looks at what is left and then does the command again.
"""

from __future__ import annotations

import functools
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcp_notarium.account import generation, opener
from mcp_notarium.domain.note import Tombstone
from mcp_notarium.errors import Verdict
from mcp_notarium.files.private_files import StepHook
from mcp_notarium.storage import table_copy
from mcp_notarium.storage.cache import Cache
from support import corpus
from support.account import USERNAME, account
from support.cache_room import store
from support.found import KEY, NEW, THIRD, Broken, Found

NOTES = 12
_CHILD = Path(__file__).with_name("story_child.py")


def nothing(_home: Path) -> None:
    """Nothing more has to be there."""


@dataclass(kw_only=True)
class Story:
    """One command. ``says``: the words after which what it does must last.

    ``act`` does it in a home, telling its steps; ``command`` is the real one, if it can be run without
    a terminal, a keychain or the price of a passphrase. ``lead`` makes what has to be there besides the
    notes; where it changes them it gives the content to expect. ``unflushed``: which rule breaks on a
    disk that takes no notice of the flushes of files, and which on one that takes none of those of
    folders (None: neither); a verdict is that of a cache that should open and is refused. ``alike``:
    the story that takes the same steps, so that the short form of a test need not tell both.
    """

    name: str
    act: Callable[[Path, StepHook], object]
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
        return [sys.executable, str(_CHILD), self.name]

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
