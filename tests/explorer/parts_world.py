"""Run notes with sections, properties and tasks, of which servers change one at a time, or the same in many notes at once.

What is there of a note besides stays as others make it meanwhile. A change of many notes that was cut off is repeated, in the end at the latest: no
note has half of it then, and one undo takes it back in all that nothing has followed in.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from explorer.more_acts import FIRST_TAG
from explorer.oracle import UNKNOWN, is_copy, words_of
from explorer.registers import Change, Key, Registers, Value
from explorer.server import Answer, Server
from explorer.world import HEALING_SECONDS, World
from mcp_notarium.domain.note import Content, Note, PropertyPlace
from support.bulk_results import rows_of

HEADING = re.compile(r"^# (\w+)$", re.MULTILINE)
TASK = re.compile(r"^- \[(.)\] (\w+)", re.MULTILINE)
PROPERTIES = ("status", "owner")
SECTIONS = 2
"""Those of each note that is there at the beginning."""
OTHERS = ("edit the top", "edit the end", "edit in place", "append", "forget cursors")
"""What other programs do here: they write what they have read just now, and keep what stands there."""


@dataclass(eq=False, slots=True)
class Many:
    """Hold a change of many notes, or an undo of one, as it was asked for."""

    arguments: dict[str, Any]
    sets: dict[tuple[str, str], Value]
    """Kind and name of each register to what it becomes; of an undo to what it may not be any more."""
    undoes: bool = False
    tries: list[Change] = field(default_factory=list)
    change_id: str = ""
    in_part: bool = False
    """It was made once more, under another id: an undo by one of its ids is none of what it has done under the other."""


class PartsWorld(World):
    """Hold everything that takes part in one run of such notes."""

    def __init__(self, *args: Any, **how: Any) -> None:
        self._registers = Registers()
        self._marks: list[str] = []
        """A word of each note that is there at the beginning, and always stays."""
        self._sections: dict[str, tuple[str, int]] = {}
        """Word to the mark of its note, and the number of the section that it was written into."""
        self._many: list[tuple[str, Many]] = []
        """Client to each change of many that it has begun."""
        self._open: dict[str, Many] = {}
        """Client to the one of which no answer says that it is done."""
        self._hidden_notes: dict[str, Content] = {}
        super().__init__(*args, **how)
        acts = self.place.acts
        self.place.acts = lambda: {  # type: ignore[method-assign]
            name: act for name, act in acts().items() if name in OTHERS
        }

    # The parts of a run.

    def put_first(self, number: int, word: str) -> None:
        """See ``World.put_first``: two sections, a task, and where properties stand in the text, a block of them."""
        traits = self.place.traits
        text = f"title {number}\n{word}\n- [ ] task{number}\n# first{number}\nbody\n# second{number}\nbody\n"
        in_text = traits.other_properties is PropertyPlace.IN_TEXT
        block = f"---\nkept: yes # as it is\ntags:\n  - {FIRST_TAG}\n---\n" if in_text else ""
        self.place.put(f"note{number}", f"{block}{text}", tags=() if block else (FIRST_TAG,))
        self._marks.append(word)
        self._registers.has((word, "task", f"task{number}"), " ")
        self._registers.has((word, "tag", FIRST_TAG), True)
        for name in self._names():
            self._registers.has((word, "property", name), None)

    def begin(self, loaded: Any) -> None:
        """See ``World.begin``."""
        super().begin(loaded)
        self._hidden_notes = {
            one: content
            for one, content in self.place.contents().items()
            if "hidden" in content.tags
        }

    def _read_histories(self) -> None:
        """See ``World._read_histories``. What was cut off is repeated before."""
        for server in self.servers:
            if server.alive and server.name in self._open and not self.oracle.broken:
                with server.process.running():
                    asked = self.loop.create_task(self._ask_for(server, self._open[server.name]))
                asked.add_done_callback(self.see_end)
                deadline = self.loop.time() + HEALING_SECONDS
                self.loop.run_until(asked.done, deadline=deadline)
        self.loop.run_until(self._in_step, deadline=self.loop.time() + HEALING_SECONDS)
        super()._read_histories()

    def heal(self) -> None:
        """See ``World.heal``."""
        super().heal()
        store = self.place.contents()
        for mark in self._marks:
            note_id = self.place_of(mark, store)
            if (
                mark not in self.oracle.taken
            ):  # else a text has gone with a process that had it alone
                self._judge_note(mark, note_id, store[note_id] if note_id else None)
        for note_id, content in self._hidden_notes.items():
            if store.get(note_id) != content:
                raise self.oracle.breaks(
                    f"a hidden note was changed: {note_id} is {store.get(note_id)}"
                )

    def _judge_note(self, mark: str, note_id: str, content: Content | None) -> None:
        if content is None:
            raise self.oracle.breaks(f"a note is not there once: that of {mark}")
        if len(HEADING.findall(content.text)) != SECTIONS:
            raise self.oracle.breaks(f"sections are lost or doubled: {note_id} is {content.text!r}")
        places = self._sections.items()
        for word, number in [(word, at) for word, (whose, at) in places if whose == mark]:
            there = [at for at, one in enumerate(_sections(content.text)) if word in words_of(one)]
            if word not in self.oracle.taken and there not in ([], [number + 1]):
                raise self.oracle.breaks(
                    f"a word is in another section: {word} in {note_id}, {content.text!r}"
                )
        for key in self._registers.of(mark):
            if fault := self._registers.fault(key, self._value(content, key)):
                raise self.oracle.breaks(
                    f"a {key[1]} is not what it was made: {key[2]} of {note_id}: {fault}"
                )
        self._judge_halves(mark, note_id, content)

    def _judge_halves(self, mark: str, note_id: str, content: Content) -> None:
        """Demand that a note has all of a change of many or nothing, where nothing else has changed the same."""
        for _, many in self._many:
            tries = [one for one in many.tries if one.key[0] == mark]
            others = [one for own in tries for one in self._registers.beside(own)]
            if many.undoes or any(one not in tries for one in others):
                continue
            sets = many.sets
            stood = [one.key[1:] for one in tries if self._registers.stood(one, sets[one.key[1:]])]
            made = {
                self._value(content, (mark, *register)) == value
                for register, value in sets.items()
                if register not in stood
            }
            if len(made) > 1:
                raise self.oracle.breaks(
                    f"a note has half of a change: {note_id} of {many.arguments}: {content}"
                )

    def _value(self, content: Content, key: Key) -> Value:
        """Return what a register is, as others read it. Raises ``Broken`` for one that stands there twice."""
        _, kind, name = key
        if kind == "tag":
            return name in content.tags
        if kind == "task":
            found: list[Value] = [
                state for state, words in TASK.findall(content.text) if words == name
            ]
        elif self.place.traits.other_properties is PropertyPlace.IN_TEXT:
            block = re.match(r"---\n(.*?)^---$", content.text, re.DOTALL | re.MULTILINE)
            lines = block[1] if block else ""
            found = [*re.findall(rf"^{name}: (.*)$", lines, re.MULTILINE)]
        else:
            found = [content.properties[name]] if name in content.properties else []
        if len(found) > 1:
            raise self.oracle.breaks(f"a {kind} stands there twice: {name} in {content.text!r}")
        return found[0] if found else None

    # What servers do.

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, None]]]:
        usual = super()._possible()
        kept = {
            name: usual[name]
            for name in ("create", "append", "tag", "look", "wait", "ask for a history")
        }
        acts = {
            "append to a section": self._append_to_section,
            "replace a section": self._replace_section,
            "rename a heading": self._rename_heading,
            "tick a task": self._tick,
            "add a tag": self._add_tag,
            "remove a tag": self._remove_tag,
            "change many": self._change_many,
            "undo a change of many": self._undo_many,
        }
        acts["change many and take that back"] = self._change_and_undo
        if self._names():
            acts |= {
                "set a property": self._set_property,
                "remove a property": self._remove_property,
            }
        acts |= {
            "change a section and undo that": self._undo_section,
            "tick a task and undo that": partial(self._change_and_take_back, change=self._tick),
        }
        if self._names():
            acts["set a property and undo that"] = partial(
                self._change_and_take_back, change=self._set_property
            )
        return kept | acts

    def _names(self) -> tuple[str, ...]:
        """Return the names of the properties that servers set."""
        traits = self.place.traits
        if traits.other_properties is PropertyPlace.NOWHERE:
            return ("pinned",) if "pinned" in traits.properties else ()
        return PROPERTIES

    def _noted(self, server: Server) -> tuple[str, Note] | None:
        """Return one of the notes that were there at the beginning, with its mark; None if the server knows none."""
        notes = {note.id: note for note in server.notes()}
        contents = {one: note.content for one, note in notes.items()}
        found = [(mark, self.place_of(mark, contents)) for mark in self._marks]
        known = [(mark, notes[one]) for mark, one in found if one]
        if not known:
            return None
        label = f"{server.name} takes note"
        return known[self.chooser.choose(label, len(known), rate=0.4, said=known)]

    @staticmethod
    def place_of(mark: str, store: dict[str, Content]) -> str:
        """Return the id of the note with this word, '' if it is not one note."""
        found = [
            note_id
            for note_id, content in store.items()
            if mark in words_of(content.text) and not is_copy(content)
        ]
        return found[0] if len(found) == 1 else ""

    def _section(self, server: Server, text: str) -> tuple[int, str]:
        """Return the number and the heading of a section."""
        headings = HEADING.findall(text)
        label = f"{server.name} takes section"
        at = self.chooser.choose(label, len(headings), rate=0.5, said=headings)
        return at, headings[at]

    async def _append_to_section(self, server: Server) -> None:
        if found := self._noted(server):
            mark, note = found
            word, (at, heading) = self.word(server.name), self._section(server, note.text)
            self._sections[word] = mark, at
            how = {"section": heading, "append": f"{word}\n"}
            await self._promising(server, word, "save", id=note.id, **how)

    async def _replace_section(self, server: Server) -> None:
        found = self._noted(server)
        read = await server.call("get", id=found[1].id) if found else None
        if found is None or read is None or not read.ok:
            return
        await self.loop.gate(f"{server.name} has read")
        mark, text = found[0], read.value["text"]
        word, (at, heading) = self.word(server.name), self._section(server, text)
        body = _sections(text)[at + 1].partition("\n")[2]
        self._sections[word] = mark, at
        version = read.value["local_version"]
        how = {"section": heading, "text": f"{word}\n", "local_version": version}
        await self._replacing(server, word, body, id=read.value["id"], **how)

    async def _rename_heading(self, server: Server) -> None:
        if found := self._noted(server):
            word, (_, heading) = self.word(server.name), self._section(server, found[1].text)
            how = {"section": heading, "heading": word}
            await self._replacing(server, word, heading, id=found[1].id, **how)

    async def _replacing(self, server: Server, word: str, gone: str, **arguments: Any) -> None:
        """Save a word in the place of a text."""
        answer = await self.guarded(server, "save", lambda: self.oracle.forgive(gone), **arguments)
        self.see_promise(server, word, arguments["id"], answer)

    async def _tick(self, server: Server) -> Key | None:
        found = self._noted(server)
        if found is None:
            return None
        mark, note = found
        state, name = TASK.findall(note.text)[0]
        done, key = state == " ", (mark, "task", name)
        await self._set(server, note, key, "x" if done else " ", task=name, done=done)
        return key

    async def _add_tag(self, server: Server) -> None:
        if found := self._noted(server):
            tag = self.word("tag")
            await self._set(server, found[1], (found[0], "tag", tag), True, add_tags=[tag])

    async def _remove_tag(self, server: Server) -> None:
        found = self._noted(server)
        # A property may count as a tag, and somebody may set it again.
        tags = sorted({*found[1].tags} - {FIRST_TAG, *self._names()}) if found else []
        if found and tags:
            label = f"tag of {server.name}"
            tag = tags[self.chooser.choose(label, len(tags), rate=0.4, said=tags)]
            self.oracle.forgive(tag)
            self._registers.knows((found[0], "tag", tag), True)
            await self._set(server, found[1], (found[0], "tag", tag), False, remove_tags=[tag])

    async def _set_property(self, server: Server) -> Key | None:
        found = self._noted(server)
        if found is None:
            return None
        name = self.chooser.among(f"property of {server.name}", self._names(), rate=0.4)
        value, key = self._new_value(server), (found[0], "property", name)
        await self._set(server, found[1], key, value, properties={name: value})
        return key

    def _new_value(self, server: Server) -> Any:
        in_store = self.place.traits.other_properties is not PropertyPlace.NOWHERE
        return self.word(server.name) if in_store else True

    async def _remove_property(self, server: Server) -> None:
        if found := self._noted(server):
            name = self.chooser.among(f"property of {server.name}", self._names(), rate=0.4)
            key = (found[0], "property", name)
            await self._set(server, found[1], key, None, properties={name: None})

    async def _set(
        self, server: Server, note: Note, key: Key, value: Value, **arguments: Any
    ) -> None:
        """Save one value of a note."""
        change = self._registers.begin(key, _is(value), repr(value))
        if key[1] != "tag" or not value:
            self.oracle.alike.add(note.id)
        answer = await server.call("save", id=note.id, **arguments)
        if answer.value.get("subcategory") != UNKNOWN:
            elsewhere = answer.value.get("conflict_copy_id") or answer.value.get("unchanged")
            self._registers.end(change, certain=answer.ok and not elsewhere)

    # One change, taken back.

    async def _undo_section(self, server: Server) -> None:
        ways = (self._append_to_section, self._replace_section, self._rename_heading)
        label, said = f"{server.name} changes a section by", [one.__name__ for one in ways]
        at = self.chooser.choose(label, len(ways), rate=0.6, said=said)

        async def change(server: Server) -> None:
            await ways[at](server)

        await self._change_and_take_back(server, change, takes_words=True)

    async def _change_and_take_back(
        self,
        server: Server,
        change: Callable[[Server], Coroutine[Any, Any, Key | None]],
        *,
        takes_words: bool = False,
    ) -> None:
        """Change a part of a note, and undo that: the note is what it was, if nothing has followed.

        An undo takes back the last change of a client, so it does nothing else meanwhile.
        """
        saved, begun, alone = len(server.saves), server.done, server.busy == 1
        key = await change(server)
        await self.loop.gate(f"{server.name} has changed a part")
        if not alone or server.done != begun or len(server.saves) <= saved:
            return
        made, undoing = server.saves[-1], None
        note_id = made.saved.note.id
        self.oracle.unmade.add(note_id)  # what it brings back others have written
        if key is not None and made.before is not None:
            value = self._value(made.before.content, key)
            undoing = self._registers.begin(key, _is(value), f"{value!r} again")

        def forgive() -> None:
            takes = takes_words or server.done != begun
            if takes and (server.name, note_id) in self.oracle.last:
                self.oracle.undone(server.name, note_id)

        answer = await self.guarded(
            server, "manage", forgive, action="undo", id=note_id, confirm=True
        )
        if undoing is not None and answer.value.get("subcategory") != UNKNOWN:
            self._registers.end(undoing, certain=answer.ok)
        if server.done != begun:
            self._forget_values(self._mark_of(made.saved.note.content))
            self.oracle.tags.forget(note_id)
        elif not answer.ok:
            person = f"the person whom {server.name} asks"
            declined = any(person in key for key in self.chooser.made)
            no = ("confirmation_required", "declined")
            declined = declined and answer.value.get("subcategory") in no
            if not (declined or self._others_write(server)):
                self.oracle.require_can_undo(server, note_id, answer)
        elif server.saves:  # else the undo was done, taken back and called again
            undone = server.saves[-1] if server.saves[-1] is not made else None
            self.oracle.require_undone(server, made, undone)

    def _others_write(self, server: Server) -> bool:
        """Tell whether the other server may write, or may have written, what it has no answer about."""
        taken_back = any("takes a call back" in key for key in self.chooser.made)
        return taken_back or any(one.busy for one in self.servers if one is not server)

    def forget_labels(self, note_id: str) -> None:
        """See ``World.forget_labels``."""
        super().forget_labels(note_id)
        if note_id in self.place.contents():
            self._forget_values(self._mark_of(self.place.contents()[note_id]))

    def _forget_values(self, mark: str) -> None:
        """Expect any value in a note: perhaps another change was taken back."""
        for key in self._registers.of(mark):
            self._registers.begin(key, _is_any, "anything")

    # Many at once.

    async def _change_many(self, server: Server) -> None:
        many = self._open.get(server.name)
        if many is None:
            many = self._new_change(server)
            self._many.append((server.name, many))
            self._open[server.name] = many
        await self._ask_for(server, many)

    def _new_change(self, server: Server) -> Many:
        tag, names = self.word("tag"), self._names()
        sets: dict[tuple[str, str], Value] = {("tag", tag): True}
        asked: dict[str, Any] = {"action": "change", "add_tags": [tag], "confirm": True}
        if names:
            value = self._new_value(server)
            sets["property", names[0]] = value
            asked["properties"] = {names[0]: value}
        label, said = f"{server.name} names notes by", ("a query", "their ids")
        if self.chooser.choose(label, 2, rate=0.5, said=said):
            ids = [note.id for note in server.notes() if self._mark_of(note.content)]
            asked["ids"] = [*ids, *self._hidden_notes, "nowhere"]
        else:
            asked["query"] = f"tag:{FIRST_TAG}"
        return Many(asked, sets)

    async def _undo_many(self, server: Server) -> None:
        many = self._open.get(server.name)
        if many is None:
            mine = [one for name, one in self._many if name == server.name and one.change_id]
            if not mine or mine[-1].undoes:
                return
            asked = {"action": "undo", "change_id": mine[-1].change_id, "confirm": True}
            many = Many(asked, mine[-1].sets, undoes=True, in_part=mine[-1].in_part)
            self._many.append((server.name, many))
            self._open[server.name] = many
        await self._ask_for(server, many)

    async def _change_and_undo(self, server: Server) -> None:
        await self._change_many(server)
        if server.name in self._open:
            await self._change_many(server)
        await self.loop.gate(f"{server.name} has changed many")
        await self._undo_many(server)

    async def _ask_for(self, server: Server, many: Many) -> None:
        """Ask for a change of many, once more if it was cut off, and remember what the answer says of each note."""
        known = {note.id: self._mark_of(note.content) for note in server.notes()}
        for note_id in known:
            self.oracle.writers.setdefault(note_id, set()).add(server.name)
            if many.undoes:
                self.oracle.unmade.add(note_id)  # what it brings back others have written
        for tag in [name for kind, name in many.sets if kind == "tag" and many.undoes]:
            self.oracle.forgive(tag)
        tries = {mark: self._begin(mark, many) for mark in self._marks}
        answer = await server.call("manage", **many.arguments)
        if answer.value.get("subcategory") == UNKNOWN:
            return
        if not answer.ok:
            if not self._is_cut_off(answer):
                self._open.pop(server.name, None)
            return
        rows = self._rows(server, many, answer)
        known |= {note.id: self._mark_of(note.content) for note in server.notes()}
        told = {known.get(one, ""): status for one, status in rows.items()}
        for mark, changes in tries.items():
            status = told.get(mark, "unchanged" if many.undoes and not many.in_part else "")
            for change in changes if status else ():
                is_new = many.sets[change.key[1:]] is not True or change.key[1] == "tag"
                done = status == "changed" or (status == "unchanged" and is_new)
                self._registers.end(change, certain=done)
        change_id = answer.value.get("change_id") or ""
        many.in_part |= bool(many.change_id) and change_id != many.change_id
        many.change_id = change_id
        self._open.pop(server.name, None)

    def _begin(self, mark: str, many: Many) -> list[Change]:
        begun = []
        for (kind, name), value in many.sets.items():
            said = f"{'not ' if many.undoes else ''}{value!r}"
            allows = _is_not(value) if many.undoes else _is(value)
            if many.undoes and value is True and kind == "property":
                allows = _is_any  # somebody else may have set it before
            begun.append(self._registers.begin((mark, kind, name), allows, said))
        many.tries += begun
        return begun

    @staticmethod
    def _is_cut_off(answer: Answer) -> bool:
        return "left" in answer.value.get("details", {}) or bool(answer.value.get("retryable"))

    def _rows(self, server: Server, many: Many, answer: Answer) -> dict[str, str]:
        """Return what an answer says of each note. Nothing may be told or counted of those that are hidden."""
        rows = rows_of(answer.value)
        counted = sum(answer.value.get(one) or 0 for one in ("notes", "unchanged", "refused"))
        if counted != len(rows):
            raise self.oracle.breaks(f"notes are counted that are not told: {answer.text}")
        if shown := [row["id"] for row in rows if row.get("id") in self._hidden_notes]:
            raise self.oracle.breaks(
                f"a change of many tells {server.name} of hidden notes: {shown}"
            )
        reasons = {row["reason"] for row in rows if row.get("name")}
        if len(reasons) > 1:
            raise self.oracle.breaks(f"a hidden note is told from none: {sorted(reasons)}")
        missing = {*many.arguments.get("ids", ())} - {
            row.get("id") or row.get("name") for row in rows
        }
        if missing:
            raise self.oracle.breaks(f"nothing is told of notes that were named: {sorted(missing)}")
        return {row["id"]: row["status"] for row in rows if row.get("id")}

    def _mark_of(self, content: Content) -> str:
        there = words_of(content.text)
        return "" if is_copy(content) else next((one for one in self._marks if one in there), "")


def _sections(text: str) -> list[str]:
    """Return what stands above the first heading, and each section with its heading."""
    starts = [0, *(one.start() for one in HEADING.finditer(text)), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(starts)]


def _is(value: Value) -> Callable[[Value], bool]:
    return lambda one: one == value


def _is_any(_value: Value) -> bool:
    return True


def _is_not(value: Value) -> Callable[[Value], bool]:
    return lambda one: one != value
