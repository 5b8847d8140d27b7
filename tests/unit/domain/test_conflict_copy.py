"""Conflict copies and the check of what the store made of a write."""

import pytest

from mcp_notarium.domain.conflict_copy import (
    MARK,
    Repair,
    StoredAs,
    compare_stored,
    copy_content,
    copy_write_id,
    differences,
    inserted_lines,
    merge_repair,
    plan_repair,
    with_lost_tags,
)
from mcp_notarium.domain.note import Content


def test_a_copy_has_the_same_id_every_time_and_another_one_for_every_write():
    assert copy_write_id("w1") == copy_write_id("w1")
    assert len({"w1", copy_write_id("w1"), copy_write_id("w2"), copy_write_id("w1", of="r5")}) == 4
    assert len(copy_write_id("w1")) == 32
    assert set(copy_write_id("w1")) <= set("0123456789abcdef")


def test_a_copy_keeps_the_text_byte_for_byte_behind_its_mark():
    for text in ("", "Title\r\nbody\r\n", "\n\nlate start", "no end"):
        copied = copy_content(Content(text, ("a",), trash=True), shares_by_tag=True)
        assert copied == Content(MARK + text, ("a",), trash=True)


def test_a_copy_of_a_copy_is_not_marked_twice():
    once = copy_content(Content("Title\n"), shares_by_tag=False)
    assert copy_content(once, shares_by_tag=False) == once


def test_a_copy_is_shared_with_nobody_where_tags_share():
    content = Content("x", ("work", "friend@example.com"))
    assert copy_content(content, shares_by_tag=True).tags == ("work",)
    titled = Content("", title="Work/plan")
    copied = copy_content(titled, shares_by_tag=False, folder="Work")
    assert copied.title == "Work/(conflict copy) plan"
    assert copy_content(copied, shares_by_tag=False, folder="Work") == copied
    assert copy_content(content, shares_by_tag=False).tags == content.tags


def test_inserted_lines_are_counted_and_blank_ones_are_not():
    assert inserted_lines("a\nb\n", "a\na\nc\n\n  \n") == {"a": 1, "c": 1}


@pytest.mark.parametrize(
    ("base", "mine", "stored", "there"),
    [
        ("a\n", "a\nb\n", "x\na\nb\n", True),
        ("a\n", "a\nb", "a\nb\nc\n", True),
        ("a\n", "a\nb\n", "a\n", False),
        ("a\n", "a\nhello\n", "a\nhello brave\n", False),
        ("a\n", "a\nb\nb\n", "a\nb\n", False),
        ("a\nb\n", "a\n", "a\nb\n", True),
        ("", "", "anything", True),
    ],
)
def test_a_line_survives_whole_or_not_at_all(base, mine, stored, there):
    stored_as = compare_stored(base=Content(base), sent=Content(mine), stored=Content(stored))
    assert (stored_as is not StoredAs.TEXT_LOST) is there


BASE = Content("a\n", ("x",))


@pytest.mark.parametrize(
    ("stored", "verdict"),
    [
        (Content("a\nmine\n", ("x", "new")), StoredAs.AS_SENT),
        (Content("a\nmine\ntheirs\n", ("x", "new")), StoredAs.MERGED),
        (Content("a\nmine\n", ("x", "new", "theirs")), StoredAs.MERGED),
        (Content("a\nmine\ntheirs\n", ("x", "theirs")), StoredAs.TAGS_LOST),
        (Content("a\nmixed mine\n", ("x", "new")), StoredAs.TEXT_LOST),
        (Content("a\n", ("x",)), StoredAs.TEXT_LOST),
    ],
)
def test_an_answer_is_checked_for_what_is_left_of_our_change(stored, verdict):
    sent = Content("a\nmine\n", ("x", "new"))
    assert compare_stored(base=BASE, sent=sent, stored=stored) is verdict


def test_a_lost_trash_flag_is_lost_too():
    sent = Content("a\n", ("x",), trash=True)
    stored = Content("a\ntheirs\n", ("x",))
    assert compare_stored(base=BASE, sent=sent, stored=stored) is StoredAs.TAGS_LOST
    assert with_lost_tags(base=BASE, sent=sent, stored=stored) == Content(
        "a\ntheirs\n", ("x",), trash=True
    )


def test_tags_are_put_back_on_top_of_what_the_others_did():
    sent = Content("a\n", ("x", "mine"))
    stored = Content("a\n", ("theirs",))
    again = with_lost_tags(base=BASE, sent=sent, stored=stored)
    assert set(again.tags) == {"theirs", "mine"}


LINES = "one\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("repair", "theirs", "merged"),
    [
        ("A\none\ntwo\nB\nthree\n", "B\none\ntwo\nthree\n", "B\nA\none\ntwo\nthree\n"),
        ("A\nA\n" + LINES, LINES + "A\n", "A\n" + LINES + "A\n"),
        ("one\nTWO\nthree\n", "one\nTWO\nthree\nA\n", "one\nTWO\nthree\nA\n"),
        ("one\nTWO\nthree\n", "one\nZWEI\nthree\n", None),
        ("milk\ntwo\nthree\n", LINES + "milk\n", "milk\ntwo\nthree\nmilk\n"),
    ],
    ids=["another order", "one of two", "in the place of another", "the same line", "elsewhere"],
)
def test_what_two_repairs_add_stands_there_once(repair, theirs, merged):
    made = merge_repair(Content(LINES), Content(repair), Content(theirs))
    assert (made and made.text) == merged


def block(*tags):
    return "".join(["---\ntags:\n", *(f"  - {tag}\n" for tag in tags), "---\n"])


@pytest.mark.parametrize(
    ("base", "repair", "theirs", "merged"),
    [
        ("", block("x") + "mine\n", block("y"), block("y", "x") + "mine\n"),
        ("", block("x") + "A\n", block("x") + "A\nB\n", block("x") + "A\nB\n"),
        ("", block("x", "y"), block("y", "x"), block("y", "x")),
        ("---\na: 1\n---\n", "---\na: 1\ntags:\n  - x\n---\n", "---\ntags:\n  - y\na: 1\n---\n", None),
    ],
    ids=["another block", "the same block", "another order", "a key at two places"],
)  # fmt: skip
def test_what_two_repairs_add_to_front_matter_stays_front_matter(base, repair, theirs, merged):
    made = merge_repair(*(Content(one + LINES) for one in (base, repair, theirs)))
    assert (made and made.text) == (merged and merged + LINES)


@pytest.mark.parametrize(
    ("mine", "theirs", "stored", "mending"),
    [
        pytest.param(
            "one\ntwo\nthree\n4\n", "zero\n" + LINES, "zero\n" + LINES + "4\n", None, id="whole"
        ),
        pytest.param(
            LINES + "4\n", "zero\n" + LINES, LINES + "4\nzero\n", None, id="whole in another order"
        ),
        pytest.param(
            LINES + "4\n",
            "zero\n" + LINES,
            "zero\none\nthretwo\n4\n",
            Repair(Content("zero\n" + LINES + "4\n"), copies=False),
            id="a line nobody touched",
        ),
        pytest.param(
            LINES + "4\n",
            "zero\n" + LINES,
            LINES + "4\n",
            Repair(Content("zero\n" + LINES + "4\n"), copies=False),
            id="a line of theirs",
        ),
        pytest.param(
            "one\nmine\nthree\n",
            "one\ntheirs\nthree\n",
            "one\nmitheirs\nthree\n",
            Repair(Content("one\ntheirs\nthree\n"), copies=True),
            id="both changed it",
        ),
        pytest.param(
            "one\nmine\nthree\n",
            "one\ntheirs\nthree\n",
            "one\nmine\ntheirs\nhree\n",
            Repair(Content("one\ntheirs\nthree\n"), copies=True),
            id="both changed it and a third line went",
        ),
        pytest.param(
            "one\nmine\nthree\n",
            "one\ntheirs\nthree\n",
            "one\nmine\ntheirs\nthree\n",
            None,
            id="both changed it and both are there",
        ),
    ],
)
def test_a_merge_of_the_store_is_mended_where_it_lost_a_line(mine, theirs, stored, mending):
    texts = {"base": LINES, "sent": mine, "theirs": theirs, "stored": stored}
    assert plan_repair(**{name: Content(text) for name, text in texts.items()}) == mending


@pytest.mark.parametrize(
    ("stored", "whole"),
    [
        (Content("a\n", ("theirs", "mine"), trash=True), True),
        (Content("a\n", ("mine",), trash=True), False),
        (Content("a\n", ("theirs",), trash=True), False),
        (Content("a\n", ("theirs", "mine")), False),
    ],
)
def test_tags_and_trash_of_both_must_be_there(stored, whole):
    sent, theirs = Content("a\n", ("mine",)), Content("a\n", ("theirs",), trash=True)
    mending = plan_repair(base=Content("a\n"), sent=sent, theirs=theirs, stored=stored)
    assert (mending is None) is whole
    if mending is not None:
        assert set(mending.content.tags) == {"mine", "theirs"}
        assert mending.content.trash


@pytest.mark.parametrize(
    ("sent", "stored", "lines"),
    [
        ("ours\na\nb\n", "OURS\na\nb\n", "line 1"),
        ("a\nb\nc\n", "a\nB\nc\n", "line 2"),
        ("a\nb\nc\n", "a\nb\nc\nadded\n", "line 4"),
        ("a\nb\nc\nd\ne\n", "A\nb\nC\nd\nE\n", "lines 1, 3, 5"),
    ],
)
def test_the_lines_that_differ_are_named_and_no_others(sent, stored, lines):
    assert differences(sent=Content(sent), stored=Content(stored)) == lines
