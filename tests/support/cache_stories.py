"""Describe the commands that rewrite or destroy a cache."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from mcp_notarium.account import backup, purge, reencryption, repair
from mcp_notarium.account import opener as opening
from mcp_notarium.account.audit_anchor import AnchorUnusable, audit_keys
from mcp_notarium.account.generation import BINDING_KEYS, SwitchResult
from mcp_notarium.crypto import key_file_codec
from mcp_notarium.crypto.errors import KeyFileDamaged
from mcp_notarium.domain.note import Content
from mcp_notarium.errors import CacheError, InvalidRequest, LockedError, Verdict
from mcp_notarium.files.private_files import StepHook, ignore_step
from mcp_notarium.secret import Secret
from mcp_notarium.storage import table_copy
from mcp_notarium.storage.audit_log import AuditTable
from mcp_notarium.storage.integrity import PAGE_SIZE
from mcp_notarium.storage.journal_table import JournalTable
from support.account import folder_of
from support.found import KEY, NEW, THIRD, Broken, Found, Violation, demand
from support.journal_entries import make_unfinished
from support.stories import Story, change_options, given_key

_DAMAGED = "damaged-database"
_UNFINISHED = make_unfinished(Content("text that only this database has"), "a note of nobody")


def _reencrypted(found: Found) -> None:
    opener = NEW if found.is_after([KEY], [NEW]) else KEY
    _require_whole_chain(found, opener)
    with found.again():
        reencryption.reencrypt(found.config(opener), new=THIRD)
    _require_whole_chain(found, THIRD)
    found.require_openers([THIRD], KEY, NEW, THIRD)
    found.require_tidy(slots=1)


def _require_whole_chain(found: Found, opener: Secret) -> None:
    """No kill and no power cut looks like somebody who has cut the audit chain."""
    with closing(opening.open_cache(found.config(opener))) as opened:
        table = AuditTable(opened.database, audit_keys(opened.data_key).chain_mac)
        try:
            anchored = opened.anchor.read(opened.database)
            verified = table.verify(anchored=None if anchored is None else anchored.head)
        except AnchorUnusable as error:
            raise Violation(Broken.ACCUSED, error.message) from error
        demand(Broken.ACCUSED, verified.whole, verified.faults)


def _anchor(home: Path) -> None:
    """A chain, and the anchor of a server that stopped cleanly."""
    with closing(opening.open_cache(given_key(home))) as opened:
        table = AuditTable(opened.database, audit_keys(opened.data_key).chain_mac)
        table.begin(5.0, facts={"why": "created"})
        assert opened.anchor.write(table, opened.database)


def _reencrypt(home: Path, at: StepHook) -> None:
    done = reencryption.reencrypt(given_key(home), new=NEW, options=change_options(at))
    _require_finished(done.state)


def _require_finished(state: SwitchResult) -> None:
    """Nobody is told that it is done while something is left, as by the commands."""
    state.require_finished("it is not finished", hint="")


def _repair(home: Path, at: StepHook) -> None:
    done = repair.repair(given_key(home), options=change_options(at))
    if done is None:
        raise InvalidRequest("nothing is wrong")
    _require_finished(done.state)


def _spoil(home: Path) -> str:
    """Damage a page of the index, beside an unfinished write; gives what can be saved."""
    config = given_key(home)
    with closing(opening.open_cache(config)) as opened:
        JournalTable(opened.database).add(_UNFINISHED)
        opened.database.checkpoint()
    folder = folder_of(config)
    (generation,) = folder.generations()
    path = folder.database(generation)
    whole = path.read_bytes()
    for page in range(len(whole) // PAGE_SIZE - 1, 1, -1):
        spoilt = bytearray(whole)
        spoilt[page * PAGE_SIZE + 100] ^= 1
        path.write_bytes(spoilt)
        with tempfile.TemporaryDirectory() as elsewhere:
            trial = Path(elsewhere).resolve() / "home"
            shutil.copytree(home, trial)
            try:
                done = repair.repair(given_key(trial), options=change_options())
            except (CacheError, LockedError):
                continue
            if done is None or done.quarantine is None:
                continue
            with closing(opening.open_cache(given_key(trial))) as opened:
                if JournalTable(opened.database).all() == [_UNFINISHED]:
                    (home / _DAMAGED).write_bytes(spoilt)
                    return table_copy.content_digest(opened.database, without=BINDING_KEYS)
    raise AssertionError("no page can be spoilt so that the write is left")


def _repaired(found: Found) -> None:
    spoilt = (found.home / _DAMAGED).read_bytes()
    kept = (path.read_bytes() for path in found.folder.path.rglob("*.encrypted"))
    demand(Broken.LOST, spoilt in kept, "the damaged database")
    matches_index = found.folder.database(found.keyfile.generation)
    demand(Broken.LOST, matches_index.exists(), "the active database")
    if matches_index.read_bytes() == spoilt:
        found.require_not_told("the damaged database is active")
        with found.again():
            _repair(found.home, ignore_step)
    found.require_openers([KEY], KEY)
    with pytest.raises(InvalidRequest, match="nothing is wrong"):
        _repair(found.home, ignore_step)
    found.require_tidy(slots=1)


def _keep_old_keys(home: Path) -> None:
    """A quarantine in which a key file lies that opens the database."""
    shutil.copy(folder_of(given_key(home)).key_file, home.parent / "copy.json")
    backup.restore_key_file(given_key(home), home.parent / "copy.json", KEY)
    (home.parent / "copy.json").unlink()


def _purge(home: Path, at: StepHook) -> None:
    purge.purge_account(given_key(home), None, options=change_options(at))


def _purged(found: Found) -> None:
    """Everything is as before, or no key file is left that anybody could open it with."""
    if _ours(found):
        found.require_not_told("files are left")
    folder = found.folder
    if any(_readable(path) for path in (folder.key_file, folder.key_copy)):
        found.require_openers([KEY], KEY)
    else:
        left = [path.name for path in _ours(found) if _readable(path)]
        demand(Broken.MIXED, not left, f"{left} would open it")
    with found.again():
        _purge(found.home, ignore_step)
    demand(Broken.STRAY, not _ours(found), _ours(found))
    with found.again(), closing(opening.open_cache(found.config())) as opened:
        demand(Broken.MIXED, opened.created, "an old cache opens")


def _ours(found: Found) -> list[Path]:
    return [path for path in found.folder.path.rglob("*") if path.suffix != ".lock"]


def _readable(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        key_file_codec.parse(path.read_bytes())
    except KeyFileDamaged:
        return False
    return True


CACHE_STORIES = (
    Story(
        name="rotate-key --reencrypt",
        act=_reencrypt,
        command=("rotate-key", "--reencrypt", "--new-key-file", "new-key"),
        says="The cache was re-encrypted",
        lead=_anchor,
        judged=_reencrypted,
        unflushed=(Verdict.KEY_FILE_DAMAGED, Verdict.DATABASE_MISSING),
    ),
    Story(
        name="repair",
        act=_repair,
        command=("repair",),
        says="The cache is repaired",
        lead=_spoil,
        judged=_repaired,
        unflushed=(Verdict.KEY_FILE_DAMAGED, Broken.UNTRUE),
    ),
    Story(
        name="purge",
        act=_purge,
        command=("purge", "--yes"),
        says="removed",
        lead=_keep_old_keys,
        judged=_purged,
        unflushed=(None, Broken.UNTRUE),  # nothing is written, so only folders are flushed
    ),
)
