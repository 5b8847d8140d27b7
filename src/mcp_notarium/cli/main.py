"""Run the command line: find the command, call its module, render errors.

A command's module is imported only when it is called. Its ``COMMANDS`` hold by name the function that adds
the command's arguments to a parser, and the one that runs it. Data goes to stdout, messages to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

from mcp_notarium import __version__, logs
from mcp_notarium.cli import signals, standard_streams
from mcp_notarium.config.accounts import ONLY
from mcp_notarium.errors import NotariumError
from mcp_notarium.logs.redaction_rules import several_lines
from mcp_notarium.logs.redactor import describe

USAGE_EXIT = 2
BROKEN_PIPE_EXIT = 141


AddArguments = Callable[[argparse.ArgumentParser], None]
RunCommand = Callable[[argparse.Namespace], int]


class Command(NamedTuple):
    """Describe a command: its module, and its summary for ``--help``."""

    module: str
    summary: str


COMMANDS = {
    "setup": Command("setup", "set up an account and the assistants that use it"),
    "install": Command("install", "add the server to MCP clients"),
    "uninstall": Command("install", "take the server out of MCP clients"),
    "serve": Command("serve", "serve an MCP client on stdin and stdout (the default)"),
    "login": Command("login", "log in to the note store"),
    "logout": Command("login", "remove the stored login"),
    "status": Command("status", "show the state of the cache"),
    "doctor": Command("doctor", "check configuration, keys, cache and network"),
    "rotate-key": Command("rotate_key", "change the passphrase of the cache"),
    "keys": Command("keys", "list, add and remove the keys that open the cache"),
    "keychain": Command("keys", "let the system's keychain open the cache"),
    "generate-key": Command("generate_key", "make a new random key"),
    "migrate-plaintext": Command("cache", "encrypt an unencrypted cache"),
    "policy": Command("policy", "show, check and explain what agents may see and do"),
    "purge": Command("cache", "destroy the local cache permanently"),
    "repair": Command("cache", "recover what can be read of a damaged cache"),
    "restore": Command("cache", "put a copy of the local notebook back"),
    "reset-cache": Command("cache", "empty the cache and load it again"),
    "history": Command("history", "list the versions of a note"),
    "diff": Command("history", "show what changed between two versions of a note"),
    "restore-version": Command("history", "save the text of an older version again"),
    "undo": Command("history", "take back the last change to a note"),
    "export": Command("transfer", "write all notes to a folder of Markdown, JSON or a zip file"),
    "import": Command("transfer", "take the notes of an export into this account"),
    "audit": Command("audit", "verify, show and export the audit log"),
}


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code; never raises an error of ours."""
    try:
        with signals.stop_on_signals(), standard_streams.usable_streams():
            code = _dispatch(list(arguments))
    except SystemExit as leaving:  # argparse: --help is 0, a wrong command line is 2
        code = leaving.code if isinstance(leaving.code, int) else USAGE_EXIT
    except KeyboardInterrupt as interrupt:
        _say(f"\n{signals.describe_interruption()}")
        code = signals.exit_code(interrupt)
    except BrokenPipeError:
        code = BROKEN_PIPE_EXIT
    except NotariumError as error:
        code = _show(error)
    except Exception as error:  # noqa: BLE001 - the last resort: no trace with values on a screen
        code = _show_unexpected(error)
    _leave_streams()
    return code


class _Parser(argparse.ArgumentParser):
    """Report errors of the command line like all others: they may repeat what was typed."""

    def error(self, message: str) -> NoReturn:
        from mcp_notarium import config  # noqa: PLC0415 - only where something is wrong

        logs.protect(*config.secrets_here())
        self.print_usage(sys.stderr)
        _say(f"{self.prog}: error: {message}")
        raise SystemExit(USAGE_EXIT)


def _dispatch(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.print_config_vars:
        from mcp_notarium.cli import print_config_vars  # noqa: PLC0415 - as for every command

        return print_config_vars.run(options)
    if options.json:
        _parser().error("--json here requires --print-config-vars")
    command = COMMANDS.get(options.command)
    if command is None:
        _parser().error(f"unknown command {options.command!r}; see mcp-notarium --help")
    found: dict[str, tuple[AddArguments, RunCommand]] = import_module(
        f"mcp_notarium.cli.{command.module}"
    ).COMMANDS
    add_arguments, run_command = found[options.command]
    return run_command(_parse_command(options, add_arguments, command))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mcp-notarium",
        description="MCP server for your notes, with an encrypted local cache.",
        epilog="commands:\n"
        + "\n".join(f"  {name:<19}{command.summary}" for name, command in COMMANDS.items())
        + "\n\nWithout a command it serves. `mcp-notarium COMMAND --help` tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mcp-notarium {__version__}")
    parser.add_argument(
        "--print-config-vars",
        action="store_true",
        help="list every variable, its value (secrets masked) and where it came from",
    )
    parser.add_argument("--json", action="store_true", help="with --print-config-vars: as JSON")
    _add_sources(parser)
    parser.add_argument("command", nargs="?", default="serve", metavar="COMMAND", help="see below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _parse_command(
    options: argparse.Namespace, add_arguments: AddArguments, command: Command
) -> argparse.Namespace:
    parser = _Parser(
        prog=f"mcp-notarium {options.command}",
        description=command.summary[0].upper() + command.summary[1:] + ".",
        allow_abbrev=False,
    )
    _add_sources(parser)
    add_arguments(parser)
    parser.set_defaults(env_file=options.env_file, account=options.account)
    return parser.parse_args(options.rest)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env-file",
        type=Path,
        metavar="PATH",
        help="file with variables, read instead of a .env in the working folder",
    )
    parser.add_argument(
        "--account",
        default=ONLY,
        metavar="NAME",
        help="the account to use, of those that `setup` has made (default: the only one)",
    )


def _show(error: NotariumError) -> int:
    _say(f"mcp-notarium: {error.message}")
    if error.resolution_hint:
        _say(f"→ {error.resolution_hint}")
    return error.exit_code


def _show_unexpected(error: Exception) -> int:
    described = describe(error)
    _say(f"mcp-notarium: unexpected {described['type']}: {described['message']}")
    for frame in described.get("frames", [])[-3:]:
        _say(f"  at {frame}")
    _say("→ This is a fault in the program; please report it with the lines above.")
    return 1


def _say(text: str) -> None:
    line = several_lines(logs.scrub(text)) + "\n"
    with suppress(OSError, ValueError):
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
