"""Read Jotter's notebooks for ``list_folders``, and move notes among them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from mcp_notarium.errors import InvalidRequest, NoteLeft, NoteNotFound
from mcp_notarium.stores.extensions import NoteIndex, ParentNote, TreePlace
from notarium_devtools.jotter import codec

if TYPE_CHECKING:
    from mcp_notarium.domain.note import Content, Note
    from notarium_devtools.jotter.store import Jotter


class Notebooks:
    """Read the notebooks of one server; see ``TreeReads``."""

    beyond_index = False

    def __init__(self, store: Jotter, index: NoteIndex) -> None:
        self._store = store
        self._index = index

    async def list_parents(self) -> list[ParentNote]:
        """Return the notebooks by their paths; where rules hide notes, those alone that have a visible one."""
        own, below = Counter[str](), Counter[str]()
        notebooks = codec.notebooks_above(await self._store.read_notebooks())
        for note in await self._store.read_notes():
            if self._index.get(str(note.get("id"))) is not None:
                notebook_id = str(note.get("parent_id"))
                own[notebook_id] += 1
                below.update([*notebooks.get(notebook_id, ())])
        found = [
            ParentNote(one, "/".join(reversed(above.values())), own[one], below[one])
            for one, above in notebooks.items()
            if below[one] or not self._index.rules.has_rules
        ]
        return sorted(found, key=lambda one: one.path)

    async def find_place(self, name: str) -> TreePlace:
        """Return the notebook of this id or path."""
        found = [one.id for one in await self.list_parents() if name in (one.id, one.path)]
        if len(found) != 1:
            raise InvalidRequest(
                "Several notebooks have this path."
                if found
                else "No notebook has this id or path.",
                subcategory="folder",
                resolution_hint="`list_folders` shows the notebooks: give the `folder` of one, which is its id.",
            )
        return TreePlace(
            found[0], [*codec.notebooks_above(await self._store.read_notebooks())[found[0]]]
        )

    async def moved(
        self,
        note: Note,
        content: Content,
        place: TreePlace,
        *,
        strict: bool,  # noqa: ARG002 - a note gets nothing from its notebook that rules go by
    ) -> Content | None:
        """Return ``content`` with the move; None: the note lies there."""
        try:
            now = await self._store.get(note.id)
        except NoteNotFound:
            raise NoteLeft("It is gone.") from None
        old = codec.notebook_of(now)
        native = codec.move_to(old, place.id).decode()
        return None if old == place.id else replace(content, native=native)

    async def moved_back(self, note: Note, content: Content, move: str, *, strict: bool) -> Content:
        """Return what a version has said, in the notebook that ``move`` leads to."""
        said = codec.read_move(move.encode()) or {}
        place = await self.find_place(said["new"])
        return await self.moved(note, content, place, strict=strict) or content
