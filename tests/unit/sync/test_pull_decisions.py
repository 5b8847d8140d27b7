"""What is decided about one note, one page and one complete listing."""

from itertools import permutations, product

import pytest

from mcp_notarium.domain.note import (
    Content,
    Revision,
    Tombstone,
)
from mcp_notarium.errors import RemoteVanished
from mcp_notarium.stores.contract import Entry
from mcp_notarium.sync.pull_decisions import (
    CHANGES,
    REMOVAL_COUNT,
    Action,
    Confirmed,
    Known,
    LocalState,
    Missing,
    Move,
    RemoteState,
    check_removals,
    deduplicate,
    lags_behind,
    plan,
    plan_sweep,
    told_version,
)

NOBODY = None
HELD = Known("r5", 5)


def revision(version, *, note_id="n", etag=None, text="text"):
    return Revision(
        id=note_id,
        etag=etag or f"r{version}",
        content=Content(text),
        created_at=0.0,
        modified_at=0.0,
        raw=b"{}",
        server_version=version,
    )


def stored(content):
    return Action(Move.STORE, content.id, content)


def replaced(content):
    return Action(Move.REPLACE, content.id, content)


def entry(version, *, note_id="n", etag=None):
    return Entry(note_id, etag or f"r{version}", version)


def test_a_note_nobody_knew_is_stored_or_fetched_if_its_content_is_missing():
    assert plan(NOBODY, revision(1), pending=False) == stored(revision(1))
    assert plan(NOBODY, entry(1), pending=False) == Action(Move.FETCH, "n")


def test_a_tombstone_for_a_note_nobody_knew_does_nothing():
    assert plan(NOBODY, Tombstone("n"), pending=False) == Action(Move.NOTHING, "n")


def test_an_equal_etag_means_there_is_nothing_to_do():
    assert plan(HELD, revision(5, text="whatever it says"), pending=False) == Action(
        Move.NOTHING, "n"
    )
    assert plan(HELD, entry(5), pending=False) == Action(Move.NOTHING, "n")


def test_a_higher_version_is_stored():
    assert plan(HELD, revision(6), pending=False) == stored(revision(6))
    assert plan(HELD, entry(6), pending=False) == Action(Move.FETCH, "n")


def test_a_lower_version_is_never_stored_but_asked_for():
    assert plan(HELD, revision(4), pending=False) == Action(Move.FETCH, "n")


def test_revisions_that_cannot_be_ordered_are_asked_for():
    assert plan(HELD, revision(None, etag="other"), pending=False) == Action(Move.FETCH, "n")
    assert plan(HELD, revision(5, etag="same number, other etag"), pending=False) == Action(
        Move.FETCH, "n"
    )


def test_a_tombstone_removes_a_known_note():
    assert plan(HELD, Tombstone("n"), pending=False) == Action(Move.FORGET, "n")


def test_absence_from_a_listing_removes_nothing_but_asks():
    assert plan(HELD, Missing("n"), pending=False) == Action(Move.FETCH, "n")


@pytest.mark.parametrize(
    "remote",
    [
        revision(6),
        revision(4),
        entry(6),
        Tombstone("n"),
        Missing("n"),
        Confirmed(revision(6), "r5"),
        Confirmed(Tombstone("n"), "r5"),
    ],
)
def test_a_write_in_flight_is_resolved_first_in_every_case(remote):
    assert plan(HELD, remote, pending=True) == Action(Move.RESOLVE, "n")


def test_a_new_note_on_its_way_is_not_taken_from_the_feed_before_its_answer():
    assert plan(NOBODY, revision(1), pending=True) == Action(Move.RESOLVE, "n")


def test_what_a_direct_answer_says_is_adopted_even_if_its_version_is_lower():
    assert plan(HELD, Confirmed(revision(1, etag="made again"), "r5"), pending=False) == stored(
        revision(1, etag="made again")
    )
    assert plan(HELD, Confirmed(Tombstone("n"), "r5"), pending=False) == Action(Move.FORGET, "n")
    assert plan(HELD, Confirmed(revision(5), "r5"), pending=False) == Action(Move.NOTHING, "n")


def test_a_note_made_again_under_the_same_number_is_replaced():
    held = Known("r5", 5, Content("the old note"))
    answer = revision(5, text="the new note")
    assert plan(held, Confirmed(answer, "r5"), pending=False) == replaced(answer)
    same = revision(5, text="the old note")
    assert plan(held, Confirmed(same, "r5"), pending=False) == Action(Move.NOTHING, "n")
    assert plan(held, Confirmed(answer, "r5"), pending=True) == Action(Move.RESOLVE, "n")


def test_a_direct_answer_from_before_our_own_save_is_asked_for_again():
    assert plan(HELD, Confirmed(revision(4), "r4"), pending=False) == Action(Move.FETCH, "n")
    assert plan(HELD, Confirmed(Tombstone("n"), "r4"), pending=False) == Action(Move.FETCH, "n")
    assert plan(HELD, Confirmed(revision(6), "r4"), pending=False) == stored(revision(6))


def test_a_direct_answer_does_not_bring_back_a_note_removed_meanwhile():
    assert plan(NOBODY, Confirmed(revision(4), "r4"), pending=False) == Action(Move.FETCH, "n")
    assert plan(NOBODY, Confirmed(revision(4), None), pending=False) == stored(revision(4))


def test_every_situation_that_can_occur_has_a_row():
    answers = [Tombstone("n"), *(revision(v) for v in (None, 4, 5, 6))]
    remotes = [
        *answers,
        *(entry(v) for v in (None, 4, 5, 6)),
        Missing("n"),
        *(Confirmed(answer, seen) for answer in answers for seen in (None, "r5", "r9")),
    ]
    met = set()
    for known, remote, pending in product((NOBODY, HELD), remotes, (False, True)):
        action = plan(known, remote, pending=pending)
        assert action.id == "n"
        met.add(action.move)
    assert met == set(Move) - {Move.REPLACE}


def test_no_row_of_a_pending_note_touches_the_note():
    moves = {move for (ours, _), (move, _) in CHANGES.items() if ours is LocalState.PENDING}
    assert moves == {Move.RESOLVE, Move.NOTHING}
    assert CHANGES[LocalState.PENDING, RemoteState.SAME][0] is Move.NOTHING


def test_an_answer_older_than_what_made_us_ask_is_not_taken():
    assert lags_behind(revision(5), entry(6))
    assert lags_behind(Tombstone("n"), entry(6))
    assert not lags_behind(revision(6), entry(6))
    assert not lags_behind(revision(7), entry(6))
    assert not lags_behind(revision(1), Missing("n"))
    assert not lags_behind(Tombstone("n"), Missing("n"))
    for told, versions in ((Tombstone("n"), (1, 9)), (revision(4), (1, 3)), (entry(4), (3,))):
        since = Missing("n", told_version(told))
        assert all(lags_behind(revision(version), since) for version in versions)
        assert not lags_behind(Tombstone("n"), since)
    assert not lags_behind(revision(4), Missing("n", told_version(revision(4))))
    assert not lags_behind(revision(None, etag="x"), entry(6))


@pytest.mark.parametrize("order", list(permutations([revision(3), entry(4), revision(2)])))
def test_of_several_statements_about_a_note_the_highest_version_stays(order):
    assert deduplicate(order) == (entry(4),)


def test_of_two_equal_statements_the_one_with_content_stays():
    assert deduplicate([entry(3), revision(3)]) == (revision(3),)
    assert deduplicate([revision(3), entry(3)]) == (revision(3),)


def test_statements_that_contradict_each_other_become_a_question():
    for order in permutations([revision(3), Tombstone("n")]):
        assert deduplicate(order) == (Missing("n"),)
    assert deduplicate([entry(None, etag="a"), entry(None, etag="b")]) == (Missing("n"),)
    assert deduplicate([entry(3, etag="a"), entry(3, etag="b")]) == (Missing("n"),)


def test_a_removal_told_twice_is_one():
    assert deduplicate([Tombstone("n"), Tombstone("n")]) == (Tombstone("n"),)


def test_other_notes_of_a_page_keep_their_place():
    page = [entry(1, note_id="a"), entry(1, note_id="b"), entry(2, note_id="a")]
    assert deduplicate(page) == (entry(2, note_id="a"), entry(1, note_id="b"))


def test_a_sweep_finds_what_changed_and_what_is_missing():
    listed = [entry(1, note_id="same"), entry(2, note_id="newer"), entry(1, note_id="new")]
    changed, missing = plan_sweep({"same": "r1", "newer": "r1", "missing": "r1"}, listed)
    assert changed == (entry(2, note_id="newer"), entry(1, note_id="new"))
    assert missing == (Missing("missing"),)


def test_a_note_listed_twice_in_a_sweep_is_looked_at_once():
    assert plan_sweep({"n": "r2"}, [entry(1), entry(2)]) == ((), ())


@pytest.mark.parametrize(("known", "limit"), [(1, 10), (100, 10), (109, 10), (250, 25)])
def test_the_limit_lets_ten_notes_or_a_tenth_pass(known, limit):
    with pytest.raises(RemoteVanished) as caught:
        check_removals(known, ids(limit + 1), trashed=set(), swept=True)
    assert caught.value.details["limit"] == limit


def ids(count):
    return {f"n{number}" for number in range(count)}


def test_a_sweep_may_miss_as_many_as_the_limit_and_not_one_more():
    check_removals(1000, ids(100), trashed=set(), swept=True)
    with pytest.raises(RemoteVanished) as caught:
        check_removals(1000, ids(101), trashed=set(), swept=True)
    assert caught.value.details == {"known": 1000, "missing": 101, "limit": 100}


def test_an_empty_listing_is_believed_of_a_small_account_only():
    many = REMOVAL_COUNT + 1
    with pytest.raises(RemoteVanished):
        check_removals(many, ids(many), trashed=ids(many), swept=True)
    check_removals(REMOVAL_COUNT, ids(REMOVAL_COUNT), trashed=set(), swept=True)
    check_removals(0, set(), trashed=set(), swept=True)


def test_emptying_the_trash_elsewhere_does_not_stop_a_sweep():
    check_removals(100, ids(60), trashed=ids(60), swept=True)
    with pytest.raises(RemoteVanished):
        check_removals(100, ids(60), trashed=ids(60 - REMOVAL_COUNT - 1), swept=True)


def test_tombstones_may_remove_half_of_the_notes_and_not_more():
    check_removals(100, ids(50), trashed=set(), swept=False)
    check_removals(3, ids(3), trashed=set(), swept=False)
    check_removals(100, ids(90), trashed=ids(60), swept=False)
    with pytest.raises(RemoteVanished):
        check_removals(100, ids(51), trashed=set(), swept=False)
