"""Write notes in a terminal: ``new`` and ``edit``, with the person's own editor.

The account is closed while the editor runs. What was typed is merged with what has changed meanwhile, like every write;
what was typed becomes a note of its own if both changed the same lines. It is kept as a draft until the store has it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from mcp_notarium.app import App
from mcp_notarium.cli import command_context, console, draft_files, signals
from mcp_notarium.cli.draft_files import Draft, DraftInUse, open_draft
from mcp_notarium.cli.history import (
    Person,
    find_named,
    note_title,
    open_synced,
    person_config,
    record_read,
    recorded,
)
from mcp_notarium.cli.terminal import can_ask, name_account, print_data, talk
from mcp_notarium.config import Config
from mcp_notarium.domain.conflict_copy import copy_content
from mcp_notarium.domain.diff import summarize_change
from mcp_notarium.domain.merge import merge
from mcp_notarium.domain.note import Content, Note
from mcp_notarium.errors import ConfigError, InvalidRequest, NotariumError, NoteNotFound
from mcp_notarium.files.account_folder import AccountFolder
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.system import SYSTEM
from mcp_notarium.tools import save
from mcp_notarium.tools.note_lookup import find_note
from mcp_notarium.tools.requests import PathSaveRequest, SaveRequest, TitledSaveRequest

_GO_ON, _LEAVE, _DROP = "go on", "leave", "drop"
_LONGEST_TITLE = 80
_MOST_NEW = 20


class EditorFailed(NotariumError):
    """Report that the editor did not end as usual."""


class Edited(NamedTuple):
    """Hold what became of a note: ``copy`` is another one that has what was typed, if both changed the same lines."""

    before: Note
    note: Note
    copy: Note | None = None


def _add_edit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command_name="edit")
    parser.add_argument("note", nargs="+", metavar="NOTE", help="its id, or words of it alone")
    _add_draft_arguments(parser)


def _add_new_arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(command_name="new")
    parser.epilog = "The text comes from your editor, or from standard input if that is no terminal. The id of the note is printed."
    parser.add_argument(
        "title",
        nargs="*",
        metavar="TITLE",
        help="its title; in a store without titles its first line",
    )
    parser.add_argument(
        "--tag", action="append", default=[], metavar="TAG", help="a tag; repeat it for several"
    )
    parser.add_argument("--folder", metavar="FOLDER", help="the folder of the note, in a vault")
    _add_draft_arguments(parser)


def _add_draft_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fresh", action="store_true", help="throw away a text that was not saved before"
    )
    command_context.options("--yes", "--json")(parser)


def _edit(args: argparse.Namespace) -> int:
    return edit_note(_writing_config(args), args)


def edit_note(config: Config, args: argparse.Namespace) -> int:
    """Let the person edit the note that ``args`` names, as ``edit`` does; ``config`` is :func:`history.person_config`."""
    draft_files.editor_command()  # before a note is looked for
    named = " ".join(args.note)
    try:
        note = asyncio.run(_find(config, named))
    except NoteNotFound as error:
        raise _with_kept(error, config, named) from None
    with open_draft(config.account_dir, draft_files.name_for(note.id)) as draft:
        if not _goes_on(draft, args, held=note.text):
            draft.begin(note.text, {"base": note.text, "id": note.id}, title=_title(note))
        talk(f"{one_line(_title(note))}  {one_line(note.id)}")
        base = str((draft.made_from or {})["base"])
        with _kept(draft, f"mcp-notarium edit {SYSTEM.quote(note.id)}"):
            text = _typed(draft, base=base)
            if text is None:
                return _say_unchanged(args, {"id": note.id, "changed": ""})
            done = asyncio.run(_save_edit(config, args, note.id, base, text))
        draft.drop()
    return _say_edited(args, done, base)


async def _find(config: Config, named: str) -> Note:
    async with open_synced(config) as app:
        note = await find_named(app, named)
        record_read(app, "cli.edit", note.id)
        return note


async def _save_edit(
    config: Config, args: argparse.Namespace, note_id: str, base: str, text: str
) -> Edited:
    async with open_synced(config) as app:
        return await recorded(app, args, note_id, partial(_merge, app, note_id, base, text))


async def _merge(app: App, note_id: str, base: str, text: str, person: Person) -> Edited:
    """Save the text as a change of ``base``, or as a note of its own if somebody changed the same lines."""
    before = await find_note(app, note_id)

    async def drafting() -> save.Draft:
        note = await find_note(app, note_id)
        merged = merge(base, text, note.text)
        if merged is None:
            raise _Overlap
        content = Content(merged, note.tags, note.trash, note.title, note.properties)
        return replace(save.make_draft(app, note, content), on_newest=True)

    try:
        _, note, _ = await save.carry_out(app, drafting, person)
    except _Overlap:
        note = await find_note(app, note_id)
        folder = note.id.rpartition("/")[0] if app.library.traits.ids.paths else None
        mine = Content(text, note.tags, trash=False, title=note.title, properties=note.properties)
        shares = app.library.traits.shares_by_tag
        copy = copy_content(mine, shares_by_tag=shares, folder=folder)

        async def copying() -> save.Draft:
            return save.make_draft(app, None, copy)

        _, made, _ = await save.carry_out(app, copying, person)
        return Edited(before, note, made)
    return Edited(before, note)


class _Overlap(Exception):
    """Report that both texts changed the same lines."""


def _new(args: argparse.Namespace) -> int:
    config = _writing_config(args)
    typed = None if can_ask() else _read_input()
    if typed is None:
        draft_files.editor_command()
    wanted = {"title": " ".join(args.title), "tags": args.tag, "folder": args.folder or ""}
    asyncio.run(_check_new(config, wanted))
    with _new_draft(config, args, has_text=typed is not None) as draft:
        if draft.made_from is None:
            draft.begin(typed or "", {"base": "", **wanted}, title=str(wanted["title"]))
        kept = draft.made_from or {}
        wanted = {name: wanted[name] or kept[name] for name in wanted}
        with _kept(draft, "mcp-notarium new"):
            text = typed if typed is not None else _typed(draft, base="")
            if not (text or "").strip():
                draft.drop()
                return _say_unchanged(args, {"id": None})
            note_id = asyncio.run(_save_new(config, args, wanted, text or ""))
        draft.drop()
    print_data({"id": note_id}, note_id, as_json=args.json)
    return 0


def _read_input() -> str:
    try:
        text = sys.stdin.buffer.read(save.LARGEST_NOTE + 1).decode()
    except UnicodeDecodeError:
        raise InvalidRequest(
            "standard input is no UTF-8 text; no note was made", resolution_hint="Convert it first."
        ) from None
    if not text.strip():
        raise InvalidRequest(
            "there is no text on standard input; no note was made",
            resolution_hint="Send the text to standard input, or run the command in a terminal.",
        )
    return text


async def _check_new(config: Config, wanted: dict[str, Any]) -> None:
    """Raise ``InvalidRequest`` for what notes of the store cannot have, before anything is typed."""
    async with open_synced(config) as app:
        _request(app, wanted, "text")


@contextmanager
def _new_draft(config: Config, args: argparse.Namespace, *, has_text: bool) -> Iterator[Draft]:
    """Provide the draft that an earlier run has left if the user wants that one, else a free one."""
    for number in range(1, _MOST_NEW):
        with suppress(DraftInUse), open_draft(config.account_dir, f"new-{number}") as draft:
            if draft.made_from is None or (
                not has_text and _goes_on(draft, args, held="", may_leave=True) is not None
            ):
                yield draft
                return
    raise InvalidRequest(
        f"{_MOST_NEW - 1} new notes are being written, or were kept because they could not be saved",
        resolution_hint="Run `mcp-notarium new` in a terminal and finish one.",
    )


async def _save_new(
    config: Config, args: argparse.Namespace, wanted: dict[str, Any], text: str
) -> str:
    async with open_synced(config) as app:
        request = _request(app, wanted, text)

        async def handle(person: Person) -> str:
            saved = await save.handle(app, request, person)
            person.note_id = saved.id
            return saved.id

        return await recorded(app, args, "", handle)


def _request(app: App, wanted: dict[str, Any], text: str) -> SaveRequest:
    """Return what makes the note. Raises ``InvalidRequest``."""
    traits, title, folder = app.library.traits, wanted["title"], wanted["folder"].strip("/")
    kind = SaveRequest
    if traits.ids.paths:
        kind = PathSaveRequest
        title = title or note_title(None, text).lstrip("# ")[:_LONGEST_TITLE] if folder else title
        title = f"{folder}/{title}" if folder else title
    elif folder:
        raise InvalidRequest(
            f"notes of {app.config.store.title} lie in no folders",
            resolution_hint="Leave out `--folder`; a tag can group notes: `--tag`.",
        )
    elif traits.titles:
        kind = TitledSaveRequest
    elif title:
        text = f"{title}\n\n{text}"
    fields: dict[str, Any] = {"text": text, "tags": wanted["tags"] or None}
    if kind is not SaveRequest:
        fields["title"] = title or None
    return kind(**fields)


def _writing_config(args: argparse.Namespace) -> Config:
    """Return the configuration, before anybody types something that may not be saved."""
    config = person_config(args)
    config.policy.require_use("save")
    return config


def _goes_on(
    draft: Draft, args: argparse.Namespace, *, held: str, may_leave: bool = False
) -> bool | None:
    """Return whether a kept text is what the editor begins with; None: later. One that says nothing new is dropped."""
    if draft.made_from is None:
        return False
    with suppress(NotariumError):
        if args.fresh or draft.read() in (draft.made_from["base"], held):
            draft.clear()
            return False
    talk(f"A text that is not saved yet is kept in {draft.shown}.")
    answer = _GO_ON
    if can_ask() and not args.yes:
        choices = [(_GO_ON, "go on with it")]
        choices += [(_LEAVE, "leave it, and write another note")] if may_leave else []
        choices += [(_DROP, "throw it away")]
        answer = console.choose(
            "What shall become of it?", choices, default=_GO_ON, option="--fresh"
        )
    if answer == _DROP:
        draft.clear()
    return None if answer == _LEAVE else answer == _GO_ON


def _typed(draft: Draft, *, base: str) -> str | None:
    """Return what the person has typed; None, and no draft, if that is nothing. Raises ``EditorFailed``."""
    try:
        code = draft_files.edit(draft)
    except ConfigError:
        if draft.read() == base:
            draft.drop()
        raise
    text = draft.read()
    if base and text.endswith("\n") and not base.endswith("\n"):
        text = text.removesuffix("\n")  # an editor ends every text so
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    if text == base:
        draft.drop()
        if code:
            raise EditorFailed(
                f"the editor ended {how}, and the text is as it was",
                resolution_hint="Run the command again; EDITOR names another editor.",
            )
        return None
    if code:
        raise EditorFailed(f"the editor ended {how}; nothing was saved")
    return text


@contextmanager
def _kept(draft: Draft, command: str) -> Iterator[None]:
    """Say where the text is kept if it is not saved, whatever the reason."""
    where = f"The text is kept in {draft.shown}; `{command}` goes on with it."
    signals.note_change(name_account(where))
    try:
        yield
    except NotariumError as error:
        if draft.made_from is not None:
            said = "" if error.subcategory == "declined" else error.person_hint or ""
            error.resolution_hint = f"{said} {where}".strip()
            error.agent_hint = None
        raise
    signals.note_change("The text is saved.")


def _with_kept(error: NoteNotFound, config: Config, named: str) -> NoteNotFound:
    """Add where a draft of a note is that has gone meanwhile."""
    path = AccountFolder(config.account_dir).drafts / f"{draft_files.name_for(named)}.json"
    if not path.exists():
        return error
    with open_draft(config.account_dir, draft_files.name_for(named)) as draft:
        if draft.made_from is not None:
            error.resolution_hint = (
                f"It was deleted elsewhere. What you have typed is in {draft.shown}; "
                "`mcp-notarium new` takes it as a new note: copy it there."
            )
    return error


def _say_unchanged(args: argparse.Namespace, facts: dict[str, Any]) -> int:
    if args.json:
        print_data(facts, "", as_json=True)
    else:
        talk("The text is as it was; nothing was saved.")
    return 0


def _say_edited(args: argparse.Namespace, done: Edited, base: str) -> int:
    facts = summarize_change(done.before.content, done.note.content).facts
    value = {"id": done.note.id, "changed": facts, "conflict_copy": done.copy and done.copy.id}
    if done.copy is not None:
        said = (
            "Somebody has changed the same lines meanwhile. The note is as they left it; your text is a note of its own:\n"
            f"{one_line(_title(done.copy))}  {one_line(done.copy.id)}"
        )
    else:
        also = "" if done.before.text == base else " What has changed meanwhile is in it, too."
        said = f"Saved: {facts}.{also}" if facts else "The note says so already."
    print_data(value, said, as_json=args.json)
    return 0


def _title(note: Note) -> str:
    return note_title(note.title, note.text)


COMMANDS = {"new": (_add_new_arguments, _new), "edit": (_add_edit_arguments, _edit)}
