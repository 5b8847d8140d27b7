from __future__ import annotations

from collections import Counter
from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st

from mcp_notarium.domain.diff import NO_PARTNER, find_partners
from mcp_notarium.domain.lines import (
    content_of,
    preview,
    split_lines,
)
from mcp_notarium.domain.merge import find_overlaps, merge, merge_tags
from mcp_notarium.domain.patch import Operation, apply_patch
from mcp_notarium.errors import PatchError
from mcp_notarium.tools.get import cut_portion, json_bytes
from mcp_notarium.tools.save_answer import changed_lines

ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from("\n\r\u2028\x0c\x85 ab"),
        st.characters(),
        st.characters(categories=["Cs"]),
    )
)
FEW_LINES = st.lists(st.sampled_from(["a", "b", "c", "", " ", "d\r", "\u2028"]), max_size=8)


@st.composite
def small_texts(draw):
    """Texts of few different lines, so that lines meet their like; ends of every kind."""
    parts = [line + draw(st.sampled_from(["\n", "\n", "\r\n"])) for line in draw(FEW_LINES)]
    if parts and draw(st.booleans()):
        parts[-1] = content_of(parts[-1])
    return "".join(parts)


def contents(text):
    return [content_of(line) for line in split_lines(text)]


@given(ANY_TEXT)
def test_lines_join_back_byte_for_byte(text):
    lines = split_lines(text)
    assert "".join(lines) == text
    assert all(line.find("\n") in {-1, len(line) - 1} for line in lines)


@given(ANY_TEXT, st.none() | st.integers(1, 5), st.integers(1, 60))
def test_portions_of_a_text_join_back(text, count, most):
    start, character, parts = 1, None, []
    while start is not None:
        part = cut_portion(text, start=start, count=count, character=character, most=most)
        assert len(part.text) <= 1 or json_bytes(part.text) <= most
        assert part.text or not text
        parts.append(part.text)
        start, character = part.next_start, part.next_character
    assert "".join(parts) == text


@given(ANY_TEXT, st.integers(1, 20))
def test_a_preview_is_never_empty_and_never_longer_than_its_lines(text, lines):
    shown = preview(text, lines).split("\n")
    assert 1 <= len(shown) <= lines
    assert all(1 <= len(line) <= 80 for line in shown)


# --- patch: against a model that works on plain lists of line contents ---


@st.composite
def patches(draw, total):
    value = st.lists(st.sampled_from(["x", "y", "", "z"]), min_size=1, max_size=3)
    replaced = draw(st.lists(st.integers(1, total), unique=True)) if total else []
    operations = [
        Operation("modification", line, "\n".join(draw(value)) + "\n")
        if draw(st.booleans())
        else Operation("deletion", line)
        for line in replaced
    ]
    operations += [
        Operation("addition", line, "\r\n".join(draw(value)) + "\n")
        for line in draw(st.lists(st.integers(1, total + 1), max_size=4))
    ]
    return draw(st.permutations(operations))


def modelled(lines, operations):
    """Deletions high to low, modifications, additions low to high; slots instead of numbers."""
    slots = [[line] for line in lines]
    before = [[] for _ in range(len(lines) + 1)]
    for operation in operations:
        value = contents(operation.value or "")
        match operation.kind:
            case "deletion":
                slots[operation.line - 1] = []
            case "modification":
                slots[operation.line - 1] = value
            case "addition":
                before[operation.line - 1] += value
    out = []
    for added, slot in zip(before, [*slots, []], strict=True):
        out += added + slot
    return out


@given(st.data(), small_texts())
def test_patch_does_what_the_simple_model_does(data, text):
    operations = data.draw(patches(len(split_lines(text))))
    if not operations:
        return
    patched = apply_patch(text, operations)
    expected = modelled(contents(text), operations)
    assert contents(patched) == expected
    if expected and expected[-1]:
        assert patched.endswith("\n") == text.endswith("\n")


@given(st.data(), small_texts())
def test_lines_a_patch_does_not_name_survive_with_their_ends(data, text):
    operations = data.draw(patches(len(split_lines(text))))
    if not operations:
        return
    named = {operation.line for operation in operations if operation.kind != "addition"}
    kept = [line for number, line in enumerate(split_lines(text), 1) if number not in named]
    left = Counter(split_lines(apply_patch(text, operations)))
    # The text's last line may gain or lose its end when another line becomes the last.
    lost = Counter(kept) - left
    assert lost.total() <= 2
    assert all(content_of(line) in map(content_of, left) for line in lost)


@given(ANY_TEXT, st.lists(st.builds(
    Operation,
    st.sampled_from(["addition", "modification", "deletion"]),
    st.integers(-2, 12),
    st.none() | ANY_TEXT,
)))  # fmt: skip
def test_any_patch_applies_or_is_refused(text, operations):
    with suppress(PatchError):
        assert isinstance(apply_patch(text, operations), str)


# --- merge ---


@given(small_texts() | ANY_TEXT, small_texts() | ANY_TEXT)
def test_merge_with_one_side_unchanged_is_the_other_side(base, other):
    assert merge(base, base, other) == other
    assert merge(base, other, base) == other
    assert merge(base, other, other) == other


@given(small_texts(), small_texts())
def test_a_far_away_edit_does_not_disturb_the_other_side(base, other):
    """As above, but the early answers for equal texts cannot help."""
    fence = "".join(f"fence {number}\n" for number in range(4))
    base_text, changed = f"top\n{fence}{base}", f"TOP\n{fence}{base}"
    assert merge(base_text, changed, f"top\n{fence}{other}") == f"TOP\n{fence}{other}"
    assert merge(base_text, f"top\n{fence}{other}", changed) == f"TOP\n{fence}{other}"


@given(small_texts(), small_texts(), small_texts())
def test_identical_edits_beside_another_are_never_taken_twice(base, other, more):
    """Lines of a kind can be seen as moved in several ways; then it may also be an overlap."""
    fence = "".join(f"fence {number}\n" for number in range(4))
    old = f"{more}{fence}{base}"
    both = merge(old, f"top\n{more}{fence}{other}", f"{more}{fence}{other}")
    assert both in (f"top\n{more}{fence}{other}", None)


@given(st.permutations("abcdef"), st.permutations("abcdef"), st.integers(0, 6), st.integers(0, 6))
def test_identical_edits_of_different_lines_are_taken_once(one, other, size, other_size):
    base, changed = "\n".join([*one[:size], ""]), "\n".join([*other[:other_size], ""])
    merged = merge(f"top\n#\n{base}", f"TOP\n#\n{changed}", f"top\n#\n{changed}")
    assert merged == f"TOP\n#\n{changed}"


@given(small_texts(), small_texts(), small_texts())
@example("a\n", "x\na\nx\n", "x\n")
def test_no_line_either_side_added_is_lost(base, mine, theirs):
    merged = merge(base, mine, theirs)
    if merged is None:
        return
    have, had = Counter(contents(merged)), Counter(contents(base))
    for side in (mine, theirs):
        assert not Counter(contents(side)) - had - have


@given(small_texts(), small_texts(), small_texts())
def test_every_merged_line_comes_from_somewhere_whole(base, mine, theirs):
    merged = merge(base, mine, theirs)
    if merged is not None:
        known = {*contents(base), *contents(mine), *contents(theirs)}
        assert set(contents(merged)) <= known


@given(small_texts(), small_texts(), small_texts())
def test_whether_two_changes_overlap_does_not_depend_on_whose_they_are(base, mine, theirs):
    assert (merge(base, mine, theirs) is None) == (merge(base, theirs, mine) is None)


@given(small_texts() | ANY_TEXT, small_texts(), small_texts())
def test_an_overlap_is_named_exactly_where_there_is_no_merge(base, mine, theirs):
    overlaps = find_overlaps(base, mine, theirs)
    assert bool(overlaps) == (merge(base, mine, theirs) is None)
    lines = split_lines(theirs)
    for one in overlaps:
        assert one.mine != one.theirs
        assert one.mine in mine
        there = split_lines(one.theirs)
        assert lines[one.line - 1 : one.line - 1 + len(there)] == there


@given(small_texts() | ANY_TEXT, small_texts() | ANY_TEXT, st.integers(0, 60))
def test_changed_lines_are_lines_of_the_new_text_and_all_changes_are_among_them(old, new, most):
    lines = split_lines(new)
    for room in (most, 10**6):
        parts, complete = changed_lines(old, new, most=room)
        assert sum(len(part.text) for part in parts) <= room
        for part in parts:
            there = split_lines(part.text)
            assert lines[part.line - 1 : part.line - 1 + len(there)] == there
    assert complete
    shown = {part.line + n for part in parts for n in range(len(split_lines(part.text)))}
    hidden = Counter(line for number, line in enumerate(lines, 1) if number not in shown)
    assert hidden <= Counter(split_lines(old))


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_merge_never_raises(base, mine, theirs):
    assert isinstance(merge(base, mine, theirs), str | None)


@given(FEW_LINES, FEW_LINES, st.integers(0, 300))
def test_partners_are_equal_and_in_order_whatever_the_budget(first, second, budget):
    found = find_partners(first, second, budget=budget)
    matched = [(index, other) for index, other in enumerate(found) if other != NO_PARTNER]
    assert all(first[index] == second[other] for index, other in matched)
    others = [other for _, other in matched]
    assert others == sorted(set(others))


@given(FEW_LINES)
def test_partners_of_a_text_with_itself_are_itself(lines):
    assert find_partners(lines, lines, budget=0) == list(range(len(lines)))


def longest_common(first, second):
    row = [0] * (len(second) + 1)
    for item in first:
        above = row.copy()
        for index, other in enumerate(second):
            row[index + 1] = (
                above[index] + 1 if item == other else max(above[index + 1], row[index])
            )
    return row[-1]


@given(st.lists(st.sampled_from("ab"), max_size=9), st.lists(st.sampled_from("ab"), max_size=9))
def test_without_unique_lines_the_match_is_as_long_as_possible(first, second):
    doubled, other = first * 2, second * 2
    matched = sum(index != NO_PARTNER for index in find_partners(doubled, other))
    assert matched == longest_common(doubled, other)


TAGS = st.lists(st.sampled_from(["a", "A", "b", "c", "d"]), max_size=4)


@given(TAGS, TAGS, TAGS)
def test_tags_of_one_changed_side_are_that_side_and_additions_survive(base, mine, theirs):
    assert merge_tags(base, mine, base) == tuple(mine)
    merged = {tag.lower() for tag in merge_tags(base, mine, theirs)}
    had = {tag.lower() for tag in base}
    assert {tag.lower() for tag in [*mine, *theirs]} - had <= merged
