"""``mcp-notarium rotate-key``: a new passphrase (or KDF, or cost) for the cache.

Rewrites the key file only: running servers go on. With ``--reencrypt`` the whole cache is written
anew, while nobody else has it open. The old key comes from where it lives now, and is tried before
anybody is asked for a new one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from mcp_notarium.account import key_rotation, keychain_slot, reencryption
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.account.key_rotation import ProvenKey
from mcp_notarium.cli import command_setup, keys, new_key
from mcp_notarium.cli.new_key import NewKey
from mcp_notarium.cli.terminal import (
    Progress,
    ask_line,
    ask_secret,
    ask_yes,
    can_ask,
    say_unless_copied,
    talk,
)
from mcp_notarium.config import Config
from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.errors import SlotsRefused
from mcp_notarium.crypto.key_slots import Slot, SlotType
from mcp_notarium.crypto.rotation_steps import SlotUnclear
from mcp_notarium.crypto.slot_changes import described
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys import client_configs, keychain
from mcp_notarium.secret import Secret

_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the old and the new key come from."""
    new_key.add_arguments(parser, rotating=True)
    parser.add_argument(
        "--ask-old",
        action="store_true",
        help="ask for the old key instead of the configured one; a recovery key is one, too",
    )
    parser.add_argument(
        "--slot",
        type=int,
        action="append",
        metavar="N",
        help="the slot whose key gives way, if it is not the one of the old key (repeatable)",
    )
    parser.add_argument(
        "--kdf",
        choices=("argon2id", "pbkdf2-sha512"),
        help="how a new passphrase is stretched (default: as DB_ENCRYPTION_KDF says if it is set, "
        "else as the old one; never at less cost with the same algorithm)",
    )
    parser.add_argument(
        "--reencrypt",
        action="store_true",
        help="write the whole cache anew under a new data key, so that old copies of the key file "
        "open nothing; the key stays the same unless a new one is given",
    )
    parser.add_argument(
        "--drop-other-keys",
        action="store_true",
        help="with --reencrypt: let go, unasked, the slots whose keys are not at hand",
    )


def run(args: argparse.Namespace) -> int:
    """Rotate; exit code 0 when the new key is in place and the old one opens nothing here."""
    config = command_setup.prepare(args)
    _demand_sense(config, args)
    options = ChangeOptions(
        old=ask_secret("Old key: ") if args.ask_old else None,
        system=keychain.system_keychain() if config.keychain else None,
    )
    if args.reencrypt:
        return _reencrypt(config, options, args)
    current = key_rotation.prove_key(config, options=options)
    if args.keychain:
        return _into_keychain(config, current, options, args)
    return _rewrap(config, current, options, args)


def _demand_sense(config: Config, args: argparse.Namespace) -> None:
    if args.keychain and (args.reencrypt or not config.keychain):
        raise InvalidRequest(
            "--keychain goes without --reencrypt, and needs NOTARIUM_KEYCHAIN not to be off",
            resolution_hint="Run `rotate-key --keychain` first, then `rotate-key --reencrypt`.",
        )
    if args.keep_key and (args.kdf is None or args.reencrypt or args.slot):
        raise InvalidRequest(
            "--keep-key goes with --kdf, and without --reencrypt and --slot",
            resolution_hint="`mcp-notarium keys calibrate` makes guessing the same passphrase dearer.",
        )
    if args.kdf and (args.generate or args.keychain):
        raise InvalidRequest(
            "a random key is not stretched, so --kdf says nothing about it",
            resolution_hint="Leave it out, or give a passphrase.",
        )
    if args.slot and args.reencrypt:
        raise InvalidRequest(
            "--slot goes without --reencrypt, which leaves every slot behind whose key is not at "
            "hand",
            resolution_hint="Leave it out.",
        )


def _rewrap(
    config: Config, current: ProvenKey, options: ChangeOptions, args: argparse.Namespace
) -> int:
    gone = [current.slot] if args.keep_key else _giving_way(current, args)
    if current.slot not in gone:
        _say_what_will_be(current, gone)
    new = _new_passphrase(current, args)
    with new.in_change():
        done = key_rotation.rotate_passphrase(
            config,
            new=new.secret,
            parameters=key_rotation.stretching(config, args.kdf),
            allow_weak=args.allow_weak or args.keep_key,
            wanted=None if args.keep_key else [slot.id for slot in gone],
            current=current,
            options=ChangeOptions(old=options.old, system=options.system, at=new.at),
        )
    talk(f"The key of this cache is changed (key file number {done.sequence}).")
    if args.keep_key:
        talk("The passphrase is the same.")
    _say_stretching(config, done.gone, done.slot)
    if not done.proven:
        talk("note: another process is busy with the database; it was not opened as a proof.")
    _say_what_opens(done.others)
    for notice in done.notices:
        if not (args.keep_key and notice == key_rotation.NEEDED_BY_CLIENTS):
            talk(f"note: {notice}")
    if not args.keep_key:
        _say_where_the_old_one_is(config, current, done.gone)
    return 0


def _new_passphrase(current: ProvenKey, args: argparse.Namespace) -> NewKey:
    new = NewKey(current.key.passphrase) if args.keep_key else new_key.read(args)
    if args.kdf and user_key.read(new.secret).kind != "passphrase":
        raise InvalidRequest(
            "only a passphrase is stretched; a random key needs none",
            resolution_hint="Leave out --kdf, or give a passphrase. Nothing is changed.",
        )
    if not (args.keep_key or new.made):
        key_rotation.demand_new(new.secret, allow_weak=args.allow_weak)
        key_rotation.demand_unused(current, new.secret)
    return new


def _giving_way(current: ProvenKey, args: argparse.Namespace) -> Sequence[Slot]:
    """The slots whose keys give way; asks where that is not clear and somebody can be asked."""
    try:
        return current.slots_to_replace(args.slot)
    except SlotUnclear as unclear:
        if args.slot or not can_ask():
            raise
        candidates = unclear.candidates
    talk("Which key is the new one to take the place of?")
    for slot in candidates:
        talk(f"  {slot.id}  {slot.type.value}  {slot.label or '(no label)'}")
    answer = ask_line(f"Number of the slot, or `{_ALL}`: ")
    chosen = [slot for slot in candidates if answer in {_ALL, str(slot.id)}]
    if not chosen:
        raise InvalidRequest(
            "that is none of them; nothing is changed",
            resolution_hint="`mcp-notarium keys list` shows the slots.",
        )
    return chosen


def _say_what_will_be(current: ProvenKey, gone: Sequence[Slot]) -> None:
    """Before a new key is asked for: what happens to the others."""
    named = ", ".join(described(slot) for slot in gone)
    what = f"takes the place of {named}" if gone else "is one more, for there is none to replace"
    talk(f"You came in by {described(current.slot)}, which stays. The new key {what}.")


def _into_keychain(
    config: Config, current: ProvenKey, options: ChangeOptions, args: argparse.Namespace
) -> int:
    if args.slot and current.by_keychain:
        raise InvalidRequest(
            "the keychain's key gives way to another one of the keychain, and no other slot",
            resolution_hint="Leave out --slot.",
        )
    gone = [current.slot] if current.by_keychain else _giving_way(current, args)
    system = keychain.system_keychain()
    if not current.by_keychain:
        keychain_slot.demand_free(config, system, options=options)
    current = _with_another(config, current, gone, options)
    after = keychain_slot.rotate_into_keychain(
        config,
        system,
        from_keychain=current.by_keychain,
        wanted=None if current.by_keychain else [slot.id for slot in gone],
        options=options,
    )
    talk(f"The key of this cache is changed (key file number {after.sequence}).")
    talk(f"The new one is in {system.name} and nowhere else; leave DB_ENCRYPTION_KEY unset.")
    _say_what_opens(key_rotation.still_opening(current.keyfile, after))
    talk(f"note: {key_rotation.OLD_COPIES}")
    if not current.by_keychain:
        _say_where_the_old_one_is(config, current, gone, then="take it out there")
    for notice in keys.advice(after.slots):
        talk(f"note: {notice}")
    return 0


def _with_another(
    config: Config, current: ProvenKey, gone: Sequence[Slot], options: ChangeOptions
) -> ProvenKey:
    """The keychain must not be the only way in: offer a recovery key where somebody can write."""
    try:
        keychain_slot.demand_another(current.keyfile, without=gone)
    except SlotsRefused as refused:
        if not can_ask():
            raise
        talk(f"{refused.message[0].upper()}{refused.message[1:]}; that is not done.")
        if not ask_yes("Make a recovery key first, for your paper files?"):
            raise
        keys.make_recovery(config, options.old)
        return key_rotation.prove_key(config, options=options)
    return current


def _reencrypt(config: Config, options: ChangeOptions, args: argparse.Namespace) -> int:
    replacing = new_key.is_given(args)
    current, dropped = reencryption.find_dropped_slots(config, replacing=replacing, options=options)
    if dropped and not args.drop_other_keys:
        _demand_let_go(dropped)
    new = _new_passphrase(current, args) if replacing else None
    doing = new or NewKey(current.key.passphrase)
    with doing.in_change("the cache is written anew"):
        done = reencryption.reencrypt(
            config,
            new=new.secret if new else None,
            parameters=key_rotation.stretching(config, args.kdf),
            allow_weak=args.allow_weak,
            drop_others=True,
            told=Progress("rows written anew"),
            options=ChangeOptions(old=options.old, system=options.system, at=doing.at),
        )
    talk(f"The cache is written anew under a new data key and compared: {done.notes:,} notes.")
    if not done.state.left:
        _say_what_old_copies_open(done.set_aside)
    say_unless_copied(done.state.copied)
    _say_what_opens(done.carried)
    for slot in done.dropped:
        talk(f"note: {described(slot)} is gone; its key opens nothing any more.")
    if any(slot.type is SlotType.RECOVERY for slot in done.dropped):
        talk("note: `mcp-notarium keys recovery create` makes a new recovery key.")
    talk("note: backups of the old database still open with old copies of the key file.")
    if done.slot is not None:
        _say_stretching(config, (*done.gone, *done.dropped), done.slot)
        talk(f"note: {key_rotation.NEEDED_BY_CLIENTS}")
        _say_where_the_old_one_is(config, current, done.gone)
    done.state.demand_finished(
        "the new cache is in force, but the old database could not be removed",
        hint="Nothing is lost, and servers can be started. Old copies of the key file open the old "
        f"database until it is gone: delete {done.old}, or run `mcp-notarium rotate-key "
        "--reencrypt` again, which removes it first.",
    )
    return 0


def _say_what_old_copies_open(set_aside: Sequence[Path]) -> None:
    """Old copies of the key file, with their old keys."""
    if not set_aside:
        talk("Old copies of the key file open nothing any more that lies here.")
        return
    talk("Old copies of the key file open nothing any more that is in use here.")
    talk(
        "note: they may still open what was set aside earlier. Delete it when nothing in it is needed:"
    )
    for place in set_aside:
        talk(f"  {place}")


def _demand_let_go(dropped: tuple[Slot, ...]) -> None:
    """Name what does not follow, and let nobody lose it who has not said so."""
    if not can_ask():
        raise reencryption.dropped_slots_error(dropped)
    talk("With a new data key these open nothing any more, for their keys are not at hand:")
    for slot in dropped:
        talk(f"  {described(slot)}")
    if not ask_yes("Let them go?"):
        raise InvalidRequest(
            "nothing is changed",
            resolution_hint="Come in by one of them (--ask-old), and it follows.",
        )


def _say_stretching(config: Config, gone: Sequence[Slot], made: Slot) -> None:
    """What the new passphrase costs, where that is not what the old one did."""
    if isinstance(made.kdf, kdf.HkdfSha256):
        return
    before = [slot.kdf for slot in gone if not isinstance(slot.kdf, kdf.HkdfSha256)]
    if before and made.kdf not in before:
        was = " and ".join(keys.cost(one) for one in before)
        talk(f"It is stretched by {keys.cost(made.kdf)} from now on; so far: {was}.")
    elif isinstance(made.kdf, kdf.Pbkdf2Sha512) and config.kdf == "argon2id":
        talk("note: it is stretched by PBKDF2-SHA512 as before; `--kdf argon2id` changes that.")


def _say_what_opens(others: Sequence[Slot]) -> None:
    for slot in others:
        talk(f"note: {described(slot)} still opens the cache, as before.")


def _say_where_the_old_one_is(
    config: Config, current: ProvenKey, gone: Sequence[Slot], *, then: str = "put the new one there"
) -> None:
    """Where a key that has given way still lies about, and what to do with the one that stayed."""
    old: Secret | None = current.key.passphrase if current.slot in gone else None
    if old is not None:
        origin = config.db_key_origin if old == config.db_key else ""
        if origin:
            talk(f"note: the old key came from {origin}; {then}.")
        for place in client_configs.find_configs_with_key(old):
            talk(f"note: the old key still stands in {place.path} ({place.program}).")
    elif gone:
        talk("note: the key that gave way was not typed, so nobody could look where it stands.")
    if current.slot.type is SlotType.RECOVERY:
        talk(
            "note: your recovery key has been typed on a machine now. Make another one "
            "(`mcp-notarium keys recovery create`), then take this one away "
            f"(`mcp-notarium keys remove {current.slot.id}`)."
        )
