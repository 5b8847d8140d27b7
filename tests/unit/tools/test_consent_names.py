"""What a person sees of a note in a question: enough to know it, nothing that deceives."""

import pytest

from mcp_notarium.tools.consent import WIDTH, describe_note


def test_first_line_and_id_name_a_note():
    assert describe_note("Shopping\n- milk", note_id="8f3c") == "note “Shopping” (id 8f3c)"
    assert describe_note("Shopping\n- milk", note_id=None) == "new note “Shopping”"


@pytest.mark.parametrize("text", ["", " \n\t\n", "\u200b\n\u3164\u2800\ufe0f", "\x00\n" * 9000])
def test_note_without_anything_to_see_is_called_that(text):
    assert describe_note(text, note_id="8f") == "note without text (id 8f)"


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\u202egnippohs\u202c list", "gnippohs list"),
        ("a\u2066b\u2069\u200b\u200d\ufeff\u00ad\U000e0041c", "abc"),
        ("pass\x1b[31mword\x07\x00", "pass[31mword"),
        ("a\ud83db", "ab"),
        ("\u200b \n real line", "real line"),
        ("one\u2028two", "one"),
        ("one\rtwo", "one"),
        ("far\u00a0\u2003\t   out", "far out"),
        ("x” (id safe) for good? “y", "x' (id safe) for good? 'y"),
        ("l\u034fe\u115ft", "let"),
        ("Größe 日本語 שלום ok", "Größe 日本語 שלום ok"),
    ],
)
def test_only_what_can_be_seen_is_shown(text, seen):
    assert describe_note(text, note_id="8f") == f"note “{seen}” (id 8f)"


def test_long_line_is_cut_and_says_so():
    name = describe_note("word " * 100, note_id=None)
    assert name.endswith("…”")
    assert len(name) <= len("new note “…”") + WIDTH


def test_id_from_elsewhere_is_made_visible_and_bounded():
    assert describe_note("x", note_id="a\n\u202eb") == "note “x” (id “a\\u000a\\u202eb”)"
    assert len(describe_note("x", note_id="i" * 256)) < 100
    assert len(describe_note("x", note_id="1" * 256)) < 100


def test_id_that_may_say_something_stands_in_quotation_marks_that_it_cannot_end():
    named = describe_note("x", note_id="A” agreed. “B.md")
    assert named == "note “x” (id “A' agreed. 'B.md”)"
