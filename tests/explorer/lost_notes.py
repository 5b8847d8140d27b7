"""Say what stays of notes that another device removes, and let servers make notes again that are gone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from explorer.broken import Broken, all_words, words_of
from mcp_notarium.domain.note import Content
from mcp_notarium.stores.contract import Traits, Versions

if TYPE_CHECKING:
    from explorer.server import Server
    from explorer.world import World

REWRITTEN = re.compile(r"them\d+ other")


@dataclass
class LostNotes:
    """Remember what saves have made of notes, and what of that another device has removed."""

    made: dict[tuple[str, str], Content] = field(default_factory=dict)
    """Computer and id to what a save has made of the note, if nobody else has written it since."""
    lost: dict[tuple[str, str], str] = field(default_factory=dict)
    """Computer and id to the text of a note that went so, outside the trash."""
    acts: Counter[str] = field(default_factory=Counter)
    """Id to how often another device has acted on the note."""
    sent: set[str] = field(default_factory=set)
    """Texts that servers have sent, without blanks."""

    def writes(self, note_id: str, *, computer: str = "") -> None:
        """Learn that somebody may write a note, on this computer or on another device."""
        self.acts[note_id] += not computer
        for key in [key for key in self.made if key[1] == note_id and key[0] != computer]:
            del self.made[key]

    def removes(self, note_id: str, content: Content) -> None:
        """Learn that another device has removed a note for good, which said this."""
        self.acts[note_id] += 1
        for key, made in self.made.items():
            if key[1] == note_id and _same(made, content) and not content.trash:
                self.lost[key] = content.text

    def deleted(self, note_id: str) -> None:
        """Learn that a server was to delete a note for good: nothing need be kept of it."""
        self.made = {key: made for key, made in self.made.items() if key[1] != note_id}
        self.lost = {key: text for key, text in self.lost.items() if key[1] != note_id}

    def forget(self) -> None:
        """Expect nothing of what has gone so far: other rules hold, or its notes may be there again."""
        self.made.clear()
        self.lost.clear()

    def sends(self, content: Content) -> None:
        """Learn that a server is to send a note."""
        self.sent.add("".join(content.text.split()))

    def judge(self, server: Server, store: Mapping[str, Content]) -> None:
        """Demand that what was saved here last can be had again, and nothing that only others have written."""
        self._require_kept(server, store)
        versions = server.app.cache.versions
        kept = [
            (note_id, found[1].text)
            for note_id in server.app.library.history.find_ids()
            for row in versions.of(note_id)
            if not row.replaced_by and (found := versions.get(note_id, row.local_version))
            if found[1] is not None
        ]
        # A text that another device has put in the place of all that was there is nobody else's.
        theirs = [(note_id, text) for note_id, text in kept if REWRITTEN.fullmatch(text.strip())]
        others = [one for one in theirs if "".join(one[1].split()) not in self.sent]
        # What others have made of a new note before its server finds it counts as made there, where the answer was lost.
        if not server.world.oracle.is_smooth():
            others = [one for one in others if one[0].startswith("note")]
        if others and server.app.library.traits.versions is not Versions.BY_ETAG:
            raise Broken(f"what only others have written is kept: {server.name} has {others}")

    def _require_kept(self, server: Server, store: Mapping[str, Content]) -> None:
        """Demand that a note which was saved here last can be made again where the store keeps nothing of it."""
        traits, held = server.app.library.traits, server.contents()
        if traits.versions is not Versions.NONE or traits.in_database:
            return
        there = {word for content in store.values() for word in words_of(all_words(content))}
        for (computer, note_id), text in self.lost.items():
            if computer != server.machine.name or note_id in held or {*words_of(text)} <= there:
                continue
            kept = [one.content.text for one in server.app.library.history.read_removed(note_id)]
            if text not in kept:
                raise Broken(
                    f"a note that went elsewhere cannot be made again: {server.name} keeps {kept} of {note_id}, not {text!r}"
                )


def _same(one: Content, other: Content) -> bool:
    return all(
        getattr(one, name) == getattr(other, name) for name in ("text", "trash", "properties")
    ) and {*one.tags} == {*other.tags}


def revives(traits: Traits) -> bool:
    """Tell whether a note that is gone may be made again."""
    return traits.revives or (traits.versions is Versions.NONE and not traits.in_database)


async def make_again(world: World, server: Server) -> None:
    """Make a note again that was removed, from what is kept of it."""
    history = server.app.library.history
    gone = sorted(one for one in {*history.find_ids()} if history.read_removed(one))
    if not gone:
        return
    label = f"removed note of {server.name}"
    note_id = gone[world.chooser.choose(label, len(gone), rate=0.4, said=gone)]
    listed = await server.call("manage", action="history", id=note_id)
    kept = {one.name: one.content for one in history.read_removed(note_id)}
    rows = [one for one in listed.value.get("history", ()) if one["version"] in kept]
    if not listed.ok or not rows:
        return
    label, said = f"version of {server.name}", [one["version"] for one in rows]
    row = rows[world.chooser.choose(label, len(rows), rate=0.4, said=said)]
    then, oracle = kept[row["version"]], world.oracle
    words = {one for one in words_of(all_words(then)) if one in oracle.authors}

    world.act_before(f"{server.name} makes a note again", note_id)

    acts = oracle.lost_notes.acts[note_id]

    def expect() -> None:
        oracle.removed.discard(note_id)
        oracle.lost_notes.forget()
        oracle.unmade.add(note_id)
        oracle.made.pop((server.machine.name, note_id), None)
        oracle.tags.forget(note_id)
        oracle.perhaps_twice |= words  # what it brings back may be elsewhere by now

    answer = await world.guarded(
        server,
        "manage",
        expect,
        action="restore_version",
        id=note_id,
        local_version=listed.value["new_local_version"],
        version=row["version"],
        confirm=True,
    )
    there = world.place.contents().get(str(answer.value.get("id")))
    if not answer.ok or there is None:
        return
    now = {*words_of(all_words(there))}
    if now <= {*words_of(all_words(then))}:  # nobody has gone on from it
        oracle.require_restored(server, answer, then.text)
    elif words and not words & now and acts == oracle.lost_notes.acts[note_id]:
        raise oracle.breaks(
            f"what is there counts as made again: {server.name} has {note_id}, which says {there.text!r}"
        )
    for word in words & now:
        oracle.taken.discard(word)
        oracle.promise(word, server.name)
