"""Complete commands and options in bash, zsh and fish, with argcomplete.

The shell starts this program at each Tab, with the line typed so far in ``COMP_LINE``.
"""

from __future__ import annotations

import argparse
import os
import sys

from argcomplete.finders import CompletionFinder
from argcomplete.shell_integration import shellcode

from mcp_notarium.cli import main

_PROGRAM = "mcp-notarium"
_LINES = {
    "bash": 'eval "$(mcp-notarium completion bash)"     # in ~/.bashrc',
    "zsh": 'eval "$(mcp-notarium completion zsh)"     # in ~/.zshrc, behind compinit',
    "fish": "mcp-notarium completion fish | source     # in ~/.config/fish/config.fish",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name of the shell."""
    parser.add_argument("shell", choices=tuple(_LINES), help="; ".join(_LINES.values()))


def run(args: argparse.Namespace) -> int:
    """Print the code that the shell has to run."""
    sys.stdout.write(shellcode([_PROGRAM], shell=args.shell) + "\n")
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
    CompletionFinder()(parser)
    return 0


COMMANDS = {"completion": (add_arguments, run)}
