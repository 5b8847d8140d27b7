"""Let everything finish after a run, and compare it with the note service."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

from soak.account import Account, Client, Gone

MOST_SECONDS = 150.0
"""Seconds within which everybody agrees once nothing is wrong any more."""
OURS = re.compile(
    r"notarium_cache\.[0-9a-f]{16}\.sqlite\.encrypted(-wal|-shm)?|notarium_keys\.json(\.bak)?"
    r"|(keys|server|sync|policy)\.lock|audit_anchor\.json"
)
"""What may lie in the folder of an account when everybody has left."""
OURS_OF_A_NOTEBOOK = re.compile(rf"{OURS.pattern}|copies(\.lock)?|quarantine")


def shown(client: Client) -> dict[str, tuple[Any, ...]]:
    """Every note that the server lists, with its text, tags and whether it is in the trash."""
    found: dict[str, tuple[Any, ...]] = {}
    page: int | None = 1
    while page is not None:
        answer = _content(client, "list", trash_status=2, limit=100, page=page)
        for row in answer["content"]:
            note = _content(client, "get", id=row["uuid"])
            found[row["uuid"]] = (note["text"], sorted(note["tags"]), note["trash"])
        page = answer.get("next_page")
    return found


def _content(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """An answer without an error, else an empty one."""
    result = client.result(tool, **arguments)
    nothing = {"content": [], "text": None, "tags": [], "trash": None, "pending_writes": None}
    return nothing if result.get("isError") else result["structuredContent"]


def truth(account: Account) -> dict[str, tuple[Any, ...]]:
    """The same where the notes live."""
    return {
        note_id: (note["content"], sorted(note["tags"]), bool(note["deleted"]))
        for note_id, note in account.truth().items()
    }


def differences(here: dict[str, Any], there: dict[str, Any]) -> list[str]:
    """The ids of notes that are not the same on both sides, with what is wrong."""
    return [
        f"{note_id}: "
        + ("missing" if note_id not in here else "too much" if note_id not in there else "other")
        for note_id in sorted(here.keys() | there.keys())
        if here.get(note_id) != there.get(note_id)
    ]


def agree(account: Account, client: Client) -> None:
    """Wait until the server shows what the service has, and nothing is unfinished.

    A kill that was under way when the run ended may have hit the server: then there is nothing to ask.
    """
    deadline = time.monotonic() + MOST_SECONDS
    while True:
        try:
            odd = differences(shown(client), truth(account))
            stats = _content(client, "manage", action="get_stats")["stats"]
        except Gone:
            if not client.killed:
                account.promises.complain(f"{client.name} ended at rest {client.last_words()}")
            return
        if not odd and stats["pending_writes"] == 0:
            return
        if time.monotonic() > deadline:
            account.promises.complain(
                f"{client.name} does not show what the service has: {odd[:5]}, pending writes: "
                f"{stats['pending_writes']}, sync: {stats.get('sync_state')}, "
                f"{stats.get('sync_last_error')}"
            )
            return
        time.sleep(0.5)


def close(account: Account, clients: Iterable[Client]) -> None:
    """Everybody leaves; the folder, the chain and a new beginning are looked at."""
    for client in clients:
        client.end()
    _succeed(account, "audit", "verify")
    exported = _succeed(account, "audit", "export")
    for what in unrecorded(exported.splitlines(), account.promises.acts):
        account.promises.complain(what)
    account.judge()
    _succeed(account, "rotate-key", "--reencrypt")
    if not account.has_service:
        _succeed(account, "restore", "--make")
        _succeed(account, "restore", "--yes")
        account.judge()
    _succeed(account, "audit", "verify")
    ours = OURS if account.has_service else OURS_OF_A_NOTEBOOK
    unknown = [path.name for path in account.cache.iterdir() if not ours.fullmatch(path.name)]
    if unknown:
        account.promises.complain(f"left in the folder: {', '.join(sorted(unknown))}")
    last = Client(account, "the last server")
    try:
        last.open()
        agree(account, last)
    except Gone:
        account.promises.complain(f"the last server ended {last.last_words()}")
    last.end()


def _succeed(account: Account, *arguments: str) -> str:
    done = account.run(*arguments)
    if done.returncode:
        what = f"`{' '.join(arguments)}` ended with {done.returncode} at the end: "
        account.promises.complain(what + done.stdout[-400:] + done.stderr[-400:])
    return done.stdout


def unrecorded(exported: Iterable[str], acts: Counter[str]) -> list[str]:
    """Acts that were said to be done, and how many of them the exported chain does not have.

    An outcome may be missing where the server was killed before it found room for it: then the record
    from before the act stands there without one.
    """
    records = [json.loads(line) for line in exported]
    records = [one for one in records if one.get("act", "").startswith(("tool.save", "tool.man"))]
    finished = {one["refers"] for one in records if one["outcome"]}
    begun = [one["number"] for one in records if not one["outcome"] and not one["refers"]]
    left_open = sum(number not in finished for number in begun)
    done = Counter(note for one in records if one["outcome"] == "ok" for note in one["notes"])
    missing = {note: count - done[note] for note, count in acts.items() if count > done[note]}
    if sum(missing.values()) <= left_open:
        return []
    return [f"{sum(missing.values())} acts are not on record, of notes {sorted(missing)[:5]}"]
