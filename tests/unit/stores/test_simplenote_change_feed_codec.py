"""The change feed: differences are applied exactly or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_notarium.domain.note import Revision, Tombstone
from mcp_notarium.errors import RemoteVanished, StoreProtocolError
from mcp_notarium.stores.contract import ChangePage, Entry
from mcp_notarium.stores.simplenote.change_feed_codec import (
    MOST_STEPS,
    DoesNotFit,
    apply_to_object,
    changes_from,
)
from mcp_notarium.stores.simplenote.note_codec import revision_from
from notarium_devtools.simperium.changes import object_difference

NO_DEADLINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


# Differences


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ("b", {"o": "d", "v": "=1\t+c"}, "bc"),
        ("x😀y", {"o": "d", "v": "=3\t+z\t=1"}, "x😀zy"),
        ("a\r\n", {"o": "d", "v": "=3\t+%E2%82%AC%0A%25+"}, "a\r\n€\n%+"),
        ("", {"o": "d", "v": "+new"}, "new"),
        ("gone", {"o": "d", "v": "-4"}, ""),
        ("same", {"o": "d", "v": "=4\t"}, "same"),
        ("old", {"o": "r", "v": [1]}, [1]),
        (0, {"o": "r", "v": True}, True),
        (["a", "b"], {"o": "r", "v": []}, []),
    ],
)
def test_difference_is_applied(before: Any, operation: Any, after: Any) -> None:
    source = {"key": before}
    assert apply_to_object(source, {"key": operation}) == {"key": after}
    assert source == {"key": before}


@pytest.mark.parametrize(
    ("before", "operation"),
    [
        ("abc", {"o": "d", "v": "=2\t+x"}),
        ("abc", {"o": "d", "v": "=4"}),
        ("abc", {"o": "d", "v": "=x"}),
        ("abc", {"o": "d", "v": "=-1"}),
        ("abc", {"o": "d", "v": "?3"}),
        ("abc", {"o": "d", "v": 5}),
        ("abc", {"o": "d"}),
        (5, {"o": "d", "v": "+a"}),
        ("x😀y", {"o": "d", "v": "=2\t+z\t=2"}),
        ("x", {"o": "d", "v": "=1\t+%ED%A0%BD"}),
        ("x\ud83d", {"o": "d", "v": "=2\t+y"}),
        (1, {"o": "I", "v": 1}),
        (["a"], {"o": "L", "v": {"0": {"o": "r", "v": "b"}}}),
        (["a", "b"], {"o": "dL", "v": '=4\t-4\t+"c"%0A'}),
        ({"a": 1}, {"o": "O", "v": {"a": {"o": "r", "v": 2}}}),
        ("a", {"o": "?", "v": 1}),
        ("a", {"o": None, "v": 1}),
        ("a", {"o": ["d"], "v": 1}),
        ("a", {"v": 1}),
        ("a", {"o": "+"}),
        ("a", "r"),
    ],
)
def test_difference_that_does_not_fit_is_never_guessed(before: Any, operation: Any) -> None:
    with pytest.raises(DoesNotFit):
        apply_to_object({"key": before}, {"key": operation})


@pytest.mark.parametrize("kind", ["-", "r", "d", "L"])
def test_operation_on_a_missing_key_does_not_fit(kind: str) -> None:
    with pytest.raises(DoesNotFit):
        apply_to_object({}, {"key": {"o": kind, "v": 1}})


VALUES = st.recursive(
    st.booleans() | st.integers(-5, 5) | st.text("ab\r\n😀é\ud83d+%", max_size=12),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["content", "tags", "deleted", "x"]), VALUES)


@NO_DEADLINE
@given(OBJECTS, OBJECTS)
def test_applied_difference_gives_the_very_object_or_nothing(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    try:
        made = apply_to_object(before, object_difference(before, after))
    except DoesNotFit:
        assert "\ud83d" in json.dumps([before, after], ensure_ascii=False)
    else:
        assert json.dumps(made, sort_keys=True) == json.dumps(after, sort_keys=True)


# Pages


NOTE = {"content": "one", "tags": ["t"], "deleted": False, "modificationDate": 1}


def base(version: int, content: str = "one") -> Revision:
    return revision_from("n", NOTE | {"content": content}, version=version)


def change(sv: int | None, ev: int | None, delta: str | None = None, **more: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": "n", "o": "M", "cv": f"cv{ev}", "ccids": ["c"], "clientid": "x"}
    entry |= {} if sv is None else {"sv": sv}
    entry |= {} if ev is None else {"ev": ev}
    entry |= {} if delta is None else {"v": {"content": {"o": "d", "v": delta}}}
    return entry | more


REMOVED: dict[str, Any] = {"id": "n", "o": "-", "cv": "cvx", "sv": 9}


def read(*entries: dict[str, Any], known: Revision | None = None) -> tuple[Any, ...]:
    page = changes_from(list(entries), cursor="cv0", base_of=lambda _: known)
    return page.changes


def test_empty_feed_keeps_the_cursor() -> None:
    assert changes_from([], cursor="cv0", base_of=lambda _: None) == ChangePage((), "cv0")


def test_cursor_is_that_of_the_last_element() -> None:
    page = changes_from(
        [change(1, 2, cv="zz"), change(2, 3, cv="aa")], cursor="cv0", base_of=lambda _: None
    )
    assert page.cursor == "aa"


def test_change_on_the_known_base_comes_out_whole() -> None:
    (news,) = read(change(1, 2, "=3\t+!"), known=base(1))
    assert news == base(2, "one!")


def test_chain_of_changes_comes_out_as_the_last() -> None:
    assert read(change(1, 2, "=3\t+!"), change(2, 3, "=4\t+?"), known=base(1)) == (
        base(3, "one!?"),
    )


def test_chain_with_very_many_steps_is_asked_for_instead_of_followed() -> None:
    """Each step rebuilt the whole text: 50,000 of a note of a megabyte took half a minute."""
    steps = [
        change(number, number + 1, f"={number + 2}\t+!") for number in range(1, MOST_STEPS + 2)
    ]
    assert read(*steps[:-1], known=base(1)) == (base(MOST_STEPS + 1, "one" + "!" * MOST_STEPS),)
    newest = MOST_STEPS + 2
    assert read(*steps, known=base(1)) == (Entry(steps[0]["id"], str(newest), newest),)


def test_change_over_several_versions_is_one_change() -> None:
    assert read(change(1, 5, "=3\t+!"), known=base(1)) == (base(5, "one!"),)


def test_creation_comes_out_whole() -> None:
    operations = {key: {"o": "+", "v": value} for key, value in NOTE.items()}
    assert read(change(None, 1, v=operations)) == (base(1),)


def test_order_and_repetition_of_entries_do_not_matter() -> None:
    one, two = change(1, 2, "=3\t+!"), change(2, 3, "=4\t+?")
    for feed in ([two, one], [one, one, two], [one, two, two], [two, one, two]):
        assert read(*feed, known=base(1)) == (base(3, "one!?"),)


def test_own_change_that_is_known_already_changes_nothing() -> None:
    known = base(2, "one!")
    assert read(change(1, 2, "=3\t+!"), known=known) == (known,)
    assert read(change(1, 2, "=3\t+!"), change(2, 3, "=4\t+?"), known=known) == (base(3, "one!?"),)


@pytest.mark.parametrize(
    ("entries", "known"),
    [
        ([change(1, 2, "=3\t+!")], None),
        ([change(2, 3, "=3\t+!")], base(1)),
        ([change(1, 2, "=9\t+!")], base(1)),
        ([change(1, 2, "=3\t+!"), change(3, 4, "=4\t+?")], base(1)),
        ([change(1, 2)], base(1)),
        ([change(1, 2, v="nonsense")], base(1)),
        ([change(1, 2, o="?")], base(1)),
        ([change(1, 3, "=3\t+!")], base(2)),
        ([change(1, 2, "=3\t+!")], base(5)),
    ],
)
def test_what_does_not_fit_must_be_fetched(entries: list[Any], known: Revision | None) -> None:
    newest = max(entry["ev"] for entry in entries)
    assert read(*entries, known=known) == (Entry("n", str(newest), newest),)


def test_removal_is_a_tombstone() -> None:
    assert read(change(1, 2, "=3\t+!"), REMOVED, known=base(1)) == (Tombstone("n"),)


def test_note_made_again_never_looks_like_the_one_we_hold() -> None:
    created = change(None, 1, v={"content": {"o": "+", "v": "another"}})
    (news,) = read(REMOVED, created, known=base(1))
    assert isinstance(news, Entry)
    assert news.etag != base(1).etag
    assert read(REMOVED, created, known=base(8)) == (Entry("n", "1"),)


def test_creation_of_a_note_we_hold_tells_nothing_about_newer_or_older() -> None:
    created = change(None, 1, v={"content": {"o": "+", "v": "another"}})
    assert read(created, known=base(8)) == (Entry("n", "1"),)


def test_page_has_each_note_once_in_the_order_of_its_newest_change() -> None:
    page = read(change(1, 2), change(1, 2, id="m"), change(2, 3))
    assert [news.id for news in page] == ["m", "n"]


@pytest.mark.parametrize("kind", ["EMPTY", "DROP"])
def test_emptied_bucket_halts(kind: str) -> None:
    with pytest.raises(RemoteVanished):
        read(change(1, 2), {"id": "n", "o": kind, "cv": "c"})


@pytest.mark.parametrize(
    "answer",
    [
        {},
        None,
        "x",
        [5],
        [{"id": "n", "o": "M", "ev": 1, "cv": "c"}, []],
        [{"id": "n", "o": "M", "ev": 2}],
        [{"id": "n", "o": "M", "ev": 2, "cv": 5}],
        [{"id": "n", "o": "M", "ev": 2, "cv": ""}],
        [{"id": "n", "o": "M", "ev": 2, "cv": "c" * 1025}],
    ],
)
def test_strange_feed_is_refused_whole(answer: Any) -> None:
    with pytest.raises(StoreProtocolError):
        changes_from(answer, cursor="cv0", base_of=lambda _: None)


@pytest.mark.parametrize("odd", [5, None, [], {"o": "M", "ev": 1}, {"id": 7, "o": "M", "ev": 1}])
def test_what_is_about_no_note_is_left_out(odd: Any) -> None:
    answer = [odd, {"id": "n", "o": "-", "cv": "c1"}]
    page = changes_from(answer, cursor="c0", base_of=lambda _: None)
    assert (page.changes, page.cursor, page.left_out) == ((Tombstone("n"),), "c1", 1)


@pytest.mark.parametrize("odd", [True, 1.5, -1, "1", [], {}, 10**18])
@pytest.mark.parametrize("field", ["sv", "ev"])
@pytest.mark.parametrize("known", [True, False])
def test_change_without_a_readable_version_is_asked_for(
    odd: Any, field: str, *, known: bool
) -> None:
    """Read as absent, a version it was made from would turn a part of a note into a new note."""
    part = {
        "id": "n",
        "o": "M",
        "sv": 1,
        "ev": 2,
        "v": {"content": {"o": "+", "v": "x"}},
        "cv": "c",
    }
    base = revision_from("n", {}, version=1) if known else None
    page = changes_from([part | {field: odd}], cursor="c0", base_of=lambda _: base)
    (change,) = page.changes
    assert isinstance(change, Entry)


@pytest.mark.parametrize("odd", ["", "..", "x" * 257])
def test_a_note_that_cannot_be_asked_for_is_left_out_and_the_cursor_goes_past_it(odd: str) -> None:
    answer = [
        {"id": "n", "o": "-", "cv": "c1"},
        {"id": odd, "o": "M", "ev": 1, "v": {}, "cv": "c2"},
    ]
    page = changes_from(answer, cursor="c0", base_of=lambda _: None)
    assert (page.changes, page.cursor, page.left_out) == ((Tombstone("n"),), "c2", 1)
    page = changes_from(answer[1:], cursor="c1", base_of=lambda _: None)
    assert (page.changes, page.cursor, page.left_out) == ((), "c2", 1)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["id", "o", "v", "sv", "ev", "cv", "content"]), inner, max_size=6
        )
    ),
    max_leaves=12,
)


@NO_DEADLINE
@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.just("n"), "cv": st.just("c")},
            optional={
                "o": st.sampled_from(["M", "-", "x", None, 5]),
                "sv": st.integers(-1, 3) | ODD,
                "ev": st.integers(-1, 4) | ODD,
                "v": ODD,
            },
        ),
        max_size=4,
    )
    | ODD
)
def test_any_value_is_a_page_or_a_protocol_error(answer: Any) -> None:
    try:
        page = changes_from(answer, cursor="cv0", base_of=lambda _: base(1))
    except StoreProtocolError:
        return
    assert len({news.id for news in page.changes}) == len(page.changes)
