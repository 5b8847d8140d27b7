from __future__ import annotations

import pytest

from mcp_notarium.domain.characters import replace_surrogates, tag_key
from mcp_notarium.domain.lines import preview


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "(empty note)"),
        (" \n\t\r\n\u00a0\n", "(empty note)"),
        ("title\nbody", "title"),
        ("\n\n  title  \nbody", "title"),
        ("a\r\nb", "a"),
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 80),
        ("x" * 79 + " y", "x" * 79),
    ],
)
def test_the_first_line_with_anything_on_it_is_the_preview(text, shown):
    assert preview(text) == shown


def test_more_lines_are_taken_without_the_blank_ones_between():
    assert preview("a\n\n b \nc\nd", lines=3) == "a\nb\nc"
    assert preview("a", lines=3) == "a"


@pytest.mark.parametrize(
    "cluster",
    [
        pytest.param("e\u0301", id="combining accent"),
        pytest.param("\u0915\u093f", id="vowel sign"),
        pytest.param("👍🏽", id="skin tone"),
        pytest.param("👩\u200d💻", id="joined emoji"),
        pytest.param("❤\ufe0f", id="variation selector"),
        pytest.param("🇩🇪", id="flag"),
        pytest.param("\U0001f3f4\U000e0067\U000e0062\U000e007f", id="flag of a region"),
        pytest.param("\u1112\u1161\u11ab", id="Korean letters"),
        pytest.param("\u0915\u094d\u0937", id="joined Indic letters"),
        pytest.param("\u0e01\u0e33", id="Thai vowel"),
        pytest.param("\u0601\u0661", id="sign around a number"),
    ],
)
def test_a_visible_character_is_never_torn(cluster):
    for size in range(1, len(cluster)):
        assert preview("x" * (80 - size) + cluster + "y") == "x" * (80 - size)
    assert preview("x" * (80 - len(cluster)) + cluster + "y").endswith(cluster)


def test_flags_are_cut_between_flags():
    assert preview("🇩🇪" * 41) == "🇩🇪" * 40
    assert preview("x" + "🇩🇪" * 41) == "x" + "🇩🇪" * 39


def test_a_pile_of_marks_is_cut_through():
    assert preview("a" + "\u0301" * 200) == "a" + "\u0301" * 79


def test_lone_surrogates_become_replacement_characters_and_nothing_else_changes():
    assert replace_surrogates("a\ud800b\udfff😀\x00") == "a\ufffdb\ufffd😀\x00"


def test_spellings_of_one_tag_have_one_key():
    assert tag_key("Café") == tag_key("CAFE\u0301") == tag_key("cafe\u0301")
    assert tag_key("\u03b1\u0345\u0301") == tag_key("\u1fb4")
    assert tag_key("\u0390") == tag_key("\u03b9\u0308\u0301")
    assert tag_key("cafe") != tag_key("café")
