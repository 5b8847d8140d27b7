"""Run a vault in which servers move a folder with notes that link to each other, and a file; and take that back.

A move that was cut off is repeated, in the end at the latest: then all that was in the folder is in the new one, with the links and cards.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Coroutine
from pathlib import PurePosixPath
from typing import Any

from explorer.link_world import LinkWorld
from explorer.oracle import UNKNOWN
from explorer.registers import Change, Registers
from explorer.server import Answer, Server
from explorer.world import HEALING_SECONDS
from mcp_notarium.domain.note import Content

FILE = "file.bin"
LINKS = {"linkA", "linkB", "linkC", "linkD", "linkE"}
"""The words of all links that are there at the beginning."""
MOST_CALLS = 3
"""How often a move is asked for in the end, until all is moved."""


class FolderWorld(LinkWorld):
    """Hold everything that takes part in one run of such a vault."""

    within = "Work/"
    files = (f"{within}{FILE}",)

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._folders = Registers()
        self._open: dict[str, dict[str, Any]] = {}
        """Client to its move, or undo of one, of which no answer says how it ended."""

    # The parts of a run.

    def put_first(self, number: int, word: str) -> None:
        """See ``World.put_first``: each has a link to the other, and one to the file."""
        root = self._vault.disk.root / self.within
        root.mkdir(exist_ok=True)
        (root / FILE).write_bytes(b"file")
        links = (f"linkC [note](note1.md)\nlinkE [note]({FILE})\n", "linkD [[Work/note0]]\n")
        self.place.put(f"{self.within}note{number}", f"title {number}\n{word}\n{links[number]}")
        self._meant |= {"linkC": self._cards[1], "linkD": self._cards[0], "linkE": FILE}
        for mark in (word, FILE):
            self._folders.has((mark, "folder", ""), self.within.rstrip("/"))

    def _read_histories(self) -> None:
        """See ``World._read_histories``. What was cut off is repeated before."""
        if self._away in self._open:  # nobody repeats its call
            self._excused |= LINKS
        for server in self.servers:
            for _ in range(MOST_CALLS):
                if not server.alive or server.name not in self._open or self.oracle.broken:
                    break
                with server.process.running():
                    asked = self.loop.create_task(self._move(server, self._open[server.name]))
                asked.add_done_callback(self.see_end)
                self.loop.run_until(asked.done, deadline=self.loop.time() + HEALING_SECONDS)
        self.loop.run_until(self._in_step, deadline=self.loop.time() + HEALING_SECONDS)
        super()._read_histories()

    def heal(self) -> None:
        """See ``World.heal``: what was in the folder is where the last move has brought it."""
        super().heal()
        store = self.place.contents()
        for mark in (*self._cards, FILE):
            place = self._place_of(mark, store)
            folder = str(PurePosixPath(place).parent)
            fault = self._folders.fault((mark, "folder", ""), folder) if place else ""
            if mark == FILE and not place:
                fault = "it is not there once"
            if fault and mark not in self.oracle.taken:
                raise self.oracle.breaks(
                    f"something is in another folder: {place}, {mark}: {fault}"
                )

    def _place_of(self, mark: str, store: dict[str, Content]) -> str:
        if mark != FILE:
            return super()._place_of(mark, store)
        found = [f"{above}/{name}" for above, name in self._vault.disk.files() if name == FILE]
        return found[0] if len(found) == 1 else ""

    def _leads_to(self, note_id: str, target: str, *, by_name: bool) -> str:
        """See ``LinkWorld._leads_to``."""
        if by_name:
            return target if "/" in target else f"/{target}"
        return posixpath.normpath(posixpath.join(posixpath.dirname(note_id), target))

    # What servers do.

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, None]]]:
        return super()._possible() | {
            "move a folder": self._move_folder,
            "move it and back": self._move_and_undo,
            "move a folder again": self._move_folder,
        }

    async def _rename_linked(self, server: Server) -> Answer | None:
        """See ``LinkWorld._rename_linked``: it writes the path of the note, with the folder that it has now."""
        begun = [self._begin(mark, lambda _folder: True, "any") for mark in self._cards]
        answer = await super()._rename_linked(server)
        if answer is None or answer.value.get("subcategory") != UNKNOWN:
            for change in begun:
                self._folders.end(change, certain=False)
        return answer

    async def _following(self, server: Server, tool: str, **arguments: Any) -> Answer:
        """See ``LinkWorld._following``. A note that is renamed while another one of its folder waits to move is another one for that."""
        if self._open.keys() - {server.name} or (self._open and self._renaming):
            self._excused |= LINKS - {"linkA", "linkB"}
        return await super()._following(server, tool, **arguments)

    def _begin(self, mark: str, allows: Callable[[object], bool], told: str) -> Change:
        return self._folders.begin((mark, "folder", ""), allows, told)

    async def _move_folder(self, server: Server) -> str:
        """Move the folder of a note; return the id of the change, '' if it is not known to be done."""
        asked = self._open.get(server.name)
        if asked is None:
            notes = {note.id: note.content for note in server.notes()}
            label = f"{server.name} moves the folder of"
            mark = self._cards[self.chooser.choose(label, 2, rate=0.3, said=self._cards)]
            folder = str(PurePosixPath(self._place_of(mark, notes)).parent)
            if folder == ".":
                return ""
            new = self.word("folder")
            asked = {"action": "move_folder", "folder": folder, "new_folder": new, "confirm": True}
        return await self._move(server, asked)

    async def _move_and_undo(self, server: Server) -> None:
        change_id = await self._move_folder(server)
        if change_id and server.name not in self._open:
            await self.loop.gate(f"{server.name} has moved a folder")
            await self._move(server, {"action": "undo", "change_id": change_id, "confirm": True})

    async def _move(self, server: Server, asked: dict[str, Any]) -> str:
        """Call for a move or an undo of one, once more if it was cut off; return the id of the change if it is done."""
        self._open[server.name] = asked
        if len(self._open) > 1:  # two who move one folder to two places tear it apart
            self._excused |= LINKS
        notes = {note.id: note.content for note in server.notes()}
        old, new = asked.get("folder", ""), asked.get("new_folder", "")
        places = {mark: self._place_of(mark, notes) for mark in (*self._cards, FILE)}
        begun = {
            mark: self._begin(mark, lambda one: one == new or not new, new)
            for mark in (*self._cards, FILE)
        }
        for note_id in notes:
            self.oracle.writers.setdefault(note_id, set()).add(server.name)
        answer = await self._following(server, "manage", **asked)
        if answer.value.get("subcategory") == UNKNOWN:
            return ""
        cut_off = "left" in answer.value.get("details", {}) or bool(answer.value.get("retryable"))
        whole = answer.ok and not answer.value.get("left") and not answer.value.get("refused")
        if whole or not (answer.ok or cut_off):
            self._open.pop(server.name, None)
        if (
            not whole and not new
        ):  # what went back has its old links, also to what stays, as the answer tells
            self._excused |= LINKS
        for mark, change in begun.items():
            here = str(PurePosixPath(places[mark]).parent) in (old, new)
            self._folders.end(change, certain=whole and here and bool(new))
        return str(answer.value.get("change_id") or "") if whole else ""
