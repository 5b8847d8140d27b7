"""Break on purpose what must hold when the policy or the key of an account changes, to see that the explorer finds it.

A break is a world, a function that makes it by a ``setattr`` such as that of a ``MonkeyPatch``, and words that the
fault found must contain, one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mcp_notarium.account import generation, opener
from mcp_notarium.crypto import key_slots
from mcp_notarium.domain.policy import Policy
from mcp_notarium.errors import NoteNotFound
from mcp_notarium.files import private_files
from mcp_notarium.keys import key_file_store
from mcp_notarium.storage import table_copy
from mcp_notarium.storage.hidden_notes import VisibilityFilter
from mcp_notarium.storage.note_table import NoteTable
from mcp_notarium.storage.version_table import VersionTable
from mcp_notarium.tools import history

Set = Callable[[Any, str, Any], None]
Break = tuple[str, Callable[[Set], None], tuple[str, ...]]


# The policy.


def _rules_not_applied(set_attribute: Set) -> None:
    set_attribute(opener, "_matches_policy", lambda _opened, _config: True)
    set_attribute(VisibilityFilter, "require_match", lambda _self: None)


def _hidden_notes_stay(set_attribute: Set) -> None:
    set_attribute(
        NoteTable, "hide", lambda self, notes: self.visibility.record_hidden(notes.items())
    )


def _versions_stay(set_attribute: Set) -> None:
    set_attribute(VersionTable, "remove_hidden", lambda _self, _visibility: None)
    set_attribute(VersionTable, "remove_orphans", lambda _self, **_how: None)
    set_attribute(VersionTable, "remove", lambda _self, _ids: None)


def _read_only_not_asked(set_attribute: Set) -> None:
    set_attribute(Policy, "require_use", lambda _self, _tool, _action: None)


def _absence_told(set_attribute: Set) -> None:
    find = history.find_note

    async def told(app: Any, note_id: str) -> Any:
        if app.cache.notes.visibility.hidden_notes([note_id]):
            raise NoteNotFound("This note is not for you.", details={"id": note_id})
        return await find(app, note_id)

    set_attribute(history, "find_note", told)


# The key.


def _old_slot_stays(set_attribute: Set) -> None:
    rewrap = key_slots.rewrap
    replace_slots = key_slots.replace_slots

    def keeping(before: Any, data_key: Any, *, slots: Iterable[Any], **how: Any) -> Any:
        made = {slot.id: slot for slot in (*before.slots, *slots)}
        return replace_slots(before, data_key, slots=tuple(made.values()), **how)

    def rewrapped(*args: Any, **how: Any) -> Any:
        set_attribute(key_slots, "replace_slots", keeping)
        try:
            return rewrap(*args, **how)
        finally:
            set_attribute(key_slots, "replace_slots", replace_slots)

    set_attribute(key_slots, "rewrap", rewrapped)


def _key_file_not_flushed(set_attribute: Set) -> None:
    set_attribute(private_files.SYSTEM, "flush", lambda _descriptor: None)


def _change_not_finished(set_attribute: Set) -> None:
    set_attribute(key_file_store, "finish_interrupted_change", lambda *_args, **_how: None)


def _journal_not_copied(set_attribute: Set) -> None:
    copy_into = table_copy.copy_into

    def without(old: Any, target: Any, **how: Any) -> Any:
        done = copy_into(old, target, **how)
        target.run("DELETE FROM journal")
        return done

    set_attribute(table_copy, "copy_into", without)
    set_attribute(generation, "compare", lambda _old, _new: None)


def _chain_not_carried(set_attribute: Set) -> None:
    set_attribute(generation, "carry_chain", lambda *_args, **_how: True)
    set_attribute(generation, "compare", lambda _old, _new: None)


def _old_database_first(set_attribute: Set) -> None:
    writer = generation.GenerationWriter
    switch = writer.switch

    def cleared(self: Any, keyfile: Any, *, replaced: Any, clear: Callable[[], None]) -> Any:
        clear()
        return switch(self, keyfile, replaced=replaced, clear=lambda: None)

    set_attribute(writer, "switch", cleared)


BREAKS: dict[str, Break] = {
    "new rules are not applied": ("simplenote, policy changes", _rules_not_applied, ("hidden",)),
    "newly hidden notes stay": ("simplenote, policy changes", _hidden_notes_stay, ("hidden",)),
    "versions of newly hidden notes stay": (
        "memento, policy changes",
        _versions_stay,
        ("hidden",),
    ),
    "read-only is not asked": (
        "simplenote, policy changes",
        _read_only_not_asked,
        ("forbids",),
    ),
    "an answer tells of a hidden note": (
        "simplenote, policy changes",
        _absence_told,
        ("hidden note",),
    ),
    "the old key still opens": (
        "simplenote, key changes",
        _old_slot_stays,
        ("from before", "would open nothing"),
    ),
    "the key file is not flushed": (
        "simplenote, key changes",
        _key_file_not_flushed,
        ("cannot open", "opens nothing", "the account", "audit chain"),
    ),
    "the journal is not copied": ("trilium, key changes", _journal_not_copied, ("lost",)),
    "the audit chain is not carried on": (
        "simplenote, key changes",
        _chain_not_carried,
        ("audit chain", "rolled back"),
    ),
    "the old database goes first": (
        "simplenote, key changes",
        _old_database_first,
        ("cannot open", "the account"),
    ),
}
"""By what is broken."""
