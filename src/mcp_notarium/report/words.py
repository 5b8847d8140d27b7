"""Say in a person's words what the audit log names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from mcp_notarium.audit.chain import Decision
from mcp_notarium.report.activity import Result

RESULTS: Final = {
    Result.READ: "read",
    Result.CHANGED: "changed",
    Result.REFUSED: "refused",
    Result.FAILED: "failed",
    Result.UNSURE: "unsure",
}
TOOLS: Final = {
    "list": "look for notes",
    "get": "read a note",
    "save": "save a note",
    "manage.trash": "put a note into the trash",
    "manage.untrash": "take a note out of the trash",
    "manage.delete_permanently": "delete a note for good",
    "manage.pin": "pin a note",
    "manage.unpin": "unpin a note",
    "manage.history": "look at a note's versions",
    "manage.restore_version": "restore a version",
    "manage.undo": "take back a change",
    "manage.change": "change many notes",
    "manage.list_tags": "count tags",
    "manage.list_properties": "count properties",
    "manage.rename_tag": "rename a tag",
    "manage.find_duplicates": "look for duplicates",
    "manage.list_folders": "list folders",
    "manage.move_folder": "move a folder",
    "manage.find_problems": "look for broken links",
    "manage.get_stats": "ask for statistics",
    "manage.reset_cache": "empty the local copy",
    "resource.note": "read a note as a resource",
    "resource.version": "read a version as a resource",
    "resource.recent": "read the newest notes as a resource",
    "resource.tags": "read the tags as a resource",
    "resource.list": "list resources",
    "resource.subscribe": "follow a note",
    "resource.unknown": "ask for a resource that does not exist",
    "unknown": "call a tool that does not exist",
}
"""Acts of our own tools, by their names in the log; a store's own tools are shown by name."""
COMMANDS: Final = {
    "approve": "agree to what waited",
    "deny": "deny what waited",
    "list": "look for notes",
    "search": "look for notes",
    "show": "read a note",
    "new": "write a note",
    "edit": "edit a note",
    "history": "look at a note's versions",
    "diff": "compare versions of a note",
    "undo": "take back a change",
    "restore-version": "restore a version",
    "refused.show": "read what the note store refused",
    "refused.drop": "forget what the note store refused",
    "export": "export the notes",
    "import": "import notes",
    "login": "log in",
    "logout": "log out",
    "reset-cache": "empty the local copy",
    "audit.accept": "accept what the log lacks",
    "audit.export": "export the log",
}
"""Acts of the user's own commands, by their names in the log; others are shown as they are typed."""
DECISIONS: Final = {
    Decision.ASKED: "the assistant was told to ask you",
    Decision.CONFIRMED: "you agreed in a dialogue, the assistant's program says",
    Decision.APPROVED: "you agreed at a terminal",
    Decision.BY_ARGUMENT: "the assistant said that you agreed; there was no dialogue",
    Decision.DECLINED: "you declined",
    Decision.TIMED_OUT: "nobody answered in time",
}
REASONS: Final = {
    "policy": "your policy does not allow it",
    "confirmation_required": "it needs your consent, and there was none yet",
    "not_recorded": "it could not be recorded, so it was not done",
    "arguments": "the call had wrong arguments",
    "unknown_tool": "there is no such tool",
    "not_found": "there is no such note",
    "conflict": "the note had changed elsewhere",
    "validation": "the call did not fit the note or the store",
    "version": "the call named no version of the note that fits",
    "patch": "the edit did not fit the text",
    "section": "the note has no such section",
    "nothing_to_undo": "there was nothing to take back",
    "changed_since": "the note had changed since",
    "version_changed": "the note had changed since",
    "not_trashed": "the note was not in the trash",
    "name_taken": "the name was taken",
    "folder": "the folder did not fit",
    "too_large": "it was too large",
    "too_many": "it was too many at once",
    "read_only": "the note can only be read",
    "bad_answer": "the store's answer was not understood",
    "place_unusable": "the place of the notes could not be used",
    "query": "the search was not understood",
    "rollback_seen": "the local copy lacked what it had confirmed",
    "damaged": "the local copy was damaged",
    "locked": "the account was locked",
    "policy_changed": "the policy had changed since the server started",
    "configuration": "a setting was wrong",
    "settings_missing": "a setting was missing",
    "weak_passphrase": "the passphrase could be guessed",
    "slots": "the change of keys could lock somebody out",
    "unfinished": "its last steps failed",
    "in_doubt": "the store gave no answer, and may have done it",
    "cursor_lost": "the store wanted all notes to be listed again",
    "remote_vanished": "many notes were missing from the store at once",
    "clock": "this computer's clock is wrong",
    "title": "the title did not fit",
    "tag_name": "a tag did not fit",
    "inline_tags": "the tag stands in the text",
    "inherited_tags": "the tag comes from another note",
    "inherited_properties": "the property comes from another note",
    "label_value": "the tag has a value in the app",
    "label_passed_on": "the tag holds for the notes below as well",
    "no_tags": "the store has no tags",
    "no_titles": "the store has no titles",
    "no_trash": "the store has no trash",
    "no_folders": "the store has no folders",
    "no_property": "the store cannot keep that property",
    "read_only_property": "assistants cannot change that property",
    "front_matter": "the properties at the top of the note could not be read",
    "daily_settings": "the app's settings for daily notes could not be used",
    "attachment_folder": "the app's folder for attachments could not be used",
    "no_files": "the store keeps no files",
    "no_file": "there was no such file",
    "no_text": "the note has no text that can be read",
    "not_a_note": "what has the note's name is no note",
    "not_downloaded": "the file was in the cloud only",
    "in_use": "another program had the file open",
    "read_failed": "the system could not read the file",
    "no_column": "the app's file has no place for it",
    "has_children": "notes stand below the note",
    "formatting": "it would have lost formatting",
    "active_content": "it would have added content that acts by itself",
    "links_would_break": "it would have broken links",
    "tags": "the note's tags are in an unknown form",
    "labels": "the note's labels are in an unknown form",
    "type": "a note of this type cannot be made here",
    "template": "the template could not be used",
    "day": "the note of that day could not be used",
    "public": "the note would have become public",
    "auth": "the login was refused",
    "backend_api": "the store refused it",
    "db_operation": "the local copy could not be used",
    "internal": "the server had a fault of its own",
    "login_required": "the store wants a new login",
    "other_account": "the login is of another account",
    "unavailable": "the store could not be reached",
    "timeout": "the store did not answer in time",
    "rate_limit": "the store asked to slow down",
    "rejected": "the store refused the text",
    "busy": "another process held the local copy",
    "loading": "not all notes were here yet",
    "disk_full": "the disk was full",
    "cancelled": "the assistant's program took the call back",
    "declined": "you declined",
    "timed_out": "nobody answered in time",
}
OWN: Final = {
    "server.start": "servers started",
    "server.stop": "servers ended in order",
    "keys.changed": "keys were changed",
    "keys.restored": "an older key file was put back",
    "chain.begun": "the log was begun",
    "chain.carried": "the log was carried over into a new database",
    "chain.pruned": "old records were removed after their time",
    "chain.gap": "acts could not be recorded",
    "chain.cut": "records were missing when a server started",
}


KEYS: Final = {
    "passphrase": "a passphrase",
    "raw": "a random key",
    "keychain": "the keychain of this system",
    "recovery": "a recovery key on paper",
}


@dataclass(frozen=True, slots=True)
class Check:
    """Hold one check of ``doctor``: what was seen, and what to do."""

    name: str
    state: str
    """``ok``, ``warn``, ``bad``, or ``-``: it was not checked, and ``seen`` says why."""
    seen: str
    hint: str = ""


def size(count: int) -> str:
    """Return a number of bytes with its unit."""
    value, units = float(count), iter(("bytes", "kB", "MB", "GB"))
    unit = next(units)
    while value >= 999.5 and unit != "GB":  # noqa: PLR2004 - above it four digits are shown
        value, unit = value / 1000, next(units)
    return f"{value:,.0f} {unit}" if unit == "bytes" or value >= 10 else f"{value:,.1f} {unit}"  # noqa: PLR2004


def counted(count: int, one: str, many: str = "") -> str:
    """Return ``1 note``, ``2 notes``."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def listed(parts: Iterable[str]) -> str:
    """Return ``a, b and c``."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def age(seconds: float) -> str:
    """Return how long ago that is, for a person."""
    days = int(seconds // 86_400)
    if days < 1:
        return "today"
    if days < 60:  # noqa: PLR2004 - then months say more
        return f"{counted(days, 'day')} ago"
    if days < 730:  # noqa: PLR2004 - then years say more
        return f"{counted(days // 30, 'month')} ago"
    return f"{counted(days // 365, 'year')} ago"


def clock(moment: datetime) -> str:
    """Return day and time, as ``22 Nov 14:05``."""
    return f"{moment.day} {moment:%b %H:%M}"
