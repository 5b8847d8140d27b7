"""Complete commands, options and accounts in bash, zsh and fish, with argcomplete.

The shell starts this program at each Tab, with the line typed so far in ``COMP_LINE``.
"""

from __future__ import annotations

import argparse
import os
import sys

from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from mcp_notarium.cli import main
from mcp_notarium.cli.terminal import typed_path
from mcp_notarium.config import accounts
from mcp_notarium.errors import NotariumError

_PROGRAM = "mcp-notarium"
_SHELLS = ("bash", "zsh", "fish")
_LINES = """\
Add the line of your shell to the file above it:
  ~/.bashrc
    eval "$(mcp-notarium completion bash)"
  ~/.zshrc, behind compinit
    eval "$(mcp-notarium completion zsh)"
  ~/.config/fish/config.fish
    mcp-notarium completion fish | source"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name of the shell, and what to do with the answer."""
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))
    parser.epilog, parser.formatter_class = _LINES, main.ListFormatter


def run(args: argparse.Namespace) -> int:
    """Print the code that the shell has to run."""
    code = shellcode([_PROGRAM], use_defaults=False, shell=args.shell)
    sys.stdout.write(code + "\n")
    return 0


def complete() -> int:
    """Answer one Tab. Only the module of the command in the line is imported."""
    words = os.environ.get("COMP_LINE", "").split()
    parser = argparse.ArgumentParser(prog=_PROGRAM, allow_abbrev=False)
    parser.add_argument("-V", "--version", action="store_true")
    parser.add_argument("--print-config-vars", action="store_true", help="list every variable")
    main.add_sources(parser)
    commands = parser.add_subparsers()
    for name, command in main.COMMANDS.items():
        added = commands.add_parser(name, help=command.summary)
        if name in words:
            main.add_sources(added)
            main.load_command(name)[0](added)
            _complete_values(added)
    _complete_values(parser)
    CompletionFinder()(parser)
    return 0


def _complete_values(parser: argparse.ArgumentParser) -> None:
    """Offer accounts for ``--account``, files for a path, and nothing for all else that has no choices."""
    for action in parser._actions:  # noqa: SLF001 - argcomplete's own way to the options
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for inner in action.choices.values():
                _complete_values(inner)
        elif action.dest in {"account", "account_name"}:
            action.completer = _account_names  # type: ignore[attr-defined]
        elif action.type is not typed_path and not action.choices:
            action.completer = _nothing  # type: ignore[attr-defined]


def _account_names(**_line: object) -> list[str]:
    try:
        return list(accounts.read_accounts(accounts.config_dir(os.environ)))
    except (NotariumError, RuntimeError):
        return []


def _nothing(**_line: object) -> list[str]:
    return []


COMMANDS = {"completion": (add_arguments, run)}
