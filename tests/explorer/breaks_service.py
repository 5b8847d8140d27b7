"""Break on purpose what a user expects of every call: that it is not refused without a reason, and what an undo, a restore and a history say.

Each has to be found, and told in words.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from explorer.breaks import Break, Set
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import NotariumError, NoteNotFound, StoreUnavailable
from mcp_notarium.library import history
from mcp_notarium.library.history import History, Version
from mcp_notarium.protocol.call_pipeline import CallPipeline
from mcp_notarium.storage.version_table import Makers
from mcp_notarium.sync.writer import Saved, Writer
from mcp_notarium.tools import history as history_tool


def _changes_refused(set_attribute: Set) -> None:
    save = Writer.save

    async def saved(self: Writer, *, note: Note | None, content: Content, **how: Any) -> Saved:
        if note is not None:
            raise StoreUnavailable("not now")
        return await save(self, note=note, content=content, **how)

    set_attribute(Writer, "save", saved)


def _lists_refused(set_attribute: Set) -> None:
    run = CallPipeline._run

    async def ran(self: CallPipeline, tool: Any, arguments: Any, record: Any) -> Any:
        if tool.name == "list":
            raise StoreUnavailable("no list")
        return await run(self, tool, arguments, record)

    set_attribute(CallPipeline, "_run", ran)


def _histories_refused(set_attribute: Set) -> None:
    async def walk(
        _self: History, _note_id: str, *, after: str | None = None
    ) -> AsyncGenerator[Version]:
        del after
        raise NoteNotFound("no history")
        yield

    set_attribute(History, "walk", walk)


def _undos_refused(set_attribute: Set) -> None:
    set_attribute(history, "_last_of", lambda _rows, _client: None)


def _namesake_made_twice(set_attribute: Set) -> None:
    save = Writer.save

    async def saved(self: Writer, *, note: Note | None, content: Content, **how: Any) -> Saved:
        made = await save(self, note=note, content=content, **how)
        if note is None and "the same name" in content.text:
            with suppress(NotariumError):
                await save(self, note=None, content=content, **how)
        return made

    set_attribute(Writer, "save", saved)


def _restored_word_lost(set_attribute: Set) -> None:
    save = history_tool._save

    async def saved(app: Any, draft: Any, call: Any, status: str) -> Any:
        answer = await save(app, draft, call, status)
        note = app.library.get(answer.id)
        if status == "restored" and note is not None and (words := note.text.split()):
            less = replace(note.content, text=note.text.replace(words[-1], "gone"))
            with suppress(NotariumError):
                await app.library.save(note=note, content=less, act=call.act)
        return answer

    set_attribute(history_tool, "_save", saved)


def _others_versions_credited(set_attribute: Set) -> None:
    find = Makers.of

    def credited(self: Makers, etag: str, *, number: int | None = None) -> str:
        return find(self, etag, number=number) or next((by for *_, by in self.writes), "")

    set_attribute(Makers, "of", credited)


def _undo_repeated(set_attribute: Set) -> None:
    set_attribute(History, "has_saved_since", lambda _self, _note_id, _etag, **_how: False)


BREAKS: dict[str, Break] = {
    "changes of notes are refused": Break("simplenote", _changes_refused, ("is refused", "serve")),
    "lists are refused": Break("memento", _lists_refused, ("is refused", "serve")),
    "histories are refused": Break("vault", _histories_refused, ("is refused", "serve")),
    "undos are refused": Break("example", _undos_refused, ("is refused", "serve")),
    "a note of a title that another has is made twice": Break(
        "vault", _namesake_made_twice, ("doubled",)
    ),
    "a word of a version is lost after it was restored": Break(
        "local", _restored_word_lost, ("lost",)
    ),
    "what others have written counts as the client's in Trilium": Break(
        "trilium", _others_versions_credited, ("names who has not written",)
    ),
    "an undo that was taken back stands for the next one": Break(
        "trilium", _undo_repeated, ("takes nothing back", "serve")
    ),
}
"""By what is broken."""
