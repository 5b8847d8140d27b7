"""Show the remembered accounts, for whoever starts the program at a terminal without a command."""

from __future__ import annotations

import os
import sys

from mcp_notarium.cli import console, setup_key, terminal
from mcp_notarium.config import accounts
from mcp_notarium.errors import NotariumError
from mcp_notarium.files.locks import find_holders
from mcp_notarium.stores import registry


def run() -> int:
    """Print one line for each account, and what to do next. Opens nothing."""
    known = accounts.read_accounts(accounts.config_dir(os.environ))
    sys.stdout.write("\n")
    if not known:
        console.say("No account is remembered yet. Begin with `mcp-notarium setup`.", style="bold")
        return 0
    rows = []
    for one in known.values():
        try:
            folder = setup_key.account_folder(one)
            there = "ready" if folder.generations() else "not loaded yet"
            servers = len(find_holders(folder.server_lock))
        except NotariumError as error:
            there, servers = error.message, 0
        title = registry.kind(one.store).title
        rows.append((one.name, title, f"{there}, servers: {servers or 'none'}"))
    console.show([console.table(("Account", "Store", "State"), rows)])
    terminal.account = "NAME" if len(known) > 1 else ""
    console.say()
    console.say("`mcp-notarium status` tells more; `mcp-notarium search WORDS` finds notes.")
    return 0
