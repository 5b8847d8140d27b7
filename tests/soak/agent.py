"""Run an agent that reads and writes notes with all four tools, through a server that may be killed."""

from __future__ import annotations

import json
import random
from typing import Any

from soak.account import Account, Client, Gone
from soak.actor import Actor
from soak.promises import TOKEN

WORDS = [
    "harbour",
    "lantern",
    "ledger",
    "meadow",
    "orchard",
    "pebble",
    "quarry",
    "ribbon",
    "saddle",
    "timber",
]
NEVER = {"locked", "damaged", "disk_full", "other_account", "remote_vanished", "policy_changed"}
"""Refusals for which nothing in a run gives a reason."""
LARGEST = 30_000
"""Characters from which on a note is not lengthened any more."""


class Agent(Actor):
    """One client with its server. ``visit``: so many calls, then it leaves and comes back later."""

    def __init__(
        self, account: Account, name: str, seed: str, *, visit: int = 0, steady: bool = False
    ) -> None:
        super().__init__(name)
        self.client: Client | None = None
        self.steady = steady
        self._account = account
        self._promises = account.promises
        self._dice = random.Random(f"{seed} {name}")
        self._visit = visit
        self._known: dict[str, dict[str, Any]] = {}
        self._logins = 0
        self._doings = [
            (self._list, 12),
            (self._get, 16),
            (self._create, 8),
            (self._append, 22),
            (self._insert, 12),
            (self._replace_line, 8),
            (self._from_memory, 8),
            (self._tag, 5),
            (self._trash, 5),
            (self._delete, 2),
            (self._stats, 2),
        ]

    def act(self) -> None:
        """Until the run is over; then the server stays, for whoever looks at it."""
        while not self._account.over.is_set():
            self._one_client()

    def _one_client(self) -> None:
        self._logins = self._account.logins
        try:
            with self._account.opening():
                self.client = Client(self._account, self.name)
                self.client.open()
            self._work()
        except Gone:
            pass
        if self._account.over.is_set() and self.client.process.poll() is None:
            return
        leaving, self.client = self.client, None
        leaving.end()
        if self._visit:
            self._account.pause(self._dice.uniform(0.5, 4.0))

    def _work(self) -> None:
        doings, weights = zip(*self._doings, strict=True)
        calls = 0
        while not self._account.over.is_set():
            if self._visit and calls >= self._visit:
                return
            if self._logins < self._account.logins and not self.steady:
                return  # its configuration has an old password
            calls += 1
            self._dice.choices(doings, weights)[0]()
            self._account.pause(self._dice.random() * 0.08)

    def _ask(self, tool: str, /, **arguments: Any) -> dict[str, Any] | None:
        """The answer; None if it was refused, which is counted by its kind."""
        assert self.client is not None
        result = self.client.result(tool, **arguments)
        if not result.get("isError"):
            return result["structuredContent"]
        error = json.loads(result["content"][0]["text"])
        kind = error.get("subcategory") or error["category"].lower()
        self._account.count(f"refused: {kind}")
        if kind in NEVER or error["category"] == "INTERNAL":
            self._promises.complain(f"{self.name}: {tool} was refused with {error}")
        return None

    # Reading

    def _list(self) -> None:
        dice = self._dice
        ways: list[dict[str, Any]] = [
            {},
            {"trash_status": 2, "limit": 50},
            {"query": dice.choice(WORDS)},
            {"query": f"{dice.choice(WORDS)} -{dice.choice(WORDS)} trash:any"},
            {"query": dice.choice(WORDS)[:3] + "*", "page": 2},
            {"sort_by": "created_at", "sort_order": "ASC", "preview_lines": 3},
        ]
        answer = self._ask("list", **dice.choice(ways))
        for row in answer["content"] if answer else ():
            self._known.setdefault(row["uuid"], {})

    def _get(self) -> dict[str, Any] | None:
        """Some note as it is here now."""
        if not self._known:
            self._list()
        if not self._known:
            return None
        note_id = self._dice.choice(list(self._known))
        note = self._ask("get", id=note_id)
        if note is None or note.get("text_is_partial"):
            self._known.pop(note_id, None)
            return None
        self._known[note_id] = note
        return note

    def _stats(self) -> None:
        self._ask("manage", action="get_stats")

    # Writing

    def _line(self, token: str) -> str:
        return " ".join([token, *self._dice.choices(WORDS, k=self._dice.randrange(1, 7))])

    def _create(self) -> None:
        token = self._promises.token(creates=True)
        body = "\n".join(" ".join(self._dice.choices(WORDS, k=6)) for _ in range(12))
        text = f"{self._line(token)}\n{body}\n"
        answer = self._ask("save", text=text, tags=["soak"], return_text=True)
        self._kept(token, answer)

    def _save(self, token: str, note: dict[str, Any], **changes: Any) -> None:
        about = {"id": note["id"], "local_version": note["local_version"]}
        answer = self._ask("save", confirm=True, return_text=True, **about | changes)
        self._kept(token, answer)

    def _kept(self, token: str, answer: dict[str, Any] | None) -> None:
        if answer is None:
            return
        self._promises.saved(token, answer["id"])
        self._promises.told(answer["id"], answer["local_version"])
        self._account.count("acknowledged writes")
        for what in ("merged", "conflict_copy_id"):
            if answer.get(what):
                self._account.count({"merged": "merges"}.get(what, "conflict copies"))
        if token in answer["text"] or token in answer["tags"]:
            self._known[answer["id"]] = answer
        elif not answer.get("text_is_partial") and not answer.get("conflict_copy_id"):
            self._promises.not_shown(token, answer["id"], answer["local_version"])

    def _append(self) -> None:
        note = self._get()
        if note is None or len(note["text"]) > LARGEST:
            return
        token = self._promises.token()
        at_end = self._dice.random() < 0.5
        self._save(token, note, **{"append" if at_end else "prepend": self._line(token)})

    def _insert(self) -> None:
        note = self._get()
        if note is None or len(note["text"]) > LARGEST:
            return
        self._insert_into(note)

    def _insert_into(self, note: dict[str, Any]) -> None:
        token, lines = self._promises.token(), _lines(note["text"])
        lines.insert(self._dice.randrange(1, len(lines) + 2), self._line(token))
        self._save(token, note, text="\n".join(lines) + "\n")

    def _replace_line(self) -> None:
        """Take one line away, with its token, and put another one there."""
        note = self._get()
        lines = _lines(note["text"]) if note else []
        if note is None or len(lines) < 3:
            return
        number, token = self._dice.randrange(1, len(lines)), self._promises.token()
        self._promises.going_to_remove(TOKEN.findall(lines[number]))
        patch = [
            {"operation": "modification", "line_number": number + 1, "value": self._line(token)}
        ]
        self._save(token, note, text_patch=patch)

    def _from_memory(self) -> None:
        """Change a note as it was read a while ago: merged where that can be, else refused."""
        read = [note for note in self._known.values() if note and len(note["text"]) < LARGEST]
        if read:
            self._insert_into(self._dice.choice(read))

    def _tag(self) -> None:
        note = self._get()
        if note is not None and len(note["tags"]) < 20:
            token = self._promises.token()
            self._save(token, note, tags=[*note["tags"], token])

    def _trash(self) -> None:
        note = self._get()
        if note is None:
            return
        trash = not note["trash"]
        answer = self._ask(
            "manage",
            action="trash" if trash else "untrash",
            id=note["id"],
            local_version=note["local_version"],
        )
        if answer is not None:
            self._promises.trashed(note["id"], trash=trash)
            self._account.count("acknowledged writes")

    def _delete(self) -> None:
        """For good, what lies in the trash: everything of it that was seen here goes."""
        note = self._get()
        if note is None or not note["trash"]:
            return
        seen = "\n".join([note["text"], *note["tags"]])
        self._promises.going_to_remove(TOKEN.findall(seen))
        answer = self._ask(
            "manage",
            action="delete_permanently",
            id=note["id"],
            local_version=note["local_version"],
            confirm=True,
        )
        if answer is not None:
            self._known.pop(note["id"], None)
            account = self._account
            self._promises.removed(note["id"], account.truth() if account.has_service else {})
            self._account.count("acknowledged writes")


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
