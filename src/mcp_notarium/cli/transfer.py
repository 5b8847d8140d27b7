"""Export all notes to files, and import such files: ``export`` and ``import``.

An export is the person's own: rules of the policy that hide notes from agents do not apply to what the database has.
Notes that such a rule hides are in the database of a local notebook only. The read-only mode holds for ``import``.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

from mcp_notarium.app import App, open_app
from mcp_notarium.cli import command_context, console, signals
from mcp_notarium.cli.notes import sync_all
from mcp_notarium.cli.terminal import ask_yes, print_data, talk, typed_path
from mcp_notarium.config import Config
from mcp_notarium.domain.exported_note import ExportedNote, export_note
from mcp_notarium.domain.lines import first_line
from mcp_notarium.domain.note import Revision
from mcp_notarium.errors import NotariumError, OutcomeUnknown
from mcp_notarium.logs.redaction import one_line
from mcp_notarium.report.words import counted
from mcp_notarium.stores.kind import StoreKind
from mcp_notarium.transfer import attachments, formats, note_import
from mcp_notarium.transfer.attachments import TakenFiles
from mcp_notarium.transfer.formats import FoundExport
from mcp_notarium.transfer.note_import import ImportPlan, ImportResult
from mcp_notarium.transfer.store_attachments import ShownFile, StoreFiles

_PAGE = 500
"""Notes whose files are looked for together."""
_MOST_NAMED = 10
_MOST_SHOWN = 3
_MOST_LOSSES = 20
_LONGEST_SHOWN = 40
_NOT_DONE = "Nothing was written. (In a script, say --yes.)"


async def _export(args: argparse.Namespace) -> int:
    config = _config(args)
    path, began = args.path.absolute(), time.monotonic()
    form = args.format or formats.guess(path)
    async with _open(config) as app:
        with command_context.record_command(app, "cli.export", changes=False):
            notes, shown, unasked = await _read_notes(app)
            with formats.writing(form, path) as export:
                if export.takes_files:
                    with console.progress("Reading their files") as report:
                        notes, taken = await attachments.take_out(
                            notes, shown, app.library.transfer, export, report
                        )
                else:
                    taken = attachments.leave_out(shown, f"a {form} export has no files")
                with console.progress("Writing the notes") as report:
                    export.put_notes(notes, report)
            path = export.path
            signals.note_change(f"The export is complete: {path}")
        hidden = app.library.transfer.hides and not app.library.traits.in_database
    trash = sum(note.content.trash for note in notes)
    seconds = max(time.monotonic() - began, 0.001)
    rate = len(notes) / seconds
    was = "was" if len(notes) == 1 else "were"
    lines = [
        f"{counted(len(notes), 'note')} ({trash:,} in the trash) {was} exported to {path}, {rate:,.0f} a second.",
        "You alone can read it, and it is not encrypted.",
        f"To bring it into another account: mcp-notarium --account NAME import {path}",
    ]
    if taken.files:
        lines.insert(1, f"{counted(taken.files, 'file')} ({_size(taken.size)}) came along.")
    if hidden:
        lines.append("Notes that your policy hides are not in the database, so they were left out.")
    facts = {"path": str(path), "format": form, "notes": len(notes), "trash": trash}
    facts |= {"hidden_left_out": hidden, "files": taken.files, "file_bytes": taken.size}
    facts["files_left_out"] = [list(one) for one in taken.left_out]
    facts["notes_not_asked"] = [list(one) for one in unasked]
    lines += _describe_left_out(taken) + _describe_unasked(unasked)
    print_data(facts, "\n".join(lines), as_json=args.json)
    return 1 if taken.unread or unasked else 0


def _size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _describe_left_out(taken: TakenFiles) -> list[str]:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for _, file, why in taken.left_out:
        by_reason[why].append(file)
    return [
        f"{counted(len(files), 'file was', 'files were')} left out, {one_line(why)}: {_name_first(files)}"
        for why, files in by_reason.items()
    ]


def _describe_unasked(unasked: Sequence[tuple[str, str]]) -> list[str]:
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for note_id, why in unasked:
        by_reason[why].append(note_id)
    return [
        f"{counted(len(ids), 'note')} may have files that no text shows and that were left out, {one_line(why)}: {_name_first(ids)}"
        for why, ids in by_reason.items()
    ]


def _name_first(ids: Sequence[str]) -> str:
    more = ", ... --json names all" if len(ids) > _MOST_SHOWN else ""
    return one_line(", ".join(ids[:_MOST_SHOWN])) + more


async def _read_notes(
    app: App,
) -> tuple[list[ExportedNote], dict[str, list[ShownFile]], Sequence[tuple[str, str]]]:
    """Return the notes, the files that they show by the ids of the notes, and the notes of which not all files are known."""
    transfer, status = app.library.transfer, app.library.status()
    total = status.total or status.loaded
    notes: list[ExportedNote] = []
    shown: dict[str, list[ShownFile]] = {}
    page: list[Revision] = []
    files = StoreFiles(transfer)

    async def find_files() -> None:
        shown.update(await files.find_files(page))
        page.clear()

    with console.progress("Reading the notes") as report:
        async for held in transfer.read_all():
            notes.append(export_note(held, paths=app.config.store.ids.paths))
            page.append(held)
            if len(page) == _PAGE:
                await find_files()
            report(len(notes), max(total, len(notes)))
        await find_files()
    return sorted(notes, key=lambda note: (note.created_at, note.id)), shown, files.unasked


async def _import(args: argparse.Namespace) -> int:
    """Show what an import would do, ask, and do it; exit code 1 if a note was refused."""
    config = _config(args)
    config.policy.require_use("save")
    with formats.reading(args.path) as export:
        return await _import_notes(args, config, export)


async def _import_notes(args: argparse.Namespace, config: Config, export: FoundExport) -> int:
    notes = export.notes
    async with _open(config, complete=True) as app:
        transfer = app.library.transfer
        with console.progress("Comparing the notes") as report:
            planned = await note_import.plan(
                notes, transfer, config.store, now=app.clock(), report=report
            )
        for line in _describe(planned, len(notes), config.store.title):
            talk(one_line(line))
        if args.dry_run or not planned.new:
            print_data(_facts(planned, None), "Nothing was written.", as_json=args.json)
            return 0
        files = f" and {counted(len(planned.files), 'file')}" if planned.files else ""
        if not (args.yes or ask_yes(f"Import {counted(len(planned.fresh), 'note')}{files}?")):
            talk(_NOT_DONE)
            return 1
        signals.note_change(
            "The notes imported so far stay. Run the same command again for the rest."
        )
        began = time.monotonic()
        with command_context.record_command(app, "cli.import"):
            done = await _carry_out(app, config.store, planned, export)
    rate = done.imported / max(time.monotonic() - began, 0.001)
    print_data(_facts(planned, done), _summary(done, rate), as_json=args.json)
    return 1 if done.refused or done.refused_files else 0


async def _carry_out(
    app: App, kind: StoreKind, planned: ImportPlan, export: FoundExport
) -> ImportResult:
    try:
        with console.progress("Importing the notes") as report:
            transfer = app.library.transfer
            keeping = app.library.files.keeping
            return await note_import.carry_out(
                planned, transfer, kind, report, export, keeping=keeping
            )
    except NotariumError as error:
        # The next import begins with what has had no answer.
        more = "" if isinstance(error, OutcomeUnknown) else f" {error.resolution_hint}"
        error.resolution_hint = (
            "The notes imported so far stay. Run the same command again for the rest: no note is "
            f"imported twice.{more}"
        )
        raise


def _describe(planned: ImportPlan, found: int, store: str) -> list[str]:
    counts = f"{len(planned.fresh):,} new here, {planned.there:,} there already, {planned.left_out:,} left out"
    lines = [f"{counted(found, 'note')} in the export: {counts}."]
    if files := planned.files:
        late = len(planned.new) - len(planned.fresh)
        more = f"; {counted(late, 'note')} there already lacked some" if late else ""
        lines.append(
            f"{counted(len(files), 'file')} ({_size(sum(files.values()))}) come along{more}."
        )
    if len(planned.differ) == 1:
        lines.append(
            f"1 of those there differs from the export, and stays as it is: {planned.differ[0]}"
        )
    elif planned.differ:
        named = ", ".join(planned.differ[:_MOST_NAMED])
        more = ", ..." if len(planned.differ) > _MOST_NAMED else ""
        lines.append(
            f"{len(planned.differ):,} of those there differ from the export, and stay as they are: "
            f"{named}{more}"
        )
    if planned.losses:
        lines.append(f"What will not be in {store} as it is in the export:")
        losses = sorted(planned.losses.items(), key=lambda one: -len(one[1]))
        for loss, notes in losses[:_MOST_LOSSES]:
            told = len(notes) < found or loss == note_import.OTHER_TITLE
            titles = planned.titles if loss == note_import.OTHER_TITLE else ()
            named = f" ({_name_some(notes, titles)})" if told else ""
            lines.append(f"  {counted(len(notes), 'note')}: {loss}{named}")
    for reason, lost in planned.lost_files.items():
        sizes = {file.path: file.size or 0 for _, file in lost}
        named = ", ".join([*sizes][:_MOST_SHOWN]) + (", ..." if len(sizes) > _MOST_SHOWN else "")
        lines.append(
            f"{counted(len(sizes), 'file')} ({_size(sum(sizes.values()))}) left out, {reason}: {named}"
        )
    return lines


def _name_some(notes: Sequence[ExportedNote], titles: Sequence[str] = ()) -> str:
    """Name the first notes, and the titles that they get if those are other ones."""
    named = ", ".join(
        f'"{(one.content.title or first_line(one.content.text))[:_LONGEST_SHOWN]}"'
        + (f' becomes "{title[:_LONGEST_SHOWN]}"' if title else "")
        for one, title in zip(notes[:_MOST_SHOWN], chain(titles, repeat("")), strict=False)
    )
    return f"{named}, ... --json names all" if len(notes) > _MOST_SHOWN else named


def _summary(done: ImportResult, rate: float) -> str:
    lines = [f"{counted(done.imported, 'note was', 'notes were')} imported ({rate:,.0f} a second)."]
    if done.files:
        lines.append(f"{counted(done.files, 'file')} came along.")
    if done.hidden:
        lines.append(
            f"{counted(done.hidden, 'more was', 'more were')} imported that your policy hides from agents."
        )
    if done.there:
        lines.append(f"{counted(done.there, 'was', 'were')} made by another program meanwhile.")
    refused: defaultdict[str, list[ExportedNote]] = defaultdict(list)
    for note, why in done.refused:
        refused[why].append(note)
    for why, notes in refused.items():
        lines.append(
            f"{counted(len(notes), 'was', 'were')} refused, {one_line(why)}: {one_line(_name_some(notes))}"
        )
    unfit: defaultdict[str, list[str]] = defaultdict(list)
    for _, file, why in done.refused_files:
        unfit[why].append(file.path)
    for why, paths in unfit.items():
        lines.append(
            f"{counted(len(paths), 'file was', 'files were')} not brought, {one_line(why)}: "
            f"{one_line(', '.join(paths[:_MOST_SHOWN]))}"
        )
    lines.append("See them: ask an assistant to list your notes.")
    return "\n".join(lines)


def _facts(planned: ImportPlan, done: ImportResult | None) -> dict[str, Any]:
    return {
        "new": len(planned.fresh),
        "there": planned.there,
        "differ": planned.differ,
        "left_out": planned.left_out,
        "titles": [
            [note.id, title]
            for note, title in zip(
                planned.losses.get(note_import.OTHER_TITLE, ()), planned.titles, strict=True
            )
        ],
        "losses": {loss: [one.id for one in of] for loss, of in planned.losses.items()},
        "imported": done.imported if done else 0,
        "hidden": done.hidden if done else 0,
        "refused": [[note.id, why] for note, why in done.refused] if done else [],
        "files": len(planned.files),
        "file_bytes": sum(planned.files.values()),
        "files_left_out": {
            reason: [[note.id, file.path] for note, file in lost]
            for reason, lost in planned.lost_files.items()
        },
        "files_imported": done.files if done else 0,
        "files_refused": [[note.id, file.path, why] for note, file, why in done.refused_files]
        if done
        else [],
    }


def _config(args: argparse.Namespace) -> Config:
    return replace(command_context.prepare(args), on_unreadable="refuse")


@asynccontextmanager
async def _open(config: Config, *, complete: bool = False) -> AsyncIterator[App]:
    """Open the account, in step with the store. ``complete``: an index that may be old is refused."""
    async with open_app(config) as app:
        signals.watch_folder(config.account_dir)
        try:
            await sync_all(app)
        except NotariumError as error:
            if complete or not app.library.status().complete:
                raise
            talk(f"note: newer changes in the note store are missing: {error.message}")
        yield app


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", type=typed_path, metavar="PATH", help="the new folder or file")
    parser.add_argument(
        "--format",
        choices=formats.names(),
        help="default: by the ending of PATH (.json, .zip), else a folder of Markdown files",
    )
    command_context.options("--json")(parser)


def _add_import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", type=typed_path, metavar="PATH", help="the folder or file of an export"
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    command_context.options("--yes", "--json")(parser)


COMMANDS = {
    "export": (_add_export_arguments, _export),
    "import": (_add_import_arguments, _import),
}
