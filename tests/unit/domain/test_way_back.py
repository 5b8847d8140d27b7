"""Whether what a change takes can be brought back follows from what is kept, and from nothing else."""

import itertools

import pytest

from mcp_notarium.domain.loss import NOTE, TAGS, TEXT, TITLE, Keeping, find_loss
from mcp_notarium.domain.note import Content

OLD = Content("one\n\ntwo\nthree", ("a", "b"), title="T")
NOTHING = Keeping(days=0, fits=False)


def lost(text=OLD.text, tags=OLD.tags, title=OLD.title, *, keeping=NOTHING, beside=()):
    loss = find_loss(OLD, Content(text, tags, title=title), keeping, beside=beside)
    return () if loss is None else loss.parts


@pytest.mark.parametrize(
    "text",
    [
        OLD.text,
        f"zero\n{OLD.text}\nfour",
        "one\nhalf\ntwo\n\n\nthree",
        "one\ntwo\nthree",
        "a one\n\ntwo\nthree b",
    ],
)
def test_lines_that_are_there_yet_are_not_taken(text):
    assert lost(text) == ()


@pytest.mark.parametrize("text", ["", "one\n\ntwo", "two\none\nthree", "one\ntwo!\nthree"])
def test_a_line_that_is_gone_changed_or_moved_is_taken(text):
    assert lost(text) == (TEXT,)


def test_each_part_is_named():
    assert lost(title=None) == lost(title="U") == (TITLE,)
    assert lost(tags=("a",)) == lost(tags=("a", "B")) == (TAGS,)
    assert lost(tags=("c", "b", "a")) == ()
    assert lost("", (), None, beside=("pictures",)) == (TITLE, TEXT, TAGS, "pictures")
    assert find_loss(OLD, None, NOTHING).parts == (NOTE,)
    assert find_loss(Content(""), Content("x", ("a",), title="T"), NOTHING) is None


def test_a_loss_is_what_no_version_keeps():
    for days, fits, revives in itertools.product((0, 90), (True, False), (True, False)):
        keeping = Keeping(days=days, fits=fits, revives=revives)
        version = bool(days) and fits
        assert lost("", (), keeping=keeping) == (() if version else (TEXT, TAGS))
        assert (find_loss(OLD, None, keeping) is None) == (version and revives)


def test_the_reason_names_the_setting():
    assert "NOTARIUM_VERSION_DAYS" in find_loss(OLD, Content(""), NOTHING).why
    assert "NOTARIUM_VERSION_MB" in find_loss(OLD, None, Keeping(9, fits=False)).why
    never = Keeping(9, fits=True, revives=False)
    assert "cannot make" in find_loss(OLD, None, never).why
