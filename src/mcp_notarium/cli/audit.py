"""Run ``mcp-notarium audit``: verify, show and export the audit log (docs/audit.md).

Exit code 3: something is wrong. No command can change a record. Exports are signed with detached Ed25519 signatures,
base64 in a file next to the export; keys are PEM files, as ``openssl genpkey -algorithm ed25519`` makes them.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_notarium.account import opener, rollback
from mcp_notarium.account.anchor_keeper import AnchorWitness
from mcp_notarium.account.audit_anchor import Anchor, AnchorUnusable, audit_keys
from mcp_notarium.account.copies import Copies
from mcp_notarium.account.key_changes import CLIENT
from mcp_notarium.account.rollback import Rollback
from mcp_notarium.audit import export
from mcp_notarium.audit.chain import ActName, AuditEntry, Head, Record
from mcp_notarium.audit.verification import Fault, FaultKind, Verification
from mcp_notarium.cli import activity_feed, command_context, console
from mcp_notarium.cli.terminal import ask_yes, print_data, talk, typed_path
from mcp_notarium.config import Config
from mcp_notarium.errors import CacheDamaged, ConfigError, InvalidRequest, LockedError, Verdict
from mcp_notarium.files import os_errors
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.files.private_files import create_private, output_errors
from mcp_notarium.storage import integrity, note_rows
from mcp_notarium.storage.audit_log import AuditLog
from mcp_notarium.storage.database import Database

BROKEN_EXIT = 3
_ANCHORS = {FaultKind.ANCHOR, FaultKind.TAIL_CUT, FaultKind.FOREIGN, FaultKind.REPLACED}
_SHOWN_DIGITS = 16
"""Digits of a head in a question; redaction would take more of them for a key."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands below ``audit``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    verify = actions.add_parser(
        "verify", help="check whether the chain is whole (exit code 3: it is not)"
    )
    verify.add_argument(
        "--expect", metavar="COUNT:HEAD", help="a head that you noted elsewhere must be in it"
    )
    verify.add_argument("--json", action="store_true", help="print JSON")
    accept = actions.add_parser(
        "accept", help="write a new anchor if you know why the old one is missing or does not fit"
    )
    accept.add_argument("--yes", action="store_true", help="do not ask")
    tail = actions.add_parser("tail", help="show the newest records")
    tail.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
    tail.add_argument("--json", action="store_true", help="print JSON, one record a line")
    out = actions.add_parser("export", help="print all records as JSON Lines")
    out.add_argument("--since", metavar="DATE", help="only from this day on (2026-01-31, UTC)")
    out.add_argument("--out", type=typed_path, metavar="FILE", help="write a new file instead")
    out.add_argument(
        "--sign",
        type=typed_path,
        metavar="KEYFILE",
        help="sign it with this Ed25519 key (PEM); the signature goes to FILE.sig",
    )
    check = actions.add_parser("verify-export", help="check an exported file")
    check.add_argument("file", type=typed_path, metavar="FILE")
    check.add_argument(
        "--public", type=typed_path, metavar="KEYFILE", help="who must have signed it"
    )
    check.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Run the action ``args.action``."""
    return _ACTIONS[args.action](args)


@dataclass(frozen=True, slots=True)
class OpenChain:
    """Hold the chain of the account and its anchor."""

    audit_log: AuditLog
    anchor: Anchor
    database: Database
    copies: Copies | None = None
    had_log: bool = False
    """A log lay next to the database when it was opened."""

    def verify(
        self, expected: Head | None, *, also: Callable[[Record], None] | None = None
    ) -> Verification:
        """Return the verdict on the chain and on its anchor; ``also`` gets each record."""
        anchored, found = None, None
        faults: tuple[Fault, ...] = ()
        try:
            said = self.anchor.read(self.database)
            anchored = None if said is None else said.head
            found = self.find_rollback()
        except AnchorUnusable as error:
            faults = (Fault(FaultKind.ANCHOR, 0, f"{error.message}. {error.person_hint}"),)
        mixture = found if found is not None and found.mixed else None
        try:
            seen = self.audit_log.table.verify(anchored=anchored, expected=expected, also=also)
            unreadable = mixture is not None and integrity.walk(self.database, deep=True) != ()
        except CacheDamaged:
            if not faults and mixture is None:
                raise
            seen, unreadable = Verification(Head(), 0, ()), True  # it may make no sense
        fault = (
            None if mixture is None else (mixture.unreadable() if unreadable else mixture).fault()
        )
        return replace(seen, faults=(*seen.faults, *faults, *([fault] if fault else ())))

    def find_rollback(self) -> Rollback | None:
        """Return what the database lacks. Raises ``AnchorUnusable``."""
        return rollback.find(
            *(self.anchor, self.audit_log.table, self.database),
            had_log=self.had_log,
            copies=self.copies,
        )


@contextmanager
def open_chain(config: Config, *, read_only: bool = False) -> Iterator[OpenChain]:
    """Open the account's chain; with ``read_only`` no file of the folder is changed.

    Raises ``LockedError`` if there is no database or it may not be opened.
    """
    config = replace(config, on_unreadable="refuse")
    folder = AccountFolder(config.account_dir)
    if not (folder.generations() or folder.plain_database.exists()):
        raise LockedError(
            Verdict.DATABASE_MISSING,
            "there is no cache yet, so nothing is on record",
            resolution_hint="Start the server once (`mcp-notarium serve`); it makes one.",
        )
    with closing(opener.open_cache(config, read_only=read_only)) as cache:
        keys = audit_keys(cache.data_key)
        audit_log = AuditLog(cache.database, keys, clock=time.time, days=config.audit_days)
        copies = Copies(folder, cache.data_key, config.store.tables)
        chain = OpenChain(audit_log, cache.anchor, cache.database, copies, cache.had_log)
        if not read_only:
            _keep_anchor(chain)
        yield chain


def _keep_anchor(chain: OpenChain) -> None:
    """Let the database keep the anchor, if it lacks nothing of it; a mixture is noted there."""
    found: Rollback | None = None
    fits = True
    try:
        found = chain.find_rollback()
    except AnchorUnusable:
        fits = False
    if found is not None and found.mixed:
        rollback.note_replaced(found, chain.anchor, time.time())
    elif found is not None and not found.harmless:
        rollback.note(found, chain.audit_log, chain.anchor, chain.database)
    witness = AnchorWitness(chain.anchor, chain.audit_log, chain.database)
    witness.fits = fits and found is None
    chain.database.witness = witness


def _verify(args: argparse.Namespace) -> int:
    expected = None if args.expect is None else _parse_head(args.expect)
    with open_chain(command_context.prepare(args), read_only=True) as chain:
        found = chain.verify(expected)
    print_data(_as_json(found), _as_text(found), as_json=args.json)
    return 0 if found.whole else BROKEN_EXIT


def _accept(args: argparse.Namespace) -> int:
    with open_chain(command_context.prepare(args)) as chain:
        before = chain.verify(None)
        at_anchor = [fault for fault in before.faults if fault.kind in _ANCHORS]
        if not at_anchor:
            talk("The anchor fits: there is nothing to accept.")
            return 0 if before.whole else BROKEN_EXIT
        # Standard output, like every verdict: on stderr the head would be taken for a key and redacted.
        sys.stdout.write(_as_text(before) + "\n")
        sys.stdout.flush()
        end = f"{before.head.count}:{before.head.mac[:_SHOWN_DIGITS]}…"
        if not (
            args.yes or ask_yes(f"Do you know why, and accept the chain's end ({end}) as it is?")
        ):
            talk("Nothing was changed.")
            return 1
        if any(fault.kind is FaultKind.REPLACED for fault in at_anchor):
            _require_one_state(chain.database)
        kinds = sorted({fault.kind.value for fault in at_anchor})
        facts = {"anchor": kinds, "head": str(before.head)}
        chain.audit_log.record_begin(
            AuditEntry(at=time.time(), act=ActName.ACCEPTED, client=CLIENT, facts=facts)
        )
        chain.anchor.accept(chain.audit_log.table, chain.database)
        after = chain.verify(None)
    talk("On record, and there is a new anchor.")
    sys.stdout.write(_as_text(after) + "\n")
    return 0 if after.whole else BROKEN_EXIT


def _require_one_state(database: Database) -> None:
    faults = integrity.walk(database, deep=True)
    if faults:
        raise CacheDamaged(
            "the database is not consistent, so nothing was accepted",
            resolution_hint="Run `mcp-notarium repair`, or put back a copy.",
        )


def _as_json(found: Verification) -> dict[str, Any]:
    return {
        "whole": found.whole,
        "first": found.first,
        "head": str(found.head),
        "faults": [asdict(fault) for fault in found.faults],
        "notes": list(found.notes),
    }


def _as_text(found: Verification) -> str:
    lines = [
        f"{fault.kind.value} at record {fault.number}: {fault.words}" for fault in found.faults
    ]
    lines += [f"note: {note}" for note in found.notes]
    if found.head.count == 0:
        lines.append("There is no record.")
    else:
        lines.append(f"Records {found.first} to {found.head.count}; head {found.head}")
    lines.append("The audit chain is whole." if found.whole else "The audit chain is NOT whole.")
    return "\n".join(lines)


def _tail(args: argparse.Namespace) -> int:
    if args.n < 1:
        raise InvalidRequest("-n wants a number above 0", resolution_hint="Say how many to show.")
    with open_chain(command_context.prepare(args), read_only=True) as chain:
        table = chain.audit_log.table
        records = list(table.records(first=max(1, table.head().count - args.n + 1)))
        names = {} if args.json else read_titles(chain)
    if args.json:
        sys.stdout.writelines(json.dumps(export.as_json(record)) + "\n" for record in records)
    else:
        width = console.output().width
        console.show(activity_feed.describe_records(records, names, width=width))
    return 0


def read_titles(chain: OpenChain) -> dict[str, str]:
    """Return what notes are called now, by the names that records have for them."""
    found = note_rows.read_titles(chain.database)
    return {chain.audit_log.note_reference(note_id): title for note_id, title in found}


def _export(args: argparse.Namespace) -> int:
    if args.sign is not None and args.out is None:
        raise InvalidRequest(
            "--sign requires --out", resolution_hint="The signature is a file beside the export."
        )
    key = None if args.sign is None else export.private_key(_read(args.sign))
    since = None if args.since is None else _parse_day(args.since)
    with open_chain(command_context.prepare(args)) as chain:
        now = time.time()
        chain.audit_log.record_begin(AuditEntry(at=now, act="cli.audit.export", client=CLIENT))
        table = chain.audit_log.table
        first = 1 if since is None else table.first_number_since(since)
        end = table.head()
        records = table.records(first=first, last=end.count)
        lines = export.export_lines(records, now_ms=int(now * 1000), end=end)
        if args.out is None:
            for line in lines:
                sys.stdout.write(line.decode())
            return 0
        content = b"".join(lines)
    with output_errors(args.out, "the export"):
        create_private(args.out, content)
    if key is not None:
        path = _signature_path(args.out)
        with output_errors(path, "the signature"):
            create_private(path, base64.b64encode(key.sign(content)) + b"\n")
    if first > end.count:
        talk(f"No record is of that day or later: {args.out} only names the end of the chain.")
    else:
        talk(f"Records {first} to {end.count} are in {args.out}.")
    return 0


def _verify_export(args: argparse.Namespace) -> int:
    content = _read(args.file)
    exported = content.splitlines(keepends=True)
    head, faults = export.find_export_faults(exported)
    lines = [f"{fault.kind.value} at record {fault.number}: {fault.words}" for fault in faults]
    signed = True
    if args.public is None:
        lines.append("note: no --public key was given, so nothing says who made this file.")
    else:
        signed = export.is_signed(
            content, _read(_signature_path(args.file)), export.public_key(_read(args.public))
        )
        lines.append("The signature fits." if signed else "The signature does NOT fit.")
    if len(exported) <= 1:
        lines.append("note: there is no record in it; the head is that of the chain at that time.")
    lines.append(f"head {head}")
    facts = {
        "head": str(head),
        "signature": None if args.public is None else signed,
        "faults": [asdict(fault) for fault in faults],
    }
    print_data(facts, "\n".join(lines), as_json=args.json)
    return 0 if signed and not faults else BROKEN_EXIT


def _parse_head(text: str) -> Head:
    head = Head.parse(text.strip())
    if head is None:
        raise InvalidRequest(
            "--expect wants COUNT:HEAD",
            resolution_hint="Give it as `mcp-notarium audit verify` prints it: a number, a colon, 64 "
            "hex digits.",
        )
    return head


def _parse_day(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidRequest(
            "--since wants a day", resolution_hint="Write it like 2026-01-31."
        ) from None


_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "verify": _verify,
    "accept": _accept,
    "tail": _tail,
    "export": _export,
    "verify-export": _verify_export,
}

COMMANDS = {"audit": (add_arguments, run)}


def _read(path: Path) -> bytes:
    """Return the content of a file. Raises ``ConfigError``."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"a file cannot be read ({os_errors.describe(error)})",
            resolution_hint=f"Check that {path} exists and that you may read it.",
        ) from None


def _signature_path(path: Path) -> Path:
    """Return where the signature of an export lies."""
    return path.with_name(path.name + ".sig")
