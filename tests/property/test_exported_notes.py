"""Any notes that a store can hold come back from every format of an export as they were."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.exported_note import ExportedNote
from mcp_notarium.domain.note import Content, Properties
from mcp_notarium.tools.save_checks import LONGEST_TAG, check_tags, find_new_addresses
from mcp_notarium.transfer import formats, note_import
from support import exports

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    [
        "",
        "---\nnotarium: 1\n---\n",
        "---\n",
        "a\r\nb\rc\n",
        "\ufeffx",
        "CON",
        "T\nT\n",
        "../../x",
        ".",
    ]
)
NAMES = TEXT.filter(bool)
NOTES = st.builds(
    ExportedNote,
    id=st.text("abc-_/.é", max_size=8),
    content=st.builds(
        Content,
        text=TEXT,
        tags=st.lists(NAMES | st.sampled_from(["true", "1", "a: b", "- x"]), max_size=3).map(tuple),
        trash=st.booleans(),
        title=st.none() | NAMES,
        properties=st.dictionaries(
            st.sampled_from(
                ["pinned", "markdown", "due", "title", "notarium", "a key: x", "property:id"]
            ),
            st.booleans()
            | st.integers(-9, 2**40)
            | st.floats(allow_nan=False, allow_infinity=False)
            | TEXT
            | st.lists(TEXT, max_size=3).map(tuple)
            | st.none()
            | st.sampled_from(["true", "4", "4.5", "null", "2026-12-01", "~", "1e5"]),
            max_size=4,
        ).map(Properties),
    ),
    created_at=st.integers(-(10**10), 10**11).map(float),
    modified_at=st.integers(0, 10**10).map(lambda number: number + 0.25),
    folder=st.text("abc/. é:", max_size=12),
)


def _key(note: ExportedNote) -> tuple[object, ...]:
    content = note.content
    properties = content.properties.json
    return (note.id, note.created_at, note.modified_at, content.text, content.tags, content.trash,
            content.title or "", properties, note.folder)  # fmt: skip


@pytest.mark.slow("real files in three formats, 60 examples each")
@pytest.mark.parametrize("name", formats.names())
@given(notes=st.lists(NOTES, max_size=4))
@settings(deadline=None, max_examples=60)
def test_every_note_comes_back(name: str, notes: list[ExportedNote]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "export")
        exports.write(name, path, notes)
        found = exports.read(path)
    assert sorted(found, key=_key) == sorted(notes, key=_key)


@given(folder=TEXT.filter(bool))
@settings(deadline=None)
def test_a_folder_comes_back_from_its_tag_which_is_one_of_ours_and_no_address(folder: str) -> None:
    tag = note_import.folder_tag(folder)
    assert note_import.take_folder(("a", tag)) == (folder, ("a",))
    assert note_import.tidy((tag,)) == check_tags([tag]) == (tag,)
    assert find_new_addresses((tag,), present=()) == ()


@given(tags=st.lists(st.text(max_size=300), max_size=120))
@settings(deadline=None)
def test_tidy_tags_are_those_that_a_save_takes(tags: list[str]) -> None:
    made = note_import.tidy(tags)
    assert check_tags(made, spaced=True) == made == note_import.tidy(made)
    assert all(len(tag) <= LONGEST_TAG for tag in made)
