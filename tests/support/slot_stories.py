"""Describe the commands that change slots or the key file and leave the database alone.

Below: what each command does, what must hold of it afterwards, and the table of stories.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from mcp_notarium.account import backup, key_changes, opener, user_key_rotation
from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.key_file_codec import Slot, SlotType
from mcp_notarium.errors import Verdict
from mcp_notarium.files.private_files import StepHook, ignore_step
from mcp_notarium.keys.keychain import Keychain
from mcp_notarium.secret import Secret
from support import keychains
from support.account import PASSPHRASE, folder_of
from support.cheap_costs import CHEAPEST
from support.found import KEY, KEYCHAIN, NEW, THIRD, Broken, Found, Violation, demand
from support.stories import Act, Story, change_options, given_key

WORDS = Secret(PASSPHRASE)
PAPER = user_key.write_recovery_key(bytes(range(20)))
DEARER = kdf.Argon2id(memory_kib=16, time_cost=2, lanes=1)
_GARBAGE = (b"damaged " * 80, b"and so is the copy " * 30)


def _rotate(home: Path, at: StepHook) -> None:
    user_key_rotation.rotate_passphrase(given_key(home), new=NEW, options=change_options(at))


def _add(home: Path, at: StepHook = ignore_step) -> None:
    key_changes.add(given_key(home), NEW, options=change_options(at))


def _add_paper(home: Path, at: StepHook = ignore_step) -> None:
    key_changes.add(given_key(home), PAPER, options=change_options(at))


def _add_words(home: Path) -> None:
    options = change_options()
    key_changes.add(given_key(home), WORDS, parameters=CHEAPEST, options=options)


def _remove(home: Path, at: StepHook) -> None:
    key_changes.remove(given_key(home), 2, options=change_options(at))


def _make_dearer(home: Path, at: StepHook) -> None:
    user_key_rotation.rotate_passphrase(
        given_key(home, db_key=WORDS),
        new=WORDS,
        parameters=DEARER,
        allow_weak=True,
        options=change_options(at),
    )


def _damage(home: Path) -> None:
    folder = folder_of(given_key(home))
    shutil.copy(folder.key_file, home / "copy.json")
    for path, garbage in zip((folder.key_file, folder.key_copy), _GARBAGE, strict=True):
        path.write_bytes(garbage)


def _restore(home: Path, at: StepHook) -> None:
    backup.restore_key_file(given_key(home), home / "copy.json", KEY, at=at)


def _back_up(home: Path, _at: StepHook) -> None:
    with closing(opener.open_cache(given_key(home), read_only=True)) as opened:
        backup.back_up(opened, None, home / "copy.zip", now=1_763_683_200.0)


def _keychain(home: Path) -> Keychain:
    return keychains.stored_keychain(home / KEYCHAIN)


def _enable(home: Path, at: StepHook = ignore_step) -> None:
    user_key_rotation.enable_keychain(given_key(home), _keychain(home), options=change_options(at))


def _disable(home: Path, at: StepHook) -> None:
    user_key_rotation.disable_keychain(given_key(home), _keychain(home), options=change_options(at))


def _move_into_keychain(home: Path, at: StepHook) -> None:
    user_key_rotation.rotate_into_keychain(
        given_key(home), _keychain(home), from_keychain=False, options=change_options(at)
    )


def _exchange(home: Path, at: StepHook) -> None:
    config = given_key(home, db_key=None, keychain=True)
    user_key_rotation.rotate_into_keychain(
        config, _keychain(home), from_keychain=True, options=change_options(at)
    )


def _note_entry(home: Path) -> None:
    _enable(home)
    (home / "before").write_text(_entry(home))


def _entry(home: Path) -> str:
    return Found(home, "", done=False, dice=None).entry.reveal_text()


def _other_keys(
    before: Sequence[Secret],
    after: Sequence[Secret],
    again: Callable[[Found, bool], int],
    *,
    opens: Sequence[Secret] = (),
) -> Callable[[Found], None]:
    """Judge a command after which other keys open: exactly those ``before`` or ``after``.

    ``again`` does it once more, given whether it was done, and returns how many slots there are then. ``opens``
    are the keys that open it then, if not those ``after``.
    """

    def judge(found: Found) -> None:
        done = found.is_after(before, after)
        with found.again():
            slots = again(found, done)
        found.require_openers(opens or after, *before, *after, *opens)
        found.require_tidy(slots=slots)

    return judge


def _rotate_again(found: Found, done: bool) -> int:
    config = found.config(NEW if done else KEY)
    result = user_key_rotation.rotate_passphrase(config, new=THIRD)
    demand(Broken.STUCK, result.proven, "the database could not be opened as a proof")
    return 1


def _add_again(found: Found, done: bool) -> int:
    key_changes.add(found.config(), THIRD if done else NEW)
    return 2 + done


def _add_paper_again(found: Found, done: bool) -> int:
    key_changes.add(found.config(), NEW if done else PAPER)
    slot = key_changes.recovery_slot(found.config(), PAPER.reveal_text())
    demand(Broken.MIXED, slot.type is SlotType.RECOVERY, slot.type)
    return 2 + done


def _remove_again(found: Found, done: bool) -> int:
    if done:
        key_changes.add(found.config(), NEW)
    key_changes.remove(found.config(), found.keyfile.slots[-1].id)
    return 1


def _same_keys(
    holds: Callable[[Found], bool],
    again: Act,
    *,
    slots: int,
    opens: Sequence[Secret] = (KEY,),
    shut: Sequence[Secret] = (),
    repeat: bool = False,
) -> Callable[[Found], None]:
    """Judge a command that leaves the keys ``opens`` alone and reaches that something ``holds``.

    ``again`` does it once more, if it was not done or may be repeated. Then the keys ``shut`` open nothing.
    """

    def judge(found: Found) -> None:
        found.require_openers(opens, *opens)
        done = holds(found)
        if not done:
            found.require_not_told("it is as it was before")
        if repeat or not done:
            with found.again():
                again(found.home, ignore_step)
        demand(Broken.UNTRUE, holds(found), "it is as it was before, after it was done again")
        found.require_openers(opens, *opens, *shut)
        found.require_tidy(slots=slots)

    return judge


def _is_dearer(found: Found) -> bool:
    return _of_words(found).kdf == DEARER


def _of_words(found: Found) -> Slot:
    (slot,) = (one for one in found.keyfile.slots if one.type is SlotType.PASSPHRASE)
    return slot


def _is_out_of_keychain(found: Found) -> bool:
    gone = found.entry is None
    demand(Broken.MIXED, not (gone and found.by_keychain()), "the keychain still opens it")
    return gone


def _is_moved(found: Found) -> bool:
    before, after = found.opens(KEY), found.by_keychain()
    demand(Broken.MIXED, before != after, "not exactly one of the old key and the keychain")
    return after


def _is_exchanged(found: Found) -> bool:
    demand(Broken.MIXED, found.by_keychain(), "the keychain does not open it")
    return (found.home / "before").read_text() != _entry(found.home)


_disabled = _same_keys(_is_out_of_keychain, _disable, slots=1)


def _enabled(found: Found) -> None:
    _same_keys(Found.by_keychain, _enable, slots=2)(found)
    _disabled(replace(found, done=False))


def _restored(found: Found) -> None:
    if not found.opens_or(Verdict.KEY_FILE_DAMAGED):
        found.require_not_told("the key file is still damaged")
    with found.again():
        _restore(found.home, ignore_step)
    found.require_openers([KEY], KEY)
    kept = {path.read_bytes() for path in found.home.rglob("*.json*") if path.is_file()}
    demand(Broken.LOST, set(_GARBAGE) <= kept, "what was replaced is not kept")
    found.require_tidy(slots=1)


def _backed_up(found: Found) -> None:
    copy = found.home / "copy.zip"
    whole = found.folder.key_file.read_bytes()
    if not copy.exists():
        found.require_not_told("there is no backup")
        with found.again():
            _back_up(found.home, ignore_step)
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


_PUT_IN_PLACE = (Broken.UNTRUE, Broken.UNTRUE)
"""What breaks without the flushes of a command that only puts a file in its place."""

SLOT_STORIES = (
    Story(
        name="rotate-key",
        act=_rotate,
        command=("rotate-key", "--new-key-file", "new-key"),
        says="The key of this cache is changed",
        judged=_other_keys([KEY], [NEW], _rotate_again, opens=[THIRD]),
    ),
    Story(
        name="keys add",
        act=_add,
        command=("keys", "add", "--new-key-file", "new-key"),
        says="its key opens the cache from now on",
        judged=_other_keys([KEY], [KEY, NEW], _add_again),
    ),
    Story(
        name="keys remove",
        act=_remove,
        command=("keys", "remove", "2"),
        says="Slot 2 is removed",
        lead=_add,
        judged=_other_keys([KEY, NEW], [KEY], _remove_again),
    ),
    Story(
        name="keys recovery create",
        alike="keys add",
        act=_add_paper,
        judged=_other_keys([KEY], [KEY, PAPER], _add_paper_again),
    ),
    Story(
        name="rotate-key, dearer",
        alike="rotate-key",
        act=_make_dearer,
        lead=_add_words,
        judged=_same_keys(_is_dearer, _make_dearer, opens=[KEY, WORDS], repeat=True, slots=2),
    ),
    Story(
        name="restore --key-file",
        act=_restore,
        command=("restore", "--key-file", "copy.json"),
        says="is active again",
        lead=_damage,
        judged=_restored,
        unflushed=_PUT_IN_PLACE,
    ),
    Story(
        name="backup",
        act=_back_up,
        command=("backup", "copy.zip"),
        says="The backup is",
        judged=_backed_up,
        unflushed=_PUT_IN_PLACE,
    ),
    Story(name="keychain enable", act=_enable, judged=_enabled),
    Story(
        name="keychain disable",
        alike="keychain enable",
        act=_disable,
        lead=_enable,
        judged=_disabled,
        unflushed=(Verdict.KEY_FILE_DAMAGED, Broken.UNTRUE),
    ),
    Story(
        name="rotate-key --keychain",
        alike="keychain enable",
        act=_move_into_keychain,
        lead=_add_paper,
        judged=_same_keys(_is_moved, _move_into_keychain, opens=[PAPER], shut=[KEY], slots=2),
    ),
    Story(
        name="rotate-key --keychain, again",
        alike="keychain enable",
        act=_exchange,
        lead=_note_entry,
        judged=_same_keys(_is_exchanged, _exchange, repeat=True, slots=2),
    ),
)
