"""Hold the ways out of a refused start, for a person and for an agent. Pure text.

Words in braces are filled in from what was seen, see ``startup_outcomes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mcp_notarium.errors import ASK_DOCTOR, ONE_MORE_TRY, REINSTALL

OR_RESET = (
    " Or run `mcp-notarium reset-cache`: it moves the old cache to the quarantine and fills a new one "
    "from the note store."
)
RESET_IF_FETCHED = (
    " If the notes are at a note store, `mcp-notarium reset-cache` moves the old cache to the quarantine "
    "and fills a new one; if they are nowhere else, `mcp-notarium restore` puts a copy of them back."
)
"""The same, for who does not know where the notes are."""
_OR_BACKUP = " Or restore a backup: `mcp-notarium restore --backup PATH`."
BEGIN_AGAIN = f"Run{OR_RESET.removeprefix(' Or run')}{_OR_BACKUP}"
BEGIN_ANEW = RESET_IF_FETCHED.strip() + _OR_BACKUP
"""The same, for who does not know where the notes are."""
_WITHOUT_KEYS = (
    " If all are lost, `mcp-notarium reset-cache` moves the old cache to the quarantine and fills a new "
    "one, under the key that is configured then, from the note store."
)
_WITHOUT_COPIES = (
    " Without any copy, `mcp-notarium reset-cache` moves the old cache to the quarantine and fills a new "
    "one from the note store."
)
_REST_IS_FETCHED = f" The next sync fetches the rest.{OR_RESET}"
_PURGE_PLAIN = (
    "To encrypt it, run `mcp-notarium purge`, which removes it: the next start fills an encrypted one from the "
    "note store."
)
ENCRYPT = f"{_PURGE_PLAIN} Or keep the unencrypted one with DB_ENCRYPTION=off.{OR_RESET}"
_ONLY_COPY: Mapping[str, str] = MappingProxyType(
    {
        BEGIN_AGAIN: f"Put the newest copy of the notebook back: `mcp-notarium restore`.{_OR_BACKUP}",
        _WITHOUT_KEYS: " If all are lost, nobody can read the notes.",
        _WITHOUT_COPIES: " Without any copy, nobody can read the notes.",
        _REST_IS_FETCHED: " Or put a copy of the notebook back: `mcp-notarium restore`.",
        _PURGE_PLAIN: "To encrypt it, in this order: `mcp-notarium export PATH` with DB_ENCRYPTION=off takes the "
        "notes out, `mcp-notarium purge` removes it, `mcp-notarium import PATH` adds them to an encrypted one. PATH is "
        "not encrypted: remove it then.",
        OR_RESET: " Or put a copy of the notebook back: `mcp-notarium restore`.",
    }
)
"""Replaces these hints where the notes are in this database alone. Longer sentences come first."""
MAKE_KEY = (
    "Run `mcp-notarium setup` in a terminal: it makes a key and tells your clients where it is. Or run "
    "`mcp-notarium generate-key --file PATH` and set DB_ENCRYPTION_KEY_FILE=PATH in the client's configuration. "
    "DB_ENCRYPTION=off keeps the notes unencrypted instead."
)
STRONGER_KEY = (
    "Run `mcp-notarium generate-key --file PATH` and set DB_ENCRYPTION_KEY_FILE=PATH in the client's "
    "configuration instead. A passphrase has at least 15 characters that nobody would guess: four or "
    "five random words do. `mcp-notarium login --allow-weak` takes this one all the same."
)
GIVE_KEY = (
    "Give the key this cache was made with, as DB_ENCRYPTION_KEY or in the file named by "
    "DB_ENCRYPTION_KEY_FILE. If it is lost, `mcp-notarium rotate-key --ask-old` asks for the recovery "
    "key, or any other key of the cache, and puts a new one in its place." + _WITHOUT_KEYS
)
ANOTHER_KEY = (
    "{first}" + GIVE_KEY + " If the key was changed and this is the new one, an old "
    "`notarium_keys.json` may have been put back: `mcp-notarium restore --key-file PATH` puts a newer one there."
)
TYPE_AGAIN = (
    "If it is the recovery key, compare it with the paper and give it again: nine groups of four, with "
    "or without hyphens, large or small letters. "
)
UNLOCK_KEYCHAIN = (
    "Unlock the keychain and start again, or give the key in DB_ENCRYPTION_KEY or "
    "DB_ENCRYPTION_KEY_FILE of the client's server entry."
)
KEYCHAIN_AGAIN = (
    "Start the client in the session where that keychain runs, or set `keyring` back to it. Or give "
    "another key of the cache in DB_ENCRYPTION_KEY or DB_ENCRYPTION_KEY_FILE; "
    "`mcp-notarium keychain enable` then puts a new one into the keychain of today."
)
REINSTALL_DRIVER = f"{REINSTALL} `mcp-notarium doctor` shows which driver is loaded."
RESTORE = (
    "Put a copy of the key file back: `mcp-notarium restore --key-file PATH`, with a file that `mcp-notarium backup` "
    "has written, or a copy of `notarium_keys.json`." + _WITHOUT_COPIES
)
COPY_BACK = (
    "An old `notarium_keys.json` was put back, perhaps with a key that was exchanged for a reason. "
    "Run `mcp-notarium restore --key-file`: it puts the newer copy that lies beside it in its place, and "
    "keeps the old one in `quarantine/`."
)
KEY_FILE_BEHIND = "the key file is older than the one this database was last opened with"
PUT_NEWEST_BACK = (
    "An old copy of `notarium_keys.json` was put back, perhaps with a key that was exchanged for a "
    "reason. Put the newest one back with `mcp-notarium restore --key-file PATH`."
)
NEWEST_BACK = PUT_NEWEST_BACK + OR_RESET
REPAIR = "Run `mcp-notarium repair`: it saves what can be read into a new cache." + _REST_IS_FETCHED
COPY_OR_REPAIR = "{copy_back}" + REPAIR
REPAIR_OR_COPY = REPAIR + "{newest_copy}"
GO_BACK = "Go back to the release of MCP Notarium that you had before." + OR_RESET
UPDATE = "Update MCP Notarium the way you installed it." + OR_RESET
OTHER_ACCOUNT = (
    "Check the store and the account in the client's configuration. If the folder was copied here by mistake, "
    "move it out of the data folder; `mcp-notarium doctor` names it."
)
WAIT = "Wait a few seconds and try again; close other MCP clients, and `mcp-notarium watch`, if it stays like this."
UNREADABLE = "the database is damaged: it cannot be read, and that is not the key's fault"
SEE_STATUS = "Ask the user to run `mcp-notarium status`: it says what is missing, and the ways out."
_AGENT_GIVE_KEY = (
    "Ask the user to set DB_ENCRYPTION_KEY(_FILE) to the right key and to restart the client; "
    "`mcp-notarium doctor` helps if it is lost."
)
_AGENT_MAKE_KEY = (
    "Ask the user to run `mcp-notarium setup` in a terminal (or `mcp-notarium generate-key --file PATH`, and to set "
    "DB_ENCRYPTION_KEY_FILE=PATH) and to restart the client."
)
_AGENT_STRONGER_KEY = (
    "Ask the user to run `mcp-notarium generate-key --file PATH`, to set DB_ENCRYPTION_KEY_FILE=PATH in "
    "the client's configuration, and to restart the client."
)
_AGENT_REPAIR = "Ask the user to run `mcp-notarium repair` in a terminal and to restart the client."
_AGENT_HINTS: Mapping[str, str] = MappingProxyType(
    {
        MAKE_KEY: _AGENT_MAKE_KEY,
        STRONGER_KEY: _AGENT_STRONGER_KEY,
        GIVE_KEY: _AGENT_GIVE_KEY,
        ANOTHER_KEY: _AGENT_GIVE_KEY,
        TYPE_AGAIN + GIVE_KEY: _AGENT_GIVE_KEY,
        UNLOCK_KEYCHAIN: "Ask the user to unlock the keychain, if it is locked, and to restart the "
        "client; `mcp-notarium doctor` names other ways.",
        KEYCHAIN_AGAIN: "Ask the user to start the client in the session where that keychain runs; "
        "`mcp-notarium doctor` names other ways.",
        RESTORE: "Ask the user to put a copy of the key file back: `mcp-notarium restore --key-file PATH`; "
        "`mcp-notarium doctor` helps where there is none.",
        COPY_BACK: "Ask the user to run `mcp-notarium restore --key-file`, which puts the newer copy back.",
        NEWEST_BACK: "Ask the user to put the newest `notarium_keys.json` back: `mcp-notarium restore "
        "--key-file PATH`.",
        REPAIR: _AGENT_REPAIR,
        COPY_OR_REPAIR: SEE_STATUS,
        REPAIR_OR_COPY: _AGENT_REPAIR,
        GO_BACK: "Ask the user to go back to the release of MCP Notarium they had before; `mcp-notarium doctor` says "
        "more.",
        UPDATE: "Ask the user to update MCP Notarium; `mcp-notarium doctor` says more.",
        OTHER_ACCOUNT: "Ask the user to check the store and the account in the client's configuration; "
        "`mcp-notarium doctor` says more.",
        WAIT: ONE_MORE_TRY,
    }
)
"""Agent's hint by the user's hint: one way out, which deletes no file."""


def fit_hint(hint: str, *, only_copy: bool) -> str:
    """Return the hint without what is refused where the notes are in this database alone."""
    for sentence, instead in _ONLY_COPY.items() if only_copy else ():
        hint = hint.replace(sentence, instead)
    return hint


def agent_hint(hint: str) -> str:
    """Return the way out for an agent: one, which deletes no file."""
    return _AGENT_HINTS.get(hint, ASK_DOCTOR)
