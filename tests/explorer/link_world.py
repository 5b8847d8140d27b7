"""Run a vault whose notes link to each other, and stand on the cards of a canvas, while servers rename them and take that back.

Each link has a line of its own, which begins with a word, and means the note that had it in mind: in the end it must lead there. What may not
follow is told in the answer (notes that were being written), or was written while nobody could know the new name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from pathlib import PurePosixPath
from typing import Any

from explorer.oracle import is_copy, words_of
from explorer.server import Answer, Server
from explorer.vault_place import VaultPlace
from explorer.world import World
from mcp_notarium.domain.note import Content
from mcp_notarium.stores.vault.folder import digest_of

LINK = re.compile(r"^(\w+) \[\[([^\]\n]+)\]\]$|^(\w+) \[note\]\(([^)\n]+)\)$", re.MULTILINE)
BOARD = "board.canvas"
OTHERS = ("edit the top", "edit the end", "edit in place", "append", "tag")
"""What other programs do here: they write what they have read just now, and rename nothing."""

WRITE_ANEW = ("edit the top", "edit the end", "tag")
"""Those which put another file in the place of a note's."""


class LinkWorld(World):
    """Hold everything that takes part in one run of such a vault. ``within``: the folder of the notes that are linked to."""

    within = ""
    files: tuple[str, ...] = ()
    """Paths of files that stand on cards as well, behind the notes."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._meant: dict[str, str] = {}
        """Word of a link to a word of the note that it means."""
        self._excused: set[str] = set()
        """Words of links that need not follow."""
        self._cards: list[str] = []
        """A word of the note on each card, in order."""
        self._texts: list[str] = []
        """Words that another program has put on the canvas."""
        self._renaming = 0
        """Renamings that have begun, and of which it is not known how they ended."""
        self._renamings = 0
        self._left_cards = False
        """An answer has told that the canvas was left as it is, or may have."""
        acts = self._vault.acts
        self.place.acts = lambda: {  # type: ignore[method-assign]
            **{name: act for name, act in acts().items() if name in OTHERS},
            "write on the canvas": self._write_on_it,
        }

    # The parts of a run.

    def begin(self, loaded: Any) -> None:
        """See ``World.begin``; one more note has links to the others, and a canvas their cards."""
        self.chooser.mute = True
        marks = [f"old{self._words[''] + number}" for number in (1, 2)]
        words = ["linkA", "linkB"]
        self._meant = dict(zip(words, marks, strict=True))
        within = self.within
        links = f"{words[0]} [[{within}note0]]\n{words[1]} [note]({within}note1.md)\n"
        self.place.put("hub", f"hub\n{links}")
        self._cards = marks
        shown = (*(f"{within}note{at}.md" for at in (0, 1)), *self.files)
        self._write_board([{"type": "file", "file": one} for one in shown])
        super().begin(loaded)

    def heal(self) -> None:
        """See ``World.heal``: links and cards lead to their notes then."""
        super().heal()
        store = self.place.contents()
        for note_id, content in store.items():
            if not is_copy(content):
                self._judge_links(note_id, content, store)
        self._judge_board(store)

    def _in_step(self) -> bool:
        moves = [one.app.cache.sync_state.card_moves() for one in self.servers if one.alive]
        return not any(moves) and super()._in_step()

    def _judge_links(self, note_id: str, content: Content, store: dict[str, Content]) -> None:
        for one, to, another, path in LINK.findall(content.text):
            word = one or another
            place = self._place_of(self._meant.get(word, ""), store)
            if word in self._excused or not place:
                continue
            leads = self._leads_to(note_id, f"{to}.md" if one else path, by_name=bool(one))
            if leads not in (place, f"/{PurePosixPath(place).name}"):
                raise self.oracle.breaks(
                    f"the link {word} in {note_id} leads to {leads}, and its note is {place}"
                )

    def _leads_to(self, note_id: str, target: str, *, by_name: bool) -> str:
        """Return the path that a link leads to, ``/`` and a name where the folder does not matter."""
        del note_id, by_name
        return f"/{PurePosixPath(target).name}"

    def _judge_board(self, store: dict[str, Content]) -> None:
        nodes = json.loads((self._vault.disk.root / BOARD).read_text())["nodes"]
        cards = [one["file"] for one in nodes if one["type"] == "file"]
        marks = (*self._cards, *(PurePosixPath(one).name for one in self.files))
        places = [self._place_of(mark, store) for mark in marks]
        wrong = len(cards) != len(places) or any(
            place and card != place for card, place in zip(cards, places, strict=True)
        )
        if wrong and not self._left_cards:
            raise self.oracle.breaks(f"the cards show {cards}, and the notes are {places}")
        shown = [one.get("text", "") for one in nodes]
        kept = {*shown, *words_of(" ".join(one.text for one in store.values())), *self._displaced()}
        if lost := {*self._texts} - kept:
            raise self.oracle.breaks(f"lost on the canvas: {sorted(lost)}")

    def _displaced(self) -> list[str]:
        """Return the words of canvases that a killed server has displaced: a file that is neither what it wrote nor read is kept."""
        root = self._vault.disk.root
        names = (".canvas", ".canvas.tmp")
        left = [one for one in root.iterdir() if one.name.endswith(names) and one.name != BOARD]
        texts = [one.read_bytes() for one in left if digest_of(one.read_bytes()) not in one.name]
        return words_of(b" ".join(texts).decode())

    def _place_of(self, mark: str, store: dict[str, Content]) -> str:
        found = [
            note_id
            for note_id, content in store.items()
            if mark in words_of(content.text) and not is_copy(content) and not content.trash
        ]
        return found[0] if len(found) == 1 else ""

    # What servers do.

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, None]]]:
        usual = super()._possible()
        kept = {
            name: usual[name] for name in ("create", "append", "prepend", "tag", "look", "wait")
        }
        return kept | {
            "link": self._link,
            "rename a linked note": self._rename_linked,
            "rename it and take that back": self._rename_and_undo,
        }

    async def _link(self, server: Server) -> None:
        """Add a line with a link to a note that the server knows."""
        notes = {note.id: note.content for note in server.notes()}
        label = f"{server.name} links to"
        mark = self._cards[self.chooser.choose(label, 2, rate=0.5, said=self._cards)]
        into, place = self.some_note(server), self._place_of(mark, notes)
        if not into or not place:
            return
        word, before = self.word(server.name), (self._renamings, self._renaming)
        self._meant[word] = mark
        self._excused.add(word)
        line = f"{word} [[{PurePosixPath(place).stem}]]"
        answer = await server.call("save", id=into, append=f"{line}\n")
        if answer.ok:
            self.oracle.promise(word, server.name)
            if before == (self._renamings, 0):
                self._excused.discard(word)

    async def _rename_linked(self, server: Server) -> Answer | None:
        """Rename a note that others link to."""
        notes = {note.id: note.content for note in server.notes()}
        label = f"{server.name} renames"
        mark = self._cards[self.chooser.choose(label, 2, rate=0.5, said=self._cards)]
        place = self._place_of(mark, notes)
        read = await server.call("get", id=place) if place else None
        if read is None or not read.ok:
            return None
        return await self._following(
            server,
            "save",
            id=place,
            title=self.word("name"),
            local_version=read.value["local_version"],
            rewrite_links=True,
        )

    async def _rename_and_undo(self, server: Server) -> None:
        renamed = await self._rename_linked(server)
        if renamed is None or not renamed.ok:
            return
        note_id = renamed.value["id"]
        await self.loop.gate(f"{server.name} has renamed")
        await self._following(server, "manage", action="undo", id=note_id, confirm=True)

    async def _following(self, server: Server, tool: str, **arguments: Any) -> Answer:
        """Call what renames a note; excuse the links that the answer says it has left, or that somebody else was writing."""
        known = {note.id: note for note in server.notes()}
        begun, busy = self._begun_by_others(server), self._others_busy(server)
        unanswered = {write.note_id for write in server.app.cache.journal.all()}
        self._renaming += 1
        self._renamings += 1
        answer: Answer | None = None
        try:
            answer = await server.call(tool, **arguments)
        finally:
            settled = answer is not None and answer.value.get("subcategory") != "in_doubt"
            if settled:
                self._renaming -= 1
            told = "" if answer is None else str(answer.value.get("note") or "")
            busy = busy or self._others_busy(server) or begun != self._begun_by_others(server)
            # What the first answer to a call that came twice has told nobody has read.
            unknown = busy and (not settled or (answer is not None and answer.again))
            self._left_cards |= "Left alone" in told or (not settled and self._vault.refuses > 0)
            for note_id, note in known.items():
                left = note_id in (told.partition("left in:")[2] if settled else unanswered)
                if unknown or left:
                    self._excuse(note.text)
        return answer

    def _excuse(self, text: str) -> None:
        self._excused |= {one or other for one, _, other, _ in LINK.findall(text)}

    def _begun_by_others(self, server: Server) -> int:
        return sum(one.done for one in self.servers if one is not server)

    def _others_busy(self, server: Server) -> bool:
        return any(one.busy for one in self.servers if one is not server)

    # What other programs do.

    @property
    def _vault(self) -> VaultPlace:
        assert isinstance(self.place, VaultPlace)
        return self.place

    def _act_elsewhere(self, name: str, note_id: str) -> str:
        """See ``World._act_elsewhere``. A file that is written anew before a renaming of it is known is another note."""
        content = self.place.contents().get(note_id)
        if self._renaming and content is not None and name in WRITE_ANEW:
            there = words_of(content.text)
            self._excused |= {word for word, mark in self._meant.items() if mark in there}
        return super()._act_elsewhere(name, note_id)

    def _write_on_it(self, _note_id: str, word: str) -> None:
        nodes = json.loads((self._vault.disk.root / BOARD).read_text())["nodes"]
        self._texts.append(word)
        self._write_board([*nodes, {"type": "text", "text": word}])

    def _write_board(self, nodes: list[dict[str, str]]) -> None:
        self._vault.editors.write_anew(BOARD, json.dumps({"nodes": nodes}))
