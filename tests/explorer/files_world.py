"""Run notes into which servers put files, and take that back: no note shows a file that is gone, and none is kept twice."""

from __future__ import annotations

import base64
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol, cast

from explorer.oracle import UNKNOWN, words_of
from explorer.server import Answer, Server
from explorer.world import World

WENT = "went, too"
"""Ends the answer of an undo that has discarded a file."""
LOST = "cannot be brought back"


class FilesPlace(Protocol):
    """A place whose store keeps files."""

    def files(self) -> dict[str, bytes]:
        """Return those that are not in a trash, by their ids."""


@dataclass(eq=False)
class Kept:
    """Hold a file that a server was to keep: its name without the ending, which no other one has, and its note."""

    word: str
    note_id: str
    client: str
    answered: bool = False
    """Nobody calls for it again."""
    unsure: bool = False
    """Some act did not come to its end that may have moved it, or said that it is lost."""
    gone: bool = False
    """An undo was answered as one that took it away, and nothing brings it back."""

    @property
    def data(self) -> bytes:
        """Return its bytes."""
        return b"\x89PNG\r\n\x1a\n" + self.word.encode()

    @property
    def sent(self) -> str:
        """Return it as a call brings it along."""
        return f"data:image/png;name={self.word}.png;base64,{base64.b64encode(self.data).decode()}"


class FilesWorld(World):
    """Hold everything that takes part in one run of such notes."""

    def __init__(self, *args: Any, **how: Any) -> None:
        self._kept: list[Kept] = []
        self._made = 0
        super().__init__(*args, **how)

    def heal(self) -> None:
        """See ``World.heal``."""
        super().heal()
        held = cast("FilesPlace", self.place).files()
        store = self.place.contents()
        for kept in self._kept:
            self._judge(kept, [one for one, data in held.items() if data == kept.data], store)

    def _judge(self, kept: Kept, there: list[str], store: dict[str, Any]) -> None:
        # One that cannot be read just then may say anything: the same file gets another name beside it.
        if len(there) > 1 and not any("the disk refuses to" in key for key in self.chooser.made):
            raise self.oracle.breaks(f"a file is kept twice: {kept.word} as {there}")
        shows = [one for one, content in store.items() if kept.word in words_of(content.text)]
        if not self.place.traits.ids.paths:  # a file goes with its note
            shows = [one for one in shows if one == kept.note_id]
        # What a computer has discarded another one knows nothing of, nor does a program that has read its link before.
        known = not self.plan.apart and kept.word not in self.oracle.from_buffers
        if shows and not there and not kept.unsure and known:
            raise self.oracle.breaks(f"a note shows a file that is gone: {kept.word} in {shows}")
        if kept.gone and there and not shows and not kept.unsure:
            raise self.oracle.breaks(f"a file is there that was to go: {kept.word} as {there}")

    def _put(self, word: str) -> None:
        """See ``World._put``: its id has no word, for links have ids in them."""
        self._made += 1
        self.place.put(f"other-n{self._made}", f"{word} title\nline\n")

    # What servers do.

    def _possible(self) -> dict[str, Callable[[Server], Coroutine[Any, Any, None]]]:
        return super()._possible() | {
            "keep a file": self._keep,
            "keep a file and undo that": self._keep_and_undo,
        }

    async def _keep(self, server: Server) -> Kept | None:
        """Keep a file of a name of its own; once more, if the first call fails, or has ended with its process."""
        cut_off = (one for one in self._kept if one.client == server.name and not one.answered)
        kept = next(cut_off, None)
        if kept is None:
            note_id = self.some_note(server)
            if not note_id:
                return None
            kept = Kept(self.word("file"), note_id, server.name)
            self._kept.append(kept)
        for _ in range(2):
            answer = await server.call("save", id=kept.note_id, file=kept.sent)
            unknown = answer.value.get("subcategory") == UNKNOWN
            if answer.ok or unknown:
                self._see_kept(server, kept, answer)
            if answer.ok:
                kept.answered = True
                return kept
        kept.answered = True
        return None

    def _see_kept(self, server: Server, kept: Kept, answer: Answer) -> None:
        """Remember that an undo may take the file, as the last change of the client."""
        note_id = answer.value.get("id") or kept.note_id
        earlier = self.oracle.last.pop((server.name, note_id), [])
        self.oracle.last[server.name, note_id] = [*earlier, (kept.word, answer.ok)]

    async def _keep_and_undo(self, server: Server) -> None:
        """Keep a file, undo that, and undo the undo, perhaps."""
        alone, begun = server.busy == 1, server.done
        kept = await self._keep(server)
        for _ in range(self.chooser.choose(f"{server.name} undoes a file", 3, rate=0.8)):
            await self.loop.gate(f"{server.name} has kept a file")
            if kept is None or not alone or server.done != begun:
                return
            await self._undo_in(server, kept.note_id, kept)

    async def _undo_in(self, server: Server, note_id: str, kept: Kept) -> None:
        key = (server.name, note_id)
        if key not in self.oracle.last:
            return
        self.oracle.tags.forget(note_id)
        self.oracle.unmade.add(note_id)
        answer = await self.guarded(
            server,
            "manage",
            lambda: self.oracle.undone(*key),
            action="undo",
            id=note_id,
            confirm=True,
        )
        kept.gone = answer.ok and str(answer.value.get("note", "")).endswith(WENT + ".")

    async def guarded(
        self, server: Server, tool: str, forgive: Callable[[], None], **arguments: Any
    ) -> Answer:
        """See ``World.guarded``. What such a call has not come to do with files nobody knows."""
        before = [*self._kept]
        sure = False
        try:
            answer = await super().guarded(server, tool, forgive, **arguments)
            sure = LOST not in answer.text and answer.value.get("subcategory") != UNKNOWN
            return answer
        finally:
            for kept in before:
                kept.unsure |= not sure
                kept.gone = False
