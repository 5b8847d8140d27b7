"""Run ``mcp-notarium keys`` and ``keychain``: manage the keys that open the account, each in its own slot.

Every change is proven before it takes effect, and none can lock out the key it was made with. Old
copies of the key file keep what a change removes; the commands say so.
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType

from mcp_notarium.account import key_changes, user_key_rotation
from mcp_notarium.account.key_changes import ChangeOptions, SlotList
from mcp_notarium.cli import command_context, console, new_key
from mcp_notarium.cli.terminal import (
    ask_line,
    ask_secret,
    name_account,
    print_data,
    say_unless_copied,
    show_once,
    talk,
)
from mcp_notarium.config import Config
from mcp_notarium.crypto import user_key
from mcp_notarium.crypto.errors import MalformedKey, WrongKey
from mcp_notarium.crypto.key_file_codec import Slot, SlotType
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.keys.keychain import system_keychain
from mcp_notarium.keys.secret_places import find_passphrase
from mcp_notarium.secret import Secret

_TRIES = 3
_COPIES = "Older copies of the key file still contain what was removed here."
_UNCERTAIN = (
    "The copy of the key file claims to be newer. If it is, an old key file was put back. "
    "To use the copy, run `mcp-notarium restore --key-file`."
)


def _add_keys_arguments(parser: argparse.ArgumentParser) -> None:
    command_context.options("--ask-key")(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="show the slots")
    listing.add_argument("--json", action="store_true", help="print JSON")
    adding = actions.add_parser("add", help="let one more key open the cache")
    new_key.add_arguments(adding)
    adding.add_argument("--label", default="", help="a name for it, up to 64 ASCII characters")
    removing = actions.add_parser("remove", help="remove a slot from the key file")
    removing.add_argument("slot", type=int, metavar="SLOT")
    paper = actions.add_parser("recovery", help="a key on paper, in case the other one is lost")
    paper.add_argument(
        "what",
        choices=("create", "test"),
        metavar="ACTION",
        help="create: make one; test: prove that it opens",
    )


def _run_keys(args: argparse.Namespace) -> int:
    config = command_context.prepare(args)
    asked = ask_secret("Key: ") if args.ask_key else None
    return _ACTIONS[args.action](config, asked, args)


def _list(config: Config, asked: Secret | None, args: argparse.Namespace) -> int:
    found = key_changes.list_slots(config, find_key(config, asked))
    print_data(_as_json(found), _table(found), as_json=args.json)
    if found.uncertain:
        talk(f"note: {_UNCERTAIN}")
    return 0


def _as_json(found: SlotList) -> dict[str, Any]:
    keyfile = found.keyfile
    return {
        "sequence": keyfile.sequence,
        "created": _format_day(keyfile.created),
        "rotated": None if keyfile.rotated is None else _format_day(keyfile.rotated),
        "slots": [
            {
                "slot": slot.id,
                "type": slot.type.value,
                "label": slot.label,
                "cost": str(slot.kdf),
                "opened_by_this_key": slot.id == found.opened_by,
            }
            for slot in keyfile.slots
        ],
    }


def _table(found: SlotList) -> list[RenderableType]:
    rows = [
        (
            str(s.id), s.type.value, str(s.kdf),
            f"{s.label or '-'}{'   <- this key' if s.id == found.opened_by else ''}",
        )
        for s in found.keyfile.slots
    ]  # fmt: skip
    rotated = found.keyfile.rotated
    changed = f"last changed {_format_day(rotated)}" if rotated else "never changed"
    made = f"Made {_format_day(found.keyfile.created)}, key {changed}"
    lines = ["", f"{made}; key file number {found.keyfile.sequence}."]
    if found.opened_by is None:
        lines.append("No available key opens it, so nothing proves that this list is true.")
    headings = ("slot", "type", "cost", "label")
    return [console.table(headings, rows), *lines, *map(name_account, advise(found.keyfile.slots))]


def advise(found: tuple[Slot, ...]) -> list[str]:
    """Return what a person should know about these slots."""
    if any(slot.type is SlotType.RECOVERY for slot in found):
        return []
    return ["There is no recovery key: `mcp-notarium keys recovery create` makes one."]


def _add(config: Config, asked: Secret | None, args: argparse.Namespace) -> int:
    key_changes.require_label(args.label)
    # Before anybody types a new key twice.
    current = user_key_rotation.prove_key(config, options=ChangeOptions(old=asked))
    key_changes.require_free_slot(current.keyfile)
    new = new_key.read(args, account=config.account.name)
    options = ChangeOptions(old=asked, at=new.at)
    with new.in_change("the key is added"):
        done = key_changes.add(
            config, new.secret, label=args.label, allow_weak=args.allow_weak, options=options
        )
    made = done.after.slots[-1]
    talk(f"Slot {made.id} is added; its key opens the cache from now on.")
    if made.type is SlotType.PASSPHRASE:
        talk(f"Its key derivation is {made.kdf}.")
    say_unless_copied(done.copied)
    return 0


def _remove(config: Config, asked: Secret | None, args: argparse.Namespace) -> int:
    done = key_changes.remove(config, args.slot, options=ChangeOptions(old=asked))
    talk(f"Slot {args.slot} is removed.")
    say_unless_copied(done.copied)
    talk(f"note: {_COPIES}")
    return 0


def _recovery(config: Config, asked: Secret | None, args: argparse.Namespace) -> int:
    return _test_recovery(config) if args.what == "test" else make_recovery(config, asked)


def make_recovery(config: Config, asked: Secret | None) -> int:
    """Show a new recovery key, have a part of it typed back, and activate it."""
    key_changes.require_free_slot(
        user_key_rotation.prove_key(config, options=ChangeOptions(old=asked)).keyfile
    )
    made = user_key.generate_recovery_key()
    show_once(
        "Your recovery key. Write it on paper and keep it where you keep your passport; it is not "
        "shown again and opens the notes here like any other key:",
        made,
    )
    _require_typed_back(made)
    done = key_changes.add(config, made, label="on paper", options=ChangeOptions(old=asked))
    talk(
        f"It is active, in slot {done.after.slots[-1].id}. Try it: mcp-notarium keys recovery test"
    )
    say_unless_copied(done.copied)
    return 0


def _require_typed_back(made: Secret) -> None:
    groups = made.reveal_text().split("-")
    number = secrets.randbelow(len(groups))
    for _ in range(_TRIES):
        if ask_line(f"Type group {number + 1} of {len(groups)}: ").upper() == groups[number]:
            return
        talk("That is not the group shown.")
    raise InvalidRequest(
        "the recovery key was not made", resolution_hint="Start again; a new one will be shown."
    )


def _test_recovery(config: Config) -> int:
    typed = ask_secret("Recovery key: ").reveal_text()
    try:
        slot = key_changes.recovery_slot(config, typed)
    except MalformedKey as error:
        raise InvalidRequest(
            error.reason,
            resolution_hint="Compare it with the paper and type it again: nine groups of four, with "
            "or without hyphens, large or small letters.",
        ) from error
    except WrongKey as error:
        raise InvalidRequest(
            "this recovery key is well formed, and it opens no slot of this cache",
            resolution_hint="It is another cache's, or its slot was removed "
            "(`mcp-notarium keys list`). `mcp-notarium keys recovery create` makes a new one.",
        ) from error
    talk(f"It opens the cache (slot {slot.id}).")
    return 0


def find_key(config: Config, asked: Secret | None) -> Secret | None:
    """Return the key that was asked for, else the configured one; a cache without encryption has none."""
    found = find_passphrase(config) if asked is None and config.db_encryption else None
    return found.passphrase if found else asked


def _format_day(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).date().isoformat()


_ACTIONS: dict[str, Callable[[Config, Secret | None, argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "recovery": _recovery,
    "remove": _remove,
}


def _add_keychain_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=("enable", "disable"), metavar="ACTION", help="enable or disable"
    )
    command_context.options("--ask-key")(parser)


def _run_keychain(args: argparse.Namespace) -> int:
    config = command_context.prepare(args)
    if not config.keychain:
        raise InvalidRequest(
            "the keychain is switched off",
            resolution_hint="Remove NOTARIUM_KEYCHAIN=off from the configuration first.",
        )
    options = ChangeOptions(old=ask_secret("Key: ") if args.ask_key else None)
    if args.action == "enable":
        done = user_key_rotation.enable_keychain(config, system_keychain(), options=options)
        slot = done.after.slots[-1]
        talk(f"{slot.label} opens the cache from now on (slot {slot.id}).")
        talk("You may remove DB_ENCRYPTION_KEY from the clients' configurations. Keep it in a safe")
        talk("place: if the keychain is ever lost, you need it to open the cache.")
        return 0
    changed = user_key_rotation.disable_keychain(config, system_keychain(), options=options)
    talk("The keychain no longer opens the cache.")
    if changed is None:
        talk("note: its entry opened nothing and was removed.")
    return 0


COMMANDS = {
    "keys": (_add_keys_arguments, _run_keys),
    "keychain": (_add_keychain_arguments, _run_keychain),
}
