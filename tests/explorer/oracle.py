"""Say what must hold of every schedule, from what agents were answered and what is there in the end.

Every change adds a word of its own. A word that was acknowledged, or whose outcome is unknown, is *promised*:
in the end it stands in exactly one place, unless somebody who had it before him took it away on purpose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_notarium.audit.chain import OPEN
from mcp_notarium.domain.note import Content, PendingWrite
from mcp_notarium.stores.vault.file_writer import RECOVERED
from mcp_notarium.sync.conflict_copy import MARK

if TYPE_CHECKING:
    from explorer.machine import Process
    from explorer.server import Answer, Server
    from mcp_notarium.audit.verification import Verification

MOST_WAITING = 60
"""Tasks, timers and events that two idle servers have, at most."""
MOST_REQUESTS = 100
"""Requests of one server in ten minutes in which nothing happens, or in which the store is down."""
UNKNOWN = "in_doubt"


class Broken(AssertionError):
    """Something that must hold does not."""


@dataclass
class Oracle:
    """Remember what was promised, and compare it with what is there."""

    promised: dict[str, str] = field(default_factory=dict)
    """Word to who was promised it."""
    taken: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    """Words that servers were asked to write."""
    perhaps_twice: set[str] = field(default_factory=set)
    """Words of new notes without an answer, where ids are names: such a note is made twice if somebody changes it
    before the next cycle (docs/sync.md, Limits)."""
    removed: set[str] = field(default_factory=set)
    """Ids of notes whose removal was answered as done."""
    hidden: set[str] = field(default_factory=set)
    """Words of notes that the rules hide for as long as the run lasts."""
    versions: dict[tuple[str, str, int], Content] = field(default_factory=dict)
    """Machine, id and ``local_version`` to what the note was."""
    recorded: list[tuple[Server, str]] = field(default_factory=list)
    """Digests of acts that were answered as done."""
    sent: list[tuple[Server, str]] = field(default_factory=list)
    """Digests of acts of which a write has left the process."""
    _begun: dict[str, tuple[Server, str]] = field(default_factory=dict)
    _owed: list[tuple[Process, str]] = field(default_factory=list)
    broken: str = ""
    """The first thing that did not hold while servers ran, who may have caught it."""
    last: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Client and id to the words that it added to the note, the newest last."""

    def promise(self, word: str, whom: str) -> None:
        """Expect a word to be there in the end, unless it was taken away already."""
        if word not in self.taken:
            self.promised[word] = whom

    def promise_while(self, process: Process, word: str) -> None:
        """Expect a word that only a process knows to be there in the end, unless the process is killed."""
        self._owed.append((process, word))

    def see_covered(self, process: Process, before: str, after: str) -> None:
        """Expect what a push has covered of another device only if the process that knows it lives on (docs/sync.md)."""
        for word in sorted({*words_of(before)} - {*words_of(after)}):
            if self.promised.get(word) == "another device":
                del self.promised[word]
                self.promise_while(process, word)

    def is_written(self, text: str) -> bool:
        """Tell whether a server has put a word into a text, or a copy of it."""
        return text.startswith(MARK) or not self.written.isdisjoint(text.split())

    def forgive(self, text: str) -> None:
        """Expect the words of a text no more: somebody took them away who had them before him."""
        for word in words_of(text):
            self.taken.add(word)
            self.promised.pop(word, None)

    def _break(self, what: str) -> Broken:
        self.broken = self.broken or what
        return Broken(what)

    # While it runs.

    def saw(
        self,
        server: Server,
        tool: str,
        arguments: dict[str, Any],
        answer: Answer,
        *,
        begun: bool,
    ) -> None:
        """Judge an answer, and what the index says of the notes that it names; ``begun``: it was an act."""
        if not answer.ok and answer.value.get("category") == "INTERNAL":
            raise self._break(f"{tool} of {server.name} meets what nobody planned")
        leaked = sorted(word for word in self.hidden if word in answer.text)
        if leaked:
            raise self._break(f"{tool} shows {server.name} what is hidden: {leaked}")
        rows = [answer.value, *answer.value.get("content", [])] if answer.ok else []
        for row in rows:
            if isinstance(row, dict):
                self._compare_row(server, row)
        if answer.ok and arguments.get("action") == "delete_permanently":
            self.removed.add(arguments["id"])
        if answer.ok and begun:
            self.recorded.append((server, server.app.audit.digest(tool, arguments)))

    def _compare_row(self, server: Server, row: dict[str, Any]) -> None:
        note_id, version = row.get("uuid") or row.get("id"), row.get("local_version")
        if not isinstance(note_id, str) or not isinstance(version, int):
            return
        note = server.app.cache.notes.get(note_id)
        if note is not None:
            self.see_version(server, note_id, note.local_version, note.content)
        known = self.versions.get((server.machine.name, note_id, version))
        text = row.get("text")
        if known is None or not isinstance(text, str):
            return
        whole = "uuid" not in row and not row.get("text_is_partial")
        shown = text if whole else text.partition("\n")[0].rstrip("…")
        if (shown != known.text) if whole else (shown.strip() not in known.text + "(empty note)"):
            raise self._break(
                f"{server.name} reads {text!r} as version {version} of {note_id}, which is {known.text!r}"
            )

    def see_recorded(self, server: Server, digest: str) -> None:
        """Remember by which act the new writes in the journal of a server were begun."""
        for write in server.app.cache.journal.all():
            ours = write.client in ("", server.name) and write.write_id not in server.earlier
            if ours and not write.repair and not is_copy(write.content):
                self._begun.setdefault(write.write_id, (server, digest))

    def see_push(self, write: PendingWrite) -> None:
        """Expect the act of a write that is sent in the audit chain, whatever happens from now on."""
        if write.write_id in self._begun:
            self.sent.append(self._begun[write.write_id])

    def see_version(self, server: Server, note_id: str, version: int, content: Content) -> None:
        """Demand that a version never stands for two contents."""
        key = (server.machine.name, note_id, version)
        seen = self.versions.setdefault(key, content)
        if seen != content:
            raise self._break(
                f"version {version} of {note_id} was {seen.text!r}, and is {content.text!r}"
            )

    # In the end.

    def judge(self, servers: list[Server], store: dict[str, Content]) -> None:
        """Demand all that must hold once everything works again and is quiet."""
        if self.broken:
            raise Broken(self.broken)
        for process, word in self._owed:
            if not process.dead:
                self.promise(word, "another device")
        refused = [text for server in servers for text in server.refused()]
        chains: dict[str, tuple[Verification, set[tuple[str, str]]]] = {}
        for server in servers:
            if server.machine.name not in chains:
                chains[server.machine.name] = server.verify()
            self._judge_server(server, store, *chains[server.machine.name])
        if there := sorted(self.removed & store.keys()):
            raise Broken(f"removed for good, and there: {there}")
        held = Counter(word for content in store.values() for word in set(words_of(content.text)))
        kept = held.keys() | {word for text in refused for word in words_of(text)}
        lost = {word: whom for word, whom in self.promised.items() if word not in kept}
        if lost:
            raise Broken(f"lost: {lost}; the store has {_texts(store.values())}")
        doubled = [
            word
            for content in store.values()
            for word, count in Counter(words_of(content.text)).items()
            if count > 1 and word in self.promised
        ]
        plain = [one for one in store.values() if not is_copy(one)]
        twice = Counter(word for one in plain for word in set(words_of(one.text)))
        doubled += [word for word, count in twice.items() if count > 1 and word in self.promised]
        doubled = sorted({*doubled} - self.perhaps_twice)
        if doubled:
            raise Broken(f"doubled: {doubled}; the store has {_texts(store.values())}")

    def _judge_server(
        self,
        server: Server,
        store: dict[str, Content],
        chain: Verification,
        records: set[tuple[str, str]],
    ) -> None:
        rules = server.policy.visibility
        seen = {one: content for one, content in store.items() if rules.sees(one, content.tags)}
        held = server.contents()
        if held != seen:
            raise Broken(
                f"{server.name} has {_texts(held.values())}, the store {_texts(seen.values())}"
            )
        if unfinished := server.unfinished():
            raise Broken(f"the journal of {server.name} still has {unfinished}")
        for note_id, content in held.items():
            note = server.app.cache.notes.get(note_id)
            assert note is not None
            self.see_version(server, note_id, note.local_version, content)
        if not chain.whole:
            raise Broken(f"the audit chain of {server.name}: {[one.words for one in chain.faults]}")
        for whose, digest in dict.fromkeys(self.sent):
            if whose.machine is server.machine and (digest, OPEN) not in records:
                raise Broken(f"an act of {whose.name} was sent, and is not in the audit chain")
        for whose, digest in self.recorded:
            if whose.machine is server.machine and (digest, "ok") not in records:
                raise Broken(f"an act of {whose.name} that was answered is not in the audit chain")

    def judge_quiet(self, servers: list[Server], waiting: int, requests: dict[str, int]) -> None:
        """Demand that little happens when nothing is to be done, and that nothing is kept of what was."""
        kept = {one.name: one.kept() for one in servers if one.kept()}
        if kept:
            raise Broken(f"kept after everything was done: {kept}")
        if waiting > MOST_WAITING:
            raise Broken(f"{waiting} tasks, timers and events are left")
        self.judge_requests(requests, "quiet minutes")

    def judge_requests(self, requests: dict[str, int], when: str) -> None:
        """Demand that a server does not ask again and again."""
        busy = {name: count for name, count in requests.items() if count > MOST_REQUESTS}
        if busy:
            raise Broken(f"requests in ten {when}: {busy}")


def is_copy(content: Content) -> bool:
    """Tell whether a note is there to keep what has no other place: its words may stand elsewhere, too."""
    return (content.title or content.text).startswith((MARK, RECOVERED.partition("{")[0]))


def words_of(text: str) -> list[str]:
    """Return the words of a text: a store may put marks of Markdown beside them."""
    return re.findall(r"\w+", text)


def _texts(contents: Iterable[Content]) -> list[str]:
    return sorted(content.text for content in contents)
