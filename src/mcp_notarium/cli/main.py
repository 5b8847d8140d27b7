"""Run the command line: find the command, call its module, render errors.

A command's module is imported only when it is called. Its ``COMMANDS`` hold by name the function that adds
the command's arguments to a parser, and the one that runs it. Data goes to stdout, messages to stderr.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from mcp_notarium import __version__, config, logs
from mcp_notarium.cli import signals, terminal
from mcp_notarium.config.accounts import ONLY
from mcp_notarium.errors import NotariumError
from mcp_notarium.logs.redaction import describe, several_lines
from mcp_notarium.sandbox import confinement

USAGE_EXIT = 2
BROKEN_PIPE_EXIT = 141


AddArguments = Callable[[argparse.ArgumentParser], None]
RunCommand = Callable[[argparse.Namespace], int | Coroutine[Any, Any, int]]


class Command(NamedTuple):
    """Describe a command: its module, its summary for ``--help``, and what it does if no action is named."""

    module: str
    summary: str
    usual: str = ""


GROUPS = {
    "Begin": {
        "setup": Command("setup", "set up an account and the assistants that use it"),
        "install": Command("install", "add the server to MCP clients"),
        "uninstall": Command("install", "take the server out of MCP clients"),
        "login": Command("login", "log in to the note store"),
        "logout": Command("login", "remove the stored login"),
        "accounts": Command("accounts", "list the accounts, and choose the default one", "list"),
        "completion": Command("completion", "let the shell complete commands and options"),
    },
    "Notes": {
        "list": Command("notes", "list the newest notes"),
        "search": Command("notes", "find notes by words, tags and dates"),
        "show": Command("show", "show a note"),
        "new": Command("edit", "write a new note in your editor"),
        "edit": Command("edit", "change a note in your editor"),
        "sync": Command("notes", "bring the notes in step with the store now"),
        "history": Command("history", "list the versions of a note"),
        "diff": Command("history", "show what changed between two versions of a note"),
        "undo": Command("history", "take back the last change to a note"),
        "restore-version": Command("history", "save the text of an older version again"),
        "export": Command(
            "transfer", "write all notes to a folder of Markdown, JSON or a zip file"
        ),
        "import": Command("transfer", "take the notes of an export into this account"),
    },
    "What is going on": {
        "watch": Command("watch", "see what assistants do now, and answer what waits for you"),
        "status": Command("status", "show the account, its cache and its clients"),
        "doctor": Command("doctor", "check configuration, keys, cache and network"),
        "refused": Command("refused_writes", "show the texts that the note store refused for good"),
        "approve": Command("approve", "decide about what assistants may not do without you"),
        "audit": Command("audit", "verify, show and export the audit log", "tail"),
        "report": Command("report", "write a page of what assistants did with your notes"),
        "policy": Command("policy", "show, check and explain what agents may see and do", "show"),
    },
    "Keys": {
        "keys": Command("keys", "list, add and remove the keys that open the cache", "list"),
        "rotate-key": Command("rotate_key", "change the passphrase of the cache"),
        "keychain": Command("keys", "let the system's keychain open the cache"),
        "generate-key": Command("new_key", "make a new random key"),
    },
    "Cache": {
        "repair": Command("cache", "recover what can be read of a damaged cache"),
        "backup": Command("backups", "write what cannot be fetched again to one encrypted file"),
        "restore": Command(
            "backups", "put a backup, its key file, or a copy of the local notebook back"
        ),
        "reset-cache": Command("cache", "empty the cache and load it again"),
        "purge": Command("cache", "destroy the local cache permanently"),
    },
    "Server": {
        "serve": Command("serve", "serve an MCP client on stdin and stdout"),
    },
}
COMMANDS = {name: one for group in GROUPS.values() for name, one in group.items()}
_WORDS: dict[str, Callable[[list[str]], list[str]]] = {
    "help": lambda rest: [*rest[:1], "--help"],
    "version": lambda _rest: ["--version"],
}
"""Words that people type for an option."""
_SEARCHED = {"WORDS", "NOTE"}
"""Arguments that may be words to search for."""
_EXCLUDED = re.compile(r"-(?!-|n=?\d)\S")
_MEANT = {
    **dict.fromkeys(("find", "grep", "query", "lookup"), "search"),
    **dict.fromkeys(("ls", "dir", "notes", "recent"), "list"),
    **dict.fromkeys(("cat", "view", "open", "get", "read", "print"), "show"),
    **dict.fromkeys(("log", "versions"), "history"),
    **dict.fromkeys(("start", "run", "server"), "serve"),
    **dict.fromkeys(("init", "config", "configure"), "setup"),
    **dict.fromkeys(("check", "test", "health"), "doctor"),
    **dict.fromkeys(("auth", "signin"), "login"),
    **dict.fromkeys(("pull", "refresh", "update"), "sync"),
    "signout": "logout",
    "info": "status",
    "revert": "undo",
    **dict.fromkeys(("add", "create", "save"), "new"),
    **dict.fromkeys(("write", "modify"), "edit"),
}
"""The command that people mean by a name of other programs."""
_CHANGES = {"delete", "mv", "remove", "rm"}
"""Names of what only an assistant, or the program of the notes, does with a note."""


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code; never raises an error of ours."""
    try:
        with signals.stop_on_signals(), terminal.usable_streams():
            code = _dispatch(list(arguments))
    except SystemExit as leaving:  # argparse: --help is 0, a wrong command line is 2
        code = leaving.code if isinstance(leaving.code, int) else USAGE_EXIT
    except KeyboardInterrupt as interrupt:
        code = _tell_stop(interrupt)
    except BrokenPipeError:
        code = BROKEN_PIPE_EXIT
    except NotariumError as error:
        stop = signals.stop_behind(error)
        code = _show(error) if stop is None else _tell_stop(stop)
    except Exception as error:  # noqa: BLE001 - the last resort: no trace with values on a screen
        code = _show_unexpected(error)
    _leave_streams()
    return code


class _HelpFormatter(argparse.HelpFormatter):
    """Name the arguments in the usage, and not each option; break between words only."""

    def _format_usage(
        self, usage: str | None, actions: Iterable[argparse.Action], groups: Any, prefix: str | None
    ) -> str:
        parts = ["%(prog)s"] + ([] if prefix == "" else ["[OPTIONS]"])  # '': the name of an action
        for one in actions:
            if not one.option_strings:
                default = self._get_default_metavar_for_positional(one)
                parts.append(self._format_args(one, default))
        return super()._format_usage(usage or " ".join(parts), actions, groups, prefix)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return terminal.wrap(" ".join(text.split()), width)


class ListFormatter(_HelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Leave a list below the arguments as it is."""


class _Actions(argparse._SubParsersAction):  # type: ignore[type-arg]  # noqa: SLF001 - it has no public name
    """Show the summary of an action in its own help, too."""

    def add_parser(self, name: str, **options: Any) -> Any:
        """Add an action of a command."""
        return super().add_parser(name, description=_sentence(options["help"]), **options)


class _Parser(argparse.ArgumentParser):
    """Report errors of the command line like all others: they may repeat what was typed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"formatter_class": _HelpFormatter} | options))
        self.register("action", "parsers", _Actions)
        add_sources(self)

    def error(self, message: str) -> NoReturn:
        logs.protect(*config.secrets_here())
        self.print_usage(sys.stderr)
        _say(f"{self.prog}: error: {message}")
        raise SystemExit(USAGE_EXIT)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as usual, and suggest an option for one that is unknown."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            options = [one for action in self._actions for one in action.option_strings]
            typed = unknown[0].partition("=")[0]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{suggest(typed, options)}")
        return parsed

    def _parse_optional(self, arg_string: str) -> Any:
        """Take ``-word`` and ``-tag:x`` for what a search leaves out, where words are searched and no option is meant."""
        searches = any(one.metavar in _SEARCHED for one in self._get_positional_actions())
        options = self._option_string_actions
        excludes = _EXCLUDED.match(arg_string) and not {arg_string, f"-{arg_string}"} & {*options}
        return None if searches and excludes else super()._parse_optional(arg_string)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(one) for one in action.choices]
            raise argparse.ArgumentError(
                action, f"{value!r} is none of {', '.join(names)}{suggest(value, names)}"
            )


def suggest(typed: object, names: Iterable[str]) -> str:
    """Return the end of a message that asks whether one of these was meant; '' if none is like it."""
    near = difflib.get_close_matches(str(typed), list(names), 1)
    return f"; did you mean {near[0]}?" if near else ""


def _dispatch(arguments: list[str]) -> int:
    if "_ARGCOMPLETE" in os.environ:
        from mcp_notarium.cli import completion  # noqa: PLC0415 - as for every command

        return completion.complete()
    options = _parser().parse_args(arguments)
    confinement.harden_process()
    # defence: command-hides-secrets
    confinement.hide_secrets(*config.secret_names())  # before anything asks or works
    if options.print_config_vars:
        from mcp_notarium.cli import console  # noqa: PLC0415 - as for every command

        return console.print_variables(options)
    if options.json:
        _parser().error("--json here requires --print-config-vars")
    if options.command is None:  # at a terminal: without one the server runs
        from mcp_notarium.cli import accounts  # noqa: PLC0415 - as for every command

        _parser().print_help()
        sys.stdout.write("\n")
        return accounts.show_list()
    if options.command in _WORDS:
        return _dispatch(_WORDS[options.command](options.rest))
    command = COMMANDS.get(options.command)
    if command is None:
        _parser().error(f"unknown command {options.command!r}{_suggest_command(options.command)}")
    add_arguments, run_command = load_command(options.command)
    parsed = _parse_command(options, add_arguments, command)
    signals.end_by_exception()
    done = run_command(parsed)
    if isinstance(done, int):
        return done
    import asyncio  # noqa: PLC0415 - not every command waits

    return asyncio.run(done)


def _suggest_command(typed: str) -> str:
    """Return the end of a message about an unknown command: what was meant, or where to look."""
    name = typed.lower()
    if name in _CHANGES:
        return "; notes are deleted and moved by an assistant, or in the program that you write them with"
    if meant := _MEANT.get(name):
        return f"; did you mean {meant}?"
    return suggest(name, COMMANDS) or "; see mcp-notarium --help"


def load_command(name: str) -> tuple[AddArguments, RunCommand]:
    """Import the module of a command; return what adds its arguments, and what runs it."""
    module = COMMANDS[name].module
    found: dict[str, tuple[AddArguments, RunCommand]] = import_module(
        f"mcp_notarium.cli.{module}"
    ).COMMANDS
    return found[name]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mcp-notarium",
        usage="%(prog)s [OPTIONS] COMMAND ...",
        description="MCP server for your notes, with an encrypted local cache.",
        epilog=_command_list(),
        formatter_class=ListFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"mcp-notarium {__version__}")
    parser.add_argument(
        "--print-config-vars",
        action="store_true",
        help="list every variable, its value (secrets masked) and where it came from",
    )
    parser.add_argument("--json", action="store_true", help="with --print-config-vars: as JSON")
    parser.set_defaults(env_file=None, account=ONLY)
    parser.add_argument("command", nargs="?", metavar="COMMAND", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _command_list() -> str:
    width = shutil.get_terminal_size().columns - 2
    lines: list[str] = []
    for group, commands in GROUPS.items():
        lines += [f"{group}:"]
        for name, command in commands.items():
            lines += textwrap.wrap(
                command.summary, width, initial_indent=f"  {name:<19}", subsequent_indent=" " * 21
            )
    more = "`mcp-notarium COMMAND --help` tells more. A client starts the server without a command."
    return "\n".join([*lines, "", *textwrap.wrap(more, width)])


def _parse_command(
    options: argparse.Namespace, add_arguments: AddArguments, command: Command
) -> argparse.Namespace:
    parser = _Parser(
        prog=f"mcp-notarium {options.command}",
        description=_sentence(command.summary),
        allow_abbrev=False,
    )
    add_arguments(parser)
    parser.set_defaults(env_file=options.env_file, account=options.account)
    parsed, more = parser.parse_known_args(options.rest)
    words = options.rest
    if command.usual and parsed.action is None:
        words = [*(word for word in words if word not in more), command.usual, *more]
    whole: argparse.Namespace = parser.parse_args(words)
    return whole


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."


def add_sources(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the settings come from, to a command and to each of its actions."""
    parser.add_argument(
        "--env-file",
        type=terminal.typed_path,
        default=argparse.SUPPRESS,
        metavar="PATH",
        help="file with variables, read instead of a .env in the working folder",
    )
    parser.add_argument(
        "--account",
        default=argparse.SUPPRESS,
        metavar="NAME",
        help="the account to use, of those that `setup` has made (default: see `accounts default`, else the only one)",
    )


def _tell_stop(interrupt: KeyboardInterrupt) -> int:
    _say(f"\n{signals.describe_interruption()}")
    return signals.exit_code(interrupt)


def _show(error: NotariumError) -> int:
    # A person at a terminal needs their own addresses and paths as they are.
    clean = logs.scrub_for_terminal if sys.stderr.isatty() else logs.scrub_for_pipe
    _say(f"mcp-notarium: {terminal.name_account(error.message)}", clean)
    if error.person_hint:
        _say(f"→ {terminal.name_account(error.person_hint)}", clean)
    return error.exit_code


def _show_unexpected(error: Exception) -> int:
    described = describe(error)
    _say(f"mcp-notarium: unexpected {described['type']}: {described['message']}")
    for frame in described.get("frames", [])[-3:]:
        _say(f"  at {frame}")
    _say("→ This is a fault in the program; please report it with the lines above.")
    return 1


def _say(text: str, clean: Callable[[str], str] = logs.scrub_for_pipe) -> None:
    with suppress(OSError, ValueError):
        # defence: cli-errors-clean clean()
        line = terminal.fit(several_lines(clean(text)), sys.stderr) + "\n"
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def _leave_streams() -> None:
    """Flush the streams, silently if their reader has gone (`| head`, a closed terminal)."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # closed by who called us
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
