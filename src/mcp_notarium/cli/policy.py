"""Run ``mcp-notarium policy``: show what agents may see and do, check the file, explain one note.

Changes nothing. The file is edited by hand; servers read it when they start.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from mcp_notarium.account import inspection, opener
from mcp_notarium.account.audit_anchor import audit_keys
from mcp_notarium.account.startup_outcomes import Open
from mcp_notarium.cli import command_context, console
from mcp_notarium.cli.history import (
    MOST_COMPARED,
    find_recorded,
    note_title,
    same_title,
    with_trash_last,
)
from mcp_notarium.cli.terminal import print_data, typed_path
from mcp_notarium.config import Config, accounts, inspect_here
from mcp_notarium.config.closed_places import (
    find_app_places,
    find_closed_places,
    find_other_accounts,
)
from mcp_notarium.config.policy_file import (
    FILE_NAME,
    FILE_VARIABLE,
    READ_ONLY_VARIABLE,
    FoundPolicy,
    UnfitPolicy,
    list_unfit,
    read_policy,
)
from mcp_notarium.domain.note import Note
from mcp_notarium.domain.policy import ACTIONS, TOOLS, Policy
from mcp_notarium.errors import ConfigError, NotPermitted
from mcp_notarium.files.import_folders import find_folders, find_hindrance
from mcp_notarium.files.os_errors import display_path
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report.words import listed
from mcp_notarium.search import parser
from mcp_notarium.search.query import with_all_words
from mcp_notarium.storage import note_lookup
from mcp_notarium.storage.cache import Cache
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from mcp_notarium.stores import registry
from mcp_notarium.stores.kind import StoreKind
from mcp_notarium.sync.status import read_status
from mcp_notarium.system import SYSTEM

_DEFAULT = "default"

_MOST_NAMED = 5
_BOTH = ("notes.allowed_", "notes.writable_", "notes.untagged")
"""Begin the names of rules that must both be met, of the policy and of the profile."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the commands below ``policy``."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    showing = actions.add_parser("show", help="the rules that hold, and where each comes from")
    checking = actions.add_parser(
        "check", help="whether a policy file is in order (exit code 0 or 1)"
    )
    checking.add_argument(
        "file", type=typed_path, nargs="?", metavar="FILE", help="default: the one that holds"
    )
    explaining = actions.add_parser(
        "explain", help="whether and why an agent may use a tool on a note (exit code 0: yes)"
    )
    explaining.add_argument("note", metavar="NOTE", nargs="+", help="its id, or words of it alone")
    explaining.add_argument(
        "tool", choices=TOOLS, type=str.lower, metavar="TOOL", help=", ".join(TOOLS)
    )
    for action in (showing, checking, explaining):
        action.add_argument(
            "--profile",
            default="",
            metavar="NAME",
            help="as it holds for clients with this profile",
        )
        action.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Show the rules, check the file, or explain a note."""
    try:
        if args.action == "check" and args.file is not None:
            return _check_file(args, args.file, named=True)
        if args.action == "check" and (shared := _shared_file(args)) is not None:
            return _check_file(args, shared, named=False)
        loaded = command_context.load(args)
        base = loaded.policy
        found = base.of_account(loaded.config.store, args.profile)
    except ConfigError as error:
        if args.action == "check" and args.file is not None:
            named = f"`mcp-notarium policy check {SYSTEM.quote(str(args.file))}`"
            error.resolution_hint = error.person_hint.replace("`mcp-notarium policy check`", named)
        suits = []
        if isinstance(error, UnfitPolicy):
            suits = _find_suits(error.found, _accounts(error.found))
        if args.action != "check" or not args.json:
            if args.action != "explain" and not args.json:
                console.show(_suits_table(suits))
            raise
        facts = {"ok": False, "message": error.message, "resolution_hint": error.person_hint}
        print_data(facts | error.details | {"accounts": suits}, "", as_json=True)
        return error.exit_code
    if args.action != "explain":
        suits = _find_suits(base, _accounts(base) or {"": loaded.config.store})
        if args.action == "check":
            closed = tuple(find_closed_places(loaded.config))
            return _report_valid(found, suits, closed, as_json=args.json)
        return _show(found, suits, as_json=args.json)
    config = replace(loaded.config, policy=found.policy)
    facts = explain(config, " ".join(args.note), args.tool)
    print_data(facts, "\n".join(_describe(facts)), as_json=args.json)
    return 0 if facts["allowed"] else 1


def _accounts(of: FoundPolicy | None = None) -> dict[str, StoreKind]:
    """Return the stores of the remembered accounts, or of those alone for which this policy is the one."""
    known = accounts.read_accounts(accounts.config_dir(os.environ)).values()
    return {
        one.name: registry.kind(one.store)
        for one in known
        if of is None or _policy_path(one.name) == of.looked_at
    }


def _check_file(args: argparse.Namespace, path: Path, *, named: bool) -> int:
    """Check a file for no account, or for all of them. Raises ``ConfigError``."""
    base = read_policy(path, named=named)
    found = base.of_profile(args.profile) if args.profile else base
    closed = (*find_other_accounts(os.environ), *find_app_places())
    return _report_valid(found, _find_suits(base, _accounts()), closed, as_json=args.json)


def _shared_file(args: argparse.Namespace) -> Path | None:
    """Return the one policy file of all accounts if it is not said which account is meant; else None."""
    reading = inspect_here(env_file=args.env_file, account=args.account)
    if args.account or not isinstance(reading.source_problem, accounts.AccountError):
        return None
    files = {_policy_path(one) for one in accounts.read_accounts(accounts.config_dir(os.environ))}
    return files.pop() if len(files) == 1 else None


def _policy_path(account: str) -> Path:
    """Return where the policy file of an account is looked for."""
    picks = inspect_here(account=account).picks
    named = picks[FILE_VARIABLE].text
    return Path(named) if named else Path(picks["NOTARIUM_DATA_DIR"].text or "") / FILE_NAME


def _find_suits(found: FoundPolicy, stores: Mapping[str, StoreKind]) -> list[dict[str, Any]]:
    """Return for each account the rules that it cannot hold to: of the policy, and of each profile that has some."""
    facts = []
    for name, store in stores.items():
        unfit = {profile: list_unfit(own, store) for profile, own in found.profiles.items()}
        base = list_unfit(found.policy, store)
        usable = [] if base else [profile for profile in unfit if not unfit[profile]]
        facts.append(
            {
                "account": name or None,
                "store": store.title,
                "unfit": list(base),
                "profiles": usable,
                "unfit_profiles": {one: list(rules) for one, rules in unfit.items() if rules},
            }
        )
    return facts


def _suits_table(suits: list[dict[str, Any]]) -> list[RenderableType]:
    """Return which profiles suit which account, if there are any, and what an account cannot hold to."""
    if not any(one["unfit"] or one["profiles"] or one["unfit_profiles"] for one in suits):
        return []
    rows = []
    for one in suits:
        cannot = [f"the policy itself ({', '.join(one['unfit'])})"] if one["unfit"] else []
        cannot += [f"{name} ({', '.join(rules)})" for name, rules in one["unfit_profiles"].items()]
        suiting = "nothing" if one["unfit"] else ", ".join(one["profiles"]) or "no profile"
        rows.append((one["account"] or "this one", one["store"], suiting, "; ".join(cannot) or "-"))
    return ["", console.table(("account", "store", "profiles that suit", "what does not"), rows)]


def _find_warnings(found: FoundPolicy, closed: Sequence[Path]) -> list[str]:
    """Say from which folders no file can come, though the policy or a profile permits it."""
    own = found.policy.import_paths
    each: list[tuple[str, Sequence[Sequence[str]], str]] = [
        ("import_paths", own[:number], path) for number, layer in enumerate(own) for path in layer
    ]
    for name, profile in found.profiles.items() if not found.policy.profile else ():
        paths = (path for layer in profile.import_paths for path in layer)
        each += [(f"profiles.{name}.import_paths", own or ((),), path) for path in paths]
    return [
        f"no file can come from {path} of {key}: {why}"
        for key, layers, path in each
        if (why := find_hindrance(layers, path, closed))
    ]


def _report_valid(
    found: FoundPolicy, suits: list[dict[str, Any]], closed: Sequence[Path], *, as_json: bool
) -> int:
    where = display_path(found.looked_at)
    said = f"there is no policy file at {where}" if found.path is None else f"{where} is in order"
    if found.profiles:
        said += f". Profiles: {', '.join(found.profiles)}"
    warnings = _find_warnings(found, closed)
    facts = {"ok": True} | _file_facts(found) | {"accounts": suits, "warnings": warnings}
    told = [f"warning: {one}" for one in warnings]
    print_data(facts, [said, *told, *_suits_table(suits)], as_json=as_json)
    return 0


def _show(found: FoundPolicy, suits: list[dict[str, Any]], *, as_json: bool) -> int:
    rows = rules(found)
    file = display_path(found.looked_at) + (" (there is none)" if found.path is None else "")
    cells = [(key, _format_value(value), origin) for key, value, origin in rows]
    facts = _file_facts(found) | {
        "tools": list(found.policy.tools),
        "rules": [{"rule": key, "value": value, "from": origin} for key, value, origin in rows],
        "accounts": suits,
    }
    offered = f"tools an agent is offered: {', '.join(found.policy.tools)}"
    table = console.table(("rule", "value", "from"), cells)
    then = "The file sets rules; servers read it when they start. `mcp-notarium policy check` finds its mistakes."
    whose = [f"profile: {found.policy.profile}"] if found.policy.profile else []
    shown = [f"policy file: {file}", *whose, "", table, "", offered, *_suits_table(suits)]
    shown.append(console.hint(then))
    print_data(facts, shown, as_json=as_json)
    return 0


def _file_facts(found: FoundPolicy) -> dict[str, Any]:
    file = None if found.path is None else str(found.path)
    facts = {"file": file, "looked_at": str(found.looked_at), "profiles": [*found.profiles]}
    return facts | ({"profile": found.policy.profile} if found.policy.profile else {})


def rules(found: FoundPolicy) -> list[tuple[str, Any, str]]:
    """Return every rule by its name in the file, its value, and its source."""
    policy, seen = found.policy, found.policy.visibility
    rows: list[tuple[str, Any]] = [("mode", str(policy.mode))]
    rows.append(("import_paths", _import_folders(policy)))
    rows += [(f"tools.{tool}", tool not in policy.switched_off) for tool in TOOLS]
    rows += [
        (f"notes.{name}", None if value is None else list(value))
        for name, value in (
            ("hidden_tags", seen.hidden_tags),
            ("hidden_properties", seen.hidden_properties),
            ("hidden_ids", seen.hidden_ids),
            ("allowed_tags", seen.allowed_tags),
            ("allowed_ids", seen.allowed_ids),
            ("hidden_paths", seen.hidden_paths),
            ("allowed_paths", seen.allowed_paths),
            ("writable_tags", policy.writing.tags),
            ("writable_ids", policy.writing.ids),
            ("writable_paths", policy.writing.paths),
            ("writable_below", policy.writing.below),
        )
    ]
    rows.append(("notes.untagged", "show" if seen.untagged else "hide"))
    rows.append(("notes.hidden_fields", sorted(map(str, policy.hidden_fields))))
    rows += [
        (f"limits.{one.name}", getattr(policy.limits, one.name)) for one in fields(policy.limits)
    ]
    shown = [(key, value, _find_origin(found, key)) for key, value in rows]
    return shown if not policy.profile else _with_outer(found, shown)


def _import_folders(policy: Policy) -> list[str] | None:
    folders = find_folders(policy.import_paths)
    return [str(one.real) for one in folders] if policy.import_paths else None


def _with_outer(found: FoundPolicy, rows: list[tuple[str, Any, str]]) -> list[tuple[str, Any, str]]:
    """Return the rules of a profile, and those of the policy itself that hold as well."""
    seen, writing = found.policy.visibility.within, found.policy.writing.within
    outer = [
        ("allowed_tags", seen and seen.allowed_tags),
        ("allowed_ids", seen and seen.allowed_ids),
        ("allowed_paths", seen and seen.allowed_paths),
        ("untagged", None if seen is None or seen.untagged else "hide"),
        ("writable_tags", writing and writing.tags),
        ("writable_ids", writing and writing.ids),
        ("writable_paths", writing and writing.paths),
        ("writable_below", writing and writing.below),
    ]
    return rows + [
        (
            f"notes.{key} (and)",
            value if isinstance(value, str) else list(value),
            _origin(found, f"notes.{key}"),
        )
        for key, value in outer
        if value
    ]


def _find_origin(found: FoundPolicy, key: str) -> str:
    if key == "mode" and found.read_only:
        return READ_ONLY_VARIABLE
    name = found.policy.profile
    keys = [] if name and key.startswith(_BOTH) else [key]  # then the policy's has a row of its own
    keys += [f"profiles.{name}.{key}"] if name else []
    said = [one for one in (_origin(found, each) for each in keys) if one != _DEFAULT]
    return " and ".join(dict.fromkeys(said)) or _DEFAULT


def _origin(found: FoundPolicy, key: str) -> str:
    if found.path is None or key not in found.lines:
        return _DEFAULT
    line = found.lines[key]
    return f"{found.path.name}, line {line}" if line else found.path.name


def explain(config: Config, named: str, tool: str) -> dict[str, Any]:
    """Return the rules for a note, named by id or words, and this tool as JSON values.

    They are what the database knows: it has no words of notes that are hidden.
    """
    return _add_verdict(_explain_note(config, named) | _explain_tool(config.policy, tool))


def _explain_note(config: Config, note_id: str) -> dict[str, Any]:
    rules = config.policy.visibility
    facts: dict[str, Any] = {"note": note_id, "state": "unknown", "rule": None, "visible": None}
    if not isinstance(inspection.verdict(config), Open):
        remark = "There is no cache that could be asked."
        return facts | _explain_id(config, note_id) | {"remark": remark}
    with closing(opener.open_cache(config, read_only=True)) as opened:
        cache = Cache(opened.database, rules.stored)
        judge = VisibilityFilter(opened.database, rules)
        note_id = facts["note"] = find_recorded(
            note_id, cache.notes.names.all(), audit_keys(opened.data_key).note
        )
        if not cache.notes.visibility.matches_index:
            facts["remark"] = "The cache is kept under other rules until a server is restarted."
        hidden = cache.database.row("SELECT rule FROM hidden_notes WHERE id = ?", (note_id,))
        if hidden is not None:
            return facts | {"state": "hidden", "rule": hidden[0], "visible": False}
        note, several = cache.notes.get(note_id), ""
        if note is None:
            note, several = _find_by_words(cache, note_id)
        if note is not None:
            base = cache.notes.base(note.id)
            rule = None if base is None else judge.find_rule(base)
            found = {"rule": rule, "visible": rule is None}
            if config.policy.writing.permits(note.id, note.tags, inside=None):
                if not config.policy.writing.permits(note.id, note.tags):
                    facts["remark"] = (
                        "Whether it may be changed depends on where it stands at that moment (writable_below)."
                    )
            else:
                found |= {"writable": False}
            shown = {"note": note.id, "title": note_title(note.title, note.text)}
            return facts | shown | {"state": "in the cache"} | found
        complete = read_status(cache).complete
        remark = (
            "There is no note with this id, title or words."
            if complete
            else "Not all notes have been loaded yet."
        )
        remark = several or remark
        facts |= {"remark": facts.get("remark", remark)}
        named = judge.names.find_rule(note_id, None)
        if named is not None:
            return facts | {"rule": f'hidden_ids "{named}"', "visible": False}
        return facts | _explain_id(config, note_id)


def _find_by_words(cache: Cache, words: str) -> tuple[Note | None, str]:
    """Return the note that alone is called so, or else has these words; and of several what to do."""
    called = note_lookup.find_called(cache.database, words, titles=True)
    if len(called) == 1:
        return cache.notes.get(called[0]), ""
    for query in with_trash_last(with_all_words(parser.parse(words))):
        found = cache.search.find_words(query, limit=MOST_COMPARED)
        if found.total:
            break
    titled = [one for one in found.notes if same_title(one, words)]
    alone = titled if len(titled) == 1 else found.notes[: found.total == 1]
    if alone or not found.total:
        return (cache.notes.get(alone[0].id) if alone else None), ""
    named = ", ".join(
        f"{one_line(note_title(one.title, one.head))} ({one_line(one.id)})"
        for one in (titled or found.notes)[:_MOST_NAMED]
    )
    return None, f"{found.total:,} notes have these words. Give the id of one: {named}"


def _explain_id(config: Config, note_id: str) -> dict[str, Any]:
    rule = config.policy.visibility.hidden_by_name(note_id)
    return {} if rule is None else {"rule": rule, "visible": False}


def _explain_tool(policy: Policy, tool: str) -> dict[str, Any]:
    actions = ACTIONS if tool == "manage" else (None,)
    refused = {}
    for action in actions:
        try:
            policy.require_use(tool, action)
        except NotPermitted as error:
            refused[action or tool] = error.message
    return {
        "tool": tool,
        "offered": tool in policy.tools,
        "permitted": [
            name for name in (action or tool for action in actions) if name not in refused
        ],
        "refused": refused,
    }


def _describe(facts: dict[str, Any]) -> list[str]:
    title = f" ({facts['title']})" if facts.get("title") else ""
    note = one_line(f"{facts['note']}{title}")
    lines = {
        True: [f"Note {note} can be seen by agents."],
        False: [f"Note {note} is hidden by {facts['rule']}."],
        None: [f"Note {note} is not in the cache."],
    }[facts["visible"]]
    lines += [facts["remark"]] if "remark" in facts else []
    return [*lines, facts["verdict"]]


def _add_verdict(facts: dict[str, Any]) -> dict[str, Any]:
    """Add whether an agent may use the tool on this note, in one sentence."""
    tool, refused = facts["tool"], facts["refused"]
    permitted = facts["permitted"] if facts["offered"] else []
    if not permitted:
        allowed, why = False, next(iter(refused.values()), "it is not offered to agents")
        verdict = f"Verdict: no. `{tool}` is refused: {why.rstrip('.')}."
    elif facts["visible"] is False:
        allowed = False
        verdict = f"Verdict: no. For `{tool}` there is no such note: it is hidden from agents."
    elif facts.get("writable") is False and tool == "save":
        allowed, verdict = False, "Verdict: no. Agents may only read this note."
    elif facts["visible"] is None:
        allowed, verdict = (
            None,
            f"Verdict: unknown. `{tool}` is permitted, and the note is not known here.",
        )
    else:
        but = f", but not {listed([f'`{one}`' for one in refused])}" if refused else ""
        but += ", and only read it" if facts.get("writable") is False and tool == "manage" else ""
        allowed, verdict = True, f"Verdict: yes. An agent may use `{tool}` on this note{but}."
    return facts | {"allowed": allowed, "verdict": verdict}


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


COMMANDS = {"policy": (add_arguments, run)}
