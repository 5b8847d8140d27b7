"""Say what must hold of every schedule, from what agents were answered and what is there in the end.

Every change adds a word of its own. A word that was acknowledged, or whose outcome is unknown, is *promised*:
in the end it stands in exactly one place, unless somebody who had it before him took it away on purpose.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from explorer.broken import Broken, all_words, words_of
from explorer.lost_notes import LostNotes
from explorer.more_acts import Tags
from mcp_notarium.audit.chain import CANCELLED, FINISHED, OPEN
from mcp_notarium.audit.chain import UNKNOWN as UNSURE
from mcp_notarium.domain.conflict_copy import MARK
from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Note, PendingWrite, Revision, WriteKind
from mcp_notarium.domain.properties import read_properties_of
from mcp_notarium.stores.contract import Versions, WriteGuard
from mcp_notarium.stores.vault.file_writer import RECOVERED

if TYPE_CHECKING:
    from explorer.consent import Talk
    from explorer.hiding import Hiding
    from explorer.machine import Process
    from explorer.server import Answer, Made, Server
    from mcp_notarium.audit.chain import Record
    from mcp_notarium.audit.verification import Verification
    from mcp_notarium.sync.writer import Saved

MOST_WAITING = 60
"""Tasks, timers and events that two idle servers have, at most."""
MOST_REQUESTS = 120
"""Requests of one server in ten minutes in which nothing happens, or in which the store is down: each may be sent four times."""
KEPT_BASES = 2
"""Versions since the one that a caller has read, at most: it is kept for a while (docs/sync.md, Bases)."""
UNKNOWN = "in_doubt"


@dataclass
class Oracle:
    """Remember what was promised, and compare it with what is there."""

    is_smooth: Callable[[], bool]
    """Tells whether nothing has gone wrong so far."""
    promised: dict[str, str] = field(default_factory=dict)
    """Word to who was promised it."""
    taken: set[str] = field(default_factory=set)
    perhaps_twice: set[str] = field(default_factory=set)
    """Words of new notes without an answer, where ids are names: such a note is made twice if somebody changes it
    before the next cycle (docs/sync.md, Limits)."""
    removed: set[str] = field(default_factory=set)
    """Ids of notes whose removal was answered as done."""
    brought_back: dict[str, float] = field(default_factory=dict)
    """Id of each note that another device has brought back, and when: who has found it gone before may say so later."""
    hidden: set[str] = field(default_factory=set)
    """Words of notes that the rules hide for as long as the run lasts."""
    versions: dict[tuple[str, str, int], Content] = field(default_factory=dict)
    """Machine, id and ``local_version`` to what the note was."""
    talks: list[Talk] = field(default_factory=list)
    """All calls, with what a person was asked about them."""
    sent: list[tuple[Server, str]] = field(default_factory=list)
    """Digests of acts of which a write has left the process."""
    calls: dict[str, set[Process]] = field(default_factory=dict)
    """Digest of a call to the processes that it was made to."""
    taken_back: list[tuple[Server, str, str, bool]] = field(default_factory=list)
    """Digest of each call that its client took back, the word that it adds, and whether it is the change of one note."""
    _begun: dict[str, tuple[Server, str]] = field(default_factory=dict)
    _owed: list[tuple[Process | None, str]] = field(default_factory=list)
    _covered: dict[str, Process | None] = field(default_factory=dict)
    """Word to the process whose write has gone over it, at a store that overwrites what it has; None: that has got no answer."""
    touched: set[tuple[str, str]] = field(default_factory=set)
    """Machine and id of each note with a write that has ended since the last flush, in the process that had begun it."""
    _unsure: set[tuple[str, str, int]] = field(default_factory=set)
    """Those of ``versions`` that such a write may have made: nothing of a call is flushed before its outcome is, so a
    loss of power right after the process was killed may give another text their number."""
    tags: Tags = field(default_factory=Tags)
    lost_notes: LostNotes = field(default_factory=LostNotes)
    hiding: Hiding | None = None
    """Knows what is hidden, where the rules change."""
    broken: str = ""
    """The first thing that did not hold while servers ran, who may have caught it."""
    last: dict[tuple[str, str], list[tuple[str, bool]]] = field(default_factory=dict)
    """Client and id to the words that it added to the note, the newest last; False: nobody knows whether they arrived."""
    authors: dict[str, str] = field(default_factory=dict)
    """Word to who wrote it."""
    made: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Machine and id to the texts that saves have made there, each of which stays in the history."""
    renumbered: set[str] = field(default_factory=set)
    """Ids of notes whose versions have numbers that others had before."""
    begun_anew: Counter[str] = field(default_factory=Counter)
    """How often somebody has removed a note and made it again, by ids: a name of a version is the store's, and may be an earlier ``local_version``."""
    unmade: set[str] = field(default_factory=set)
    """Ids of notes that somebody else has removed or renamed: their histories may end."""
    unflushed: dict[str, str] = field(default_factory=dict)
    """Word of a save in doubt whose record the disk has refused to flush to the computer: it may go with the power."""
    called_again: set[str] = field(default_factory=set)
    """Words of new notes whose calls came twice: who has put the first note into the trash since does not keep the second from being made."""
    unrecorded: set[str] = field(default_factory=set)
    """Words of saves that were answered as not done because the disk had no room for their record."""
    alike: set[str] = field(default_factory=set)
    """Ids of notes in which several may make the same of a text: whoever comes first has made it."""
    writers: dict[str, set[str]] = field(default_factory=dict)
    """Id to who has written the note since the beginning."""
    earlier_ids: dict[str, dict[str, str]] = field(default_factory=dict)
    """Computer to each id that a server there has taken from a note, and the one that the note has since."""
    left_names: list[str] = field(default_factory=list)
    """Ids that notes had until somebody renamed them, and no other note has taken since; the last one was left last."""
    saved_again: Counter[str] = field(default_factory=Counter)
    """Id to how often another device has saved the note as it was: only its revision is another one."""
    again_at_call: Counter[str] = field(default_factory=Counter)
    """The same when a server was last asked to change the note otherwise than by a save."""
    seen_again: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Client and id to how often that had happened when the client's last save there was answered."""
    swapped: set[str] = field(default_factory=set)
    """Ids of two notes whose files another program has exchanged."""
    exchanged: set[str] = field(default_factory=set)
    """The same in the middle of a save."""
    exchanged_unread: set[str] = field(default_factory=set)
    """Those of them of which the server that saved did not know one file yet: nothing tells it from an edited one."""
    from_buffers: set[str] = field(default_factory=set)
    """Words that a program has written once more, which it had read before somebody took them away."""
    outdated: bool = False
    """An answer about a note was one of before."""
    rewritten: bool = False
    """The store makes something else of what it is sent."""
    forgetful: bool = False
    """The store has dropped versions."""

    def expects(self) -> list[str]:
        """Return what this demands in the end, the same whatever the order was in which it has learned that."""
        owed = [
            (_named(process), process is None or process.dead, word) for process, word in self._owed
        ]
        recorded = [
            (one.server, one.digest, one.outcome) for one in self.talks if one.outcome and one.begun
        ]
        of_servers = [(one.name, *more) for one, *more in (*recorded, *self.sent)]
        covered = [(word, _named(process)) for word, process in self._covered.items()]
        lost = (*self.lost_notes.made.items(), *self.lost_notes.lost.items())
        told = (owed, of_servers, covered, lost, self.promised.items(), self.versions.items())
        more = (self.taken, self.perhaps_twice, self.removed, self.touched, self._unsure)
        texts = (self.made.items(), self.unmade, self.alike, self.last.items(), self.tags.given)
        writers = [(one, *sorted(who)) for one, who in self.writers.items()]
        begun = [(one, server.name) for one, (server, _) in self._begun.items()]
        return [
            repr(sorted(map(repr, part))) for part in (*told, *more, *texts, writers, begun)
        ] + [self.broken]

    def promise(self, word: str, whom: str) -> None:
        """Expect a word to be there in the end, unless it was taken away already."""
        if word in self._covered:
            self._owed.append((self._covered[word], word))
        elif word not in self.taken:
            self.promised[word] = whom

    def promise_while(self, process: Process, word: str) -> None:
        """Expect a word that only a process knows to be there in the end, unless the process is killed."""
        self._owed.append((process, word))

    def overwrite(self, process: Process | None, before: str, after: str) -> None:
        """Learn that a write of a process has gone over a text, which its store gives to nobody else.

        Words that are gone are known to this process alone, until it writes them again; None: to nobody, because the answer is lost.
        """
        words = self.authors.keys() & words_of(after)
        for word in words & self._covered.keys():
            del self._covered[word]
            self.promise(word, "another device")
        for word in (self.authors.keys() & words_of(before)) - words - self.taken:
            self._covered[word] = process
            if self.promised.pop(word, None):
                self._owed.append((process, word))

    def flushed(self, machine: str) -> None:
        """Learn that the disk of a computer has all that was committed."""
        self.touched -= {one for one in self.touched if one[0] == machine}
        self._unsure = {one for one in self._unsure if one[0] != machine}
        self.unflushed = {word: one for word, one in self.unflushed.items() if one != machine}

    def lose_power(self, machine: str) -> None:
        """Learn that a computer may have lost what it had not flushed."""
        for one in [one for one in self._unsure if one[0] == machine]:
            self._unsure.discard(one)
            del self.versions[one]
        self.forgive(" ".join(word for word, one in self.unflushed.items() if one == machine))

    def forgive(self, text: str) -> None:
        """Expect the words of a text no more: somebody took them away who had them before him."""
        for word in words_of(text):
            self.taken.add(word)
            self.promised.pop(word, None)

    def lose_versions(self, note_id: str) -> None:
        """Expect no tags of a note of which a write may have no answer: only its versions tell what that went over."""
        if not self.is_smooth():
            self.tags.dropped.add(note_id)

    def lose_numbers(self, note_id: str) -> None:
        """Expect nothing of a note whose store gives its numbers once more: a change of an old one is merged from another text."""
        self.renumbered.add(note_id)
        self.tags.dropped.add(note_id)

    def is_back(self, note_id: str, *, at: float) -> None:
        """Learn that another device has brought back a note that was removed, with what it is now."""
        self.removed.discard(note_id)
        self.brought_back[note_id] = at
        self.tags.forget(note_id)  # a tag may have been renamed meanwhile
        self.forgive(" ".join(tag for tag, one in self.tags.theirs.items() if one == note_id))
        self.unmade.add(note_id)
        self.lost_notes.deleted(note_id)

    def undone(self, client: str, note_id: str) -> None:
        """Expect what the last save of a client has added to a note no more, nor what may have arrived since."""
        added = self.last[client, note_id]
        sure = [word for word, certain in added if certain][-1:]
        self.forgive(" ".join([*sure, *(word for word, certain in added if not certain)]))

    def renamed(self, server: Server, old: str, new: str) -> None:
        """Expect the versions of a note under its new id; the old one may become another note's."""
        earlier = self.earlier_ids.setdefault(server.machine.name, {})
        for one in (old, *(one for one, now in earlier.items() if now == old)):
            earlier[one] = new
        if old in self.unmade:
            self.unmade.add(new)
        if new != old:
            self.left_names.append(old)
            self.lost_notes.writes(old)
            kept = self.made.pop((server.machine.name, old), [])
            self.made[server.machine.name, new] = kept + self.made.get(
                (server.machine.name, new), []
            )

    def take_name(self, there: Sequence[str]) -> str:
        """Return the id that a note has left last and none has now, '' if there is none: another note gets it."""
        free = [one for one in self.left_names if one not in there]
        for one in free[-1:]:
            self.left_names.remove(one)
            self.unmade.add(one)
            self.tags.dropped.add(one)
            self.lost_notes.writes(one)
            self.writers.setdefault(one, set()).add("them")
            self.removed.discard(one)
            for earlier in self.earlier_ids.values():
                earlier.pop(one, None)
        return "".join(free[-1:])

    def see_history(
        self,
        server: Server,
        note_id: str,
        versions: list[tuple[str, Content]],
        made: Sequence[str],
    ) -> None:
        """Demand that a version names nobody who has not written what is new in it; newest first, by who made each.

        ``made``: what saves had made of the note before that was asked for.

        Where the store lists its versions under names of its own, their order beside ours is by time, which many share: there
        what is new in one is what no version of anybody else has.
        """
        told = {word for _, one in versions for word in words_of(one.text)}
        if leaked := sorted(told & self.hidden):
            raise self.breaks(f"hidden text is shown: a history shows {server.name} {leaked}")
        listed = server.app.library.traits.versions is Versions.LISTED
        for (maker, newer), (_, older) in itertools.pairwise(versions):
            beside = [one.text for by, one in versions if by != maker] if listed else [older.text]
            new = {*words_of(newer.text)} - {word for text in beside for word in words_of(text)}
            others = sorted(word for word in new if self.authors.get(word, maker) != maker)
            copied = listed and is_copy(newer)  # it has had the words of all from the beginning
            if maker and others and not (self.forgetful or copied or note_id in self.unmade):
                raise self.breaks(
                    f"a version names who has not written it: {server.name} has {newer.text!r} of {note_id} as made by "
                    f"{maker}, and {others} as well"
                )

        texts = {content.text for _, content in versions}
        lost = [text for text in made if text not in texts]
        if server.app.library.traits.in_database:
            lost = []  # every other writer is a server, which keeps what it replaces
        if versions and lost and note_id not in self.unmade and not self.forgetful:
            raise self.breaks(
                f"a history lacks what a save has made: {server.name} knows of {note_id} {sorted(texts)}, not {lost}"
            )

    def _see_saved(self, server: Server, saved: Answer) -> None:
        """Demand that a save which met no other edit is the client's own, which can be undone."""
        answer = saved.value
        note_id, version = answer.get("id"), answer.get("local_version")
        alone = saved.ok and not (
            answer.get("merged") or answer.get("unchanged") or answer.get("conflict_copy_id")
        )
        note = server.app.cache.notes.get(str(note_id))
        if not alone or answer.get("note") or note is None or note.local_version != version:
            return
        base = server.app.cache.notes.base(note.id)
        assert base is not None
        makers = server.app.cache.versions.makers(note.id)
        maker = makers.of(base.etag, number=note.local_version)
        # What the disk has refused to flush may go with the power.
        if maker == server.name and not server.process.missed_flush:
            self.made.setdefault((server.machine.name, note.id), []).append(note.text)
            self.lost_notes.made[server.machine.name, note.id] = note.content
        # After a failure, or beside somebody else's edit, a store need not tell that the save is what is there.
        alone = self.writers.get(note.id, set()) <= {server.name} and self.is_smooth()
        # The answer is of the note as it stands by then. Another server may have gone on from what this one made.
        earlier = itertools.dropwhile(lambda one: one[2] == maker, makers.writes)
        if not alone and next(earlier, ("", "", ""))[2] == server.name:
            return
        if maker not in (server.name, server.name if alone else "") and note.id not in self.alike:
            raise self.breaks(
                f"a save does not name who made it: version {version} of {note_id} by {server.name} counts as by {maker!r}"
            )

    def see_made(self, server: Server, asked: Content, saved: Saved) -> None:
        """Demand that a save which brings words of others back says so: they are merged into it."""
        new = {*words_of(saved.note.text)} - {*words_of(asked.text)}
        others = sorted(word for word in new if word in self.authors)
        if others and not (saved.merged or saved.differs or saved.copy_id):
            self.breaks(
                f"a save does not tell that it is merged: {server.name} has {saved.note.text!r} with {others}"
            )
        alone = self.writers.get(saved.note.id, set()) <= {server.name} and server.busy == 1
        alone = alone and not server.world.has_trouble()
        told = saved.differs or saved.copy_id  # nobody's change is merged into it
        if self.rewritten and alone and saved.note.text != asked.text and not told:
            self.breaks(
                f"a save does not tell what the store has made of it: {server.name} has {saved.note.text!r}, not {asked.text!r}"
            )

    def _see_refused(self, server: Server, arguments: dict[str, Any], answer: Answer) -> None:
        if answer.value.get("subcategory") == "not_recorded":
            self.unrecorded |= {*self._new_words(server, arguments)[-1:]}

    def require_undone(self, server: Server, made: Made, undone: Made | None) -> None:
        """Demand that an undo gives back exactly what the save had replaced, where neither met anything else.

        ``undone`` None: the undo has saved nothing.
        """
        now, then = (undone or made).saved.note.content, made.before
        pure = made.is_pure and (undone is None or undone.is_pure)
        if pure and then is not None and _whole(now) != _whole(then.content):
            raise self.breaks(
                f"an undo does not give back what was there: {server.name} has {now} of {then.id}, not {then.content}"
            )

    def require_taken_back(self, server: Server, note_id: str, word: str) -> None:
        """Demand that an undo which is answered as done has taken away what the client had added last."""
        note = server.app.cache.notes.get(note_id)
        if note is not None and word in words_of(note.text):
            raise self.breaks(
                f"an undo takes nothing back: {word} is still in {note_id} of {server.name}, {note.text!r}"
            )

    def require_replaced(self, server: Server, note_id: str) -> None:
        """Demand that no version has been replaced by the same: an undo would bring back what is there."""
        versions, note = server.app.cache.versions, server.app.cache.notes.get(note_id)
        newer = None if note is None else note.content
        for row in versions.of(note_id):
            found = versions.get(note_id, row.local_version)
            content = None if found is None else found[1]
            same = newer is not None and content is not None and _whole(newer) == _whole(content)
            if same and row.made == row.etag and row.replaced_by:
                raise self.breaks(
                    f"a write has replaced what it has made: {server.name} keeps {content} as version "
                    f"{row.local_version} of {note_id}"
                )
            newer = content

    def require_merged(self, server: Server, answer: Answer, read: Note, ours: str) -> None:
        """Demand that a save is merged with what others wrote in other lines, while the text that it was made from is kept.

        The index does not have their text yet while a write of the note is on its way. Of two files that were exchanged meanwhile it may know one.
        """
        note = server.app.cache.notes.get(read.id)
        refused = answer.value.get("subcategory") in ("conflict", "version_changed")
        waits = any(one.note_id == read.id for one in server.app.cache.journal.all())
        if not refused or note is None or self.forgetful or waits or read.id in self.swapped:
            return
        seen = [one for one in self.versions if one[:2] == (server.machine.name, read.id)]
        since = [one for one in seen if one[2] > read.local_version]
        if len(since) <= KEPT_BASES and merge_content(
            Content(read.text), Content(ours), Content(note.text)
        ):
            self.breaks(
                f"a save is refused that fits: {server.name} was to make {ours!r} of {read.text!r}, and it is {note.text!r}"
            )

    def require_trash(self, server: Server, note: Note, *, trash: bool) -> None:
        """Demand that a note is in the trash, or is not, as it was answered."""
        if note.trash != trash:
            self.breaks(
                f"a note is not where it was moved: {server.name}, {note.id}, in the trash: {note.trash}"
            )

    def require_can_undo(self, server: Server, note_id: str, answer: Answer) -> None:
        """Demand that an undo is not refused where nobody else has ever written, and nothing has failed."""
        if self.writers.get(note_id, set()) <= {server.name} and self.is_smooth():
            raise self.breaks(
                f"an undo is refused, though nothing followed: {server.name}, {note_id}: {answer.words}"
            )

    def breaks(self, what: str) -> Broken:
        """Remember that something does not hold; return what may be raised of it."""
        self.broken = self.broken or what
        return Broken(what)

    # While it runs.

    def saw(self, server: Server, talk: Talk, answer: Answer, *, since: float) -> None:
        """Judge the answer to a call, and what the index says of the notes that it names; ``since``: when it was asked for."""
        tool, arguments, begun = talk.tool, talk.arguments, talk.begun > 0
        talk.judge_answer(answer.value, ok=answer.ok)
        if not answer.ok and answer.value.get("category") == "INTERNAL":
            raise self.breaks(f"a call meets an error that nobody planned: {tool} of {server.name}")
        leaked = sorted(word for word in self.hidden if word in answer.text)
        if leaked:
            raise self.breaks(f"hidden text is shown: {tool} shows {server.name} {leaked}")
        if self.hiding and (
            wrong := self.hiding.judge(server, tool, arguments, answer, begun=begun)
        ):
            raise self.breaks(wrong)
        rows = [answer.value, *answer.value.get("content", [])] if answer.ok else []
        for row in rows:
            if isinstance(row, dict):
                self._compare_row(server, row)
        name = str(answer.value.get("id") or arguments.get("id"))
        self.see_writer(server, tool, arguments, name)
        if tool == "save":
            self._see_saved(server, answer)
            self._see_refused(server, arguments, answer)
            if answer.ok and "id" not in arguments and name in self.removed:
                self.removed.remove(name)  # a new note has got the name
                self.tags.dropped.add(name)
        if answer.ok and arguments.get("action") == "delete_permanently":
            back = self.brought_back.get(arguments["id"], -1.0)
            self._require_gone(server, arguments["id"])
            self.removed |= {arguments["id"]} if back < since else set()
            # Another note that gets its name has a history of its own.
            self.made.pop((server.machine.name, arguments["id"]), None)
        # An end that the disk has refused waits in memory, or for the next flush: it may go with the process.
        talk.may_go = server.process.missed_flush or server.owes_records()

    def _require_gone(self, server: Server, note_id: str) -> None:
        """Demand that a note which was removed for good is not shown from then on, unless it is there again."""
        there = note_id in server.world.place.contents() or note_id in self.brought_back
        if not there and server.app.cache.notes.etag(note_id) is not None:
            self.breaks(f"what was removed for good is shown: {server.name} still has {note_id}")

    def require_unhidden(self, talk: Talk, text: str) -> None:
        """Demand that a question, and what it shows of notes, has no hidden word but those of the call."""
        server, given = talk.server, {*words_of(str(talk.arguments))}
        hidden = self.hidden | (self.hiding.hidden_from(server) if self.hiding else set())
        if shown := sorted((hidden - given) & {*words_of(text)}):
            self.breaks(f"hidden text is shown: {server.name} asks a person with {shown}: {text!r}")

    def see_writer(
        self, server: Server, tool: str, arguments: dict[str, Any], note_id: str
    ) -> None:
        """Learn that a call may write a note, or more than one; before it is answered, for others may meet it."""
        if tool == "save" or arguments.get("action", "history") != "history":
            one_note = tool == "save" or "id" in arguments
            for one in [note_id] if one_note else server.contents():
                self.writers.setdefault(one, set()).add(server.name)

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
            raise self.breaks(
                f"an answer has another text than its version: {server.name} reads {text!r} as "
                f"version {version} of {note_id}, which is {known.text!r}"
            )

    def see_recorded(self, server: Server, talk: Talk) -> None:
        """Remember by which act the new writes in the journal of a server were begun."""
        for write in server.app.cache.journal.all():
            ours = write.client in ("", server.name) and write.write_id in talk.writes
            # Links are recorded with the renaming that they follow, or go on after another one.
            if ours and not (write.repair or write.after or is_copy(write.content)):
                self._begun.setdefault(write.write_id, (server, talk.digest))
                self._require_visible(server, write)

    def _require_visible(self, server: Server, write: PendingWrite) -> None:
        """Demand that no save hides its note, also not what comes of a merge with what others have made of it."""
        rules, made = server.policy.visibility, write.content
        told = (write.note_id, made.tags, read_properties_of(made)[0])
        if write.kind is WriteKind.UPDATE and not rules.sees(*told):
            self.breaks(
                f"a save hides its note: {server.name} makes {write.content} of {write.note_id}"
            )

    def require_one_leader(self, server: Server, others: Iterable[Server]) -> None:
        """Demand that one process of a computer syncs: a server begins a cycle, and these are the others there."""
        leads = [one.name for one in others if one.alive and one.app.scheduler.leads]
        if leads and server.app.scheduler.leads:
            self.breaks(f"two servers of a computer sync: {server.name} beside {leads}")

    def require_newer(self, server: Server, before: Revision, after: Revision) -> None:
        """Demand that no revision in the index makes room for an older one."""
        if (before.server_version or 0) > (after.server_version or math.inf):
            self.breaks(
                f"the index goes back: {server.name} has {before.content} of {before.id}, and stores {after.content}"
            )

    def require_own(self, server: Server, write_id: str, owner: str, *, works: bool) -> None:
        """Demand that nobody ends an entry of the journal that another process has; ``works``: it still runs."""
        if owner != server.process.name and works:
            self.breaks(
                f"an entry is taken from who works on it: {server.process.name} ends {write_id}, which {owner} has"
            )

    def see_taken_back(
        self, server: Server, tool: str, arguments: dict[str, Any], *, late: bool
    ) -> None:
        """Learn that a call was taken back: an undo may take what it adds, if that comes. ``late``: it was answered by then."""
        new = self._new_words(server, arguments)
        digest, note_id = server.app.audit.digest(tool, arguments), arguments.get("id")
        is_change = tool == "save" and note_id in server.app.cache.notes.etags()
        # A file is kept before its note is saved: its act may have begun, and be taken back between both.
        is_change = is_change and "file" not in arguments and not late
        server.saves.clear()
        self.taken_back.append((server, digest, new[-1] if new else "", is_change))
        if new and isinstance(note_id, str):
            earlier = self.last.pop((server.name, note_id), [])
            self.last[server.name, note_id] = [*earlier, (new[-1], False)]

    def _new_words(self, server: Server, arguments: dict[str, Any]) -> list[str]:
        """Return the words of a server in what it sends that nobody was promised, the newest last."""
        said = (one for key, one in arguments.items() if isinstance(one, str) and key != "id")
        given = words_of(" ".join(said))
        ours = {one for one in given if self.authors.get(one) == server.name}
        return sorted(ours - self.promised.keys(), key=lambda one: int(one.lstrip(server.name)))

    def see_push(self, write: PendingWrite) -> None:
        """Expect the act of a write that is sent in the audit chain, whatever happens from now on."""
        self.lost_notes.sends(write.content)
        if write.write_id in self._begun:
            self.sent.append(self._begun[write.write_id])

    def see_version(self, server: Server, note_id: str, version: int, content: Content) -> None:
        """Demand that a version never stands for two contents."""
        key = (server.machine.name, note_id, version)
        if key not in self.versions and key[:2] in self.touched:
            self._unsure.add(key)
        seen = self.versions.setdefault(key, content)
        if seen != content:
            raise self.breaks(
                f"a version stands for two contents: {version} of {note_id} was {seen}, and is {content}"
            )

    def require_renamed(
        self, server: Server, had: list[str], *, old: str, new: str, alone: bool
    ) -> None:
        """Demand that no note has a tag in the end whose renaming is answered as done for all.

        ``alone``: no other server writes, so none has it now. A note that was removed may be shown once more
        by news of before.
        """
        self.tags.done.append((server.name, had, old, new))
        notes = [note for one in had if (note := server.app.cache.notes.get(one))]
        others = self.removed | self.tags.taken_back
        left = [note.id for note in notes if old in note.tags and note.id not in others]
        if left and alone:
            raise self.breaks(f"{server.name} has renamed {old} to {new}, and {left} have it still")

    def require_version(self, server: Server, note_id: str, version: str, text: str) -> None:
        """Demand that a version is told as it was, where its name is the ``local_version`` that it had."""
        number = int(version) if version.isdecimal() else 0
        known = self.versions.get((server.machine.name, note_id, number))
        known = None if note_id in self.begun_anew else known
        if known is not None and known.text.strip() != text.strip():
            raise self.breaks(
                f"a version is told as another one: {server.name} reads {text!r} as version {version} of {note_id}, "
                f"which was {known.text!r}"
            )

    def require_restored(self, server: Server, answer: Answer, then: str) -> None:
        """Demand that a note that was restored says what the version said, unless it has changed since."""
        note = server.app.cache.notes.get(answer.value["id"])
        whole = answer.value["status"] == "restored" and "differently" not in answer.value["note"]
        same = note is not None and note.local_version == answer.value["new_local_version"]
        if whole and same and note is not None and note.text.strip() != then.strip():
            raise self.breaks(
                f"{server.name} has restored {then!r} in {note.id}, which says {note.text!r}"
            )

    # In the end.

    def _find_parted(self, store: dict[str, Content]) -> set[str]:
        """Return the words whose letters a merge may have parted, over a version that the store has dropped (docs/sync.md, Limits)."""
        texts = [content.text for content in store.values()] if self.forgetful else []
        parted = {
            one: re.compile(".*".join(map(re.escape, one)), re.DOTALL) for one in self.promised
        }
        # Letters that another word begins with go with that: its number is left.
        words = {word for text in texts for word in words_of(text)}
        alone = {one for one in self.promised if re.sub(r"\D", "", one) in words}
        return alone | {one for one, found in parted.items() if any(map(found.search, texts))}

    def _find_taken_along(self, store: dict[str, Content]) -> set[str]:
        """Return the words of exchanged notes that a save may have put into both (docs/testing.md): one without an answer, or over a file that it did not know."""
        ids = self.exchanged_unread if self.is_smooth() else self.exchanged
        return {word for one in ids & store.keys() for word in words_of(store[one].text)}

    def judge(self, servers: list[Server], store: dict[str, Content]) -> None:
        """Demand all that must hold once everything works again and is quiet."""
        if self.broken:
            raise Broken(self.broken)
        for process, word in self._owed:
            if process and not process.dead and word not in self.taken:
                self.promised[word] = "another device"
        refused = [text for server in servers for text in server.refused()]
        chains: dict[str, tuple[Verification, list[Record]]] = {}
        for server in servers:
            if server.machine.name not in chains:
                chains[server.machine.name] = server.verify()
            self._judge_server(server, store, *chains[server.machine.name])
            self.lost_notes.judge(server, store)
        # A note that is hidden is gone already.
        seen = {
            one for one, content in store.items() if not servers or servers[0].sees(one, content)
        }
        if there := sorted(self.removed & seen):
            raise Broken(f"what was removed for good is there: {there}")
        held = Counter(
            word for content in store.values() for word in set(words_of(all_words(content)))
        )
        self._judge_taken_back(chains, held)
        self._require_not_done(held)
        kept = held.keys() | {word for text in refused for word in words_of(text)}
        # Where the last writer wins, a tag that a write has gone over goes, if its note is hidden before that is repaired.
        overwrites = servers and servers[0].app.library.traits.write_guard is WriteGuard.LAST_WRITER
        there = seen if overwrites else store.keys()
        went = {
            word
            for word, note_id in self.tags.theirs.items()
            if note_id not in there or note_id in self.tags.dropped
        }
        kept |= went | self._find_parted(store)
        lost = {word: whom for word, whom in self.promised.items() if word not in kept}
        if lost:
            told = ", ".join(f"{word}, which {whom} had written," for word, whom in lost.items())
            raise Broken(f"text is lost: {told} is nowhere; the store has {_texts(store.values())}")
        doubled = [
            word
            for content in store.values()
            for word, count in Counter(words_of(content.text)).items()
            if count > 1 and word in self.promised
        ]
        self.tags.judge(store, self.taken, store.keys() - seen)
        copies = Counter(all_words(one) for one in store.values() if is_copy(one))
        # There, too, who has displaced a text keeps it, and so does who had written it, if a third has come over both.
        most = len({one.machine for one in servers}) if overwrites else 1
        if often := [text for text, count in copies.items() if count > most]:
            raise Broken(f"a copy is made twice: {often}")
        plain = [one for one in store.values() if not is_copy(one)]
        twice = Counter(
            word
            for one in plain
            for word in set(words_of(one.text))
            if not (one.trash and word in self.called_again)
        )
        doubled += [word for word, count in twice.items() if count > 1 and word in self.promised]
        doubled = sorted({*doubled} - self.perhaps_twice - self._find_taken_along(store))
        if doubled:
            raise Broken(f"text is doubled: {doubled}; the store has {_texts(store.values())}")

    def _judge_server(
        self,
        server: Server,
        store: dict[str, Content],
        chain: Verification,
        chained: Sequence[Record],
    ) -> None:
        seen = {one: content for one, content in store.items() if server.sees(one, content)}
        held = server.contents()
        if (
            server.policy.visibility.has_rules
        ):  # a copy of a note that is hidden since is hidden with it
            seen = {
                one: content for one, content in seen.items() if one in held or not is_copy(content)
            }
        if held != seen:
            raise Broken(
                f"the index is not what the store has: {server.name} has {_texts(held.values())}, "
                f"the store {_texts(seen.values())}"
            )
        if faults := server.index_faults():
            raise Broken(f"the index does not fit to its notes: that of {server.name}: {faults}")
        if unfinished := server.unfinished():
            raise Broken(f"the journal is not empty: that of {server.name} still has {unfinished}")
        for note in server.notes():
            self.see_version(server, note.id, note.local_version, note.content)
        if not chain.whole:
            raise Broken(
                f"the audit chain is not whole: that of {server.name}: {[one.words for one in chain.faults]}"
            )
        self._judge_chain(server, chained)

    def _judge_chain(self, server: Server, chained: Sequence[Record]) -> None:
        """Demand the beginning of each act that was sent, and the end of each that was answered, or whose process still runs."""
        records = {(one.digest, one.outcome) for one in chained}
        for whose, digest in dict.fromkeys(self.sent):
            if whose.machine is server.machine and (digest, OPEN) not in records:
                raise Broken(
                    f"a write was sent whose beginning is not in the audit chain: an act of {whose.name}"
                )
        of: dict[str, list[Record]] = {}
        for one in chained:
            of.setdefault(one.digest, []).append(one)
        told = {one.refers for one in chained}
        for one in chained:
            if one.outcome == OPEN and one.number not in told and self._works_on(one.digest):
                raise Broken(
                    f"an act has no end in the audit chain: {one.act} of {one.client}, number {one.number}"
                )
        for talk in self.talks:
            if talk.server.machine is server.machine:
                self._judge_records(talk, of.get(talk.digest, ()))

    def _judge_records(self, talk: Talk, records: Sequence[Record]) -> None:
        """Demand that the records of a call say who has decided, and what it was answered."""
        # A number that went with the power is given again, also to the end of the same call.
        begun = (one for one in records if one.number == talk.begun and one.outcome == OPEN)
        first = next(begun, None)
        if first is not None and first.decision != talk.decided:
            raise Broken(
                f"the audit chain tells another decision: an act of {talk.server.name} begins with {first.decision}, "
                f"not {talk.decided}"
            )
        kept = talk.outcome and not talk.may_go
        answered = kept and (talk.begun or self._works_on(talk.digest))
        waiting = talk.server.app.audit._waiting if talk.server.alive else ()
        if answered and not any(talk.fits(one) for one in (*records, *waiting)):
            told = sorted({f"{one.decision}, {one.outcome}" for one in records})
            raise Broken(
                f"a call was answered whose end is not in the audit chain: {talk.tool} of {talk.server.name}, "
                f"{talk.decision}, {talk.outcome}; the chain has {told}"
            )

    def _works_on(self, digest: str) -> bool:
        """Tell whether no process has ended that such a call was made to."""
        return digest in self.calls and not any(one.dead for one in self.calls[digest])

    def _judge_taken_back(
        self, chains: dict[str, tuple[Verification, list[Record]]], held: Counter[str]
    ) -> None:
        """Demand that the end of an act whose call was taken back is what became of it."""
        for server, digest, word, is_change in self.taken_back:
            chained = chains.get(server.machine.name, (None, []))[1]
            outcomes = [one.outcome for one in chained if one.digest == digest]
            ends = Counter(outcomes)
            if FINISHED in ends and word:
                self.promise(word, server.name)
            if not self._works_on(digest):
                continue
            ends.pop(OPEN, None)
            if is_change and ends.keys() == {UNSURE} and self.is_smooth():
                raise Broken(
                    f"the end of an act does not say what became of it: {word} of {server.name}"
                )
            if ends.keys() == {CANCELLED} and word in held:
                raise Broken(f"an act counts as cancelled that was done: {word} of {server.name}")

    def _require_not_done(self, held: Counter[str]) -> None:
        """Demand that nothing came of what could not be recorded, as it was answered, unless the call came once more."""
        again = {word for *_, word, _ in self.taken_back}
        if done := sorted((self.unrecorded - again) & held.keys()):
            raise Broken(f"what was answered as not done is there: {done}")

    def judge_quiet(self, servers: list[Server], waiting: int, requests: dict[str, int]) -> None:
        """Demand that little happens when nothing is to be done, and that nothing is kept of what was."""
        kept = {one.name: one.kept() for one in servers if one.kept()}
        if kept:
            raise Broken(
                f"tasks, calls, entries or records are kept after everything was done: {kept}"
            )
        if waiting > MOST_WAITING:
            raise Broken(f"tasks, timers and events are left: {waiting}")
        self.judge_requests(requests, "quiet minutes")

    def judge_requests(self, requests: dict[str, int], when: str) -> None:
        """Demand that a server does not ask again and again."""
        busy = {name: count for name, count in requests.items() if count > MOST_REQUESTS}
        if busy:
            raise Broken(f"too many requests in ten {when}: {busy}")


def is_copy(content: Content) -> bool:
    """Tell whether a note is there to keep what has no other place: its words may stand elsewhere, too."""
    marks = (MARK, RECOVERED.partition("{")[0])
    name = (content.title or "").rpartition("/")[2]
    return any(line.startswith(marks) for line in (name or content.text).splitlines())


def _named(process: Process | None) -> str:
    return process.name if process else ""


def _whole(content: Content) -> Content:
    """Return a content without the order of its tags."""
    return replace(content, tags=tuple(sorted(content.tags)), native="")


def _texts(contents: Iterable[Content]) -> list[str]:
    return sorted(content.text for content in contents)
