"""Start the program: serve directly with few imports; run all other commands through ``cli.main``.

A client waits for the handshake, so this file imports nothing that the server does not need.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    # ``python -m`` puts the working folder first in the module path, and anybody may own that folder.
    # The package is imported already and finds its own modules.
    del sys.path[0]  # defence: no-module-of-working-folder

import os
import signal
from collections.abc import Sequence

_INTERRUPTED = 130
_ENV_FILE, _ACCOUNT, _PROFILE = _OPTIONS = "--env-file", "--account", "--profile"
_TERMINAL_NOTICE = """\
This is an MCP server; it is usually started by an MCP client and now waits for one on stdin.
To stop it:     Ctrl+C
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run with ``argv`` (default: the process's arguments) and return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    serving = _parse_serve(arguments)
    terminal = os.isatty(0)
    try:
        if serving is None or "_ARGCOMPLETE" in os.environ or (terminal and not arguments):
            _leave_on_interrupt()
            from mcp_notarium.cli import main as cli  # noqa: PLC0415 - argparse, only for the commands

            return cli.run(arguments)
        notice = _TERMINAL_NOTICE if terminal else ""
        from mcp_notarium.protocol.server import serve  # noqa: PLC0415 - a command does not need the server

        return serve(
            env_file=serving.get(_ENV_FILE),
            account=serving.get(_ACCOUNT),
            profile=serving.get(_PROFILE, ""),
            notice=notice,
        )
    except KeyboardInterrupt:  # while modules were imported
        if serving is None:
            sys.stderr.write("\nInterrupted. Nothing was changed.\n")
        return _INTERRUPTED


def _leave_on_interrupt() -> None:
    """Let Ctrl+C end the process at once, until the command itself begins: nothing is changed before.

    An interruption in the middle of an import may be lost: Python only prints it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_at_once)


def leave_at_once(_number: int, _frame: object) -> None:
    """End the process; a handler of signals."""
    os.write(2, b"\nInterrupted. Nothing was changed.\n")
    os._exit(_INTERRUPTED)


def _parse_serve(arguments: list[str]) -> dict[str, str] | None:
    """Return ``--env-file PATH``, ``--account NAME`` and ``--profile NAME`` around ``[serve]``; None for anything else."""
    options: dict[str, str] = {}
    rest = list(arguments)
    commands = 0
    while rest:
        word = rest.pop(0)
        option, given, value = word.partition("=")
        if word in _OPTIONS and rest and not rest[0].startswith("-"):
            options[word] = rest.pop(0)
        elif option in _OPTIONS and given and value:
            options[option] = value
        elif word == "serve" and not commands:
            commands += 1
        else:
            return None
    return options


if __name__ == "__main__":
    sys.exit(main())
