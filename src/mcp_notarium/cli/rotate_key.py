"""``mcp-notarium rotate-key``: a new passphrase (or KDF, or cost) for the cache.

Rewrites the key file only: running servers go on. With ``--reencrypt`` the whole cache is written
anew, while nobody else has it open. The old key comes from where it lives now.
"""

from __future__ import annotations

import argparse

from mcp_notarium.cli import keys, new_key, settings
from mcp_notarium.cli.terminal import Progress, ask_secret, say_unless_copied, talk
from mcp_notarium.config import Config
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys import client_files, keychain, keychain_slot, reencrypt, rotate, unlock
from mcp_notarium.keys.changing import Given
from mcp_notarium.secret import Secret


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the old and the new key come from."""
    new_key.add_arguments(parser, into_keychain=True)
    parser.add_argument(
        "--ask-old", action="store_true", help="ask for the old key instead of the configured one"
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
        help="with --reencrypt: let go the slots whose keys are not at hand",
    )


def run(args: argparse.Namespace) -> int:
    """Rotate; exit code 0 when the new key is in place and the old one opens nothing here."""
    config = settings.prepare(args)
    if args.keychain and (args.reencrypt or not config.keychain):
        raise InvalidRequest(
            "--keychain goes without --reencrypt, and needs NOTARIUM_KEYCHAIN not to be off",
            resolution_hint="Run `rotate-key --keychain` first, then `rotate-key --reencrypt`.",
        )
    asked = ask_secret("Old key: ") if args.ask_old else None
    if args.keychain:
        return _into_keychain(config, asked)
    if args.reencrypt:
        return _reencrypt(config, asked, args)
    found = unlock.find_passphrase(config, config.owner_hash) if asked is None else None
    new = new_key.read(args)
    done = rotate.rotate_passphrase(
        config, new=new, allow_weak=args.allow_weak, given=Given(old=asked)
    )
    talk(f"The key of this cache is changed (key file number {done.sequence}).")
    if found is not None and found.origin == unlock.KEYCHAIN:
        keychain.system_keychain().set(keychain.KEY, config.owner_hash, new)
        talk("The new key is in the system's keychain, in the place of the old one.")
    elif found is not None:
        talk(f"note: the old key came from {found.origin}; put the new one there.")
    _say_what_remains(done, asked or (found.passphrase if found else None))
    return 0


def _into_keychain(config: Config, asked: Secret | None) -> int:
    found = unlock.find_passphrase(config, config.owner_hash) if asked is None else None
    system = keychain.system_keychain()
    from_keychain = found is not None and found.origin == unlock.KEYCHAIN
    after = keychain_slot.rotate_into(
        config, system, from_keychain=from_keychain, given=Given(old=asked)
    )
    talk(f"The key of this cache is changed (key file number {after.sequence}).")
    talk(f"The new one is in {system.name} and nowhere else; leave DB_ENCRYPTION_KEY unset.")
    for notice in keys.advice(after.slots):
        talk(f"note: {notice}")
    old = asked or (found.passphrase if found else None)
    for place in client_files.holding(old) if old else ():
        talk(f"note: the old key still stands in {place.path} ({place.program}).")
    return 0


def _reencrypt(config: Config, asked: Secret | None, args: argparse.Namespace) -> int:
    found = unlock.find_passphrase(config, config.owner_hash) if asked is None else None
    new = new_key.read(args) if new_key.is_given(args) else None
    done = reencrypt.reencrypt(
        config,
        new=new,
        allow_weak=args.allow_weak,
        drop_others=args.drop_other_keys,
        told=Progress("rows written anew"),
        given=Given(old=asked, system=keychain.system_keychain() if config.keychain else None),
    )
    talk(f"The cache is written anew under a new data key and compared: {done.notes:,} notes.")
    talk("Old copies of the key file open nothing any more that lies here.")
    say_unless_copied(done.copied)
    if new is not None and found is not None and found.origin == unlock.KEYCHAIN:
        keychain.system_keychain().set(keychain.KEY, config.owner_hash, new)
        talk("The new key is in the system's keychain, in the place of the old one.")
    for slot in done.dropped:
        talk(f"note: slot {slot.id} ({slot.type.value}) is gone; its key opens nothing any more.")
    talk("note: backups of the old database still open with old copies of the key file.")
    return 0


def _say_what_remains(done: rotate.Rotated, old: Secret | None) -> None:
    """What the change does not do, and where the old key still lies about."""
    if not done.proven:
        talk("note: another process is busy with the database; it was not opened as a proof.")
    for slot in done.others:
        talk(f"note: slot {slot.id} ({slot.type.value}) still opens the cache, as before.")
    for notice in done.notices:
        talk(f"note: {notice}")
    for place in client_files.holding(old) if old else ():
        talk(f"note: the old key still stands in {place.path} ({place.program}).")
