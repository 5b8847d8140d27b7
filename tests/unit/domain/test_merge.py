from __future__ import annotations

import random
import time

import pytest

from mcp_notarium.domain.merge import Overlap, find_overlaps, merge, merge_content, merge_tags
from mcp_notarium.domain.note import Content


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        pytest.param("a\nb\nc\n", "A\nb\nc\n", "a\nb\nC\n", "A\nb\nC\n", id="far apart"),
        pytest.param("a\nb\n", "A\nb\n", "a\nB\n", "A\nB\n", id="adjacent lines"),
        pytest.param("a\n", "a\nm\n", "a\nt\n", "a\nt\nm\n", id="both append, theirs first"),
        pytest.param("a", "a\nm", "a\nt", "a\nt\nm", id="both append without final newline"),
        pytest.param("a\n", "m\na\n", "t\na\n", "t\nm\na\n", id="both prepend"),
        pytest.param("", "m", "t\n", "t\nm\n", id="both write into the empty note"),
        pytest.param("a\nb\n", "a\nx\nb\n", "a\nx\nb\ny\n", "a\nx\nb\ny\n", id="same line, once"),
        pytest.param("a\n", "a\nx\nm\n", "a\nx\nt\n", "a\nx\nt\nm\n", id="same beginning, once"),
        pytest.param("a\n", "a\nm\nx\n", "a\nt\nx\n", "a\nt\nm\nx\n", id="same end, once"),
        pytest.param("a\n", "a\nx\nm\n", "a\nt\nx\n", "a\nt\nx\nm\n", id="meeting in the middle"),
        pytest.param("a\n", "a\nx\n", "a\nt\nx\nu\n", "a\nt\nx\nu\n", id="mine inside theirs"),
        pytest.param("a\n", "a\nt\nx\nu\n", "a\nx\n", "a\nt\nx\nu\n", id="theirs inside mine"),
        pytest.param("a\n", "a\n\nm\n", "a\n\nt\n", "a\n\nt\n\nm\n", id="blank lines separate"),
        pytest.param("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", "a\nc\nd\n", id="delete and append"),
        pytest.param("a\nb\nc\n", "a\nc\n", "a\nc\nd\n", "a\nc\nd\n", id="same deletion, once"),
        pytest.param(
            "one\nitem\nitem\nend\n", "one\nitem\nend\n", "ONE\nitem\nend\n", "ONE\nitem\nend\n",
            id="same deletion among equal lines, once",
        ),
        pytest.param("a\nb\nc\nd\n", "a\nd\n", "a\nb\n", "a\n", id="overlapping deletions"),
        pytest.param("a\nb\n", "a\nb\nm\n", "a\nB\n", "a\nB\nm\n", id="append and edit of the last"),
        pytest.param("a\nb\n", "a\nb\nm\n", "a\n", "a\nm\n", id="append and deletion of the last"),
        pytest.param(
            "a\nb\nc\n", "a\nx\nb\nc\n", "a\nx\nB\nc\n", "a\nx\nB\nc\n",
            id="same addition beside an edit, once",
        ),
        pytest.param(
            "- [ ] 1\n- [ ] 2\n- [ ] 3\n", "- [x] 1\n- [x] 2\n- [ ] 3\n",
            "- [ ] 1\n- [x] 2\n- [x] 3\n", "- [x] 1\n- [x] 2\n- [x] 3\n",
            id="ticking overlapping items of a list",
        ),
        pytest.param("a\nb\n", "a\r\nb\r\n", "a\nB\n", "a\r\nB\n", id="line ends beside words"),
        pytest.param("a\nb\n", "a\nb", "A\nb\n", "A\nb", id="final newline taken away"),
        pytest.param("a\nb", "a\nb\n", "A\nb", "A\nb\n", id="final newline added"),
        pytest.param("a\nb", "a\nb\nm", "A\nb", "A\nb\nm", id="append after an open line"),
        pytest.param("a", "a\n\n", "x\na", "x\na\n\n", id="an empty last line is kept"),
        pytest.param("a\n", "", "a\n", "", id="mine emptied it"),
        pytest.param("a\n\nb\nc", "a\n\nb", "a\n\nc", "a\n\n", id="an empty line becomes the last"),
        pytest.param(
            "a\r\nb\nc\n", "a", "a\r\nb\nc\nt\n", "a\r\nt", id="a line that was last gets its end back"
        ),
        pytest.param("x\u2028y\n", "x\u2028y\nm\n", "t\nx\u2028y\n", "t\nx\u2028y\nm\n", id="U+2028"),
        pytest.param("\ud800\n", "\ud800\n😀\n", "x\n\ud800\n", "x\n\ud800\n😀\n", id="surrogates"),
    ],
)  # fmt: skip
def test_merge(base, mine, theirs, merged):
    assert merge(base, mine, theirs) == merged


@pytest.mark.parametrize(
    ("base", "mine", "theirs"),
    [
        pytest.param("a\nb\nc\n", "a\nm\nc\n", "a\nt\nc\n", id="one line, two edits"),
        pytest.param("a\nb\nc\n", "a\nc\n", "a\nB\nc\n", id="mine deletes what they edit"),
        pytest.param("a\nb\nc\n", "a\nB\nc\n", "a\nc\n", id="mine edits what they delete"),
        pytest.param("a\n", "", "a\nb\nA\n"[2:], id="mine empties what they rewrite"),
        pytest.param("a\nb\n", "x\n", "a\nt\nb\n", id="an addition inside what mine rewrote"),
        pytest.param("a", "m", "t", id="single open lines"),
    ],
)
def test_overlap(base, mine, theirs):
    assert merge(base, mine, theirs) is None


def _edited(lines, *, seed, edits):
    chance = random.Random(seed)
    lines = list(lines)
    for number in range(edits):
        place = chance.randrange(len(lines))
        lines[place : place + 1] = [[f"new {seed} {number}"], [], [lines[place], "twice"]][
            chance.randrange(3)
        ]
    return lines


@pytest.mark.parametrize("kinds", [1, 2, 3, 50, 20_000])
@pytest.mark.parametrize("edits", [3, 3000])
def test_notes_of_a_megabyte_merge_in_bounded_time_and_lose_no_line(kinds, edits):
    filler = "x" * 40
    base = [f"{number % kinds} {filler}" for number in range(20_000)]
    mine = _edited(base, seed=1, edits=edits)
    theirs = _edited(base, seed=2, edits=edits)
    started = time.process_time()
    merged = merge("\n".join(base), "\n".join(mine), "\n".join(theirs))
    # The bound is generous; without a budget the repetitive ones take minutes.
    assert time.process_time() - started < 5
    if merged is not None:
        added = (set(mine) | set(theirs)) - set(base)
        assert added <= set(merged.split("\n"))


def test_a_few_edits_in_a_large_text_merge():
    base = [f"line {number}" for number in range(20_000)]
    mine, theirs = base.copy(), base.copy()
    mine[100], theirs[19_000] = "mine", "theirs"
    del mine[5000]
    theirs.insert(12_000, "also theirs")
    merged = merge("\n".join(base), "\n".join(mine), "\n".join(theirs))
    assert merged is not None
    lines = merged.split("\n")
    assert len(lines) == 20_000
    assert (lines[100], lines[11_999], lines[19_000]) == ("mine", "also theirs", "theirs")


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        ((), ("m",), ("t",), ("t", "m")),
        (("a", "b"), ("a",), ("b", "a", "t"), ("a", "t")),
        (("a", "b"), ("a", "b", "m"), ("a",), ("a", "m")),
        (("a",), ("a", "x"), ("a", "X"), ("a", "X")),
        (("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")),
        (("a",), ("A",), ("a", "t"), ("a", "t")),
        (("a",), (), ("A", "t"), ("t",)),
        (("a", "b"), ("a", "b"), ("b",), ("b",)),
        ((), ("m", "M", "n"), ("t",), ("t", "m", "n")),
        (("caf\u00e9",), ("cafe\u0301", "m"), ("caf\u00e9", "t"), ("caf\u00e9", "t", "m")),
    ],
)
def test_tags_merge_as_a_set_in_the_order_and_spelling_of_theirs(base, mine, theirs, merged):
    assert merge_tags(base, mine, theirs) == merged


def test_content_merges_part_by_part():
    base = Content("a\n", ("x",))
    mine = Content("a\nm\n", ("x", "y"))
    theirs = Content("t\na\n", ("z", "x"))
    assert merge_content(base, mine, theirs) == Content("t\na\nm\n", ("z", "x", "y"))


def test_content_with_overlapping_texts_does_not_merge():
    assert merge_content(Content("a"), Content("m"), Content("t")) is None


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        (False, False, True, True),
        (False, True, False, True),
        (True, False, True, False),
        (True, True, False, False),
        (False, True, True, True),
    ],
)
def test_the_side_that_changed_the_trash_wins_and_the_edit_is_kept(base, mine, theirs, merged):
    got = merge_content(
        Content("a\n", trash=base), Content("a\nmine\n", trash=mine), Content("a\n", trash=theirs)
    )
    assert got == Content("a\nmine\n", trash=merged)


@pytest.mark.parametrize("first", ["title", "another title"])
def test_front_matter_that_both_sides_added_is_one_block(first: str) -> None:
    base, ours, theirs = "title\nline\n", "---\nstatus: a\n---\n", "---\nowner: b\n---\n"
    merged = merge(base, f"{ours}{base}", f"{theirs}{first}\nline\n")
    assert merged == f"---\nowner: b\nstatus: a\n---\n{first}\nline\n"


def test_front_matter_that_one_side_added_stays_above_what_the_other_put_on_top() -> None:
    base, block = "title\nline\n", "---\nstatus: a\n---\n"
    both = f"{block}new\n{base}"
    assert merge(base, f"{block}{base}", f"new\n{base}") == both
    assert merge(base, f"new\n{base}", f"{block}{base}") == both
    assert find_overlaps("line\n", f"{block}mine\n", "theirs\n") == [
        Overlap(1, "mine\n", "theirs\n")
    ]


_BLOCK = "---\nstatus: a\n---\n"


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        ("", _BLOCK.rstrip(), "text", f"{_BLOCK}text"),
        ("", "text", "---\r\na: 1\r\n---", "---\r\na: 1\r\n---\r\ntext"),
        (
            "\ufefftitle\n",
            f"\ufeff{_BLOCK}title\n",
            "\ufeffnew\ntitle\n",
            f"\ufeff{_BLOCK}new\ntitle\n",
        ),
        (
            "title\n",
            f"{_BLOCK}title\n",
            "\ufeff---\nowner: b\n---\ntitle\n",
            "\ufeff---\nowner: b\nstatus: a\n---\ntitle\n",
        ),
        ("x\ny\n---\n", "---\nx\ny\n---\n", f"{_BLOCK}x\ny\n---\n", f"{_BLOCK}---\nx\ny\n---\n"),
        ("a\n---\nb\n---\n", "---\nb\n---\n", "a\n---\n---\n", "---\n---\n"),
        ("x\n", f"{_BLOCK * 1500}x\n", "y\nx\n", f"{_BLOCK}y\n{_BLOCK * 1499}x\n"),
        ("x\n", "+++\nk = 1\n+++\nx\n", "+++\nk = 2\n+++\nx\n", None),
        (
            "x\n",
            "+++\nk = 1\n+++\nx\n",
            "+++\nm = 2\n+++\nx\n",
            "+++\nm = 2\nk = 1\n+++\nx\n",
        ),
    ],
    ids=str.split(
        "no-end-of-line no-end-of-theirs byte-order-mark new-byte-order-mark "
        "lines-across line-between-them many-blocks same-key other-key"
    ),
)
def test_new_front_matter_is_one_block_above_the_text(base, mine, theirs, merged) -> None:
    assert merge(base, mine, theirs) == merged
    assert find_overlaps(base, mine, theirs) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "merged"),
    [
        ("status: a", "status: b", None),
        ("due:", "owner: c\ndue: d", None),
        ("status: a", "owner: b", "owner: b\nstatus: a"),
        ("status: a", "status: a", "status: a"),
    ],
)
def test_a_property_that_both_sides_added_does_not_come_to_stand_twice(ours, theirs, merged):
    base = "---\nkept: 1\n{}---\nstatus: of the text\n"
    got = merge(base.format(""), base.format(f"{ours}\n"), base.format(f"{theirs}\n"))
    assert got == (None if merged is None else base.format(f"{merged}\n"))


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        (
            "tags:\n  - a\n",
            "tags:\n  - a\n  - m\n",
            "tags:\n  - a\nstatus: open\n",
            "tags:\n  - a\n  - m\nstatus: open\n",
        ),
        (
            "tags:\n  - a\n",
            "tags:\n  - a\nstatus: open\n",
            "tags:\n  - a\n  - m\n",
            "tags:\n  - a\n  - m\nstatus: open\n",
        ),
        (
            "tags:\n  - a\n",
            "tags:\n  - a\n  - m\n",
            "tags:\n  - a\nnote: |\n  x\n",
            "tags:\n  - a\n  - m\nnote: |\n  x\n",
        ),
        ("a: 1\ntags:\n  - a\n", "a: 1\n", "a: 1\ntags:\n  - a\n  - m\n", None),
        ("tags:\n  - a\n", "tags:\n  - a\n  - m\n", "tags: b\n", None),
        ("a: 1\n", "a: 1\ntags:\n  - m\n", "a: 1\naliases:\n  - m\n", None),
        ("a: 1\n", "a: 1\n# m\n", "a: 2\n", "a: 2\n# m\n"),
    ],
)
def test_an_item_of_a_list_stays_below_its_property(base, ours, theirs, merged) -> None:
    note = "---\n{}---\nbody\n"
    got = merge(note.format(base), note.format(ours), note.format(theirs))
    assert got == (None if merged is None else note.format(merged))


def test_what_both_changed_below_new_front_matter_is_named_with_its_line() -> None:
    mine, theirs = "---\nstatus: a\n---\nmine\n", "---\nowner: b\n---\ntheirs\n"
    assert merge("base\n", mine, theirs) is None
    assert find_overlaps("base\n", mine, theirs) == [Overlap(4, "mine\n", "theirs\n")]
