"""Find and read the files that notes of a store show, and keep files in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from mcp_notarium.domain.file_names import (
    HEAD,
    UNNAMED,
    any_ending_of,
    clean_file_name,
    kind_of,
    kind_of_name,
    split_ending,
)
from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import LoginRequired, NoteNotFound, StoreError
from mcp_notarium.library.note_transfer import NoteTransfer
from mcp_notarium.markup.file_links import WholeLink, find_whole_links, link_key
from mcp_notarium.stores.extensions import Room
from mcp_notarium.stores.http import each

if TYPE_CHECKING:
    from mcp_notarium.markup.obsidian_links import Link
    from mcp_notarium.stores.extensions import (
        AskingStore,
        Attachment,
        AttachmentStore,
        FolderStore,
        KeepingStore,
        KeptFile,
    )


MOST_FAILURES = 3
"""Requests one after another that the store does not answer, before no more are sent."""
SILENT = "the note store does not answer"
_ASKED_SECONDS = 10.0
_TRIES = 3


@dataclass(frozen=True, slots=True)
class ShownFile:
    """Hold a file that a note shows."""

    facts: Attachment
    name: str
    """Name of the file."""
    links: tuple[Link, ...]
    """Those of the text that lead to it."""


class StoreFiles:
    """Reach the files of the notes that ``transfer`` reaches, hidden ones too."""

    def __init__(self, transfer: NoteTransfer) -> None:
        self._transfer = transfer
        self.unasked: list[tuple[str, str]] = []
        """The notes of which the service did not tell all files, and why; see :meth:`find_files`."""
        self._failed = 0
        """Number of requests in a row that had no answer."""

    async def find_files(
        self, held: Sequence[Revision], *, whole: bool = False
    ) -> Mapping[str, list[ShownFile]]:
        """Return the files that each of these notes shows or has, by the id of the note; hidden files too.

        A service that alone knows them all is asked, a few notes at a time. ``whole``: raise what it raises, and leave out what is
        gone. Otherwise a note of which it does not tell is among ``unasked``, with the files that its text shows, and after a few failures in a row it is asked no more.
        """
        listed, there = await self._list_files(held, whole=whole)
        having = {
            *(note_id for note_id, files in listed.items() if files),
            *(to for _, to in there),
        }
        return {one.id: [*_join(one, listed[one.id], there)] for one in held if one.id in having}

    async def _list_files(
        self, held: Sequence[Revision], *, whole: bool
    ) -> tuple[Mapping[str, Sequence[Attachment]], Mapping[tuple[str, str], Attachment]]:
        """Return the files that notes have by themselves, and those to which a target in a note leads."""
        if self._transfer.store.traits.attachments:
            store = cast("AttachmentStore", self._transfer.store)
            listed = {one.id: await store.list_attachments(one) for one in held}
            if store.traits.asks_attachments:
                listed |= await self._ask_files(held, listed, whole=whole)
            there: dict[tuple[str, str], Attachment] = {}
            for one in held:
                by_id = {facts.id: facts for facts in listed[one.id]}
                for target in map(_target_of, find_whole_links(one.content.text)) if by_id else ():
                    if (facts := by_id.get(store.id_of_link(one.id, target))) is not None:
                        there[target, one.id] = facts
            return listed, there
        if not self._transfer.store.traits.ids.paths:
            return defaultdict(list), {}
        links = [
            (target, one.id)
            for one in held
            for target in map(_target_of, find_whole_links(one.content.text))
            if "." in target.rpartition("/")[2]
        ]
        folders = cast("FolderStore", self._transfer.store)
        return defaultdict(list), await folders.resolve_files(links) if links else {}

    async def _ask_files(
        self, held: Sequence[Revision], listed: Mapping[str, Sequence[Attachment]], *, whole: bool
    ) -> Mapping[str, Sequence[Attachment]]:
        store = cast("AskingStore", self._transfer.store)
        discarded = self._transfer.discarded_files()

        async def ask(one: Revision) -> tuple[str, Sequence[Attachment]] | None:
            if self._failed == MOST_FAILURES:
                self.unasked.append((one.id, SILENT))
                return None
            try:
                found = await store.ask_attachments(one, seconds=_ASKED_SECONDS, tries=_TRIES)
            except NoteNotFound as error:
                if whole:
                    raise
                self.unasked.append((one.id, error.message))
                return None
            except (StoreError, LoginRequired) as error:
                if whole:
                    raise
                self._failed = min(self._failed + 1, MOST_FAILURES)
                self.unasked.append((one.id, error.message))
                return None
            self._failed = 0
            shown, there = listed[one.id], {file.id for file in found}
            gone = discarded - {file.id for file in shown}
            missing = [file for file in shown if file.id not in there and not whole]
            return one.id, [*missing, *(file for file in found if file.id not in gone)]

        return dict(await each(held, ask))

    async def read_file(self, file: ShownFile, *, largest: int) -> tuple[str, bytes] | None:
        """Return the name of a file, with an ending, and its bytes; None if these are more.

        Raises ``NoteNotFound``, ``NoteUnreadable``, and what the store raises.
        """
        if self._transfer.store.traits.attachments:
            facts, data = await cast("AttachmentStore", self._transfer.store).read_attachment(
                file.facts, largest=largest
            )
        else:
            facts, data = await cast("FolderStore", self._transfer.store).read_file(
                file.facts.id, largest=largest
            )
        if data is None:
            return None
        names = [clean_file_name(one) for one in (facts.name, file.name) if one]
        if name := next((one for one in names if split_ending(one)[1]), ""):
            return name, data
        ending = any_ending_of(
            kind_of(data[:HEAD], facts.kind)
        )  # without one, a vault's link means a note
        return names[0] + ending, data

    @property
    def largest_file(self) -> int:
        """Return how many bytes a file may have that the store keeps; 0 if it keeps none."""
        return (
            cast("KeepingStore", self._transfer.store).largest_file
            if self._transfer.store.traits.keeps_files
            else 0
        )

    async def find_room(self) -> Room:
        """Return how much the store takes besides what it has."""
        if not self._transfer.store.traits.keeps_files:
            return Room()
        return await cast("KeepingStore", self._transfer.store).find_room()

    async def keep_file(self, note_id: str, name: str, data: bytes) -> KeptFile:
        """Put a file where the store keeps files of this note; see ``KeepingStore.keep_file``."""
        held = await self._transfer.find(note_id)
        if held is None:
            raise NoteNotFound("the note is gone", details={"id": note_id})
        kind = kind_of(data[:HEAD], kind_of_name(name))
        store = cast("KeepingStore", self._transfer.store)
        return await store.keep_file(held, clean_file_name(name), kind, data)


def _target_of(whole: WholeLink) -> str:
    return whole.link.target or f"#{whole.link.part}"


def _join(
    held: Revision, listed: Iterable[Attachment], there: Mapping[tuple[str, str], Attachment]
) -> Iterator[ShownFile]:
    """Yield the files of a note, those that its text links to with their links."""
    found: dict[str, ShownFile] = {}
    for whole in find_whole_links(held.content.text):
        target = _target_of(whole)
        if (facts := there.get((target, held.id))) is not None:
            name = _name_of(facts, target.rpartition("/")[2], whole.shown or "")
            one = found.get(facts.id) or ShownFile(facts, name, ())
            links: tuple[Link, ...] = (*one.links, link_key(whole.link))
            found[facts.id] = replace(one, links=tuple(dict.fromkeys(links)))
    yield from found.values()
    for facts in listed:
        if facts.id not in found:
            yield ShownFile(facts, _name_of(facts), ())


def _name_of(facts: Attachment, *others: str) -> str:
    """Return the name of a file: its own, or one that a link says, with an ending if any of them has one."""
    own = facts.id.rpartition("/")[2]
    ended = (one for one in (own, *others) if split_ending(one)[1])
    return next(ended, f"{UNNAMED} {own}")
