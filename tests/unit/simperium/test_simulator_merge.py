"""The service's own merge of a write made from an older version, row by row as it is known."""

from __future__ import annotations

import pytest

from notarium_devtools.simperium.changes import rebase

TEXT = "A long paragraph that both devices have seen. " * 4


@pytest.mark.parametrize(
    ("base", "head", "posted", "stored"),
    [
        pytest.param("b", "bc", "bd", "bcd", id="documented example"),
        pytest.param("text", "text\nline A", "text\nline B", "text\nline A\nline B", id="append"),
        pytest.param("a\n", "a\nb\n", "a\nb\n", "a\nb\nb\n", id="the same edit twice doubles"),
        pytest.param(
            "one\nitem 1\nitem 2\nend",
            "one\nitem 2\nend",
            "one\nitem 2\nend",
            "one\nend",
            id="the same deletion twice takes the neighbour",
        ),
        pytest.param("123", "125", "124", "124", id="short texts: the later poster wins"),
        pytest.param(
            "hello world", "hello brave world", "hello", "hello brave", id="partial deletion"
        ),
        pytest.param(
            "para one. And more of it.",
            "Something wholly different stands here now",
            "para one! And more of it.",
            "Something wholly different stands here now",
            id="an edit that finds no place is dropped",
        ),
    ],
)
def test_texts_merge_as_the_table_says(base, head, posted, stored):
    merged = rebase({"content": base}, {"content": posted}, {"content": head})

    assert merged == {"content": stored}


def test_two_long_lines_appended_to_one_base_both_survive():
    merged = rebase(
        {"content": TEXT},
        {"content": TEXT + "\nline B, long enough to matter"},
        {"content": TEXT + "\nline A, long enough to matter"},
    )

    assert sorted(merged["content"].splitlines()[1:]) == [
        "line A, long enough to matter",
        "line B, long enough to matter",
    ]


def test_lists_are_replaced_whole_so_one_side_is_lost():
    merged = rebase({"tags": ["a"]}, {"tags": ["a", "mine"]}, {"tags": ["a", "theirs"]})

    assert merged == {"tags": ["a", "mine"]}


def test_a_key_the_post_leaves_alone_keeps_the_value_of_the_head():
    merged = rebase({"n": 1, "m": 1}, {"n": 1, "m": 2}, {"n": 5, "m": 1})

    assert merged == {"n": 5, "m": 2}


def test_a_key_removed_by_the_post_goes():
    assert rebase({"k": 1, "x": 0}, {"x": 0}, {"k": 1, "x": 0}) == {"x": 0}


def test_a_key_removed_by_the_post_but_edited_in_the_head_survives():
    assert rebase({"k": 1}, {}, {"k": 2}) == {"k": 2}


def test_a_key_removed_in_the_head_but_edited_by_the_post_comes_back():
    assert rebase({"k": 1}, {"k": 2}, {}) == {"k": 2}


def test_true_and_one_are_different_values():
    assert rebase({"deleted": 1}, {"deleted": True}, {"deleted": 1})["deleted"] is True
