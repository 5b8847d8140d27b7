"""Say what may not be shown under rules that change: whatever they hide from the moment a server has opened the account.

A word is hidden from a server if all notes that have it are hidden by its rules, and have been so since it began; a note that is hidden later, in
another program, goes when the server hears of that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_notarium.domain.note import Content
from mcp_notarium.domain.policy import Mode

if TYPE_CHECKING:
    from explorer.account_world import AccountWorld
    from explorer.server import Answer, Server


class Hiding:
    """Know what each server may have seen under its rules."""

    def __init__(self, world: AccountWorld) -> None:
        self._world = world
        self._open: dict[str, set[str]] = {}

    def begins(self, server: Server) -> None:
        """Note that a server has opened the account. Its index must be that of its rules already."""
        self._open[server.name] = set()
        rules = server.policy.visibility
        for note in server.notes():
            if not rules.sees(note.id, note.tags):
                self._world.oracle.breaks(
                    f"{server.name} has opened the account, and its index has the hidden {note.id}"
                )
        self.look()

    def look(self) -> None:
        """Find out what servers may have seen by now."""
        store = self._world.place.contents()
        for server in self._world.servers:
            if server.alive and server.name in self._open:
                rules = server.policy.visibility
                busy = server.app.cache.database.in_transaction
                held = {} if busy else server.contents()
                for notes in (store, held):
                    for note_id, content in notes.items():
                        if rules.sees(note_id, content.tags):
                            self._open[server.name] |= words(content)

    def hidden_from(self, server: Server) -> set[str]:
        """Return the words that no answer to a server may have."""
        if server.name not in self._open or not server.policy.visibility.has_rules:
            return set()
        self.look()
        rules = server.policy.visibility
        notes = [*self._world.place.contents().items()]
        notes += [(one.note_id, one.content) for one in server.app.cache.journal.all()]
        hidden = {
            word
            for note_id, content in notes
            if not rules.sees(note_id, content.tags)
            for word in words(content)
        }
        return hidden - self._open[server.name]

    def judge(self, server: Server, tool: str, arguments: dict[str, Any], answer: Answer) -> str:
        """Return what is wrong with an answer, '' if nothing is."""
        told = {*re.findall(r"\w+", answer.text.replace("\\n", " "))}
        sent = {*re.findall(r"\w+", str(arguments))}
        shown = sorted(self.hidden_from(server) & (told - sent))
        if shown:
            return f"{tool} shows {server.name} what is hidden: {shown}"
        if (
            server.policy.mode is Mode.READ_ONLY
            and answer.ok
            and "new_server_version" in answer.value
        ):
            return f"{tool} of {server.name} changes something under a policy that forbids it"
        return ""


def words(content: Content) -> set[str]:
    """Return the words of a note that nobody else has: they hold a number."""
    found = f"{content.text} {' '.join(content.tags)}".replace("#", " ").split()
    return {one for one in found if one[-1:].isdigit() and one[:1].isalpha()}
