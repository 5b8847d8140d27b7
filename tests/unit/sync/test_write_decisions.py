"""What is done with a write, row by row, and what becomes of texts that met."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.conflict_copy import Repair, has_arrived_in_part, settle
from mcp_notarium.domain.merge import merge_content
from mcp_notarium.domain.note import Content, Properties, Revision, Tombstone, WriteKind
from mcp_notarium.sync.write_decisions import (
    DECISIONS,
    Attempt,
    Case,
    Fact,
    Held,
    Step,
    decide,
    held_for_creation,
    held_for_deletion,
    held_for_update,
)

BASE = Content("one\ntwo\nthree\n")
OURS = Content("one\nTWO\nthree\n")


def revision(text, etag="r2"):
    return Revision("n1", etag, Content(text), 1.0, 2.0, b"")


def test_every_reason_is_a_part_of_a_sentence():
    assert all(row.why == row.why.strip() and row.why[0].islower() for row in DECISIONS)


@pytest.mark.parametrize("row", DECISIONS, ids=lambda row: row.why)
def test_no_row_stands_behind_others_that_cover_all_of_its_cases(row):
    facts = [frozenset(some) for n in range(3) for some in itertools.combinations(Fact, n)]
    kinds = [row.kind] if row.kind else [WriteKind.CREATE, WriteKind.UPDATE]
    cases = [Case(kind, row.attempt, row.held, some) for kind in kinds for some in facts]
    assert any(next(r for r in DECISIONS if r.covers(case)) is row for case in cases)


@pytest.mark.parametrize("attempt", [Attempt.FIRST, Attempt.REPEATED])
def test_a_change_is_decided_whatever_the_store_holds(attempt):
    others = {Held.SAME_AGAIN, Held.PART, Held.MET}
    for held in set(Held) - others:
        assert decide(Case(WriteKind.UPDATE, attempt, held))


def test_a_case_that_cannot_occur_is_said_to_have_no_decision():
    with pytest.raises(LookupError, match="no decision"):
        decide(Case(WriteKind.DELETE, Attempt.FOLLOWING, Held.BASE))


def test_a_caller_who_waits_is_asked_and_nobody_else_is():
    refused = {row.attempt for row in DECISIONS if row.step is Step.REFUSE}
    rejected = {row.attempt for row in DECISIONS if row.step is Step.REJECT}
    copied = {row.attempt for row in DECISIONS if row.step is Step.COPY}
    assert refused == {Attempt.FIRST}
    assert rejected == {Attempt.FOLLOWING, Attempt.REPEATED}
    assert copied == {Attempt.REPEATED, Attempt.ANSWERED}


@pytest.mark.parametrize(
    ("head", "held", "text"),
    [
        (revision(OURS.text), Held.OURS, OURS.text),
        (revision(BASE.text, "r1"), Held.BASE, OURS.text),
        (revision("zero\none\ntwo\nthree\n"), Held.MERGEABLE, "zero\none\nTWO\nthree\n"),
        (revision("one\nzwei\nthree\n"), Held.CLASHING, OURS.text),
        (revision("zero\none\nTWO\nthree\n"), Held.OURS, "zero\none\nTWO\nthree\n"),
    ],
)
def test_what_the_store_holds_is_named_against_base_and_write(head, held, text):
    found = held_for_update(head, base=BASE, base_etag="r1", sent=OURS, wanted=OURS)
    assert found == (held, Content(text))


def test_a_change_is_not_merged_into_another_note():
    head = revision("zero\none\ntwo\nthree\n")
    found = held_for_update(head, base=BASE, base_etag="r1", sent=OURS, wanted=OURS, taken=True)
    assert found == (Held.CLASHING, OURS)


def test_a_text_in_the_stores_own_form_is_not_merged():
    wanted = replace(OURS, native="{}")
    head = revision("zero\none\ntwo\nthree\n")
    found = held_for_update(head, base=BASE, base_etag="r1", sent=OURS, wanted=wanted)
    assert found == (Held.CLASHING, wanted)


def test_a_change_whose_base_is_lost_clashes_with_everything_else():
    found, _ = held_for_update(
        revision("zero\n"), base=None, base_etag="r1", sent=OURS, wanted=OURS
    )
    assert found is Held.CLASHING


@pytest.mark.parametrize(
    ("head", "named", "step"),
    [
        (Tombstone("n1"), False, Step.PUSH),
        (Tombstone("n1"), True, Step.PUSH),
        (revision(OURS.text), True, Step.DONE),
        (revision("edited since\n"), False, Step.DONE),
        (revision("somebody else's\n"), True, Step.NEW_ID),
    ],
)
def test_a_repeated_creation_is_ours_if_nobody_else_makes_the_id(head, named, step):
    held = held_for_creation(head, OURS, others=named)
    assert decide(Case(WriteKind.CREATE, Attempt.REPEATED, held)) is step


@pytest.mark.parametrize(
    ("tags", "in_parts", "step"),
    [
        ((), True, Step.PUSH),
        (("b",), True, Step.PUSH),
        (("b", "c"), True, Step.PUSH),
        (("a", "b", "c"), True, Step.DONE),
        ((), False, Step.DONE),
    ],
)
def test_the_tags_of_a_creation_that_broke_off_are_sent_after_it(tags, in_parts, step):
    sent, head = replace(OURS, tags=("a", "b")), replace(OURS, tags=tags)
    found = Revision("n1", "r2", head, 1.0, 2.0, b"")
    held = held_for_creation(found, sent, others=False, in_parts=in_parts)
    assert decide(Case(WriteKind.CREATE, Attempt.REPEATED, held)) is step


@pytest.mark.parametrize(
    ("head", "recognised", "step"),
    [
        (Tombstone("n1"), True, Step.DONE),
        (revision("x", "r1"), True, Step.PUSH),
        (revision("x", "r2"), True, Step.DROP),
        (Tombstone("n1"), False, Step.DONE),
        (revision("x", "r1"), False, Step.DROP),
        (revision("x", "r2"), False, Step.DROP),
    ],
)
def test_a_repeated_deletion_takes_only_what_was_certainly_there_all_the_time(
    head, recognised, step
):
    held = held_for_deletion(head, "r1", recognised=recognised)
    assert decide(Case(WriteKind.DELETE, Attempt.REPEATED, held)) is step


lines = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=4)


def text_of(parts, mark):
    return "".join(f"{line}{mark if index % 2 else ''}\n" for index, line in enumerate(parts))


@settings(max_examples=200, deadline=None)
@given(
    base=lines, ours=lines, displaced=st.none() | lines, held=st.none() | lines, once=st.booleans()
)
def test_no_text_that_met_in_the_store_is_lost(base, ours, displaced, held, once):
    old, sent = Content(text_of(base, "")), Content(text_of(ours, " ours"))
    other = None if displaced is None else Content(text_of(displaced, " displaced"))
    now = sent if held is None else Content(text_of(held, " over it"))
    made = settle(base=old, sent=sent, displaced=other, held=now, once=once)
    kept = [
        made.content,
        *([sent] if made.copies else []),
        *([other] if made.copies_theirs else []),
    ]
    for text in filter(None, (sent, other, now)):
        inserted = set(text.text.splitlines()) - set(old.text.splitlines())
        assert inserted <= set(itertools.chain.from_iterable(c.text.splitlines() for c in kept))


def test_where_two_texts_clash_theirs_stays_in_the_note():
    theirs = Content("one\nzwei\nthree\n")
    assert merge_content(BASE, OURS, theirs) is None
    assert settle(base=BASE, sent=OURS, displaced=theirs, held=OURS) == Repair(theirs, copies=True)
    assert settle(base=BASE, sent=OURS, displaced=None, held=theirs).content == theirs


@pytest.mark.parametrize(
    ("base", "sent", "displaced", "held"),
    [
        ("one two", "one more two", "top one two more", "one more two end"),
        ("one", "one more", "top one more", "one top more"),
        ("one two", "top one two", "one two more", "one more two"),
        ("one two", "one more two", "top one two more", "one more two"),
    ],
    ids=["sent and displaced", "displaced and over it", "displaced and held", "nothing over it"],
)
def test_a_line_that_others_have_brought_too_stands_once_whatever_has_met(
    base, sent, displaced, held
):
    old, ours, other, now = (
        Content(text.replace(" ", "\n") + "\n") for text in (base, sent, displaced, held)
    )
    made = settle(base=old, sent=ours, displaced=other, held=now, once=True)
    words = {*sent.split(), *displaced.split(), *held.split()}
    assert (sorted(made.content.text.split()), made.copies) == (sorted(words), False)


def test_equal_lines_that_two_bring_to_two_places_both_stay():
    """What ours has overwritten is somebody's text, though another one says the same elsewhere."""
    base, theirs = "# A\na\n\n# B\nb\n", "# A\na\n- milk\n\n# B\nb\n"
    plan = settle(
        base=Content(base),
        sent=Content(f"{base}ours\n"),
        displaced=Content(theirs),
        held=Content(f"{base}- milk\n"),
        once=False,
    )
    assert plan.content.text.split("\n# B\n")[0] == "# A\na\n- milk\n"
    assert plan.content.text.count("- milk\n") == 2


@pytest.mark.parametrize("end", ["\ntwo\n", ""])
def test_a_line_that_was_taken_away_goes_from_an_edit_beside_it_that_came_over_ours(end):
    texts = ("one\ngone", "one", "one\ngone\nmore", "one\nmore")
    old, ours, now, both = (Content(text + end) for text in texts)
    assert settle(base=old, sent=ours, displaced=None, held=now) == Repair(both)


def between(tags=("a",), text="one\n", **values):
    return Content(text, tuple(tags), title="T", properties=Properties([]).having(values))


def test_a_note_on_the_way_from_one_state_to_the_other_has_arrived_in_part():
    base = between(tags=("a", "b"), rating="3", people=("Ann", "Ben"))
    sent = between(tags=("a", "c"), rating="4", people=("Ann", "Cem"))
    on_the_way = between(tags=("a", "b", "c"), rating="4", people=("Ann",))
    elsewhere = [
        replace(on_the_way, text="two\n"),
        replace(on_the_way, tags=("a", "d")),
        between(tags=("a", "b"), rating="5", people=("Ann",)),
    ]

    def arrived(stored, *, of=base):
        return has_arrived_in_part(base=of, sent=sent, stored=stored)

    assert arrived(on_the_way)
    assert arrived(base)
    assert not any(map(arrived, elsewhere))
    assert not arrived(on_the_way, of=None)
