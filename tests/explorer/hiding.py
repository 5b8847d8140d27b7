"""Say what may not be shown under rules that change: whatever they hide from the moment a server has opened the account.

A word is hidden from a server if all notes that have it are hidden by its rules, and have been so since these hold; a note that is hidden later, in
another program, goes when the server hears of that. A file that another program has emptied says for a second nothing of its tags: it is about to be written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from explorer.oracle import is_copy
from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Mode

if TYPE_CHECKING:
    from explorer.account_world import AccountWorld
    from explorer.server import Answer, Server

INDEX = (
    "notes",
    "note_tags",
    "note_names",
    "note_links",
    "note_base",
    "note_aliases",
    "merge_bases",
    "note_versions",
)
"""Tables that say something of visible notes alone, from the moment the account is open."""
ASKING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get", {}),
    ("manage", {"action": "history"}),
    ("manage", {"action": "undo", "confirm": True}),
    ("manage", {"action": "restore_version", "version": "1", "local_version": 1, "confirm": True}),
    ("save", {"append": "more"}),
    ("save", {"text": "more", "local_version": 1}),
    ("save", {"tags": ["t"], "local_version": 1}),
)


class Hiding:
    """Know what each server may have seen under its rules."""

    def __init__(self, world: AccountWorld) -> None:
        self._world = world
        self._open: dict[str, set[str]] = {}
        """Computer to the words that servers may have seen since its rules hold, and the ids of notes that the store has shown."""
        self._rules: dict[str, str] = {}
        self._followed: set[str] = set()
        """Words of the note that a rule hides by its id, wherever that note goes."""

    def is_to_hide(self, note_id: str) -> None:
        """Learn that rules are to hide a note by its id, now or before a renaming: what it says, as the store and each index know it.

        '': none.
        """
        notes = self._world.place.contents()
        indexes = [one.contents() for one in self._world.servers if one.alive]
        earlier = self._world.oracle.earlier_ids.get(self._world.computers[0].name, {})
        self._followed = set[str]()
        for name in dict.fromkeys((note_id, earlier.get(note_id, note_id))):
            known = [held[name] for held in (notes, *indexes) if name in held]
            others = [words(held) for one, held in notes.items() if one != name]
            if len(known) > 1 and name not in self._world.oracle.unmade:
                self._followed |= set[str].intersection(*map(words, known)).difference(*others)

    def lose_sight(self, content: Content) -> None:
        """Expect no more of what a note says: it may be another file now, and nobody can tell that one."""
        self._followed -= words(content)

    def begins(self, server: Server) -> None:
        """Note that a server has opened the account. Its index must be that of its rules already."""
        rules, computer = server.policy.visibility, server.machine.name
        if self._rules.get(computer) != rules.digest:
            self._open[computer], self._rules[computer] = set(), rules.digest
            self._world.oracle.lost_notes.forget()
            for note_id, content in self._world.place.contents().items():
                if not server.sees(note_id, content):  # its versions go
                    self._world.oracle.unmade.add(note_id)
        for note in server.notes():
            if not rules.sees(note.id, note.tags):
                self._world.oracle.breaks(
                    f"{server.name} has opened the account, and its index has the hidden {note.id}"
                )
        self.look()
        for table in INDEX if server.policy.visibility.has_rules else ():
            rows = server.app.cache.database.rows(f"SELECT * FROM {table}")
            if kept := sorted(self.hidden_from(server) & _tokens(str(rows))):
                self._world.oracle.breaks(
                    f"{server.name} has opened the account, and {table} has what is hidden: {kept}"
                )

    def look(self) -> None:
        """Find out what servers may have seen by now."""
        store = self._world.place.contents()
        for server in self._world.servers:
            if server.alive and server.machine.name in self._open:
                followed = self._followed if server.policy.visibility.hidden_ids else set()
                busy = server.app.cache.database.in_transaction
                held = {} if busy else server.contents()
                told = {k: v for k, v in store.items() if v.text or not self._world.is_emptied(k)}
                for notes in (told, held):
                    for note_id, content in notes.items():
                        if server.sees(note_id, content) and not is_copy(content):
                            # Its name may be a word of another note, which had that before.
                            self._open[server.machine.name] |= (
                                words(content) | _tokens(note_id)
                            ) - followed
                shown = {one for one, content in told.items() if server.sees(one, content)}
                self._open[server.machine.name] |= shown

    def hidden_from(self, server: Server) -> set[str]:
        """Return the words that no answer to a server may have."""
        if server.machine.name not in self._open or not server.policy.visibility.has_rules:
            return set()
        self.look()
        rules, followed = server.policy.visibility, self._followed
        notes = [*self._world.place.contents().items()]
        notes += [(one.note_id, one.content) for one in server.app.cache.journal.all()]
        hidden = {
            word
            for note_id, content in notes
            if not server.sees(note_id, content)
            for word in words(content)
        }
        return (hidden | followed if rules.hidden_ids else hidden) - self._open[server.machine.name]

    def judge_index(self, server: Server, held: Mapping[str, Content]) -> None:
        """Demand that the index has no word that is hidden: an agent may read all that it has."""
        held_words = {word for content in held.values() for word in words(content)}
        if shown := sorted(held_words & self.hidden_from(server)):
            self._world.oracle.breaks(f"the index of {server.name} has what is hidden: {shown}")

    async def ask(self, server: Server) -> None:
        """Ask in every way for a note that is hidden: each answer must be that about a note that never was."""
        store = self._world.place.contents()
        secret = self.hidden_from(server)
        ids = [
            note_id
            for note_id, content in sorted(store.items())
            if not server.sees(note_id, content) and words(content) & secret
        ]
        if not ids:
            await server.call("list")
            return
        chooser = self._world.chooser
        label = f"hidden note for {server.name}"
        hidden = ids[chooser.choose(label, len(ids), rate=0.4, said=ids)]
        stem, dot, end = hidden.partition(".")
        absent = f"{stem[:-1]}~{dot}{end}"
        for tool, more in ASKING:
            before, about, after = [
                await self._ask_about(server, tool, one, more) for one in (absent, hidden, absent)
            ]
            self.look()
            if hidden in self._open[server.machine.name]:  # it is not hidden any more
                return
            if before == after != about:
                self._world.oracle.breaks(
                    f"{tool} {more} tells {server.name} of a hidden note: {about}, not {before}"
                )
        still = words(store[hidden]) & secret & self.hidden_from(server)
        if not still:
            return
        word = min(still)
        found = await server.call("list", query=word)
        shown = found.ok and (found.value.get("content") or found.value.get("total_items"))
        if shown and word in self.hidden_from(server):
            self._world.oracle.breaks(f"{server.name} finds the hidden {word}: {found.text}")

    async def _ask_about(
        self, server: Server, tool: str, note_id: str, more: dict[str, Any]
    ) -> str:
        answer = await server.call(tool, id=note_id, **more)
        return answer.text.replace(note_id, "the id")

    def judge(
        self, server: Server, tool: str, arguments: dict[str, Any], answer: Answer, *, begun: bool
    ) -> str:
        """Return what is wrong with an answer, '' if nothing is; ``begun``: it was an act."""
        told, sent = _tokens(answer.text), _tokens(str(arguments))
        shown = sorted(self.hidden_from(server) & (told - sent))
        if shown:
            return f"{tool} shows {server.name} what is hidden: {shown}"
        if server.policy.mode is Mode.READ_ONLY and answer.ok and begun:
            return f"{tool} of {server.name} changes something under a policy that forbids it"
        return ""


def _tokens(text: str) -> set[str]:
    return {*re.findall(r"\w+", text.replace("\\n", " "))}


def words(content: Content) -> set[str]:
    """Return the words of a note that nobody else has: they hold a number."""
    found = f"{content.text} {' '.join(content.tags)}".replace("#", " ").split()
    return {one for one in found if one[-1:].isdigit() and one[:1].isalpha()}
