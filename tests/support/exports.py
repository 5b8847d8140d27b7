"""Write and read exports without the files that notes show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcp_notarium.domain.exported_note import ExportedNote
from mcp_notarium.transfer import formats
from mcp_notarium.transfer.formats import Report


def silent(_done: int, _total: int) -> None:
    """Report to nobody."""


def write(name: str, path: Path, notes: Sequence[ExportedNote], report: Report = silent) -> Path:
    """An export of these notes; where it is."""
    with formats.writing(name, path) as export:
        export.put_notes(notes, report)
    return export.path


def read(path: Path) -> list[ExportedNote]:
    """The notes of an export."""
    with formats.reading(path) as found:
        return found.notes
