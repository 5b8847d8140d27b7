"""Count the notes below each note of a tree, in which a note may stand at several places. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mcp_notarium.stores.extensions import ParentNote
from mcp_notarium.stores.trilium.note_codec import ROOT, TreeNote

BETWEEN = " > "
"""Stands between titles of a path, as between headings."""


def list_parents(notes: Mapping[str, TreeNote], top: Sequence[str]) -> list[ParentNote]:
    """Return the notes with others below them, in the order of the tree; one of several places at the first of them.

    ``notes``: those that are shown, by their ids; no other one counts. ``top``: the notes right below the root. What
    stands below others alone comes last, as if it were at the top.
    """
    children = {ROOT: [one for one in dict.fromkeys(top) if one in notes]}
    for note in notes.values():
        children[note.id] = [one for one in dict.fromkeys(note.children) if one in notes]
    found: dict[str, str] = {}
    loose = sorted(notes, key=lambda one: (any(up in notes for up in notes[one].parents), one))
    for start in (ROOT, *loose):
        if start not in found:
            found |= _paths(start, notes, children, found)
    return [
        ParentNote(one, path, len(children[one]), len(_below(one, children)))
        for one, path in found.items()
        if children[one] or one == ROOT
    ]


def _paths(
    start: str,
    notes: Mapping[str, TreeNote],
    children: Mapping[str, Sequence[str]],
    known: Mapping[str, str],
) -> dict[str, str]:
    """Return the titles that lead to a note and to all below it that are not known, each once."""
    paths: dict[str, str] = {}
    waiting = [(start, "")]
    while waiting:
        one, above = waiting.pop()
        if one in paths or one in known:
            continue
        title = "" if one == ROOT else notes[one].title
        paths[one] = path = f"{above}{BETWEEN}{title}" if above else title
        waiting += [(child, path) for child in reversed(children[one])]
    return paths


def _below(start: str, children: Mapping[str, Sequence[str]]) -> set[str]:
    """Return all notes below another, each once, also in a circle."""
    return {*_walk(start, children)} - {start}


def _walk(start: str, children: Mapping[str, Sequence[str]]) -> Iterator[str]:
    seen, waiting = {start}, [start]
    while waiting:
        for child in children[waiting.pop()]:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child
