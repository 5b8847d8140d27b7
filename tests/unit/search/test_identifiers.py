"""Identifiers: the words in them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_notarium.search.folding import inner_words, spaced


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("new ArrayPool<T>(), ArrayPool", ["Array Pool"]),
        ("getHTTPServer HTMLElement", ["get HTTP Server", "HTML Element"]),
        ("iPhone手机 xAxis", ["i Phone", "x Axis"]),
        ("größeÄndern maxGröße", ["max Größe"]),
        ("plain Words URLs PDFs A1B2 snake_case SHOUT", []),
        ("x" * 40 + "Y" * 9, []),
        ("x" * 40 + "Y" * 8, ["x" * 40 + " " + "Y" * 8]),
    ],
)
def test_the_words_of_identifiers(text, expected):
    assert list(inner_words(text)) == expected


@given(st.text(st.sampled_from("abAB1 é_手\ud800"), max_size=30))
def test_all_identifiers_of_a_text_are_found(text):
    words = re.findall(r"[^\W_手\ud800]+", text)
    assert list(inner_words(text)) == list(
        dict.fromkeys(spaced(word) for word in words if spaced(word) != word)
    )
