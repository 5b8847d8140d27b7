"""Run another device of the account, which edits the newest text of the same notes and meets no faults."""

from __future__ import annotations

import random
import uuid

from soak.account import Account
from soak.actor import Actor
from soak.agent import LARGEST, WORDS
from soak.promises import TOKEN, tokens_in


class Elsewhere(Actor):
    """Edits until the run is over. ``pace``: the longest pause between two, in seconds."""

    def __init__(self, account: Account, seed: str, *, pace: float) -> None:
        super().__init__("elsewhere")
        self._account = account
        self._notes = account.simulator.bucket()
        self._promises = account.promises
        self._dice = random.Random(f"{seed} elsewhere")
        self._pace = pace

    def act(self) -> None:
        """Until the run is over."""
        doings = [(self.create, 2), (self._add_line, 10), (self._replace, 3), (self._tag, 2)]
        doings += [(self._trash, 1), (self._delete, 1)]
        while not self._account.over.is_set():
            self._account.pause(self._dice.random() * self._pace)
            with self._notes.lock:  # nothing comes between looking and writing
                self._dice.choices(*zip(*doings, strict=True))[0]()
            self._account.count("edits elsewhere")

    def create(self) -> None:
        """A new note."""
        token = self._promises.token(creates=True)
        body = "\n".join(" ".join(self._dice.choices(WORDS, k=6)) for _ in range(12))
        note_id = uuid.UUID(int=self._dice.getrandbits(128)).hex
        self._account.simulator.put(note_id, content=f"{self._line(token)}\n{body}\n")
        self._promises.written_elsewhere(token)

    def _some(self) -> tuple[str, list[str]]:
        simulator = self._account.simulator
        ids = [i for i, one in self._notes.all().items() if len(one.value["content"]) < LARGEST]
        note_id = self._dice.choice(ids)
        return note_id, simulator.note(note_id)["content"].split("\n")

    def _line(self, token: str) -> str:
        return " ".join([token, *self._dice.choices(WORDS, k=self._dice.randrange(1, 7))])

    def _add_line(self) -> None:
        note_id, lines = self._some()
        token = self._promises.token()
        lines.insert(self._dice.randrange(1, len(lines) + 1), self._line(token))
        self._put(note_id, token, content="\n".join(lines))

    def _replace(self) -> None:
        note_id, lines = self._some()
        if len(lines) < 3:
            return
        token, number = self._promises.token(), self._dice.randrange(1, len(lines) - 1)
        self._promises.going_to_remove(TOKEN.findall(lines[number]))
        lines[number] = self._line(token)
        self._put(note_id, token, content="\n".join(lines))

    def _tag(self) -> None:
        note_id, _ = self._some()
        tags, token = self._account.simulator.note(note_id)["tags"], self._promises.token()
        if len(tags) < 20:
            self._put(note_id, token, tags=[*tags, token])

    def _put(self, note_id: str, token: str, **fields: object) -> None:
        self._account.simulator.put(note_id, **fields)
        self._promises.written_elsewhere(token)

    def _trash(self) -> None:
        note_id, _ = self._some()
        self._account.simulator.put(note_id, deleted=self._dice.random() < 0.6)

    def _delete(self) -> None:
        note_id, _ = self._some()
        note = self._account.simulator.note(note_id)
        if note["deleted"] and len(self._notes) > 20:
            self._promises.going_to_remove(tokens_in(note))
            self._account.simulator.delete(note_id)
