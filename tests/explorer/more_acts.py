"""Let servers do what concerns many notes at once, or an older version of one; say what must hold of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from explorer.broken import Broken, words_of
from explorer.lost_notes import make_again, revives
from mcp_notarium.domain.note import Content

if TYPE_CHECKING:
    from explorer.server import Answer, Server
    from explorer.world import World

FIRST_TAG = "t"
"""All notes have it at the beginning."""


@dataclass
class Tags:
    """Remember which tags notes were given, and by which names those may go since."""

    given: dict[str, set[str]] = field(default_factory=dict)
    """Id to the tags that a server has given to the note, as it was answered."""
    born: dict[str, str] = field(default_factory=dict)
    """First word of a new note to the tag with which it is made: it never lacks that."""
    renamed: dict[str, set[str]] = field(default_factory=dict)
    """Tag to what some call was to make of it, whether it was answered or not."""

    dropped: set[str] = field(default_factory=set)
    """Ids of notes whose tags another program took away."""
    as_text: set[str] = field(default_factory=set)
    """Ids of notes whose tags another program made text: they may be none any more, and their words stay."""

    done: list[tuple[str, list[str], str, str]] = field(default_factory=list)
    """Server, ids of the notes that had it, tag and new tag of each renaming that is answered as done for all."""
    taken_back: set[str] = field(default_factory=set)
    """Ids of notes that a server has brought back to what they were."""
    theirs: dict[str, str] = field(default_factory=dict)
    """Each tag that another device has given, and the note, with which it goes."""
    unsure: set[str] = field(default_factory=set)
    """Those that a call was to give of which nobody knows whether it has, where the store knows no write_id: it gives them once more
    if somebody has renamed them before the next cycle (docs/sync.md, Limits)."""
    last_list_stays: bool = False
    """The store keeps the last list: a name between may come back of a tag that two servers rename (docs/sync.md, Limits)."""

    def forget(self, note_id: str) -> None:
        """Expect nothing of a note: a server took back what it has changed there."""
        self.given.pop(note_id, None)
        self.taken_back.add(note_id)

    def left(self, store: dict[str, Content], hidden: AbstractSet[str]) -> list[str]:
        """Tell which notes have a tag that was renamed in all of them. One that is hidden by now may have been so before."""
        return [
            f"{note_id} has {old}, of which {name} has made {new}"
            for name, had, old, new in self.done
            for note_id in had
            if note_id in store and note_id not in self.taken_back | self.dropped | self.as_text
            if old in store[note_id].tags and note_id not in hidden
            if old not in self.unsure
            if not (self.last_list_stays and self._is_between(old))
        ]

    def _is_between(self, tag: str) -> bool:
        """Tell whether a tag is one of several names that calls were to give to another one."""
        return any(tag in names and len(names) > 1 for names in self.renamed.values())

    def judge(self, store: dict[str, Content], taken: set[str], hidden: AbstractSet[str]) -> None:
        """Demand that no tag is lost, and that none is left whose renaming is answered as done for all; ``hidden``: ids of notes."""
        for note_id, content in store.items():
            first = words_of(content.text.partition("\n")[0])  # a store of HTML ends it otherwise
            if tag := self.born.get("".join(first)):
                self.given.setdefault(note_id, set()).add(tag)
        if missing := self.missing(store, taken):
            raise Broken(f"tags lost: {missing}; the store has {store}")
        if left := self.left(store, hidden):
            raise Broken(f"a tag that was renamed is there: {left}")

    def missing(self, store: dict[str, Content], taken: set[str]) -> dict[str, list[str]]:
        """Return the tags by note that are gone, under all of their names; ``taken``: words taken away on purpose."""
        lost = {
            note_id: sorted(
                tag for tag in tags if not self._names(tag) & {*store[note_id].tags, *taken}
            )
            for note_id, tags in self.given.items()
            if note_id in store and note_id not in self.dropped | self.as_text
        }
        return {note_id: tags for note_id, tags in lost.items() if tags}

    def _names(self, tag: str) -> set[str]:
        names, waiting = set[str](), [tag]
        while waiting:
            one = waiting.pop()
            if one not in names:
                names.add(one)
                waiting += self.renamed.get(one, ())
        return names


class MoreActs:
    """All such acts of servers."""

    def __init__(self, world: World) -> None:
        self._world = world

    def acts(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, None]]]:
        """Return them by name."""
        return {
            **({"rename a tag": self._rename_tag} if self._world.place.traits.tags else {}),
            "restore": self._restore,
            **({"move below": self._move_below} if self._world.place.traits.tree else {}),
            **(
                {"make a note again": self._make_again} if revives(self._world.place.traits) else {}
            ),
        }

    async def _rename_tag(self, server: Server) -> None:
        world, notes = self._world, server.notes()
        # A note would be visible under another tag than the one that rules hide, or are going to.
        rules = {"hidden", "private"}
        tags = sorted({tag for note in notes for tag in note.tags} - rules)
        if not tags:
            return
        label = f"tag of {server.name}"
        old = tags[world.chooser.choose(label, len(tags), rate=0.4, said=tags)]
        had, new = [note.id for note in notes if old in note.tags], world.word("tag")
        world.oracle.tags.renamed.setdefault(old, set()).add(new)
        world.oracle.forgive(old)
        answer = await world.giving_tag(
            server, new, "manage", action="rename_tag", tag=old, new_tag=new, confirm=True
        )
        if answer.ok and not (answer.value.get("left") or answer.value.get("refused")):
            alone = not any(one.busy for one in world.servers if one is not server)
            world.oracle.require_renamed(server, had, old=old, new=new, alone=alone)

    async def _move_below(self, server: Server) -> None:
        """Let a note stand below another one, or at the top: no word goes, and none of what is below it."""
        world, note_id = self._world, self._world.some_note(server)
        places = ["/", *sorted(one.id for one in server.notes() if one.id != note_id)]
        label = f"place of {server.name}"
        at = world.chooser.choose(label, len(places), rate=0.6, said=places)
        if note_id:
            await server.call(
                "manage", action="change", ids=[note_id], folder=places[at], confirm=True
            )

    async def _make_again(self, server: Server) -> None:
        await make_again(self._world, server)

    async def _restore(self, server: Server) -> None:
        """Bring back an older version of a note, which takes away the words that came since."""
        world, note_id = self._world, self._world.some_note(server)
        listed = await server.call("manage", action="history", id=note_id) if note_id else None
        older = listed.value.get("history", [])[1:] if listed is not None and listed.ok else []
        if listed is None or not older:
            return
        label, said = f"version of {server.name}", [row["version"] for row in older]
        row = older[world.chooser.choose(label, len(older), rate=0.4, said=said)]
        read = await server.call("get", id=note_id, version=row["version"])
        note = server.app.cache.notes.get(note_id)
        if not read.ok or note is None or read.value.get("text_is_partial"):
            return
        now, then = {*words_of(note.text)}, read.value["text"]
        world.oracle.require_version(server, note_id, str(row["version"]), then)
        back = {*words_of(then)}

        def forgive() -> None:
            world.oracle.forgive(" ".join(now - back))
            world.oracle.tags.taken_back.add(note_id)
            world.oracle.unmade.add(note_id)  # what it brings back others have written
            world.oracle.perhaps_twice.update(back - now)  # and it may be elsewhere by now

        answer = await world.guarded(
            server,
            "manage",
            forgive,
            action="restore_version",
            id=note_id,
            local_version=listed.value["new_local_version"],
            version=row["version"],
            confirm=True,
        )
        if answer.ok:
            world.oracle.require_restored(server, answer, then)
            self._promise_back(server, answer, back)

    def _promise_back(self, server: Server, answer: Answer, back: set[str]) -> None:
        """Expect the words that a version has brought back, but for those that somebody has taken away since."""
        there = self._world.place.contents().get(str(answer.value.get("id")))
        words = back & self._world.oracle.authors.keys()
        for word in words & {*words_of(there.text)} if there is not None else ():
            self._world.oracle.taken.discard(word)
            self._world.oracle.promise(word, server.name)
