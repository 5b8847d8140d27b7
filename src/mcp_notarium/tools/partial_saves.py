"""Read from a ``save`` what it changes of one section, and which single tags come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_notarium.domain.characters import tag_key
from mcp_notarium.errors import InvalidRequest
from mcp_notarium.markup.section_edit import SectionChange
from mcp_notarium.markup.section_names import find_part
from mcp_notarium.tools.requests import PathSaveRequest, SaveRequest
from mcp_notarium.tools.tags import spell_tags

if TYPE_CHECKING:
    from mcp_notarium.app import App


def check_section(request: SaveRequest, given: list[str]) -> None:
    """Raise ``InvalidRequest`` for a section without a change of it, or a change that no section has."""
    if request.done is not None and request.task is None:
        raise InvalidRequest(
            "`done` was given without `task`.",
            resolution_hint="Give the words of the task, or its line with `local_version`, as `task`.",
        )
    if request.section is None:
        if request.heading is not None:
            raise InvalidRequest(
                "`heading` was given without `section`.",
                resolution_hint="Name the section by its present heading as `section`.",
            )
        return
    if request.id is None:
        raise InvalidRequest(
            "A new note has no section yet.", resolution_hint="Give `id` to change a note."
        )
    if request.heading is not None and isinstance(request, PathSaveRequest) and request.title:
        raise InvalidRequest(
            "`title` and `heading` came in one call; both may change links.",
            resolution_hint="Make two calls.",
        )
    if given in (["text_patch"], ["task"]) or not (given or request.heading is not None):
        raise InvalidRequest(
            "`section` needs one of `append`, `prepend`, `text`, `find` with `replace`, and `heading`.",
            resolution_hint="`text_patch` and `task` find their lines without a `section`.",
        )


def check_tag_changes(request: SaveRequest) -> None:
    """Raise ``InvalidRequest`` for tags that are replaced and changed, or come and go, in one call."""
    if request.tags is not None:
        raise InvalidRequest(
            "`tags` replaces all tags, and stands without `add_tags` and `remove_tags`.",
            resolution_hint="Give `add_tags` and `remove_tags` alone; they leave the other tags.",
        )
    gone = set(map(tag_key, request.remove_tags or ()))
    if any(tag_key(tag) in gone for tag in request.add_tags or ()):
        raise InvalidRequest(
            "A tag is in both `add_tags` and `remove_tags`.", resolution_hint="Decide for one."
        )


def section_change(request: SaveRequest, section: str) -> SectionChange:
    """Return what becomes of the section."""
    return SectionChange(
        section,
        append=request.append,
        prepend=request.prepend,
        text=request.text,
        replacing=None if request.find is None else (request.find, request.replace or ""),
        heading=request.heading,
    )


def section_number(request: SaveRequest, text: str) -> int:
    """Return the number of the section that the request names, in this text; 0: it names none of a heading."""
    part = None if request.section is None else find_part(text, request.section)
    return 0 if part is None or part.section is None else part.section.ordinal


def changed_tags(app: App, request: SaveRequest, held: tuple[str, ...]) -> tuple[str, ...]:
    """Return the tags that the note is to have after single ones came and went."""
    gone = set(map(tag_key, spell_tags(app, request.remove_tags or ())))
    kept = tuple(tag for tag in held if tag_key(tag) not in gone)
    here = set(map(tag_key, kept))
    added = spell_tags(app, request.add_tags or ())
    return (*kept, *(tag for tag in added if tag_key(tag.strip()) not in here))
