from __future__ import annotations

import pytest

from mcp_notarium.domain.patch import Operation, apply_patch
from mcp_notarium.errors import PatchError


def add(line, value):
    return Operation("addition", line, value)


def change(line, value):
    return Operation("modification", line, value)


def delete(line):
    return Operation("deletion", line)


@pytest.mark.parametrize(
    ("text", "operations", "patched"),
    [
        pytest.param("a\nb\n", [add(1, "x")], "x\na\nb\n", id="before the first line"),
        pytest.param("a\nb\n", [add(3, "x")], "a\nb\nx\n", id="append"),
        pytest.param("a\nb", [add(3, "x")], "a\nb\nx", id="append keeps no final newline"),
        pytest.param("", [add(1, "x")], "x", id="into the empty note"),
        pytest.param("", [add(1, "x\ny\n")], "x\ny", id="several lines into the empty note"),
        pytest.param("a\nb\n", [add(2, "x\ny")], "a\nx\ny\nb\n", id="a value of two lines"),
        pytest.param("a\n", [add(1, "x\n")], "x\na\n", id="an end at the value's end is no line"),
        pytest.param("a\n", [add(1, "")], "\na\n", id="an empty line"),
        pytest.param("a\n", [add(1, "\n")], "\na\n", id="a lone end is one empty line"),
        pytest.param(
            "a\n", [add(1, "x\n\n")], "x\n\na\n", id="two ends are a line and an empty one"
        ),
        pytest.param(
            "a\n", [add(2, "x"), add(2, "y")], "a\nx\ny\n", id="additions keep their order"
        ),
        pytest.param("a\nb\nc\n", [delete(2)], "a\nc\n", id="delete"),
        pytest.param("a\nb", [delete(2)], "a", id="delete the last line"),
        pytest.param("a\nb\n", [delete(1), delete(2)], "", id="delete everything"),
        pytest.param("a", [delete(1)], "", id="delete the only line"),
        pytest.param("a\nb\n", [change(1, "x\ny")], "x\ny\nb\n", id="one line becomes two"),
        pytest.param("a\nb", [change(2, "x")], "a\nx", id="change the last line"),
        pytest.param("a\nb\n", [change(1, "")], "\nb\n", id="empty a line"),
        pytest.param(
            "1\n2\n3\n4\n",
            [add(1, "top"), delete(2), change(4, "four"), add(5, "end"), add(2, "two")],
            "top\n1\ntwo\n3\nfour\nend\n",
            id="all numbers are those of the given text",
        ),
        pytest.param(
            "a\nb\n", [delete(1), add(1, "x")], "x\nb\n", id="addition where one is deleted"
        ),
        pytest.param(
            "a\nb\n", [change(1, "A"), add(1, "x")], "x\nA\nb\n", id="addition at a change"
        ),
        pytest.param("a\r\nb\r\n", [add(2, "x\ny")], "a\r\nx\r\ny\r\nb\r\n", id="CRLF note"),
        pytest.param(
            "a\r\nb", [add(3, "x\n")], "a\r\nb\r\nx", id="CRLF note without final newline"
        ),
        pytest.param("a\nb\n", [add(1, "x\r\ny")], "x\ny\na\nb\n", id="CRLF value in an LF note"),
        pytest.param("a\r\nb\nc\n", [change(1, "A")], "A\r\nb\nc\n", id="mixed ends stay"),
        pytest.param("a\n\nb", [delete(3)], "a\n\n", id="an empty last line keeps its end"),
        pytest.param("a\n", [add(1, "x\x0cy\u2028z")], "x\x0cy\u2028z\na\n", id="not line ends"),
        pytest.param("a\r", [add(2, "b")], "a\r\r\nb", id="a lone return is not swallowed"),
        pytest.param("😀\n\ud800\n", [change(1, "\udfff")], "\udfff\n\ud800\n", id="surrogates"),
    ],
)
def test_patch(text, operations, patched):
    assert apply_patch(text, operations) == patched


def test_order_in_the_list_does_not_matter_for_different_lines():
    operations = [add(1, "top"), delete(2), change(3, "three")]
    text = "1\n2\n3\n"
    assert apply_patch(text, operations) == apply_patch(text, operations[::-1])


@pytest.mark.parametrize(
    "operations",
    [
        [delete(2), delete(2)],
        [delete(2), change(2, "x")],
        [change(2, "x"), change(2, "x")],
    ],
)
def test_two_fates_of_one_line_are_refused(operations):
    with pytest.raises(PatchError, match="Line 2"):
        apply_patch("a\nb\n", operations)


@pytest.mark.parametrize(
    "operation", [delete(3), change(3, "x"), add(4, "x"), delete(0), add(0, "x")]
)
def test_a_line_outside_the_note_is_refused_naming_its_length(operation):
    with pytest.raises(PatchError, match="2 lines") as caught:
        apply_patch("a\nb\n", [operation])
    assert caught.value.details["total_lines"] == 2


@pytest.mark.parametrize("operation", [delete(1), change(1, "x"), add(2, "x")])
def test_the_empty_note_takes_only_additions_at_line_one(operation):
    with pytest.raises(PatchError, match="0 lines"):
        apply_patch("", [operation])


def test_an_empty_patch_is_refused():
    with pytest.raises(PatchError):
        apply_patch("a\n", [])


@pytest.mark.parametrize("kind", ["addition", "modification"])
def test_a_missing_value_is_refused(kind):
    with pytest.raises(PatchError, match="no value"):
        apply_patch("a\n", [Operation(kind, 1)])


def test_the_value_of_a_deletion_is_ignored():
    assert apply_patch("a\nb\n", [Operation("deletion", 1, "whatever")]) == "b\n"


def test_a_line_outside_an_empty_note_is_refused_with_the_one_that_is_possible():
    with pytest.raises(PatchError) as caught:
        apply_patch("", [Operation(kind="modification", line=1, value="x")])
    assert (
        caught.value.resolution_hint
        == "The note is empty; an addition at line 1 is its first line."
    )
