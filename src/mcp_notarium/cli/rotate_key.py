"""Run ``mcp-notarium rotate-key``: set a new passphrase (or KDF, or cost).

Rewrites the key file only, or with ``--reencrypt`` the whole database while nobody else has it open. The old key is
tried before anybody is asked for a new one.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mcp_notarium.account import reencryption, user_key_rotation
from mcp_notarium.account.generation import kdf_policy
from mcp_notarium.account.key_changes import ChangeOptions
from mcp_notarium.account.user_key_rotation import ProvenKey
from mcp_notarium.cli import command_context, console, keys, new_key, setup_key
from mcp_notarium.cli.new_key import NewKey
from mcp_notarium.cli.terminal import ask_secret, ask_yes, can_ask, say_unless_copied, talk
from mcp_notarium.clients import known_clients
from mcp_notarium.config import Config
from mcp_notarium.config.accounts import KEY_FILE, Account
from mcp_notarium.crypto import kdf, user_key
from mcp_notarium.crypto.key_file_codec import Slot, SlotType
from mcp_notarium.crypto.key_slots import describe_slot
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.keys import keychain
from mcp_notarium.report.words import counted
from mcp_notarium.secret import Secret
from mcp_notarium.system import SYSTEM


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the sources of the old and the new key."""
    new_key.add_arguments(parser, rotating=True)
    parser.add_argument(
        "--ask-old",
        action="store_true",
        help="ask for the old key instead of using the configured one; a recovery key works, too",
    )
    parser.add_argument(
        "--slot",
        type=int,
        action="append",
        metavar="N",
        help="the slot whose key is replaced, if it is not that of the old key (repeatable)",
    )
    parser.add_argument(
        "--kdf",
        choices=kdf.NAMES,
        help="key derivation of a new passphrase (default: DB_ENCRYPTION_KDF if it is set, else that "
        "of the old one; never at less cost with the same algorithm)",
    )
    parser.add_argument(
        "--reencrypt",
        action="store_true",
        help="re-encrypt the whole cache under a new data key, so that old copies of the key file "
        "open nothing; the key stays the same unless a new one is given",
    )
    parser.add_argument(
        "--drop-other-keys",
        action="store_true",
        help="with --reencrypt: drop the slots whose keys are not available, without asking",
    )


def run(args: argparse.Namespace) -> int:
    """Rotate the key; exit code 0 when the new key is in place and the old one opens nothing here."""
    loaded = command_context.prepare_account(args)
    code = _rotate(loaded.config, loaded.account, args)
    if loaded.account is not None:
        _tell_account(loaded.account, args)
    return code


def _rotate(config: Config, account: Account | None, args: argparse.Namespace) -> int:
    _check_options(config, args)
    options = ChangeOptions(
        old=ask_secret("Old key: ") if args.ask_old else None,
        system=keychain.system_keychain() if config.keychain else None,
    )
    if args.reencrypt:
        return _reencrypt(config, account, options, args)
    current = user_key_rotation.prove_key(config, options=options)
    if args.keychain:
        return _into_keychain(config, current, options, args)
    return _rewrap(config, account, current, options, args)


def _check_options(config: Config, args: argparse.Namespace) -> None:
    if args.keychain and (args.reencrypt or not config.keychain):
        raise InvalidRequest(
            "--keychain cannot be combined with --reencrypt or NOTARIUM_KEYCHAIN=off",
            resolution_hint="Run `rotate-key --keychain` first, then `rotate-key --reencrypt`.",
        )
    if args.keep_key and (args.kdf is None or args.reencrypt or args.slot):
        raise InvalidRequest(
            "--keep-key requires --kdf, and cannot be combined with --reencrypt or --slot",
            resolution_hint="`--kdf argon2id --keep-key` keeps the passphrase and changes its key derivation.",
        )
    if args.kdf and (args.generate or args.keychain):
        raise InvalidRequest(
            "--kdf cannot be combined with --generate or --keychain: a random key needs no slow derivation",
            resolution_hint="Leave --kdf out, or give a passphrase.",
        )
    if args.slot and args.reencrypt:
        raise InvalidRequest(
            "--slot cannot be combined with --reencrypt, which drops every slot whose key is not available",
            resolution_hint="Leave --slot out.",
        )


def _rewrap(
    config: Config,
    account: Account | None,
    current: ProvenKey,
    options: ChangeOptions,
    args: argparse.Namespace,
) -> int:
    gone = (current.slot,) if args.keep_key else current.slots_to_replace(args.slot)
    if current.slot not in gone:
        _announce_replacement(current, gone)
    new = _new_passphrase(config, current, args)
    with new.in_change():
        done = user_key_rotation.rotate_passphrase(
            config,
            new=new.secret,
            parameters=kdf_policy(config, args.kdf),
            allow_weak=args.allow_weak or args.keep_key,
            slot_ids=None if args.keep_key else [slot.id for slot in gone],
            current=current,
            options=replace(options, at=new.at),
        )
    talk(f"The key of this cache is changed (key file number {done.sequence}).")
    if args.keep_key:
        talk("The passphrase is the same.")
    _tell_cost(config, done.gone, done.slot)
    if not done.proven:
        talk("note: another process is busy with the database; it was not opened as a proof.")
    _tell_remaining_slots(done.others)
    for notice in done.notices:
        if not (args.keep_key and notice == user_key_rotation.NEEDED_BY_CLIENTS):
            talk(f"note: {notice}")
    if not args.keep_key:
        kept = _keep_new(account, current, done.gone, new.secret, args)
        _tell_old_key_places(config, current, done.gone, kept=kept)
    return 0


def _new_passphrase(config: Config, current: ProvenKey, args: argparse.Namespace) -> NewKey:
    old, account = NewKey(current.key.passphrase), config.account.name
    new = old if args.keep_key else new_key.read(args, account=account)
    if args.kdf and user_key.read(new.secret).kind != "passphrase":
        raise InvalidRequest(
            "--kdf is for passphrases; a random key needs no slow derivation",
            resolution_hint="Leave out --kdf, or give a passphrase. Nothing is changed.",
        )
    if not (args.keep_key or new.generated):
        user_key_rotation.require_new(new.secret, account=account, allow_weak=args.allow_weak)
        user_key_rotation.require_unused(current, new.secret)
    return new


def _announce_replacement(current: ProvenKey, gone: Sequence[Slot]) -> None:
    named = ", ".join(describe_slot(slot) for slot in gone)
    what = f"replaces {named}" if gone else "is added, because there is none to replace"
    talk(
        f"You opened the cache with {describe_slot(current.slot)}, which stays. The new key {what}."
    )


def _into_keychain(
    config: Config, current: ProvenKey, options: ChangeOptions, args: argparse.Namespace
) -> int:
    if args.slot and current.by_keychain:
        raise InvalidRequest(
            "`rotate-key --keychain` replaces only the keychain's slot",
            resolution_hint="Leave out --slot.",
        )
    gone = (current.slot,) if current.by_keychain else current.slots_to_replace(args.slot)
    system = keychain.system_keychain()
    after = user_key_rotation.rotate_into_keychain(
        config,
        system,
        from_keychain=current.by_keychain,
        slot_ids=None if current.by_keychain else [slot.id for slot in gone],
        options=options,
    )
    talk(f"The key of this cache is changed (key file number {after.sequence}).")
    talk(f"The new one is in {system.name} and nowhere else; leave DB_ENCRYPTION_KEY unset.")
    _tell_remaining_slots(user_key_rotation.still_opening(current.keyfile, after))
    talk(f"note: {user_key_rotation.OLD_COPIES}")
    if not current.by_keychain:
        _tell_old_key_places(config, current, gone, then="take it out there")
    for notice in keys.advise(after.slots):
        talk(f"note: {notice}")
    return 0


def _reencrypt(
    config: Config, account: Account | None, options: ChangeOptions, args: argparse.Namespace
) -> int:
    replacing = new_key.is_given(args)
    current, dropped = reencryption.find_dropped_slots(config, replacing=replacing, options=options)
    if dropped and not args.drop_other_keys:
        _confirm_dropped(dropped)
    new = _new_passphrase(config, current, args) if replacing else None
    doing = new or NewKey(current.key.passphrase)
    with doing.in_change("the cache is re-encrypted"), console.progress("Encrypting") as report:
        done = reencryption.reencrypt(
            config,
            new=new.secret if new else None,
            parameters=kdf_policy(config, args.kdf),
            allow_weak=args.allow_weak,
            on_progress=report,
            options=replace(options, at=doing.at),
        )
    talk(
        f"The cache was re-encrypted under a new data key and compared: {counted(done.notes, 'note')}."
    )
    if not done.state.left:
        talk("Old copies of the key file open nothing that is in use here.")
        for place in done.quarantined.databases:
            talk(f"note: they may still open {place}. Delete it when you need nothing in it.")
        for unlisted in done.quarantined.unlisted:
            talk(f"note: {'. '.join(unlisted.describe())}")
    say_unless_copied(done.state.copied)
    _tell_remaining_slots(done.carried)
    for slot in done.dropped:
        talk(f"note: {describe_slot(slot)} was dropped; its key opens nothing any more.")
    if any(slot.type is SlotType.RECOVERY for slot in done.dropped):
        talk("note: `mcp-notarium keys recovery create` makes a new recovery key.")
    talk("note: backups of the old database still open with old copies of the key file.")
    if done.slot is not None and new is not None:
        _tell_cost(config, (*done.gone, *done.dropped), done.slot)
        talk(f"note: {user_key_rotation.NEEDED_BY_CLIENTS}")
        kept = _keep_new(account, current, done.gone, new.secret, args)
        _tell_old_key_places(config, current, done.gone, kept=kept)
    done.state.require_finished(
        "the new cache is active, but the old database could not be removed",
        hint="Nothing is lost, and servers can be started. Old copies of the key file open the old "
        f"database until it is gone: delete {done.old}, or run `mcp-notarium rotate-key "
        "--reencrypt` again, which removes it first.",
    )
    return 0


def _confirm_dropped(dropped: tuple[Slot, ...]) -> None:
    if not can_ask():
        raise reencryption.dropped_slots_error(dropped)
    talk("These cannot be kept under a new data key, because their keys are not available:")
    for slot in dropped:
        talk(f"  {describe_slot(slot)}")
    if not ask_yes("Drop them?"):
        raise InvalidRequest(
            "you kept the slots, so nothing was changed",
            resolution_hint="To keep one of them under the new data key, give its key with --ask-old.",
        )


def _tell_cost(config: Config, gone: Sequence[Slot], made: Slot) -> None:
    if not made.kdf.for_passphrases:
        return
    before = [slot.kdf for slot in gone if slot.kdf.for_passphrases]
    if before and made.kdf not in before:
        was = " and ".join(map(str, before))
        talk(f"Its key derivation is {made.kdf} from now on; before: {was}.")
    elif made.kdf.name != config.kdf == kdf.NAMES[0]:
        talk(
            f"note: its key derivation is still {made.kdf.name}; `--kdf {config.kdf}` changes that."
        )


def _tell_remaining_slots(others: Sequence[Slot]) -> None:
    for slot in others:
        talk(f"note: {describe_slot(slot)} still opens the cache, as before.")


def _keep_new(
    account: Account | None,
    current: ProvenKey,
    gone: Sequence[Slot],
    new: Secret,
    args: argparse.Namespace,
) -> bool:
    """Put the new key where `setup` has put the old one for servers; return whether it is there."""
    if account is None or current.slot not in gone:
        return False
    if args.new_key_file is not None:  # it becomes the account's: see _tell_account
        own = current.key.origin == KEY_FILE and KEY_FILE not in os.environ
        return account.key == "file" and own and not args.slot
    try:
        path = setup_key.replace_key(account, current.key.passphrase, new)
    except OSError:  # the user is told to put it there
        return False
    if path is not None:
        talk(
            f"The new key is in {display_path(path)}, where the servers of `{account.name}` find it."
        )
    return path is not None


def _tell_old_key_places(
    config: Config,
    current: ProvenKey,
    gone: Sequence[Slot],
    *,
    then: str = "put the new one there",
    kept: bool = False,
) -> None:
    """Tell where a replaced key is still stored, and what to do with the key that stayed."""
    old: Secret | None = current.key.passphrase if current.slot in gone else None
    if old is not None:
        origin = config.db_key_origin if old == config.db_key and not kept else ""
        if origin:
            talk(f"note: the old key came from {origin}; {then}.")
        for place in known_clients.find_configs_with_key(old, os.environ):
            talk(f"note: the old key still stands in {place.path} ({place.program}).")
    elif gone:
        talk("note: the replaced key was not typed, so its places could not be searched.")
    if current.slot.type is SlotType.RECOVERY:
        talk(
            "note: your recovery key was typed on a machine. Make another one "
            "(`mcp-notarium keys recovery create`), then remove this one "
            f"(`mcp-notarium keys remove {current.slot.id}`)."
        )


def _tell_account(account: Account, args: argparse.Namespace) -> None:
    """Remember where the new key of the account is, if this command knows that."""
    if args.keychain:
        moved = setup_key.moved(account, "keychain")
    elif args.new_key_file is not None and args.new_key_file.is_file() and not args.slot:
        moved = setup_key.moved(account, "file", args.new_key_file.absolute())
    else:
        return
    setup_key.remember(moved)
    talk(f"The account `{account.name}` uses the new key; restart its clients.")
    if moved.key == "file":
        _tell_key_files(account, moved)


def _tell_key_files(before: Account, after: Account) -> None:
    """Tell which file is the account's key file from now on, and offer to remove the old one."""
    new = Path(after.variables[KEY_FILE])
    talk(f"{display_path(new)} is its key file from now on: keep it there.")
    old = Path(before.variables[KEY_FILE]) if before.key == "file" else None
    if old is None or old == new or not old.is_file():
        return
    kept = f"{display_path(old)} still holds the old key, which opens nothing here any more."
    if can_ask() and ask_yes(f"{kept} Remove it?"):
        SYSTEM.remove(old)
        talk(f"{display_path(old)} is removed.")
    else:
        talk(f"note: {kept} Old backups may need it; else delete it.")


COMMANDS = {"rotate-key": (add_arguments, run)}
