"""The commands that change keys, each with what was there before and what must hold afterwards.

A story is told twice: by the real command, which is recorded, and by :meth:`Story.judge`, which
looks at what a power cut has left of it and then does the command again.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from mcp_notarium.cache import copying
from mcp_notarium.cache.store import Cache
from mcp_notarium.config import Config
from mcp_notarium.crypto import keyslots
from mcp_notarium.errors import InvalidRequest, LockedError, Verdict
from mcp_notarium.keys import anew, backup, encrypting, opening, reencrypt, rotate, slots
from mcp_notarium.secret import Secret
from support import corpus
from support.account import USERNAME, account, folder_of
from support.cache_room import store

KEY, NEW, THIRD = (Secret("raw:" + pair * 32) for pair in ("5a", "6b", "7c"))
"""Raw keys: they open in no time, and the real commands take them like any other."""
NOTES = 12
_LASTING = {"keys.lock", "server.lock", "nothing_pending.json", "quarantine"}
_GARBAGE = (b"damaged " * 80, b"and so is the copy " * 30)


@dataclass(kw_only=True)
class Story:
    """One command. ``says``: the words after which what it does must last."""

    name: str
    command: tuple[str, ...]
    says: str
    lead: Callable[[Path], None]
    judged: Callable[[Found], None]
    environment: dict[str, str] = field(default_factory=dict)
    content: str = ""

    def prepare(self, home: Path) -> None:
        """Make what was there before; ``home`` is an empty folder."""
        for name, key in (("new-key", NEW), ("other-key", THIRD)):
            (home / name).touch(mode=0o600)
            (home / name).write_text(key.reveal_text())
        self.content = lived_in(home, encrypted="off" not in self.environment.values())
        self.lead(home)

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

    def judge(self, home: Path, *, done: bool, dice: random.Random) -> None:
        """Raises if a folder is not what may be left, or the command cannot be done again."""
        self.judged(Found(home, self.content, done, dice))


@dataclass(frozen=True)
class Found:
    """What a power cut has left. ``done``: the person had been told that it was done."""

    home: Path
    content: str
    done: bool
    dice: random.Random

    def config(self, key: Secret = KEY, **changes) -> Config:
        """Settings with this key."""
        return account(self.home, **{"db_key": key} | changes)

    def opens(self, key: Secret) -> bool:
        """Whether a key opens it; if so, everything is there. False: it is the wrong key."""
        return self.opens_or(Verdict.WRONG_KEY, db_key=key)

    def opens_or(self, verdict: Verdict, **changes) -> bool:
        """Whether the cache opens; if so, everything is there. False: it is refused for this reason."""
        try:
            there = content(self.config(**changes))
        except LockedError as error:
            if error.verdict is not verdict:
                raise
            return False
        assert there == self.content, "something is missing"
        return True

    def openers(self, *keys: Secret) -> list[Secret]:
        """Those that open it, tried in any order."""
        tried = self.dice.sample(keys, len(keys))
        return sorted(filter(self.opens, tried), key=keys.index)

    def demand_tidy(self) -> None:
        """Nothing is left over: the key file, the same as its copy, and the one cache it names."""
        folder = folder_of(self.config())
        assert folder.key_file.read_bytes() == folder.key_copy.read_bytes()
        generation = keyslots.parse(folder.key_file.read_bytes()).generation
        ours = {folder.key_file.name, folder.key_copy.name, folder.database(generation).name}
        assert {path.name for path in folder.path.iterdir()} - _LASTING == ours


def lived_in(home: Path, *, encrypted: bool = True, notes: int = NOTES) -> str:
    """A cache with notes and gaps, as a server that was killed has left it; gives its content."""
    config = account(home, db_key=KEY, db_encryption=encrypted)
    with tempfile.TemporaryDirectory() as elsewhere:
        other = replace(config, data_dir=Path(elsewhere).resolve() / "notarium")
        with closing(opening.open_cache(other)) as opened:
            store(Cache(opened.database), corpus.revisions(notes), cursor="12")
            opened.database.run("DELETE FROM notes WHERE pk IN (3, 7)")
            # Nobody has moved the log into the database.
            shutil.copytree(other.data_dir, config.data_dir)
            return copying.content_digest(opened.database, without=anew.TIES)


def content(config: Config) -> str:
    """A digest of everything in the cache, if it opens."""
    with closing(opening.open_cache(config)) as opened:
        assert opened.database.check(deep=True) == ()
        assert not opened.created
        return copying.content_digest(opened.database, without=anew.TIES)


def _nothing(_home: Path) -> None:
    """Nothing more has to be there."""


def _add(home: Path) -> None:
    slots.add(account(home, db_key=KEY), NEW)


def _damage(home: Path) -> None:
    config = account(home, db_key=KEY)
    backup.back_up(config, home / "copy.json")
    folder = folder_of(config)
    for path, garbage in zip((folder.key_file, folder.key_copy), _GARBAGE, strict=True):
        path.write_bytes(garbage)


def _rotated(found: Found) -> None:
    (opener,) = found.openers(KEY, NEW)
    assert opener == NEW or not found.done
    done = rotate.rotate_passphrase(found.config(opener), new=THIRD)
    assert done.proven
    assert found.openers(KEY, NEW, THIRD) == [THIRD]
    found.demand_tidy()


def _reencrypted(found: Found) -> None:
    (opener,) = found.openers(KEY, NEW)
    assert opener == NEW or not found.done
    reencrypt.reencrypt(found.config(opener), new=THIRD)
    assert found.openers(KEY, NEW, THIRD) == [THIRD]
    found.demand_tidy()


def _added(found: Found) -> None:
    openers = found.openers(KEY, NEW)
    assert openers == [KEY, NEW] or (openers == [KEY] and not found.done)
    slots.add(found.config(), THIRD if NEW in openers else NEW)
    assert found.openers(KEY, NEW) == [KEY, NEW]
    found.demand_tidy()


def _disabled(found: Found) -> None:
    openers = found.openers(KEY, NEW)
    assert openers == [KEY] or (openers == [KEY, NEW] and not found.done)
    again = slots.disable if NEW in openers else slots.enable
    again(found.config(), 2)
    assert (NEW in found.openers(KEY, NEW)) is (NEW not in openers)
    found.demand_tidy()


def _restored(found: Found) -> None:
    assert found.opens_or(Verdict.KEY_FILE_DAMAGED) or not found.done
    backup.restore(found.config(), found.home / "copy.json", KEY)
    assert found.opens(KEY)
    kept = {path.read_bytes() for path in found.home.rglob("*.json*") if path.is_file()}
    assert set(_GARBAGE) <= kept, "what was replaced is not kept"
    found.demand_tidy()


def _backed_up(found: Found) -> None:
    copy = found.home / "copy.json"
    whole = folder_of(found.config()).key_file.read_bytes()
    assert not found.done or copy.read_bytes() == whole
    backup.back_up(found.config(), found.home / "another.json")
    assert found.opens(KEY)
    found.demand_tidy()


def _encrypted(found: Found) -> None:
    assert not found.done or found.opens(KEY)
    # Where both lie there, start-up says that the command has to be run again.
    modes = [found.opens_or(Verdict.MODE_MISMATCH, db_encryption=mode) for mode in (True, False)]
    assert any(modes) or _plain_left(found)
    try:
        encrypting.encrypt_plain(found.config(), KEY)
    except InvalidRequest:
        assert found.opens(KEY), "there is nothing to be encrypted, and nothing is"
    assert found.opens(KEY)
    found.demand_tidy()


def _plain_left(found: Found) -> bool:
    folder = folder_of(found.config())
    return folder.plain_database.exists() or folder.plain_remains.exists()


STORIES = (
    Story(
        name="rotate-key",
        command=("rotate-key", "--new-key-file", "new-key"),
        says="The key of this cache is changed",
        lead=_nothing,
        judged=_rotated,
    ),
    Story(
        name="rotate-key --reencrypt",
        command=("rotate-key", "--reencrypt", "--new-key-file", "new-key"),
        says="The cache is written anew",
        lead=_nothing,
        judged=_reencrypted,
    ),
    Story(
        name="keys add",
        command=("keys", "add", "--new-key-file", "new-key"),
        says="its key opens the cache from now on",
        lead=_nothing,
        judged=_added,
    ),
    Story(
        name="keys disable",
        command=("keys", "disable", "2"),
        says="Slot 2: done",
        lead=_add,
        judged=_disabled,
    ),
    Story(
        name="keys restore",
        command=("keys", "restore", "copy.json"),
        says="is in force again",
        lead=_damage,
        judged=_restored,
    ),
    Story(
        name="keys backup",
        command=("keys", "backup", "copy.json"),
        says="is copied to",
        lead=_nothing,
        judged=_backed_up,
    ),
    Story(
        name="migrate-plaintext",
        command=("migrate-plaintext",),
        says="The cache is encrypted and compared",
        lead=_nothing,
        judged=_encrypted,
        environment={"DB_ENCRYPTION": "off"},
    ),
)
