"""Test that invisible characters are found, every one, in linear time, and ordinary text is not reported."""

import functools
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.domain.characters import KINDS, find_invisible, find_invisible_kinds
from support.patterns import length_of_a_match, ways_to_match

RANGES = [
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x13430, 0x1343F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
]
IGNORABLE = {code for first, last in RANGES for code in range(first, last + 1)}
"""Unicode's Default_Ignorable_Code_Point, what has no shape of its own, and Egyptian format controls."""

SIGNS = {*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD}
"""Format characters that are seen: signs around numbers."""

BLANK = "\u2800\U00016fe4\U0001d159"
"""The Braille pattern without a dot, Khitan's filler, and the notehead that is not drawn."""

BIDI = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
ORDINARY_CONTROL = "\t\n"


def is_hidden(code):
    """By Unicode's own tables, and not by ours."""
    character = chr(code)
    category = unicodedata.category(character)
    return (
        code in IGNORABLE
        or (category == "Cc" and character not in ORDINARY_CONTROL)
        or (category == "Cf" and code not in SIGNS)
        or category in {"Zl", "Zp"}
        or unicodedata.bidirectional(character) in BIDI
        or code & 0xFFFE == 0xFFFE
        or 0xFDD0 <= code <= 0xFDEF
        or character in BLANK
    )


@functools.cache
def all_hidden():
    return [chr(code) for code in range(sys.maxunicode + 1) if is_hidden(code)]


SEEN = st.characters(
    min_codepoint=0x20, max_codepoint=0x24F, exclude_characters="\x7f\u00ad"
).filter(lambda c: unicodedata.category(c) != "Cc")


def found(text, **options):
    return {one.kind: (one.count, one.first_line) for one in find_invisible(text, **options)}


@pytest.mark.attack(36)
def test_every_character_without_a_shape_is_of_exactly_one_kind():
    assert len(all_hidden()) > 4200
    for character in all_hidden():
        kinds = found(f"a{character}b")
        assert len(kinds) == 1, f"U+{ord(character):04X}: {kinds}"
        assert set(kinds.values()) == {(1, 1)}


def test_no_other_character_is_reported():
    others = "".join(
        chr(code)
        for code in range(sys.maxunicode + 1)
        if not is_hidden(code) and not 0xD800 <= code <= 0xDFFF
    )
    assert find_invisible(others) == ()


@pytest.mark.parametrize(
    ("kind", "characters"),
    [
        ("control", "\x00\x07\x1b\x7f\x85\x9b\u2028\u2029"),
        ("bidi", "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"),
        ("zero_width", "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u2063\u3164\u2800"),
        ("variation", "\ufe00\ufe0f\U000e0100\U000e01ef"),
        ("tag", "\U000e0000\U000e0001\U000e0041\U000e007f"),
    ],
)
def test_kinds_are_named_as_documented(kind, characters):
    assert found(f"x{'x'.join(characters)}x") == {kind: (len(characters), 1)}


HIDDEN = st.deferred(lambda: st.sampled_from(all_hidden()))
PLACES = st.lists(st.tuples(st.text(SEEN | st.just("\n"), max_size=9), HIDDEN))


@given(PLACES, st.text(SEEN, min_size=1), st.integers(1, 10_000))
def test_count_and_first_line_are_those_of_a_plain_count(places, end, start):
    text = "".join(f"{before}x{character}x" for before, character in places) + end
    wanted = {}
    line = start
    for before, character in places:
        line += before.count("\n")
        (kind,) = find_invisible_kinds([f"x{character}x"])
        count, first = wanted.get(kind, (0, line))
        wanted[kind] = (count + 1, first)
    assert found(text, first_line=start) == wanted
    assert find_invisible_kinds([text]) == tuple(kind for kind in KINDS if kind in wanted)


def test_carriage_return_is_a_line_end_before_a_line_feed_only():
    assert found("a\r\nb\r\n") == {}
    assert found("a\r\nseen\rover\r") == {"control": (2, 2)}


@pytest.mark.parametrize(
    "text",
    [
        "\u2764\ufe0f",
        "\u2764\ufe0f\u200d\U0001f525",
        "\U0001f469\U0001f3fd\u200d\U0001f680",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\U0001f3f3\ufe0f\u200d\u26a7\ufe0f",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "caf\u0065\u0301 \u00a0 \u3000 \u4f60\u597d",
    ],
)
def test_ordinary_writing_is_not_reported(text):
    assert found(text) == {}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a\u200db", "zero_width"),
        ("\U0001f469\u200d", "zero_width"),
        ("\U0001f469\u200d\u200d\U0001f680", "zero_width"),
        ("\u0645\u200c\u200c\u062e", "zero_width"),
        ("a\ufe0f", "variation"),
        ("\u2764\ufe0f\ufe0f", "variation"),
        ("1\ufe0f", "variation"),
        ("\U0001f600\U000e0148\U000e0149", "variation"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f", "tag"),
    ],
)
def test_invisible_characters_that_only_imitate_ordinary_writing_are_reported(text, kind):
    assert list(found(text)) == [kind]


def test_time_is_linear():
    """One look at each place, and no more looks over the text however much there is to be found."""
    for pattern in KINDS.values():
        assert length_of_a_match(pattern) == 1
        assert ways_to_match(pattern) <= 2
    assert calls(10) == calls(10_000)


def calls(times):
    """How many functions are called for a text with so much of everything that is hidden."""
    text, seen = "\x00\u200b\u202e\ufe0f\U000e0041\U0001f469\u200d\r\n" * times, []
    sys.setprofile(lambda _frame, event, _given: seen.append(event))
    try:
        find_invisible(text)
    finally:
        sys.setprofile(None)
    return seen.count("call") + seen.count("c_call")
