"""Break changes of parts of notes, of many notes and of folders on purpose, to see that the explorer finds it.

See ``breaks_acts`` for what a break is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from explorer.breaks_acts import Break, Set
from mcp_notarium.domain import merge
from mcp_notarium.domain.note import Content, Properties
from mcp_notarium.errors import NoteNotFound, VersionConflict
from mcp_notarium.library.history import History
from mcp_notarium.markup import section_edit
from mcp_notarium.tools import bulk, bulk_changes, folders, history, save

TASK = re.compile(r"- \[.\]")


def _appended_at_the_end(set_attribute: Set) -> None:
    change_section = save.change_section

    def at_the_end(text: str, change: Any, **how: Any) -> str:
        if change.append is None:
            return change_section(text, change, **how)
        return f"{text}{change.append}"

    set_attribute(save, "change_section", at_the_end)


def _body_goes_with_the_heading(set_attribute: Set) -> None:
    rename = section_edit._rename

    def alone(text: str, section: Any, words: str) -> str:
        renamed = rename(text, section, words).splitlines(keepends=True)
        return "".join([*renamed[: section.body - 1], *renamed[section.end - 1 :]])

    set_attribute(section_edit, "_rename", alone)


def _other_tags_go(set_attribute: Set) -> None:
    changed_tags = save.changed_tags

    def alone(app: Any, request: Any, held: tuple[str, ...]) -> tuple[str, ...]:
        return changed_tags(app, request, () if request.add_tags else held)

    set_attribute(save, "changed_tags", alone)


def _other_properties_go(set_attribute: Set) -> None:
    with_properties = save.with_properties

    def alone(app: Any, content: Any, changes: Any) -> Any:
        return with_properties(app, replace(content, properties=Properties()), changes)

    set_attribute(save, "with_properties", alone)


def _property_twice(set_attribute: Set) -> None:
    set_attribute(merge, "_doubled_keys", lambda _text: set())


def _refused_counts_as_changed(set_attribute: Set) -> None:
    save_one = bulk._Run._save

    async def hopeful(self: Any, note_id: str) -> str | None:
        try:
            return await save_one(self, note_id)
        except VersionConflict:
            return note_id

    set_attribute(bulk._Run, "_save", hopeful)


def _half_of_a_change(set_attribute: Set) -> None:
    set_attribute(bulk_changes, "with_properties", lambda _app, content, _changes: content)


def _one_note_undone(set_attribute: Set) -> None:
    find = History.find_changed
    set_attribute(History, "find_changed", lambda self, change_id: find(self, change_id)[:1])


def _undone_but_for(set_attribute: Set, keep: Callable[[Content, Content], Content]) -> None:
    """Let something stay after an undo: ``keep`` makes what comes back of what was there, and what is there now."""
    draft = history._draft_undone

    async def lacking(app: Any, note: Any, old: Any, *rest: Any) -> Any:
        return await draft(app, note, replace(old, content=keep(old.content, note.content)), *rest)

    set_attribute(history, "_draft_undone", lacking)


def _section_stays(set_attribute: Set) -> None:
    def keep(then: Content, now: Content) -> Content:
        same = TASK.findall(then.text) == TASK.findall(now.text)
        return replace(then, text=now.text) if same else then

    _undone_but_for(set_attribute, keep)


def _task_stays(set_attribute: Set) -> None:
    def keep(then: Content, now: Content) -> Content:
        states = iter(TASK.findall(now.text))
        return replace(then, text=TASK.sub(lambda _one: next(states, "- [ ]"), then.text))

    _undone_but_for(set_attribute, keep)


def _properties_stay(set_attribute: Set) -> None:
    _undone_but_for(set_attribute, lambda then, now: replace(then, properties=now.properties))


def _all_stays(set_attribute: Set) -> None:
    _undone_but_for(set_attribute, lambda _then, now: now)


def _undo_refused(set_attribute: Set) -> None:
    read = History.read_replaced

    async def refusing(self: Any, note_id: str, **how: Any) -> Any:
        found = await read(self, note_id, **how)
        if found.content.properties != self._cache.notes.get(note_id).properties:
            raise VersionConflict("a property has changed")
        return found

    set_attribute(History, "read_replaced", refusing)


def _hidden_notes_told(set_attribute: Set) -> None:
    find_note = bulk_changes.find_note

    async def telling(app: Any, note_id: str) -> Any:
        if "hidden" in note_id:
            raise NoteNotFound("The rules hide this note.")
        return await find_note(app, note_id)

    set_attribute(bulk_changes, "find_note", telling)


def _own_links_stay(set_attribute: Set) -> None:
    set_attribute(folders, "rewrite_links", lambda text, _links: text)


def _files_stay(set_attribute: Set) -> None:
    async def stay(*_args: Any) -> dict[str, str]:
        return {}

    set_attribute(folders, "move_all", stay)


PARTS, VAULT, FOLDERS = "simplenote, parts", "vault files, parts", "vault files, folders"
NOT_SO = ("is not what it was made", "tags lost")
BREAKS: dict[str, Break] = {
    "what is for a section goes to the end": (PARTS, _appended_at_the_end, ("another section",)),
    "a renamed heading takes its section along": (PARTS, _body_goes_with_the_heading, ("lost",)),
    "a tag more takes the others away": (PARTS, _other_tags_go, NOT_SO),
    "a property takes the others away": ("local files, parts", _other_properties_go, NOT_SO),
    "a property that two add stands twice": (VAULT, _property_twice, ("stands there twice",)),
    "a refused note counts as changed": (PARTS, _refused_counts_as_changed, NOT_SO),
    "a change of many sets the tags alone": (
        "local files, parts",
        _half_of_a_change,
        ("half of a change", *NOT_SO),
    ),
    "one note alone is undone": (PARTS, _one_note_undone, NOT_SO),
    "an undo leaves what was written into a section": (
        PARTS,
        _section_stays,
        ("does not give back", "takes nothing back"),
    ),
    "an undo leaves a ticked task": (VAULT, _task_stays, ("does not give back",)),
    "an undo leaves a property": (
        "local files, parts",
        _properties_stay,
        ("does not give back",),
    ),
    "an undo takes nothing back": ("simplenote", _all_stays, ("takes nothing back",)),
    "an undo of a property is refused": ("local files, parts", _undo_refused, ("is refused",)),
    "a hidden note is told from none": (VAULT, _hidden_notes_told, ("from none",)),
    "links in a folder that moves stay": (FOLDERS, _own_links_stay, ("leads to",)),
    "files of a folder stay": (FOLDERS, _files_stay, ("another folder", "leads to")),
}
"""By what is broken."""
