"""Describe the commands that change slots or the key file and leave the database alone."""

from __future__ import annotations

import shutil
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mcp_notarium.account import backup, key_changes, key_rotation, opener
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.key_file_codec import Slot, SlotType
from mcp_notarium.errors import Verdict
from mcp_notarium.files.private_files import StepHook
from mcp_notarium.secret import Secret
from support import keychains
from support.account import BOUNDS, PASSPHRASE, folder_of
from support.found import KEY, KEYCHAIN, NEW, THIRD, Broken, Found, Violation, demand
from support.stories import Story, given_key

WORDS = Secret(PASSPHRASE)
PAPER = user_key.write_recovery_key(bytes(range(20)))
DEARER = kdf.Argon2id(memory_kib=16, time_cost=2, lanes=1)
_GARBAGE = (b"damaged " * 80, b"and so is the copy " * 30)


def _given(at: StepHook, **changes) -> ChangeOptions:
    return replace(ChangeOptions(bounds=BOUNDS, at=at), **changes)


def _add(home: Path) -> None:
    key_changes.add(given_key(home), NEW)


def _damage(home: Path) -> None:
    folder = folder_of(given_key(home))
    shutil.copy(folder.key_file, home / "copy.json")
    for path, garbage in zip((folder.key_file, folder.key_copy), _GARBAGE, strict=True):
        path.write_bytes(garbage)


def _rotated(found: Found) -> None:
    opener = NEW if found.is_after([KEY], [NEW]) else KEY
    with found.again():
        done = key_rotation.rotate_passphrase(found.config(opener), new=THIRD)
    demand(Broken.STUCK, done.proven, "the database could not be opened as a proof")
    found.require_openers([THIRD], KEY, NEW, THIRD)
    found.require_tidy(slots=1)


def _added(found: Found) -> None:
    there = found.is_after([KEY], [KEY, NEW])
    with found.again():
        key_changes.add(found.config(), THIRD if there else NEW)
    found.require_openers([KEY, NEW], KEY, NEW)
    found.require_tidy(slots=2 + there)


def _on_paper(found: Found) -> None:
    there = found.is_after([KEY], [KEY, PAPER])
    with found.again():
        key_changes.add(found.config(), NEW if there else PAPER)
        slot = key_changes.recovery_slot(found.config(), PAPER.reveal_text())
    demand(Broken.MIXED, slot.type is SlotType.RECOVERY, slot.type)
    found.require_openers([KEY, PAPER], KEY, PAPER)
    found.require_tidy(slots=2 + there)


def _removed(found: Found) -> None:
    gone = found.is_after([KEY, NEW], [KEY])
    with found.again():
        if gone:
            key_changes.add(found.config(), NEW)
        key_changes.remove(found.config(), found.keyfile.slots[-1].id)
    found.require_openers([KEY], KEY, NEW)
    found.require_tidy(slots=1)


def _restored(found: Found) -> None:
    if not found.opens_or(Verdict.KEY_FILE_DAMAGED):
        found.require_not_told("the key file is still damaged")
    with found.again():
        backup.restore_key_file(found.config(), found.home / "copy.json", KEY)
    found.require_openers([KEY], KEY)
    kept = {path.read_bytes() for path in found.home.rglob("*.json*") if path.is_file()}
    demand(Broken.LOST, set(_GARBAGE) <= kept, "what was replaced is not kept")
    found.require_tidy(slots=1)


def _back_up(home: Path) -> None:
    with closing(opener.open_cache(given_key(home), bounds=BOUNDS, read_only=True)) as opened:
        backup.back_up(opened, None, home / "copy.zip", now=1_763_683_200.0, bounds=BOUNDS)


def _backed_up(found: Found) -> None:
    copy = found.home / "copy.zip"
    whole = found.folder.key_file.read_bytes()
    if not copy.exists():
        found.require_not_told("there is no backup")
        with found.again():
            _back_up(found.home)
    try:
        with zipfile.ZipFile(copy) as archive:
            demand(Broken.UNTRUE, archive.testzip() is None, "the backup is not whole")
            kept = archive.read(found.folder.key_file.name)
    except zipfile.BadZipFile as error:
        raise Violation(Broken.UNTRUE, "the backup is not whole") from error
    demand(Broken.UNTRUE, kept == whole, "the key file in it is not whole")
    left = [path.name for path in found.home.glob(".copy.zip*")]
    demand(Broken.STRAY, not left, f"left over: {left}")
    found.require_openers([KEY], KEY)
    found.require_tidy(slots=1)


def _add_words(home: Path) -> None:
    key_changes.add(
        given_key(home), WORDS, parameters=kdf.CHEAPEST, options=ChangeOptions(bounds=BOUNDS)
    )


def _make_dearer(home: Path, at: StepHook) -> None:
    key_rotation.rotate_passphrase(
        given_key(home, db_key=WORDS),
        new=WORDS,
        parameters=DEARER,
        allow_weak=True,
        options=_given(at),
    )


def _dearer(found: Found) -> None:
    found.require_openers([KEY, WORDS], KEY, WORDS)
    if _of_words(found).kdf != DEARER:
        found.require_not_told("the cost is the old one")
    with found.again():
        _make_dearer(found.home, lambda _step: None)
    demand(Broken.UNTRUE, _of_words(found).kdf == DEARER, "the cost is the old one")
    found.require_openers([KEY, WORDS], KEY, WORDS)
    found.require_tidy(slots=2)


def _of_words(found: Found) -> Slot:
    (slot,) = (one for one in found.keyfile.slots if one.type is SlotType.PASSPHRASE)
    return slot


def _enable_keychain(home: Path, at: StepHook) -> None:
    system = keychains.stored_keychain(home / KEYCHAIN)
    key_rotation.enable_keychain(given_key(home), system, options=_given(at))


def _disable_keychain(home: Path, at: StepHook) -> None:
    system = keychains.stored_keychain(home / KEYCHAIN)
    key_rotation.disable_keychain(given_key(home), system, options=_given(at))


def _keychain_enabled(found: Found) -> None:
    found.require_openers([KEY], KEY)
    if not found.by_keychain():
        found.require_not_told("the keychain does not open it")
        with found.again():
            _enable_keychain(found.home, lambda _step: None)
    demand(Broken.MIXED, found.by_keychain(), "the keychain does not open it")
    found.require_tidy(slots=2)
    _keychain_disabled(replace(found, done=False))


def _keychain_disabled(found: Found) -> None:
    found.require_openers([KEY], KEY)
    if found.entry is not None:
        found.require_not_told("the keychain still has a key")
        with found.again():
            _disable_keychain(found.home, lambda _step: None)
    demand(Broken.MIXED, not found.by_keychain(), "the keychain still opens it")
    demand(Broken.STRAY, found.entry is None, "the keychain's entry")
    found.require_tidy(slots=1)


def _with_paper(home: Path) -> None:
    key_changes.add(given_key(home), PAPER, label="on paper")


def _move_into_keychain(home: Path, at: StepHook) -> None:
    system = keychains.stored_keychain(home / KEYCHAIN)
    key_rotation.rotate_into_keychain(
        given_key(home), system, from_keychain=False, options=_given(at)
    )


def _with_keychain(home: Path) -> None:
    _enable_keychain(home, lambda _step: None)


def _exchange(home: Path, at: StepHook) -> None:
    system = keychains.stored_keychain(home / KEYCHAIN)
    config = given_key(home, db_key=None, keychain=True)
    key_rotation.rotate_into_keychain(config, system, from_keychain=True, options=_given(at))


def _moved_into_keychain(found: Found) -> None:
    found.require_openers([PAPER], PAPER)
    before, after = found.opens(KEY), found.by_keychain()
    demand(Broken.MIXED, before != after, "not exactly one of the old key and the keychain")
    if before:
        found.require_not_told("the old key opens it")
        with found.again():
            _move_into_keychain(found.home, lambda _step: None)
    demand(Broken.MIXED, found.by_keychain(), "the keychain does not open it")
    found.require_openers([PAPER], KEY, PAPER)
    found.require_tidy(slots=2)


def _exchanged(found: Found) -> None:
    found.require_openers([KEY], KEY)
    demand(Broken.MIXED, found.by_keychain(), "the keychain does not open it")
    if (found.home / "before").read_text() == found.entry.reveal_text():
        found.require_not_told("the keychain's key is the old one")
    with found.again():
        _exchange(found.home, lambda _step: None)
    demand(Broken.MIXED, found.by_keychain(), "the keychain does not open it")
    found.require_openers([KEY], KEY)
    found.require_tidy(slots=2)


def _note_entry(home: Path) -> None:
    _with_keychain(home)
    entry = Found(home, "", done=False, dice=None).entry
    (home / "before").write_text(entry.reveal_text())


SLOT_STORIES = (
    Story(
        name="rotate-key",
        act=lambda home, at: key_rotation.rotate_passphrase(
            given_key(home), new=NEW, options=_given(at)
        ),
        command=("rotate-key", "--new-key-file", "new-key"),
        says="The key of this cache is changed",
        judged=_rotated,
    ),
    Story(
        name="keys add",
        act=lambda home, at: key_changes.add(given_key(home), NEW, options=_given(at)),
        command=("keys", "add", "--new-key-file", "new-key"),
        says="its key opens the cache from now on",
        judged=_added,
    ),
    Story(
        name="keys remove",
        act=lambda home, at: key_changes.remove(given_key(home), 2, options=_given(at)),
        command=("keys", "remove", "2"),
        says="Slot 2 is removed",
        lead=_add,
        judged=_removed,
    ),
    Story(
        name="keys recovery create",
        alike="keys add",
        act=lambda home, at: key_changes.add(given_key(home), PAPER, options=_given(at)),
        judged=_on_paper,
    ),
    Story(
        name="rotate-key, dearer",
        alike="rotate-key",
        act=_make_dearer,
        lead=_add_words,
        judged=_dearer,
    ),
    Story(
        name="restore --key-file",
        act=lambda home, at: backup.restore_key_file(
            given_key(home), home / "copy.json", KEY, at=at
        ),
        command=("restore", "--key-file", "copy.json"),
        says="is active again",
        lead=_damage,
        judged=_restored,
        unflushed=(Broken.UNTRUE, Broken.UNTRUE),
    ),
    Story(
        name="backup",
        act=lambda home, _at: _back_up(home),
        command=("backup", "copy.zip"),
        says="The backup is",
        judged=_backed_up,
        unflushed=(Broken.UNTRUE, Broken.UNTRUE),
    ),
    Story(name="keychain enable", act=_enable_keychain, judged=_keychain_enabled),
    Story(
        name="keychain disable",
        alike="keychain enable",
        act=_disable_keychain,
        lead=_with_keychain,
        judged=_keychain_disabled,
        unflushed=(Verdict.KEY_FILE_DAMAGED, Broken.UNTRUE),
    ),
    Story(
        name="rotate-key --keychain",
        alike="keychain enable",
        act=_move_into_keychain,
        lead=_with_paper,
        judged=_moved_into_keychain,
    ),
    Story(
        name="rotate-key --keychain, again",
        alike="keychain enable",
        act=_exchange,
        lead=_note_entry,
        judged=_exchanged,
    ),
)
